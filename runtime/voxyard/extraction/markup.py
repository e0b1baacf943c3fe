"""HTML and XHTML reader: a page's markup to the blocks of a document, read by lxml."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from lxml import etree, html

from voxyard.extraction.around import hide_around, is_page_number
from voxyard.extraction.document import (
    Block,
    Code,
    HeadingBlock,
    ListItem,
    Paragraph,
    SceneBreak,
    TableRow,
    in_language,
    within,
)
from voxyard.extraction.epub_contents import entered
from voxyard.extraction.errors import UnreadableFileError
from voxyard.extraction.mathml import spoken_formula
from voxyard.extraction.page_text import text_of_page
from voxyard.extraction.preformatted import OF_CODE, is_code, prose
from voxyard.extraction.raised import raised
from voxyard.extraction.symbol_fonts import as_drawn, is_symbol_font

MAX_DEPTH = 200
"""Deepest nesting of elements that is read; what lies deeper is refused."""

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset((
    *_HEADINGS, "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li",
    "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
))  # fmt: skip
_SILENT = frozenset((
    "audio", "button", "canvas", "del", "embed", "footer", "head", "iframe", "img", "input", "map", "nav", "noscript",
    "object", "picture", "rp", "rt", "script", "select", "style", "svg", "template", "textarea", "title", "video",
))  # fmt: skip
_SILENT_ROLES = frozenset(
    (
        "alertdialog",
        "dialog",
        "navigation",
        "search",
        "doc-toc",
        "doc-pagelist",
        "doc-index",
        "doc-backlink",
        "doc-noteref",
    )
)
_SILENT_TYPES = frozenset(("toc", "landmarks", "page-list", "noteref", "loi", "lot", "backlink"))
_SILENT_CLASSES = frozenset(  # navigation of Sphinx and of DocBook's style sheets
    (
        "headerlink",
        "navfooter",
        "navheader",
        "page-number",
        "pageno",
        "pagenum",  # of the printed book, at Project Gutenberg
        "pagenumber",
        "related",
        "sphinxsidebar",
        "toc",
        "toctree-wrapper",
    )
)
_MARKS = frozenset("¶#§↩↑^\u21a9\ufe0e")  # text of links that only lead somewhere
_NOTE_NUMBER = re.compile(r"\s*[\[(]?\s*(?:\d{1,4}|[*†‡a-z])\s*[\])]?\.?\s*", re.IGNORECASE)
_NOTE_CLASS = re.compile(r"\b(?:fnanchor|footnote|endnote|noteref|fnref)", re.IGNORECASE)
_OTHER_TARGET = re.compile(r"#_?(?:fig|tab|eq|sec|chap|ch|part|step|item|line|page)[a-z]*[._:-]?\d*", re.IGNORECASE)
_ENDS_OF_WORDS = ".,;:!?…。、！？\"'”’»)」』"
_ROWS = ("thead", "tbody", "tfoot")
_OF_NOTES = re.compile(r"note|reference|citation|toc|nav", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_BREAK = "\u2028"  # a `br`, in a line whose other ends of lines are blanks
_BREAKS = re.compile(rf"[ \u00a0]*{_BREAK}[ \u00a0]*")
_BEFORE_STOP = re.compile(r"(?<=[^\W\d_]) (?=[.,](?:\s|$)(?!\s*[.,]))")  # of elements on lines of their own
_LINE_ENDS = re.compile(r"\n+")
_EMPTY_LINES = re.compile(r"\n{2,}")
_LEFT_OF_MARK = re.compile(r"[.:)\]]\s+")  # at the beginning of a note
_LEVELS_OF_NOTES = 2  # between the number of a note and what is named one
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_INLINE = re.compile(r"display\s*:\s*inline(?![\w-])", re.IGNORECASE)
_FONT = re.compile(r"font-family\s*:\s*[\"']?([A-Za-z][\w ]*)", re.IGNORECASE)
_CONSENT = re.compile(r"\b(?:cookie|gdpr)s?[-_]?(?:banner|bar|consent|dialog|modal|notice|popup)\b", re.IGNORECASE)
_NO_BREAK = "\u00a0"
_SCENE_BREAK = re.compile(
    r"(?:^|[\s_-])(?:scene|section|space|thought|text|line)?[-_]?(?:break|brk)(?:$|[\s\d])|"
    r"(?:^|\s)(?:tb|asterism|ornament|dinkus|separator)(?:$|[\s\d-])",
    re.IGNORECASE,
)
# Within a tag that directs the voice: a blank after its first sign makes a text of it.
_TAG = re.compile(r"(?<=\[)(?=(?:/[ \t]*)?(?:voice|pause|break|silence)\b)|(?<=<)(?=(?:speak|break)\b)", re.IGNORECASE)
_EASTERN = "\u2e80"  # the first of the signs of Chinese and Japanese
_EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"
_MAIN = ".//main|.//*[@role='main']"
_AUTHORS = ("author", "dc.creator", "dcterms.creator")


@dataclass(frozen=True)
class HtmlPage:
    """Contents of an HTML page: its blocks, and what it says of itself."""

    title: str | None
    author: str | None
    language: str | None
    blocks: tuple[Block, ...]


def html_page(
    markup: str | bytes,
    *,
    max_characters: float = math.inf,
    places: Mapping[str, HeadingBlock] | None = None,
    linked: Callable[[str], str] | None = None,
) -> HtmlPage:
    """Title, authors, language and blocks of an HTML or XHTML page; bytes are decoded as it declares, else as detected.

    Of a page with one `main`, only that is read. Left out: scripts, styles, forms, navigation, footers, images, hidden
    elements, links that are marks of notes or headings, and lists of links to the page's places. `places` are the
    chapters of a book that begin at elements, by their ids; a heading there is the chapter itself. `linked` is the text
    of a style sheet by its reference.

    Raises:
        UnreadableFileError: nothing in it can be read as HTML, or it is nested too deeply.
        TextTooLongError: far more than `max_characters`.
    """
    root = _parsed(markup)
    hide_around(root, of_book=places is not None, linked=linked)
    title = root.findtext(".//head/title")
    main = root.xpath(_MAIN)
    body = main[0] if len(main) == 1 else root.find(".//body")
    found = tuple(within(_Walk(root, places or {}).blocks(root if body is None else body), max_characters))
    named = (meta for meta in root.iter("meta") if meta.get("name", "").lower() in _AUTHORS)
    authors = dict.fromkeys(" ".join(meta.get("content", "").split()) for meta in named)
    return HtmlPage(
        title=(" ".join(title.split()) or None) if title else None,
        author=", ".join(filter(None, authors)) or None,
        language=(None if body is None else _language(body)) or _language(root),
        blocks=found,
    )


def _parsed(markup: str | bytes) -> html.HtmlElement:
    text = text_of_page(markup)
    data = text.encode("utf-8", "surrogatepass")
    parser = html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = html.document_fromstring(data, parser=parser)
    except etree.ParserError:  # lxml's word for a page without an element
        return html.document_fromstring("<html></html>")
    except (etree.XMLSyntaxError, ValueError, AssertionError) as error:
        raise UnreadableFileError(
            f"broken HTML ({error}): open it in a browser, save it again and send that"
        ) from error
    _check_depth(root)
    return root


def _check_depth(root: html.HtmlElement) -> None:
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH:
            raise UnreadableFileError(
                f"its elements are nested deeper than {MAX_DEPTH}: save its text as TXT and send that"
            )


class _Walk:
    """Walk over a page's elements that yields its blocks; takes time in proportion to the page."""

    def __init__(self, root: html.HtmlElement, places: Mapping[str, HeadingBlock]) -> None:
        self._with_blocks = _elements_around(root, _BLOCKS)
        self._layout = _elements_around(root, frozenset(["table"]))
        self._places = dict(places)  # that are not reached yet
        self._chapter: HeadingBlock | None = None  # that begins with the next block
        self._numbers: dict[html.HtmlElement, str] = {}  # of the items of ordered lists

    def blocks(self, parent: html.HtmlElement, item: bool = False) -> Iterator[Block]:
        """Blocks within an element; loose text between them is a paragraph, or an item where `item` says so."""
        line: list[str] = [parent.text or ""]
        for child in parent:
            if self._places:
                self._reach(child)
            if not _is_silent(child):
                if self._is_block(child):
                    yield from self._flush(line, item)
                    yield from self._block(child, item)
                else:
                    line.append(self._within_line(child, line))
            else:
                line.append(_drop_cap(child))
            line.append(child.tail or "")
        yield from self._flush(line, item)

    def _within_line(self, element: html.HtmlElement, line: list[str]) -> str:
        """Text of an element in a line, by what stands before it."""
        text = self._inline(element)
        return raised("".join(line[-3:]), text) if element.tag == "sup" else text

    def _flush(self, line: list[str], item: bool) -> Iterator[Block]:
        whole = _folded("".join(line))
        line.clear()
        if (left := _LEFT_OF_MARK.match(whole)) is not None:
            whole = whole[left.end() :]
        for text in filter(None, _EMPTY_LINES.split(whole)):
            chapter, self._chapter = self._chapter, None
            yield ListItem(text) if item and chapter is None else Paragraph(text, chapter)

    def _block(self, element: html.HtmlElement, item: bool) -> Iterator[Block]:
        """Blocks of an element, in the language that it declares, or the one element that holds all of its text."""
        language, inner = _language(element), element
        while language is None and len(inner) == 1 and not f"{inner.text or ''}{inner[0].tail or ''}".strip():
            inner = inner[0]
            language = _language(inner)
        for block in self._blocks_of(element, item):
            yield in_language(block, language)

    def _blocks_of(self, element: html.HtmlElement, item: bool) -> Iterator[Block]:
        tag = element.tag
        if tag in _HEADINGS:
            if text := _LINE_ENDS.sub(" ", _folded(self._inline(element))):
                entry, self._chapter = self._chapter, None
                yield HeadingBlock(text, _HEADINGS[tag]) if entry is None else entered(text, _HEADINGS[tag], entry)
        elif tag == "hr" or _is_scene_break(element):
            if not _is_of_notes(element):
                yield SceneBreak()
        elif tag == "p" and element.text == _NO_BREAK and not len(element):
            yield SceneBreak(weak=True)
        elif tag == "pre":
            for line_end in element.iter("br"):
                line_end.tail = f"\n{line_end.tail or ''}"
            if (text := element.text_content()).strip():
                yield from [Code(text)] if is_code(element) else map(Paragraph, prose(text).split("\n\n"))
        elif tag == "table" and element.get("role") != "presentation" and element not in self._layout:
            yield from self._table(element)
        elif tag == "p" and element not in self._with_blocks:
            yield from self._flush([self._inline(element)], item)
        else:
            if tag == "ol" and not _is_of_notes(element):
                self._numbers.update(_numbers(element))
            found = self.blocks(element, item or tag == "li")
            yield from _numbered(found, self._numbers.pop(element, ""))

    def _reach(self, element: html.HtmlElement) -> None:
        """Notes the chapter that begins at an element, or within one whose text is one block."""
        inside = element.iter() if not self._is_block(element) or element not in self._with_blocks else [element]
        for each in inside:
            self._chapter = self._places.pop(each.get("id") or each.get("name") or "", self._chapter)

    def _table(self, table: html.HtmlElement) -> Iterator[Block]:
        for caption in table.iterchildren("caption"):
            yield from self.blocks(caption)
        header: tuple[str, ...] = ()
        taken: dict[int, int] = {}  # columns that cells above take, and in how many rows
        for row in table.iter("tr", *_ROWS):
            if row.tag in _ROWS and row.find("td") is None and row.find("th") is None:
                continue  # but for cells without a row of their own
            cells = [cell for cell in row.iterchildren("td", "th") if not _is_silent(cell)]
            texts = self._in_columns(cells, taken, len(header))
            if any(cell in self._with_blocks and len(list(self.blocks(cell))) > 1 for cell in cells):
                for cell in cells:
                    yield from self.blocks(cell)
                continue
            titles = "thead" in (row.tag, row.getparent().tag) or all(cell.tag == "th" for cell in cells)
            if titles and not header and len(cells) > 1 and any(texts):
                header = texts
                yield TableRow(texts, titles=True)
            elif any(texts):
                yield TableRow(texts, header if len(header) == len(texts) else ())

    def _in_columns(self, cells: list[html.HtmlElement], taken: dict[int, int], columns: int) -> tuple[str, ...]:
        """Texts of a row's cells by columns, empty where a cell is wider than one or comes down from above."""
        found: list[str] = []

        def skip() -> None:
            while taken.get(len(found), 0) > 0:
                taken[len(found)] -= 1
                found.append("")

        for cell in cells:
            skip()
            wide, high = min(_span(cell, "colspan"), max(columns - len(found), 1)), _span(cell, "rowspan")
            taken.update(dict.fromkeys(range(len(found), len(found) + wide), high - 1))
            found += [_LINE_ENDS.sub(" ", _folded(self._inline(cell))), *[""] * (wide - 1)]
        skip()
        return tuple(found)

    def _inline(self, element: html.HtmlElement) -> str:
        """Text of an element without what is silent in it."""
        if element.tag == "br":
            return _BREAK
        if element.tag == "q":
            return f"“{''.join(self._parts(element))}”"
        if element.tag == "math":
            return spoken_formula(element)
        text = "".join(self._parts(element))
        font = _FONT.search(f"{element.get('style') or ''};font-family:{element.get('face') or ''}")
        if font is not None and is_symbol_font(font[1]):
            text = as_drawn(text, font[1])
        return _TAG.sub(" ", text) if element.tag in OF_CODE else text

    def _parts(self, element: html.HtmlElement) -> list[str]:
        parts = [element.text or ""]
        for child in element:
            tail = child.tail or ""
            if not _is_silent(child):
                parts.append(f" {self._inline(child)} " if self._is_block(child) else self._within_line(child, parts))
            elif parts[-1].endswith("[") and tail.startswith("]"):  # around the mark of a note
                parts[-1], tail = parts[-1][:-1], tail[1:]
            else:
                parts.append(_drop_cap(child))
            parts.append(tail)
        return parts

    def _is_block(self, element: html.HtmlElement) -> bool:
        if element.tag == "div" and _INLINE.search(element.get("style") or ""):
            return element in self._with_blocks
        return element.tag in _BLOCKS or element in self._with_blocks


