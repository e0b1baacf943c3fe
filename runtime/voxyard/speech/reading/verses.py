"""Verses of the Bible in words: John 3:16, 1 Cor. 13:4, Johannes 3,16, Juan 3:16."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import table

_FOLLOWS = {
    "en": ("First", "Second", "Third"),
    "de": ("Erster", "Zweiter", "Dritter"),
    "es": ("Primera de", "Segunda de", "Tercera de"),
    "fr": ("Première", "Deuxième", "Troisième"),
    "it": ("Prima", "Seconda", "Terza"),
    "pt": ("Primeiro", "Segundo", "Terceiro"),
    "pl": ("Pierwszy", "Drugi", "Trzeci"),
    "nl": ("Eerste", "Tweede", "Derde"),
}


def patterns(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """Patterns of a book's name with a chapter and verses, and their words; none where the language has no books."""
    books = table(language.locale).books
    if not books:
        return []
    if language.locale == "en":  # Gen 1:1, Rev 12:7
        books = {**{key.rstrip("."): book for key, book in books.items()}, **books}
    names = "|".join(re.escape(each) for each in sorted({*books, *books.values()}, key=len, reverse=True))
    sign = ":" if language.locale == "en" else r"(?::|,\s?)"
    verses = (
        rf"(?P<chapter>\d{{1,3}}){sign}(?P<first>\d{{1,3}})(?:[–-](?P<last>\d{{1,3}}))?(?![\w:]|[.,–-]\d|\s?[ap]\.?m\b)"
    )

    def words(found: re.Match[str]) -> str:
        book = books.get(found["book"], found["book"])
        number = f"{_FOLLOWS[language.locale][int(found['number']) - 1]} " if found["number"] else ""
        said = f"{number}{book} {cardinal(found['chapter'], language)} {cardinal(found['first'], language)}"
        return said if not found["last"] else f"{said} {language.to} {cardinal(found['last'], language)}"

    def in_full(found: re.Match[str]) -> str:
        return f"{_FOLLOWS[language.locale][int(found['number']) - 1]} {books.get(found['book'], found['book'])}"

    return [
        (re.compile(rf"(?<!\w)(?:(?P<number>[123])(?:\.?\s|(?=[A-Z])))?(?P<book>{names})\s{verses}"), words),
        (re.compile(rf"(?<!\w)(?P<number>[123])\.?\s(?P<book>{names})(?=\s\d)"), in_full),
    ]
