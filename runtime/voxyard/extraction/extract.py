"""Text extraction from uploads: title, text and chapters; the kind of file is detected from the content."""

from __future__ import annotations

import codecs
import re
import threading
import zipfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Literal

from voxyard.extraction.document import (
    CodeBlocks,
    Paragraph,
    ParsedDocument,
    TextChapter,
    short_urls,
    with_titles,
)
from voxyard.extraction.errors import (
    FORMATS,
    ExtractionError,
    TextTooLongError,
    UnreadableFileError,
    UnsupportedFileError,
)
from voxyard.extraction.lines import with_paragraphs, without_page_numbers
from voxyard.extraction.machine_text import machine_text
from voxyard.extraction.misread import damage_of, mend_of
from voxyard.extraction.plaintext import clean, decode
from voxyard.extraction.sandbox import DEFAULT_LIMITS, ExtractionLimits, read_in_child
from voxyard.extraction.silent import without_contents, without_marks, without_pictures, without_readings
from voxyard.extraction.subtitles import said_in_subtitles

Kind = Literal["txt", "markdown", "html", "epub", "pdf", "docx", "odt", "rtf", "fb2"]

MAX_FILE_BYTES = 256 * 2**20
"""Largest file that `extract_file` reads, in bytes; the service has its own limit for uploads."""

_NAMES: dict[Kind, str] = {
    "txt": "plain text", "markdown": "Markdown", "html": "HTML", "epub": "an EPUB", "pdf": "a PDF", "docx": "a DOCX",
    "odt": "an ODT", "rtf": "an RTF", "fb2": "an FB2",
}  # fmt: skip
_TEXTS = ("txt", "markdown", "html")  # the content alone does not tell them apart
_SUFFIXES: dict[str, Kind] = {
    ".txt": "txt", ".text": "txt", ".asc": "txt", ".srt": "txt", ".vtt": "txt",
    ".md": "markdown", ".markdown": "markdown",
    ".html": "html", ".htm": "html", ".xhtml": "html",
    ".epub": "epub",
    ".pdf": "pdf",
    ".docx": "docx", ".odt": "odt", ".rtf": "rtf", ".fb2": "fb2", ".fb2.zip": "fb2",
}  # fmt: skip
_SUFFIX_OF = {kind: ".md" if kind == "markdown" else f".{kind}" for kind in _NAMES}
_MEDIA_TYPES: dict[str, Kind] = {
    "text/plain": "txt",
    "text/vtt": "txt",
    "application/x-subrip": "txt",
    "text/markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/epub+zip": "epub",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "application/x-fictionbook+xml": "fb2",
    "application/fb2": "fb2",
    "application/fb2+zip": "fb2",
    "application/x-zip-compressed-fb2": "fb2",
}
_NO_CLAIM = ("", "application/octet-stream", "binary/octet-stream", "application/x-www-form-urlencoded")
_OTHER_SUFFIXES = {
    ".azw", ".azw3", ".bmp", ".bz2", ".cbr", ".cbz", ".chm", ".csv", ".djvu", ".doc", ".docm", ".dot", ".dotx",
    ".eml", ".exe", ".flac", ".fodt", ".gif", ".gz", ".jpeg", ".jpg", ".json", ".kfx", ".lit", ".m4a", ".mht",
    ".mhtml", ".mobi", ".mp3", ".mp4", ".odp", ".ods", ".ogg", ".pages", ".png", ".ppt", ".pptx", ".ps", ".rar",
    ".svg", ".tar", ".tex", ".tif", ".tiff", ".tsv", ".wav", ".webp", ".wpd", ".xls", ".xlsx", ".xml", ".yaml",
    ".yml", ".zip", ".7z",
}  # fmt: skip
_SAVE_AS = {  # where the program that opens it can write a type that is read
    ".odt": (".fodt",),
    ".html": (".mht", ".mhtml", ".eml", ".chm", ".csv", ".tsv"),
    ".docx": (".doc", ".docm", ".dot", ".dotx", ".pages", ".wpd"),
    ".epub": (".azw", ".azw3", ".kfx", ".lit", ".mobi"),
    ".pdf": (".djvu", ".odp", ".ppt", ".pptx", ".ps", ".tex"),
}
_OTHER_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "audio, video or an image (RIFF)"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"OggS", "Ogg audio"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"%!PS", "PostScript"),
)
_ODT, _MIME_TYPE_AT = b"mimetypeapplication/vnd.oasis.opendocument.text", 30  # bytes of a ZIP's first header
_ODT_PARTS = {"content.xml", "META-INF/manifest.xml"}
_EPUB_CONTAINER = "META-INF/container.xml"
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_MAGIC = b"%PDF-"
_PROLOG = rb"(?:(?:<\?[^>]*\?>|(?><!--.*?-->))\s*)*+"
_HTML_BEGINS = re.compile(
    _PROLOG + rb"(?:<!doctype\s+html|<html[\s>]|<(body|head|p|div|h[1-6]|table|center|section|article)[\s>].*</\1>)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_TEXTS = (  # what is text by its bytes, and markup all the same; of what it can be saved as
    (re.compile(_PROLOG + rb"<office:document[\s>]", re.DOTALL), "a flat OpenDocument file (.fodt)", ".odt"),
    (re.compile(_PROLOG + rb"<(?:w:wordDocument|pkg:package)[\s>]", re.DOTALL), "a Word document in XML", ".docx"),
    (
        re.compile(rb"(?:[\w-]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?MIME-Version:\s*1", re.IGNORECASE),
        "a web page in one file (.mht) or an e-mail",
        ".html",
    ),
    (
        re.compile(
            rb"(?:%[^\n]*\n\s*)*\\(?:documentclass\b|(?:usepackage|input|include|chapter|section|begin)\*?[\[{])"
        ),
        "LaTeX",
        ".pdf",
    ),
    (re.compile(rb"\[Script Info\]", re.IGNORECASE), "subtitles of Aegisub (.ass)", ".srt"),
)
_XML_BEGINS = {"markdown": re.compile(rb"<\?xml\s"), "txt": re.compile(rb"<\?xml\s|<[\w:]+\s[^>]*\bxmlns\b")}
_HEAD = 8192  # bytes that tell of markup
_PDF_MAGIC_WITHIN = 1024  # bytes that may precede it
_FICTION_BOOK = re.compile(_PROLOG + rb"<(?:\w+:)?FictionBook[\s>]", re.DOTALL)
_SEND = f"send a {FORMATS} file"

