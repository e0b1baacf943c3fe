"""Text normalization for the word error rate: lower case, no punctuation, one spelling, numbers in words."""

from __future__ import annotations

import re
import unicodedata

_CUE = re.compile(
    r"\[[^\[\]]{0,40}\]|<[a-z/]{1,10}>|♪"
)  # [laughs] directs the voice, [NOISE] is a recogniser's non-word
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’ʼ`](?=[^\W\d_])")  # don't, l’eau
_TURKISH = str.maketrans({"I": "ı", "İ": "i"})
_ENGLISH = {"mr": "mister", "mrs": "missus", "dr": "doctor", "vs": "versus", "&": "and", "ok": "okay"}
_CHINESE_JAPANESE_KOREAN = (  # ranges of characters that count one by one
    (0x3005, 0x3007),  # 々〆〇
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ROUND = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
_ONES, _TENS = _BELOW_TWENTY.split(), _ROUND.split()
_THOUSANDS = ("", "thousand", "million", "billion", "trillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_UNITS = {"$": ("dollar", "dollars"), "€": ("euro", "euros"), "£": ("pound", "pounds"), "%": ("percent", "percent")}
_MOST = 15  # digits; more are read one by one, and so are those after a zero
_NUMBER = re.compile(
    r"(?P<sign>[-−](?=\d)(?<![\w][-−]))?(?P<currency>[$€£])?\s?"
    r"(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.(?P<part>\d+))?"
    r"(?P<ordinal>(?:st|nd|rd|th)\b)?(?:\s?(?P<percent>%))?",
    re.ASCII | re.IGNORECASE,
)


def spoken_words(text: str, language: str | None = None) -> list[str]:
    """Words in lower case; Chinese, Japanese and Korean by characters.

    Numbers are spelled out in English; in other languages they stay figures. Cues in brackets are left out.

    Args:
        text: of an author or of a recogniser.
        language: a code such as `en` or `pt-BR`; None is taken for English.
    """
    code = re.split(r"[-_]", language.lower())[0] if language else "en"
    plain = unicodedata.normalize("NFKC", text)
    plain = _APOSTROPHE.sub("", _CUE.sub(" ", plain))
    if code == "en":
        plain = spelled(plain)
    if code == "tr":
        plain = plain.translate(_TURKISH)
    words = "".join(_letter(each) for each in plain.casefold()).split()
    return [_ENGLISH.get(word, word) for word in words] if code == "en" else [word for word in words if word != "&"]


def _letter(character: str) -> str:
    """Replacement of a character: itself, a separate word, a space, or nothing."""
    category = unicodedata.category(character)
    if category == "Cf":
        return ""  # joiners and soft hyphens
    if character == "&":
        return " & "
    if category[0] not in "LMN":
        return " "
    alone = any(low <= ord(character) <= high for low, high in _CHINESE_JAPANESE_KOREAN)
    return f" {character} " if alone else character


def spelled(text: str) -> str:
    """The text with its numbers in English words: 1,250 · 3.14 · 2nd · $5 · 40 % · the year 1999."""
    return _NUMBER.sub(lambda found: f" {_read(found)} ", text)


def _read(found: re.Match[str]) -> str:
    whole, part = found["whole"], found["part"]
    words = ["minus"] if found["sign"] else []
    words += _whole(whole.replace(",", ""), year="," not in whole and not part and not found["currency"])
    if found["ordinal"]:
        words[-1] = _ordinal(words[-1])
    if part and found["currency"] and len(part) == 2:
        return " ".join([*words, _unit(found["currency"], whole), *(_cardinal(int(part)) if int(part) else [])])
    if part:
        words += ["point", *(_ONES[int(digit)] for digit in part)]
    words += [_unit(sign, whole) for sign in (found["currency"], found["percent"]) if sign]
    return " ".join(words)


def _unit(sign: str, whole: str) -> str:
    one, many = _UNITS[sign]
    return one if whole == "1" else many


def _whole(digits: str, *, year: bool) -> list[str]:
    if len(digits) > _MOST or (digits[0] == "0" and digits != "0"):
        return [_ONES[int(digit)] for digit in digits]
    number = int(digits)
    if year and (1100 <= number <= 1999 or 2010 <= number <= 2099):
        first, last = divmod(number, 100)
        return [*_cardinal(first), *(["oh"] if 0 < last < 10 else []), *(_cardinal(last) if last else ["hundred"])]
    return _cardinal(number)


def _cardinal(number: int) -> list[str]:
    if number < 20:
        return [_ONES[number]]
    if number < 100:
        tens, ones = divmod(number, 10)
        return [_TENS[tens], *([_ONES[ones]] if ones else [])]
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return [_ONES[hundreds], "hundred", *(_cardinal(rest) if rest else [])]
    words: list[str] = []
    for power in range(len(_THOUSANDS) - 1, -1, -1):
        group = number // 1000**power % 1000
        if group:
            words += [*_cardinal(group), *([_THOUSANDS[power]] if power else [])]
    return words


def _ordinal(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"
