"""Plain text: detects the encoding of a file and removes characters that cannot be spoken."""

from __future__ import annotations

import codecs
import re
import unicodedata

from charset_normalizer import from_bytes
from charset_normalizer.models import CharsetMatch

from voxyard.extraction.eastern_encodings import eastern_encoding
from voxyard.extraction.errors import FORMATS, UnreadableFileError
from voxyard.extraction.latin_encodings import LATIN_ENCODINGS, latin_encoding

_BOMS = (  # UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CANDIDATES = (
    "cp1252", "cp1250", "cp1251", "koi8_r", "koi8_u", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257",
    "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp866", "cp874",
)  # fmt: skip
_EASTERN = {"gb18030": "GBK", "big5": "Big5", "cp932": "Shift-JIS", "euc_jp": "EUC-JP", "cp949": "EUC-KR"}
_HEBREW_LETTERS, _HEBREW_SHARE = bytes(range(0xE0, 0xFB)), 0.9
_FINAL = re.compile(rb"[\xea\xed\xef\xf3\xf5](?![\xc0-\xff])")
_FINAL_WITHIN = re.compile(rb"[\xea\xed\xef\xf3\xf5][\xe0-\xff]|[\xfb-\xff]")
_NO_CHARACTER = re.compile("[\ufffd\uf8f0-\uf8f3]")  # the latter are single bytes of Shift-JIS without one
_ASCII = bytes(range(0x80))
_ASCII_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MAX_MESS = 0.3  # charset-normalizer's own 0.2 refuses a short French line full of accents
_MAX_DIFFERENCE = 0.05  # encodings that score closer are ranked by how common they are
_MOST_CONTROLS = 0.02
_FEW_CONTROLS = 4
_FEWEST_NULS = 0.25  # of the bytes
_DAMAGED_SHARE = 0.1
_MOST_DAMAGED = 0.05  # of the characters of East Asia
_SAVE_AS_UTF8 = "save it as UTF-8 text and send it again"

_LINE_END = re.compile(r"\r\n|[\r\x0b\x85\u2028]")
_PARAGRAPH_END = re.compile(r"[\x0c\u2029]")
_ARABIC_FORMS = {
    code: unicodedata.normalize("NFKC", chr(code)).strip()
    for code in (*range(0xFB50, 0xFE00), *range(0xFE70, 0xFF00))
    if unicodedata.category(chr(code)) == "Lo"
}
LIGATURES: dict[int, str] = {
    **dict(zip(range(0xFB00, 0xFB07), ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True)),
    **_ARABIC_FORMS,
}
"""Letters that are drawn as one, apart; Arabic letters in the form of their place in a word, as letters."""

_UNSEEN = (0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x2066, 0x206A))
"""Signs without width that tell where a line may break, and the direction of writing."""

_REMOVED: dict[int, str | None] = dict.fromkeys(
    [*range(0x09), *range(0x0E, 0x20), *range(0x7F, 0xA0), 0xAD, *_UNSEEN, 0xFEFF, 0xFFFE, 0xFFFF]
)
_UNPRINTED = _REMOVED | LIGATURES
_HALF_CHARACTER = re.compile(r"[\ud800-\udfff]")  # lone surrogates cannot be encoded
_UNCLEAN = re.compile(rf"[{re.escape(''.join(map(chr, _UNPRINTED)))}\t\r\x0b\x0c\u2028\u2029\ud800-\udfff]")
_BLANKS_AT_LINE_END = re.compile(r"(?<![ \u00a0])[ \u00a0]+$", re.MULTILINE)  # a run is searched once
_EMPTY_LINES = re.compile(r"\n{3,}")
_UNEXPECTED = re.compile(
    rb"[\x00-\x07\x0e-\x19\x1c-\x1f\x7f]"
)  # but for backspace, escape and DOS's end of file, which texts contain


def clean(text: str) -> str:
    r"""The text with `\n` at its line ends, one empty line between paragraphs, no control characters, no soft hyphens.

    Tabs become spaces, page breaks empty lines; blanks at the end of lines and around the whole are left out.
    """
    if _UNCLEAN.search(text) is not None:
        text = _PARAGRAPH_END.sub("\n\n", _LINE_END.sub("\n", text))
        text = _HALF_CHARACTER.sub("\ufffd", text.replace("\t", " ").translate(_UNPRINTED))
    if " \n" in text or "\u00a0\n" in text:
        text = _BLANKS_AT_LINE_END.sub("", text)
    text = text.rstrip(" \u00a0")
    return (_EMPTY_LINES.sub("\n\n", text) if "\n\n\n" in text else text).strip()


def has_mark(data: bytes) -> bool:
    """True for bytes that begin with a byte order mark."""
    return any(data.startswith(mark) for mark, _ in _BOMS)


