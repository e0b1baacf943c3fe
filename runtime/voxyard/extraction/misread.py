"""Text that a program read in another encoding and saved so: mended where its signs prove it; else damage is named.

`Ã©` for é and `â€™` for ’ are UTF-8 read as Western, `РџСЂРё` for При as Cyrillic; others as Mac's, DOS's, East Asian.
`Ïðèâåò` for Привет is an encoding of another alphabet read as Western.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.extraction.errors import UnreadableFileError
from voxyard.extraction.plaintext import detected

Mend = Callable[[str], str]

_OF_ONE_BYTE = ("cp1252", "cp1251", "cp1250", "mac_roman", "cp437", "cp850")
_OF_EAST_ASIA = ("gb18030", "cp932", "big5", "cp949")
_MOST_TIMES = 3  # that one text is read wrongly
_FEWEST = 3  # characters without which only certain ones count
_FEWEST_EASTERN = 12  # signs: those of two or three characters may be UTF-8 by chance
_MOST_OTHERS = 0.02  # signs beside the damaged ones
_FEWEST_HIGH = 20  # letters of words without one of ASCII, which no language of Western Europe has
_MOSTLY_HIGH = 0.8  # of the signs that are not ASCII
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_HIGH_WORD = re.compile(r"(?<![A-Za-z])[¡-ÿ]{3,}(?![A-Za-z])")
_CERTAIN = re.compile("[ÃÂ][¡-ª¬®-º¼-¿]|â€.?|ð[\x9fŸ]..|ï¿½|Å[¡¸½¾]", re.DOTALL)
_HALF = re.compile("Ã ?(?= )|Â ?(?= |$)", re.MULTILINE)  # à and a wide blank whose second byte became a plain blank
_NO_MARK = "â€"  # ”, whose third byte is no character of Western encodings
_OTHER = r"\u0370-\u0eff\u3040-\u9fff\uac00-\ud7a3"  # letters of other alphabets
_LATIN = "A-Za-zÀ-ÿ"
LOST = re.compile(  # or read as GBK, or written as ?, or the first sign of a sequence whose others are not there
    r"\ufffd+|(?:锟斤拷)+|(?<=[a-zß-ÿ])\?(?=[a-zß-ÿ])(?!\w{1,20}=)|(?<![\w?!])\?{2,}(?=[ ,;:.-]{1,2}\?)"
    r"|(?<=[a-zß-ÿ])[ÂÃÄÅÎÏÐÑØÙ](?![A-ZÀ-Þ])"
    rf"|(?<=[{_OTHER}])[À-ÖØ-ô](?![{_LATIN}])|(?<![{_LATIN}])[À-ÖØ-ô](?=[{_OTHER}])"
)
_FEWEST_LOST = 5
_SELDOM = 1 / 1000  # of the letters
_TOO_MANY = 1 / 50
_FEWEST_REFUSED = 20  # a few lines are spoken, with the note
_WORDS = 40  # characters before the first place


def _bytes_of(encoding: str) -> dict[str, int]:
    """Bytes of the signs of an encoding; of Western also those that stand for control characters."""
    found = {sign: byte for byte in range(0x80, 0x100) if (sign := bytes([byte]).decode(encoding, "ignore"))}
    return {**{chr(byte): byte for byte in range(0x80, 0x100)}, **found} if encoding == "cp1252" else found


def _sequence(signs: dict[str, int]) -> re.Pattern[str]:
    """A pattern of the UTF-8 of one character in signs of an encoding."""

    def one_of(first: int, last: int) -> str:
        return f"[{re.escape(''.join(sign for sign, byte in signs.items() if first <= byte <= last))}]"

    after = one_of(0x80, 0xBF)
    two, three, four = one_of(0xC2, 0xDF), one_of(0xE0, 0xEF), one_of(0xF0, 0xF4)
    return re.compile(f"{two}{after}|{three}{after}{{2}}|{four}{after}{{3}}|{_NO_MARK}(?!{after})")


_BYTES = {encoding: _bytes_of(encoding) for encoding in _OF_ONE_BYTE}
_SEQUENCES = {encoding: _sequence(_BYTES[encoding]) for encoding in _OF_ONE_BYTE}
_WESTERN = _BYTES["cp1252"]


def mend_of(text: str) -> Mend | None:
    """What mends a text, and the parts that it is of; None for one that is as it was written."""
    mends: list[Mend] = []
    while len(mends) < _MOST_TIMES and (mend := _mend_of(text)) is not None:
        mends.append(mend)
        text = mend(text)

    def all_of_them(part: str) -> str:
        for mend in mends:
            part = mend(part)
        return part

    return all_of_them if mends else None


def damage_of(text: str) -> str | None:
    """What is said of a text with characters that are lost for good; None for one without, or with a few.

    Raises:
        UnreadableFileError: too many are lost.
    """
    lost = [found.start() for found in LOST.finditer(text)]
    letters = sum(map(str.isalpha, text)) if len(lost) >= _FEWEST_LOST else 0
    if not letters or len(lost) < _SELDOM * letters:
        return None
    before = " ".join(text[max(0, lost[0] - _WORDS) : lost[0]].split())
    found = (
        f"characters are lost at {len(lost)} places, the first after “{before}”, where another encoding was read or"
        " written: make it again from a source that has them, as UTF-8"
    )
    if len(lost) > max(_FEWEST_REFUSED, _TOO_MANY * letters):
        raise UnreadableFileError(found)
    return found


def _mend_of(text: str) -> Mend | None:
    signs = len(text) - len(text.encode("ascii", "ignore"))
    if not signs:
        return None
    known = set(text)
    found = {each: _SEQUENCES[each].findall(text) for each in _OF_ONE_BYTE if len(known & _BYTES[each].keys()) > 1}
    meant = {each: [one for one in some if _decoded(one, each) != one] for each, some in found.items()}
    if any(meant.values()):
        best = max(meant, key=lambda each: sum(map(len, meant[each])))
        if _is_misread(text, signs, best, meant[best]):
            return _of_one_byte(best)
    if signs >= _FEWEST_EASTERN:
        for encoding in _OF_EAST_ASIA:
            if _read_as(text, encoding) is not None:
                return lambda part: _read_as(part, encoding) or part
    if all(sign.isascii() or sign in _WESTERN for sign in known) and (mend := _of_letters(text, signs)) is not None:
        return mend
    return _certain if meant.get("cp1252") and _certain(text) != text else None


def _is_misread(text: str, signs: int, encoding: str, meant: list[str]) -> bool:
    """True for a text of which all that is not ASCII, or of Western signs most, is UTF-8 read in this encoding."""
    of_them = sum(map(len, meant))
    if encoding != "cp1252":
        return len(meant) >= _FEWEST and signs - of_them <= _MOST_OTHERS * len(meant)
    others = signs - of_them - len(_HALF.findall(text))
    return others <= of_them if len(meant) >= _FEWEST else not others and any(map(_CERTAIN.fullmatch, meant))


def _decoded(sequence: str, encoding: str) -> str:
    """The character that is meant; the sequence itself where it is none."""
    if sequence == _NO_MARK:
        return "”"
    try:
        return bytes(_BYTES[encoding][sign] for sign in sequence).decode("utf-8")
    except UnicodeDecodeError:
        return sequence


def _of_one_byte(encoding: str) -> Mend:
    def mend(part: str) -> str:
        part = _SEQUENCES[encoding].sub(lambda found: _decoded(found[0], encoding), part)
        return _HALF.sub(lambda half: "à" * (half[0][0] == "Ã"), part) if encoding == "cp1252" else part

    return mend


def _certain(part: str) -> str:
    """Mends what no language writes, in a text of which most is right."""
    return _SEQUENCES["cp1252"].sub(
        lambda found: _decoded(found[0], "cp1252") if _CERTAIN.fullmatch(found[0]) else found[0], part
    )


def _read_as(text: str, encoding: str) -> str | None:
    """A text of UTF-8 that was read in an encoding of East Asia; None for another one."""
    try:
        return text.encode(encoding).decode("utf-8")
    except UnicodeError:
        return None


def _of_letters(text: str, signs: int) -> Mend | None:
    """What mends a text whose letters, large and small, are of another alphabet, and were read as Western ones."""
    high = "".join(_HIGH_WORD.findall(text))
    if len(high) < max(_FEWEST_HIGH, _MOSTLY_HIGH * signs) or not min(high) < "à" <= max(high):
        return None
    encoding = detected(_western(text))
    read = "" if encoding is None else _western(text).decode(encoding, "replace")
    if encoding is None or sum(letter > "ʯ" for letter in read) < _MOSTLY_HIGH * sum(
        not each.isascii() for each in read
    ):
        return None
    return lambda part: _western(part).decode(encoding, "replace")


def _western(text: str) -> bytes:
    return bytes(_WESTERN.get(sign, ord(sign)) for sign in text)
