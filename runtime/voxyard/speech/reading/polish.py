"""Polish figures whose words have a gender or a case that their sentence shows: pół litra, XVI wiek, Jana Pawła II."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import polish_cases, polish_durations, polish_parts, roman
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, ordinal
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

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
    "t": "tony",
    "godz.": "godziny",
    "szkl.": "szklanki",
    "łyż.": "łyżki",
    "tabl.": "tabletki",
    "tys.": "tysiąca",
    "mln": "miliona",
    "mld": "miliarda",
}
_CENTURY = {"wiek": "", "wieku": "ego", "wiekiem": "ym", "wieki": ""}
_SHORT_PARTS = {"rozdz.": "rozdział", "t.": "tom", "cz.": "część", "ks.": "księga"}
_NUMBERED = {"rozdział": "", "tom": "", "akt": "", "część": "a", "księga": "a", "scena": "a", "etap": "", "grupa": "a"}
_FOURTH = (  # kupił 4. samochód
    r"(?:(?<=[a-ząćęłńóśźż] )|(?<=\btzw\. ))(?P<n>\d{1,2})\."
    r"(?=\s(?!(?:bez|jest|nad|pod|przez|jak|lub|oraz|więc|gdyż|tys|mln|kw)\b)"
    r"(?!\w*(?:ów|ych|ach|ich|ym|im|em|om)\b)[a-ząćęłńóśźż]{2,}[bcćdfgjklłmnńprsśtwzźż]\b(?!\.\s[a-z]))"
)
_BY_ENDING = (  # nad 2. drużyną, był 266. papieżem
    r"(?<=[a-ząćęłńóśźż] )(?P<n>\d{1,3})\.(?=\s(?P<noun>(?!tej\b|jej\b|tym\b|nim\b|czym\b|ją\b|są\b|się\b|mają\b)"
    r"[a-ząćęłńóśźż]{1,}(?:em|[ai]m|ym|ą|ę|ej|ego|cji|sji|zji|cja|sja|zja))\b(?!\.\s[a-z]))"
)
_ENDINGS_OF_ORDINALS = (
    ("em", "ym"), ("ym", "ym"), ("im", "ym"), ("ą", "ą"), ("ę", "ą"), ("ej", "ej"), ("ego", "ego"), ("ji", "ej"),
    ("ja", "a"),
)  # fmt: skip
_MASCULINE_PLACES = ("dniu", "kwartale", "półroczu", "rzędzie", "tomie")
_RULERS = (
    "Jan Paweł|Jan|Paweł|Ludwik|Zygmunt|August|Kazimierz|Bolesław|Władysław|Henryk|Karol|Piotr|Mieszko|Stefan|Fryderyk|"
    "Wilhelm|Mikołaj|Aleksander|Benedykt|Pius|Grzegorz|Leon|Jerzy|Edward|Filip|Ferdynand|Napoleon|Otton|Ramzes|Juliusz"
)
_QUEENS = "Elżbieta|Katarzyna|Maria|Anna|Małgorzata|Izabela|Wiktoria"


def days(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Days before others read a date, or volts: między ósmym a dziesiątym maja, 3 V 1791."""
    pattern = rf"(?<=\b[Mm]iędzy )(?P<a>[12]?\d|3[01]) a (?P<b>[12]?\d|3[01])(?P<month>\s(?:{'|'.join(_MONTHS)}))\b"

    def words(found: re.Match[str]) -> str:
        first, last = (inflected(int(found[each]), "ym", language) for each in "ab")
        return f"{first} a {last}{found['month']}"

    in_roman = (
        r"(?<![\w.,:/-])(?P<day>[12]?\d|3[01])(?:\.\s?|\s)(?P<month>I{1,3}|I?V|VI{1,3}|I?X|XI{1,2})(?:\.\s?|\s)"
        r"(?P<year>1\d{3}|20\d\d)(?:\s(?:roku|r\.)(?!\w))?(?![\w/-]|[.,]\d)"
    )

    def day(found: re.Match[str]) -> str:
        first, last = (inflected(int(found[each]), "ego", language) for each in ("day", "year"))
        stop = _stop(found.string[found.end() :]) if found[0].endswith(".") else ""
        return f"{first} {_MONTHS[roman.value(found['month']) - 1]} {last} roku{stop}"

    return [(re.compile(pattern), words), (re.compile(in_roman), day)]


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns that the rules of other languages do not know, with their words."""
    parts = "|".join(sorted(map(re.escape, _PARTS), key=len, reverse=True))
    numeral = r"(?P<roman>(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})(?!\w))"
    row = r"(?:\s(?:i|a|lub|oraz|czy|do)\s(?:\d{1,3}\.|[IVX]+))"  # XIX i XX wiek
    known = {*_CENTURY, *table("pl").ordinals}
    nouns = "|".join(sorted(known | {each.capitalize() for each in known}, key=len, reverse=True))
    numbered = "|".join(f"[{each[0]}{each[0].upper()}]{each[1:]}" for each in _NUMBERED)
    genitive = "|".join(f"{each.replace('Paweł', 'Pawł').replace('ek', 'k')}a" for each in _RULERS.split("|"))
    genitive = genitive.replace("Jan Pawła", "Jana Pawła").replace("Augusta", "Augusta").replace("Mieszkoa", "Mieszka")
    return [
        *polish_durations.patterns(language),
        (
            re.compile(
                r"(?<![\w.,/])(?:(?P<whole>\d{1,3})(?: |(?=[½¼¾])) ?(?:1/2|½)(?![\w/])(?P<after>\s\w+)?|"
                rf"(?P<n>\d{{1,3}}),5(?P<later>\s(?:(?<=[01],5\s)(?:{'|'.join(map(re.escape, _UNITS))})|"
                r"(?!proc|pkt|raz[ay]|tysi|milio|miliar)[a-ząćęłńóśźż]{3,}[uyia])(?![\w/²³])))"
            ),
            _half(language),
        ),
        (
            re.compile(r"(?<![\w.,])(?P<house>\d{1,4}[a-zA-Z]?) m\. ?(?P<n>\d{1,4})(?!\w)"),  # Długa 12 m. 5
            lambda found: f"{_house(found['house'], language)} mieszkania {cardinal(found['n'], language)}",
        ),
        (
            re.compile(  # a postcode
                r"(?<![\w.,-])(?:\d\d-\d{3}(?=\s[A-ZŁŚŻ][a-ząćęłńóśźż])|(?<=[a-z] \()\d\d-\d{3}(?=\))|"
                r"0\d-\d{3}(?![\w-]|[.,]\d))"
            ),
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
            re.compile(rf"(?<!\w)(?P<short>(?i:rozdz|t|cz|ks))\.\s{numeral}"),
            lambda found: _part_of(found, language),
        ),
        (
            re.compile(
                rf"(?<!\w)(?P<name>{numbered})\s(?:{numeral}|(?P<n>\d{{1,2}})(?![\w,:/-]|\.\d|\.\s[a-z]))(?!\s[A-Z]\w{{0,3}}\s\d+/)"
            ),
            lambda found: f"{found['name']} {_ordinal_of(found, _NUMBERED[found['name'].lower()], language)}",
        ),
        (  # z toru 2 przy peronie 4
            re.compile(
                r"(?<!\w)(?:[Tt]or|[Pp]eron)(?P<end>u|ze|ie|em)?\s(?P<n>\d{1,2})(?![\w,:/-]\d|\w|\.\d|\s(?:k?m|cm)\b)"
            ),
            lambda found: (
                found[0].removesuffix(found["n"])
                + inflected(int(found["n"]), {"u": "ego", None: ""}.get(found["end"], "ym"), language)
            ),
        ),
        (
            re.compile(
                rf"(?P<at>\b[Ww]e? )?(?<![\w.,])(?:{numeral}|(?P<n>\d{{1,3}})\.)"
                rf"(?:(?={row}?\s(?P<noun>{nouns})(?!\w))|(?P<row>(?={row}\sw\.))|(?P<short>\sw\.))"
            ),
            lambda found: f"{found['at'] or ''}{_before_noun(found, language)}",
        ),
        (
            re.compile(
                r"(?=[2-9]0)(?:(?P<many>(?<=\b[Ll]atach )|(?<=\b[Ll]atami )|(?<=\b[Ll]at ))|(?<=\b[Ll]ata ))"
                r"(?P<n>[2-9]0)(?![\d-])(?:\.(?P<blank>\s)(?=[IVX]+\sw(?:\.|ieku))|\.?)"
            ),
            lambda found: (
                inflected(int(found["n"]), "e" if found["many"] is None else "ych", language) + (found["blank"] or "")
            ),
        ),
        (  # w 2. poł. XIV w.
            re.compile(r"(?P<at>\b[Ww] |\b(?:[Dd]o|[Oo]d|[Zz]|[Kk]oniec|[Pp]oczątku) )?(?P<n>[12]|II?)\.? poł\.\s"),
            lambda found: _half_of(found, language),
        ),
        (  # sygn. akt II K 45/19
            re.compile(r"(?<=akt )(?P<roman>[IVX]+) (?P<of>[A-Z][A-Za-z]{0,3}) (?P<n>\d{1,5})/(?P<year>\d\d)(?!\d)"),
            lambda found: (
                f"{cardinal(str(roman.value(found['roman'])), language)} {found['of']} "
                f"{cardinal(found['n'], language)} łamane przez {cardinal(found['year'], language)}"
            ),
        ),
        (  # jako 3. z 5 sióstr
            re.compile(r"(?<=\bjako )(?P<n>\d{1,2})\.(?=\sz\s)"),
            lambda found: inflected(
                int(found["n"]), "a" * bool(re.search(r"\w{3,}ła(?:\ssię)?\b", found.string[: found.start()])), language
            ),
        ),
        (  # pomiędzy 15 a 20 rokiem życia
            re.compile(
                r"(?<=iędzy )(?P<a>\d{1,3})\.? a (?P<b>\d{1,3})\.?"
                r"(?=\s(?:rokiem|dniem|tygodniem|miesiącem|kilometrem|wiekiem)\b)"
            ),
            lambda found: " a ".join(inflected(int(found[each]), "ym", language) for each in "ab"),
        ),
        (  # mieszka na III p.
            re.compile(rf"(?P<at>\b[Nn]a )?(?<![\w.,]){numeral} p\.(?!\s?\w\.)(?P<after>\s*.?)"),
            lambda found: (
                f"{found['at'] or ''}{inflected(roman.value(found['roman']), 'ym' if found['at'] else 'e', language)} "
                f"piętr{'ze' if found['at'] else 'o'}{_stop(found['after'])}{found['after']}"
            ),
        ),
        (  # przy ul. 3 Maja
            re.compile(
                rf"(?<![\w.,/-])(?P<n>[12]?\d|3[01])(?=\s(?:{'|'.join(each.capitalize() for each in _MONTHS)})\b)"
            ),
            lambda found: inflected(int(found["n"]), "ego", language),
        ),
        (  # w nocy z 24 na 25 grudnia, 1, 3 i 5 maja
            re.compile(
                r"(?<![\w.,/–-])(?P<n>[12]?\d|3[01])(?=(?:,\s\d{1,2})*,?\s(?:na|i|lub|oraz|a|czy)\s(?:[12]?\d|3[01])\s"
                rf"(?:{'|'.join(_MONTHS)})\b)"
            ),
            lambda found: inflected(int(found["n"]), "ego", language),
        ),
        (  # of an account
            re.compile(r"(?<![\w.,/-])\d\d(?: \d{4}){6}(?!\d| \d)"),
            lambda found: ", ".join(" ".join(cardinal(each, language) for each in group) for group in found[0].split()),
        ),
        (  # od 3 do 15.09
            re.compile(
                r"(?<=\b[Oo]d )(?P<day>[12]?\d|3[01]) do (?P<day2>[12]?\d|3[01])\.(?P<month2>0[1-9]|1[12])"
                r"(?![\w:]|[.,]\d)"
            ),
            lambda found: (
                f"{inflected(int(found['day']), 'ego', language)} do {inflected(int(found['day2']), 'ego', language)} "
                f"{_MONTHS[int(found['month2']) - 1]}"
            ),
        ),
        (  # 1.07–31.08
            re.compile(
                r"(?P<from>\b[Oo]d )?(?<![\w.,:/-])(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])\s?[–-]\s?"
                r"(?P<day2>[12]?\d|3[01])\.(?P<month2>0[1-9]|1[0-2])(?=[),;:]|\.?$|\.\s|\s[a-ząćęłńóśźż]{4})"
            ),
            lambda found: _from_to(found, language),
        ),
        (  # do 15.12.
            re.compile(
                r"(?<![\w.,-])(?<!\b[Oo] )(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])\.(?!\d)(?=(?P<after>\s*.?))"
            ),
            lambda found: _day_of_month(found, language),
        ),
        (  # 7.05 w godz. 10–14
            re.compile(
                r"(?<![\w.,-])(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])(?P<after>)"
                r"(?=,?\s(?:(?:[wo]|od)\sgodz|o\s\d{1,2}[:.]\d\d)|,\sgodz)"
            ),
            lambda found: _day_of_month(found, language).removesuffix("."),
        ),
        (  # we wt. 5.11
            re.compile(
                r"(?=\d)(?:(?<=\bpon\. )|(?<=\bwt\. )|(?<=\bśr\. )|(?<=\bczw\. )|(?<=\bpt\. )|(?<=\bsob\. )|"
                r"(?<=\bniedz\. )|(?<=\bnd\. )|(?<=\bpn\. ))"
                r"(?P<day>[12]?\d|3[01])\.(?P<month>0?[1-9]|1[0-2])(?P<after>)(?![\w.:]|,\d)"
            ),
            lambda found: _day_of_month(found, language).removesuffix("."),
        ),
        (
            re.compile(
                r"(?:(?<=\b[Rr]oku )|(?<= kw\. )|(?<=kwartale )|(?<=kwartału )|(?<=kwartał ))"
                r"(?P<n>1\d{3}|20\d\d)(?!\s?r\.|\sroku|[\w.,-]\d)"
            ),
            lambda found: _year(found["n"], "ego", language),
        ),
        (
            re.compile(
                rf"(?P<at>\b(?:{_BEFORE_YEARS})\s)?(?<![\w.,-])(?P<n>1\d{{3}}|20\d\d)"
                r"\s(?P<noun>(?:roku|rokiem|rokowi)(?!\w)|r\.)"
            ),
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
        (  # w 23. i 67. min
            re.compile(
                r"(?<=\b[Ww] )(?P<row>(?:\d{1,3}\., )*\d{1,3}\. (?:i|oraz) \d{1,3}\.) "
                r"min(?:\.(?=[,;)]|\s[a-z])|(?!\w|\.\w))"
            ),
            lambda found: (
                re.sub(r"(\d+)\.", lambda each: inflected(int(each[1]), "ej", language), found["row"]) + " minucie"
            ),
        ),
        (  # 2 x dz.
            re.compile(r"(?<![\w.,])(?P<n>\d{1,2}) ?[x×] ?dz\.(?=(?P<after>\s*.?))"),
            lambda found: (
                ("raz" if found["n"] == "1" else f"{cardinal(found['n'], language)} razy")
                + f" dziennie{_stop(found['after'])}"
            ),
        ),
        (  # w 63. min
            re.compile(
                r"(?P<at>\b(?:[Ww]|[Oo]d|[Dd]o|[Pp]o) )?(?<![\w.,])(?P<n>\d{1,3})\. min(?:\.(?=,|\s[a-z])|(?!\w|\.\w))"
            ),
            lambda found: (
                f"{found['at'] or ''}{inflected(int(found['n']), 'ej' if found['at'] else 'a', language)} "
                f"minu{'ty' if (found['at'] or '').lower() in ('od ', 'do ') else 'cie' if found['at'] else 'ta'}"
            ),
        ),
        (  # do 12 r.ż.
            re.compile(
                r"(?P<at>\b(?:[Ww]|[Pp]o|[Pp]rzed) )?(?<![\w.,])(?P<n>\d{1,3})\.?\sr\.\s?ż\.(?=(?P<after>\s*.?))"
            ),
            lambda found: (
                f"{found['at'] or ''}{inflected(int(found['n']), 'ym' if found['at'] else 'ego', language)} "
                f"rok{'iem' if (found['at'] or '').lower() == 'przed ' else 'u'} życia{_stop(found['after'])}"
            ),
        ),
        (  # tętno 78/min
            re.compile(r"(?<![\w.,/-])(?P<n>\d{1,4})/(?P<per>min|dobę|godz|h)(?!\w)\.?"),
            lambda found: (
                f"{cardinal(found['n'], language)} na "
                + {"min": "minutę", "dobę": "dobę"}.get(found["per"], "godzinę")
                + "." * (found[0].endswith(".") and found.end() == len(found.string))
            ),
        ),
        (  # silnik 1.4
            re.compile(r"(?<=[Ss]ilnik )(?P<n>\d)\.(?P<part>\d)(?![\w.,])"),
            lambda found: f"{cardinal(found['n'], language)} {cardinal(found['part'], language)}",
        ),
        (  # po 1 tabl.
            re.compile(rf"(?<=\b[Pp]o )1\s(?P<short>{'|'.join(_ONE_OF)})\.(?=(?P<after>\s*.?))"),
            lambda found: f"jednej {_ONE_OF[found['short']]}{_stop(found['after'])}",
        ),
        (  # do 31.10 br.
            re.compile(
                r"(?<![\w.,-])(?P<day>[12]?\d|3[01])\.(?P<month>0[1-9]|1[0-2])(?:(?=\s(?:br|ub\.r)\.)|"
                r"(?:(?<=\b[Dd]o 2[5-9]\.\d\d)|(?<=\b[Dd]o 3[01]\.\d\d)|(?<=\bod 2[5-9]\.\d\d)|(?<=\bod 3[01]\.\d\d))"
                r"(?![\w%]|[.,]\d))(?P<after>)"
            ),
            lambda found: _day_of_month(found, language).removesuffix("."),
        ),
        (  # do 15 bm.
            re.compile(r"(?<![\w.,/-])(?P<n>[12]?\d|3[01])(?=\sbm\.)"),
            lambda found: inflected(int(found["n"]), "ego", language),
        ),
        (  # 5/5, 10/10
            re.compile(r"(?<![\w.,/-])(?P<n>5|6|10)/(?P=n)(?![\w/]|[.,]\d|\s?%)"),
            lambda found: " na ".join([cardinal(found["n"], language)] * 2),
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
        (  # XIX-wieczny
            re.compile(rf"(?<![\w.,-]){numeral}-(?=wieczn)"),
            lambda found: polish_cases.compound(roman.value(found["roman"]), language),
        ),
        (  # na s. 112–118
            re.compile(r"\b(?P<at>[Nn]a )?(?:s|str)\. ?(?=\d{1,4}[–-]\d{1,4}(?![\w-]))"),
            lambda found: f"{found['at']}stronach " if found["at"] else "strony ",
        ),
        (re.compile(r"(?<=\b[Cc]o )(?P<n>\d{1,2})\.\s(?=(?P<noun>[^\W\d_]+))"), lambda found: _every(found, language)),
        (
            re.compile(
                r"(?:(?<=\bbył )|(?<=\bjest )(?=\d+\.\s[zwi]\s)|"
                r"(?P<she>(?<=\bbyła )))(?P<n>\d{1,2})\.(?=(?P<after>[,;)]|\s[a-ząćęłńóśźż]))"
            ),
            lambda found: inflected(int(found["n"]), "" if found["she"] is None else "a", language),
        ),
        (
            re.compile(
                rf"(?<![\w.,]){numeral}(?:(?=(?:,\s[IVX]+)*\s(?:i|oraz|lub|a)\s[IVX]+ kw\.)|"
                r"(?P<noun> kw\.)(?:(?P<blank>\s)|(?=[,;:)]|$))(?=(?P<after>.?)))"
            ),
            lambda found: _quarter(found, language),
        ),
        *polish_parts.patterns(language),
        *polish_cases.patterns(language),
        (re.compile(_FOURTH), lambda found: inflected(int(found["n"]), "", language)),
        (
            re.compile(_BY_ENDING),
            lambda found: _by_ending(found, language),
        ),
        (  # pod nr 10. Dzwoń; było ich 10. Potem
            re.compile(
                r"(?=\d)(?:(?P<label>(?<=\bnr )|(?<=umer )|(?<=umerem )|(?<=umerze )|(?<=tron[aąęy] )|(?<=tronie )|"
                r"(?<=\bich ))|(?<=\w ))"
                rf"(?P<n>\d{{1,4}})(?=\.\s+(?:(?P<starter>(?:{_STARTERS})\b)|[A-ZŁŚŻ]))"
            ),
            lambda found: (
                ELSEWHERE if found["label"] is None and found["starter"] is None else cardinal(found["n"], language)
            ),
        ),
    ]


_STARTERS = (  # words that begin a sentence, and no name after an ordinal
    "A|Ale|Bo|By|Był[aoy]?|Byli|Co|Czy|Do|Dla|Dlatego|Gdy|Gdyby|Gdzie|I|Ich|Ile|Ja|Jak|Jednak|Jego|Jej|Jest|Jeśli|Jeżeli|Już|Kiedy|"
    "Kto|Który|Ma|Można|My|Na|Nad|Nie|Niech|O|Od|On|Ona|One|Oni|Po|Pod|Podczas|Ponadto|Poza|Potem|Później|Przed|Przez|Przy|"
    "Są|Ta|Tak|Także|Tam|Te|Ten|Teraz|To|Tu|Trzeba|Tylko|Tym|W|We|Więc|Wtedy|Z|Za|Ze|Zaś"
)


def _half_of(found: re.Match[str], language: Language) -> str:
    """W drugiej połowie, z drugiej połowy, druga połowa."""
    at = found["at"] or ""
    ending, noun = ("a", "połowa") if not at else ("ej", "połowie" if at in ("w ", "W ") else "połowy")
    number = int(found["n"]) if found["n"].isdigit() else len(found["n"])
    return f"{at}{inflected(number, ending, language)} {noun} "


def _part_of(found: re.Match[str], language: Language) -> str:
    """Rozdział czwarty, część pierwsza."""
    noun = _SHORT_PARTS[f"{found['short'].lower()}."]
    said = inflected(roman.value(found["roman"]), _NUMBERED[noun], language)
    return f"{noun.capitalize() if found['short'][0].isupper() else noun} {said}"


def _by_ending(found: re.Match[str], language: Language) -> str:
    ending = next((ending for noun, ending in _ENDINGS_OF_ORDINALS if found["noun"].endswith(noun)), None)
    return ELSEWHERE if ending is None else inflected(int(found["n"]), ending, language)


def _every(found: re.Match[str], language: Language) -> str:
    """Co piąty Polak, co trzecia osoba."""
    feminine = found["noun"].endswith("a") and found["noun"] not in ("mężczyzna", "kolega", "kierowca")
    return inflected(int(found["n"]), "a" if feminine else "", language) + " "


_ONE_OF = {"tabl": "tabletce", "szt": "sztuce", "kaps": "kapsułce", "os": "osobie"}


def _quarter(found: re.Match[str], language: Language) -> str:
    governor = _BEFORE_QUARTERS.search(found.string[max(0, found.start() - 40) : found.start()])
    ending, noun = _QUARTERS[governor.lastgroup if governor else None]
    said = inflected(roman.value(found["roman"]), ending, language)
    return f"{said} {noun}{_stop(found['after'])}{found['blank'] or ''}" if found["noun"] else said


_BEFORE_QUARTERS = re.compile(
    r"\b(?:(?P<locative>we?|po)|(?P<instrumental>przed|(?:porówna\w+|wraz|równi|razem)\sze?)|(?P<genitive>ze?|od|do|koniec|końc\w+|począt\w+|dla|wynik\w*))\s"
    r"(?:[IVX]+(?:,| i| oraz| lub| a)\s)*$",
    re.IGNORECASE,
)
_QUARTERS = {
    "locative": ("ym", "kwartale"),
    "genitive": ("ego", "kwartału"),
    "instrumental": ("ym", "kwartałem"),
    None: ("", "kwartał"),
}


def _from_to(found: re.Match[str], language: Language) -> str:
    """Od pierwszego lipca do trzydziestego pierwszego sierpnia; versions and decimals stay."""
    told = found["from"] or found.string[: found.start()].endswith("(")
    if not told and max(int(found["day"]), int(found["day2"])) <= 12:
        return ELSEWHERE
    first, last = (
        f"{inflected(int(found[f'day{n}']), 'ego', language)} {_MONTHS[int(found[f'month{n}']) - 1]}" for n in ("", "2")
    )
    return f"{found['from'] or 'od '}{first} do {last}"


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
    if word.endswith("gi"):  # drugi: drugiego, drugich, druga
        return stem + ("i" if ending[0] in "ey" else "") + ending.removeprefix("y")
    if word.endswith("i"):  # trzeci: trzeciego, trzecich, trzecia
        return stem + "i" + ending.removeprefix("y")
    return stem + ending


def _ordinal_of(found: re.Match[str], ending: str, language: Language) -> str:
    return inflected(roman.value(found["roman"]) if found["roman"] else int(found["n"]), ending, language)


def _before_noun(found: re.Match[str], language: Language) -> str:
    noun, before = found["noun"], found.string[: found.start()]
    before = re.sub(r"poł\.\s$", "połowy ", before[-40:])
    at = found["at"] or re.search(r"\b[Ww]e? (?:[IVX]+|\d+\.)\s(?:i|a|lub|oraz|czy)\s$", before[-24:])
    if noun is None:
        ending = "ym" if at else "" if re.search(r"(?:^|(?<!\d)[.!?:]\s|\b[Nn]a\s)$", before) else "ego"
    elif noun == "RP":
        ending = "ej" if at or before.strip() else "a"
    else:
        endings = {**_CENTURY, **table("pl").ordinals}
        ending = endings[noun if noun in endings else noun.lower()]
        ending = "ym" if at and ending == "ego" and noun.endswith("u") else ending  # w 5. meczu, w 1939 roku
    said = _ordinal_of(found, ending, language)
    if noun or found["row"] is not None:
        return said
    return f"{said} wiek{'u' * bool(ending)}{_stop(found.string[found.end() :])}"


def _stop(after: str) -> str:
    """The full stop of a short form where its sentence ends."""
    after = after.strip()[:1]
    return "." * (not after or after.isupper())


def _year(digits: str, ending: str, language: Language) -> str:
    """Tysiąc dziewięćset dziewięćdziesiątego dziewiątego: its tens and ones are ordinals."""
    return inflected(int(digits), ending, language)


_CASES_OF_YEARS = {"w": "ym", "po": "ym", "o": "ym", "przy": "ym", "przed": "ym rokiem", "na": " rok", "za": " rok"}
_BEFORE_YEARS = "|".join(f"[{each[0].upper()}{each[0]}]{each[1:]}" for each in _CASES_OF_YEARS)


def _in_year(found: re.Match[str], language: Language) -> str:
    """W tysiąc dziewięćset dwudziestym roku, przed tysiąc dziewięćset dwudziestym rokiem, na dwudziesty rok."""
    row = re.search(r"\b[Ww] (?:\d{4},? )*\d{4} (?:i|oraz|lub|a) $", found.string[: found.start()][-30:])
    compared = re.search(r"(?:porówna\w+|wraz|równi|razem) ze? $", found.string[: found.start()][-24:])
    written, at = found["noun"], "w" if row else "przed" if compared else (found["at"] or "").strip().lower()
    ending, _, noun = _CASES_OF_YEARS.get(at, "ego").partition(" ")
    if written != "r.":
        ending, noun = (
            {"rokiem": "ym", "rokowi": "emu"}.get(written, "ym" if ending == "ym" and not noun else "ego"),
            written,
        )
    stop = _stop(found.string[found.end() :]) if written == "r." else ""
    return f"{found['at'] or ''}{_year(found['n'], ending, language)} {noun or 'roku'}{stop}"


def _house(text: str, language: Language) -> str:
    number = re.match(r"\d+", text)[0]  # type: ignore[index]
    return cardinal(number, language) + (f" {text[len(number) :]}" if len(text) > len(number) else "")


def _half(language: Language) -> Words:
    def words(found: re.Match[str]) -> str:
        after = found["after"] or found["later"] or ""
        said = _after_half(after)
        feminine = said.endswith(("y", "i"))
        number = found["whole"] or found["n"]
        if number == "1":
            return ("półtorej" if feminine else "półtora") + said
        if number == "0":
            return f"pół{said}"
        if found["n"] and polish_cases.GENITIVE_BEFORE.search(found.string[max(0, found.start() - 20) : found.start()]):
            return ELSEWHERE
        whole = cardinal(number, language, "minuta" if feminine else None)
        return f"{whole} i pół{said}"

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
