"""Polish short forms in their case: z art. 5 i § 3 before a figure, kościół św. Anny, z dyr. Nowakiem before a name."""

from __future__ import annotations

import re

from voxyard.speech.reading.patterns import ELSEWHERE

_CASES = ("accusative", "genitive", "dative", "instrumental", "locative")
_MASCULINE, _FEMININE = " u owi em ie", "ę y ie ą ie"
_NOUNS = {  # short form: stem, endings in the order of the cases
    "art.": ("artyku", "ł łu łowi łem le"),
    "§": ("paragraf", _MASCULINE),
    "par.": ("paragraf", _MASCULINE),
    "rozdz.": ("rozdzia", "ł łu łowi łem le"),
    "ust.": ("ustęp", _MASCULINE),
    "pkt": ("punk", "t tu towi tem cie"),
    "t.": ("tom", _MASCULINE),
    "rys.": ("rysun", "ek ku kowi kiem ku"),
    "ryc.": ("rycin", _FEMININE),
    "tab.": ("tabel", "ę i i ą i"),
    "zał.": ("załącznik", " a owi iem u"),
    "poz.": ("pozycj", "ę i i ą i"),
    "str.": ("stron", _FEMININE),
    "s.": ("stron", _FEMININE),
    "odc.": ("odcin", "ek ka kowi kiem ku"),
    "przyp.": ("przypis", _MASCULINE),
    "pok.": ("pok", "ój oju ojowi ojem oju"),
    "nr": ("numer", " u owi em ze"),
    "temp.": ("temperatur", "ę y ze ą ze"),
}
_WORDS = {  # what stands before them, and the case that it wants
    "instrumental": r"zgodn\w+\sz|zwi[ąa]zku\sz|pod|przed|między|pomiędzy|nad",
    "accusative": r"zob\.|zobacz|por\.|porównaj|patrz|przez",
    "genitive": (
        r"do|od|bez|dla|z|ze|według|wg|wobec|podstawie|podst\.|mocy|treści|myśl|rozumieniu|oprócz|brzmieniu|naruszenie"
    ),
    "dative": "dzięki|wbrew|przeciwko",
    "locative": "w|we|na|o|przy|po",
}
_SHORT = "|".join(sorted(map(re.escape, _NOUNS), key=len, reverse=True))
_ROW = re.compile(rf"(?<!\w)(?:{_SHORT})\s?\d+[a-z]?(?:\s(?:[a-z]\.){{2,3}})?,?\s(?:i|oraz|lub|albo)\s$")
_GOVERNOR = re.compile("|".join(rf"(?P<{case}>(?<!\w)(?i:{words})\s$)" for case, words in _WORDS.items()))

PATTERN = re.compile(rf"(?<!\w)(?:{_SHORT})(?=\s?\d)(?!(?<!temp\.)\s?\d+[–-]\d)")


TURN = re.compile(  # skręć w prawo na ul. Długą
    r"(?P<way>\b(?i:skręć|skręcaj|skręcić|skręcił[ao]?|zjedź|wjedź|wyjedź|wjechał[ao]?|wyjechał[ao]?|skieruj się|idź|"
    r"wyszedł|wyszła|przeniósł się|przeniosła się)(?:\sw\s(?:prawo|lewo))?\sna\s)ul\.(?=\s?[\dA-ZŁŚŻŹĆ])"
)


def into_street(found: re.Match[str]) -> str:
    """Skręć w prawo na ulicę."""
    return f"{found['way']}ulicę"


def declined(found: re.Match[str]) -> str:
    """Zgodnie z artykułem, w rozdziale; ELSEWHERE where no word before tells the case."""
    before = _ROW.sub("", found.string[max(0, found.start() - 60) : found.start()])
    governor = _GOVERNOR.search(before)
    if governor is None:
        return ELSEWHERE
    stem, endings = _NOUNS[found[0]]
    case = governor.lastgroup or ""
    if found[0] == "nr":  # zawodnik z numerem, dzwoń na numer
        case = {"z": "instrumental", "na": "accusative"}.get(governor[0].strip().lower(), case)
    return (
        stem + endings.split(" ")[_CASES.index(case)] + " " * (found[0] == "§" and found.string[found.end()].isdigit())
    )


_MEN = re.compile(  # saints in the genitive, which has the ending of a woman's name
    "(?:Jan|Piotr|Pawł|Mikołaj|Jakub|Józef|Wojciech|Stanisław|Krzysztof|Franciszk|Michał|Andrzej|Marcin|Szczepan|Łukasz|"
    "Mark|Mateusz|Tomasz|Florian|Sebastian|Roch|Kazimierz|Wawrzyńc|Bartłomiej|Maksymilian|Augustyn|Benedykt|Dominik|Jack|"
    "Izydor|Leonard|Klemens|Wacław|Zygmunt|Maciej|Rafał|Gabriel|Hubert|Ludwik|Bernard|Wit|Szymon|Filip|Tadeusz)a"
)
_WOMEN = re.compile(r"(?!Antoni$|Idzi$|Walenty$).+(?:i|[nrst]y)")
SAINT = re.compile(r"(?<![\w.])(?P<s>[Śś])w\.(?=\s(?P<name>[A-ZŁŚŻŹĆ][a-ząćęłńóśźż]+))")
_TITLES = {
    "prof": "profesor", "dyr": "dyrektor", "wicedyr": "wicedyrektor", "inż": "inżynier", "gen": "generał",
    "płk": "pułkownik", "kpt": "kapitan", "red": "redaktor", "mjr": "major",
}  # fmt: skip
TITLE = re.compile(
    rf"(?<![\w.])(?P<short>(?i:{'|'.join(_TITLES)}))\.?(?=\s[A-ZŁŚŻŹĆ][a-ząćęłńóśźż]+(?P<end>ego|emu|owi|i?em)(?!\w))"
)


def sainted(found: re.Match[str]) -> str:
    """Święty Jan, świętej Anny, świętego Antoniego: the ending of the name tells the case."""
    name = found["name"]
    if name[-1] == "a":
        end = "ego" if _MEN.fullmatch(name) else "a"
    elif name[-1] == "ą":
        end = "ą"
    elif name.endswith(("ego", "owi", "emu", "em", "im", "ym")):
        end = {"go": "ego", "wi": "emu", "mu": "emu"}.get(name[-2:], "ym")
    elif _WOMEN.fullmatch(name):
        end = "ej"
    else:
        end = "y"
    return f"{found['s']}więt{end}"


def titled(found: re.Match[str]) -> str:
    """Z dyrektorem Nowakiem, profesora Kowalskiego."""
    title = _TITLES[found["short"].lower()]
    case = {"ego": "a", "emu": "owi", "owi": "owi"}.get(found["end"], "iem" if title.endswith("k") else "em")
    said = title + case
    return said.capitalize() if found["short"][0].isupper() else said
