"""PDF reader: lines with their positions by pdfium, then paragraphs; runs in the child process of `sandbox`."""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import BinaryIO

import pypdfium2
from pypdfium2 import PdfDocument, PdfiumError, raw

from voxyard.extraction.document import Block, ParsedDocument, parsed
from voxyard.extraction.errors import TextTooLongError, UnreadableFileError
from voxyard.extraction.pdf_columns import WIDE, Gap, LineExtent, in_reading_order
from voxyard.extraction.pdf_notes import TextLine
from voxyard.extraction.pdf_outline import outline_of
from voxyard.extraction.pdf_paragraphs import blocks
from voxyard.extraction.pdf_right_to_left import Letter, has_right_to_left, logical
from voxyard.extraction.plaintext import LIGATURES
from voxyard.extraction.raised import above

_SAVE_AGAIN = "open it in a PDF program, print or save it as a new PDF and send that"
_LETTERS = {  # ligatures and special hyphens
    **LIGATURES,
    0x2010: "-", 0x2011: "-",
}  # fmt: skip
_BROKEN_WORD = "\ufffe\x02"  # pdfium's signs for the hyphen and the end of a line within a word
_LINE_ENDS = re.compile(r"\r\n|[\r\n\x02\ufffe]")
_MAY_BE_RAISED = frozenset("0123456789-−+[]")
_SAME_LINE, _BESIDE = 0.6, 0.6  # times the size of the text, at most: between two letters of one line
_RAISED_SIZE, _RAISED_BY = 0.92, 0.2  # times the size of the text, at most and at least
_BLANKS = re.compile(r"\s+")
_ACROSS, _UPWARDS = "across", "upwards"
_SKEWED = 0.2  # of a line's direction; scans are skewed by less
_MOST_STAMPS, _STAMPS = 2, 0.34  # lines up the edge of a page, and of its characters
_APART = re.compile(r"(?:[^\W\d_] ){3,}[^\W\d_]")  # letters of a title
_WIDER = 1.5  # times the usual gap between two letters
_NO_INK = (3, 7)  # modes of drawing text
_MAX_UNKNOWN = 0.3  # of a document's characters
_MAX_PAGES = 20_000
_MAX_OBJECTS = 200_000  # on a page, those of its forms included; a page of print has some thousands
_MAX_FORM_DEPTH = 4


def read_pdf(content: BinaryIO, *, max_characters: int) -> ParsedDocument:
    """Title and author in a PDF's properties, and the text of its pages in order; headings are told by their size.

    Raises:
        UnreadableFileError: broken, encrypted, without pages or text.
        TextTooLongError: far more than `max_characters`.
    """
    try:
        with PdfDocument(content.read()) as pdf:
            return _read(pdf, max_characters)
    except PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise UnreadableFileError(
                "encrypted with a password; expected a PDF that opens without one:"
                " save it without a password and send that"
            ) from error
        if error.err_code == raw.FPDF_ERR_SECURITY:
            raise UnreadableFileError(f"unknown kind of encryption ({error}): {_SAVE_AGAIN}") from error
        raise UnreadableFileError(f"broken PDF structure ({error}): {_SAVE_AGAIN}") from error


def _read(pdf: PdfDocument, max_characters: int) -> ParsedDocument:
    count = len(pdf)
    if not 0 < count <= _MAX_PAGES:
        found = f"{count} pages, expected at most {_MAX_PAGES}: split it" if count else f"no pages: {_SAVE_AGAIN}"
        raise UnreadableFileError(found)
    pages: list[list[TextLine]] = []
    length = 0
    for number in range(count):
        lines = _lines_of(pdf, number)
        length += sum(len(line.text) for line in lines)
        if length > 2 * max_characters:  # the exact length is known after removing running heads and hyphens
            raise TextTooLongError(f"the text has more than {max_characters} characters: split the document")
        pages.append(lines)
    found_blocks: list[Block] = blocks(pages, outline_of(pdf))
    document = parsed(
        _property(pdf, b"Title"), found_blocks, "skip", language=_language(pdf), author=_property(pdf, b"Author")
    )
    _check_text(document.text, count)
    return document