_NO_TITLE = re.compile(
    r"(untitled|no title|document|title|dokument|microsoft word|word document|powerpoint)?[\s\-_.]*\d*"
    r"|microsoft \w+ - .*|.*\.(docx?|pdf|txt|rtf|odt|tex|dvi|indd|qxd|pages|html?)|(https?|file):\S*",
    re.IGNORECASE,
)
_NO_AUTHOR = re.compile(
    r"unknown|author|user|owner|admin(istrator)?|root|python-docx|openpyxl|(microsoft )?office user", re.IGNORECASE
)
_LONGEST_TITLE = 200
_LONGEST_AUTHOR = 200
_LONGEST_FIRST_LINE = 80
_FEW_SIGNS = 20


@dataclass(frozen=True)
class ExtractedText(ParsedDocument):
    r"""Contents of a file of this kind, with a title, in a text with at least one word.

    It has `\n` at its line ends, an empty line between its paragraphs and no control characters.
    """

    title: str
    kind: Kind = field(kw_only=True)


def extract(
    data: bytes,
    filename: str | None,
    media_type: str | None,
    *,
    max_characters: int,
    code: CodeBlocks = "skip",
    limits: ExtractionLimits = DEFAULT_LIMITS,
    cancelled: threading.Event | None = None,
) -> ExtractedText:
    """Title, text and chapters of the document with these bytes.

    The content decides the file type; the name (or, where it has no known suffix, the media type) must agree. The
    title is that of the document's properties if it is meaningful, else the file name without its suffix, else the
    first line. `code` says whether blocks of code are skipped or announced.
    All but plain text is read in a child process within `limits`.

    Raises:
        UnsupportedFileError: an unsupported file type.
        UnreadableFileError: broken, encrypted, without text, of another type than its name says, over the limits.
        TextTooLongError: more than `max_characters`.
        ReaderUnavailableError: a library is missing.
        ExtractionCancelledError: `cancelled` was set meanwhile.
    """
    name = _last_part(filename)
    try:
        kind = _kind(data, name, media_type)
        if kind == "txt":
            if len(data) > 4 * max_characters + 4:  # no encoding has more bytes per character
                raise TextTooLongError(_too_long(max_characters))
            document = _plain(decode(data))
        else:
            document = read_in_child(
                kind, data, max_characters=max_characters, code=code, limits=limits, cancelled=cancelled
            )
        text = document.text
        if not any(c.isalnum() for c in text):
            raise UnreadableFileError(f"no text found{_signs(text)}: expected a document with at least one word")
        if len(text) > max_characters:
            raise TextTooLongError(_too_long(max_characters))
    except ExtractionError as error:
        raise type(error)(f"{name or 'the document'}: {error}") from error
    named = {"title": _title(document.title, name, text), "author": _author(document.author)}
    return ExtractedText(**{**vars(document), **named}, kind=kind)


