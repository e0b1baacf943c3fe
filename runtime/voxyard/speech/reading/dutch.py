"""Dutch figures beside those of other languages: 1 t/m 5, 3512 AB Utrecht, artikel 6:162, 9u30."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import table

_NO_TOWN = "(?!EK|WK|EU|VN|NS|OS|TV|PC|BV|NV|GB|MB|KB|TB|HD|AD|BC)"  # in 2024 EK-goud
Words = Callable[[re.Match[str]], str | None]


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns that units and times must not take apart, with their words."""
    return [
        (re.compile(r"(?<=\d )t/m(?= ?\d)"), lambda _: "tot en met"),
        (
            re.compile(
                rf"(?<![\w.,/-])(?P<a>[1-9]\d)(?P<b>\d\d) ?{_NO_TOWN}(?P<c>[A-Z])(?P<d>[A-Z])"
                r"(?=,?\s[A-Z’'][\w’']|[,;)]|$)"
            ),
            lambda found: (
                f"{cardinal(found['a'], language)} {cardinal(found['b'], language)} {found['c']} {found['d']}"
            ),
        ),
        (
            re.compile(
                r"(?:(?<=[Aa]rt\. )|(?<=[Aa]rtikel )|(?<=[Aa]rtikelen ))(?P<book>\d{1,2}):(?P<n>\d{1,4})(?![\w:])"
            ),
            lambda found: f"{cardinal(found['book'], language)} {cardinal(found['n'], language)}",
        ),
        (
            re.compile(
                r"(?<![\w.,/-])(?P<n>\d{1,4})-(?=(?:jarig|daags|weeks|maands|maal|voudig|delig|koppig|persoons|uurs|urig|"
                r"cijferig|procents|sterren|deurs)\w*)"
            ),
            lambda found: cardinal(found["n"], language).replace("één", "een"),
        ),
        (
            re.compile(r"(?<![\w.,/-])0[89]00-\d{4}(?![\w-])"),  # of a service
            lambda found: ", ".join(" ".join(cardinal(n, language) for n in part) for part in found[0].split("-")),
        ),
        (
            re.compile(r"(?<![\w.,:/-])(?P<hour>[01]?\d|2[0-4])u(?P<minute>[0-5]\d)?(?!\w| ?[–-] ?\d)"),
            lambda found: (
                f"{cardinal(found['hour'], language)} uur"
                + (f" {cardinal(str(int(found['minute'])), language)}" if int(found["minute"] or 0) else "")
            ),
        ),
        (re.compile(rf"(?<![\w.,/–-])(?P<n>[1-9])\s{_SIZED}"), lambda found: _sized(found, language)),
        (  # de 10 km in 38.42, which no hour is
            re.compile(
                r"(?=\d)(?:(?<=\bin )|(?<=[Tt]ijd van )|(?<=[Tt]ijd: )|(?<=\bklokte )|(?<=\bnaar ))"
                r"(?P<a>2[4-9]|[3-9]\d)\.(?P<b>[0-5]\d)(?![\w.,]\d|\w|\s?(?:u\b|uur\b|euro\b|%))"
            ),
            lambda found: " ".join(cardinal(n, language) for n in (found["a"], *_pair(found["b"]))),
        ),
        (  # zaak nr. 18/01234
            re.compile(
                r"(?=\d)(?:(?<=\bnr\. )|(?<=nr\. )(?=\d+/0)|(?<=\bzaak ))(?P<a>\d{1,4})/(?P<b>\d{2,7})(?![\w/]|[.,]\d)"
            ),
            lambda found: f"{cardinal(found['a'], language)} slash {cardinal(found['b'], language)}",
        ),
        (re.compile(r"ƒ ?(?P<n>\d{1,3}(?:\.\d{3})*)(?:,-)?(?![\d,.]\d)"), lambda found: _guilders(found, language)),
    ]


_ADJECTIVES = {"gr.": ("grote", "groot"), "kl.": ("kleine", "klein")}
_SIZED = (
    r"(?P<size>kl\.|gr\.(?=\s(?:ui|ei|appel|tomat|tomaat|wortel|paprika|aardappel|courgette|aubergine|prei|teen|tenen|bos|"
    r"blik|pot|komkommer|citroen|sinaasappel|peer|peren|pan|kom|fles|zak|pak|glas|stuk)))(?=\s(?P<noun>[a-zé]{2,}))"
)


def _sized(found: re.Match[str], language: Language) -> str:
    """Eén grote ui, één klein blik, twee kleine blikken."""
    inflected, plain = _ADJECTIVES[found["size"]]
    neutral = found["n"] == "1" and table("nl").gender(found["noun"]) == "neutral"
    return f"{cardinal(found['n'], language)} {plain if neutral else inflected}"


def _pair(digits: str) -> tuple[str, ...]:
    """The two figures of 05, and 42 as one number."""
    return (digits,) if digits[0] != "0" else ("0", digits[1])


def _guilders(found: re.Match[str], language: Language) -> str:
    return f"{cardinal(found['n'].replace('.', ''), language)} gulden"
