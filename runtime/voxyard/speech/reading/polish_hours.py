"""Polish hours, which are ordinals: o szóstej czterdzieści pięć, czynne od dziewiątej do siedemnastej."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, ordinal
from voxyard.speech.reading.patterns import ELSEWHERE

Words = Callable[[re.Match[str]], str | None]

_TIME = r"(?P<h{0}>[01]?\d|2[0-4])(?:[.:](?P<m{0}>[0-5]\d))?"
_CLOCK = (
    r"(?:(?<!\w)(?P<at>(?:[Oo]|[Dd]o|[Oo]d|[Pp]o|[Mm]iędzy|[Oo]k\.|[Oo]koło|[Nn]a|[Pp]rzed|[Ww])\s)|(?<!\d )(?<!\w))"
    rf"godz(?:\.|in[aęy]|inie|iną|inach)\s?{_TIME.format('')}"
    rf"(?:(?:\s?[–-]\s?|\sdo\s){_TIME.format(2)}(?!\s(?:zł|osób|tys)))?(?![\w:]|[.,]\d)"
)
_NOUN_OF_HOUR = {
    "o": "godzinie",
    "po": "godzinie",
    "na": "godzinę",
    "przed": "godziną",
    "między": "godziną",
    "": "godzina",
    "w": "godzinach",
}
_OPEN = re.compile(
    r"(?<!\w)(?:czynn|otwart|pracuj|dyżur|śpi|spał|cisz[aęy]\snocn|kursuj|jeździ|przyjmuj|zapraszamy|poniedział|wtor|środ|czwart|piąt|sobot|niedziel|codziennie|"
    r"weekend|(?:pn|pon|wt|śr|czw|pt|sob|ndz?|niedz)\.?[\s–-])",
    re.IGNORECASE,
)


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of hours that a word beside them tells."""
    return [
        (  # czynne od 9 do 17
            re.compile(
                rf"(?<![\w.,:/–-])(?:(?P<do>[Oo]d|[Dd]o)\s)?{_TIME.format('')}(?:\s?(?:[–-]|do(?=\s))\s?{_TIME.format(2)})?"
                r"(?=\s*(?:[,;.)]|$)|\s(?:[iaw]|oraz|lub|bez|przez|we)\s)(?![.,:]\d)"
            ),
            lambda found: _opened(found, language),
        ),
        (
            re.compile(r"(?:(?<=\bgodz\. \d a )|(?<=\bgodz\. \d\d a ))(?P<h>1?\d|2[0-4])(?![\w:]|[.,]\d)"),
            lambda found: _hour(found["h"], None, "ą", language),
        ),
        (  # 9:00–18:00
            re.compile(
                r"(?:\b[Oo]d )?(?<![\w:.,/–-])(?<!godz\. )(?P<h>[01]?\d|2[0-4]):(?P<m>[0-5]\d)"
                r"\s?[–-]\s?(?P<h2>[01]?\d|2[0-4]):(?P<m2>[0-5]\d)(?![\w:]|[.,]\d)"
            ),
            lambda found: " ".join(
                f"{word} {_hour(found[h], found[m], 'ej', language)}"
                for word, h, m in (("od", "h", "m"), ("do", "h2", "m2"))
            ),
        ),
        (  # między 8:00 a 13:00
            re.compile(
                r"(?<=iędzy )(?P<h>[01]?\d|2[0-4]):(?P<m>[0-5]\d) a "
                r"(?P<h2>[01]?\d|2[0-4]):(?P<m2>[0-5]\d)(?![\w:]|[.,]\d)"
            ),
            lambda found: " a ".join(_hour(found[h], found[m], "ą", language) for h, m in (("h", "m"), ("h2", "m2"))),
        ),
        (  # wróciła przed 6 rano, kwadrans po 5, wpół do 8
            re.compile(
                r"(?=\d)(?<=[oduł] )(?:(?P<at>(?<=\b[Pp]rzed ))|(?<=\b[Pp]o )|(?<=\b[Oo]koło )|"
                r"(?<=\b[Dd]o )|(?<=\b[Oo]d ))"
                r"(?<![\w.,])(?P<h>1?\d|2[0-4])(?:(?=\s(?:rano|wieczorem|po południu|w nocy|nad ranem|w południe)\b)|"
                r"(?<=pół do \d)|(?<=pół do \d\d)|(?<=wadrans po \d)|(?<=wadrans po \d\d)|"
                r"(?:(?<=(?:tuż|lko) po \d\d)|(?<=(?:tuż|lko) po \d)|(?<=tuż przed \d\d)|(?<=tuż przed \d))"
                r"(?=[,;.]|$))(?![\w:]|[.,]\d)"
            ),
            lambda found: _hour(found["h"], None, "ą" if found["at"] is not None else "ej", language),
        ),
        (
            re.compile(
                r"(?=\d)(?:(?<=\b[Zz]a \d minut )|(?<=\b[Zz]a \d\d minut )|(?<=\b[Zz]a kwadrans ))1?\d(?=[,;.]|$)"
            ),
            lambda found: _hour(found[0], None, "a", language),
        ),
        (re.compile(_CLOCK), lambda found: _hours(found, language)),
    ]


