"""ZIP archive of XML, as EPUB, ODT and a packed FB2 are: its files by name, within limits on what it unpacks to."""

from __future__ import annotations

import lzma
import posixpath
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from html.entities import html5
from typing import BinaryIO
from urllib.parse import unquote

from lxml import etree

from voxyard.extraction.errors import UnreadableFileError

MAX_ENTRIES = 20_000
"""Maximum number of files in an archive."""

MAX_TEXT_BYTES = 128 * 2**20
"""Maximum bytes of unpacked XHTML and XML."""

MAX_RATIO = 200
"""Maximum compression ratio of a file larger than `RATIO_FROM_BYTES`; prose has about 4."""

RATIO_FROM_BYTES = 4 * 2**20

_PIECE_BYTES = 2**16
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, OverflowError, ValueError,
    NotImplementedError,
)  # fmt: skip
_UTF8_NAME = 0x800  # flag of a ZIP's entry
_NO_REFERENCE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});)((?:[A-Za-z]\w{1,31};)?)")
_NO_TAG = re.compile(rb"<(?![A-Za-z_/!?])")
_CONTROLS = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*(?:[0-8bce-fBCE-F]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2\d|3[01]));"
)
_LINK = re.compile(rb"(\s)(?:xlink|l):(?=href\s*=)")
_SIGNS = {name.encode(): "".join(f"&#{ord(sign)};" for sign in signs).encode() for name, signs in html5.items()}


class TextArchive:
    """Files of the archive by name; `kind` is the type of the file in messages."""

    def __init__(self, archive: zipfile.ZipFile, kind: str) -> None:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        self._kind, self._archive = kind, archive
        if len(entries) > MAX_ENTRIES:
            raise self._bomb(f"it has {len(entries)} files in its ZIP archive; an {kind} has at most {MAX_ENTRIES}")
        self._entries = {entry.filename: entry for entry in entries}
        self._folded = {_folded(_name(entry)): entry for entry in reversed(entries)}
        self._left = MAX_TEXT_BYTES

    def __contains__(self, name: str) -> bool:
        return self._entry(name) is not None

    def names(self) -> list[str]:
        """Names of its files, in their order."""
        return list(self._entries)

    def read(self, name: str, most: int | None = None) -> bytes:
        """Bytes of a file. Raises UnreadableFileError where it is missing or beyond the limits."""
        entry = self._entry(name)
        if entry is None:
            raise broken(f"it names a file that is not in it ({name[:100]})", self._kind)
        limit = self._left if most is None else most
        data = bytearray()
        for piece in pieces(self._archive, entry, self._kind):
            data += piece
            if len(data) > limit:
                raise self._bomb(f"it unpacks to more than {MAX_TEXT_BYTES >> 20} MiB of text")
            if len(data) > RATIO_FROM_BYTES and len(data) > MAX_RATIO * entry.compress_size:
                raise self._bomb(f"{name[:100]} is packed to less than 1/{MAX_RATIO} of its size")
        if most is None:
            self._left -= len(data)
        return bytes(data)

    def size(self, name: str) -> int:
        """Bytes that a file declares to unpack to."""
        entry = self._entry(name)
        return 0 if entry is None else entry.file_size

    def xml(self, name: str) -> etree._Element:
        """Root element of a file. Raises UnreadableFileError where it is no well-formed XML."""
        return parsed_xml(self.read(name), name, self._kind)

    def _entry(self, name: str) -> zipfile.ZipInfo | None:
        """The file of this name, else one whose name differs in its case, accents' form or escapes, as makers err."""
        return self._entries.get(name) or self._folded.get(_folded(name))

    def _bomb(self, found: str) -> UnreadableFileError:
        return UnreadableFileError(f"{found}: refused; {save_again(self._kind)}")


def opened(content: BinaryIO, kind: str) -> zipfile.ZipFile:
    """The archive in `content`. Raises UnreadableFileError where it is broken."""
    with _unzipping(kind):
        return zipfile.ZipFile(content)


def pieces(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, kind: str) -> Iterator[bytes]:
    """Parts of an unpacked file of an archive. Raises UnreadableFileError where it is broken or encrypted."""
    with _unzipping(kind), archive.open(entry) as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


@contextmanager
def _unzipping(kind: str) -> Iterator[None]:
    """Around calls of zipfile alone: whatever a damaged archive makes it raise is told as that."""
    try:
        yield
    except _DAMAGED as error:
        raise broken(f"its ZIP archive is broken or truncated ({error})", kind) from error
    except RuntimeError as error:
        raise broken("its ZIP archive is encrypted: expected one without a password", kind) from error


@contextmanager
def text_archive(content: BinaryIO, kind: str) -> Iterator[TextArchive]:
    """The archive in `content`, for as long as the context lasts.

    Raises:
        UnreadableFileError: broken, encrypted, or an archive that unpacks to far more than a text.
    """
    with opened(content, kind) as archive:
        yield TextArchive(archive, kind)


def _name(entry: zipfile.ZipInfo) -> str:
    """Name of a file, in UTF-8 also where the archive does not say that it is."""
    if not entry.flag_bits & _UTF8_NAME:
        try:
            return entry.filename.encode("cp437").decode("utf-8")
        except UnicodeError:  # of that code page
            pass
    return entry.filename


def _folded(name: str) -> str:
    name = posixpath.normpath(unquote(name).replace("\\", "/")).lstrip("/")
    return unicodedata.normalize("NFC", name).casefold()


def parsed_xml(data: bytes, name: str, kind: str) -> etree._Element:
    """Root element of XML that loads nothing, and whose entities stay unread.

    Signs that are no XML, as `&` and `<` alone and the names of HTML's characters, are read as they are meant; control
    characters and prefixes of links that are not declared are left out.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if b"<!ENTITY" not in data and (mended := _with_xml_signs(data)) != data:
            try:
                return etree.fromstring(mended, parser)
            except etree.XMLSyntaxError:  # the first error says what is wrong with the file
                pass
        raise broken(f"{name[:100]} is not well-formed XML ({error})", kind) from error


def _with_xml_signs(data: bytes) -> bytes:
    data = _CONTROLS.sub(b"", _NO_TAG.sub(b"&lt;", data))
    if b"xmlns:xlink" not in data and b"xmlns:l=" not in data:
        data = _LINK.sub(rb"\1", data)
    return _NO_REFERENCE.sub(lambda found: _SIGNS.get(found[1], found[0]) if found[1] else b"&amp;", data)


def broken(found: str, kind: str) -> UnreadableFileError:
    """Error of a damaged file, with what was found."""
    return UnreadableFileError(f"{found}: {save_again(kind)}")


def save_again(kind: str) -> str:
    """What to do with a damaged file."""
    program = {"ODT": "LibreOffice", "DOCX": "Word or LibreOffice"}.get(kind, "an e-book program")
    return f"open it in {program}, save it as {kind} again and send that"
