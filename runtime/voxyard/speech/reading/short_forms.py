"""Short forms of one language that their sentence tells apart: 12 Elm Dr., Brown v. Board, S. 45 f., D. Juan."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import polish_short, streets
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_DONA = re.compile(r"(?<![\w.])D\.(?=\s(?:[A-ZÁÂÉÍÓÚ][a-zà-ÿ]+a(?<!Garcia)(?<!Gama)|Inês|Leonor|Beatriz|Isabel)(?!\w))")
_FLOORS = {"OG": "Obergeschoss", "UG": "Untergeschoss", "EG": "Erdgeschoss", "DG": "Dachgeschoss"}


_NUMBERED = "|".join(
    rf"(?<=\b{first}{rest} )"
    for first, rest in (
        *(("[Bb]", "us"), ("[Tt]", "rain"), ("[Ll]", "ine"), ("[Ff]", "light"), ("[Pp]", "age"), ("[Rr]", "oom")),
        *(
            ("[Oo]", "rder"),
            ("[Ii]", "nvoice"),
            ("[Hh]", "ouse"),
            ("[Aa]", "ccount"),
            ("[Tt]", "icket"),
            ("[Cc]", "ase"),
        ),
        *(("[Rr]", "oute"), ("[Pp]", "hone"), ("[Ss]", "erial"), ("[Mm]", "odel"), ("[Pp]", "art"), ("[Ii]", "tem")),
    )
)


_STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California", "Colo": "Colorado",
    "Conn": "Connecticut", "Del": "Delaware", "Fla": "Florida", "Ga": "Georgia", "Ill": "Illinois", "Ind": "Indiana",
    "Kan": "Kansas", "Ky": "Kentucky", "La": "Louisiana", "Mass": "Massachusetts", "Md": "Maryland",
    "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi", "Mo": "Missouri", "Mont": "Montana",
    "Neb": "Nebraska", "Nev": "Nevada", "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Va": "Virginia", "Vt": "Vermont", "Wash": "Washington", "Wis": "Wisconsin",
    "Wyo": "Wyoming",
}  # fmt: skip
_STATE = re.compile(
    rf"(?:(?<=[a-z], )|(?<=\([RDI]-))(?:{'|'.join(_STATES)})\.(?=[,;)]|\s|$)"
)  # Ames, Iowa; St. Louis, Mo.


def _state(found: re.Match[str]) -> str:
    """The state, with the full stop where the sentence ends."""
    return _STATES[found[0][:-1]] + _full_stop(found)


def _day(found: re.Match[str]) -> str:
    """On Tues., with the full stop where the sentence ends."""
    return table("en").days[found[0][:-1]] + _full_stop(found)


_LIVES = {"b.": "born", "d.": "died", "fl.": "flourished", "r.": "reigned", "est.": "established"}
_LIFE = r"(?:(?<=\()|(?<=\d[,;] )|(?<=[a-z], ))(?:b|d|fl|r|est)\."  # (b. 1942), c. 1340, d. 1400


def _full_stop(found: re.Match[str]) -> str:
    """The full stop of an abbreviation where its sentence ends."""
    after = found.string[found.end() : found.end() + 40].lstrip()
    return "." * (found[0].endswith(".") and (not after or after[0].isupper()))


def _drive(found: re.Match[str]) -> str:
    """123 Elm Dr., on Elm Dr., near the school, which are no doctors."""
    before = found.string[max(0, found.start() - 40) : found.start()]
    number = r"\d[A-Z]? " if found["starter"] else ""  # At 5 Elm Dr. Then he left, but Monday Dr. Bell came
    street = re.search(rf"{number}(?:[NSEW]\.? )?(?:[A-Z][a-z'’]+ ){{1,3}}$", before)
    if street is None or (found["starter"] and found["starter"] not in table("en").starters):
        return ELSEWHERE
    return "Drive" + _full_stop(found)


_GREY = re.compile(
    r"\s(?:photo|film|image|picture|print|tv|television|illustration|drawing|scan|cop(?:y|ies)|movie|negative|version)|"
    r"\s?[.,;:!?)]|\s?$",
    re.IGNORECASE,
)


def _between_or_grey(found: re.Match[str]) -> str:
    """The road b/w Delhi and Agra; a b/w photo."""
    words = "black and white" if _GREY.match(found.string, found.end()) else "between"
    return words.capitalize() if found[0][0] == "B" else words


def _years(found: re.Match[str]) -> str:
    """Ab 18 J., vor 35 J., 18 J. alt, zu 3 J. und 6 Mon."""
    before = re.sub(r"\d+ J\. und (?=\d)", "", found.string[max(0, found.start() - 20) : found.start()])
    dative = re.search(
        r"\b(?:ab|vor|mit|nach|seit|unter|über|von|von \d+ bis|bis zu|zu|in)\s(?:\d+\s?[–-]\s?)?\d+\s$",
        before,
        re.IGNORECASE,
    )
    return f"{'Jahre' if found[0] == 'J.' else 'Monate'}{'n' * bool(dative)}{_full_stop(found)}"


def _code_of_law(found: re.Match[str]) -> str:
    """Art. 2043 c.c., which are no cubic centimetres there."""
    if re.search(r"\bartt?\.\s[\d\s,e-]{1,20}$", found.string[max(0, found.start() - 30) : found.start()]) is None:
        return ELSEWHERE
    return f"codice {'civile' if found[0][-2] == 'c' else 'penale'}{_full_stop(found)}"


_WINDS = {  # words before a wind's direction, between two of its words, and its words where they are one
    "fr": (
        (
            "ent d['’]",
            "ents d['’]",
            "ent de ",
            "ents de ",
            "ent du ",
            "ents du ",
            "ent ",
            "ents ",
            "km/h de ",
            "km/h du ",
        ),
        "-",
        {},
    ),
    "en": (("[Ww]ind ", "[Ww]inds ", "[Ww]ind: ", "[Ww]inds: "), "", {}),
    "de": (
        ("Wind ", "Wind: "),
        "",
        {"NO": "Nordost", "NW": "Nordwest", "SO": "Südost", "SW": "Südwest"},
    ),
    "nl": (("[Ww]ind ", "[Ww]ind: "), "", {}),
    "es": (
        ("iento del ", "ientos del ", "iento de ", "iento ", "ientos ", "km/h del ", "mar del "),
        "",
        {"NE": "noreste", "NO": "noroeste", "SE": "sureste", "SO": "suroeste"},
    ),
    "it": (("ento da ", "enti da ", "ento di ", "enti di ", "ento ", "enti ", "km/h da "), "-", {}),
    "pt": (
        ("ento de ", "entos de ", "ento ", "entos ", "km/h de ", "mar de "),
        "",
        {"NE": "nordeste", "NO": "noroeste", "NW": "noroeste", "SE": "sudeste", "SO": "sudoeste", "SW": "sudoeste"},
    ),
}


def _cups(found: re.Match[str]) -> str:
    """2½ c. flour, ¾ c. butter."""
    return "cups" if found.string[max(0, found.start() - 3) : found.start() - 2].isdigit() else "cup"


def _after_time(found: re.Match[str]) -> str:
    """2:1 n. V., but a visit n. V."""
    score = re.search(r"\d:\d", found.string[max(0, found.start() - 40) : found.start()])
    return f"nach {'Verlängerung' if score else 'Vereinbarung'}{_full_stop(found)}"


def _winds(code: str) -> Reading:
    """Vent de N-O, viento del SE: where a wind comes from."""
    before, joint, known = _WINDS[code]
    poles = {"O": table(code).signs.poles["W"], **table(code).signs.poles}
    pattern = rf"(?=[NSZEOW])(?:{'|'.join(rf'(?<={each})' for each in before)})[NSZ]?[ -]?[NSZEOW](?![\w-]|\.\w)"

    def words(found: re.Match[str]) -> str:
        letters = re.sub("[ -]", "", found[0])
        return known.get(letters) or joint.join(poles[each] for each in letters)

    return re.compile(pattern), words


_TIMETABLES = {
    "fr": {"dép.": "départ", "arr.": "arrivée"},
    "es": {"sal.": "salida", "lleg.": "llegada"},
    "it": {"part.": "partenza", "arr.": "arrivo"},
    "pt": {"part.": "partida", "cheg.": "chegada"},
}


def _timetable(code: str) -> Reading:
    """Dép. 7h42, arr. 8h05: what stands before a time, and no 13e arr."""
    short = _TIMETABLES[code]
    pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, short))})(?=\s\d{{1,2}}(?:\s?h|[:.]\d\d(?!\d)))"
    return re.compile(pattern), lambda found: short[found[0]]


_TERM = re.compile(  # 1er sem., 2.º sem.
    r"(?=sem)(?:(?<=\d[ºe°] )|(?<=\.º )|(?<=\der )|(?<=\.er ))sem\.(?=[\s,;)]|$)"
)


def _term(found: re.Match[str]) -> str:
    week = re.search(r"\b[Ll]a \d+e $", found.string[max(0, found.start() - 9) : found.start()])
    return ("semaine" if week else "semestre") + _full_stop(found)


_WITHOUT = {"es": {"c": "con ", "s": "sin ", "p": "para "}, "pt": {"c": "com ", "s": "sem ", "p": "para "}}


def _with(code: str) -> Reading:
    """3.º andar c/ elevador, s/ garagem; but c/ mayor, 24."""
    street = r"(?![^\n,;.]{0,30},?\s\d)" if code == "es" else ""
    noun = "[a-zà-ÿ]" if code == "es" else r"[^\W\d_]"  # C/ Mayor
    return re.compile(rf"(?<![\w./])[csp]/\s?(?={noun}{{2}}){street}"), lambda found: _WITHOUT[code][found[0][0]]


def _most(code: str) -> Reading:
    """Dose máx., temp. mín.: the end of a feminine noun."""

    def words(found: re.Match[str]) -> str:
        noun = re.search(r"(\w+)\.?\s$", found.string[max(0, found.start() - 30) : found.start()])
        word = "temperatura" if noun is None or noun[1].lower() == "temp" else noun[1].lower()
        if word not in ("dose", "dosis") and table(code).gender(word) != "feminine" and not word.endswith("a"):
            return ELSEWHERE
        return f"m{found['how']}ima"

    return re.compile(r"(?<=[a-zà-ÿ.] )m(?P<how>áx|ín)\.(?=\s[a-z\d]|[,;:)])"), words


_INCLUDED = {  # stem, endings of one and of more by gender
    "fr": ("inclus", {"masculine": ("", ""), "feminine": ("e", "es")}),
    "es": ("incluid", {"masculine": ("o", "os"), "feminine": ("a", "as")}),
    "it": ("inclus", {"masculine": ("o", "i"), "feminine": ("a", "e")}),
    "pt": ("incluíd", {"masculine": ("o", "os"), "feminine": ("a", "as")}),
}
_INCLUDING = re.compile(r"([^\W\d_]{2,})[\s\d.,%€-]*(?:\s(?:no|non|não))?\s$")


def _included(code: str) -> Reading:
    """Gastos incl., IVA 21 % incl., spese incl.: in the form of the noun before."""
    stem, endings = _INCLUDED[code]

    def words(found: re.Match[str]) -> str:
        noun = _INCLUDING.search(found.string[max(0, found.start() - 40) : found.start()])
        if noun is None:
            return ELSEWHERE
        word = noun[1].lower()
        gender = table(code).gender(word)
        if code == "it":
            many = word.endswith("i") or (gender is None and word.endswith("e"))
            gender = gender or ("masculine" if word.endswith(("o", "i")) else "feminine")
        else:
            many = word.endswith("s") and word not in ("repas", "accès", "gas", "gás")
            gender = gender or ("feminine" if word.endswith(("a", "as", "charges")) else "masculine")
        return stem + endings[gender][many] + _full_stop(found)

    return re.compile(r"(?<=[\w%€.] )incl\.(?=\s*(?:[,;:.)]|$|\n)|\s[A-ZÀ-Þ])"), words


def _times_a_day(found: re.Match[str]) -> str:
    """1 cp x 3/j."""
    return f"{cardinal(found['n'], LANGUAGES['fr'])} fois par jour"


_TO_CHIEF = re.compile(r"(?:(?<!\w)(?P<at>(?i:do|z|ze|od|dla|w|we|na|przy))\s)?[A-ZŁŚŻ]\w+(?P<end>\w)\s$")


def _chief(found: re.Match[str]) -> str:
    """The main station: Wrocław Główny, Gdynia Główna, do Gdyni Głównej, z Krakowa Głównego."""
    town = _TO_CHIEF.search(found.string[max(0, found.start() - 40) : found.start()])
    if town is None:
        return ELSEWHERE
    at, end = (town["at"] or "").lower(), town["end"]
    within, of = at in ("w", "we", "na", "przy"), at in ("do", "z", "ze", "od", "dla")
    ending = {"y": "ej", "i": "ej", "a": "ego" if of else "a", "u": "ym", "e": "ym" if within else "e"}.get(end, "y")
    return f"Główn{ending}{_full_stop(found)}"


def _doctor(found: re.Match[str]) -> str:
    """U doktora Nowaka, od doktor Kowalskiej."""
    return "doktora" if found["name"].endswith(("a", "ego")) else "doktor"


_NAMED = re.compile(r"(?P<first>[A-ZŁŚŻ]\w+)(?:\s[A-ZŁŚŻ][\w-]+)*,?\s\(?$")
_MEN = ("Kuba", "Barnaba", "Kosma", "Bonawentura", "Jarema", "Sasza", "Kola")


def _of_person(found: re.Match[str], of_man: str) -> str:
    """Pani Nowak, ur. w 1931 r.; Jan Nowak, zm. po 1512 r."""
    name = _NAMED.search(found.string[max(0, found.start() - 60) : found.start()])
    is_woman = name is not None and name["first"] not in _MEN and (name["first"] == "Pani" or name["first"][-1] == "a")
    return f"{of_man.removesuffix('y')}a" if is_woman else of_man


_OF_NUMBERS = "|".join(rf"(?<=\b{each} )" for each in ("[Ll]es", "[Dd]es", "[Aa]ux"))
_OF_LAWS = "|".join(rf"(?<=\b{each} )" for each in ("[Ll]a", "[Dd]ella", "[Aa]lla", "[Dd]alla", "[Nn]ella"))

_STATIONS = "|".join(
    rf"(?<=\b{each} )" for each in ("Amsterdam", "Rotterdam", "Utrecht", "Den Haag", "Arnhem", "Eindhoven", "Leiden")
)

PATTERNS: dict[str, tuple[Reading, ...]] = {
    "en": (
        *streets.patterns(),
        _winds("en"),
        (re.compile(r"(?<![\w/])[wW]/\s?(?=[^\W\d_]{2}|\d|an?\b)(?!o(?:ut)?\b)"), lambda _: "with "),  # w/ the terms
        (  # IV q6h
            re.compile(r"(?<!\w)q(?P<n>[1-9]\d?)h(?!\w)"),
            lambda found: f"every {cardinal(found['n'], LANGUAGES['en'])} hours",
        ),
        (re.compile(r"(?<![\w/])[bB]/[wW](?![\w/])"), _between_or_grey),
        (
            re.compile(r"(?<=\dth )c\.(?=(?P<end>\s*(?:[A-Z]|$))?)(?!\w)"),
            lambda found: "century" + "." * (found["end"] is not None),
        ),
        (re.compile(r"(?<=[½¼¾⅓⅔⅛] )c\.(?=\s[a-z])"), _cups),
        (re.compile(r"(?<=\b[Oo]n )(?:Tues|Thurs|Mon|Wed|Fri)\.(?!\w)"), _day),
        (  # Bus no. 24, the no. 14
            re.compile(rf"(?=no\.)(?:{_NUMBERED}|(?<=\b[Tt]he ))no\.(?=\s?\d)"),
            lambda _: "number",
        ),
        (re.compile(r"(?<![\w.])No\.(?=\s[A-Z]{1,3}-?\d)"), lambda _: "number"),  # No. K-2304
        (re.compile(r"(?<=\d) ea\b\.?(?=\s|$|[,;)])"), lambda found: " each" + _full_stop(found)),
        (re.compile(r"(?=c\.)(?:(?<=\dst )|(?<=\dnd )|(?<=\drd )|(?<=\dth ))c\.(?=\s)"), lambda _: "century"),
        (re.compile(rf"(?=[bdfre]){_LIFE}(?=\s(?:c\.\s|ca\.\s)?\d{{3,4}})"), lambda found: _LIVES[found[0]]),
        (re.compile(r"(?<=[a-z.)] )v\.(?=\s[A-Z])"), lambda _: "versus"),  # Brown v. Board
        (re.compile(r"(?:(?<=& )Co\.|Co\.(?=,? (?:Inc|Ltd|LLC)\b))"), lambda found: "Company" + _full_stop(found)),
        (re.compile(r"(?<=[a-z] )Dr\.(?=\s*(?:$|[,;)\n]|[a-z])|\s(?P<starter>[A-Z][a-z]+))"), _drive),
        (_STATE, _state),
        (re.compile(r"(?<=[a-z] )no\.(?=\s\d{1,3} of \d)"), lambda _: "number"),  # reading no. 3 of 4
        (re.compile(r"(?<=\d, )no\.(?=\s?\d)"), lambda _: "number"),  # vol. 12, no. 3
    ),
    "de": (
        _winds("de"),
        (re.compile(r"(?<!\w)Dr\.(?=-[A-ZÄÖÜ][a-zäöü])"), lambda _: "Doktor"),  # Dr.-Max-Mustermann-Str.
        (re.compile(r"(?<=[a-zäöüß]-)Str\.(?=\s[a-zäöü])"), lambda _: "Straße"),
        (re.compile(r"(?<![\w.])n\. ?V\."), _after_time),
        (
            re.compile(r"(?=Gl)(?:(?<=\b[Vv]on )|(?<=\b[Aa]uf )|(?<=\b[Aa]b )|(?<=Uhr, ))Gl\.(?=\s\d)"),
            lambda _: "Gleis",
        ),
        (re.compile(r"(?<=\d )f\.(?=[\s,;)]|$)"), lambda found: "folgende" + _full_stop(found)),  # S. 45 f.
        (re.compile(r"(?<=\d\. )Min\."), lambda found: "Minute" + _full_stop(found)),  # in der 89. Min.
        (
            re.compile(r"(?<![\w.])v\.(?=\s(?:[12]?\d|3[01])\.\s?(?:[\d–-]|[A-ZÄÖÜ][a-zä]+\s\d))"),
            lambda _: "vom",
        ),  # v. 5.3.
        (  # geb. 4.7.1951, geb. am 4. Juli
            re.compile(r"(?<![\w.])(?P<how>geb|gest)\.(?=\s\d{1,2}\.\s?(?:\d{1,2}\.|[A-ZÄÖÜ][a-zä]+\s\d))"),
            lambda found: {"geb": "geboren am", "gest": "gestorben am"}[found["how"]],
        ),
        (  # s. Art. 6, s. S. 12, s. auch
            re.compile(
                r"(?<![\w.])s\.(?=\s(?:Art|Abb|Tab|Abschn|Anm|Anh|Kap|Nr|Fn|Gl|S)\.|\s§|\s(?:auch|hierzu|dazu|Seite|Anhang)\b)"
            ),
            lambda _: "siehe",
        ),
        (re.compile(r"(?:(?<=/\d )|(?<=/\d\d ))Pkt\."), lambda found: "Punkten" + _full_stop(found)),  # 8/10 Pkt.
        (re.compile(r"(?<=[a-zäöüß])temp\."), lambda _: "temperatur"),
        (re.compile(r"(?<!\. )(?<![\w.])v\.(?=\s\d+(?![\d.]))"), lambda _: "von"),  # v. 40 cm
        (re.compile(r"(?<!\w)Nr\.(?=\s(?:[a-zäöü]|[A-Z]{1,3}-?\d))"), lambda _: "Nummer"),
        (re.compile(r"(?<=[½¼¾] )Bd\."), lambda _: "Bund"),
        (re.compile(r"(?<![\w.])Gr\.(?=\s(?:\d\d|X{0,3}[SML]\b))"), lambda _: "Größe"),
        (re.compile(r"(?<![\w.])Min\.(?=\s[–-]?\d)"), lambda _: "Minimal"),  # Min. 12 °C
        (re.compile(r"(?<=[a-zäöüß])nr\.(?=\s?[\dA-Z]|:)"), lambda _: "nummer"),  # Sendungsnr. 0034
        (  # Zutaten f. 4 Pers.
            re.compile(r"(?<=[a-zäöüß,;:] )f\.(?=\s\d+(?:[–-]\d+)?\s(?:Pers|Port|Kinder|Erw|Gäste))"),
            lambda _: "für",
        ),
        (re.compile(r"lit\.(?=\s[a-z]\b)"), lambda _: "Buchstabe"),
        (re.compile(r"(?i:gem)\.(?=\s§|\sArt)"), lambda found: f"{found[0][:-1]}äß"),
        (re.compile(r"(?<=\d )S\.(?=\s(?:und|mit|zu)\b|[,;)])"), lambda _: "Seiten"),  # 450 S.
        (re.compile(r"(?<=\d )(?:J|Mon)\.(?=[\s,;:)]|$)"), _years),
        (  # Abs. 1 S. 2, § 5 S. 2
            re.compile(r"(?:(?<=Abs\. \d )|(?<=Abs\. \d\d )|(?<=§ \d\d )|(?<=§ \d\d\d ))S\.(?=\s\d)"),
            lambda _: "Satz",
        ),
        (  # im 2. OG, im EG, which is no community
            re.compile(r"(?=[OUED]G)(?:(?<=\d\. )|(?<=\d\.)|(?<=\b[Ii]m )|(?<=\bvom )|(?<=\bzum ))[OUED]G(?!\w)"),
            lambda found: _FLOORS[found[0]],
        ),
        (re.compile(r"(?<=[a-zäöüß])str\.(?=\s?\d|,)"), lambda _: "straße"),
    ),
    "fr": (
        _winds("fr"),
        _included("fr"),
        (_TERM, _term),
        _timetable("fr"),
        (re.compile(rf"(?:{_OF_NUMBERS})nos(?=\s\d)"), lambda _: "numéros"),  # les nos 101 et 102
        (re.compile(r"(?<![\w.])nos(?=\s\d+(?:\s?[,;.)–-]|\s(?:et|à|ou)\s|$))"), lambda _: "numéros"),
        (re.compile(r"(?<=\d )(?<!\b1 )j\.?(?=[,;:)]|\s?$|\s[a-zà-ÿ(])"), lambda found: "jours" + _full_stop(found)),
        (re.compile(r"(?<=[.\w] )x (?P<n>\d)/j(?:our)?(?!\w)"), _times_a_day),
        (re.compile(r"(?<=\de )min(?:\.(?=,|\s[a-zà-ÿ]))?(?!\w)"), lambda _: "minute"),  # à la 89e min.
        (re.compile(r"(?i:art)\.(?=\s[LRD]\.?\s?\d)"), lambda found: f"{found[0][:-1]}icle"),  # art. L. 121-1
        (  # le 1er s. av. J.-C.
            re.compile(r"(?:(?<=\der )|(?<=\de ))s\.(?=\s(?:av|ap|apr)\.|[\s,;)]|$)"),
            lambda found: "siècle" + _full_stop(found),
        ),
    ),
    "es": (
        _winds("es"),
        _timetable("es"),
        _included("es"),
        (_TERM, _term),
        _with("es"),
        (re.compile(r"(?<=\d\.ª )pl\.(?!\w)"), lambda found: "planta" + _full_stop(found)),
        (  # 4.º ext.
            re.compile(r"(?=[ei])(?:(?<=\d\.º )|(?<=\dº ))(?:ext|int)\.(?!\w)"),
            lambda found: f"{found[0][:-1]}erior{_full_stop(found)}",
        ),
        _most("es"),
        (re.compile(r"(?<![\w.])(?<![A-ZÁÉÍÓÚ]\. )D\.(?=\s[A-ZÁÉÍÓÚ][a-zà-ÿ])"), lambda _: "Don"),  # not D. H. Lawrence
        (
            re.compile(r"(?:(?<=\b[Ll]a )§|(?<=\b[Ll]as )§§)\s?(?=\d)"),  # las §§ 5 y 6, but el § 5
            lambda found: "secciones " if "§§" in found[0] else "sección ",
        ),
    ),
    "it": (
        _winds("it"),
        _timetable("it"),
        _included("it"),
        (_TERM, _term),
        (re.compile(r"(?<=\d° )p\.(?=\s[A-Za-z]|[,;)]|\s*$)"), lambda found: "piano" + _full_stop(found)),
        (re.compile(r"(?<![\w.'’])(?<!\d )h\.?(?=\s\d{1,2}(?:[.:]\d\d)?(?![\w.,:]\d|\w))"), lambda _: "ore"),  # h 14-16
        (re.compile(r"(?<![\w.])c\.\s?[cp]\.(?!\w|\s?[cp]\.)"), _code_of_law),
        (
            re.compile(rf"(?<![\w.])L\.(?=\s?(?:n\.\s?)?\d{{1,4}}/(?:19|20)\d\d)|(?:{_OF_LAWS})L\.(?=\s?\d)"),
            lambda _: "legge",
        ),
        (re.compile(r"(?<![\w.])L\.(?=\s?\d{1,3}(?:\.\d{3})+(?![\d/]))"), lambda _: "lire"),  # L. 10.000
    ),
    "nl": (
        _winds("nl"),
        (re.compile(r"(?<=[a-z])(?<!wed)str\.(?=\s?\d|,)"), lambda _: "straat"),
        (re.compile(r"(?<=[a-z])temp\."), lambda _: "temperatuur"),
        (re.compile(r"(?<!\w)nr\.(?=\s(?:[a-z]|[A-Z]{1,3}-?\d))"), lambda _: "nummer"),
        (re.compile(r"(?<=[a-z])nr\.(?=\s?[\dA-Z]|:)"), lambda _: "nummer"),  # zendingnr. 3S
        (re.compile(r"(?<![\w.])[Mm]t\.(?=\s(?:\d\d|X{0,3}[SML]\b))"), lambda found: f"{found[0][0]}aat"),
        (re.compile(r"(?<=[a-z])opp\."), lambda _: "oppervlakte"),
        (re.compile(r"(?<=kamer)app\."), lambda _: "appartement"),
        (  # 2-2 n.v.
            re.compile(r"(?<=\d )n\.\s?[vs]\."),
            lambda found: f"na {'verlenging' if 'v' in found[0] else 'strafschoppen'}{_full_stop(found)}",
        ),
        (re.compile(r"(?<=\d )dd(?=\s[\da-z])"), lambda _: "maal daags"),
        (re.compile(rf"(?=C)(?:{_STATIONS})(?:C\.|CS\b)"), lambda found: "Centraal" + _full_stop(found)),
        (re.compile(r"(?<!\. )(?<![\w.])v\.(?=\s\d)"), lambda _: "van"),  # v. 40 cm
    ),
    "pl": (
        (polish_short.TURN, polish_short.into_street),
        (polish_short.PATTERN, polish_short.declined),
        (polish_short.SAINT, polish_short.sainted),
        (polish_short.TITLE, polish_short.titled),
        (re.compile(r"(?<=[a-ząćęłńóśźż] )Gł\.(?!\w)"), _chief),
        (re.compile(r"(?<![\w.])pow\.(?=\s\d+\s?(?:lat|r\.|roku|kg|°C|zł|osób)(?!\w))"), lambda _: "powyżej"),
        (
            re.compile(
                r"(?=dr)(?:(?<=\b[Uu] )|(?<=\b[Oo]d )|(?<=\b[Dd]o )|(?<=\b[Dd]la ))dr\."
                r"(?=\s(?P<name>[A-ZŁŚŻ]\w+(?:\s[A-ZŁŚŻ]\w+)?))"
            ),
            _doctor,
        ),
        (
            re.compile(r"(?<![\w.])zm\.(?=\s(?:w|po|przed|ok\.|około|\d))"),
            lambda found: _of_person(found, "zmarł"),
        ),  # zm. po 1512 r.
        (re.compile(r"(?<![\w.])ur\.(?=\s(?:w|po|przed|ok\.|około|\d))"), lambda found: _of_person(found, "urodzony")),
    ),
    "ru": (  # ум. после 1512 г.
        (  # отпр. в 7:42
            re.compile(r"(?<![\w.])(?:отпр|приб)\.(?=\s(?:в\s)?\d)"),
            lambda found: {"отпр.": "отправление", "приб.": "прибытие"}[found[0]],
        ),
        (  # темп. днём, темп. 36,6 °C, but высокий темп.
            re.compile(r"(?<!\w)(?P<t>[Тт])емп\.(?=\s(?:воды|воздуха|тела|дн[её]м|ночью)\b|[^а-яё]{1,16}°)"),
            lambda found: f"{found['t']}емпература",
        ),
        (re.compile(r"(?<=-м )эт\.(?!\w)"), lambda found: "этаже" + _full_stop(found)),
        (re.compile(r"(?<![\w.])ум\.(?=\s(?:в|после|до|ок\.|около|\d))"), lambda _: "умер"),
        (re.compile(r"(?<![\w.])род\.(?=\s(?:в|после|до|ок\.|около|\d))"), lambda _: "родился"),
    ),
    "pt": (
        _winds("pt"),
        _timetable("pt"),
        _included("pt"),
        (_TERM, _term),
        _with("pt"),
        _most("pt"),
        (_DONA, lambda _: "Dona"),  # D. Maria, but D. Pedro
        (re.compile(r"(?<![\w/])c/c(?=\s(?:os?\s)?arts?\.)"), lambda _: "combinado com"),
        (  # 1/2 col. (chá)
            re.compile(r"(?<![\w.])col\. \((chá|sopa|café|sobremesa)\)"),
            lambda found: f"colher de {found[1]}",
        ),
        (  # 1 colher (chá)
            re.compile(r"(?:(?<=colher)|(?<=colheres)|(?<=\bcol\.)) \((chá|sopa|café|sobremesa)\)"),
            lambda found: f" de {found[1]}",
        ),
    ),
}
"""Patterns by the language's code, before its abbreviations."""