def timetables(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of the hours of a row, before others read a date: odjazd: 6.12, 7.42, 9.05."""
    time = r"(?:[01]?\d|2[0-4])\.[0-5]\d"
    hour = r"(?P<h>[01]?\d|2[0-4])\.(?P<m>[0-5]\d)(?![\w:]|[.,]\d)"
    pattern = rf"(?<![\w.,:/–-]){hour}(?:(?=(?:,| i| oraz)\s{time})|(?<=(?:,| i)\s\d\.\d\d)|(?<=(?:,| i)\s\d\d\.\d\d))"
    pattern = pattern.replace("(?<=(?:,| i)\\s", "(?<=[,i]\\s")
    told = re.compile(r"(?i:od|przy)ja(?:zd|dy)|[Oo]djeżdża|[Kk]ursuj|[Ss]eans|[Gg]odzin|[Pp]ocząt[^.!?]{0,80}$")

    def words(found: re.Match[str]) -> str:
        if told.search(found.string[max(0, found.start() - 80) : found.start()]) is None:
            return ELSEWHERE
        return _hour(found["h"], None if not int(found["m"]) else found["m"], "a", language)

    return [(re.compile(pattern), words)]


def _opened(found: re.Match[str], language: Language) -> str:
    """Od dziewiątej do siedemnastej, where a word of opening hours stands in the same sentence."""
    sentence = re.split(r"[!?\n]|(?<=\w{4})\.\s", found.string[max(0, found.start() - 80) : found.start()])[-1]
    if _OPEN.search(sentence) is None or (found["h2"] is None and not found["do"]):
        return ELSEWHERE
    if found["h2"] is None and found["do"].lower() == "od" and not found["m"]:
        return ELSEWHERE
    first = _hour(found["h"], found["m"], "ej", language)
    last = f" do {_hour(found['h2'], found['m2'], 'ej', language)}" if found["h2"] else ""
    return f"{found['do'] or 'od'} {first}{last}"


def _hours(found: re.Match[str], language: Language) -> str:
    """O godzinie szóstej czterdzieści pięć, na godzinę dziesiątą, w godzinach od ósmej do szesnastej."""
    at = found["at"] or ""
    at = at.replace("k.", "koło")
    preposition = at.strip().lower()
    noun = _NOUN_OF_HOUR.get(preposition, "godziny")
    if found["h2"]:
        noun = "godziny" if preposition != "w" else noun
        first, last = (_hour(found[h], found[m], "ej", language) for h, m in (("h", "m"), ("h2", "m2")))
        return f"{at}{noun} {'od ' * (preposition != 'od')}{first} do {last}"
    ending = {"": "a", "na": "ą", "przed": "ą", "między": "ą"}.get(preposition, "ej")
    return f"{at}{noun} {_hour(found['h'], found['m'], ending, language)}"


def _hour(hour: str, minute: str | None, ending: str, language: Language) -> str:
    words = ordinal(int(hour), language)
    said = (
        re.sub(r"([yi])\b", lambda found: ("i" if found[1] == "i" else "") + ending, words)
        .replace("gia", "ga")
        .replace("gią", "gą")
    )
    return said + (f" {cardinal(minute, language)}" if minute and int(minute) else "")
