"""Names with digits in words: MP3, 5G, A320, COVID-19, 221B, and what stands between two figures: 12-for-20."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from voxyard.speech.reading import chinese
from voxyard.speech.reading.digits import one_by_one
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ko", "fa")
_FLOORS = {"ja": ("地下", "階"), "ko": ("지하 ", "층")}
_OWN_LETTERS = {"ko": "[가-힣]", "fa": "[آ-ی]"}
_AIRBUS = re.compile(r"A[2-3]\d0?\d?(?:neo|ceo)s?")
_MOST_PARTS = 4  # more are a key, which nobody says


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of names that have letters and digits, with their words; none where they are said in English."""
    if code not in _LANGUAGES:
        return []
    letters = r"\w" if language.spaced and code != "ko" else "A-Za-z0-9_"
    before = rf"(?<![{letters}@#$€£/\\°])(?<!(?<![^\W\d_])['’])(?<![{letters}][.,:+])(?<![{letters}]-(?=\d))"
    name = r"(?=[A-Za-z]*-?\d)(?=\d*[A-Za-z])(?:[A-Za-z]{1,12}-(?=\d))?[A-Za-z\d]{1,14}"
    after = rf"(?![{letters}@/\\'’+°²³]|[.,:]\d|-\d)"
    found: list[tuple[re.Pattern[str], Words]] = [
        (re.compile(f"{before}{name}{after}"), lambda match: _name(match[0], code, language))
    ]
    if language.scripts == ("LATIN",):
        lone = re.compile(r"(?<![\u0370-\u03ff])[\u0391-\u03a9\u03b1-\u03c9](?![\u0370-\u03ff])")
        found.append((lone, lambda match: _greek(match, code)))
    intel = re.compile(r"(?<![\w-])i(?P<n>[3579])-(?P<a>\d\d)(?P<b>\d{2,3})(?P<end>[A-Z]{0,2})(?![\w-])")  # i7-12700K
    if code in ("en", "de", "nl"):
        memory = re.compile(r"(?<![\w-])(?P<kind>L?P?DDR)(?P<n>[2-5])-(?P<clock>\d{3,4})(?![\w-])")  # DDR5-6000
        port = re.compile(r"(?<![\w.,:/-])(?P<n>\d{1,5})/(?P<kind>tcp|udp)(?!\w)", re.IGNORECASE)  # 8080/tcp
        found.insert(0, (port, lambda match: f"{number(match['n'], code, language)} {match['kind'].upper()}"))
        found.insert(0, (memory, lambda match: f"{match['kind']}{', '.join(_said(match, language))}"))
        found.insert(0, (intel, lambda match: _processor(match, code, language)))
    if code == "it":  # un 22enne
        aged = re.compile(r"(?<![\w.,-])(?P<n>\d{1,3})(?=enn[ei]\b)")
        found.insert(0, (aged, lambda match: re.sub("[aeioé]$", "", cardinal(match["n"], language))))
    if code == "fr":  # 24h/24, 7j/7, un 4x4
        found.insert(
            0, (re.compile(r"(?<![\w.,/])24 ?h(?:eures)?/24(?!\d)"), lambda _: "vingt-quatre heures sur vingt-quatre")
        )
        found.insert(0, (re.compile(r"(?<![\w.,/])7 ?j(?:ours)?/7(?!\d)"), lambda _: "sept jours sur sept"))
    if code in _FLOORS:  # 3F, B1F, B2층
        below, noun = _FLOORS[code]
        floor = re.compile(rf"(?<![A-Za-z\d.-])(?P<below>B)?(?P<n>[1-9]\d?)(?:F(?![A-Za-z\d])|(?(below){noun}|(?!)))")
        found.insert(0, (floor, lambda match: f"{below * bool(match['below'])}{cardinal(match['n'], language)}{noun}"))
    if code in ("ko", "ja", "zh", "fa"):  # Vol.3, Ver.2를
        numbered = re.compile(r"(?<=[A-Za-z][a-z])\.(?P<n>\d{1,4})(?![A-Za-z\d/]|[.,:-]\d)")
        found.append((numbered, lambda match: " " * language.spaced + cardinal(match["n"], language)))
    if code in _OWN_LETTERS:  # 코로나-19, کووید-۱۹
        after_word = re.compile(rf"(?<={_OWN_LETTERS[code]})(?P<joint>-?)(?P<n>\d{{1,4}})(?![\w/]|[.,:-]\d)")
        found.append((after_word, lambda match: f" {cardinal(match['n'], language)}"))
    if code == "en":
        joints = "|".join(rf"(?<=-{each}-)" for each in ("for", "to", "of", "by", "on", "in", "and", "or", "up"))
        found.append(
            (re.compile(rf"(?=\d)(?:{joints})\d{{1,4}}(?!\w|[.,]\d)"), lambda match: cardinal(match[0], language))
        )
    return found