def _plain(text: str) -> ParsedDocument:
    """A plain text, as it is spoken, with its chapters."""
    mend = mend_of(text)
    text = clean(text if mend is None else mend(text))
    said = said_in_subtitles(text)
    if said is None:
        said = without_contents(without_marks(without_readings(without_pictures(text))))
        said = with_paragraphs(without_page_numbers(clean(said)))
    spoken = short_urls(clean(said))
    found, at = list[TextChapter](), 0
    for block in with_titles([Paragraph(each) for each in spoken.split("\n\n")]):
        if isinstance(block, Paragraph) and block.chapter is not None:
            found.append(TextChapter(" ".join(block.chapter.text.split()), at, 1))
        at += len(block.text) + len("\n\n") if isinstance(block, Paragraph) else 0
    return ParsedDocument(None, spoken, tuple(found), damage=damage_of(spoken))


def kind_of(data: bytes, filename: str | None, media_type: str | None) -> Kind:
    """File type of a document by its content, as `extract` finds it, without reading it.

    Raises:
        UnsupportedFileError: an unsupported file type.
        UnreadableFileError: of another type than its name says.
    """
    name = _last_part(filename)
    try:
        return _kind(data, name, media_type)
    except ExtractionError as error:
        raise type(error)(f"{name or 'the document'}: {error}") from error


def title_of_name(filename: str | None) -> str | None:
    """Title of a document by the name of its file; None where that has no letters or digits."""
    name = _last_part(filename)
    return _title(None, name, "") if any(c.isalnum() for c in name) else None


def extract_file(
    path: Path, *, max_characters: int, max_bytes: int = MAX_FILE_BYTES, code: CodeBlocks = "skip"
) -> ExtractedText:
    """Title, text and chapters of a file of at most `max_bytes` bytes, as by `extract`.

    Raises:
        ExtractionError: as `extract`; also where the file cannot be opened.
    """
    try:
        with path.open("rb") as content:
            data = content.read(max_bytes + 1)
    except OSError as error:
        raise UnreadableFileError(f"{path}: {error.strerror or error}; expected a readable {FORMATS} file") from error
    if len(data) > max_bytes:
        raise TextTooLongError(f"{path}: larger than the limit of {max_bytes / 2**20:g} MiB: split the document")
    return extract(data, path.name, None, max_characters=max_characters, code=code)


def _kind(data: bytes, name: str, media_type: str | None) -> Kind:
    """File type of the content, where the name or the media type agrees. Raises ExtractionError."""
    suffix = _suffix(name)
    kind = _kind_by_content(data, _SUFFIXES.get(suffix))
    if suffix in _OTHER_SUFFIXES:
        other = next((each for each, those in _SAVE_AS.items() if suffix in those), None)
        what = f"save it as {other} in a program that opens it" if other else _SEND
        raise UnsupportedFileError(
            f"unsupported file type {suffix}: {what}; if it is {_NAMES[kind]}, rename it to {_SUFFIX_OF[kind]}"
        )
    claimed, claim = _SUFFIXES.get(suffix), f"its name ends in {suffix}"
    media = (media_type or "").partition(";")[0].strip().lower()
    if claimed is None and media not in _NO_CLAIM:
        claimed, claim = _MEDIA_TYPES.get(media), f"it was sent as {media}"
        if claimed is None:
            raise UnsupportedFileError(f"{claim}, which is not supported: {_SEND}")
    if claimed in _TEXTS and kind in _TEXTS:
        return "html" if (claimed, kind) == ("txt", "html") else claimed  # its markup is not spoken
    if claimed is None or claimed == kind:
        return kind
    if kind in _TEXTS:
        raise UnreadableFileError(
            f"{claim}, but its content is not {_NAMES[claimed]}: if it is plain text, rename it to .txt; else open it"
            " in the program that made it, save it again and send that"
        )
    raise UnreadableFileError(
        f"{claim}, but its content is {_NAMES[kind]}: rename it to {_SUFFIX_OF[kind]} and send it again"
    )