def _lines_of(pdf: PdfDocument, number: int) -> list[TextLine]:
    page = pdf[number]
    try:
        _hide_unseen(page, _checked_objects(page, number))
        text_page = page.get_textpage()
        try:
            return _in_reading_order(text_page, _without_turned(text_page, list(_lines(text_page))))
        finally:
            text_page.close()
    finally:
        page.close()


def _checked_objects(page: pypdfium2.PdfPage, number: int) -> list[pypdfium2.PdfObject]:
    """The objects drawn on a page. Refuses one whose forms show each other over and over."""
    found: list[pypdfium2.PdfObject] = []
    for each in page.get_objects(max_depth=_MAX_FORM_DEPTH):
        found.append(each)
        if len(found) > _MAX_OBJECTS:
            raise UnreadableFileError(
                f"page {number + 1} has more than {_MAX_OBJECTS} drawn objects, which exceeds a limit: {_SAVE_AGAIN}"
            )
    return found


def _hide_unseen(page: pypdfium2.PdfPage, drawn: Sequence[pypdfium2.PdfObject]) -> None:
    """Takes text that is drawn with no ink from a page, unless it is most of the text, or that of a scan."""
    texts = [each for each in drawn if each.type == raw.FPDF_PAGEOBJ_TEXT]
    unseen = [each for each in texts if raw.FPDFTextObj_GetTextRenderMode(each.raw) in _NO_INK]
    if len(unseen) > len(texts) / 2 or any(
        each.type == raw.FPDF_PAGEOBJ_IMAGE and _is_scan(each, page) for each in drawn
    ):
        return
    for each in unseen:
        if each.level == 0:  # in no form
            page.remove_obj(each)


def _is_scan(image: pypdfium2.PdfObject, page: pypdfium2.PdfPage) -> bool:
    left, bottom, right, top = image.get_bounds()
    width, height = page.get_size()
    return bool((right - left) * (top - bottom) > width * height / 2)


def _without_turned(
    text_page: pypdfium2.PdfTextPage, lines: list[tuple[TextLine, str, int]]
) -> list[tuple[TextLine, str, int]]:
    """The lines without those that are printed across the page, as DRAFT, or up its edge, as a stamp."""
    turns = [_turn(text_page, first) for _, _, first in lines]
    length = Counter[str]()
    for (line, _, _), turn in zip(lines, turns, strict=True):
        length[turn] += len(line.text)
    usual = length.most_common(1)[0][0] if length else ""
    stamps = turns.count(_UPWARDS) <= _MOST_STAMPS and length[_UPWARDS] <= _STAMPS * sum(length.values())
    silent = {_ACROSS, _UPWARDS} if stamps else {_ACROSS}
    return [each for each, turn in zip(lines, turns, strict=True) if turn == usual or turn not in silent]


def _turn(text_page: pypdfium2.PdfTextPage, at: int) -> str:
    """How a line is turned that begins at a place of the page's text."""
    a, b, _, _ = _matrix(text_page, _index(text_page, at))
    if min(abs(a), abs(b)) > _SKEWED * max(abs(a), abs(b)):
        return _ACROSS
    return _UPWARDS if abs(b) > abs(a) else "level"


def _in_reading_order(text_page: pypdfium2.PdfTextPage, lines: Sequence[tuple[TextLine, str, int]]) -> list[TextLine]:
    def extent(number: int) -> LineExtent | None:
        line, written, first = lines[number]
        return _extent(text_page, line, written, first)

    return in_reading_order([line for line, _, _ in lines], extent)


def _extent(text_page: pypdfium2.PdfTextPage, line: TextLine, written: str, first: int) -> LineExtent | None:
    """End and wide gaps of a line that is written so from a place of the page's text; None of a turned one.

    One from right to left has none either.
    """
    if has_right_to_left(written):
        return None
    index, last = _index(text_page, first), _index(text_page, first + len(written) - 1)
    a, b, c, _ = _matrix(text_page, index)
    if a <= 0 or b or c or last - index != len(written) - 1:
        return None
    gaps, page, least = [], text_page.raw, WIDE * line.size
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    for number, blank in enumerate(_BLANKS.finditer(written), 1):
        raw.FPDFText_GetCharBox(page, index + blank.start() - 1, left, right, bottom, top)
        start = right.value
        raw.FPDFText_GetCharBox(page, index + blank.end(), left, right, bottom, top)
        if left.value - start >= least:
            gaps.append(Gap(number, start, left.value))
    raw.FPDFText_GetCharBox(page, last, left, right, bottom, top)
    return LineExtent(right.value, tuple(gaps))


