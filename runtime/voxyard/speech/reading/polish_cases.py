"""Polish numbers in the case that a preposition or a noun tells: dla dwustu osób, w pięciu miastach."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from voxyard.speech.reading.languages import CURRENCIES, UNITS, Language
from voxyard.speech.reading.number_words import cardinal, ordinal
from voxyard.speech.reading.patterns import BLANKS, ELSEWHERE
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import unit_name

Words = Callable[[re.Match[str]], str | None]
Case = Literal["genitive", "locative", "instrumental", "dative"]

_SMALL = {  # genitive, which is the locative too, instrumental, dative
    "zero": ("zera", "zerem", "zeru"), "dwa": ("dwóch", "dwoma", "dwóm"), "dwie": ("dwóch", "dwiema", "dwóm"),
    "trzy": ("trzech", "trzema", "trzem"), "cztery": ("czterech", "czterema", "czterem"),
}  # fmt: skip
_STEMS = {  # stems before -u, -oma and the -o of compounds
    "pięć": "pięci", "sześć": "sześci", "siedem": "siedmi", "osiem": "ośmi", "dziewięć": "dziewięci",
    "dziesięć": "dziesięci", "jedenaście": "jedenast", "dwanaście": "dwunast", "trzynaście": "trzynast",
    "czternaście": "czternast", "piętnaście": "piętnast", "szesnaście": "szesnast", "siedemnaście": "siedemnast",
    "osiemnaście": "osiemnast", "dziewiętnaście": "dziewiętnast", "dwadzieścia": "dwudziest",
    "trzydzieści": "trzydziest", "czterdzieści": "czterdziest", "pięćdziesiąt": "pięćdziesięci",
    "sześćdziesiąt": "sześćdziesięci", "siedemdziesiąt": "siedemdziesięci", "osiemdziesiąt": "osiemdziesięci",
    "dziewięćdziesiąt": "dziewięćdziesięci", "sto": "st", "dwieście": "dwust", "trzysta": "trzyst",
    "czterysta": "czteryst",
}  # fmt: skip
_HUNDREDS = {
    "pięćset": "pięciuset", "sześćset": "sześciuset", "siedemset": "siedmiuset", "osiemset": "ośmiuset",
    "dziewięćset": "dziewięciuset",
}  # fmt: skip
_ENDINGS: dict[Case, tuple[int, str, str, str]] = {  # place in _SMALL, after a stem, of one and of more thousands
    "genitive": (0, "u", "a", ""),
    "locative": (0, "u", "u", "ach"),
    "instrumental": (1, "oma", "em", "ami"),
    "dative": (2, "u", "owi", "om"),
}
_LARGE = {"tysiąc": "tysięcy", "milion": "milionów", "miliard": "miliardów"}
_COMPOUND = {"jeden": "jedno", "dwa": "dwu", "trzy": "trzy", "cztery": "cztero", "sto": "stu", "tysiąc": "tysiąc"}
_DESCRIBED = (
    "letni|lat[ek]|lecie|lecia|osobow|pokojow|procentow|godzinn|metrow|kilometrow|miesięczn|minutow|sekundow|dniow|"
    "tygodniow|piętrow|krotn|stopniow|tomow|stronicow|stronnic|częściow|klasow|drzwiow|elementow|calow|litrow|gramow|"
    "punktow|złotow|tysięczn|milionow|kołow|bitow|strunow|cylindrow|setow|wieczn|biegow|rundow|akrow|hektarow"
)
_PERSONAL = (  # men: pięciu policjantów
    r"\w*(?:antów|entów|istów|[iy]ków(?<!tyków)(?<!zyków)|ańców|żołnierzy|nauczycieli|piłkarzy|lekarzy|"
    r"kierowców|chłopców|mężczyzn|ludzi|uczniów|synów|braci|panów|posłów|senatorów|autorów|aktorów|zawodników|graczy|"
    r"sędziów|Polaków|Niemców|Rosjan|widzów|kibiców|obywateli|rodziców|klientów|kolegów|przyjaciół|członków|świadków)"
)
_NO_PERSONS = (
    r"(?!\w*(?:procent|moment|dokument|element|fragment|argument|instrument|diament|wariant|kwant|brylant|list)ów)"
)
_GENITIVE = "do od dla bez u około spośród wśród powyżej poniżej oprócz blisko koło z ze podczas ok. ciągu wobec"
GENITIVE_BEFORE = re.compile(rf"\b(?:{'|'.join(re.escape(each) for each in _GENITIVE.split())})\s$", re.IGNORECASE)
"""A preposition of the genitive."""
_STOPPED = r"(?![\w/²³]|[.,:\-–]\d|-\w|\.\s[a-ząćęłńóśźż])"
_WHOLE = (
    rf"(?=\d)(?<![\w.,:/–-])(?<!\d )(?P<n>\d{{1,3}}(?:[{BLANKS}.]\d{{3}})+|\d{{1,6}})(?![\d/]|[.,:\-–]\d|[{BLANKS}]\d)"
)


def in_case(words: str, case: Case) -> str:
    """The words of a cardinal in a case: dwustu pięciu."""
    small, ending, one, more = _ENDINGS[case]
    found = []
    for word in words.split():
        large = next((each for each in _LARGE if word == each or word.startswith(each[:4])), None)
        if word in _SMALL:
            found.append(_SMALL[word][small])
        elif word in _STEMS:
            found.append(_STEMS[word] + ending)
        elif large is not None and word == large:
            found.append(large + "ie" if large == "milion" and case == "locative" else large + one)
        elif large is not None:
            found.append(large + more if more else _LARGE[large])
        else:
            found.append(_HUNDREDS.get(word, word))
    return " ".join(found)


def compound(number: int, language: Language) -> str:
    """The number as the beginning of an adjective: dwudziestojedno-."""
    words = cardinal(str(number), language).split()
    return "".join(_COMPOUND.get(each) or (_STEMS[each] + "o" if each in _STEMS else each) for each in words)


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of numbers whose case is known, of hours after their noun and of strokes, with their words."""

    def said(found: re.Match[str], case: Case) -> str:
        return in_case(cardinal(_digits(found), language), case)

    units = {**UNITS, **language.units, **table("pl").units}
    named = {sign: forms for sign, unit in units.items() if (forms := _unit(unit, language))} | _money(language)
    scales = {"tys.": "tysiąc", "mln": "milion", "mld": "miliard"}
    signs = "|".join(re.escape(each) for each in sorted(named, key=len, reverse=True))
    per = "|".join(re.escape(each) for each in sorted(table("pl").per, key=len, reverse=True))
    long = "|".join(
        re.escape(each)
        for each in sorted(units, key=len, reverse=True)
        if len(each) > 1 and each != "min" and each in named
    )
    before = "|".join(
        rf"(?<=\b{re.escape(each)} )|(?<=\b{each[0].upper()}{re.escape(each[1:])} )" for each in _GENITIVE.split()
    )

    def genitive(found: re.Match[str]) -> str | None:
        one = _digits(found) == "1"
        if re.match(r"\s(?:r\.|roku\b|w\.|wiek)", found.string[found.end() :]):
            return ELSEWHERE
        scale = f" {scales[found['scale']]}{'a' if one else ''}" if found["scale"] else ""
        if scale and not one:
            scale = f" {_LARGE[scales[found['scale']]]}"
        unit = ""
        if found["unit"]:
            singular, plural = named[found["unit"]]
            unit = f" {singular if one and not scale else plural}"
            unit += f" {table('pl').per[found['per']]}" if found["per"] else ""
        if not one or scale:
            return ("" if one else said(found, "genitive")) + scale.removeprefix(" " * one) + unit
        noun = unit.strip() or _word(found)
        number = _one(noun, "genitive")
        return ELSEWHERE if number is None else number + unit

    def by_noun(found: re.Match[str]) -> str:
        noun = found["noun"]
        case: Case = "locative" if noun.endswith("ach") else "dative" if noun.endswith("om") else "instrumental"
        feminine = "dwie" if case == "instrumental" and noun.removesuffix("ami") + "y" in table("pl").feminine else ""
        words = said(found, case)
        return words.removesuffix("dwoma") + "dwiema" if feminine and words.endswith("dwoma") else words

    adjectives = r"(?:[^\W\d_]+(?:ych|ymi|ich|imi|ym|im)\s){0,2}"
    return [
        (
            re.compile(rf"(?<![\w.,/-])(?P<n>\d{{1,3}})[-‑–](?=(?:{_DESCRIBED}))"),
            lambda found: compound(int(found["n"]), language),
        ),
        (
            re.compile(r"(?<=\b[Dd]o )[-−–](?P<n>\d{1,3})\s?°(?P<scale>\s?[CF])?(?![\w])"),
            lambda found: f"minus {said(found, 'genitive')} {_degrees(found)}",
        ),
        (  # do 45,50 zł
            re.compile(
                rf"(?=\d)(?:{before})(?<![\w.,])(?P<n>\d{{1,3}}(?:[{BLANKS}.]\d{{3}})*),(?P<cents>\d\d)\s?zł(?![\w/])"
            ),
            lambda found: _price(found, language),
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
        (
            re.compile(rf"(?=\d)(?:{before})(?P<first>\d{{1,3}})[–-](?P<n>\d{{1,3}})(?=\s[^\W\d_]{{4,}})"),
            lambda found: f"{in_case(cardinal(found['first'], language), 'genitive')} – {said(found, 'genitive')}",
        ),
        (
            re.compile(r"(?<![\w.,/–-])(?P<first>\d{1,3})[–-](?P<n>\d{1,3})(?=\s[^\W\d_]{3,}ach\b)"),
            lambda found: f"{in_case(cardinal(found['first'], language), 'locative')} – {said(found, 'locative')}",
        ),
        (
            re.compile(rf"(?:(?<=tys\. )|(?<=mln )|(?<=mld ))(?P<unit>{long})(?![\w/²³])"),
            lambda found: named[found["unit"]][1],
        ),
        (
            re.compile(rf"(?<=\b[Zz]a )(?P<unit>{long})(?![\w/²³])"),
            lambda found: re.sub(r"a$", "ę", unit_name(language, units[found["unit"]], 1) or found["unit"]),
        ),
        (re.compile(r"(?<=mi i )1(?=\s[^\W\d_]+em\b)"), lambda _: "jednym"),
        (
            re.compile(
                r"1(?<![\w.,/–-]1)(?=\s(?!\w*(?:bardzo|tylko|około|albo|prawie))[^\W\d_]{2,}(?:[nkwtł]o|enie|anie|cie)\b)"
            ),
            lambda _: "jedno",
        ),
        (re.compile(_CLOCK), lambda found: _hours(found, language)),
        (
            re.compile(
                r"(?<![\w.,/:-])(?P<a>\d{1,5})(?P<letter>[a-zA-Z]?)/(?P<b>\d{1,5})(?P<flat>[a-zA-Z]?)(?![\w/%]|[.,]\d)"
            ),
            lambda found: _stroke(found, language),
        ),
        (
            re.compile(
                rf"{_WHOLE}(?=\s{adjectives}"
                r"(?P<noun>(?!dach\b|razach\b)[^\W\d_]{2,}(?:ach|ami|mi|om)|laty)\b)"
            ),
            by_noun,
        ),
        (
            re.compile(rf"(?<=\bprzed ){_WHOLE}\s(?P<scale>tys\.|mln|mld)(?=\s[a-z])"),
            lambda found: f"{said(found, 'instrumental')} {scales[found['scale']]}ami",
        ),
        (re.compile(r"1(?<![\w.,/-]1)(?=\s[^\W\d_]{2,}ę\b)"), lambda _: "jedną"),
        (
            re.compile(rf"(?<=\b[Ww] ){_WHOLE}\s?(?P<unit>°\s?C|°|stopni)(?![\w])"),
            lambda found: f"{said(found, 'locative')} stopniach{' Celsjusza' * found['unit'].endswith('C')}",
        ),
        (
            re.compile(r"(?:(?<=\b[wW] )|(?<=\bna )|(?<=\bpo )|(?<=\bprzy ))1(?=\s(?P<noun>[^\W\d_]{3,}))"),
            lambda found: _one(found["noun"], "locative") or ELSEWHERE,
        ),
        (
            re.compile(r"(?:(?<=\b[zZ] )|(?<=\bprzed ))(?P<n>1)(?=\s(?P<noun>[^\W\d_]{2,}(?:em|ą)\b))"),
            lambda found: _one(found["noun"], "instrumental"),
        ),
        (
            re.compile(rf"{_WHOLE}(?=\s(?:[^\W\d_]+(?:ych|ich)\s)?{_NO_PERSONS}{_PERSONAL}\b)"),
            lambda found: ELSEWHERE if _digits(found) == "1" else said(found, "genitive"),
        ),
        (
            re.compile(
                rf"(?=\d)(?:{before}){_WHOLE}(?:\s?(?P<scale>tys\.|mln|mld)(?!\w))?"
                rf"(?:\s?(?P<unit>{signs})(?:/(?P<per>{per})(?!\w)|(?![\w/²³·])))?{_STOPPED}(?!\s?(?:[½¼¾]|(?:{signs})/))"
            ),
            genitive,
        ),
    ]


def _degrees(found: re.Match[str]) -> str:
    scale = {"C": " Celsjusza", "F": " Fahrenheita", "": ""}[(found["scale"] or "").strip()]
    return f"{'stopnia' if found['n'] == '1' else 'stopni'}{scale}"


def _price(found: re.Match[str], language: Language) -> str:
    """Do czterdziestu pięciu złotych pięćdziesięciu groszy."""
    counts = ((_digits(found), "złotego", "złotych"), (str(int(found["cents"])), "grosza", "groszy"))
    return " ".join(
        f"jednego {one}" if count == "1" else f"{in_case(cardinal(count, language), 'genitive')} {more}"
        for count, one, more in counts
        if count != "0"
    )


def _digits(found: re.Match[str]) -> str:
    return re.sub(r"\D", "", found["n"])


def _word(found: re.Match[str]) -> str:
    word = re.match(r"\s([^\W\d_]+)", found.string[found.end() : found.end() + 40])
    return word[1] if word else ""


def _one(noun: str, case: Case) -> str | None:
    """Jednego dnia, jednej osoby, jednym psem; None where the noun's ending does not tell its gender."""
    if case == "instrumental":
        return "jedną" if noun.endswith("ą") else "jednym" if noun.endswith("em") else None
    if case == "genitive":
        return (
            "jednego" if noun.endswith(("a", "u", "ego", "euro")) else "jednej" if noun.endswith(("y", "i")) else None
        )
    return (
        "jednej"
        if noun.endswith(("ce", "dze", "ej", "minucie", "godzinie", "osobie", "stronie"))
        else "jednym"
        if noun.endswith("u")
        else None
    )


def _unit(unit: str, language: Language) -> tuple[str, str] | None:
    """The genitive of one unit and of more, which are the forms of a half and of five."""
    plural = unit_name(language, unit, 5)
    half = unit_name(language, unit, 0.5)  # type: ignore[arg-type]
    return None if plural is None or half is None else (half, plural)


def _money(language: Language) -> dict[str, tuple[str, str]]:
    from babel.numbers import get_currency_name

    found = {}
    for sign, code in CURRENCIES.items():
        pattern, replacement = language.names.get(code, ("", ""))
        forms = [get_currency_name(code, count=count, locale="pl") for count in (0.5, 5)]
        singular, plural = (re.sub(pattern, replacement, each) if pattern else each for each in forms)
        found[sign] = (singular, plural)
    return found


_TIME = r"(?P<h{0}>[01]?\d|2[0-4])(?:[.:](?P<m{0}>[0-5]\d))?"
_CLOCK = (
    r"(?:(?<!\w)(?P<at>(?:[Oo]|[Dd]o|[Oo]d|[Pp]o|[Mm]iędzy|[Oo]k\.|[Oo]koło|[Nn]a|[Pp]rzed|[Ww])\s)|(?<!\d )(?<!\w))"
    rf"godz(?:\.|in[aęy]|inie|iną|inach)\s?{_TIME.format('')}(?:\s?[–-]\s?{_TIME.format(2)})?(?![\w:]|[.,]\d)"
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


def _hours(found: re.Match[str], language: Language) -> str:
    """O godzinie szóstej czterdzieści pięć, na godzinę dziesiątą, w godzinach od ósmej do szesnastej."""
    at = found["at"] or ""
    at = at.replace("k.", "koło")
    preposition = at.strip().lower()
    noun = _NOUN_OF_HOUR.get(preposition, "godziny")
    if found["h2"]:
        noun = "godziny" if preposition != "w" else noun
        first, last = (_hour(found[h], found[m], "ej", language) for h, m in (("h", "m"), ("h2", "m2")))
        return f"{at}{noun} od {first} do {last}"
    ending = {"": "a", "na": "ą", "przed": "ą", "między": "ą"}.get(preposition, "ej")
    return f"{at}{noun} {_hour(found['h'], found['m'], ending, language)}"


def _hour(hour: str, minute: str | None, ending: str, language: Language) -> str:
    words = ordinal(int(hour), language) if int(hour) else "zerowy"
    said = (
        re.sub(r"([yi])\b", lambda found: ("i" if found[1] == "i" else "") + ending, words)
        .replace("gia", "ga")
        .replace("gią", "gą")
    )
    return said + (f" {cardinal(minute, language)}" if minute and int(minute) else "")


_STREET = re.compile(r"\b(?:ul\.|al\.|pl\.|os\.|ulic\w+|alei|placu)\s[^\d\n,;]{2,40}\s$")


def _stroke(found: re.Match[str], language: Language) -> str | None:
    """Faktura sto osiemdziesiąt siedem łamane przez dwa tysiące dwadzieścia cztery; a flat after its house."""
    if re.search(r"\bciśnieni[eau]m?\s(?:krwi\s)?$", found.string[: found.start()][-24:]):
        return f"{cardinal(found['a'], language)} na {cardinal(found['b'], language)}"
    year = re.fullmatch(r"(?:19|20)\d\d", found["b"]) is not None and len(found["a"]) < 4
    after = found.string[found.end() : found.end() + 9]
    flat = _STREET.search(found.string[max(0, found.start() - 60) : found.start()]) or re.match(
        r",\s\d\d-\d{3}\b", after
    )
    if not (year or flat):
        return ELSEWHERE
    first, second = (
        cardinal(found[number], language) + (f" {found[letter]}" if found[letter] else "")
        for number, letter in (("a", "letter"), ("b", "flat"))
    )
    return f"{first} łamane przez {second}"
