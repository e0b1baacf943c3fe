"""DOCX reader: paragraphs in document order, including tables, text boxes and notes."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import OpcError
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml

from voxyard.extraction.archive import broken
from voxyard.extraction.document import (
    Block,
    HeadingBlock,
    ListItem,
    Paragraph,
    ParsedDocument,
    TableRow,
    parsed,
    within,
)
from voxyard.extraction.docx_archive import sanitized
from voxyard.extraction.docx_formula import FORMULA, spoken_omml
from voxyard.extraction.docx_numbering import list_numbers
from voxyard.extraction.docx_styles import BODY_LEVEL, DocxStyle, docx_styles, is_on, outline
from voxyard.extraction.raised import raised
from voxyard.extraction.silent import LEADERS
from voxyard.extraction.symbol_fonts import as_drawn, is_symbol_font

if TYPE_CHECKING:
    from docx.document import Document
    from docx.oxml.xmlchemy import BaseOxmlElement

_W = f"{{{nsmap['w']}}}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_SIGNS = {f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_IGNORED_TAGS = frozenset(  # deleted, duplicated, or not text
    [f"{_W}{name}" for name in ("del", "moveFrom", "rt", "pPr", "rPr", "sdtPr", "instrText", "delText")]
)
_UNFIT = (AttributeError, TypeError, ValueError)  # of python-docx, for what is not where it should be
_SIGN = re.compile(r"[0-9A-Fa-f]{2,4}")
_CONTENTS_GALLERY = "Table of Contents"
_TOC_FIELD = re.compile(r"\s*(?:TOC|INDEX|TOA)\b", re.IGNORECASE)


def read_docx(content: BinaryIO, *, max_characters: int) -> ParsedDocument:
    """Title, author and language in a DOCX's properties, and its text: paragraphs, headings, list items, tables.

    An empty line stands between paragraphs. A table's row is a sentence, of its cells with the titles of the columns
    where the table marks a header row; in a row whose cells have several paragraphs, each is one. Items of numbered
    lists begin with their number. Text boxes and footnotes follow the paragraph that they belong to, endnotes come
    last. Left out: hidden and deleted text, headers, footers, comments.

    Raises:
        UnsupportedFileError: another kind of ZIP archive.
        UnreadableFileError: broken, or an archive that unpacks to far more than a document.
        TextTooLongError: more than `max_characters`.
    """
    harmless_copy = sanitized(content)
    try:
        document = docx.Document(io.BytesIO(harmless_copy))
        properties = document.core_properties
        title, author, language = properties.title, properties.author, properties.language
        reading = _DocumentWalk(document)
    except (OpcError, LookupError, SyntaxError, zipfile.BadZipFile, *_UNFIT) as error:  # lxml's too
        found = "its parts do not fit together" if isinstance(error, _UNFIT) else error
        raise broken(f"broken DOCX structure ({found})", "DOCX") from error
    blocks = within(reading.paragraphs(), max_characters)
    return parsed(title or None, blocks, "skip", language=language or None, author=author or None)


class _DocumentWalk:
    """Walk over a document's XML; python-docx's own ignores content controls, insertions and text boxes."""

    def __init__(self, document: Document) -> None:
        self._body = document.element.body
        self._footnotes = _notes(document, RELATIONSHIP_TYPE.FOOTNOTES, "footnote")
        self._endnotes = _notes(document, RELATIONSHIP_TYPE.ENDNOTES, "endnote")
        self._styles = docx_styles(document)
        self._numbers = list_numbers(document)
        self._fields: list[str] = []  # instructions of the fields that are open
        kinds = Counter(each.get(f"{_W}fldCharType") for each in self._body.iter(f"{_W}fldChar"))
        self._fields_end = kinds["begin"] == kinds["end"]  # else none is known to be over
        self._begun = ""  # of the next paragraph: a large letter, or text whose end is deleted

    def paragraphs(self) -> Iterator[Block]:
        yield from self._blocks(self._body)
        for note in self._endnotes.values():
            yield from self._blocks(note)

    def _blocks(self, parent: BaseOxmlElement) -> Iterator[Block]:
        for child in parent:
            if child.tag == f"{_W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield from self._table(child)
            elif not _is_ignored(child):
                yield from self._blocks(child)

    def _paragraph(self, paragraph: BaseOxmlElement) -> Iterator[Block]:
        after: list[BaseOxmlElement] = []  # text boxes and footnotes
        written = self._begun + "".join(self._inline(paragraph, after))
        self._begun = written if _goes_on(paragraph, written) else ""
        text = "" if self._begun else written.strip()
        if text and not self._is_silent(paragraph, text):
            yield self._kind(paragraph, text)
        for block in after:
            yield from self._blocks(block)

    def _is_silent(self, paragraph: BaseOxmlElement, text: str) -> bool:
        """True for a line of a table of contents, and for hidden text."""
        style = self._style_of(paragraph)
        return style.of_contents or style.hidden or LEADERS.search(text) is not None

    def _style_of(self, paragraph: BaseOxmlElement) -> DocxStyle:
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return self._styles.get(None if style is None else style.get(f"{_W}val"), DocxStyle())

    def _kind(self, paragraph: BaseOxmlElement, text: str) -> Block:
        style = self._style_of(paragraph)
        own = outline(paragraph.find(f"{_W}pPr"))
        level = own if own is not None and own <= BODY_LEVEL else style.level
        properties = paragraph.find(f"{_W}pPr/{_W}numPr")
        if properties is None:
            properties = style.numbering
        if level is not None:
            return HeadingBlock(f"{self._numbers.label(properties, level - 1)} {text}".strip(), level)
        if properties is None:
            return Paragraph(text)
        number = self._numbers.next(properties)
        return ListItem(f"{number}. {text}" if number else text)

    def _inline(self, parent: BaseOxmlElement, after: list[BaseOxmlElement], before: str = "") -> Iterator[str]:
        for child in parent:
            pieces = list(self._pieces(child, after))
            if child.tag == f"{_W}r" and _is_raised(child):
                pieces = [raised(before, "".join(pieces))]
            before = (before + "".join(pieces))[-20:]
            yield from pieces

    def _pieces(self, child: BaseOxmlElement, after: list[BaseOxmlElement]) -> Iterator[str]:
        if child.tag in (f"{_W}fldChar", f"{_W}instrText"):
            self._field(child)
        elif self._is_in_contents() and child.tag != f"{_W}r":
            if not _is_ignored(child):
                yield from ("" for _ in self._inline(child, []))  # for the fields in it
        elif child.tag == f"{_W}t":
            yield "" if _is_mark_of_note(child) else _drawn(child.text or "", child.getparent())
        elif child.tag == f"{_W}sym":
            sign, font = child.get(f"{_W}char", ""), child.get(f"{_W}font", "")
            yield as_drawn(chr(int(sign, 16)), font) if is_symbol_font(font) and _SIGN.fullmatch(sign) else ""
        elif child.tag in _SIGNS:
            yield _SIGNS[child.tag]
        elif child.tag == f"{_W}txbxContent":
            after.append(child)
        elif child.tag == f"{_W}footnoteReference":
            note = self._footnotes.get(child.get(f"{_W}id"))
            after.extend([] if note is None else [note])
        elif child.tag == FORMULA:
            yield " ".join(spoken_omml(child).split())
        elif not _is_ignored(child) and not (child.tag == f"{_W}r" and self._is_hidden(child)):
            yield from self._inline(child, after)

    def _is_hidden(self, run: BaseOxmlElement) -> bool:
        vanish, style = run.find(f"{_W}rPr/{_W}vanish"), run.find(f"{_W}rPr/{_W}rStyle")
        if vanish is not None or style is None:
            return is_on(vanish)
        return self._styles.get(style.get(f"{_W}val"), DocxStyle()).hidden

    def _is_in_contents(self) -> bool:
        return self._fields_end and any(_TOC_FIELD.match(instruction) for instruction in self._fields)

    def _field(self, part: BaseOxmlElement) -> None:
        """Notes where fields begin and end, and what they are."""
        if part.tag == f"{_W}instrText" and self._fields:
            self._fields[-1] += part.text or ""
        elif part.get(f"{_W}fldCharType") == "begin":
            self._fields.append("")
        elif part.get(f"{_W}fldCharType") == "end" and self._fields:
            self._fields.pop()

    def _table(self, table: BaseOxmlElement) -> Iterator[Block]:
        header: tuple[str, ...] = ()
        for row in _within(table, f"{_W}tr"):
            if row.find(f"{_W}trPr/{_W}del") is not None or is_on(row.find(f"{_W}trPr/{_W}hidden")):
                continue
            cells = [list(self._blocks(cell)) for cell in _within(row, f"{_W}tc") if not _is_no_cell(cell)]
            if any(len(cell) > 1 for cell in cells):
                yield from (block for cell in cells for block in cell)
                continue
            texts = tuple(_cell_text(cell) for cell in cells)
            if not header and len(texts) > 1 and all(texts) and row.find(f"{_W}trPr/{_W}tblHeader") is not None:
                header = texts
                yield TableRow(texts, titles=True)
            elif any(texts):
                yield TableRow(texts, header if len(header) == len(texts) else ())


def _cell_text(blocks: list[Block]) -> str:
    """Text of a cell with at most one block, which may be the row of a table within it."""
    block = next(iter(blocks), None)
    if block is None:
        return ""
    return ", ".join(block.cells) if isinstance(block, TableRow) else block.text


def _drawn(text: str, run: BaseOxmlElement) -> str:
    """Text of a run, as its font draws it."""
    fonts = run.find(f"{_W}rPr/{_W}rFonts")
    font = "" if fonts is None else fonts.get(f"{_W}ascii", "")
    return as_drawn(text, font) if is_symbol_font(font) else text


def _is_raised(run: BaseOxmlElement) -> bool:
    place, height = run.find(f"{_W}rPr/{_W}vertAlign"), run.find(f"{_W}rPr/{_W}position")
    if place is None and height is not None:
        value = str(height.get(f"{_W}val", "0"))
        return value.isdecimal() and value != "0"
    return place is not None and place.get(f"{_W}val") == "superscript"


def _within(parent: BaseOxmlElement, tag: str) -> Iterator[BaseOxmlElement]:
    """Rows of a table or cells of a row, also those in content controls."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif not _is_ignored(child):
            yield from _within(child, tag)


