"""Marks inside of what is read in one breath: numbers in words, dates, ranges, names with titles, items of a list."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_NEAR = 100  # characters on either side that are looked at
_COMMAS = frozenset(",،、，")
_DASHES = frozenset("—–")
_WORD = re.compile(r"[^\s,;:،؛、，；：…—–!?。()\[\]\"“”„«»‹›]+")
_LAST_WORD = re.compile(rf"({_WORD.pattern})\W*$")
_ABBREVIATION = re.compile(r"[^\W\d_]\w*\.(?:-?[^\W\d_]\w*\.)*(?=[\s,;:،)])")  # Ltd., Ph.D., J.
_WIDE_NUMBER = "0-9０-９零〇一二三四五六七八九十百千"
_WIDE_DATE = re.compile(rf"(?:[{_WIDE_NUMBER}][年月日号號时時点點分]|曜日|(?:星期|[周週]|[礼禮]拜)[一二三四五六日天])$")
_WIDE_DATE_GOES_ON = re.compile(
    rf"[{_WIDE_NUMBER}]+[年月日号號时時点點]|[月火水木金土日]曜|星期|[周週][一二三四五六日]|午前|午後|上午|下午"
)
_WIDE_ITEM = re.compile(r"[^、，。！？；：…—\s]{1,40}")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]")
_SHORT_ITEM = 4  # characters of Japanese that are taken for a word, not for a clause
_KOREAN_DATE = "년월일시"

_CONJUNCTIONS = {
    "de": "und oder sowie bis",
    "en": "and or to",
    "es": "y e o u",
    "fr": "et ou",
    "it": "e ed o",
    "ko": "및 또는 그리고",
    "nl": "en of",
    "pl": "i oraz lub albo",
    "pt": "e ou",
    "ru": "и или",
    "tr": "ve veya",
    "hi": "और या",
    "ar": "أو",
}
_JOINING = frozenset(["a", "and", "e", "en", "et", "i", "o", "und", "y", "و"])  # inside of numbers in words
_COMPOUNDS = frozenset({"da", "de", "fi", "hu", "it", "ko", "nl", "no", "sv", "tr"})  # write numbers in one word
_SAMPLES = (*range(101), *range(200, 1001, 100), 2000, 5000, *(n * 1000**k for n in (1, 2, 5) for k in (2, 3, 4)))
_MORE = {  # that the samples do not have
    "de": "hundert tausend million millionen milliarde milliarden",
    "hi": "शून्य एक दो तीन चार पाँच पांच छह छः सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस "
    "तीस चालीस पचास साठ सत्तर अस्सी नब्बे सौ हज़ार हजार लाख करोड़ अरब",
    "it": "mila cento",
    "en": "hundreds thousands millions billions",
}


def is_joined(text: str, start: int, before: int, at: int, end: int, language: str | None) -> bool:
    """True where a mark that stands at `before` parts a number, a date, a range, a name from its title, or a list.

    Between two words of numbers or dates (also after one word such as `the`); before an abbreviation or initial with
    its full stop; a dash between two capitalized words; a comma before or after an item of one word.

    Args:
        text: the document; the sentence is its characters [start, end).
        start: as above.
        before: end of the word before the mark.
        at: beginning of the word after it.
        end: as above.
        language: a code such as `en`; None takes letters that are neither Chinese nor Japanese for English.
    """
    marks = set(text[before:at])
    if _is_wide(text[before - 1]) or _is_wide(text[at]):
        return _is_joined_wide(text, start, before, at, end, language)
    language = language or "en"
    last = _LAST_WORD.search(text, max(start, before - _NEAR), before)
    words = _WORD.findall(text, at, min(end, at + _NEAR))[:2]
    if last is None or not words:
        return False
    if (short := _ABBREVIATION.match(text, at, end)) is not None and short.end() < end:
        return True
    if _is_dated(last[1], language) and any(_is_dated(word, language) for word in words):
        return _is_dated(words[0], language) or _names_day(last[1], language)
    if marks & _DASHES and last[1][0].isupper() and words[0][0].isupper():
        return True
    if not marks & _COMMAS:
        return False
    word_alone = text[before - 1].isalnum()  # no quotation, which may have a comma of its own
    return (word_alone and _follows_comma(text, start, last.start())) or _precedes_item(text, at, end, language)


def _follows_comma(text: str, start: int, at: int) -> bool:
    return text[max(start, at - _NEAR) : at].rstrip()[-1:] in _COMMAS


def _precedes_item(text: str, at: int, end: int, language: str) -> bool:
    """True where one word alone stands between `at` and another comma, or a word such as `and`."""
    word = _WORD.match(text, at, end)
    if word is None:
        return False
    rest = text[word.end() : min(end, word.end() + _NEAR)]
    following = _WORD.match(rest.lstrip())
    if rest[:1] in _COMMAS:
        return True
    if not rest[:1].isspace() or following is None:
        return False
    joins = following[0] in _CONJUNCTIONS.get(language, "").split()
    return joins or (language == "ar" and following[0][0] == "و" and following[0] != "و")


def _is_dated(word: str, language: str) -> bool:
    """True for a number, in figures or in words, and for the name of a day or a month."""
    word = word.strip(".'’")
    if not word:
        return False
    if word[0].isnumeric() or word[-1].isnumeric() or word in _date_names(language):
        return True
    if language == "ko" and word[-1] in _KOREAN_DATE and len(word) > 1 and is_number(word[:-1], language):
        return True
    return is_number(word, language)


def _names_day(word: str, language: str) -> bool:
    return word.strip(".") in _date_names(language)


def is_number(word: str, language: str) -> bool:
    """True for a number in words, such as `twenty-one`, in the languages of num2words and in Hindi."""
    known = _number_words(language)
    parts = [part for part in word.lower().split("-") if part not in _JOINING]
    return bool(parts) and all(
        part in known or (language in _COMPOUNDS and _is_composed(part, known)) for part in parts[:_NEAR]
    )


def _is_composed(word: str, parts: frozenset[str]) -> bool:
    """True where a word is a row of these parts: zwölf-tausend-dreihundert."""
    if len(word) > _NEAR:
        return False
    longest = max(map(len, parts), default=0)
    reached = {0}
    for at in range(1, len(word) + 1):
        if any(begin in reached and word[begin:at] in parts for begin in range(max(0, at - longest), at)):
            reached.add(at)
    return len(word) in reached


@cache
def _number_words(language: str) -> frozenset[str]:
    said = [_MORE.get(language, "")]
    said += [_said(number, language, "cardinal") for number in _SAMPLES]
    said += [_said(number, language, "ordinal") for number in range(1, 100)]
    words = {word for each in said for word in re.split(r"[\s,-]+", each.lower().replace("\N{SOFT HYPHEN}", ""))}
    if language == "de":
        words |= {word + ending for word in words if word.endswith("te") for ending in "nrs"}
    return frozenset(words - _JOINING - {""})


def _said(number: int, language: str, way: str) -> str:
    """A number in words; empty where num2words has no such language, or not this number in it."""
    from num2words import num2words

    try:
        return str(num2words(number, lang=language, to=way))
    except (NotImplementedError, LookupError, ArithmeticError):
        return ""


@cache
def _date_names(language: str) -> frozenset[str]:
    """Names of days and months as they are written, and with a capital letter, as at the beginning of a sentence."""
    from babel import Locale, UnknownLocaleError

    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        return frozenset()
    names = {
        name.strip(".")
        for fields in (locale.days, locale.months)
        for context in ("format", "stand-alone")
        for width in ("wide", "abbreviated")
        for name in fields[context][width].values()
    }
    return frozenset(form for name in names if len(name) > 2 for form in (name, name[0].upper() + name[1:]))


def _is_wide(letter: str) -> bool:
    """True for the letters and figures of Chinese and Japanese, which stand without blanks."""
    return unicodedata.east_asian_width(letter) in "WF" and not 0xAC00 <= ord(letter) <= 0xD7A3


def _is_joined_wide(text: str, start: int, before: int, at: int, end: int, language: str | None) -> bool:
    if _WIDE_DATE.search(text, max(start, before - 4), before) and _WIDE_DATE_GOES_ON.match(text, at, end):
        return True
    if "、" not in text[before:at]:
        return False
    if language == "zh" or (language is None and not _KANA.search(text, start, min(end, at + 10 * _NEAR))):
        return True  # Chinese has this mark between items alone
    item = _WIDE_ITEM.match(text, at, end)
    if item is not None:
        alone = re.match(r"[^と、]+", item[0])
        followed = text[item.end() : item.end() + 1] == "、" or "と" in item[0][1:]
        if followed and alone is not None and _is_short_item(alone[0]):
            return True
    begin = max(text.rfind(mark, start, before) for mark in "、，")
    return begin >= 0 and _is_short_item(text[begin + 1 : before])


def _is_short_item(item: str) -> bool:
    return len(item) <= _SHORT_ITEM or not _HIRAGANA.search(item)
