"""Polish figures whose words have a gender or a case that their sentence shows: pół litra, XVI wiek, Jana Pawła II."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import polish_cases, roman
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, ordinal

Words = Callable[[re.Match[str]], str | None]

_PARTS = {
    "1/2": "pół", "½": "pół", "1/3": "jedna trzecia", "⅓": "jedna trzecia", "2/3": "dwie trzecie", "⅔": "dwie trzecie",
    "1/4": "jedna czwarta", "¼": "jedna czwarta", "3/4": "trzy czwarte", "¾": "trzy czwarte", "1/5": "jedna piąta",
    "2/5": "dwie piąte", "1/8": "jedna ósma", "1/10": "jedna dziesiąta",
}  # fmt: skip
_UNITS = {
    "cm": "centymetra",
    "l": "litra",
    "kg": "kilograma",
    "km": "kilometra",
    "m": "metra",
    "h": "godziny",
    "dl": "decylitra",
}
_CENTURY = {"wiek": "", "wieku": "ego", "wiekiem": "ym", "wieki": ""}
_NOUNS = {  # endings of nouns after an ordinal, and its own: II wojna, II wojny, II wojnie
    "wojna": "a", "wojny": "ej", "wojnie": "ej", "wojnę": "ą", "wojną": "ą", "klasa": "a", "klasy": "ej",
    "klasie": "ej", "liga": "a", "ligi": "ej", "lidze": "ej", "piętro": "e", "piętrze": "ym", "piętra": "ego",
    "rozdział": "", "minuta": "a", "minucie": "ej", "minutę": "ą", "połowie": "ej", "kolejka": "a", "kolejce": "ej",
    "klatka": "a", "klatce": "ej", "grupa": "a", "grupie": "ej", "pozycja": "a", "pozycji": "ej", "pozycję": "ą",
    "lokata": "a", "lokatę": "ą", "kadencja": "a", "kadencji": "ej", "stopnia": "ego", "bieg": "", "biegu": "ego",
    "tydzień": "", "tygodnia": "ego", "miesiąc": "", "miesiąca": "ego", "okrążenie": "e", "okrążeniu": "ym",
    "tura": "a", "turze": "ej", "tury": "ej", "minuty": "ej", "rata": "a", "raty": "ej", "ratę": "ą", "strona": "a",
    "rzeczpospolita": "a", "rzeczypospolitej": "ej", "edycja": "a", "edycji": "ej", "miejsce": "e", "miejscu": "ym",
    "miejsca": "ego", "kwartał": "", "kwartale": "ym", "kwartału": "ego", "półrocze": "e", "połowa": "a", "rzesza": "a",
    "rzeszy": "ej", "etap": "", "etapu": "ego", "etapie": "ym", "tom": "", "rok": "", "roku": "ego", "urodziny": "e",
    "dzień": "", "dnia": "ego", "raz": "", "mecz": "", "część": "a", "części": "ej", "runda": "a", "rundy": "ej",
    "rundzie": "ej", "seria": "a", "sezon": "", "sezonu": "ego", "sezonie": "ym", "odcinek": "", "odcinka": "ego",
    "zjazd": "", "kongres": "", "festiwal": "", "konkurs": "", "rocznica": "a", "rocznicy": "ej", "rocznicę": "ą",
}  # fmt: skip
_NUMBERED = {"rozdział": "", "tom": "", "akt": "", "część": "a", "księga": "a", "scena": "a", "etap": "", "grupa": "a"}
_FOURTH = (  # kupił 4. samochód
    r"(?<=[a-ząćęłńóśźż] )(?P<n>\d{1,2})\.(?=\s(?!(?:bez|jest|nad|pod|przez|jak|lub|oraz|więc|gdyż|tys|mln|kw)\b)"
    r"(?!\w*(?:ów|ych|ach|ich|ym|im|em|om)\b)[a-ząćęłńóśźż]{2,}[bcćdfgjklłmnńprsśtwzźż]\b(?!\.\s[a-z]))"
)
_MASCULINE_PLACES = ("dniu", "kwartale", "półroczu", "rzędzie", "tomie")
_RULERS = (
    "Jan Paweł|Jan|Paweł|Ludwik|Zygmunt|August|Kazimierz|Bolesław|Władysław|Henryk|Karol|Piotr|Mieszko|Stefan|Fryderyk|"
    "Wilhelm|Mikołaj|Aleksander|Benedykt|Pius|Grzegorz|Leon|Jerzy|Edward|Filip|Ferdynand|Napoleon|Otton|Ramzes|Juliusz"
)
_QUEENS = "Elżbieta|Katarzyna|Maria|Anna|Małgorzata|Izabela|Wiktoria"


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns that the rules of other languages do not know, with their words."""
    parts = "|".join(sorted(map(re.escape, _PARTS), key=len, reverse=True))
    numeral = r"(?P<roman>(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})(?!\w))"
    nouns = "|".join(sorted({*_CENTURY, *_NOUNS}, key=len, reverse=True))
    numbered = "|".join(f"[{each[0]}{each[0].upper()}]{each[1:]}" for each in _NUMBERED)
    genitive = "|".join(f"{each.replace('Paweł', 'Pawł').replace('ek', 'k')}a" for each in _RULERS.split("|"))
    genitive = genitive.replace("Jan Pawła", "Jana Pawła").replace("Augusta", "Augusta").replace("Mieszkoa", "Mieszka")
    return [
        (
            re.compile(r"(?<![\w.,/])(?P<whole>\d{1,3})(?: |(?=[½¼¾])) ?(?P<part>1/2|½)(?![\w/])(?P<after>\s\w+)?"),
            _half(language),
        ),
        (
            re.compile(r"(?<![\w.,])(?P<house>\d{1,4}[a-zA-Z]?) m\. ?(?P<n>\d{1,4})(?!\w)"),  # Długa 12 m. 5
            lambda found: f"{_house(found['house'], language)} mieszkania {cardinal(found['n'], language)}",
        ),
        (
            re.compile(r"(?<![\w.,-])\d\d-\d{3}(?=\s[A-ZŁŚŻ][a-ząćęłńóśźż])"),  # a postcode
            lambda found: " ".join(cardinal(each, language) for each in found[0] if each != "-"),
        ),
        (re.compile(rf"(?<![\w.,/])(?P<part>{parts})(?![\w/])(?:\s(?P<unit>{'|'.join(_UNITS)})(?!\w))?"), _part),
        (
            re.compile(rf"(?<!\w)(?P<name>(?:[Kk]rólow\w+ |[Cc]aryc\w )?(?:{_QUEENS}))\s{numeral}"),
            lambda found: f"{found['name']} {inflected(roman.value(found['roman']), 'a', language)}",
        ),
        (
            re.compile(rf"(?<!\w)(?P<name>{genitive})\s{numeral}"),
            lambda found: f"{found['name']} {inflected(roman.value(found['roman']), 'ego', language)}",
        ),
        (
            re.compile(rf"(?<!\w)(?P<name>{_RULERS})\s{numeral}"),
            lambda found: f"{found['name']} {inflected(roman.value(found['roman']), '', language)}",
        ),
        (
            re.compile(rf"(?<!\w)(?P<name>{numbered})\s(?:{numeral}|(?P<n>\d{{1,2}})(?![\w,:/-]|\.\d|\.\s[a-z]))"),
            lambda found: f"{found['name']} {_ordinal_of(found, _NUMBERED[found['name'].lower()], language)}",
        ),
        (
            re.compile(
                rf"(?P<at>\b[Ww]e? )?(?<![\w.,])(?:{numeral}|(?P<n>\d{{1,3}})\.)"
                rf"(?:(?=\s(?P<noun>{nouns})(?!\w))|(?P<short>\sw\.))"
            ),
            lambda found: f"{found['at'] or ''}{_before_noun(found, language)}",
        ),
        (
            re.compile(r"(?<=\b(?:latach|latami) )(?P<n>[2-9]0)\.?(?!\d)|(?<=\blata )(?P<m>[2-9]0)\.?(?!\d)"),
            _decade(language),
        ),
        (  # do 15.12.
            re.compile(r"(?<![\w.,-])(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])\.(?!\d)(?=(?P<after>\s*.?))"),
            lambda found: _day_of_month(found, language),
        ),
        (
            re.compile(r"(?<=\b[Rr]oku )(?P<n>1\d{3}|20\d\d)(?![\w.,-]\d)"),
            lambda found: _year(found["n"], "ego", language),
        ),
        (
            re.compile(r"(?P<at>\b[Ww] )?(?<![\w.,-])(?P<n>1\d{3}|20\d\d)\s(?P<noun>roku(?!\w)|r\.)"),
            lambda found: _in_year(found, language),
        ),
        (  # od 1939 do 1945, do 2030
            re.compile(
                r"(?:(?<=\b[Oo]d )(?=\d{4} do (?:1\d|20)\d\d(?:\s?(?:r\.|roku|[,.;:)])|$))|"
                r"(?<=\b[Oo]d \d{4} do )(?=\d{4}(?:\s?(?:r\.|roku|[,.;:)])|$))|"
                r"(?<=\b[Dd]o )(?=20[1-9]\d[ ,.;]))"
                r"(?P<n>1[0-9]\d\d|20\d\d)(?![\w.,:-]\d|\s?(?:zł|kg|km|m|osób|sztuk|\w+ów)\b)"
            ),
            lambda found: _year(found["n"], "ego", language),
        ),
        (  # a w 2024 już
            re.compile(
                r"(?<=\b[Ww] )(?P<n>(?:19|20)\d\d)(?=[,;)]|\.?$|\.\s[A-ZŁŚŻ]|\s(?:już|było|był|i|a|oraz|nie|się)\b)"
            ),
            lambda found: _year(found["n"], "ym", language),
        ),
        (
            re.compile(r"(?<=\b[Nn]a )(?P<n>\d{1,2})(?=\s(?:piętr|miejsc)(?P<end>ze|u|o|e)\b)"),
            lambda found: inflected(int(found["n"]), "e" if found["end"] in ("o", "e") else "ym", language),
        ),
        (  # na 12. km
            re.compile(r"(?P<at>\b[Nn]a )?(?<![\w.,])(?P<n>\d{1,3})\. km(?![\w/²])"),
            lambda found: (
                f"{found['at'] or ''}{inflected(int(found['n']), 'ym' if found['at'] else '', language)} "
                f"kilometr{'ze' if found['at'] else ''}"
            ),
        ),
        (  # w 2 połowie
            re.compile(
                rf"(?<=\b[Ww] )(?P<n>\d{{1,2}})"
                rf"(?=\s(?P<noun>{'|'.join(_MASCULINE_PLACES)}|rundzie|klasie|lidze|połowie)\b)"
            ),
            lambda found: inflected(int(found["n"]), "ym" if found["noun"] in _MASCULINE_PLACES else "ej", language),
        ),
        (  # w dniach 3-5 maja
            re.compile(
                rf"(?P<at>\b[Oo]d )?(?<![\w.,/-])(?P<a>[12]?\d|3[01])[–-](?P<b>[12]?\d|3[01])"
                rf"(?=\s(?:{'|'.join(_MONTHS)})\b)"
            ),
            lambda found: (
                f"{found['at'] or 'od '}{inflected(int(found['a']), 'ego', language)} do "
                f"{inflected(int(found['b']), 'ego', language)}"
            ),
        ),
        (  # od 1 do 15 lipca
            re.compile(rf"(?<=\b[Oo]d )(?P<n>[12]?\d|3[01])(?= do (?:[12]?\d|3[01]) (?:{'|'.join(_MONTHS)})\b)"),
            lambda found: inflected(int(found["n"]), "ego", language),
        ),
        (re.compile(r"(?<=\b[Cc]o )(?P<n>\d{1,2})\.\s(?=(?P<noun>[^\W\d_]+))"), lambda found: _every(found, language)),
        (
            re.compile(r"(?:(?<=\bbył )|(?P<she>(?<=\bbyła )))(?P<n>\d{1,2})\.(?=(?P<after>[,;)]|\s[a-ząćęłńóśźż]))"),
            lambda found: inflected(int(found["n"]), "" if found["she"] is None else "a", language),
        ),
        (
            re.compile(rf"(?P<at>\b[Ww] )?(?<![\w.,]){numeral} kw\.(?P<blank>\s|$)(?=(?P<after>.?))"),
            lambda found: _quarter(found, language),
        ),
        *polish_cases.patterns(language),
        (re.compile(_FOURTH), lambda found: inflected(int(found["n"]), "", language)),
    ]