def _language(element: html.HtmlElement) -> str | None:
    """Language that an element declares: `lang`, and `xml:lang` in XHTML."""
    return (element.get("lang") or element.get("xml:lang") or "").strip() or None


def _is_scene_break(element: html.HtmlElement) -> bool:
    """True for an empty block that is named a break, perhaps with an ornament."""
    named = _SCENE_BREAK.search(element.get("class") or "") is not None
    return named and not element.text_content().strip() and next(element.iter("br", "p", "div"), element) is element


def _is_of_notes(element: html.HtmlElement) -> bool:
    """True for a list of notes, whose marks are silent in the text."""
    around = [each for each in (element, element.getparent()) if each is not None]
    names = ("class", "role", "id", _EPUB_TYPE, "epub:type")
    named = " ".join(each.get(name) or "" for each in around for name in names)
    return _OF_NOTES.search(named) is not None


def _numbers(items: html.HtmlElement) -> Iterator[tuple[html.HtmlElement, str]]:
    """Items of an ordered list with their numbers, or their letters where its type says so."""
    number, letters = _whole(items.get("start")) or 1, items.get("type") in ("a", "A")
    for item in items.iterchildren("li"):
        number = _whole(item.get("value")) or number
        yield item, chr(ord(items.get("type")) + number - 1) if letters and 1 <= number <= 26 else str(number)
        number += 1


