"""Roman numerals in words: Louis XIV, Chapter IX, siglo XXI, XVIIIe siècle, Wilhelm II."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, ordinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_NUMERAL = (  # but no lone L or C, which are letters
    r"(?=[IVXLC])(?![LC](?![IVXLC]))(?:XC|XL|L?X{0,3}|C{1,2}(?:XC|XL|L?X{0,3}))(?:IX|IV|V?I{0,3})"
    r"(?![^\W_]|['’][^\W\d_]{2})"
)
_LONG = r"(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?![^\W_]|['’][^\W\d_]{2})"  # of two letters or more
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_ENDED = r"(?=\s*(?:$|[,;:)\]»”\".!?–—]))"  # a single I after a name may be the pronoun
_SURE = {"en": _ENDED, "it": r"(?=\s*(?:$|[,;:)\]»”\".!?–—])|\s(?:d[aei]l?|fu|era|è|ha|e|nel|con)\b)"}
"""What follows a lone I that is a numeral, where it is a word too."""
_ROWS = {"es": "y|e|al|a", "pt": "e|a", "it": "ed?|al", "fr": "et|à", "de": "und|bis", "en": "and|to", "nl": "en|tot"}
_CENTURIES = {
    "es": r"siglos?",
    "pt": r"séculos?",
    "it": r"secol[oi]",
}
_LAST = ("es", "pt", "it", "fr")  # where a lone I at the end of a name is no pronoun
_LARGEST_ORDINAL = 10  # above it Spanish and Portuguese count
_COUNTED = (  # II República, III Congreso
    "república|guerra|internacional|bienal|divisi[óo]n|divisão|dinast[íi]a|legislatura|jornada|edici[óo]n|edição|"
    "cumbre|cúpula|conferencia|conferência|semana|copa|reich|congres[so]+|concilio|concílio|festival|plan|plano|"
    "trimestre|semestre|cuatrimestre|quadrimestre|bimestre|aniversario|aniversário|encuentro|encontro|torneo|torneio|campeonato|premio|prêmio"
)
_DATIVE = re.compile(
    r"\b(?:unter|von|mit|bei|zu|nach|seit|gegenüber|aus|dem|vom|zum|beim|neben|vor|hinter|zwischen|samt|nebst)\s$",
    re.IGNORECASE,
)
_ACCUSATIVE = re.compile(r"\b(?:für|durch|gegen|ohne|um|den)\s$", re.IGNORECASE)
_GENITIVE = re.compile(r"\b(?:des|Kaisers|Königs|Papstes|Zaren|wegen|trotz|während|statt)\s$", re.IGNORECASE)


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of Roman numerals that are surely numerals, with what stands before them, and their words."""
    glyphs = re.compile(r"[Ⅰ-ↂ]+|[ⅰ-ⅿ]+")
    found: list[tuple[re.Pattern[str], Words]] = [(glyphs, lambda match: _glyphs(match[0], language))]
    names = table(code).roman
    if code not in _ROWS:
        return found
    rulers = _one_of([*names.rulers, *names.queens])
    titled = rf"(?:{_one_of(names.titles)})\s[^\W\d_a-z][^\W\d_]+"
    found += _by_ending(code, language)
    if code == "de":
        name = rf"(?P<name>(?<!\w)(?:{titled}|(?:{rulers})s?|[A-ZÄÖÜ][^\W\d_]+))"
        found.append((re.compile(rf"{name}\s(?P<roman>{_NUMERAL})\.(?!\w)"), lambda match: _german(match, language)))
    row = rf"(?P<roman>{_NUMERAL}(?:(?:\s(?:{_ROWS[code]})\s|,\s|–|-){_NUMERAL})*)"
    capital = [each[0].upper() + each[1:] for each in names.numbered]
    capital += [each.upper() for each in names.numbered if len(each) > 3]  # CHAPTER XII
    small = [each[0].lower() + each[1:] for each in names.numbered]
    word = rf"(?!I(?![IVXLC])(?!{_SURE[code]}))" if code in _SURE else ""
    for forms, no_word in ((capital, word if code == "it" else ""), (small, word)):
        shorts = [rf"{each}\." for each in forms if f"{each}.#" in table(code).abbreviations]
        dot = r"(?:\.(?=\s[IVXLC]{2}))?"  # sec. XVI, but not: the chapter. I liked it
        name = rf"(?<!\w)(?:{'|'.join([rf'(?:{_one_of(forms)})s?{dot}', *shorts])})"
        pattern = re.compile(rf"(?P<name>{name})(?:\s|-(?=[IVX]{{2}}|I\b)){no_word}{row}")  # phase-IV
        found.append((pattern, lambda match: _numbered(match, code, language)))
    if code == "pt":  # art. 5º, LV
        clause = re.compile(
            rf"(?<=[\dº], )(?P<roman>{_NUMERAL})(?:\s(?P<joint>e|ou|a)\s(?P<last>{_NUMERAL}))?"
            r"(?=[,;:.)]|\s(?:e|da|do)\s|$)"
        )
        found.append((clause, lambda match: _clause(match, language)))
    if code == "en":  # chapter iv
        in_small = re.compile(
            rf"(?P<name>(?<!\w)(?:{_one_of([*capital, *small])})s?\.?)\s"
            r"(?P<roman>(?=[ivx]{2})x{0,3}(?:ix|iv|v?i{0,3}))(?!\w)"
        )
        found.append((in_small, lambda match: _numbered(match, code, language)))
    ruler = re.compile(
        rf"(?P<name>(?<!\w)(?:{titled}|(?:{rulers})))\s(?P<roman>{_LONG}|{_NUMERAL}(?<!I)|"
        rf"I(?![^\W_]|['’]){_ENDED if code == 'en' else ''})"
    )
    found.append((ruler, lambda match: f"{match['name']} {_ruler(match['name'], match['roman'], code, language)}"))
    if code == "en":  # Henry Ford II
        person = rf"(?P<name>(?<!\w)(?:{rulers}|{_GIVEN})(?:\s[A-Z]\.?)?\s(?!(?:{_one_of(capital)})\b)[A-Z][a-z'’]+)"
        person += r"\s(?P<roman>I{2,3}|IV)(?!\w)"
        found.append(
            (
                re.compile(person),
                lambda match: f"{match['name']} {_ruler(match['name'], match['roman'], code, language)}",
            )
        )
    no_ordinal = r"(?!\.\s[A-ZÄÖÜ])" if code == "de" else ""  # Der II. Weltkrieg
    first = r"|I(?=[,:;)])" if code in _LAST else ""  # Cálculo I: turma B
    other = re.compile(rf"(?P<name>(?<!\w)[^\W\d_a-zà-ÿ][^\W\d_]*[a-zà-ÿ])\s(?P<roman>{_LONG}{first}){no_ordinal}")
    found.append((other, lambda match: f"{match['name']} {_cardinal(match['roman'], language)}"))
    return found