def _every(found: re.Match[str], language: Language) -> str:
    """Co piąty Polak, co trzecia osoba."""
    feminine = found["noun"].endswith("a") and found["noun"] not in ("mężczyzna", "kolega", "kierowca")
    return inflected(int(found["n"]), "a" if feminine else "", language) + " "


def _quarter(found: re.Match[str], language: Language) -> str:
    ending, noun = ("ym", "kwartale") if found["at"] else ("", "kwartał")
    said = inflected(roman.value(found["roman"]), ending, language)
    return f"{found['at'] or ''}{said} {noun}{_stop(found['after'])}{found['blank']}"


def _day_of_month(found: re.Match[str], language: Language) -> str:
    """Do piętnastego grudnia, with the full stop where the sentence ends."""
    name = _MONTHS[int(found["month"]) - 1]
    return f"{inflected(int(found['day']), 'ego', language)} {name}{_stop(found['after'])}"


_MONTHS = (
    "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października",
    "listopada", "grudnia",
)  # fmt: skip


def inflected(number: int, ending: str, language: Language) -> str:
    """The ordinal with an ending of its adjectives, "" for the nominative masculine: drugiego, piętnastej."""
    words = ordinal(number, language).split()
    return " ".join(_with_ending(word, ending) if word[-1] in "yi" else word for word in words)


