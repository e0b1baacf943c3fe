"""German ordinals with the ending that their sentence asks for: am dritten, der dritte, ihr zweites Buch."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import roman
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.number_words import cardinal, ordinal
from voxyard.speech.reading.tables import table

_BEFORE = 60  # characters that are looked at before an ordinal
_ROW = re.compile(
    r"(?:(?:[IVXLC]+|\d{1,4})\.(?:\d{1,2}\.(?:\d{4}|\d\d)?)?"
    r"(?:,| ?[–-]| ?/|\s(?:und|oder|bis|sowie|bzw\.|beziehungsweise))\s?)+$"
)
_EN = re.compile(
    r"(?<=geb\. )$|(?<=gest\. )$|"
    r"(?:(?<=\()|(?<=[;,] )|(?=†))[*†]\s?$|\b(?:v\.|am|dem|den|des|vom|zum|zur|beim|im|ersten|jeden|jedem|"
    r"(?:[mdsk]?ein|unser|ihr|eur|dies|jen|welch)(?:e[mnrs]))\s+$",
    re.IGNORECASE,
)
_EN_OF_DATES = re.compile(r"\b(?:ab|seit|bis|nach|vor)\s+$", re.IGNORECASE)
_E = re.compile(
    r"\b(?:jedes?|die|das|ins|ans|aufs|fürs|(?:[mdsk]?ein|unser|ihr|eur|dies|jen|welch)e|dieses|jenes|welches)\s+$",
    re.IGNORECASE,
)
_DER = re.compile(r"\b(?:der|dieser|jener|jeder|welcher)\s+$", re.IGNORECASE)
_DATIVE_DER = re.compile(
    r"\b(?:in|an|auf|mit|bei|nach|von|zu|aus|seit|während|wegen|trotz|statt|vor|hinter|über|unter|neben|zwischen|ab|"
    r"gegenüber|innerhalb|außerhalb|Ende|Anfang|Mitte|[^\W\d_]+(?:ung|en|s))\s(?:der|dieser|jener|jeder|welcher)\s+$"
)
_MIXED = re.compile(r"\b(?:[mdsk]?ein|unser|ihr|euer)\s+$", re.IGNORECASE)
_PREPOSITION = re.compile(r"\b(?:in|an|auf|mit|bei|nach|von|zu|aus|seit|vor|ab)\s+$", re.IGNORECASE)
_OF_NAME = re.compile(
    r"(?:\b(?P<preposition>(?i:in|an|auf|mit|bei|nach|von|zu|aus|seit|vor))\s)?\b[A-ZÄÖÜ][^\W\d_]{2,}s\s$"
)
_DATIVE = re.compile(r"\b(?:aus|bei|mit|nach|seit|von|zu|in|vor|ab|innerhalb von|binnen)\s$", re.IGNORECASE)
_GENITIVE = re.compile(r"\b(?:wegen|während|trotz|statt|anstatt|innerhalb|außerhalb|aufgrund)\s$", re.IGNORECASE)
_ACCUSATIVE = re.compile(r"\b(?:für|um|durch|ohne|gegen|pro|je)\s$", re.IGNORECASE)
_AFTER_NOUN = re.compile(r"(?<=[a-zäöüß,] )[A-ZÄÖÜ][a-zäöüß]+\s$")
_MEASURE = re.compile(
    r"(?:Kilo|Zenti|Milli|Dezi)?(?:[Mm]eter|[Ll]iter|[Gg]ramm)\b|Euro\b|Dollar\b|Cent\b|Grad\b|Prozent\b|Pfund\b"
)
_NOUN = re.compile(r"\s+(?:[a-zäöü][^\W\d_]*e[nrsm]?\s+){0,2}([A-ZÄÖÜ][^\W\d_]+)")  # adjectives may stand before it
_DAY_OF_WEEK = re.compile(  # am Do., 05.12.
    r"\b(?:am|vom|zum|bis|ab|den|dem)\s(?:(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Sonnabend|Mo|Di|Mi|Do|Fr|Sa|So)"
    r"(?:\.?,|\.)\s$",
    re.IGNORECASE,
)
_STRONG = {"masculine": "r", "neutral": "s", "feminine": ""}


def before_row(found: re.Match[str]) -> str:
    """The text before a number, and before those of its row: am 24., 25. und 31.12."""
    return _ROW.sub("", found.string[max(0, found.start() - _BEFORE) : found.start()])


def inflected(found: re.Match[str], number: int, *, date: bool = False) -> str | None:
    """The ordinal with its ending; None where that cannot be known.

    A day of a month is masculine, and has an ending in any place.
    """
    before = before_row(found)
    stem = ordinal(number, LANGUAGES["de"])
    gender = "masculine" if date else _gender(found)
    if date and _DAY_OF_WEEK.search(before):
        return f"den {stem}n"
    if _DER.search(before):
        masculine = gender in ("masculine", None) and _DATIVE_DER.search(before) is None
        return stem if masculine else stem + "n"
    if _E.search(before):
        return stem
    if _EN.search(before) or (date and _EN_OF_DATES.search(before)):
        return stem + "n"
    if gender is not None and _MIXED.search(before):
        return stem + _STRONG[gender]
    if date:
        return stem + "r"
    if gender is not None and _PREPOSITION.search(before):
        return stem + ("r" if gender == "feminine" else "m")
    if gender is not None and (name := _OF_NAME.search(before)):  # Beethovens neunte, in Beethovens neunter Sinfonie
        return stem + (_STRONG[gender] if name["preposition"] is None else "r" if gender == "feminine" else "m")
    if gender is not None and (not before.strip() or before.rstrip()[-1] in ",:;(–"):
        return None if not before.strip() else stem + _STRONG[gender]  # at a line's beginning: of a list
    if (place := _PLACE.search(before)) and _AFTER_PLACE.match(found.string, found.end()):
        return stem + ("" if place["she"] else "r")  # er wurde dritter, sie wurde zweite
    if gender is not None and re.search(r"[a-zäöüß]\s$", before) and not before.rstrip().endswith("."):
        return stem + _STRONG[gender] if re.search(r"\b(?:und|oder|als|wie|ist|war|wird|bleibt)\s$", before) else None
    return None


def is_dative(before: str, noun: str) -> bool:
    """True where a plural has an n after these words: mit 24 Punkten."""
    return noun.endswith(("Punkte", "Exemplare", "Tage")) and _DATIVE.search(before) is not None


_COUNTED_ROW = re.compile(  # mit 1 Bild und
    r"(?:(?:\d+(?:/\d+)?|[½¼¾])\s(?:[a-zäöü][^\W\d_]*e[nrsm]\s)?[A-ZÄÖÜ][^\W\d_]+(?:\s[A-ZÄÖÜ][^\W\d_]+)?(?:,\s|\s(?:und|oder|sowie|bzw\.)\s))+$"
)


_PLACE = re.compile(
    r"(?:\b(?P<she>[Ss]ie|Frau\s\w+)\s(?:(?:[^.!?;]|\.(?=\s[a-zäöü])){0,50}\s)?)?\b(?:wurde|wird|(?:kam\s|lief\s|landete\s)?als)\s$"
)
_AS = re.compile(  # sie kam als 1., not mehr als 1.
    r"\b(?!(?:mehr|weniger|anders|früher|später|nichts|(?!wieder|immer|hier)[a-zäöüß]{3,}er)\s)(?:[^\W\d_]+)\sals\s$"
)


def place_at_end(before: str, number: int) -> str | None:
    """Sie kam als erste, er als zweiter: a place with which a sentence ends; None after other words."""
    if _AS.search(before) is None:
        return None
    she = re.search(r"\b(?:[Ss]ie|Frau\s\w+)\s[^.!?;]{0,30}$", before) is not None
    return ordinal(number, LANGUAGES["de"]) + ("" if she else "r")


_AFTER_PLACE = re.compile(r"\s(?:über|ins|im|in|auf|bei|beim|hinter|vor|mit|am|an|nach|von|durchs|und)\s|,\s[a-zäöüß]")


def one(before: str, noun: str, *, measured: bool = True) -> str | None:
    """The number 1 as it stands after these words and before a noun; None where its case or gender is not known.

    A unit has none but "ein", unless `measured` is false.
    """
    before = _COUNTED_ROW.sub("", before)
    gender = table("de").gender(noun)
    if gender is None:
        return "eins" if _AFTER_NOUN.search(before) else None  # Formel 1 Fahrer
    if _DATIVE.search(before):
        return "einer" if gender == "feminine" else "einem"
    if _GENITIVE.search(before):
        return "einer" if gender == "feminine" else "eines"
    if gender == "masculine" and _ACCUSATIVE.search(before):
        return "einen"
    if measured and _MEASURE.match(noun):
        return "ein"  # as 1 € and 1 m are read
    if gender == "masculine":
        return _masculine_one(re.split(r"[.!?:;]\s", before)[-1])
    return "eine" if gender == "feminine" else "ein"


def _masculine_one(clause: str) -> str | None:
    """Wir haben einen Hund, ein Hund und zwei Katzen; None where no verb of the clause tells the case."""
    verbs = list(_VERB_OF_CASE.finditer(clause))
    if not verbs:  # of a list, or the beginning of a sentence
        return "ein" if re.fullmatch(r"[\W\d]*(?:(?:und|oder|k?g|[cdm]?l|[A-ZÄÖÜ][^\W\d_]+)[\W\d]*)*", clause) else None
    return "einen" if verbs[-1]["accusative"] else "ein"


_VERB_OF_CASE = re.compile(
    r"(?<!\w)(?:(?P<accusative>es\sgibt|gibt\ses|gab\ses|es\sgab|ha(?:be|ben|st|t|tte|tten|ttest)|besitz\w*|besaß\w*|brauch\w*|kauf\w*|teil(?:e|en|t|te|ten)|"
    r"bekomm\w*|bekam\w*|nehm\w*|nimm\w*|nahm\w*|seh\w*|sieh\w*|sah\w*|find\w*|fand\w*|such\w*|ess\w*|isst|trink\w*|enthält|"
    r"enthalten|bestell\w*|benötig\w*|erhielt\w*|erhalt\w*|erhält)|"
    r"ist|war|sind|waren|wird|wurde|lebt|leben|wohnt|kommt|kam|steht|stehen|stand|standen|liegt|liegen|lag|lagen|hing|hingen|bleibt|blieb|fehlt|starb|genügt|reicht)(?!\w)",
    re.IGNORECASE,
)


def compounds() -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    """Dreimal, fünfundzwanzigjährig, which German writes as one word; des 14. Jh., und 1 weiße."""
    ends = (
        "jährig|tägig|stündig|minütig|sekündig|monatig|wöchig|köpfig|stellig|fach|mal|prozentig|teilig|stöckig|spurig"
    )
    ends += "|seitig|türig|gängig|stufig|bändig|zeilig|jährlich|stündlich|tägig|gliedrig|zügig|sprachig|silbig"
    pattern = re.compile(rf"(?<![\w.,/–-])(?P<n>\d{{1,4}})-?(?=(?:{ends}))")
    superlatives = "größt|höchst|ältest|jüngst|best|schnellst|längst|kleinst|stärkst|wichtigst|schlechtest|beliebtest|"
    superlatives += (
        "häufigst|tiefst|reichst|niedrigst|teuerst|schwerst|meist|letzt|bevölkerungsreichst|erfolgreichst|nächst"
    )
    place = re.compile(rf"(?<![\w.,/–-])(?P<n>\d{{1,3}})(?:\.?-|\.\s)(?=(?:{superlatives})e[nmrs]?(?!\w))")
    articles = {"e": "eine", "en": "einen", "er": "ein", "es": "ein"}
    without_noun = re.compile(r"(?<=\bund )1(?=\s[a-zäöüß]{2,}(?P<end>e[nrs]?)(?:[.,;!?]|$))")  # 3 schwarze und 1 weiße
    life = r"(?:(?<=\()|(?<=[;,] )|(?=†))(?P<sign>[*†])\s?(?=(?:um |ca\. )?\d{1,4}(?P<day>\.\s?(?:[A-ZÄÖÜ]|\d))?)"
    counted = "Zwiebel|Kartoffel|Ei(?:er)?|Tomate|Apfel|Äpfel|Möhre|Karotte|Paprika|Zucchini|Aubergine|Gurke|Zitrone|"
    counted += (
        "Orange|Birne|Dose|Gl[aä]s|Knoblauch|Zehe|Bund|Topf|Pfanne|Schüssel|Becher|Packung|Flasche|Kopf|Knolle|Stück"
    )
    size = rf"(?P<size>kl\.|gr\.(?=\s(?:{counted})))\s(?=(?P<noun>[A-ZÄÖÜ][a-zäöüß]+))"
    docket = r"(?P<n>[1-9]\d?|[IVX]+[a-d]?)(?P<kind>\s[A-Z][A-Za-z]{0,3}\s)(?P<number>\d{1,5})/(?P<year>\d\d)(?![\w/])"
    law = re.compile(r"(?<=BGBl\. )I{1,3}(?=\s(?:S\.|Nr\.|\d))")
    century = re.compile(r"(?:(?<=\b[Dd]es \d\. )|(?<=\b[Dd]es \d\d\. ))Jhd?\.")
    return [
        (pattern, lambda found: re.sub("eins$", "ein", cardinal(found["n"], LANGUAGES["de"]))),
        (place, lambda found: ordinal(int(found["n"]), LANGUAGES["de"]).removesuffix("e")),  # 2.-größte
        (without_noun, lambda found: articles[found["end"]]),
        (re.compile(rf"(?<![\w.,/–-])(?P<n>[1-9])\s{size}"), _sized),
        (re.compile(rf"(?<![\w.,/–-]){docket}"), _docket),  # 1 BvR 2656/18
        (century, lambda _: "Jahrhunderts"),
        (  # S. 12ff.
            re.compile(r"(?<=\bS\. )(?P<n>\d{1,4})ff?\.(?!\w)"),
            lambda found: f"{cardinal(found['n'], LANGUAGES['de'])} folgende",
        ),
        (re.compile(r"(?<=\d\.)[–-](?=\d{1,2}\.\s[A-ZÄÖÜ])"), lambda _: " bis "),  # in den 2.–5. Stock
        (law, lambda found: f"Teil {cardinal(str(len(found[0])), LANGUAGES['de'])}"),
        (  # (* 28. August 1749; † 1832)
            re.compile(life),
            lambda found: f"{'geboren' if found['sign'] == '*' else 'gestorben'} {'am ' if found['day'] else ''}",
        ),
    ]


def _docket(found: re.Match[str]) -> str:
    """Eins BvR zweitausend siebzehn, sechs a ZR fünf einundzwanzig."""
    numeral, end = re.fullmatch(r"(\d+|[IVX]+)(.?)", found["n"]).groups()  # type: ignore[union-attr]
    first = numeral if numeral.isdigit() else str(roman.value(numeral))
    figures = [cardinal(str(int(each)), LANGUAGES["de"]) for each in (first, found["number"], found["year"])]
    return f"{figures[0]}{f' {end}' * bool(end)}{found['kind']}{figures[1]} {figures[2]}"


_SIZED = {"gr.": "große", "kl.": "kleine"}
_OF_ONE = {"ein": ("r", "s"), "einen": ("n", "s"), "eine": ("", "")}


def _sized(found: re.Match[str]) -> str:
    """Eine große Zwiebel, ein kleiner Topf, mit einer kleinen Dose."""
    size = _SIZED[found["size"]]
    if found["n"] != "1":
        return f"{cardinal(found['n'], LANGUAGES['de'])} {size} "
    article = one(found.string[max(0, found.start() - _BEFORE) : found.start()], found["noun"]) or "eine"
    neutral = table("de").gender(found["noun"]) == "neutral"
    return f"{article} {size}{_OF_ONE.get(article, ('n', 'n'))[neutral]} "


def begins_sentence(word: str) -> bool:
    """True for a word that more often begins a sentence after a full stop than is counted by a number before it."""
    return word in table("de").starters


def _gender(found: re.Match[str]) -> str | None:
    noun = _NOUN.match(found.string[found.end() : found.end() + 80])
    return table("de").gender(noun[1]) if noun else None
