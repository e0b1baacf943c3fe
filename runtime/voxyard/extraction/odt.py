"""ODT reader: headings, paragraphs, lists, tables and notes of an OpenDocument text, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from voxyard.extraction.archive import TextArchive, text_archive
from voxyard.extraction.document import (
    Block,
    HeadingBlock,
    ListItem,
    Paragraph,
    ParsedDocument,
    SceneBreak,
    TableRow,
    parsed,
    within,
)
from voxyard.extraction.errors import FORMATS, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.raised import raised
from voxyard.extraction.silent import LEADERS

MIME_TYPE = b"application/vnd.oasis.opendocument.text"

_BASE = "urn:oasis:names:tc:opendocument:xmlns:"
_NS = {
    "office": _BASE + "office:1.0",
    "text": _BASE + "text:1.0",
    "table": _BASE + "table:1.0",
    "style": _BASE + "style:1.0",
    "fo": _BASE + "xsl-fo-compatible:1.0",
    "meta": _BASE + "meta:1.0",
    "manifest": _BASE + "manifest:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_TEXT, _TABLE, _STYLE = (f"{{{_NS[each]}}}" for each in ("text", "table", "style"))
_SILENT = frozenset((
    *(f"{_TEXT}{name}" for name in (
        "tracked-changes", "table-of-content", "illustration-index", "table-index", "object-index", "user-index",
        "alphabetical-index", "bibliography", "note-citation", "ruby-text", "sequence-decls", "variable-decls",
        "user-field-decls", "script", "meta-field", "hidden-text", "hidden-paragraph", "placeholder",
    )),
    *(f"{{{_NS['office']}}}{name}" for name in ("annotation", "forms", "event-listeners", "binary-data")),
    f"{_TABLE}shapes", f"{{{_BASE}drawing:1.0}}object", f"{{{_BASE}svg-compatible:1.0}}title",
    f"{{{_BASE}svg-compatible:1.0}}desc",
))  # fmt: skip
_LIBREOFFICE = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}"
_HIDES_PARAGRAPH = "text:hidden-paragraph[@text:is-hidden='true']"
_LEVEL_OF_TITLE = 1
_HEADING_STYLE = re.compile(r"Heading_20_([1-9])")
_LONGEST_BLANKS = 100
_ROW_OF_BLANKS = re.compile(r"[ \t\r\n]+")


def read_odt(content: BinaryIO, *, max_characters: int) -> ParsedDocument:
    """Title, author and language of an ODT, and its text, as of a DOCX.

    Footnotes and text boxes follow their paragraph, endnotes come last. Left out: tables of contents and indexes,
    tracked deletions, comments, hidden text, headers, footers.

    Raises:
        UnsupportedFileError: another kind of ZIP archive.
        UnreadableFileError: broken, encrypted, or an archive that unpacks to far more than a document.
        TextTooLongError: far more than `max_characters`.
    """
    with text_archive(content, "ODT") as archive:
        if "mimetype" in archive and archive.read("mimetype", 200).strip() != MIME_TYPE:
            found = archive.read("mimetype", 200).decode("ascii", "replace").strip()
            raise UnsupportedFileError(f"its content is no ODT text ({found}): send a {FORMATS} file")
        _check_not_encrypted(archive)
        root = archive.xml("content.xml")
        styles = archive.xml("styles.xml") if "styles.xml" in archive else None
        meta = archive.xml("meta.xml") if "meta.xml" in archive else None
        body = root.find("office:body/office:text", _NS)
        if body is None:
            raise UnsupportedFileError(f"its content is an OpenDocument file, but no text: send a {FORMATS} file")
        walk = _Walk([each for each in (styles, root) if each is not None])
        blocks = within(walk.document(body), max_characters)
        title, author = _property(meta, "dc:title"), _property(meta, "dc:creator")
        return parsed(
            title,
            blocks,
            "skip",
            language=_property(meta, "dc:language") or walk.language,
            author=_property(meta, "meta:initial-creator") or author,
        )


def _check_not_encrypted(archive: TextArchive) -> None:
    name = "META-INF/manifest.xml"
    if name in archive and archive.xml(name).find(".//manifest:encryption-data", _NS) is not None:
        raise UnreadableFileError(
            "encrypted with a password; expected an ODT without one:"
            " remove the password in LibreOffice and send it again"
        )


def _property(meta: etree._Element | None, name: str) -> str | None:
    found = None if meta is None else meta.find(f".//{name}", _NS)
    return None if found is None or not found.text else " ".join(found.text.split())


class _Walk:
    """Walk over the body, with the styles that tell titles, raised and hidden text, and numbered lists."""

    def __init__(self, roots: list[etree._Element]) -> None:
        self._parents: dict[str, str] = {}
        self._raised, self._hidden = dict[str, bool](), dict[str, bool]()
        self._numbered: dict[str, dict[int, int]] = {}
        self.language: str | None = None
        self._endnotes: list[etree._Element] = []
        for root in roots:
            for style in root.iterfind(".//style:style", _NS):
                self._read_style(style)
            for style in root.iterfind(".//text:list-style", _NS):
                levels = style.iterfind("text:list-level-style-number", _NS)
                self._numbered[style.get(f"{_STYLE}name", "")] = {
                    int(level.get(f"{_TEXT}level", "1")): int(level.get(f"{_TEXT}start-value", "1"))
                    for level in levels
                    if level.get(f"{_STYLE}num-format") == "1"
                }
            if (default := root.find(".//style:default-style[@style:family='paragraph']", _NS)) is not None:
                properties = default.find("style:text-properties", _NS)
                language = None if properties is None else properties.get(f"{{{_NS['fo']}}}language")
                self.language = None if language in (None, "none", "zxx") else language

    def _read_style(self, style: etree._Element) -> None:
        name = style.get(f"{_STYLE}name", "")
        self._parents[name] = style.get(f"{_STYLE}parent-style-name", "")
        properties = style.find("style:text-properties", _NS)
        if properties is not None and (position := properties.get(f"{_STYLE}text-position")) is not None:
            self._raised[name] = position.startswith("super")
        if properties is not None and (display := properties.get(f"{_TEXT}display")) is not None:
            self._hidden[name] = display == "none"

    def document(self, body: etree._Element) -> Iterator[Block]:
        yield from self._blocks(body)
        for note in self._endnotes:
            yield from self._blocks(note)

    def _blocks(self, parent: etree._Element) -> Iterator[Block]:
        for child in parent:
            if child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                yield from self._paragraph(child)
            elif child.tag == f"{_TEXT}list":
                yield from self._list(child, 1, child.get(f"{_TEXT}style-name", ""))
            elif child.tag == f"{_TABLE}table":
                yield from self._table(child)
            elif not _is_silent(child):
                yield from self._blocks(child)

    def _paragraph(self, paragraph: etree._Element, before: str | None = None) -> Iterator[Block]:
        if self._is_hidden(paragraph) or paragraph.find(_HIDES_PARAGRAPH, _NS) is not None:
            return
        after: list[etree._Element] = []
        text = "".join(self._inline(paragraph, after)).strip()
        name = paragraph.get(f"{_TEXT}style-name", "")
        if text and LEADERS.search(text) is None:
            if paragraph.tag == f"{_TEXT}h":
                level = paragraph.get(f"{_TEXT}outline-level", "1")
                yield HeadingBlock(text, int(level) if level.isdigit() else 1)
            elif before is not None:
                yield ListItem(before + text)
            else:
                level = self._level(name)
                yield Paragraph(text) if level is None else HeadingBlock(text, level)
        elif not text and self._is_rule(name):
            yield SceneBreak()
        for element in after:
            yield from self._blocks(element)

    def _level(self, name: str) -> int | None:
        """The level of a paragraph that its style makes a title."""
        for each in self._bases(name):
            if each == "Title":
                return _LEVEL_OF_TITLE
            if (heading := _HEADING_STYLE.fullmatch(each)) is not None:
                return int(heading[1])
        return None

    def _is_rule(self, name: str) -> bool:
        return "Horizontal_20_Line" in self._bases(name)

    def _bases(self, name: str) -> list[str]:
        """A style and those that it is based on."""
        seen: list[str] = []
        while name and name not in seen:
            seen.append(name)
            name = self._parents.get(name, "")
        return seen

    def _list(self, parent: etree._Element, level: int, style: str) -> Iterator[Block]:
        number = self._numbered.get(style, {}).get(level)
        for item in parent:
            if item.tag not in (f"{_TEXT}list-item", f"{_TEXT}list-header"):
                continue
            start = item.get(f"{_TEXT}start-value", "")
            number = int(start) if start.isdigit() and number is not None else number
            before = f"{number}. " if number is not None and item.tag == f"{_TEXT}list-item" else ""
            for child in item:
                if child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    yield from self._paragraph(child, before)
                    before = ""
                elif child.tag == f"{_TEXT}list":
                    yield from self._list(child, level + 1, child.get(f"{_TEXT}style-name", style))
            if number is not None and item.tag == f"{_TEXT}list-item":
                number += 1

    def _table(self, table: etree._Element) -> Iterator[Block]:
        header: tuple[str, ...] = ()
        for row in table.iter(f"{_TABLE}table-row"):
            if next(row.iterancestors(f"{_TABLE}table")) is not table:
                continue  # of a table within it
            cells = [list(self._blocks(cell)) for cell in row if cell.tag == f"{_TABLE}table-cell"]
            if any(len(cell) > 1 or any(isinstance(each, TableRow) for each in cell) for cell in cells):
                yield from (block for cell in cells for block in cell)
                continue
            texts = tuple(getattr(next(iter(cell), None), "text", "") for cell in cells)
            is_header = row.getparent() is not None and row.getparent().tag == f"{_TABLE}table-header-rows"
            if is_header and not header and len(texts) > 1 and all(texts):
                header = texts
                yield TableRow(texts, titles=True)
            elif any(texts):
                yield TableRow(texts, header if len(header) == len(texts) else ())

    def _inline(self, parent: etree._Element, after: list[etree._Element], before: str = "") -> Iterator[str]:
        pieces = [_blanks(parent.text)]
        for child in parent:
            text = "".join(self._piece(child, after))
            if child.tag == f"{_TEXT}span" and self._says(self._raised, child):
                text = raised((before + "".join(pieces))[-20:], text)
            pieces += [text, _blanks(child.tail)]
        yield from pieces

    def _piece(self, child: etree._Element, after: list[etree._Element]) -> Iterator[str]:
        if child.tag == f"{_TEXT}s":
            count = child.get(f"{_TEXT}c", "1")
            yield " " * min(int(count) if count.isdigit() else 1, _LONGEST_BLANKS)
        elif child.tag == f"{_TEXT}tab":
            yield " "
        elif child.tag == f"{_TEXT}number":  # of a heading
            yield f"{(child.text or '').strip()} "
        elif child.tag == f"{_TEXT}line-break":
            yield "\n"
        elif child.tag == f"{_TEXT}note":
            notes = child.findall("text:note-body", _NS)
            (self._endnotes if child.get(f"{_TEXT}note-class") == "endnote" else after).extend(notes)
        elif isinstance(child.tag, str) and child.tag.rsplit("}")[-1] in ("frame", "text-box", "custom-shape"):
            after.append(child)
        elif not _is_silent(child) and not self._is_hidden(child):
            yield from self._inline(child, after)

    def _is_hidden(self, element: etree._Element) -> bool:
        return self._says(self._hidden, element)

    def _says(self, styles: dict[str, bool], element: etree._Element) -> bool:
        """What an element's style says, or the next one that it is based on."""
        return next(
            (styles[each] for each in self._bases(element.get(f"{_TEXT}style-name", "")) if each in styles), False
        )


def _is_silent(element: etree._Element) -> bool:
    """True for what is no text, a hidden section, and a field that asks for a text: Click here."""
    if not isinstance(element.tag, str) or element.tag in _SILENT:
        return True
    display = element.get(f"{_TEXT}display")
    if display == "none" or (display == "condition" and element.get(f"{_TEXT}is-hidden") == "true"):
        return True
    return bool(element.get(f"{_LIBREOFFICE}showing-place-holder") == "true")


def _blanks(text: str | None) -> str:
    """Text of an element, in which a row of blanks and line ends is one blank; one that does not break stays."""
    return _ROW_OF_BLANKS.sub(" ", text or "")