def _with_ending(word: str, ending: str) -> str:
    if not ending:
        return word
    stem = word[:-1]
    if word.endswith("gi"):  # drugi: drugiego, druga
        return stem + ("i" if ending[0] == "e" else "") + (ending if ending != "ym" else "im")
    if word.endswith("i"):  # trzeci: trzeciego, trzecia
        return stem + "i" + (ending if ending != "ym" else "m")
    return stem + ending


def _ordinal_of(found: re.Match[str], ending: str, language: Language) -> str:
    return inflected(roman.value(found["roman"]) if found["roman"] else int(found["n"]), ending, language)


def _before_noun(found: re.Match[str], language: Language) -> str:
    noun = found["noun"]
    if noun is None:
        ending = (
            "ym"
            if found["at"]
            else "ego"
            if re.search(r"\b(?:do|od|z|ze|początku|końca|końcu|połowie|połowy)\s$", found.string[: found.start()])
            else ""
        )
    elif noun in ("wieku", "roku") and found["at"]:
        ending = "ym"
    else:
        ending = {**_CENTURY, **_NOUNS}[noun]
    said = _ordinal_of(found, ending, language)
    return said if noun else f"{said} wiek{'u' * bool(ending)}{_stop(found.string[found.end() :])}"


def _stop(after: str) -> str:
    """The full stop of a short form where its sentence ends."""
    after = after.strip()[:1]
    return "." * (not after or after.isupper())


