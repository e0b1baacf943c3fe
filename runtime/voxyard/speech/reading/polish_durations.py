"""Polish durations in the case of their preposition: po jednej godzinie i czterdziestu minutach, przed minutą."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.polish_cases import Case, in_case

_NOUNS = {"h": "godzin", "godz": "godzin", "min": "minut", "sek": "sekund", "s": "sekund", "mies": "miesiąc"}


def patterns(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """Patterns of durations after po and przed, with their words."""
    unit = rf"\s?(?P<unit{{}}>{'|'.join(_NOUNS)})(?![\w/²])\.?"
    pattern = (
        rf"\b(?P<at>[Pp]o|[Pp]rzed)\s(?P<n>\d{{1,3}}){unit.format('')}"
        rf"(?:\s(?P<and>i\s)?(?P<m>\d{{1,2}}){unit.format(2)})?(?=(?P<after>\s*.?))"
    )

    def words(found: re.Match[str]) -> str:
        case: Case = "locative" if found["at"].lower() == "po" else "instrumental"
        said = _duration(found["n"], found["unit"], case, language)
        if found["m"]:
            said += f" {found['and'] or ''}{_duration(found['m'], found['unit2'], case, language)}"
        after = found["after"].strip()
        return f"{found['at']} {said}{'.' * (found[0].endswith('.') and (not after or after.isupper()))}"

    late = re.compile(  # opóźniony o 1 h, przez 1 min, studź 1 godz.
        r"(?:(?<=ny o )|(?<=na o )|(?<=ne o )|(?<=nie o )|(?<=\bprzez )|(?<=\bza )|(?<=\bco )|(?<=\bna )|"
        r"(?<=[aeiou]j )|(?<=[źćż] )|(?<=[cs]z ))"
        r"1\s?(?P<unit>h|godz|min|sek)(?![\w/])(?:\.(?=(?P<after>\s*.?)))?"
    )

    def one(found: re.Match[str]) -> str:
        after = (found["after"] or "a").strip()
        return f"jedną {_NOUNS[found['unit']]}ę{'.' * (not after or after.isupper())}"

    return [(re.compile(pattern), words), (late, one)]


def _duration(digits: str, unit: str, case: Case, language: Language) -> str:
    noun = _NOUNS[unit]
    if digits != "1":
        return f"{in_case(cardinal(digits, language), case)} {noun}{'ach' if case == 'locative' else 'ami'}"
    if noun == "miesiąc":
        return "jednym miesiącu" if case == "locative" else "jednym miesiącem"
    return f"jednej {noun}ie" if case == "locative" else f"jedną {noun}ą"