def _kind_by_content(data: bytes, claimed: Kind | None) -> Kind:
    head = data[:_PDF_MAGIC_WITHIN].lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if head.startswith(_PDF_MAGIC) or (_PDF_MAGIC in head and (claimed == "pdf" or b"\0" in data)):
        return "pdf"
    if data.startswith(_ZIP_MAGIC):
        return _kind_of_archive(data, claimed)
    text = _head(data)
    if text.startswith(b"{\\rtf"):
        return "rtf"
    if _FICTION_BOOK.match(text):
        return "fb2"
    if data.startswith(_OLE_MAGIC):
        raise _ole(data)
    for magic, found in _OTHER_MAGIC:
        if data.startswith(magic):
            raise UnsupportedFileError(f"its content is {found}, which is not supported: {_SEND}")
    for markup, found, suffix in _OTHER_TEXTS:
        if markup.match(text):
            raise UnsupportedFileError(
                f"its content is {found}, which is not supported: save it as {suffix} in a program that opens it"
            )
    if _HTML_BEGINS.match(text):
        return "html"
    if claimed != "html":
        _check_for_people(text, claimed, whole=len(data) <= _HEAD)
    return "txt"


def _check_for_people(text: bytes, claimed: Kind | None, *, whole: bool) -> None:
    """Raises UnsupportedFileError for the beginning of a text, perhaps the whole, that is written for machines."""
    if _XML_BEGINS["markdown" if claimed == "markdown" else "txt"].match(text):
        raise UnsupportedFileError(f"its content is XML, which is not supported: {_SEND}")
    if claimed != "markdown" and (found := machine_text(text.decode("latin-1"), whole=whole)) is not None:
        raise UnsupportedFileError(f"its content is {found}")


def _head(data: bytes) -> bytes:
    """The first bytes of a text from its first sign on, of UTF-16 as UTF-8."""
    head = data[:_HEAD]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = head.decode("utf-16", "ignore").encode("utf-8", "ignore")
    return head.lstrip(b"\xef\xbb\xbf \t\r\n\0")


def _kind_of_archive(data: bytes, claimed: Kind | None) -> Kind:
    """EPUB by its container, ODT by its first file, FB2 by its suffix, else DOCX, which its reader verifies."""
    if data[_MIME_TYPE_AT:].startswith(_ODT):
        return "odt"
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError):
        return claimed if claimed in ("epub", "fb2") else "docx"
    if _EPUB_CONTAINER in names:
        return "epub"
    if names and all(each.lower().endswith(".fb2") for each in names):
        return "fb2"
    return "odt" if _ODT_PARTS.issubset(names) else "docx"


def _ole(data: bytes) -> ExtractionError:
    """Error for an OLE file, by the names of its streams."""
    if "EncryptedPackage".encode("utf-16-le") in data:
        return UnreadableFileError(
            "an Office document encrypted with a password; expected one without:"
            " remove the password in Word and send it again"
        )
    if "WordDocument".encode("utf-16-le") in data:
        return UnsupportedFileError(
            "an old Word document (.doc), which is not supported: save it as .docx in Word or LibreOffice and send that"
        )
    return UnsupportedFileError(f"an old Office file (OLE), which is not supported: {_SEND}")


def _suffix(name: str) -> str:
    """Suffix of a file's name in small letters, both parts of one that is known with them: .fb2.zip."""
    both = "".join(Path(name).suffixes[-2:]).lower()
    return both if both in _SUFFIXES else Path(name).suffix.lower()


def _last_part(filename: str | None) -> str:
    """File name without folders and control characters, for messages and titles only."""
    return clean(re.split(r"[/\\]", filename or "")[-1]).replace("\n", " ")[-_LONGEST_TITLE:]


def _title(own: str | None, name: str, text: str) -> str:
    own = " ".join(clean(own or "").split())
    if own and len(own) <= _LONGEST_TITLE and any(c.isalpha() for c in own) and not _NO_TITLE.fullmatch(own):
        return own
    suffix = _suffix(name)
    stem = name[: -len(suffix)] if suffix in _SUFFIXES else name
    if any(c.isalnum() for c in stem):
        return stem.strip()
    line = " ".join(text.split("\n", 1)[0].split())
    return line if len(line) <= _LONGEST_FIRST_LINE else f"{line[: _LONGEST_FIRST_LINE - 1].rstrip()}…"


def _author(own: str | None) -> str | None:
    """Author of a document's properties in one line; None for what programs write there where nobody is named."""
    own = " ".join(clean(own or "").split())
    if not any(c.isalpha() for c in own) or _NO_AUTHOR.fullmatch(own):
        return None
    return own if len(own) <= _LONGEST_AUTHOR else f"{own[: _LONGEST_AUTHOR - 1].rstrip()}…"


def _signs(text: str) -> str:
    """What a text without a word has, such as emoji."""
    signs = " ".join(text.split())
    return f"; it has signs alone ({signs[:_FEW_SIGNS]}), which are silent" if signs else ""


def _too_long(max_characters: int) -> str:
    return f"the text has more than {max_characters} characters: split the document"
