"""Numbers, amounts, dates, times, units, ordinals and abbreviations of a text in the words of its language.

This is the normaliser of the speech room and of the trainer. It is pure: no torch, no TensorFlow, no state; num2words
and Babel are imported when a text has something to read. A trainer's front end calls it before it looks up letters or
phonemes, on each sentence of a corpus and on each text that a voice is given, with the language of the clip:

    from voxyard.speech.reading.reader import READING_VERSION, read_words

    words = read_words("It cost $5.50 in 1999.", "en")  # It cost five dollars fifty in nineteen ninety-nine.

`READING_VERSION` belongs into what is stored with features and voices: another version may give other words. Languages
without rules, and None, are left as they are; so is a paragraph in the letters of another language.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from voxyard.speech.errors import check_wanted
from voxyard.speech.reading import german, marks, persian, russian
from voxyard.speech.reading.beginnings import Places
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.markup import Edit, EditedText, Span
from voxyard.speech.reading.options import KINDS, Kind
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.rules import Rule, rules

_log = logging.getLogger(__name__)

READING_VERSION = 17
"""Rises with every change that may give a text other words."""

WINDOW = 20_000
"""Characters that a rule looks at in one go."""
MARGIN = 2_000
"""Characters after these that it sees: more than any reading needs to be told."""
_SENTENCE_END = re.compile(r"(?:(?<=[^\W\d_]{4})\.|[!?…؟۔])[\"'”’»“)\]]*\s+(?=[^\W\da-z])|[。！？][”’」』）]*")
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_]{4})\s+(?=[^\W\d_]{4})")
_BREAK = re.compile(r"\n(?=[^\S\n]*\n)")  # between two paragraphs
_SOMETHING = re.compile(
    r"[\d_¼-¾⅐-ↂ²³¹⁰-₟①-⑳]|[^\w\s,;:'\"’“”„‘«»?!()—–…-]|[IVX]{2}|\b(?:Mme|Mlle|chapter|[A-Z][a-z]+ [IVXL]\b)"
)
_UNIT = re.compile(  # 120km/h, Tel. and XVIII tell no language
    r"(?<=\d)[A-Za-z/]{1,4}(?![A-Za-z])|\b(?i:tel|fax|e-?mail|mobile)\b|[!-~]*(?:@|://|www\.)[!-~]*|(?<![A-Za-z])[IVXLC]+(?![A-Za-z])"
)
_WORD = re.compile(r"[^\W\d_]+")
_BEFORE_NOUN = re.compile(
    r"(?:gr|Bd|Mio|Mrd|Bio|Tsd|Min|Std|Sek|Pers|Stk|St|Ex|Tbl|Kap|Pkt|Pr|Fl|\b[IVXLC]+)\.$"
)  # after which German has a noun more often than a new sentence
_ENDS = re.compile(r"[\"'”’»“)\]]*(?:\s*$|\s+[\"'“„«‚‘(\[¿¡–—-]*\s?(?P<first>[^\W_]))")


# 5 ft. 6 in.
_GOES_ON = re.compile(
    r"(?<=erm\.)\s+\d|\s+\d+\s?(?:in|oz|min|mins|secs?|sek|мин|сек|см|cm|mm|g|pence|p)\b", re.IGNORECASE
)
_COMMA_LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "sv")
_MEASURED = (
    r"°[CF]|[%‰]|[kcmµ]?m[²³]?|[kmµ]?g|[mcd]?l|[kKMGT]i?B|[kMG]?Hz|[kMGT]?Wh?|[km]?V|m?A|[kmM]?J|kcal|km/h|m/s|"
    r"[kMG]?bit/s|[KMG]bps|hPa|bar|ha|kN|dB|px|kΩ|Ω"
)
_COUNTED = (
    r"Grad|Prozent|Million(?:en)?|Milliarden?|Kilometer|Meter|Liter|degrés?|millions?|milliards?|grados|millones|gradi|"
    r"milion[ei]|miliard[oi]|graus|milh(?:ões|ão)|bilh(?:ões|ão)|graden|procent|miljoen|miljard|por ciento|per cento|"
    r"por cento|pour cent|stopni|procenta?|milion(?:y|ów)|miliard(?:y|ów)"
)
_COUNTED_SHORT = r"млн|млрд|трлн|тыс\.|M(?:io|rd)\.?|ml[nd]|mil|bi|milyon|milyar"
_POINT = re.compile(
    r"(?<![\w.,:/$€£])(?<![^\s(=][-−])(?<!v\.\s)(?P<whole>\d{1,4})\.(?=\d{1,2}(?:"
    rf"\s?(?:{_MEASURED})(?![\w/²³'’])|\s(?:{_COUNTED})(?!\w)))"
    r"|(?<=[=<>≤≥≈]\s)(?P<zero>0)\.(?=\d{1,6}(?!\d|\.\d))|(?<=[=<>≤≥≈])(?P<close>0)\.(?=\d{1,6}(?!\d|\.\d))"
    rf"|(?<=[$€£])(?P<priced>\d{{1,3}})\.(?=\d{{1,2}}\s(?:{_COUNTED}|{_COUNTED_SHORT})(?!\w))"  # $1.2 млрд
)


_WITHIN = re.compile(  # the end of a line within an amount: $3.2⏎million, 1⏎000, 5⏎km
    r"\n(?:(?<=\d\n)(?=[€$£¥%°‰]|\d{3}(?!\d)|[^\W\d_]{1,12}(?![^\W\d_]))|(?<=[€$£¥]\n)(?=\d))"
)


def read_words(text: str, language: str | None, kinds: Collection[Kind] = KINDS) -> str:
    """The text as it is spoken: what `kinds` names is in words, the rest as it was."""
    return EditedText(text, readings(text, language, kinds)).text


def readings(
    text: str, language: str | None, kinds: Collection[Kind] = KINDS, taken: Iterable[Span] = ()
) -> list[Edit]:
    """Edits that put what `kinds` names into words, in text order; nothing of the spans `taken` is read.

    What belongs to a kind that is not named stays whole: with currency off, the 5 of "$5" is not read either.
    """
    code, _, region = (language or "").replace("_", "-").lower().partition("-")
    rules_of = LANGUAGES.get(code)
    if rules_of is None or not kinds:
        return []
    written, text = text, _as_figures(_WITHIN.sub(" ", text), code)
    spans = sorted(taken)
    found: list[Edit] = []
    breaks = [each.start() for each in _BREAK.finditer(text)]
    places = Places(text, 0, 0)
    for begin, finish in zip([0, *(at + 1 for at in breaks)], [*breaks, len(text)], strict=True):
        for start, end in _windows(text, begin, finish):
            check_wanted()
            if _SOMETHING.search(text, start, end) and _is_written_in(rules_of, text[start:end]):
                if not places.has(start, end):  # of several paragraphs, for they are short
                    places = Places(text, start, min(max(end, start + WINDOW), start + WINDOW + MARGIN, len(text)))
                found += _read(places, text, start, end, (code, region), kinds, spans)
    if "symbols" in kinds and not written.isascii():
        taken_too = [*found, *(Edit(*span, "") for span in spans)]
        found = sorted([*found, *marks.narrow(written, taken_too)], key=lambda edit: edit.start)
    return found


def _windows(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph in parts that a rule reads in milliseconds: no other thread runs while one looks for a match.

    They end with a sentence, else between two words; a table of figures is never cut, but searched piece by piece.
    """
    while end - start > WINDOW:
        middle = start + WINDOW // 2
        cut = _SENTENCE_END.search(text, middle, start + WINDOW) or _BETWEEN_WORDS.search(text, middle, end)
        if cut is None:
            break
        yield start, cut.end()
        start = cut.end()
    yield start, end


