"""Short names of days in words, where a date, a time or another day stands beside them: Do., 05.12., Mo–Fr, Mon-Fri."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import ranges, russian_forms
from voxyard.speech.reading.dates import month_names
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_JOINTS = (
    r"(?:\s?[–-]\s?|\s?/\s?|\s?&\s?|,\s|"
    r"\s(?:and|t/m|to|through|or|und|u\.|bis|oder|et|à|au|ou|y|a|e|en(?! zo\b)|o|al?|i|и|по)\s)"
)

_HOURS = re.compile(  # Mon–Thu 10–7
    r"(?=\d)(?:(?<=Mon )|(?<=Tue )|(?<=Wed )|(?<=Thu )|(?<=Fri )|(?<=Sat )|(?<=Sun )|(?<=day )|(?<=days ))"
    r"(?P<a>[5-9]|1[0-2])\s?[–-]\s?(?P<b>[1-9]|1[0-2])(?![\w:-]|\s?[ap]\.?m|\.\d)"
)
_MANY = re.compile(r"(?<!\w)(?:los|a?os|[aà]s|n[ao]s)\s$")  # los sáb. y dom.


_POLISH = {  # after od and do, and after w
    "poniedziałek": ("poniedziałku", "poniedziałek"),
    "wtorek": ("wtorku", "wtorek"),
    "środa": ("środy", "środę"),
    "czwartek": ("czwartku", "czwartek"),
    "piątek": ("piątku", "piątek"),
    "sobota": ("soboty", "sobotę"),
    "niedziela": ("niedzieli", "niedzielę"),
}
_POLISH_CASE = re.compile(r"(?<!\w)(?:(?P<genitive>(?i:od|do|z|ze|oprócz))|(?i:w|we|na|za|przez))\s$")


def _stop(found: re.Match[str]) -> str:
    """The full stop of a short day where its sentence ends."""
    after = found.string[found.end() : found.end() + 4].lstrip()
    return "." * (not after or after[0].isupper())


def _polish(day: str, before: str) -> str:
    """W środę, od środy; the nominative where no preposition stands before the day."""
    case = _POLISH_CASE.search(before[-8:])
    return day if case is None else _POLISH[day.lower()][case["genitive"] is None]


def _opened(found: re.Match[str], language: Language) -> str:
    """From ten to seven, but lost on Sunday 8-5."""
    if ranges.near_score(found.string[max(0, found.start() - 60) : found.start()], "en"):
        return ELSEWHERE
    return " to ".join(cardinal(found[each], language) for each in "ab")


def _told(language: Language, short: str, named: Callable[[re.Match[str]], str]) -> list[Reading]:
    """Short days that a preposition or a day before them tells: od pn. do pt., Lun-Ven : 8h-12h. Sam : sur RDV."""
    if language.locale == "pl":
        behind = "|".join(rf"(?<=\b{each} )" for each in ("[Oo]d", "[Dd]o", "[Ww]", "[Ww]e", "[Nn]a"))
        after = rf"(?:{behind})(?P<day>{short})\.(?!\w)"
        return [(re.compile(after), lambda found: named(found) + _stop(found))]
    if language.locale in ("de", "nl"):  # Sa. bis 35 °C, Mi.: wolkig
        then = r"(?=\s(?:bis|max\.|min\.|tot|Tmax|-?\d+ °)|:\s)"
        return [(re.compile(rf"(?:(?<=^)|(?<=[;.\n] )|(?<=\n))(?P<day>{short})\.{then}"), named)]
    if language.locale not in ("fr", "es", "it", "pt"):
        return []
    another = re.compile(rf"(?<!\w){short}(?!\w)")

    def words(found: re.Match[str]) -> str:
        is_row = another.search(found.string[max(0, found.start() - 120) : found.start()]) is not None
        return named(found) if is_row else ELSEWHERE

    feasts = r"(?:y|e|et|ed)\s(?:festivos|festivi|feriados|(?:jours\s)?fériés)"  # dom e festivi chiuso
    before_feasts = re.compile(rf"(?:(?<=^)|(?<=[,;:.\n] )|(?<=\n))(?P<day>{short})\.?(?=\s{feasts})")
    return [(before_feasts, named), (re.compile(rf"(?:(?<=[.;,] )|(?<=\n))(?P<day>{short})\.?(?=\s?:\s)"), words)]


_ONE_LETTER = {"M": "Mon", "T": "Tue", "Tu": "Tue", "W": "Wed", "Th": "Thu", "R": "Thu", "F": "Fri", "Sa": "Sat"}


def _letters(days: dict[str, str]) -> list[Reading]:
    """M-F 8-5, M/W/F at 10, T/Th: days of one letter; but M/F are two sexes."""
    row = re.compile(r"(?<![\w/.-])(?:M/W(?:/Th?)?(?:/F)?|Tu?/(?:Th|R)(?:/F)?|M/Tu?/\w{1,2}(?:/\w{1,2})*|W/F)(?![\w/])")
    span = re.compile(r"(?<![\w/.-])M\s?[–-]\s?(?P<to>F|Th|Sa)(?=,?:?\s(?:\d|from\b|at\b)|[,;.)])")

    def words(found: re.Match[str]) -> str:
        short = [_ONE_LETTER.get(each) for each in found[0].split("/")]
        return ELSEWHERE if None in short else ", ".join(days[each] for each in short if each)

    return [(row, words), (span, lambda found: f"Monday to {days[_ONE_LETTER[found['to']]]}")]


_SPANISH = {
    "L": "lunes", "M": "martes", "X": "miércoles", "J": "jueves", "V": "viernes", "S": "sábados", "D": "domingos",
}  # fmt: skip


def _spanish_letters(language: Language) -> list[Reading]:
    """L-V de 9:00 a 14:00; S de 10:00 a 13:30; D y festivos, cerrado."""
    if language.locale != "es":
        return []
    pattern = re.compile(r"(?<=[;,.] )(?P<day>[LMXJVSD])(?=\s(?:de\s\d|y festivos|cerrado)|:\s?\d)")

    def words(found: re.Match[str]) -> str:
        span = re.search(r"(?<!\w)L\s?[-–a]\s?[JVS](?!\w)", found.string[max(0, found.start() - 120) : found.start()])
        return _SPANISH[found["day"]] if span else ELSEWHERE

    return [(pattern, words)]


def _japanese() -> list[Reading]:
    """月~金の8時, 11/12(火)."""
    day = "[月火水木金土日]"
    joint = re.compile(
        rf"(?<![一-龥])(?P<a>{day})曜?(?:日)?[〜~～–-](?P<b>{day})(?=曜|の|は|も|に|、|。|\s|\d|[(（]|祝|$)"
    )
    beside = re.compile(rf"(?<=[日\d])(?P<a>[(（])(?P<day>{day})(?=[)）])")  # 11/12(火)
    return [
        (beside, lambda found: f"{found['a']}{found['day']}曜日"),
        (
            joint,
            lambda found: (
                f"{found['a']}曜から{found['b']}" + "曜" * (found.string[found.end() : found.end() + 1] != "曜")
            ),
        ),
    ]


def _english(language: Language, days: dict[str, str], short: str, months: str) -> list[Reading]:
    """Fri: sunny, Tue 12 Nov, by Mon. at."""
    found: list[Reading] = [*_letters(days), (_HOURS, lambda match: _opened(match, language))]
    one = rf"(?:(?<=^)|(?<=[;.\n] )|(?<=, )(?=\w+ noon)|(?<=\n))(?P<day>{short})(?=: |\snoon)"  # Fri: sunny
    found.append((re.compile(one), lambda match: days[match["day"]]))
    near = rf"\d{{1,2}}\s(?:{months})|(?:{months})[a-z]{{0,6}}\.?\s\d{{1,2}}\b|\d{{1,2}}/\d{{1,2}}(?![\w/])"
    one = rf"\b(?P<day>{short})(?=,?\s(?:{near}))"  # Tue 12 Nov, Mon, Dec 2
    found.append((re.compile(one), lambda match: days[match["day"]]))
    then = r"at|to|through|from|until|till|after|before|by"
    one = rf"\b(?P<day>{short})\.(?=,|\s(?:@|(?:{then})\b)|\s[A-Z][a-z]+\.?\s\d)"
    found.append((re.compile(one), lambda match: days[match["day"]]))
    return found


_OWN = {"ru": russian_forms.weekdays, "ja": _japanese}


def patterns(language: Language) -> list[Reading]:
    """Patterns of short days with their words; none where the table has none."""
    if (own := _OWN.get(language.locale)) is not None:
        return [*own()]
    days = table(language.locale).days
    if not days:
        return []
    days = {**days, **{short.capitalize(): day.capitalize() for short, day in days.items()}}
    short = rf"(?:{'|'.join(sorted(map(re.escape, days), key=len, reverse=True))})"
    months = "|".join({name[:3] for name in month_names(language)})
    date = rf"(?:(?:den|dem|der|le|il|el)\s)?\d{{1,2}}(?:[./]|\s?(?:[–-]|Uhr|h\b|:\d\d)|\s(?:de\s)?(?i:{months}))"

    def named(found: re.Match[str]) -> str:
        day = days[found["day"]]
        return _polish(day, found.string[: found.start()]) if language.locale == "pl" else day

    def row(found: re.Match[str]) -> str:
        to = f" {language.to} " if language.to else " – "
        many = _MANY.search(found.string[max(0, found.start() - 5) : found.start()]) is not None
        said = re.sub(
            rf"(?<!\w)({short})\.?(?!\w)",
            lambda each: days[each[1]] + "s" * (many and days[each[1]][-1] in "ao"),
            found[0],
        )
        if language.locale == "pl" and (span := re.fullmatch(r"(\w+)\s?[–-]\s?(\w+)", said)) is not None:
            start, end = (_POLISH.get(day.lower(), (day,))[0] for day in span.groups())
            said = f"{'' if _POLISH_CASE.search(found.string[: found.start()][-8:]) else 'od '}{start} do {end}"
            said = said[0].upper() + said[1:] if found[0][0].isupper() else said
        elif language.locale == "pl" and _POLISH_CASE.search(found.string[: found.start()][-8:]):
            said = re.sub("|".join(_POLISH), lambda day: _polish(day[0], found.string[: found.start()]), said)
        said = said.replace(" t/m ", " tot en met ").replace(" u. ", " und ")
        said = re.sub(r"(?<=[^\W\d_])\s?[–-]\s?(?=[^\W\d_])", to, said)
        if language.locale in ("en", "de", "nl"):  # Sat/Sun
            said = re.sub(r"\s?/\s?", "&", said)
        said = re.sub(r"\s?&\s?", f" {table(language.locale).signs.operators.get('&', '&')} ", said)
        ends = r"\s*$" if language.locale == "de" else r"\s*(?:$|[A-ZÀ-Ý])"
        return said + "." if found[0].endswith(".") and re.match(ends, found.string[found.end() :]) else said

    rows = rf"(?<![\w.]){short}\.?{_JOINTS}{short}(?:{_JOINTS}{short})*(?!\w)\.?(?=\s?[,:;)]|\s|$)"
    one = rf"(?<![\w.])(?P<day>{short})(?:\.,?|,)(?=\s{date})"
    found: list[Reading] = [
        (re.compile(rows.replace(f"{short}(?:", rf"{short}\.?(?:", 1)), row),
        (re.compile(one), lambda match: named(match) + ("," if match[0].endswith(",") else "")),
    ]
    hours = (
        r"\d{1,2}(?:[:.]\d\d)?\s?(?:[ap]m?\s?)?[–-]\s?\d{1,2}(?:[:.]\d\d)?(?:\s?(?:Uhr|uur|u|h|[ap]m?)\b|(?<=:\d\d))"
    )
    hours += r"|(?:bis|ab|tot|vanaf|v\.a\.) \d{1,2}(?:[:.]\d\d)? ?(?:Uhr|uur|u|h)\b"
    hours += r"|\d{1,2}\.[0-5]\d[–-]\d{1,2}\.[0-5]\d(?!\w|\.\d)|\d{1,2}[–-]\d{1,2}(?=[,;]|\.?\s*(?:\n|$)|\.\s[A-Z])"
    hours += r"|\d{1,2}(?::\d\d)?\s?[–-]\s?noon"
    open_on = re.compile(rf"(?:(?<=^)|(?<=[,;:.\n] )|(?<=\n))(?P<day>{short})(?=\s(?:{hours}))")  # Sa 10–14 Uhr
    found.append((open_on, lambda match: days[match["day"]]))
    found += _told(language, short, named)
    found += _spanish_letters(language)
    closed = r"(?:gesloten|gesl\.|dicht|geschlossen|geschl\.|Ruhetag|zu\b|nieczynne|zamknięte)"
    one = rf"(?:(?<=^)|(?<=[,;:\n] )|(?<=\n)|(?<=\ben )|(?<=\bund ))(?P<day>{short})\.?(?=\s{closed})"
    if language.locale in ("de", "nl", "pl"):
        found.append((re.compile(one), lambda match: days[match["day"]]))
    before = {
        "de": r"(?:(?<=\b[Aa]m )|(?<=\bbis )|(?<=\b[Aa]b )|(?<=\bzum )|(?<=\bvom )|(?<=[;,] ))",
        "nl": "(?<=[a-z.,;] )",
    }
    if (at := before.get(language.locale)) is not None:  # am Di. um, steeg di. met
        one = rf"{at}(?P<day>{short})\.(?=\s[a-zäöü\d])"
        found.append((re.compile(one), lambda match: days[match["day"]]))
    if language.locale == "nl":
        one = rf"\b(?P<day>{short})(?=\s\d{{1,2}}[.:]\d\d ?u(?:ur)?\b)"  # ma 14.00 u
        found.append((re.compile(one), lambda match: days[match["day"]]))
        one = rf"\b(?P<day>{short})(?=\s\d{{1,2}}(?:-\d{{1,2}}(?:-\d{{4}})?(?![\d-])|\s(?:{months})))"  # do 14-3
        found.append((re.compile(one), lambda match: days[match["day"]]))
    if language.locale == "en":
        found += _english(language, days, short, months)
    return found