def _decade(language: Language) -> Words:
    def words(found: re.Match[str]) -> str:
        number, ending = (found["n"], "ych") if found["n"] else (found["m"], "e")
        return inflected(int(number), ending, language)

    return words


def _year(digits: str, ending: str, language: Language) -> str:
    """Tysiąc dziewięćset dziewięćdziesiątego dziewiątego: its tens and ones are ordinals."""
    return inflected(int(digits), ending, language)


def _in_year(found: re.Match[str], language: Language) -> str:
    said = _year(found["n"], "ym" if found["at"] else "ego", language)
    stop = "" if found["noun"] == "roku" else _stop(found.string[found.end() :])
    return f"{found['at'] or ''}{said} roku{stop}"


def _house(text: str, language: Language) -> str:
    number = re.match(r"\d+", text)[0]  # type: ignore[index]
    return cardinal(number, language) + (f" {text[len(number) :]}" if len(text) > len(number) else "")


def _half(language: Language) -> Words:
    def words(found: re.Match[str]) -> str:
        after = found["after"] or ""
        feminine = after.endswith(("y", "i"))
        if found["whole"] == "1":
            return ("półtorej" if feminine else "półtora") + _after_half(after)
        whole = cardinal(found["whole"], language, "minuta" if feminine else None)
        return f"{whole} i pół{_after_half(after)}"

    return words


def _after_half(after: str) -> str:
    """A unit in the genitive, the sign between two sizes, or the word as it stands."""
    word = after.strip()
    said = "na" if word == "x" else _UNITS.get(word, word)
    return after.replace(word, said) if word else after


def _part(found: re.Match[str]) -> str:
    unit = f" {_UNITS[found['unit']]}" if found["unit"] else ""
    part = _PARTS[found["part"]]
    if polish_cases.GENITIVE_BEFORE.search(found.string[: found.start()][-20:]):
        part = " ".join(
            _GENITIVE_PARTS.get(word, word[:-1] + ("ej" if word[-1] == "a" else "ych")) for word in part.split()
        )
        part = part.replace("trzeciych", "trzecich")
    elif _EATEN.search(found.string[: found.start()][-20:]):
        part = part.replace("jedna", "jedną").removesuffix("a") + "ą" if part.startswith("jedna") else part
    return part + unit


_EATEN = re.compile(
    r"(?:\b(?:[Oo]|[Nn]a|[Pp]rzez)|\w{2,}(?:no|to|ć|ł|li|my|aj|ij|weź))\s$"
)  # a verb whose object the part is


_GENITIVE_PARTS = {"pół": "pół", "jedna": "jednej", "dwie": "dwóch", "trzy": "trzech", "dwa": "dwóch"}
