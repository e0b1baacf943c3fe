"""PDF files written object by object, valid ones and broken ones."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def objects(numbered: Mapping[int, bytes], trailer: bytes = b"") -> bytes:
    """A file of the objects by their numbers; number 1 is the catalog. `trailer` goes into the trailer's dictionary."""
    data = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    offsets = {}
    for number, body in sorted(numbered.items()):
        offsets[number] = len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(data)
    data += b"xref\n0 1\n0000000000 65535 f \n"
    for number, offset in offsets.items():
        data += b"%d 1\n%010d 00000 n \n" % (number, offset)
    data += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (max(numbered) + 1, trailer, table)
    return bytes(data)


def stream(content: bytes, entries: bytes = b"", *, packed: bool = False) -> bytes:
    """A stream object; `packed` with Flate."""
    if packed:
        content, entries = zlib.compress(content, 9), entries + b" /Filter /FlateDecode"
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def string(text: str) -> bytes:
    """A string literal in the font's encoding."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return b"(%s)" % escaped.encode("cp1252")


def page_content(
    lines: Sequence[str], *, size: float = 11, leading: float = 14, left: float = 72, top: float = 770
) -> bytes:
    """The operators that show lines one below the other; an empty one leaves room for half a line.

    Blanks before a line move it to the right by half the font's size each.
    """
    content, down = [b"BT /F1 %g Tf" % size], top
    for line in lines:
        if not line:
            down -= leading / 2
            continue
        blanks = len(line) - len(line.lstrip(" "))
        content.append(b"1 0 0 1 %g %g Tm %s Tj" % (left + blanks * size / 2, down, string(line.lstrip(" "))))
        down -= leading
    return b"\n".join([*content, b"ET"])


def document(
    contents: Sequence[bytes], *, title: str | None = None, packed: bool = False, resources: bytes = b"",
    further: Mapping[int, bytes] | None = None, information: bytes = b"",
) -> bytes:  # fmt: skip
    """A file with one page for each content stream; `further` objects are numbered from 10 to 19.

    `information` are further entries of the information dictionary.
    """
    numbered = {3: FONT, **(further or {})}
    kids = []
    for index, content in enumerate(contents):
        page, body = 20 + 2 * index, 21 + 2 * index
        kids.append(b"%d 0 R" % page)
        numbered[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> %s >> >>" % (body, resources)
        )
        numbered[body] = stream(content, packed=packed)
    numbered[1] = b"<< /Type /Catalog /Pages 2 0 R >>"
    numbered[2] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    trailer = b""
    if title is not None:
        information += b" /Title " + string(title)
    if information:
        numbered[4], trailer = b"<< %s >>" % information, b"/Info 4 0 R"
    return objects(numbered, trailer)


def written(pages: Sequence[Sequence[str]], *, title: str | None = None) -> bytes:
    """A file whose pages show these lines."""
    return document([page_content(lines) for lines in pages], title=title)
