"""Times of day in words: 14:30, 14h30."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, ordinal

Words = Callable[[re.Match[str]], str | None]

_TIME = r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?P<second>:[0-5]\d)?"
_HOURS = {"fr": ("heure", "heures"), "pt": ("hora", "horas"), "ru": ("час", "часа", "часов")}
_KOREAN_HOURS = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열", "열한", "열두")


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of times, with their words."""

    def words(found: re.Match[str]) -> str | None:
        if found["second"]:
            return None
        if code == "pl":
            return _polish(language, int(found["hour"]), int(found["minute"]), found.string[: found.start()][-8:])
        return _spoken(code, language, int(found["hour"]), int(found["minute"]), found.string[found.end() :][:6])

    def korean_hour(found: re.Match[str]) -> str:
        return _KOREAN_HOURS[int(found["hour"])] + " 시"

    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    time = rf"(?<![{letters}:.,/–-]){_TIME}(?![{letters}:]|[.,]\d|[–-]\w)"
    suffix = {"de": r"(?: ?Uhr\b)?", "nl": r"(?: ?uur\b)?", "ko": ""}.get(code, "")
    found: list[tuple[re.Pattern[str], Words]] = [(re.compile(time + suffix), words)]
    full_stop = r"(?<![\w:.,/–-])(?P<hour>[01]?\d|2[0-4])\.(?P<minute>[0-5]\d)(?P<second>)?"
    if code in ("de", "nl"):  # 10.30 Uhr
        found.append((re.compile(full_stop + {"de": r" ?Uhr\b", "nl": r" ?uur\b"}[code]), words))
    if code == "en":
        found.append((re.compile(rf"{full_stop}(?=\s?[ap]\.?m\b)", re.IGNORECASE), words))
    if code in ("fr", "pt"):
        hours = r"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-4]) ?h ?(?P<minute>[0-5]\d)(?P<second>)?\b"
        found.append((re.compile(hours), words))
    if code == "ko":
        found.append((re.compile(r"(?<![\w.,:])(?P<hour>1[0-2]|[1-9])시(?!간)"), korean_hour))
    return found


def _spoken(code: str, language: Language, hour: int, minute: int, after: str) -> str | None:
    if code == "en":
        return _english(language, hour, minute, after)
    minutes = cardinal(f"{minute:02}" if code in ("es", "ru", "tr") and minute else str(minute), language)
    match code:
        case "de" | "nl":
            word = {"de": "Uhr", "nl": "uur"}[code]
            return f"{cardinal(str(hour), language, word)} {word}" + (f" {minutes}" if minute else "")
        case "fr" | "pt":
            noun = _HOURS[code][hour > 1]
            start = f"{cardinal(str(hour), language, noun)} {noun}"
            return start + (f"{' e' if code == 'pt' else ''} {minutes}" if minute else "")
        case "es" | "it":
            hours = cardinal(str(hour), language, "hora" if code == "es" else "ora")
            return hours + (
                f"{' e' if code == 'it' else ''} {minutes}" if minute else (" horas" if code == "es" else "")
            )
        case "ru":
            hours = cardinal(str(hour), language)
            return f"{hours} {minutes}" if minute else f"{cardinal(str(hour), language, 'час')} {_russian_hours(hour)}"
        case "tr":
            return cardinal(str(hour), language) + (f" {minutes}" if minute else "")
        case "ja":
            return cardinal(str(hour), language) + "時" + (f"{minutes}分" if minute else "")
        case "ko":
            start = _KOREAN_HOURS[hour] if 1 <= hour <= 12 else cardinal(str(hour), language)
            return f"{start} 시" + (f" {minutes} 분" if minute else "")
    return None


def _english(language: Language, hour: int, minute: int, after: str) -> str:
    half = re.match(r"\s?[ap]\.?m\b", after, re.IGNORECASE) is not None
    hours = cardinal(str(hour), language)
    if not minute:
        return hours if half else f"{hours} o'clock" if 1 <= hour <= 12 else f"{hours} hundred"
    return f"{hours} {'oh ' if minute < 10 else ''}{cardinal(str(minute), language)}"


def _polish(language: Language, hour: int, minute: int, before: str) -> str:
    """The hour is an ordinal: czternasta trzydzieści, o czternastej trzydzieści."""
    at = re.search(r"\b(?:o|od|do|po|około)\s$", before, re.IGNORECASE) is not None
    hours = ordinal(hour, language) if hour else "zero"
    hours = re.sub(r"i\b", "iej" if at else "ia", re.sub(r"y\b", "ej" if at else "a", hours))
    hours = hours.replace("gia", "ga")
    return hours + (f" {cardinal(f'{minute:02}', language)}" if minute else "")


def _russian_hours(hour: int) -> str:
    one, few, many = _HOURS["ru"]
    if hour % 10 == 1 and hour != 11:
        return one
    return few if hour % 10 in (2, 3, 4) and not 12 <= hour <= 14 else many
