"""Markdown reader: CommonMark with what writers of notes, books and chats add to it, to the blocks of a document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import escape
from textwrap import dedent

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

from voxyard.extraction.document import Block
from voxyard.extraction.emoji_names import emoji
from voxyard.extraction.markup import html_page

_FRONT = re.compile(  # YAML, TOML, JSON, or a title as Pandoc has it
    r"\A\s*(?:(?P<fence>---|\+\+\+)[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*+(?:[\w.\" -]+[:=]|\[)"
    r".*?^(?:(?P=fence)|\.\.\.)[ \t\r]*$"
    r"|\{\s*\"[^\"\n]+\"\s*:.*?^\}[ \t\r]*$|(?:%[^\n]*\n(?:[ \t]+\S[^\n]*\n)*){1,3})",
    re.DOTALL | re.MULTILINE,
)
_CALLOUT = re.compile(r"^(?P<quote>[ >]*>[ \t]*)\[!(?P<kind>\w+)\][-+]?[ \t]*(?P<title>[^\n]*)$", re.MULTILINE)
_ADMONITION = re.compile(
    r"^(?:!!!|\?\?\?\+?)[ \t]+(?P<kind>\w+)[^\n\"]*(?:\"(?P<title>[^\"\n]*)\")?[ \t]*\n"
    r"(?P<text>(?:(?: {4}|\t)[^\n]*(?:\n|\Z)|[ \t]*\n)*)",
    re.MULTILINE,
)
_TASK = re.compile(r"^(?P<item>[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+)\[[- xX/>!?]\][ \t]+", re.MULTILINE)
_LINE = re.compile(  # a place for contents or a new page, and what an abbreviation stands for
    r"^[ \t]*(?:\[\[?_?toc_?\]\]?|\{:[ \t]*toc[ \t]*\}|\\(?:newpage|pagebreak|clearpage)|\*\[[^\]\n]+\]:[^\n]*)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_BESIDE_TEXT = re.compile(  # shortcodes of site makers, attributes, what an editor deletes and remarks
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).{1,1000}?(?<!`)(?P=ticks)(?!`))|\{\{<[^<>{}]{0,300}>\}\}|\{\{?%[^{}%]{0,300}%\}\}?"
    r"|\{:[^{}\n]{0,300}\}|(?<=[\])])\{[^{}\n]{1,300}\}|\{--.{0,1000}?--\}|\{>>.{0,1000}?<<\}"
    r"|\{(?P<sign>\+\+|==)(?P<kept>.{0,1000}?)(?P=sign)\}|\{~~.{0,1000}?~>(?P<new>.{0,1000}?)~~\}",
    re.DOTALL,
)
_SPAN = re.compile(r"(?<!!)\[(?P<text>[^\[\]\n]{1,300})\]\{[.#:][^{}\n]*\}")
_FENCE = re.compile(r"^[ \t]*:{3,}[^\n]*$", re.MULTILINE)  # of a block that Pandoc and others mark: ::: warning
_CODE_LINE = re.compile(  # of a page that has parts of a program: import Chart from "./chart"
    r"^(?:import\s[^\n]*?(?:\sfrom\s+)?[\"'][^\"'\n]+[\"'];?|export\s+(?:const|let|default)\s[^\n]*[;})])[ \t]*$",
    re.MULTILINE,
)
_RULE_ABOVE = re.compile(r"(?:\A|\n[ \t]*\n)[ \t]*={3,}[ \t]*(?:\n|\Z)")  # a line of a banner, no heading's
_TEX_BLOCK = re.compile(r"^[ \t]*\\\[(?P<tex>(?:(?!\\\]).){1,1000})\\\][ \t]*$", re.DOTALL | re.MULTILINE)
_TEX_SIGN = re.compile(r"[\\^_=]")
_TEX = re.compile(r"\\\((?P<tex>[^\n]{1,300}?)\\\)")
_EMBEDDED = re.compile(r"!\[\[[^\[\]\n]{1,300}\]\]")
_WIKI_LINK = re.compile(r"\[\[(?P<target>[^\[\]|\n]{1,300})(?:\|(?P<words>[^\[\]\n]{0,300}))?\]\]")
_COMMENT = re.compile(r"(?<![\w%])%%(?!%).{0,500}?%%(?![\w%])", re.DOTALL)
_BLOCK_NAME = re.compile(r"\s\^[A-Za-z0-9-]{4,}$")
_MARKED = re.compile(r"(?<![=|\w])(?P<sign>==|\|\|)(?=[^\s=|]).{1,1000}?(?<=[^\s=|])(?P=sign)(?![=|\w])", re.DOTALL)
_MARKS = re.compile(r"(?<![=|\w])(?:==|\|\|)(?=[^\s=|]|$)|(?:(?<=[^\s=|])|^)(?:==|\|\|)(?![=|\w])")
_REFERENCE = re.compile(r"\[\^[\w-]{1,50}\]|[ \t]?\[-?@[^\[\]\n]{1,200}\]")  # to a note that there is not, or a source
_SHORTCODE = re.compile(r"(?<![\w:]):(?P<name>[a-z0-9_+-]*[a-z1][a-z0-9_]*):(?![\w:])")
_ATTRIBUTES = re.compile(r"(?:\s+#+)?\s*\{(?:[#.:][^{}\n]*|-)\}\s*$")  # of a heading: {#storm .unnumbered}


def _formula(formula: str, options: Mapping[str, object]) -> str:
    """A formula in a line without its signs; one that stands apart is left out, as code is."""
    return "" if options.get("display_mode") else escape(formula)


def _as_meant(state: StateCore) -> None:
    """Puts the words of links within a wiki for these, and leaves out embedded files, comments, names of blocks."""
    for before, token in zip([None, *state.tokens], state.tokens, strict=False):
        if token.type != "inline" or not token.children:
            continue
        if _COMMENT.fullmatch(token.content.strip()):
            token.children = []
            continue
        texts = [child for child in token.children if child.type == "text"]
        is_marked = _MARKED.search(token.content) is not None
        for text in texts:
            content = _COMMENT.sub("", _EMBEDDED.sub("", text.content))
            text.content = _SHORTCODE.sub(
                lambda found: emoji(found["name"]) or found[0], _REFERENCE.sub("", _WIKI_LINK.sub(_words, content))
            )
            if is_marked:
                text.content = _MARKS.sub("", text.content)
        if texts and texts[-1] is token.children[-1]:
            own = _BLOCK_NAME.sub("", texts[-1].content)
            texts[-1].content = (
                _ATTRIBUTES.sub("", own) if before is not None and before.type == "heading_open" else own
            )


def _words(link: re.Match[str]) -> str:
    return (link["words"] or link["target"].replace("#", " ").replace("^", "")).strip()


_MARKDOWN = (
    MarkdownIt("commonmark", {"html": True})
    .enable(["table", "strikethrough"])
    .use(deflist_plugin)
    .use(footnote_plugin)
    .use(sub_plugin)
    .use(superscript_plugin)
    .use(dollarmath_plugin, allow_space=False, allow_digits=False, renderer=_formula)
)
_MARKDOWN.core.ruler.push("as_meant", _as_meant)


def markdown_blocks(text: str, *, max_characters: float = math.inf) -> list[Block]:
    """Blocks of a Markdown text: CommonMark, tables, task lists, formulas, callouts, footnotes, which come last.

    Of links within a wiki the words are read, and raised and lowered text, marks and names of emoji are what they mean.
    Left out: front matter, comments, attributes, sources, shortcodes of site makers, what an editor deleted, embedded
    files, and formulas that stand apart.

    Raises:
        UnreadableFileError: nested too deeply.
        TextTooLongError: far more than `max_characters`.
    """
    return list(html_page(_MARKDOWN.render(_plain_markdown(text)), max_characters=max_characters).blocks)


def _block(found: re.Match[str]) -> str:
    """A formula that stands apart; brackets around words are brackets."""
    return f"\n$$\n{found['tex'].strip()}\n$$\n" if _TEX_SIGN.search(found["tex"]) else found[0]


def named_in_front(text: str, name: str) -> str | None:
    """Title or author in the front matter of a Markdown text; None without one."""
    front = _FRONT.match(text)
    if front is None:
        return None
    if front[0].lstrip().startswith("%"):
        lines = [line.strip(" \t%") for line in re.split(r"\n(?=%)", front[0].strip())]
        return dict(zip(("title", "author"), lines, strict=False)).get(name) or None
    found = re.search(rf"^[ \t]*\"?{name}\"?[ \t]*[:=][ \t]*(.+?),?[ \t\r]*$", front[0], re.MULTILINE)
    return found[1].strip("\"'") or None if found else None


def _called(found: re.Match[str]) -> str:
    """A callout's title as a paragraph, or its kind before its text."""
    quote, title = found["quote"], found["title"]
    return f"{quote}{title}\n{quote}" if title else f"{quote}{found['kind'].capitalize()}:"


def _admonition(found: re.Match[str]) -> str:
    text = dedent(found["text"].expandtabs(4))
    return f"{found['title']}\n\n{text}" if found["title"] else f"{found['kind'].capitalize()}: {text.lstrip()}"


def _plain_markdown(text: str) -> str:
    """CommonMark of a text with what others add to it."""
    text = _LINE.sub("", _TASK.sub(r"\g<item>", _FRONT.sub("", text.replace("\r\n", "\n"))))
    text = _RULE_ABOVE.sub("\n\n", _CODE_LINE.sub("", text))
    text = _FENCE.sub("", _ADMONITION.sub(_admonition, _CALLOUT.sub(_called, text)))
    text = _BESIDE_TEXT.sub(
        lambda found: found["code"] or found["kept"] or found["new"] or "", _SPAN.sub(r"\g<text>", text)
    )
    return _TEX.sub(lambda found: f"${found['tex'].strip()}$", _TEX_BLOCK.sub(_block, text))