def _matches(places: Places, pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterable[re.Match[str]]:
    """As `finditer`: in the places of a part of the text where they are known."""
    return places.matches(pattern, start, end) if places.has(start, end) else _in_windows(pattern, text, start, end)


def _in_windows(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """As `finditer`, in searches of a window each, which look `MARGIN` characters beyond it.

    What reaches the end of that is looked for once more, without an end: a match is the same however long it is. What
    begins in a window and is no match without more than the margin is not found.
    """
    while end - start > WINDOW + MARGIN:
        check_wanted()
        beyond, edge, looked = start + WINDOW, start + WINDOW + MARGIN, start
        for match in pattern.finditer(text, start, edge):
            if match.start() >= beyond:
                break
            if match.end() > edge - MARGIN // 2:
                match = pattern.search(text, match.start(), end) or match  # noqa: PLW2901
            yield match
            looked = match.end() + (match.end() == match.start())
            if looked >= beyond:
                break
        start = max(looked, beyond)
    yield from pattern.finditer(text, start, end)


_APOSTROPHES = re.compile(r"(?<=\d)['’](?=\d{3}(?:['’]\d{3})*(?![\d'’]))")  # 10'000 francs
_OF_MEXICO = re.compile(r"(?<=\$)\s?\d{1,3}(?:,\d{3})+(?:\.\d\d)?(?![\d,.]\d|\d)")  # $1,500.00
_ZEROS = "\N{FULLWIDTH DIGIT ZERO}\N{ARABIC-INDIC DIGIT ZERO}\N{EXTENDED ARABIC-INDIC DIGIT ZERO}"
_DIGITS = {ord(zero) + digit: str(digit) for zero in _ZEROS for digit in range(10)}
_DIGITS |= {ord(wide): usual for wide, usual in zip("＋＝％／＜＞", "+=%/<>", strict=True)}
_DIGITS |= {ord(wide) + letter: chr(ord(usual) + letter) for wide, usual in ("ＡA", "ａa") for letter in range(26)}
_RAISED = str.maketrans("ᵐᵉˡʳˢ", "melrs")  # Mᵐᵉ Dupont
_WIDE_COLON = re.compile("(?<=[0-9０-９])：(?=[0-9０-９])")  # 11：7


def _as_figures(text: str, code: str) -> str:
    """The text with digits of other scripts as those that the rules know, in the same places."""
    text = _APOSTROPHES.sub(LANGUAGES[code].groups[0], text)
    if code == "es":
        text = _OF_MEXICO.sub(lambda found: found[0].translate({44: ".", 46: ","}), text)
    text = _with_commas(text, code)
    if text.isascii():
        return text
    text = _WIDE_COLON.sub(":", text)
    if code == "fr":
        text = text.translate(_RAISED)
    return text.translate({**_DIGITS, **persian.LETTERS} if code == "fa" else _DIGITS)


def _read(
    places: Places,
    text: str,
    start: int,
    end: int,
    language: tuple[str, str],
    kinds: Collection[Kind],
    taken: list[Span],
) -> list[Edit]:
    used = bytearray(end - start)
    for span in taken:
        if max(span[0], start) < min(span[1], end):
            _take(used, max(span[0], start) - start, min(span[1], end) - start)
    found = list[Edit]()
    if language[0] == "ru" and set(kinds) >= set(KINDS):  # ru-normalizr knows no kinds
        for edit in russian.edits(text, start, end):
            if not any(used[edit.start - start : edit.end - start]):
                _take(used, edit.start - start, edit.end - start)
                found.append(edit)
    for rule in (each for each in rules(*language) if not each.needs or text.find(each.needs, start, end) >= 0):
        for match in _matches(places, rule.pattern, text, start, end):
            first, last = match.span()
            if first == last or any(used[first - start : last - start]):
                continue
            if rule.kind == "emoji" and "emoji" not in kinds:
                continue
            words = _words(rule, match)
            if words == ELSEWHERE:
                continue
            _take(used, first - start, last - start)
            if words is not None and rule.kind in kinds:
                found.append(Edit(first, last, words + _full_stop(rule.kind, match, words, end, language[0])))
    return sorted(found, key=lambda edit: edit.start)


def _words(rule: Rule, match: re.Match[str]) -> str | None:
    """Words of what a rule found; an error of the rule costs a line in the log and its match, no document."""
    try:
        return rule.words(match)
    except (ArithmeticError, LookupError, NotImplementedError, ValueError) as error:
        shape = _LETTER.sub("x", match[0])  # a log has no words of a text
        _log.error("%s: %r is left to other rules: %s; please report it", rule.kind, shape, type(error).__name__)
        return ELSEWHERE


_LETTER = re.compile(r"[^\W\d_]")


def _full_stop(kind: Kind, match: re.Match[str], words: str, end: int, code: str) -> str:
    """A full stop where that of an abbreviation, as of a unit or a month, ends the sentence too."""
    if kind in ("abbreviations", "ordinals", "symbols") or not match[0].endswith(".") or words.endswith("."):
        return ""
    after = _ENDS.match(match.string, match.end(), end)
    if "short" in match.re.groupindex and after is not None and (after["first"] or "").isdigit():
        return ""  # 1 cp. 3x/jour
    if (
        after is None
        or "(" in after[0]
        or (after["first"] is not None and not (after["first"].isupper() or after["first"].isdigit()))
    ):
        return ""
    if code == "en" and match[0].endswith("sp.") and after["first"] is not None:
        return ""  # 2 Tbsp. Worcestershire sauce
    if _GOES_ON.match(match.string, match.end(), end):
        return ""
    if code == "de" and after["first"] is not None and _BEFORE_NOUN.search(match[0]) is not None:
        word = _WORD.match(match.string, after.start("first"))
        return "." if word is not None and german.begins_sentence(word[0]) else ""
    return "."


def _take(used: bytearray, start: int, end: int) -> None:
    used[start:end] = b"\1" * (end - start)


def _is_written_in(language: Language, paragraph: str) -> bool:
    """True where at least half of the letters, or a fifth of characters, are of its scripts, or there are none."""
    letters = [each for each in _UNIT.sub("", paragraph[:2000]) if each.isalpha() and each not in "ºª"]
    own = sum(_script(each) in language.scripts for each in letters)
    latin = 2 if "LATIN" in language.scripts else 4  # iPhone 15 Pro стоит
    least = latin if language.spaced else 5  # a character is a word, beside the letters of one
    return least * own >= len(letters)


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]


def _with_commas(text: str, code: str) -> str:
    """Decimals with a comma, where the language writes one: 3.5 °C, 1.5 Millionen, p = 0.05.

    A point before three figures may part thousands, and stays.
    """
    if code not in _COMMA_LANGUAGES or "." not in text:
        return text
    return _POINT.sub(lambda found: f"{found['whole'] or found['zero'] or found['close'] or found['priced']},", text)
