"""EPUB files as their makers write them: a container, a package, a page a chapter."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from xml.sax.saxutils import escape

_CONTAINER = (
    "<container version='1.0' xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles><rootfile "
    "full-path='book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>"
)
_PAGE = (
    "<html xmlns='http://www.w3.org/1999/xhtml'{}><head><title>x</title></head><body><h1>{}</h1><p>{}</p></body></html>"
)


def epub(
    chapters: Mapping[str, str],
    *,
    title: str,
    author: str = "",
    language: str = "en",
    cover: bytes | None = None,
    languages: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """A book of these chapters, title to text, with a PNG as its cover; `languages` are those that pages declare."""
    items = "".join(
        f"<item id='c{number}' href='c{number}.xhtml' media-type='application/xhtml+xml'/>"
        for number in range(len(chapters))
    )
    if cover is not None:
        items += "<item id='v' href='v.png' media-type='image/png' properties='cover-image'/>"
    spine = "".join(f"<itemref idref='c{number}'/>" for number in range(len(chapters)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", _CONTAINER)
        archive.writestr(
            "book.opf",
            "<package xmlns='http://www.idpf.org/2007/opf' version='3.0' unique-identifier='i'>"
            f"<metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:title>{escape(title)}</dc:title>"
            f"<dc:creator>{escape(author)}</dc:creator>"
            f"<dc:identifier id='i'>x</dc:identifier><dc:language>{escape(language)}</dc:language></metadata>"
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
        )
        for number, (heading, text) in enumerate(chapters.items()):
            declared = f" xml:lang='{languages[heading]}'" if heading in languages else ""
            archive.writestr(f"c{number}.xhtml", _PAGE.format(declared, escape(heading), escape(text)))
        if cover is not None:
            archive.writestr("v.png", cover)
    return out.getvalue()


def png() -> bytes:
    """A grey picture of 8 × 8 pixels."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(9 * 8))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
