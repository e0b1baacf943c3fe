"""FB2 reader: title, author, language, cover and the sections of a FictionBook, alone or in a ZIP archive."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator

from lxml import etree

from voxyard.extraction.archive import broken, parsed_xml, text_archive
from voxyard.extraction.cover import small_cover
from voxyard.extraction.document import (
    Block,
    HeadingBlock,
    Paragraph,
    ParsedDocument,
    SceneBreak,
    TableRow,
    in_language,
    parsed,
    within,
)
from voxyard.extraction.errors import UnreadableFileError
from voxyard.extraction.plaintext import clean, decode
from voxyard.extraction.raised import raised

MAX_COVER_BYTES = 8 * 2**20
"""Largest cover that is read, in bytes."""

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_HEAD = 200  # bytes that have the declaration
_ENCODING = re.compile(rb"\sencoding\s*=\s*[\"'](?P<name>[\w.:-]+)[\"']")
_HREF = "{http://www.w3.org/1999/xlink}href"
_CHAPTERS = ("section", "body")  # whose titles are headings; those of poems are lines
_PARAGRAPHS = frozenset(("p", "subtitle", "text-author", "date"))
_SILENT = frozenset(("image", "binary", "description", "stylesheet"))
_DEEPEST = 6
_ROW_OF_BLANKS = re.compile(r"[ \t\r\n]+")


def read_fb2(data: bytes, *, max_characters: int) -> ParsedDocument:
    """Contents of an FB2 book: its sections' titles are headings, verses are lines, marks of notes are silent.

    Notes come last, as the book has them.

    Raises:
        UnreadableFileError: no well-formed XML, or no FictionBook; an archive of several books, or broken.
        TextTooLongError: far more than `max_characters`.
    """
    root = _root(_unpacked(data))
    if _name(root) != "FictionBook":
        raise broken(f"its XML is of {_name(root)[:50]}, not of a FictionBook", "FB2")
    info = next((each for each in root.iter() if _name(each) == "title-info"), None)
    bodies = [each for each in root if _name(each) == "body"]  # the title of the second, as of notes, is a chapter's
    for link in _marks(root, bodies[1:]):
        link.set("type", "note")
    for title in [each for body in bodies[1:] for each in body.iter() if _name(each) == "title"]:
        if not any(letter.isalpha() for letter in "".join(title.itertext())):  # the number of a note
            title.getparent().remove(title)
    found = (block for at, body in enumerate(bodies) for block in _blocks(body, 1 if at == 0 else 2))
    blocks = within(found, max_characters)
    return parsed(
        _text_of(info, "book-title"),
        blocks,
        "skip",
        language=_text_of(info, "lang"),
        cover=_cover(root, info),
        author=_authors(info),
    )


def _root(data: bytes) -> etree._Element:
    """Root element of a book, of one that is in another encoding than it says, too; bytes of none are lost signs."""
    try:
        return parsed_xml(data, "the book", "FB2")
    except UnreadableFileError as error:
        declared = _ENCODING.search(data[:_HEAD])
        name = "utf-8" if declared is None else declared["name"].decode("ascii")
        if _is_in(data, name):
            raise
        try:
            text = decode(data)
        except UnreadableFileError:
            text = data.decode("utf-8", "replace")
        try:
            return parsed_xml(_ENCODING.sub(b"", clean(text).encode(), count=1), "the book", "FB2")
        except UnreadableFileError:
            raise error from None


def _is_in(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"PK"):
        return data
    with text_archive(io.BytesIO(data), "FB2") as archive:
        names = archive.names()
        if len(names) != 1:
            raise broken(f"its ZIP archive has {len(names)} files, expected one book", "FB2")
        return archive.read(names[0])


def _marks(root: etree._Element, notes: list[etree._Element]) -> list[etree._Element]:
    """Links to a section of the notes, also those that do not say that they are marks of a note."""
    known = {f"#{each.get('id')}" for body in notes for each in body.iter() if each.get("id")}
    return [each for each in root.iter() if _name(each) == "a" and each.get(_HREF) in known]


def _name(element: etree._Element) -> str:
    return element.tag.rsplit("}")[-1] if isinstance(element.tag, str) else ""


def _text_of(info: etree._Element | None, name: str) -> str | None:
    found = next((each for each in info if _name(each) == name), None) if info is not None else None
    return None if found is None else " ".join("".join(found.itertext()).split()) or None


def _authors(info: etree._Element | None) -> str | None:
    if info is None:
        return None
    names = [
        " ".join(filter(None, (_text_of(each, part) for part in ("first-name", "middle-name", "last-name"))))
        or _text_of(each, "nickname")
        for each in info
        if _name(each) == "author"
    ]
    return ", ".join(filter(None, names)) or None


def _cover(root: etree._Element, info: etree._Element | None) -> bytes | None:
    page = next((each for each in info if _name(each) == "coverpage"), None) if info is not None else None
    names = {each.get(_HREF, "").removeprefix("#") for each in page} if page is not None else set()
    for binary in root:
        text = binary.text or ""
        if _name(binary) == "binary" and binary.get("id") in names and len(text) <= 2 * MAX_COVER_BYTES:
            try:
                return small_cover(base64.b64decode(text))
            except binascii.Error:
                return None
    return None


def _blocks(parent: etree._Element, level: int) -> Iterator[Block]:
    """Blocks within an element, in the language that it declares or they themselves."""
    for block in _blocks_of(parent, level):
        yield in_language(block, parent.get(_LANGUAGE))


def _blocks_of(parent: etree._Element, level: int) -> Iterator[Block]:
    header: tuple[str, ...] = ()  # of a table
    for child in parent:
        name = _name(child)
        if name in ("title", "stanza"):
            lines = [_inline(each) for each in child if _name(each) in ("p", "v")]
            found = (" " if name == "title" else "\n").join(filter(None, lines))
        elif name in _PARAGRAPHS:
            found = _inline(child)
        elif name == "empty-line":
            yield SceneBreak(weak=True)
            continue
        else:
            if name == "tr" and any(cells := tuple(_inline(each) for each in child)):
                titles = len(cells) > 1 and all(_name(each) == "th" for each in child)
                header = cells if titles else header
                yield TableRow(cells, () if titles or len(header) != len(cells) else header, titles)
            elif name not in ("tr", "", *_SILENT):
                yield from _blocks(child, level + (name == "section" and _has_title(child)))
            continue
        if found:
            below = {
                "title": 0 if _name(parent) in _CHAPTERS else None,
                "subtitle": 1 if _is_word(found) else None,
            }.get(name)
            block = Paragraph(found) if below is None else HeadingBlock(found, min(level + below, _DEEPEST))
            yield in_language(block, child.get(_LANGUAGE))


def _has_title(section: etree._Element) -> bool:
    """True for a section with a title of its own; one without is that of its sections."""
    return any(_name(each) == "title" for each in section)


def _is_word(text: str) -> bool:
    """True for a subtitle; three stars are a scene's break."""
    return any(each.isalnum() for each in text)


def _inline(parent: etree._Element) -> str:
    pieces: list[str] = [parent.text or ""]
    for child in parent:
        name = _name(child)
        if name == "sup":
            pieces.append(raised("".join(pieces)[-20:], _inline(child)))
        elif name and name not in _SILENT and child.get("type") != "note":
            pieces.append(_inline_of(child))
        pieces.append(child.tail or "")
    return _ROW_OF_BLANKS.sub(" ", "".join(pieces)).strip()


def _inline_of(child: etree._Element) -> str:
    """Text of an element within a line, with the blanks at its ends."""
    text = "".join(child.itertext())
    if not any(_name(each) in ("sup", "a", "image") for each in child.iterdescendants()):
        return text
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{lead}{_inline(child)}{tail}" if text.strip() else text