def decode(data: bytes) -> str:
    """Text of a file, decoded by its byte order mark, as UTF-8, or by the detected encoding.

    Raises:
        UnreadableFileError: these bytes are no text, or text of which some bytes are damaged.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _marked(data[len(mark) :], encoding)
    if b"\0" in data:
        return _wide(data)
    unexpected = len(_UNEXPECTED.findall(data))
    if unexpected > max(_FEW_CONTROLS, _MOST_CONTROLS * len(data)):
        raise _no_text()
    if b"\x1b$" in data and data.isascii():
        return _japanese_mail(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _check_not_damaged(data, error)
    return data.decode(_guess(data))


def _marked(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"byte order mark of {encoding.upper()}, but byte {error.start + 1} after it is invalid"
            f" ({error.reason}): the file is truncated or damaged; {_SAVE_AS_UTF8}"
        ) from error
    if "\0" in text:
        raise _no_text()
    return text


def _wide(data: bytes) -> str:
    """UTF-16 without a byte order mark: the byte order with the fewest unusual characters.

    Of UTF-16 with NUL bytes among those of ASCII a half is NUL. A few of them in what is UTF-8 without them are not
    it: the pairs of its letters would be Chinese signs.
    """
    if data.count(0) < _FEWEST_NULS * len(data) and _is_utf8_text(data.replace(b"\0", b"")):
        raise _no_text()
    texts = []
    for encoding in ("utf-16-le", "utf-16-be"):
        try:
            texts.append(data.decode(encoding))
        except UnicodeDecodeError:  # the other byte order, or not text
            continue
    best = min(texts, key=_strange_share, default="\0")
    if _strange_share(best) > _MOST_CONTROLS:
        raise _no_text()
    return best


def _is_utf8_text(data: bytes) -> bool:
    if _UNEXPECTED.search(data):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _strange_share(text: str) -> float:
    """Share of control, unassigned and private characters among the first ones.

    Blanks and line ends read in the wrong order are U+2000 and U+0A00: they count too.
    """
    if "\0" in text:
        return 1.0
    sample = text[:8192]
    strange = sum(
        c in "\u2000\u0a00\u0d00" or (unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs") and c not in "\t\n\r\f")
        for c in sample
    )
    return strange / max(len(sample), 1)


def _japanese_mail(data: bytes) -> str:
    try:
        return data.decode("iso2022_jp_2")
    except UnicodeDecodeError:  # escape sequences of a terminal
        return data.decode("ascii")


def _check_not_damaged(data: bytes, error: UnicodeDecodeError) -> None:
    text = data.decode("utf-8", errors="replace")
    bad = text.count("\ufffd")
    good = sum(c > "\x7f" for c in text) - bad
    if bad <= _DAMAGED_SHARE * good:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFileError(
            f"UTF-8 text with {bad} invalid bytes, the first in line {line}: the file is truncated or"
            f" damaged; {_SAVE_AS_UTF8}"
        ) from error


def _guess(data: bytes) -> str:
    """Encoding of a text that is not UTF-8. Raises UnreadableFileError for damaged text of East Asia, and others."""
    found = detected(data)
    if found is None or found not in _EASTERN or _NO_CHARACTER.search(data.decode(found)):
        _check_not_cut(data)
    if found is None:
        raise UnreadableFileError(
            "unknown encoding, or several: neither UTF-8 nor "
            f"{', '.join(dict.fromkeys((*LATIN_ENCODINGS, *_CANDIDATES)))}; {_SAVE_AS_UTF8}"
        )
    return found


def _check_not_cut(data: bytes) -> None:
    """Raises UnreadableFileError for what is East Asian text but for a few bytes, in the encoding that fits best."""
    least: tuple[int, str, str] | None = None
    for encoding in _EASTERN:
        text = data.decode(encoding, "replace")
        bad = len(_NO_CHARACTER.findall(text))
        good = sum(c > "\x7f" for c in text) - bad
        if not 0 < bad <= _MOST_DAMAGED * good or (least is not None and bad >= least[0]):
            continue
        if detected(_NO_CHARACTER.sub("", text).encode(encoding, "ignore")) == encoding:
            least = bad, encoding, text
    if least is not None:
        bad, encoding, text = least
        before = _NO_CHARACTER.split(text, maxsplit=1)[0].split("\n")
        raise UnreadableFileError(
            f"{_EASTERN[encoding]} text with {bad} damaged place{'s' if bad > 1 else ''}, the first in line"
            f" {len(before)} near its character {len(before[-1]) + 1}: the file is truncated or"
            f" damaged, or not all of it has this encoding; mend it, {_SAVE_AS_UTF8}"
        )


def detected(data: bytes) -> str | None:
    """The encoding that fits a text best which is not UTF-8; None where none does."""
    ascii_letters = len(data) - len(data.translate(None, _ASCII_LETTERS))
    usual = "cp1252" if len(data.translate(None, _ASCII)) <= ascii_letters else "cp1251"
    if usual == "cp1252" and (latin := latin_encoding(data)) is not None:
        return latin
    if usual != "cp1252" and _is_hebrew(data):
        return "cp1255"
    if usual != "cp1252" and (eastern := eastern_encoding(data)) is not None and _fits(data, eastern):
        return eastern
    matches = list(from_bytes(data, cp_isolation=list(_CANDIDATES), threshold=_MAX_MESS))
    if not matches:
        return None
    best = matches[0]
    return next(
        (match.encoding for match in matches if match.encoding == usual and _similar(match, best)), best.encoding
    )


def _fits(data: bytes, encoding: str) -> bool:
    try:
        return _NO_CHARACTER.search(data.decode(encoding)) is None
    except UnicodeDecodeError:
        return False


def _is_hebrew(data: bytes) -> bool:
    """True where the forms of letters at the end of a word are there in cp1255, and nowhere else: к, н, п are there."""
    high = data.translate(None, _ASCII)
    letters = len(high) - len(high.translate(None, _HEBREW_LETTERS))
    return letters > _HEBREW_SHARE * len(high) and bool(_FINAL.search(data)) and not _FINAL_WITHIN.search(data)


def _similar(match: CharsetMatch, best: CharsetMatch) -> bool:
    return match.chaos <= best.chaos + _MAX_DIFFERENCE and match.coherence >= best.coherence - _MAX_DIFFERENCE


def _no_text() -> UnreadableFileError:
    return UnreadableFileError(
        f"binary data, not text in any encoding; expected a {FORMATS} file: save the document as one of these"
    )