def _lines(text_page: pypdfium2.PdfTextPage) -> Iterator[tuple[TextLine, str, int]]:
    """Lines of a page that are not blank, each at the position of its first letter; how it is written, and where."""
    text, at = text_page.get_text_range(), 0
    for end in (*(each for each in _LINE_ENDS.finditer(text) if not _goes_on(text_page, each)), None):
        line = text[at:] if end is None else text[at : end.start()]
        if has_right_to_left(line):
            yield _right_to_left(text_page, line, at), line.strip(), at + len(line) - len(line.lstrip())
            at = len(text) if end is None else end.end()
            continue
        words = " ".join(_LINE_ENDS.sub("", _with_raised(text_page, line, at)).translate(_LETTERS).split())
        if _APART.fullmatch(words):
            words = _together(text_page, line, at)
        if words:
            first = at + len(line) - len(line.lstrip())
            hyphen = "-" if end is not None and end.group() in _BROKEN_WORD else ""
            middle = first + _letter(line.strip(), len(line.strip()) // 2)
            found = TextLine(words + hyphen, *_position(text_page, first), _size(text_page, middle))
            yield found, line.strip(), first
        at = len(text) if end is None else end.end()


def _right_to_left(text_page: pypdfium2.PdfTextPage, line: str, at: int) -> TextLine:
    """A line that pdfium may have in any order, by the places of its letters; its start is at the right."""
    letters, page = [], text_page.raw
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    room = raw.FS_RECTF()
    for number, letter in enumerate(line, at):
        index = _index(text_page, number)
        raw.FPDFText_GetCharBox(page, index, left, right, bottom, top)
        raw.FPDFText_GetLooseCharBox(page, index, room)
        if letter in _BROKEN_WORD or room.right <= room.left:  # blanks that pdfium adds take no room
            continue
        letters.append(Letter(letter, (left.value, right.value), (room.left, room.right)))
    middle = at + _letter(line, len(line.rstrip()) // 2)
    size = _size(text_page, middle)
    words = " ".join(logical(letters, size).translate(_LETTERS).split())
    start = max((each.ink[1] for each in letters), default=0.0)
    return TextLine(words, -start, _position(text_page, middle)[1], size)


def _together(text_page: pypdfium2.PdfTextPage, line: str, at: int) -> str:
    """A line whose letters are set apart, as words by the wider ones of its gaps: C H A P T E R  O N E."""
    letters = [number for number, letter in enumerate(line) if not letter.isspace()]
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    edges = []
    for number in letters:
        raw.FPDFText_GetCharBox(text_page.raw, _index(text_page, at + number), left, right, bottom, top)
        edges.append((left.value, right.value))
    gaps = [after[0] - before[1] for before, after in pairwise(edges)]
    usual = median(gaps)
    words = line[letters[0]]
    for number, gap in zip(letters[1:], gaps, strict=True):
        words += " " * (gap > _WIDER * usual) + line[number]
    return words if sorted(words) != list(words) else " ".join(line.split())


def _goes_on(text_page: pypdfium2.PdfTextPage, end: re.Match[str]) -> bool:
    """True for an end of a line that pdfium finds within one, as after a raised mark: the next letter is beside it."""
    text, at = end.string, end.end()
    while at < len(text) and text[at].isspace():
        at += 1
    last = end.start() - 1
    if end.group() in _BROKEN_WORD or at == len(text) or last < 0 or text[last].isspace():
        return False
    (_, above), (along, down), size = _position(text_page, last), _position(text_page, at), _size(text_page, at)
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    index = _index(text_page, last)
    a, b, _, _ = _matrix(text_page, index)
    if a <= 0 or b or abs(down - above) > _SAME_LINE * size:
        return False
    raw.FPDFText_GetCharBox(text_page.raw, index, left, right, bottom, top)
    return -_BESIDE * size <= along - right.value <= _BESIDE * size


def _with_raised(text_page: pypdfium2.PdfTextPage, line: str, at: int) -> str:
    """A line in which the figures of an exponent or of a note's mark, small and above the others, are raised signs."""
    found, base = list(line), 0
    for number, letter in enumerate(line):
        follows = letter in _MAY_BE_RAISED and number > 0 and not line[number - 1].isspace()
        if follows and _is_raised(text_page, at + base, at + number):
            found[number] = above(letter)
        elif not letter.isspace():
            base = number
    return "".join(found)


def _is_raised(text_page: pypdfium2.PdfTextPage, base: int, at: int) -> bool:
    """True where a letter is smaller than another and stands above its foot."""
    size = _size(text_page, base)
    if _size(text_page, at) > _RAISED_SIZE * size:
        return False
    return _position(text_page, base)[1] - _position(text_page, at)[1] >= _RAISED_BY * size


def _letter(line: str, at: int) -> int:
    """The place, or that of the letter before it: blanks that pdfium adds have no size."""
    while line[at].isspace():
        at -= 1
    return at


def _position(text_page: pypdfium2.PdfTextPage, at: int) -> tuple[float, float]:
    """Position of a letter in the direction of writing and across it, in points, whichever way a page is turned."""
    index = _index(text_page, at)
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    a, b, c, d = _matrix(text_page, index)
    along = (x.value * a + y.value * b) / (math.hypot(a, b) or 1.0)
    down = -(x.value * c + y.value * d) / (math.hypot(c, d) or 1.0)
    return along, down


def _size(text_page: pypdfium2.PdfTextPage, at: int) -> float:
    """Size of a letter's font on the page, in points."""
    index = _index(text_page, at)
    _, _, c, d = _matrix(text_page, index)
    return float(raw.FPDFText_GetFontSize(text_page, index)) * (math.hypot(c, d) or 1.0)


def _index(text_page: pypdfium2.PdfTextPage, at: int) -> int:
    """Index of the character at a place of the page's text; the two differ where pdfium leaves characters out."""
    return max(int(raw.FPDFText_GetCharIndexFromTextIndex(text_page, at)), 0)


def _matrix(text_page: pypdfium2.PdfTextPage, index: int) -> tuple[float, float, float, float]:
    matrix = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    return matrix.a, matrix.b, matrix.c, matrix.d


def _check_text(text: str, pages: int) -> None:
    letters = [c for c in text if not c.isspace()]
    unknown = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < " " for c in letters)
    if letters and unknown >= _MAX_UNKNOWN * len(letters):
        raise UnreadableFileError(
            "its fonts have no character mapping, so its text cannot be extracted: run text"
            " recognition (OCR) on it, or send the original document"
        )
    if not any(c.isalnum() for c in letters):
        raise UnreadableFileError(
            f"no text on its {pages} page{'s' * (pages > 1)}, perhaps scanned images: run text"
            " recognition (OCR) on it and send the resulting PDF"
        )


def _property(pdf: PdfDocument, name: bytes) -> str | None:
    """Text of the document's information dictionary, None without one; what is no UTF-16 in it is replaced."""
    return _text(lambda buffer, size: raw.FPDF_GetMetaText(pdf, name, buffer, size))


def _language(pdf: PdfDocument) -> str | None:
    """Language of the catalog, None without one."""
    return _text(
        lambda buffer, size: raw.FPDFCatalog_GetLanguage(
            pdf, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)) if buffer else None, size
        )
    )


def _text(read: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str | None:
    """Text that pdfium writes as UTF-16 with a zero at its end; `read` tells its bytes where it has no buffer."""
    size = read(None, 0)
    if size <= 2:
        return None
    buffer = ctypes.create_string_buffer(size)
    read(buffer, size)
    return buffer.raw[: size - 2].decode("utf-16-le", "replace").strip() or None
