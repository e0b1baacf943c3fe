"""Validation of a DOCX's ZIP archive and XML, before anything else reads them."""

from __future__ import annotations

import io
import re
import zipfile
from typing import BinaryIO
from xml.parsers import expat

from voxyard.extraction.archive import broken, opened, pieces, save_again
from voxyard.extraction.errors import FORMATS, UnreadableFileError, UnsupportedFileError

MAX_ENTRIES = 10_000
"""Maximum number of files in a DOCX."""

MAX_DECLARED_BYTES = 2**30
"""Maximum declared size of all files in a DOCX, in bytes."""

MAX_XML_BYTES = 128 * 2**20
"""Maximum bytes of unpacked XML."""

MAX_RATIO = 200
"""Maximum compression ratio of an XML file larger than `RATIO_FROM_BYTES`; prose has about 10."""

RATIO_FROM_BYTES = 4 * 2**20

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_USUAL = (
    rb"http://schemas.openxmlformats.org/\1/2006/\2"  # names of what Word saves as strict, as it has them otherwise
)
_CONTENT_TYPES = "[Content_Types].xml"
MAIN_TYPE = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_OTHER_ARCHIVES = {  # names that identify the type
    "xl/workbook.xml": "an Excel sheet (XLSX)",
    "ppt/presentation.xml": "a PowerPoint presentation (PPTX)",
    "META-INF/container.xml": "an e-book (EPUB)",
    "META-INF/MANIFEST.MF": "a Java archive",
}


def sanitized(content: BinaryIO) -> bytes:
    """Copy of the archive with its validated XML files, a strict one's as usual, and all other files emptied.

    Raises:
        UnsupportedFileError: another type of ZIP archive.
        UnreadableFileError: broken, encrypted, or an archive that unpacks to far more than a document.
    """
    with opened(content, "DOCX") as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        _check_declared(entries)
        copy, left = io.BytesIO(), MAX_XML_BYTES
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as copied:
            for entry in entries:
                data = _unpacked(archive, entry, left) if _is_xml(entry) else b""
                left -= len(data)
                copied.writestr(entry.filename, _STRICT.sub(_USUAL, data))
    return copy.getvalue()


def _check_declared(entries: list[zipfile.ZipInfo]) -> None:
    """Checks the sizes that the archive declares, before unpacking."""
    if len(entries) > MAX_ENTRIES:
        raise _bomb(f"it has {len(entries)} files in its ZIP archive; a DOCX has at most {MAX_ENTRIES}")
    total = sum(entry.file_size for entry in entries)
    xml = sum(entry.file_size for entry in entries if _is_xml(entry))
    if total > MAX_DECLARED_BYTES or xml > MAX_XML_BYTES:
        raise _bomb(
            f"it would unpack to {total / 2**20:.0f} MiB, {xml / 2**20:.0f} MiB of them XML; a DOCX may have"
            f" {MAX_DECLARED_BYTES >> 20} MiB, {MAX_XML_BYTES >> 20} MiB of them XML"
        )
    for entry in entries:
        if _is_xml(entry):
            _check_ratio(entry, entry.file_size)
    names = {entry.filename for entry in entries}
    if _CONTENT_TYPES not in names or not any(name.startswith("word/") for name in names):
        found = next((found for name, found in _OTHER_ARCHIVES.items() if name in names), None)
        if found is None:
            found = "an OpenDocument file, but no ODT text" if "mimetype" in names else "a ZIP archive, but no DOCX"
        raise UnsupportedFileError(f"its content is {found}, which is not supported: send a {FORMATS} file")


def _is_xml(entry: zipfile.ZipInfo) -> bool:
    return entry.filename.lower().endswith((".xml", ".rels"))


def _check_ratio(entry: zipfile.ZipInfo, size: int) -> None:
    if size > RATIO_FROM_BYTES and size > MAX_RATIO * entry.compress_size:
        raise _bomb(f"{entry.filename[:100]} is packed to less than 1/{MAX_RATIO} of its size")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    """Unpacks an XML file of the archive; checks size, compression ratio and absence of a DOCTYPE meanwhile."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _no_doctype
    main = entry.filename == _CONTENT_TYPES
    data = bytearray()
    for piece in pieces(archive, entry, "DOCX"):
        data += piece
        if len(data) > most:
            raise _bomb(f"it unpacks to more than {MAX_XML_BYTES >> 20} MiB of XML")
        _check_ratio(entry, len(data))
        _parse(parser, piece, entry)
    _parse(parser, b"", entry, last=True)
    if main and MAIN_TYPE not in data:
        raise UnsupportedFileError(
            "an Office file, but not a DOCX document (perhaps a template or one with macros):"
            " save it as .docx and send that"
        )
    return bytes(data)


def _parse(parser: expat.XMLParserType, piece: bytes, entry: zipfile.ZipInfo, *, last: bool = False) -> None:
    try:
        parser.Parse(piece, last)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two for encodings that expat does not have
        raise broken(f"{entry.filename[:100]} is not well-formed XML ({error})", "DOCX") from error


def _no_doctype(*_: object) -> None:
    raise _bomb("its XML declares a document type (DOCTYPE), which allows entity expansion attacks")


def _bomb(found: str) -> UnreadableFileError:
    return UnreadableFileError(f"{found}: refused; {save_again('DOCX')}")
