"""Text of a page of HTML or XHTML: by its encoding, and without the prefixes of its elements."""

from __future__ import annotations

import re

from voxyard.extraction.errors import UnreadableFileError
from voxyard.extraction.plaintext import decode, has_mark

_PREFIX = re.compile(r"\sxmlns:([\w.-]+)\s*=\s*[\"']http://www\.w3\.org/(?:1999/xhtml|1998/Math/MathML|2000/svg)[\"']")
_DECLARED = re.compile(
    rb"(?:<\?xml[^>]*\bencoding|<meta\b[^>]*\bcharset)\s*=\s*[\"']?\s*(?P<name>[\w:.-]+)", re.IGNORECASE
)
_AS_BROWSERS_READ = {  # the encodings that browsers take for what pages call so
    "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252", "gb2312": "gb18030",
    "gbk": "gb18030", "x-gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932",
    "x-sjis": "cp932", "windows-31j": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "big5": "big5hkscs",
    "iso-8859-9": "cp1254", "tis-620": "cp874", "x-mac-roman": "mac_roman", "unicode": "utf-8", "utf-16": "utf-8",
}  # fmt: skip


def text_of_page(markup: str | bytes) -> str:
    """The text of a page; bytes are decoded as it declares, else as detected. <h:p> is read as <p>."""
    text = markup if isinstance(markup, str) else _decoded(markup)
    prefixes = {found[1] for found in _PREFIX.finditer(text)}
    if not prefixes:
        return text
    return re.sub(rf"(</?)(?:{'|'.join(map(re.escape, sorted(prefixes)))}):", r"\1", text)


def _decoded(data: bytes) -> str:
    """Text of a page by its byte order mark, by what it declares, as UTF-8, or as detected."""
    declared = _DECLARED.search(data[:2048])
    if not has_mark(data) and declared is not None:
        name = declared["name"].decode("ascii").lower()
        for encoding in (_AS_BROWSERS_READ.get(name, name), "utf-8"):
            try:
                return data.decode(encoding)
            except (LookupError, UnicodeDecodeError):  # no such encoding, or another one
                continue
    try:
        return decode(data)
    except UnreadableFileError:
        return data.decode("utf-8", "replace")
