"""EPUB reader: title, author, language, cover and the blocks of the chapters in reading order (EPUB 2 and 3)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from lxml import etree

from voxyard.extraction.archive import TextArchive, text_archive
from voxyard.extraction.cover import MOST_PIXELS, small_cover
from voxyard.extraction.document import (
    Block,
    CodeBlocks,
    ListItem,
    Paragraph,
    ParsedDocument,
    in_language,
    parsed,
    within,
)
from voxyard.extraction.epub_contents import (
    ContentsEntry,
    entries_of_nav,
    entries_of_ncx,
    levelled,
    places,
    with_chapters,
    without_running_titles,
)
from voxyard.extraction.errors import FORMATS, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.markup import html_page
from voxyard.extraction.style_sheets import LONGEST_SHEET, imports

MAX_COVER_BYTES = 8 * 2**20
"""Largest cover that is read, in bytes."""

_LONG_PARAGRAPH = 60  # characters; entries of a table of contents are shorter
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_NS = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "e": "http://www.w3.org/2001/04/xmlenc#",
}
_ROLE = "{http://www.idpf.org/2007/opf}role"
_AUTHOR = "aut"  # MARC's code of the relation
_NCX = "application/x-dtbncx+xml"
_PAGE_SUFFIXES = (".xhtml", ".html", ".htm", ".xml")
_NO_KIND = (
    "",
    "text/xml",
    "application/xml",
    "text/plain",
    "application/octet-stream",
    "application/html",
    "text/xhtml",
)
_NAMES_A_CHAPTER = re.compile(r"(?!.*(?:_|\.x?html?$)|unknown|untitled)(?=.*[^\W\d_]{2}).{3,120}", re.IGNORECASE)
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(content: BinaryIO, *, max_characters: int, code: CodeBlocks = "skip") -> ParsedDocument:
    """Contents of an EPUB, its pages in the order of the spine; tables of contents are left out.

    Raises:
        UnsupportedFileError: another kind of ZIP archive.
        UnreadableFileError: broken, protected, or an archive that unpacks to far more than a book.
        TextTooLongError: far more than `max_characters`.
    """
    with text_archive(content, "EPUB") as archive:
        return _read(archive, max_characters, code)


def _read(archive: TextArchive, max_characters: int, code: CodeBlocks) -> ParsedDocument:
    if _CONTAINER not in archive:
        raise UnsupportedFileError(f"its content is a ZIP archive, but no EPUB: send a {FORMATS} file")
    _check_protection(archive)
    rootfile = archive.xml(_CONTAINER).find(".//{*}rootfile")
    package_name = unquote(rootfile.get("full-path", "")) if rootfile is not None else ""
    package_name = package_name.replace("\\", "/").lstrip("/")
    package = archive.xml(package_name)
    cover, note = _cover(archive, package, package_name)
    return parsed(
        _first_text(package, "dc:title"),
        levelled(without_running_titles(tuple(within(_blocks(archive, package, package_name), max_characters)))),
        code,
        author=_author(package),
        language=_first_text(package, "dc:language"),
        cover=cover,
        note=note,
    )


def _blocks(archive: TextArchive, package: etree._Element, package_name: str) -> Iterator[Block]:
    contents = _guided(package, package_name, "toc")
    entries = _entries(archive, package, package_name)
    sheets = _StyleSheets(archive)
    titles = {_first_text(package, "dc:title") or ""}  # of pages, where the book has no contents
    for name in _spine(package, package_name):
        if name not in archive:
            continue
        of_page = entries.get(name, [])
        page = html_page(archive.read(name), places=places(of_page), linked=partial(sheets.text, name))
        if not entries and (title := page.title or "") not in titles:
            titles.add(title)
            of_page = [ContentsEntry(title, name, 1)] if _NAMES_A_CHAPTER.fullmatch(title) else []
        blocks: Sequence[Block] = page.blocks
        if name in contents:
            blocks = _prose(blocks)
        yield from (in_language(block, page.language) for block in with_chapters(blocks, of_page))


class _StyleSheets:
    """Style sheets of a book, each read once, with those that they import."""

    def __init__(self, archive: TextArchive) -> None:
        self._archive = archive
        self._texts: dict[str, str] = {}

    def text(self, base: str, reference: str) -> str:
        """Text of the sheet that a page or another sheet names; "" for one that is not in the book."""
        name = _resolved(base, reference)
        if name not in self._texts:
            self._texts[name] = ""  # for one that imports itself
            if name in self._archive:
                own = self._archive.read(name)[:LONGEST_SHEET].decode("utf-8-sig", "replace")
                parts = [self.text(name, each) for each in dict.fromkeys(imports(own))]
                self._texts[name] = "".join([*parts, own])[:LONGEST_SHEET]
        return self._texts[name]


def _entries(archive: TextArchive, package: etree._Element, package_name: str) -> dict[str, list[ContentsEntry]]:
    """Entries of the table of contents by the page that they lead to."""
    found: dict[str, list[ContentsEntry]] = {}
    for item in package.iterfind(".//{*}manifest/{*}item"):
        is_nav = "nav" in item.get("properties", "").split()
        name = _resolved(package_name, item.get("href", ""))
        if (is_nav or _media_type(item) == _NCX) and name in archive:
            try:
                root = archive.xml(name)
            except UnreadableFileError:  # its text is whole without it
                continue
            entries = entries_of_nav(root) if is_nav else entries_of_ncx(root)
            of_file: dict[str, list[ContentsEntry]] = {}
            for entry in entries:
                of_file.setdefault(_resolved(name, entry.reference), []).append(entry)
            if of_file and (is_nav or not found):
                found = of_file
    return found


def _spine(package: etree._Element, package_name: str) -> Iterator[str]:
    """Names of the pages in reading order, each once; of the main order, where there is one."""
    manifest = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    seen = _guided(package, package_name, "cover")
    references = package.findall(".//{*}spine/{*}itemref")
    main = [each for each in references if each.get("linear") != "no"]
    for reference in main or references:
        item = manifest.get(reference.get("idref"))
        if item is None or not _is_page(item):
            continue
        name = _resolved(package_name, item.get("href", ""))
        if "nav" not in item.get("properties", "").split() and name not in seen:
            seen.add(name)
            yield name


def _is_page(item: etree._Element) -> bool:
    """True for a page by its media type, or, where that is another text's or none's, by its name."""
    kind, suffix = _media_type(item), posixpath.splitext(urlsplit(item.get("href", "")).path)[1].lower()
    return kind in _PAGES or (suffix in _PAGE_SUFFIXES and kind in _NO_KIND)


def _media_type(item: etree._Element) -> str:
    return str(item.get("media-type", "")).partition(";")[0].strip().lower()


def _guided(package: etree._Element, package_name: str, kind: str) -> set[str]:
    """Pages that the guide of an EPUB 2 names as of this kind."""
    return {
        _resolved(package_name, reference.get("href", ""))
        for reference in package.iterfind(".//{*}guide/{*}reference")
        if reference.get("type", "").lower() == kind
    }


def _prose(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of a page with a table of contents: nothing without a paragraph of prose, else all but its lists."""
    if not any(isinstance(block, Paragraph) and len(block.text) > _LONG_PARAGRAPH for block in blocks):
        return []
    return [block for block in blocks if not isinstance(block, ListItem)]


