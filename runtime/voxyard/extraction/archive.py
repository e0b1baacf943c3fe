"""ZIP archive of XML, as EPUB, ODT and a packed FB2 are: its files by name, within limits on what it unpacks to."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

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


class TextArchive:
    """Files of the archive by name; `kind` is the type of the file in messages."""

    def __init__(self, archive: zipfile.ZipFile, kind: str) -> None:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        self._kind, self._archive = kind, archive
        if len(entries) > MAX_ENTRIES:
            raise self._bomb(f"it has {len(entries)} files in its ZIP archive; an {kind} has at most {MAX_ENTRIES}")
        self._entries = {entry.filename: entry for entry in entries}
        self._left = MAX_TEXT_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Names of its files, in their order."""
        return list(self._entries)

    def read(self, name: str, most: int | None = None) -> bytes:
        """Bytes of a file. Raises UnreadableFileError where it is missing or beyond the limits."""
        entry = self._entries.get(name)
        if entry is None:
            raise broken(f"it names a file that is not in it ({name[:100]})", self._kind)
        limit = self._left if most is None else most
        data = bytearray()
        with self._archive.open(entry) as stream:
            while piece := stream.read(_PIECE_BYTES):
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
        return self._entries[name].file_size

    def xml(self, name: str) -> etree._Element:
        """Root element of a file. Raises UnreadableFileError where it is no well-formed XML."""
        return parsed_xml(self.read(name), name, self._kind)

    def _bomb(self, found: str) -> UnreadableFileError:
        return UnreadableFileError(f"{found}: refused; {_save_again(self._kind)}")


@contextmanager
def text_archive(content: BinaryIO, kind: str) -> Iterator[TextArchive]:
    """The archive in `content`, for as long as the context lasts.

    Raises:
        UnreadableFileError: broken, encrypted, or an archive that unpacks to far more than a text.
    """
    try:
        with zipfile.ZipFile(content) as archive:
            yield TextArchive(archive, kind)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise broken(f"its ZIP archive is broken or truncated ({error})", kind) from error
    except RuntimeError as error:  # zipfile's for an encrypted entry
        if isinstance(error, RecursionError):
            raise
        raise broken("its ZIP archive is encrypted: expected one without a password", kind) from error


def parsed_xml(data: bytes, name: str, kind: str) -> etree._Element:
    """Root element of XML that loads nothing, and whose entities stay unread."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise broken(f"{name[:100]} is not well-formed XML ({error})", kind) from error


def broken(found: str, kind: str) -> UnreadableFileError:
    """Error of a damaged file, with what was found."""
    return UnreadableFileError(f"{found}: {_save_again(kind)}")


def _save_again(kind: str) -> str:
    program = "LibreOffice" if kind == "ODT" else "an e-book program"
    return f"open it in {program}, save it as {kind} again and send that"
