"""Ordinals in words: 1,000th, 3.º piso, 2e, am 3. Mai."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import german, persian, polish, roman
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.number_words import before_word, cardinal, ordinal, whole_number
from voxyard.speech.reading.patterns import ELSEWHERE, guard
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]
Reading = tuple[re.Pattern[str], Words]


def patterns(code: str, language: Language) -> list[Reading]:
    """Patterns of ordinals, with their words."""

    def feminine(words: str) -> str:
        return re.sub(r"o\b", "a", words)

    by_code: dict[str, list[tuple[str, Words]]] = {
        "en": [
            (
                r"(?P<n>\d{1,3}(?:,\d{3})+|\d{1,6})(?:st|nd|rd|th)\b",
                lambda found: ordinal(int(found["n"].replace(",", "")), language),
            )
        ],
        "fr": [
            (r"1(?:re|ère)\b", lambda _: "première"),
            (
                r"(?P<ending>1ers|1(?:res|ères)|2nde?s?|2de)\b",
                lambda found: _FRENCH[found["ending"].replace("ère", "re")],
            ),
            (r"(?P<n>\d{1,6})(?:er|e|ème)\b", lambda found: ordinal(int(found["n"]), language)),
            (r"(?P<n>\d{1,6})(?:es|èmes)\b", lambda found: ordinal(int(found["n"]), language) + "s"),
        ],
        "fa": persian.ordinals(language),
        "nl": [
            (
                r"(?P<n>\d{1,3}(?:\.\d{3})+|\d{1,6})(?:e|de|ste)\b",
                lambda found: ordinal(int(found["n"].replace(".", "")), language),
            )
        ],
        "ru": [
            (rf"(?P<n>\d{{1,4}})-{ending}\b", _with_forms(language, case=case, gender=gender))
            for ending, case, gender in (("й", "n", "m"), ("я", "n", "f"), ("е", "n", "n"), ("го", "g", "m"))
        ],
        "pl": [(_POLISH, lambda found: polish.inflected(int(found["n"]), _POLISH_ENDINGS[found["end"]], language))],
        "tr": [
            (
                r"(?P<n>(?!0)\d{1,4})['’]?[ıiuü]?nc[ıiuü](?P<end>\w*)",
                lambda found: ordinal(int(found["n"]), language) + found["end"],
            ),
            (
                rf"(?P<n>(?!0)\d{{1,4}})\.(?=\s+(?:[^\W\d_A-ZÇĞİÖŞÜ]|(?:{roman.turkish_names()})\b)|,\s\d+\.)",
                lambda found: ELSEWHERE if _is_listed(found, int(found["n"])) else ordinal(int(found["n"]), language),
            ),
            (roman.turkish(), lambda found: ordinal(roman.value(found["roman"]), language)),
        ],
        "de": [
            (r"(?P<n>\d{1,4})\.(?=\s+[A-Za-zÄÖÜäöü]|,|[–/-]\d|$)", _german_ordinal),
            (r"(?P<roman>(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3}))\.(?=\s[A-ZÄÖÜ])", _german_roman),
        ],
    }
    for each in ("es", "it", "pt"):
        by_code[each] = [
            *([(_SPANISH_FIRST, _apocope), (_SPANISH_LETTERS, _with_letters)] if each == "es" else []),
            (
                r"(?P<minus>[-−](?<![\w)\]][-−]))?(?P<n>(?!0)\d{1,4})(?P<sign>\.?º|°)(?![CF]\b)",
                lambda found: _ordinal_or_degrees(found, code, language),
            ),
            (
                rf"{_THE}(?P<n>(?!0)\d{{1,2}})(?P<end>[ao])(?=\s[a-zà-ÿ])",
                lambda found: (
                    ordinal(int(found["n"]), language)
                    if found["end"] == "o"
                    else feminine(ordinal(int(found["n"]), language))
                ),
            ),
            (r"(?P<n>(?!0)\d{1,2})\.?(?:º?os|ºs)(?!\w)", lambda found: ordinal(int(found["n"]), language) + "s"),
            (
                r"(?P<n>(?!0)\d{1,2})\.?(?:ª?as|ªs)(?!\w)",
                lambda found: feminine(ordinal(int(found["n"]), language)) + "s",
            ),
            (r"(?P<n>(?!0)\d{1,4})\.?ª(?!\w)", lambda found: feminine(ordinal(int(found["n"]), language))),
        ]
    return [(re.compile(guard(language) + pattern), words) for pattern, words in by_code.get(code, [])]


_POLISH_ENDINGS = {each: each for each in ("a", "e", "ą", "ego", "emu", "ej", "ym", "ych", "ymi")}
_POLISH_ENDINGS |= {"y": "", "i": "", "im": "ym", "ich": "ych", "imi": "ymi", "go": "ego", "mu": "emu"}
_POLISH = (  # do 15-tego, o 8-mej, w latach 80-tych, 3cia
    rf"(?P<n>\d{{1,4}})(?:-?(?:sz|t|m|gi?|ci?)(?=[aeioyąm])|-(?=\w\w))(?P<end>{'|'.join(_POLISH_ENDINGS)})(?![\w-])"
)
_THE = (  # la 3a planta, il 2o posto
    "(?:"
    + "|".join(
        rf"(?<=\b{each} )"
        for each in [
            "la",
            "La",
            "della",
            "alla",
            "nella",
            "dalla",
            "el",
            "El",
            "del",
            "al",
            "il",
            "Il",
            "nel",
            "dal",
            "na",
            "da",
            "do",
            "no",
        ]
    )
    + ")"
)
_FRENCH = {
    "1ers": "premiers",
    "1res": "premières",
    "2nd": "second",
    "2de": "seconde",
    "2nde": "seconde",
    "2nds": "seconds",
    "2ndes": "secondes",
}
_ARTICLE = re.compile(r"\b(?:el|del|al|lo|il|i|nel|sul|dal|o|os|do|ao|no|pelo|dell['’]|l['’])\s?$", re.IGNORECASE)
_ANGLE = re.compile(
    r"(?:ángulo|ângulo|angolo|temperatura|latitud|longitud|inclina|gir|rota|menos|meno|bajo cero|"
    r"\b(?i:hace|hizo|hará|faz|fez|fará|fa|faceva|farà)\s)[^.!?]*$"
)
_DEGREES_BEFORE = re.compile(r"\b(?:a|di|da|circa|oltre|sotto|sopra|faceva|sono|erano)\s$")
_NO_NOUN = re.compile(
    r"\s(?:(?:de|del|di|da|do|d[ei]l?|y|e|ed|o|ou|a|à|às|al|en|em|com|con|sobre|bajo|por|per|norte|sul|sur|nord|sud|est|este|oeste|ovest|fuori|dentro|fuera|fora|oggi|hoy|hoje|ieri|ayer|ontem|grad[oi]s?|graus?)\b|[^a-zà-ÿ])|[^\s\w]|$"
)
_LARGEST_PLACE = 29  # more than it are degrees, where no noun follows


def _ordinal_or_degrees(found: re.Match[str], code: str, language: Language) -> str | None:
    """Quinto piso, il terzo; un ángulo de noventa grados."""
    number = int(found["n"])
    before = found.string[max(0, found.start() - 40) : found.start()]
    if code == "pt" and number > 9 and re.search(r"\bart(?:s?\.|igos?)\s$", before, re.IGNORECASE):
        return cardinal(found["n"], language)  # art. 12º
    alone = _NO_NOUN.match(found.string, found.end()) is not None
    minus = f"{LANGUAGES[code].minus} " if found["minus"] else ""
    sign_of_degrees = found["sign"] == "°" and (
        code != "it" or number > 10 or _DEGREES_BEFORE.search(before) is not None
    )
    if not minus and (not alone or _ARTICLE.search(before) or found["sign"].startswith(".")):
        said = ordinal(number, language)
        return re.sub(r" (primer|tercer)o$", r" \1", said) if code == "es" and not alone else said
    if minus or sign_of_degrees or number > _LARGEST_PLACE or _ANGLE.search(before):
        names = table(code).signs.degrees
        if names is None:
            return None
        unit = "" if re.match(r"\sgra[du]", found.string[found.end() : found.end() + 6]) else f" {names[number != 1]}"
        said = before_word(found["n"], names[1], language) or cardinal(found["n"], language)
        return f"{minus}{said}{unit}"
    return ordinal(number, language)


_SPANISH_FIRST = (
    r"(?P<n>[13])(?:\.?er\b|(?:\.?º|°)(?=\s(?!de\b|del\b|y\b|o\b|a\b|en\b|iz|d(?:ere|ch)|centro|ctro)[a-zà-ÿ]))"
)


_SPANISH_LETTERS = (  # la 1ra vez, el 4to puesto
    r"(?P<n>\d?(?:[13]r|2d|[456]t|[70]m|8v|9n))(?P<end>[oa]s?)(?!\w)"
)


def _with_letters(found: re.Match[str]) -> str | None:
    """Primera, cuarto; not 0mo."""
    number = int(found["n"][:-1])
    if not number or found["n"].startswith("0"):
        return None
    return re.sub(r"o\b", found["end"], ordinal(number, LANGUAGES["es"]))


def _apocope(found: re.Match[str]) -> str:
    """Primer piso, tercer año."""
    return "primer" if found["n"] == "1" else "tercer"


def _german_ordinal(found: re.Match[str]) -> str | None:
    """The ordinal with its ending; where the next sentence begins, with the full stop."""
    after = found.string[found.end() : found.end() + 40]
    word = re.match(r"\s+([^\W\d_]+)", after)
    number = int(found["n"])
    before = found.string[max(0, found.start() - 30) : found.start()]
    begins_line = not before.strip(" \t") or before.rstrip(" \t").endswith("\n")
    if begins_line and _is_listed(found, number):
        return cardinal(found["n"], LANGUAGES["de"]) + "."
    if not after or (word is not None and german.begins_sentence(word[1])) or after.startswith("\n"):
        day = re.search(r"\b(?:am|vom|zum|bis|der|den|dem|des)\s$", before) is not None and number <= 31
        if begins_line:
            return None  # of a list
        if place := german.place_at_end(before, number):
            return place + "."
        said = german.inflected(found, number, date=True) if day else whole_number(found["n"], LANGUAGES["de"], None)
        return None if said is None else said + "."
    in_row = re.match(r",?\s(?:und|oder|bis|sowie|bzw\.)\s\d{1,4}\.|[–/-]\s?\d{1,4}\.|,\s\d{1,4}\.", after) is not None
    if word is not None and not in_row and word[1][0].islower() and german.inflected(found, number) is None:
        return None
    return german.inflected(found, number, date=in_row or after.startswith(","))


_NEAR = 2000  # characters, in which the next item of a list stands


def _is_listed(found: re.Match[str], number: int) -> bool:
    """True for the number of a list's item: another line begins with the next or the last one."""
    text, start, end = found.string, found.start(), found.end()
    item = r"(?:^|\n)[ \t]*{}\.\s"
    after, before = text[end : end + _NEAR], text[max(0, start - _NEAR) : start]
    return bool(re.search(item.format(number + 1), after) or re.search(item.format(number - 1), before))


def _german_roman(found: re.Match[str]) -> str | None:
    return german.inflected(found, roman.value(found["roman"]))


def _with_forms(language: Language, **forms: str) -> Words:
    return lambda found: ordinal(int(found["n"]), language, **forms)