_GIVEN = (
    "Adam|Andrew|Arthur|Benjamin|Bill|Bob|Daniel|David|Frank|Harold|Harry|Howard|Jack|Jim|Joe|Joseph|Ken|Larry|Martin|"
    "Michael|Mike|Patrick|Ralph|Ray|Ronald|Samuel|Stephen|Steven|Thomas|Thurston|Tom|Walter"
)


def turkish_names() -> str:
    """Pattern of what has a capital letter and stands in an order: 2. Dünya Savaşı, II. Mehmet."""
    names = table("tr").roman
    return _one_of([*names.numbered, *names.rulers])


def turkish() -> str:
    """Pattern of XIX. yüzyıl and II. Mehmet; a single letter may be that of a name: V. Hugo."""
    return rf"(?P<roman>{_LONG}|[IVX])\.(?=\s(?:[a-zçğışöü]|(?:{turkish_names()})\b))"


def _clause(match: re.Match[str], language: Language) -> str:
    """The clause of an article of a law."""
    before = match.string[max(0, match.start() - 24) : match.start()]
    if re.search(r"\bart(?:\.|igo)\s[\d.]+º?(?:-[A-Z])?,\s$", before, re.IGNORECASE) is None:
        return ELSEWHERE
    first = cardinal(str(value(match["roman"])), language)
    if not match["last"]:
        return f"inciso {first}"
    return f"incisos {first} {match['joint']} {cardinal(str(value(match['last'])), language)}"


def value(numeral: str) -> int:
    """Number of a Roman numeral."""
    values = [_VALUES[letter] for letter in numeral.upper()]
    return sum(
        -each if after is not None and each < after else each
        for each, after in zip(values, [*values[1:], None], strict=True)
    )


