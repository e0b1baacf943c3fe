"""Markdown reader: CommonMark with what writers of notes, books and chats add to it, to the blocks of a document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from voxyard.extraction.document import Block
from voxyard.extraction.markup import html_page

_TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n.*?^\+\+\+[ \t]*$", re.DOTALL | re.MULTILINE)
_FRONT = re.compile(r"\A(?P<fence>---|\+\+\+)[ \t]*\r?\n.*?^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_CALLOUT = re.compile(r"^([ >]*>[ \t]*)\[!(\w+)\][-+]?[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*:{3,}[^\n]*$", re.MULTILINE)  # of a block that Pandoc and others mark: ::: warning
_TEX_BLOCK = re.compile(r"^[ \t]*\\\[(?P<tex>(?:(?!\\\]).){1,1000})\\\][ \t]*$", re.DOTALL | re.MULTILINE)
_TEX_SIGN = re.compile(r"[\\^_=]")
_TEX = re.compile(r"\\\((?P<tex>[^\n]{1,300}?)\\\)")
_EMBEDDED = re.compile(r"!\[\[[^\[\]\n]{1,300}\]\]")
_WIKI_LINK = re.compile(r"\[\[(?P<target>[^\[\]|\n]{1,300})(?:\|(?P<words>[^\[\]\n]{0,300}))?\]\]")
_COMMENT = re.compile(r"(?<![\w%])%%(?!%).{0,500}?%%(?![\w%])", re.DOTALL)
_BLOCK_NAME = re.compile(r"\s\^[A-Za-z0-9-]{4,}$")
_MARKED = re.compile(r"==(?=\S)(?P<text>[^=\n]{1,300}?)(?<=\S)==")
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
        for text in texts:
            content = _COMMENT.sub("", _EMBEDDED.sub("", text.content))
            text.content = _MARKED.sub(r"\g<text>", _WIKI_LINK.sub(_words, content))
        if texts and texts[-1] is token.children[-1]:
            end = _ATTRIBUTES if before is not None and before.type == "heading_open" else _BLOCK_NAME
            texts[-1].content = end.sub("", texts[-1].content)


def _words(link: re.Match[str]) -> str:
    return (link["words"] or link["target"].replace("#", " ").replace("^", "")).strip()


_MARKDOWN = (
    MarkdownIt("commonmark", {"html": True})
    .enable(["table", "strikethrough"])
    .use(deflist_plugin)
    .use(footnote_plugin)
    .use(front_matter_plugin)
    .use(tasklists_plugin)
    .use(dollarmath_plugin, allow_space=False, allow_digits=False, renderer=_formula)
)
_MARKDOWN.core.ruler.push("as_meant", _as_meant)


def markdown_blocks(text: str, *, max_characters: float = math.inf) -> list[Block]:
    """Blocks of a Markdown text: CommonMark, tables, task lists, formulas, callouts, footnotes, which come last.

    Of links within a wiki the words are read. Left out: front matter, comments, attributes of headings, embedded files,
    and formulas that stand apart.

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
    found = re.search(rf"^{name}[ \t]*[:=][ \t]*(.+?)[ \t]*$", front[0], re.MULTILINE) if front else None
    return found[1].strip("\"'") or None if found else None


def _plain_markdown(text: str) -> str:
    """CommonMark of a text with front matter in TOML, callouts such as `> [!NOTE]`, formulas in TeX's brackets."""
    text = _FENCE.sub("", _CALLOUT.sub(lambda found: f"{found[1]}{found[2].capitalize()}:", _TOML.sub("", text)))
    return _TEX.sub(lambda found: f"${found['tex'].strip()}$", _TEX_BLOCK.sub(_block, text))
