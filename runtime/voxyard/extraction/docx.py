"""DOCX reader: paragraphs in document order, including tables, text boxes and notes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import OpcError
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml

from voxyard.extraction.docx_archive import SAVE_AGAIN, sanitized
from voxyard.extraction.errors import TextTooLongError, UnreadableFileError

if TYPE_CHECKING:
    from docx.document import Document
    from docx.oxml.xmlchemy import BaseOxmlElement

_W = f"{{{nsmap['w']}}}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MATH_TEXT = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_SIGNS = {f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_IGNORED_TAGS = frozenset(  # deleted, duplicated, or not text
    [f"{_W}{name}" for name in ("del", "moveFrom", "rt", "pPr", "rPr", "sdtPr", "instrText", "delText")]
    + [f"{_MC}Fallback"]
)
_ENDS_A_CELL = ".,;:!?…。、！？；："


def read_docx(content: BinaryIO, *, max_characters: int) -> tuple[str | None, str]:
    """Title in a DOCX's properties, None without one, and its text: paragraphs, headings, list items, tables.

    An empty line stands between paragraphs. A table's row is a paragraph with commas between its cells; in a row
    whose cells have several paragraphs, each is one. Text boxes and footnotes follow the paragraph that they belong
    to, endnotes come last. Left out: hidden and deleted text, headers, footers, comments, numbers before list items.

    Raises:
        UnsupportedFileError: another kind of ZIP archive.
        UnreadableFileError: broken, or an archive that unpacks to far more than a document.
        TextTooLongError: more than `max_characters`.
    """
    harmless_copy = sanitized(content)
    try:
        document = docx.Document(io.BytesIO(harmless_copy))
        title = document.core_properties.title
        reading = _DocumentWalk(document)
    except (OpcError, KeyError, ValueError, AttributeError, SyntaxError, zipfile.BadZipFile) as error:  # lxml's too
        raise UnreadableFileError(f"broken DOCX structure ({error!r}): {SAVE_AGAIN}") from error
    paragraphs: list[str] = []
    length = 0
    for paragraph in reading.paragraphs():
        paragraphs.append(paragraph)
        length += len(paragraph)
        if length > max_characters:
            raise TextTooLongError(f"the text has more than {max_characters} characters: split the document")
    return title or None, "\n\n".join(paragraphs)


class _DocumentWalk:
    """Walk over a document's XML; python-docx's own ignores content controls, insertions and text boxes."""

    def __init__(self, document: Document) -> None:
        self._body = document.element.body
        self._footnotes = _notes(document, RELATIONSHIP_TYPE.FOOTNOTES, "footnote")
        self._endnotes = _notes(document, RELATIONSHIP_TYPE.ENDNOTES, "endnote")

    def paragraphs(self) -> Iterator[str]:
        yield from self._blocks(self._body)
        for note in self._endnotes.values():
            yield from self._blocks(note)

    def _blocks(self, parent: BaseOxmlElement) -> Iterator[str]:
        for child in parent:
            if child.tag == f"{_W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield from self._table(child)
            elif child.tag not in _IGNORED_TAGS:
                yield from self._blocks(child)

    def _paragraph(self, paragraph: BaseOxmlElement) -> Iterator[str]:
        after: list[BaseOxmlElement] = []  # text boxes and footnotes
        text = "".join(self._inline(paragraph, after)).strip()
        if text:
            yield text
        for block in after:
            yield from self._blocks(block)

    def _inline(self, parent: BaseOxmlElement, after: list[BaseOxmlElement]) -> Iterator[str]:
        for child in parent:
            if child.tag in (f"{_W}t", _MATH_TEXT):
                yield child.text or ""
            elif child.tag in _SIGNS:
                yield _SIGNS[child.tag]
            elif child.tag == f"{_W}txbxContent":
                after.append(child)
            elif child.tag == f"{_W}footnoteReference":
                note = self._footnotes.get(child.get(f"{_W}id"))
                after.extend([] if note is None else [note])
            elif child.tag not in _IGNORED_TAGS and not (child.tag == f"{_W}r" and _is_hidden(child)):
                yield from self._inline(child, after)

    def _table(self, table: BaseOxmlElement) -> Iterator[str]:
        for row in _within(table, f"{_W}tr"):
            cells = [list(self._blocks(cell)) for cell in _within(row, f"{_W}tc") if not _continues_above(cell)]
            if any(len(cell) > 1 for cell in cells):
                yield from (paragraph for cell in cells for paragraph in cell)
            elif texts := [cell[0] for cell in cells if cell]:
                yield "".join(f"{text}{' ' if text[-1] in _ENDS_A_CELL else ', '}" for text in texts[:-1]) + texts[-1]


def _within(parent: BaseOxmlElement, tag: str) -> Iterator[BaseOxmlElement]:
    """Rows of a table or cells of a row, also those in content controls."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag not in _IGNORED_TAGS:
            yield from _within(child, tag)


def _continues_above(cell: BaseOxmlElement) -> bool:
    """True for a cell that is vertically merged into the one above."""
    merge = cell.find(f"{_W}tcPr/{_W}vMerge")
    return merge is not None and merge.get(f"{_W}val", "continue") == "continue"


def _is_hidden(run: BaseOxmlElement) -> bool:
    vanish = run.find(f"{_W}rPr/{_W}vanish")
    return vanish is not None and vanish.get(f"{_W}val", "true") not in ("0", "false", "off")


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
