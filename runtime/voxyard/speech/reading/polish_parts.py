"""Polish things and their parts: laptop z szesnastoma gigabajtami, czternastocalowy ekran, ze stu osób."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import UNITS, Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.polish_cases import compound, in_case
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import unit_name

_SCREENS = "[Ee]kran|[Mm]onitor|[Ll]aptop|[Nn]otebook|[Ww]yświetlacz|[Tt]elewizor|[Tt]ablet|[Dd]ysk|[Ss]martfon"
_ENDINGS = {  # of such a noun: that of the adjective before it
    "u": "ego", "a": "ego", "em": "ym", "iem": "ym", "ie": "ym", "ze": "ym", "cie": "ym", "owi": "emu", "y": "e",
    "e": "e", "i": "e", "ów": "ych", "ach": "ych", "ami": "ymi", "om": "ym", "": "y",
}  # fmt: skip
_CHANGED = re.compile(  # a verb after which z means from
    r"\b(?:(?:z|po|roz|wy|prze|s|od)\w*(?:ono|ył[aoy]?|ał[aoy]?|ęł[aoy]?|ósł|osł[aoy]|adł[aoy]?|yć|ać|ąć)|korzysta\w*)"
    r"(?:\s(?:się|pamięć|pamięci|dysk|RAM|limit|już|tylko))*\sz\s$",
    re.IGNORECASE,
)


def patterns(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    """Patterns of a thing's measures after or before it, with their words."""
    units = {**UNITS, **language.units, **table("pl").units}
    kinds = ("digital-", "frequency-")
    nouns = {sign: unit_name(language, unit, 1) for sign, unit in units.items() if unit.startswith(kinds)}
    nouns["pkt"] = "punkt"
    parts = "|".join(sorted(nouns))
    return [
        (  # 14" ekran
            re.compile(
                rf"(?<![\w.,\"„”-])(?P<n>\d{{1,2}})(?P<half>,5)?\s?[\"″”](?=\s(?:{_SCREENS})"
                rf"(?P<end>{'|'.join(_ENDINGS)})(?!\w))"
            ),
            lambda found: (
                f"{compound(int(found['n']), language)}{'ipół' * bool(found['half'])}calow{_ENDINGS[found['end']]}"
            ),
        ),
        (  # pokój 2-os., z 6-bieg. przerzutką
            re.compile(
                r"(?<![\w.,/-])(?P<n>\d{1,3})-"
                rf"(?P<short>{'|'.join(_DESCRIBING)})\.(?!\w)"
                r"(?=(?P<after>\s*\S?))(?=(?: (?P<next>[a-ząćęłńóśźż]{4,}))?)"
            ),
            lambda found: _described(found, language),
        ),
        (re.compile(r"(?<!\w)[Zz](?= 1\d\d(?:[ .]?\d{3})?(?![\d.,]))"), lambda found: f"{found[0]}e"),  # ze stu
        (  # laptop z 16 GB pamięci, but z 8 GB do 16 GB and zwiększono z 8 GB
            re.compile(
                rf"(?<=[\w\"”).] z )(?P<n>\d{{1,4}})\s?(?P<unit>{parts})(?![\w/])"
                r"(?!\s(?:do|na)\s\d|,? (?:woln|zajęt))"
            ),
            lambda found: _equipped(found, nouns, language),
        ),
    ]


_DESCRIBING = {
    "os": "osobow", "mies": "miesięczn", "bieg": "biegow", "pok": "pokojow", "częśc": "częściow", "tyg": "tygodniow",
    "drzw": "drzwiow", "miejsc": "miejscow", "dn": "dniow", "godz": "godzinn", "min": "minutow", "poz": "pozycjow",
}  # fmt: skip
_NO_NOUN = re.compile("(?:przez|przed|podczas|oraz|tylko|według|także|około|wraz|jest|bez) ")


def _described(found: re.Match[str], language: Language) -> str:
    """Pokój dwuosobowy, umowa dwunastomiesięczna: the ending is that of the noun beside it."""
    noun = re.search(r"([^\W\d_]+\.?) $", found.string[max(0, found.start() - 30) : found.start()])
    after = found["next"] or ""
    beside = after if after and not _NO_NOUN.match(f"{after} ") else noun[1] if noun else ""
    beside = beside.replace("mieszk.", "mieszkanie")
    ending = {"a": "a", "ą": "ą", "ę": "ą", "o": "e", "e": "e", "y": "ej", "i": "ej", "u": "ego"}.get(beside[-1:], "y")
    stop = "." * (not found["after"].strip() or found["after"].strip().isupper())
    return f"{compound(int(found['n']), language)}{_DESCRIBING[found['short']]}{ending}{stop}"


def _equipped(found: re.Match[str], nouns: dict[str, str | None], language: Language) -> str:
    noun = nouns[found["unit"]]
    if noun is None or _CHANGED.search(found.string[max(0, found.start() - 60) : found.start()]):
        return ELSEWHERE
    if found["n"] == "1":
        return f"jednym {noun}em"
    return f"{in_case(cardinal(found['n'], language), 'instrumental')} {noun}ami"
