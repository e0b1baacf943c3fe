"""Phone and fax numbers of every shape, after a word that tells them: tel. 912 345 678, cell. 333 1234567."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.digits import by_digits
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_NUMBER = (
    r"(?=[+(\d])(?=(?:[ ()./+-]{0,3}\d){6,15}(?![ ./-]?\d))(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)[ ./-]?)?"
    r"\d{1,11}(?:(?: / | - |[ ./-])\d{2,8}){0,6}(?:-\d)?(?![\w%€$£]| ?[%€$£])"
)
_BETWEEN = (
    r"(?:(?:al?|au|le|la|el|o|no|na|il|lo|unter|der|die|den|para|pelo|us|me|him|her|them|at|on|is|ist|es|est|è|é|"
    r"ons|op|naar|número|numéro|numero|number|Nummer|Nr\.|n\.º|nº|n°|lautet|mich|uns|sous|mobile|office|gratuito|vert|verde)\s){0,3}"
)
_AND = r"(?:,\s|\s?/\s|\s?;\s|\s(?:or|and|oder|und|ou|et|o|u|y|e|или|и)\s)(?:(?:al|au|para|unter|at|on|no|a)\s)?"
_AMOUNT = re.compile(r"\d{1,3}(?:[ .]\d{3})*[ .]000|\d{1,3}(?:\.\d{3})+|(?:1\d|20)\d\d-(?:1\d|20)\d\d")


def patterns(language: Language) -> list[Reading]:
    """Patterns of numbers after the language's words for a phone, and of those whose shape tells, with their words."""
    own = table(language.locale)
    if not own.phones:
        return []
    words = "|".join(re.escape(each).replace(r"\ ", r"\s") for each in sorted(own.phones, key=len, reverse=True))
    told = re.compile(
        rf"(?<!\w)(?P<word>(?i:{words}))(?P<joint>\s?(?::|\((?!\d{{1,5}}\)))?\s?{_BETWEEN})(?P<numbers>{_NUMBER}(?:{_AND}{_NUMBER})*)"
    )

    def spoken(found: re.Match[str]) -> str | None:
        if not found["joint"] or _AMOUNT.fullmatch(found["numbers"]):
            return ELSEWHERE
        keys = (f"{word}{end}" for word in (found["word"], found["word"].lower()) for end in ("", "#"))
        short = next((own.abbreviations[key] for key in keys if key in own.abbreviations), None)
        word = found["word"] if short is None else short.capitalize() if found["word"][0].isupper() else short
        said = re.sub(_NUMBER, lambda each: by_digits(each[0], language) or each[0], found["numbers"])
        return f"{word}{found['joint']}{said}"

    shapes = {
        "it": r"3\d\d[ .-]?\d{6,7}|3\d\d[ .-]\d{3}[ .-]\d{3,4}",
        "pt": r"(?:\(?\d\d\)?[ -]?)?9\d{4}-\d{4}|\(?\d\d\)? \d{4}-\d{4}",
        "nl": r"0\d{1,3}-\d{6,8}|0\d{1,3}-\d{2,3}(?: \d\d){2,3}|06(?:[ -]\d\d){4}",
        "fr": r"0\d(?:[.-]\d\d){4}",
        "tr": r"\(?0\d{3}\)? \d{3} \d\d \d\d",
    }
    no_country = r"(?<!\+\d )(?<!\+\d\d )(?<!\+\d\d\d )(?<!\+\d\d \d\d )"
    any_shape = [r"(?:1[.-])?\d{3}\.\d{3}\.\d{4}", *filter(None, [shapes.get(language.locale[:2])])]
    alone = re.compile(rf"(?=[\d(])(?<![\w.,:/+-]){no_country}(?:{'|'.join(any_shape)})(?![\w-]|[.,]\d)")
    return [(told, spoken), (alone, lambda found: by_digits(found[0], language))]