def _is_no_cell(cell: BaseOxmlElement) -> bool:
    """True for a cell that is deleted, or vertically merged into the one above."""
    merge = cell.find(f"{_W}tcPr/{_W}vMerge")
    continues = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
    return continues or cell.find(f"{_W}tcPr/{_W}cellDel") is not None


def _is_mark_of_note(text: BaseOxmlElement) -> bool:
    """True for a sign that its author chose to stand for the number of a note."""
    before = text.getprevious()
    is_note = before is not None and before.tag in (f"{_W}footnoteReference", f"{_W}endnoteReference")
    return is_note and before.get(f"{_W}customMarkFollows", "0") in ("1", "true", "on")


def _is_ignored(element: BaseOxmlElement) -> bool:
    """True for what is no text, a table of contents in a field or control, and one that asks for a text: Click here."""
    if element.tag == f"{_W}fldSimple":
        return _TOC_FIELD.match(element.get(f"{_W}instr", "")) is not None
    if element.tag == f"{_MC}Fallback":
        return any(
            next(each.iter(f"{_W}t"), None) is not None for each in element.itersiblings(f"{_MC}Choice", preceding=True)
        )
    if element.tag != f"{_W}sdt":
        return element.tag in _IGNORED_TAGS
    gallery = element.find(f"{_W}sdtPr/{_W}docPartObj/{_W}docPartGallery")
    is_contents = gallery is not None and gallery.get(f"{_W}val") == _CONTENTS_GALLERY
    return is_contents or is_on(element.find(f"{_W}sdtPr/{_W}showingPlcHdr"))


def _goes_on(paragraph: BaseOxmlElement, text: str) -> bool:
    """True for a paragraph whose end is deleted, or that is a large letter, drawn before the text of the next one."""
    frame = paragraph.find(f"{_W}pPr/{_W}framePr")
    is_large = frame is not None and frame.get(f"{_W}dropCap") in ("drop", "margin") and len(text.strip()) == 1
    return is_large or (bool(text.strip()) and paragraph.find(f"{_W}pPr/{_W}rPr/{_W}del") is not None)


def _notes(document: Document, relationship: str, name: str) -> dict[str | None, BaseOxmlElement]:
    """Footnotes or endnotes by number, without Word's separators."""
    parts = [
        rel.target_part for rel in document.part.rels.values() if rel.reltype == relationship and not rel.is_external
    ]
    return {
        note.get(f"{_W}id"): note
        for part in parts
        for note in parse_xml(part.blob).iterchildren(f"{_W}{name}")
        if note.get(f"{_W}type", "normal") == "normal"
    }