def _cover(archive: TextArchive, package: etree._Element, package_name: str) -> tuple[bytes | None, str | None]:
    """Image that the package names as its cover, as a small JPEG; else why the one that it names is left out."""
    items = package.findall(".//{*}manifest/{*}item")
    named = {meta.get("content") for meta in package.iterfind(".//{*}metadata/{*}meta[@name='cover']")}
    for item in items:
        if "cover-image" in item.get("properties", "").split() or item.get("id") in named:
            name = _resolved(package_name, item.get("href", ""))
            if name not in archive:
                continue
            size = archive.size(name)
            if size > MAX_COVER_BYTES:
                found = f"it has {size / 2**20:.1f} MiB, expected at most {MAX_COVER_BYTES >> 20} MiB"
                return None, f"the cover is left out: {found}"
            cover = small_cover(archive.read(name, MAX_COVER_BYTES))
            if cover is not None:
                return cover, None
            found = f"expected a JPEG or PNG image that can be read, of at most {MOST_PIXELS // 10**6} million pixels"
            return None, f"the cover is left out: {found}"
    return None, None


def _check_protection(archive: TextArchive) -> None:
    if _ENCRYPTION not in archive:
        return
    methods = archive.xml(_ENCRYPTION).iterfind(".//e:EncryptionMethod", _NS)
    if any(method.get("Algorithm") not in _FONT_OBFUSCATION for method in methods):
        raise UnreadableFileError(
            "protected against copying (DRM); expected an EPUB whose text is not encrypted: send one without protection"
        )


def _author(package: etree._Element) -> str | None:
    """Names of the creators, without those that only illustrate or translate where the package tells their roles."""
    refined = {
        meta.get("refines", "").removeprefix("#"): (meta.text or "").strip()
        for meta in package.iterfind(".//{*}metadata/{*}meta[@property='role']")
    }
    creators = [
        (" ".join(each.text.split()), each.get(_ROLE) or refined.get(each.get("id", "")) or _AUTHOR)
        for each in package.iterfind(".//dc:creator", _NS)
        if each.text
    ]
    names = [name for name, role in creators if role == _AUTHOR] or [name for name, _ in creators]
    return ", ".join(dict.fromkeys(filter(None, names))) or None


def _first_text(package: etree._Element, name: str) -> str | None:
    return next(
        (" ".join(text.split()) for text in (e.text for e in package.iterfind(f".//{name}", _NS)) if text), None
    )


def _resolved(package_name: str, reference: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(package_name), unquote(urlsplit(reference).path)))