def in_english(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of names whose figures are said in English, which no other rule may take apart: 5G, 2+1 행사."""
    english = table(language.locale).english
    letters = "A-Za-z0-9_" if language.scripts != ("ARABIC",) else r"\w"
    said = "|".join(re.escape(each) for each in sorted(english, key=len, reverse=True))
    pattern = re.compile(rf"(?<![{letters}.+-])(?:{said})(?![{letters}]|[.+-]\d| ?=)")
    return [(pattern, lambda found: english[found[0]])] if english else []


def _name(text: str, code: str, language: Language) -> str | None:
    """The letters as they are, the digits in words; ELSEWHERE for a unit, an ending or a key."""
    parts = re.findall(r"[A-Za-z]+|\d+", text)
    last = parts[-1]
    if text.startswith("0x"):
        return ELSEWHERE
    capitals = re.sub(r"[\d-]|s$", "", text)
    if len(parts) > _MOST_PARTS or (len(parts) > 2 and not capitals.isupper() and not _AIRBUS.fullmatch(text)):
        return ELSEWHERE
    if parts[0].isdigit() and not (re.fullmatch("[a-fix]|[A-Z]{1,2}s?|S?LDK", last) or len(parts) > 2):
        return ELSEWHERE  # 7ish, 10m
    plural = code == "en" and last == "s" and len(parts) > 1
    if plural:  # MP3s, F-16s
        parts = parts[:-1]
    joint = "-" if language.spaced else ""
    said = joint.join(number(each, code, language) if each.isdigit() else each for each in parts)
    return said if not plural else re.sub("y$", "ie", said) + ("es" if said.endswith("x") else "s")


def _said(found: re.Match[str], language: Language) -> tuple[str, str]:
    return f" {cardinal(found['n'], language)}", cardinal(found["clock"], language)


def _processor(found: re.Match[str], code: str, language: Language) -> str:
    digits = (found["a"], found["b"]) if code == "en" else (found["a"] + found["b"],)
    end = f" {found['end']}" if found["end"] else ""
    return f"i {cardinal(found['n'], language)}, {' '.join(cardinal(each, language) for each in digits)}{end}"


def _greek(found: re.Match[str], code: str) -> str:
    """The name of a letter of mathematics: α, 2π."""
    name = unicodedata.name(found[0]).split()[-1].lower().replace("lamda", "lambda")
    name = name if code not in ("es", "it", "pt", "pl") else name.replace("alpha", "alfa").replace("phi", "fi")
    before, after = found.string[: found.start()][-1:], found.string[found.end() : found.end() + 1]
    return " " * before.isalnum() + name + " " * after.isalnum()


def number(digits: str, code: str, language: Language) -> str:
    """The number of a name: in English by pairs (A three twenty), else in one, and longer ones digit by digit."""
    if len(digits) <= 2 or (len(digits) == 3 and code not in ("en", "ja", "zh", "ko") and digits[0] != "0"):
        return cardinal(digits, language)
    if code == "en" and digits[0] != "0" and len(digits) <= 4:
        head, tail = digits[:-2], digits[-2:]
        if tail == "00":
            return cardinal(digits, language) if digits[-3] == "0" else f"{cardinal(head, language)} hundred"
        if tail[0] != "0" or len(digits) == 3:
            rest = cardinal(tail, language) if tail[0] != "0" else f"oh {cardinal(tail[1], language)}"
            return f"{cardinal(head, language)} {rest}"
    if code == "zh":
        return chinese.one_by_one(digits)
    return one_by_one(digits, language)