def _whole(value: str | None) -> int | None:
    return int(value) if value and value.isascii() and value.isdecimal() and len(value) < 6 else None


def _numbered(blocks: Iterator[Block], number: str) -> Iterator[Block]:
    """The blocks of an item, of which the first that is text begins with its number."""
    for block in blocks:
        if number and isinstance(block, (ListItem, Paragraph)):
            yield replace(block, text=f"{number}. {block.text}")
            number = ""
        else:
            yield block


def _elements_around(root: html.HtmlElement, tags: frozenset[str]) -> set[html.HtmlElement]:
    """Elements with one of these tags somewhere within them."""
    found: set[html.HtmlElement] = set()
    for inner in root.iter(*tags):
        above = inner.getparent()
        while above is not None and above not in found:
            found.add(above)
            above = above.getparent()
    return found


def _span(cell: html.HtmlElement, name: str) -> int:
    value = cell.get(name, "1").strip()
    return max(int(value), 1) if value.isdecimal() and len(value) < 6 else 1


def _folded(text: str) -> str:
    return _BEFORE_STOP.sub("", _BREAKS.sub("\n", _BLANKS.sub(" ", text))).strip()


def _is_silent(element: html.HtmlElement) -> bool:
    if not isinstance(element.tag, str) or (element.tag in _SILENT and not _is_word_of_sentence(element)):
        return True
    if (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") in _SILENT_ROLES
        or _UNSEEN.search(element.get("style") or "")
        or _CONSENT.search(f"{element.get('id') or ''} {element.get('class') or ''}")
    ):
        return True
    if not _SILENT_CLASSES.isdisjoint((element.get("class") or "").split()):
        return True
    kinds = (element.get(_EPUB_TYPE) or element.get("epub:type") or "").split()
    if not _SILENT_TYPES.isdisjoint(kinds):
        return True
    if "pagebreak" in kinds or element.get("role") == "doc-pagebreak":
        return is_page_number(element.text_content())  # else the first words of the page
    return element.tag in ("a", "sup") and _is_mark(element)