def _one_of(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def _glyphs(text: str, language: Language) -> str | None:
    plain = unicodedata.normalize("NFKC", text).upper()
    return _cardinal(plain, language) if re.fullmatch("[IVXLC]+", plain) else None


def _cardinal(numeral: str, language: Language) -> str:
    words = cardinal(str(value(numeral)), language)
    return words[0].upper() + words[1:] if language.locale == "en" else words


def _numbered(match: re.Match[str], code: str, language: Language) -> str:
    short = table(code).abbreviations.get(f"{match['name']}#")  # Vol. II
    name = match["name"] if short is None else short.capitalize() if match["name"][0].isupper() else short
    century = re.fullmatch(_CENTURIES.get(code, "(?!)"), name.casefold()) is not None
    feminine = table(code).gender(name.casefold()) == "feminine"

    def words(found: re.Match[str]) -> str:
        number = value(found[0])
        if code == "it":
            said = ordinal(number, language)
            return re.sub("o$", "a", said) if feminine else said
        if code == "pt" and century and number <= 10:
            return ordinal(number, language)
        if code == "fr" and number == 1:
            return "première" if feminine else "premier"
        said = _cardinal(found[0], language)
        return said if found[0].isupper() and name[0].isupper() else said.lower()

    roman = re.sub(r"(?<=[IVXLC])-(?=[IVXLC])|–", f" {language.to} ", match["roman"])
    numeral = r"(?<!\w)[IVXLC]+(?!\w)" if match["roman"].isupper() or " " in roman else r"\w+"
    return f"{name} {re.sub(numeral, words, roman)}"


def _ruler(name: str, numeral: str, code: str, language: Language) -> str:
    number = value(numeral)
    queens = set(table(code).roman.queens)
    feminine = name.rsplit(maxsplit=1)[-1] in queens
    match code:
        case "en":
            return "the " + ordinal(number, language).title().replace("-F", "-f")
        case "de":
            return "die " * feminine + "der " * (not feminine) + _german_ordinal(number, language)
        case "nl":
            said = ordinal(number, language)
            return f"de {said[0].upper()}{said[1:]}"
        case "fr":
            return ("première" if feminine else "premier") if number == 1 else cardinal(str(number), language)
        case "es" | "pt" if number > 10:
            return cardinal(str(number), language)
        case _:
            said = ordinal(number, language)
            return re.sub(r"o\b", "a", said) if feminine else said


def _german_ordinal(number: int, language: Language) -> str:
    words = ordinal(number, language)
    return words[0].upper() + words[1:]


def _german(match: re.Match[str], language: Language) -> str | None:
    """Wilhelm der Zweite, unter Wilhelm dem Zweiten; the full stop goes on where the sentence ends there."""
    words = match["name"].split()
    names = table("de").roman
    before = match.string[max(0, match.start() - 20) : match.start()]
    known = {*names.rulers, *names.queens}
    is_ruler, is_genitive = words[-1] in known, words[-1].removesuffix("s") in known
    if not is_ruler and not is_genitive and len(words) == 1:
        return ELSEWHERE  # Kapitel IV. or Der II. Weltkrieg
    feminine = words[-1] in names.queens or words[-1].removesuffix("s") in names.queens
    said = _german_ordinal(value(match["roman"]), language)
    genitive = (
        _GENITIVE.search(before) is not None
        or words[0] in ("Kaisers", "Königs", "Papstes")
        or (not is_ruler and words[-1].endswith("s"))
    )
    if genitive:
        spoken = f"{'der' if feminine else 'des'} {said}n"
    elif _DATIVE.search(before):
        spoken = f"{'der' if feminine else 'dem'} {said}n"
    elif _ACCUSATIVE.search(before) and not feminine:
        spoken = f"den {said}n"
    else:
        spoken = f"{'die' if feminine else 'der'} {said}"
    return f"{match['name']} {spoken}"


def _by_ending(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Numerals whose ending, or the noun after them, says that they are ordinals: XVIIIe siècle, XVI secolo."""

    def ordered(match: re.Match[str]) -> str:
        said = ordinal(value(match["roman"]), language)
        noun = re.match(r"\s(?:ed?\s[IVX]+\s)?([^\W\d_]+)", match.string[match.end() : match.end() + 40])
        if noun is None or code in ("en", "nl"):
            return said
        feminine = table(code).gender(noun[1].lower()) or re.search(f"(?:{language.feminine_ends})$", noun[1])
        if code != "it" and value(match["roman"]) > _LARGEST_ORDINAL:
            return cardinal(str(value(match["roman"])), language)
        if feminine and feminine != "masculine":
            return re.sub(r"o\b", "a", said)
        return re.sub(r"^(primer|tercer)o$", r"\1", said) if code == "es" else said

    def french(match: re.Match[str]) -> str:
        number, century = value(match["roman"]), " siècle" if match["century"] else ""
        if number == 1:
            return ("première" if match["end"] in ("re", "ère") else "premier") + century
        return ordinal(number, language) + century

    roman = r"(?<![\w.])(?P<roman>(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3}))"
    match code:
        case "en":
            return [(re.compile(rf"{roman}(?:(?:st|nd|rd|th)\b|(?=\scentur(?:y|ies)\b))"), ordered)]
        case "fr":
            return [(re.compile(rf"{roman}(?P<end>ème|er|ère|re|e|ᵉ)(?!\w)(?P<century>\ss\.)?"), french)]
        case "nl":
            return [(re.compile(rf"{roman}(?:e|de|ste)(?![^\W_])"), ordered)]
        case "it":
            return [
                (
                    re.compile(
                        rf"{roman}(?=\s(?:ed?\s[IVX]+\s)?(?:secolo|sec\.|capitolo|canto|anno|semestre|trimestre|piano|grado|livello|legislatura|edizione|guerra|settimana|giornata|olimpiade|sessione|classe|divisione))"
                    ),
                    ordered,
                )
            ]
        case "es" | "pt":
            return [(re.compile(rf"{roman}(?=\s(?i:siglo|{_COUNTED})\b)"), ordered)]
        case _:
            return []
