"""Figures in the words of a language, by num2words: counted, ordered, as a year, before a noun, digit by digit."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from voxyard.speech.reading.languages import Language

MOST_DIGITS = 15  # a longer number is read digit by digit, and so is one that begins with 0
_RUSSIAN_PLACES = 3
_TURKISH = re.compile(
    "sıfır|bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|altmış|yetmiş|seksen|doksan|yüz|bin|"
    "milyon|milyar|trilyon|katrilyon"
)


def cardinal(digits: str, language: Language, noun: str | None = None) -> str:
    """A whole number in words; with `noun` as it stands before that noun, figures where the language has no words."""
    if language.number_words is None:
        return digits
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and digits != "0"):
        return (" " if language.spaced else "").join(_words(int(digit), language.number_words) for digit in digits)
    number = int(digits)
    if noun is None:
        return _words(number, language.number_words)
    feminine = language.is_feminine(noun)
    if language.number_words == "ru":
        return _words(number, "ru", gender="f" if feminine else "m")
    words = _words(number, language.number_words)
    for pattern, replacement in language.feminine_forms if feminine else language.masculine_forms:
        words = re.sub(pattern, replacement, words)
    return words


def before_word(digits: str, word: str, language: Language) -> str | None:
    """A whole number as it stands before a word; None where its form depends on a gender that is not known."""
    bare = cardinal(digits, language)
    forms = {cardinal(digits, language, noun) for noun in ("\0", *_A_FEMININE.get(language.locale, ()))}
    if forms == {bare} or re.fullmatch(language.alone, word, re.IGNORECASE):
        return bare
    if language.is_feminine(word):
        return cardinal(digits, language, word)
    if language.locale == "ru" and bare.endswith("два"):  # of 2 the genitive is counted: две книги, два дома
        return _words(int(digits), "ru", gender="f") if re.search("[ыи]$", word) else bare if word[-1] in "ая" else None
    if language.feminine_ends and re.search(f"(?:{language.feminine_ends})$", word):
        return None if bare.endswith("dwa") else cardinal(digits, language, _A_FEMININE[language.locale][0])
    if language.masculine_ends and re.search(f"(?:{language.masculine_ends})$", word):
        return cardinal(digits, language, "\0")
    return None


_A_FEMININE = {
    "de": ("Minute",),
    "fr": ("minute",),
    "es": ("hora",),
    "it": ("ora",),
    "pt": ("hora",),
    "pl": ("minuta",),
    "ru": ("минута",),
}


def decimal(whole: str, part: str, language: Language, noun: str | None = None) -> str:
    """A number with the digits after its decimal sign; with `noun` as it stands before it, where there are none."""
    if not part:
        return cardinal(whole, language, noun)
    if language.number_words is None:
        return f"{whole}{language.decimal}{part}"
    if language.number_words == "ru" and len(part) <= _RUSSIAN_PLACES and len(whole) <= MOST_DIGITS:
        return _russian_fraction(whole, part)
    blank = " " if language.spaced else ""
    digits = blank.join(_words(int(digit), language.number_words) for digit in part)
    return blank.join((cardinal(whole, language), language.point, digits))


def _russian_fraction(whole: str, part: str) -> str:
    """Две целых пять десятых: wholes and tenths, as decimals are read in Russian."""
    from num2words import num2words

    return str(num2words(Decimal(f"{whole}.{part}"), lang="ru"))


def ordinal(number: int, language: Language, **forms: str) -> str:
    """The number in an order: third. `forms` are num2words' case and gender, where it has them."""
    return _words(number, language.number_words or "", to="ordinal", **forms)


def year(number: int, language: Language) -> str:
    """A year; in English and German by hundreds before 2000."""
    if language.number_words is None:
        return str(number)
    way = "year" if language.counts_years and language.number_words != "nl" else "cardinal"
    return _words(number, language.number_words, to=way)


def is_year(digits: str) -> bool:
    """True for four figures that are more often a year than a quantity."""
    return len(digits) == 4 and (1100 <= int(digits) <= 1999 or 2010 <= int(digits) <= 2099)


def value(whole: str, part: str) -> Decimal | int:
    """The number itself, for plural rules."""
    return Decimal(f"{whole}.{part}") if part else int(whole)


@lru_cache(maxsize=4096)
def _words(number: int, language: str, to: str = "cardinal", **forms: str) -> str:
    from num2words import num2words

    words = str(num2words(number, lang=language, to=to, **forms))
    words = words.replace(", ", " ").replace("\N{SOFT HYPHEN}", "")
    return " ".join(_TURKISH.findall(words)) if language == "tr" and to == "cardinal" else " ".join(words.split())