def _is_word_of_sentence(element: html.HtmlElement) -> bool:
    """True for a button within the words of a paragraph, which explains some of them."""
    parent, before = element.getparent(), element.getprevious()
    text = parent.text if before is None and parent is not None else before.tail if before is not None else ""
    within = element.tag == "button" and parent is not None and parent.tag == "p"
    return within and (text or "")[-2:].strip().isalpha() and (element.tail or "")[:2].strip().isalpha()


def _drop_cap(element: html.HtmlElement) -> str:
    """The letter that an image draws at the beginning of a word, or for want of a sign; "" for all else."""
    letter = (element.get("alt") or "").strip() if element.tag == "img" else ""
    if len(letter) != 1 or not letter.isalpha():
        return ""
    return letter if letter >= _EASTERN or (element.tail or "")[:1].isalpha() else ""


def _follows_text(element: html.HtmlElement) -> bool:
    """True where text stands directly before an element, without a blank."""
    before, parent = element.getprevious(), element.getparent()
    text = before.tail if before is not None else parent.text if parent is not None else None
    text = (text or "").removesuffix("[")
    return bool(text.strip()) and (text[-1].isalnum() or text[-1] in _ENDS_OF_WORDS)


def _begins_note(element: html.HtmlElement) -> bool:
    """True for the first of a paragraph in an element that is named a note, or a list of them."""
    parent = element.getparent()
    if parent is None or element.getprevious() is not None or (parent.text or "").strip():
        return False
    return any(_is_of_notes(each) for each in islice(element.iterancestors(), _LEVELS_OF_NOTES))


def _is_mark(element: html.HtmlElement) -> bool:
    """True for a link to a note or a heading, whose text is a number or a sign, and for the number before a note."""
    text = element.text_content().strip()
    link = element if element.tag == "a" else next((a for a in element.iter("a") if a.get("href")), None)
    if link is None and element.tag == "sup" and _begins_note(element):
        return _NOTE_NUMBER.fullmatch(text) is not None
    if link is None or "#" not in (link.get("href") or ""):
        return False
    if text and all(letter in _MARKS for letter in text):
        return True
    if not text and next(element.iter("img"), None) is not None:  # a picture of a mark
        return True
    is_note = (
        element.tag == "sup"
        or link.find(".//sup") is not None
        or _NOTE_CLASS.search(link.get("class") or "") is not None
        or (_OTHER_TARGET.search(link.get("href")) is None and (_follows_text(element) or _begins_note(element)))
    )
    return is_note and _NOTE_NUMBER.fullmatch(text) is not None
