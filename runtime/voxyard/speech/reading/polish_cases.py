"""Polish numbers in the case that a preposition or a noun tells: dla dwustu osób, w pięciu miastach."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from voxyard.speech.reading import polish_hours
from voxyard.speech.reading.languages import CURRENCIES, UNITS, Language
from voxyard.speech.reading.number_words import cardinal
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
_NO_PERSONS = (
    r"(?!(?:\bcent|\w*(?:procent|moment|dokument|element|fragment|argument|instrument|diament|wariant|kwant|brylant|list))"
    r"ów)"
)
_GENITIVE = (
    "do od dla bez u około spośród wśród powyżej poniżej oprócz blisko koło z ze podczas ok. ciągu wobec zamiast"
)
GENITIVE_BEFORE = re.compile(rf"\b(?:{'|'.join(re.escape(each) for each in _GENITIVE.split())})\s$", re.IGNORECASE)
"""A preposition of the genitive."""
_STOPPED = r"(?![\w/²³]|[.,:\-–]\d|-\w|\.\s[a-ząćęłńóśźż]|\s?[×·*]\s?\d)"
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
    named |= {short: (forms[3], forms[2]) for short, forms in table("pl").counted.items()}
    scales = {"tys.": "tysiąc", "mln": "milion", "mld": "miliard"}
    signs = "|".join(re.escape(each) for each in sorted(named, key=len, reverse=True))
    per = "|".join(re.escape(each) for each in sorted(table("pl").per, key=len, reverse=True))
    long = "|".join(
        re.escape(each)
        for each in sorted(units, key=len, reverse=True)
        if len(each) > 1 and each != "min" and each in named
    )
    shorts = "|".join(re.escape(each) for each in sorted(table("pl").counted, key=len, reverse=True))
    before, before_quantity = (
        "|".join(rf"(?<=\b{re.escape(each)} )|(?<=\b{each[0].upper()}{re.escape(each[1:])} )" for each in words)
        for words in (_GENITIVE.split(), table("pl").genitive)
    )
    quantity = (
        rf"(?=\d+(?:[{BLANKS}]\d{{3}})*(?:,\d+)?\s?(?:{signs}|tys\.|mln|mld|"
        r"(?!jest|był|i|z|w|na|do|od|nad|pod|przez|jak|lub|oraz|więc|został)[a-ząćęłńóśźż]+(?:[^\W\d_aeouyąęó]|ich|ych))(?!\w))"
    )
    before = rf"(?<!graniczenie prędkości )(?<=[\w.] )(?:{before}|(?:{before_quantity}){quantity})"

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
            unit += _rate(found)
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

    men = r"(?:\w*(?:antów|entów|istów|[iy]ków(?<!tyków)(?<!zyków)|ańców)|(?:współ|wice|arcy|eks)?(?:"
    men += "|".join(table("pl").persons) + "))"
    adjectives = r"(?:[^\W\d_]+(?:ych|ymi|ich|imi|ym|im)\s){0,2}"

    def tenths(found: re.Match[str]) -> str:
        scale = f" {scales[found['scale']]}a" if found["scale"] else ""
        unit = ""
        if found["unit"]:
            unit = f" {named[found['unit']][bool(scale)]}{_rate(found)}"
        return _tenths(found["n"], found["part"], language) + scale + unit

    return [
        (  # do 4,7%, od 3,5 mln zł
            re.compile(
                rf"(?=\d)(?:{before}|(?<=\b[Pp]rzy ))(?<![\w.,])(?P<n>\d{{1,4}}),(?P<part>\d{{1,3}})"
                rf"(?!\s?zł\b(?<=,\d\d zł))(?:\s?(?P<scale>tys\.|mln|mld)(?!\w))?"
                rf"(?:\s?(?P<unit>{signs})(?:/(?P<per>{per})(?!\w)|(?![\w/²³·])))?{_STOPPED}"
            ),
            tenths,
        ),
        *polish_hours.patterns(language),
        (  # a score or a scale, 2:1
            re.compile(
                r"(?<![\w.,:/–-])(?P<a>\d{1,3}):(?P<b>\d|[6-9]\d|\d\d(?<=[2-9]\d:\d\d)"
                r"(?:(?<=:\d\d, \d\d:\d\d)|(?=, \d\d:\d\d))|\d{3}|\d{1,3}(?:[ .]000)+)(?![\w:/]|[.,–-]\d)"
            ),
            lambda found: (
                f"{cardinal(found['a'], language)} do "
                + in_case(cardinal(re.sub(r"\D", "", found["b"]), language), "genitive").replace("jeden", "jednego")
            ),
        ),
        (
            re.compile(rf"(?<![\w.,/-])(?P<n>\d{{1,3}})[-‑–](?=(?:{_DESCRIBED}))"),
            lambda found: compound(int(found["n"]), language),
        ),
        (
            re.compile(
                r"(?=[-−–]\d)(?:(?<=\b[Dd]o )|(?<=\b[Oo]d )|(?<=poniżej )|(?<=powyżej )|(?<=około ))[-−–](?P<n>\d{1,3})"
                r"(?:\s?(?P<unit>°|st\.)(?P<scale>\s?[CF])?)?(?![\w°]|[.,]\d)"
            ),
            lambda found: (
                f"minus {said(found, 'genitive') if found['n'] != '1' else 'jednego'}"
                + (f" {_degrees(found)}" if found["unit"] else "")
            ),
        ),
        (  # do 45,50 zł
            re.compile(
                rf"(?=\d)(?:{before})(?<![\w.,])(?P<n>\d{{1,3}}(?:[{BLANKS}.]\d{{3}})*),(?P<cents>\d\d)\s?zł(?![\w/])"
            ),
            lambda found: _price(found, language),
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
            re.compile(rf"(?:(?<=tys\. )|(?<=mln )|(?<=mld ))(?P<unit>{long}|{shorts})(?![\w/²³])"),
            lambda found: named[found["unit"]][1],
        ),
        (
            re.compile(rf"(?<=\b[Zz]a )(?P<unit>{long})(?![\w/²³])"),
            lambda found: re.sub(r"a$", "ę", unit_name(language, units[found["unit"]], 1) or found["unit"]),
        ),
        (  # w 100 ml wody
            re.compile(r"(?<=\b[Ww] )(?P<n>\d{1,4})\s?(?P<unit>ml|l|dl|g|kg)(?![\w/²³])"),
            lambda found: (
                f"{said(found, 'locative')} {(unit_name(language, units[found['unit']], 2) or '')[:-1]}ach"
                if found["n"] != "1"
                else ELSEWHERE
            ),
        ),
        (  # do lat 7
            re.compile(r"(?=\d)(?:(?<=\b[Dd]o lat )|(?<=\b[Oo]d lat ))(?P<n>\d{1,2})(?![\w,]|\.\d)"),
            lambda found: said(found, "genitive"),
        ),
        (  # w 8 na 10 przypadków
            re.compile(r"(?<=\b[Ww] )(?P<n>\d{1,3})(?=\s(?:na|z)\s\d)"),
            lambda found: said(found, "locative"),
        ),
        (  # dwóch ostatnich odcinków, for nothing but a genitive ends so after 2, 3 and 4
            re.compile(
                r"(?<![\w.,:/–-])(?<!\d )(?P<n>(?:\d{0,5}[02-9])?[234])(?=\s(?:[^\W\d_]+(?:ych|ich)\s){0,2}"
                r"(?:[^\W\d_]{2,}(?:ów|ych|ich)|miesięcy|tygodni|godzin|minut|sekund|osób|kobiet|lat)\b)"
            ),
            lambda found: said(found, "genitive"),
        ),
        (re.compile(r"1(?<![\w.,/–-]1)(?=\s[^\W\d_]{3,}(?:[^aeiouyąę]y|[kg]i|ji|ści)\b)"), lambda _: "jednej"),
        (  # dwoje dzieci
            re.compile(
                rf"(?<![\w.,:/–-])(?<!\d )(?P<n>\d{{1,3}}(?:[{BLANKS}]\d{{3}})*)"
                r"(?=\s(?:[^\W\d_]+(?:ych|ich)\s)?dzieci\b)"
            ),
            lambda found: _children(found, language),
        ),
        (re.compile(r"(?<=mi i )1(?=\s[^\W\d_]+em\b)"), lambda _: "jednym"),
        (re.compile(r"1(?<![\w.,/–-]1)(?=\s[a-ząćęłńóśźż]{2,}[yi]m\b)"), lambda _: "jednym"),
        (  # mam 1 psa
            re.compile(
                r"1(?<![\w.,/–-]1)(?=\s(?:[a-ząćęłńóśźż]+ego\s)?(?:psa|kota|konia|brata|syna|ucznia|chłopca|człowieka|gola|"
                r"\w+(?:owca|iela|arza|acza|anta|enta|ownika|odnika|tnika))\b)"
            ),
            lambda _: "jednego",
        ),
        (  # przy 3 przeciw
            re.compile(rf"(?<=\b[Pp]rzy )(?!1\b){_WHOLE}(?=\s(?:przeciw|wstrzymując|za)\w*\b)"),
            lambda found: said(found, "locative"),
        ),
        (  # w 1 punkcie, przy 1 głosie; na 1 zdjęcie is an accusative
            re.compile(
                r"(?=1\s)(?:(?<=\b[wW] )|(?<=\b[pP]rzy )|(?:(?<=\b[nN]a )|(?<=\b[pP]o )|(?<=\b[oO] ))"
                r"(?!1\s\w*(?:[ęy]cie|anie|enie)\b))1(?=\s(?P<noun>[^\W\d_]{3,}))(?!\s\w+(?:[ęąo]|ię)\b)"
            ),
            lambda found: _one(found["noun"], "locative") or ELSEWHERE,
        ),
        (
            re.compile(
                r"1(?<![\w.,/–-]1)(?=\s(?!\w*(?:bardzo|tylko|około|albo|prawie))[^\W\d_]+(?:[nkwtł]o|enie|anie|cie)\b)"
            ),
            lambda _: "jedno",
        ),
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
        (re.compile(r"1(?<![\w.,/-]1)(?=\s[^\W\d_]{2,}[ęą]\b)"), lambda _: "jedną"),
        (
            re.compile(rf"(?<=\b[Ww] ){_WHOLE}\s?(?P<unit>°\s?C|°|stopni|st\.\s?C)(?![\w])"),
            lambda found: f"{said(found, 'locative')} stopniach{' Celsjusza' * found['unit'].endswith('C')}",
        ),
        (
            re.compile(r"(?:(?<=\b[zZ] )|(?<=\bprzed ))(?P<n>1)(?=\s(?P<noun>[^\W\d_]{2,}(?:em|ą)\b))"),
            lambda found: _one(found["noun"], "instrumental"),
        ),
        (
            re.compile(rf"{_WHOLE}(?=\s(?:[^\W\d_]+(?:ych|ich)\s)?{_NO_PERSONS}{men}\b)"),
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


_PARTS = {1: ("dziesiątej", "dziesiątych"), 2: ("setnej", "setnych"), 3: ("tysięcznej", "tysięcznych")}


def _tenths(whole: str, part: str, language: Language) -> str:
    """The genitive: czterech i siedmiu dziesiątych, dwóch i pół, pięciu dziesiątych."""
    count = str(int(part))
    said = "" if int(whole) == 0 else "jednej" if whole == "1" else in_case(cardinal(whole, language), "genitive")
    if count == "0":
        return said or "zera"
    if part == "5" and said:
        return "półtora" if whole == "1" else f"{said} i pół"
    number = "jednej" if count == "1" else in_case(cardinal(count, language), "genitive")
    return f"{said}{' i ' * bool(said)}{number} {_PARTS[len(part)][count != '1']}"


def _rate(found: re.Match[str]) -> str:
    """Za kilogram, of a price, and na kilogram, of a quantity."""
    if not found["per"]:
        return ""
    words = table("pl").per[found["per"]]
    return f" {words if found['unit'] in CURRENCIES else words.replace('za ', 'na ', 1)}"


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


def _children(found: re.Match[str], language: Language) -> str:
    """Dwoje dzieci, pięcioro dzieci; dla dwojga dzieci."""
    number = int(_digits(found))
    rest, last = (0, 10) if number == 10 else (number - number % 10, number % 10)
    if last < 2 or number % 100 in range(11, 20) or (rest and last > 4):
        return ELSEWHERE
    word = {2: "dwoje", 3: "troje", 4: "czworo"}.get(last) or _STEMS[cardinal(str(last), language)] + "oro"
    if rest:
        return f"{cardinal(str(rest), language)} {word}"
    genitive = GENITIVE_BEFORE.search(found.string[max(0, found.start() - 20) : found.start()])
    return f"{word[:-1]}ga" if genitive else word


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
    if noun.endswith(("u", "ym", "im")):
        return "jednym"
    if not noun.endswith("e"):
        return "jednej" if noun.endswith(("ej", "i", "y")) else None
    gender = table("pl").gender(_plural(noun))
    feminine = noun.endswith(("ce", "dze", "inie", "ynie")) if gender is None else gender == "feminine"
    return "jednej" if feminine else "jednym"


_HARD = (
    ("ście", "sty"), ("cie", "ty"), ("ździe", "zdy"), ("dzie", "dy"), ("śle", "sły"), ("le", "ły"), ("rze", "ry"),
    ("śnie", "sny"), ("ie", "y"),
)  # fmt: skip


def _plural(locative: str) -> str:
    """Osoby of osobie, punkty of punkcie."""
    return next((locative.removesuffix(soft) + hard for soft, hard in _HARD if locative.endswith(soft)), "")


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


_STREET = re.compile(r"\b(?:ul\.|al\.|pl\.|os\.|ulic\w+|alei|placu)\s(?:\d{1,2}\s[A-ZŁŚŻ])?[^\d\n,;]{2,40}\s$")


def _stroke(found: re.Match[str], language: Language) -> str | None:
    """Faktura sto osiemdziesiąt siedem łamane przez dwa tysiące dwadzieścia cztery; a flat after its house."""
    if re.search(r"\bciśnieni[eau]m?\s(?:krwi\s)?$", found.string[: found.start()][-24:]):
        return f"{cardinal(found['a'], language)} na {cardinal(found['b'], language)}"
    year = re.fullmatch(r"(?:19|20)\d\d", found["b"]) is not None
    season = re.search(r"\b(?:[Rr]oku? szkoln\w+|[Ss]ezon\w*|akademick\w+)\s$", found.string[: found.start()][-20:])
    year = (year and len(found["a"]) < 4) or season is not None
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
