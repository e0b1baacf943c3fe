"""Sentence boundaries: sentencex finds the ends, further rules classify doubtful ones. Languages of paragraphs.

sentencex is fast, supports every language of Bark and gives exact positions. It fails on some blanks and control
characters, and is quadratic on some paragraphs: so it gets plain blanks and short blocks.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.text.boundaries import paragraphs

GOES_ON: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "de": "bspw ca dipl dr einschl evtl exkl fa frl geb gebr ggf hl hrn hrsg inkl prof sog st str tab ung vgl zzgl",
        "en": "approx capt col gen gov hon lt messrs ms prof rev sen sgt st vs",
        "es": "aprox avda dña dpto dr dra fr ing lic mons prof profa sr sra sres srta sto sta",
        "fr": "av bd cf d dr env m me mgr mlle mlles mm mme mmes pr prof st ste",
        "hi": "डॉ मि श्री सुश्री प्रो पं कु श्रीमती",
        "it": "avv dott dr geom ing mons prof rag sig sigg",
        "pl": "al dr gen hab im in inż ks lek mgr np os pkt pl por prof płk red św tj tzw ul",
        "pt": "arq av cap cel dr dra eng exma exmo prof profa sr sra srta sto sta séc",
        "ru": "акад гл е им кв корп напр обл пер пл пр проф св см тов ул",
        "tr": "alb av bkz cad doç dr gen hz mah müh op öğr örn prof sn sok yrd",
    }.items()
}

ENDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "de": "Art Jan",
        "es": "art bien da mar no",
        "fr": "art",
        "it": "ci fa ha mai mar mi ne no re sa so sol va ven vi via",
        "pt": "art",
        "ru": "кг км",
        "tr": "al o sen ver",
    }.items()
}
"""Words, in their own case, that the splitter takes for abbreviations: before a capital letter they end a sentence."""

_NUMBERED = (
    "abb abs abt art bd cap ch chap eq fig figs godz kap lic max mind n nn no nos nr num núm núms o op p pag page "
    "pagg par pkt pos pp pág págs rozdz rys s sec str tab tel tél vol vols ö г гл п рис с ст стр т табл тел रु"
)
BEFORE_A_NUMBER = frozenset(_NUMBERED.split())
"""In any language: abbreviations where a figure follows; elsewhere many of them are words, such as "no"."""


BLOCK = 8_000  # characters that sentencex gets at a time
_LOOK_BACK = 80  # characters that a rule sees before an end
_SAMPLE = 400  # characters that show the script of a paragraph

_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_ITEM = re.compile(r"[\n\r\x0b\x0c\x85\u2028]\s*(?=(?:[-*+•‣◦–—]|\(?(?:\d{1,3}|[A-Za-z]|[IVX]{2,5}|[ivx]{2,5})[.)])\s)")
_LAST_WORD = re.compile(r"([^\W\d_][\w\u0900-\u097f]*)\.$")
_MARKER = re.compile(
    r"[\n\r\x0b\x0c\x85\u2028]\s*\(?(?:\d{1,3}|[A-Za-z]|[IVX]{2,5}|[ivx]{2,5})[.)]$"
)  # of a list's item: its text follows
_INITIAL = re.compile(r"(?:[\s(«“„\"]|\.-)([^\W\d_])\.$")  # J.-P. Martin, K. García
_KOREAN_DATE = re.compile(r"\d{1,4}\.\s*\d{1,2}\.$")
_INSIDE = re.compile(r"[\s(]\.(?=[^\W_])")  # the full stop begins a word: .NET
_GLUED = re.compile(r".?[A-Z\d]\.[A-Za-z\d]")  # no end of a sentence without its blank: came.Then
_DASH = re.compile(r"[-–—]\s*(?=\w)")  # „…!” – zawołała
_CLOSING_QUOTES = tuple("\"'”’“»›」』")
_SAYS = {  # who said it, after what is quoted: the sentence goes on
    language: re.compile(pattern)
    for language, pattern in {
        "en": r"(?:[A-Z][\w.'’-]*\s+){1,3}(?:said|says|asked|cried|called|replied|answered|shouted|whispered)\b",
        "hi": r"[^।?!]{0,20}?(?:कहा|पूछा|बोला|बोली|बोले|चिल्लाया|चिल्लाई)",
        "ja": r"と|って",
        "ko": r"(?:이?라고|라며|하고)\s|[^.!?…]{0,15}?(?:물었|말했|외쳤|대답했|소리쳤|속삭였)",
        "zh": r"[的之]|[^。！？…“”]{0,8}?(?:说|說|问|問|喊|叫|答|笑)道?[。，,：:]",
    }.items()
}
_APART = re.compile(r"\([^()]{1,500}[.!?…][\"”’»]?\)\s+")  # (A sentence in brackets.)
_APART_WIDE = re.compile(r"（[^（）]{1,500}[。！？…]）\s*")
_SLASHED = re.compile(r"/[^\s/]{1,100}\.\s+")  # 3 m/s. example.com/a.b.
_TRAILING_OFF = re.compile(r"…[\"”’»]\s+")
_QUOTED_CHINESE = re.compile(r"[。！？…]”\s*(?=\w)")
_GERMAN_ORDINAL = re.compile(r"(?:^|\D)\d{1,2}\.$")
_GERMAN_ORDERED = re.compile(
    r"(?:Jahrhundert|Jahrtausend|Jh\.|Kapitel|Klasse|Stock|Etage|Mal|Tag|Geburtstag|Lebensjahr|Platz|Weltkrieg|Auflage)"
)
_LATIN = "LATIN"
_KANA = ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")
_SCRIPTS = {
    "ja": ("\u3040", "\u30ff"),
    "ko": ("\uac00", "\ud7a3"),
    "hi": ("\u0900", "\u097f"),
    "ar": ("\u0600", "\u06ff"),
    "ru": ("\u0400", "\u04ff"),
    "zh": ("\u4e00", "\u9fff"),
    "el": ("\u0370", "\u03ff"),
    "hy": ("\u0530", "\u058f"),
    "he": ("\u0590", "\u05ff"),
    "bn": ("\u0980", "\u09ff"),
    "pa": ("\u0a00", "\u0a7f"),
    "gu": ("\u0a80", "\u0aff"),
    "ta": ("\u0b80", "\u0bff"),
    "te": ("\u0c00", "\u0c7f"),
    "kn": ("\u0c80", "\u0cff"),
    "ml": ("\u0d00", "\u0d7f"),
    "si": ("\u0d80", "\u0dff"),
    "th": ("\u0e00", "\u0e7f"),
    "my": ("\u1000", "\u109f"),
    "ka": ("\u10a0", "\u10ff"),
    "am": ("\u1200", "\u137f"),
}
_PERSIAN = re.compile("[پچژگکی]")  # letters that Arabic does not have
_URDU = re.compile("[ٹڈڑںےہ]")  # and those that Persian does not have


@dataclass(frozen=True)
class Ends:
    """Positions after sentences and the blanks behind them; doubtful ones are used where a sentence is too long."""

    sure: list[int]
    doubtful: list[int]


def language_code(language: str | None) -> str | None:
    """`pt-BR` → `pt`. Raises SpeechError where it is no language code."""
    if language is None:
        return None
    if (found := _CODE.fullmatch(language)) is None:
        raise SpeechError(f"the language {language!r} is no language code, expected one such as en or pt-BR, or none")
    return found[1].lower()


def sentence_ends(text: str, language: str | None) -> Ends:
    """Sentence ends of one paragraph; its own end is always a sure one.

    Args:
        text: one paragraph.
        language: a code of two or three letters; None goes by the script, and takes Latin letters for English.

    Raises:
        SpeechError: sentencex has failed on this text.
    """
    language = language or _script(text)
    items = {match.end() for match in _ITEM.finditer(text)}
    sure, doubtful = set(items), []
    found = {*_found(text.translate(_plain()), language), *_missed(text, language)} - items
    for at in sorted(at for at in found if not _is_inside(text, at)):
        if at == len(text) or not _goes_on(text, at, language):
            sure.add(at)
        else:
            doubtful.append(at)
    return Ends(sorted({*sure, len(text)} - {0}), doubtful)


def _is_inside(text: str, at: int) -> bool:
    """True where an end would part a word or a name (ASP.NET, .NET), or leave a comma to the next sentence."""
    if at >= len(text):
        return False
    if _INSIDE.match(text, max(0, at - 2)) is not None or text[at] in ",;)]»":
        return True
    return text[at - 1] == "." and _GLUED.match(text, max(0, at - 3)) is not None


def _found(text: str, language: str) -> list[int]:
    """Every end but the last, found in blocks: each block begins at the last end of the one before."""
    found: list[int] = []
    start = 0
    while start < len(text):
        end = min(start + BLOCK, len(text))
        ends = [start + at for at in _ask(text[start:end], language)]
        inside = [at for at in ends if start < at < end]
        found += inside
        start = inside[-1] if inside and end < len(text) else end
    return found


def _ask(block: str, language: str) -> list[int]:
    import sentencex

    try:
        return [sentence["end_index"] for sentence in sentencex.get_sentence_boundaries(language, block)]
    except BaseException as failure:
        if type(failure).__name__ != "PanicException":  # of Rust, which is no Exception
            raise
        raise SpeechError(
            f"the sentence splitter failed on the text that begins {block[:60]!r}: {failure}. "
            "Please report it with that text; another language setting may get past it"
        ) from failure


def _goes_on(text: str, at: int, language: str) -> bool:
    """True where the sentence more likely goes on than ends at this position."""
    before = ("\n" if at <= _LOOK_BACK else "") + text[max(0, at - _LOOK_BACK) : at].rstrip()
    if before.endswith(_CLOSING_QUOTES) and language in _SAYS and _SAYS[language].match(text, at) is not None:
        return True
    if (dash := _DASH.match(text, at)) is not None and text[dash.end()].islower():
        return True
    return _MARKER.search(before) is not None or (before.endswith(".") and _is_short_for(text, at, before, language))


def _is_short_for(text: str, at: int, before: str, language: str) -> bool:
    """True where the full stop at the end of `before` belongs to an abbreviation, an initial or an ordinal number."""
    first = text[at]
    if first.islower() or (first == "-" and text[at - 1] == "."):
        return True
    if language == "ko" and _in_korean_date(before, first):
        return True
    if language == "de" and _GERMAN_ORDINAL.search(before) and _GERMAN_ORDERED.match(text, at):
        return True
    if (initial := _INITIAL.search(before)) is not None and initial[1].isupper() and first.isupper():
        return not (language == "en" and initial[1] == "I")
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    return word[1].lower() in (BEFORE_A_NUMBER if first.isdigit() else GOES_ON.get(language, ()))


def _in_korean_date(before: str, first: str) -> bool:
    return before[-2:-1].isdigit() and (first.isdigit() or _KOREAN_DATE.search(before) is not None)


def _missed(text: str, language: str) -> set[int]:
    """Ends that sentencex does not find: after a sentence in brackets, an address, a word like an abbreviation."""
    patterns = [_SLASHED, _TRAILING_OFF, *([_words_at_the_end(language)] if language in ENDS else [])]
    found = {each.end() for pattern in patterns for each in pattern.finditer(text)}
    found |= {each.end() for each in _APART.finditer(text) if _begins(text, each.start())}
    found = {at for at in found if at < len(text) and text[at].isupper()}
    found |= {each.end() for each in _APART_WIDE.finditer(text) if _begins(text, each.start())}
    if language == "zh":
        found |= {each.end() for each in _QUOTED_CHINESE.finditer(text)}
    return found


def _begins(text: str, at: int) -> bool:
    """True where the text before this position is complete."""
    return text[max(0, at - _LOOK_BACK) : at].rstrip()[-1:] in ("", *".!?…。！？")


@cache
def _words_at_the_end(language: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(sorted(ENDS[language]))})\.\s+")


def script_language(text: str) -> str | None:
    """The language that the letters at the beginning of a text tell; None for Latin ones, which tell none."""
    found = _script(text)
    return None if found == "en" else found


def _script(text: str) -> str:
    sample = text[:_SAMPLE]
    counts = {language: sum(low <= each <= high for each in sample) for language, (low, high) in _SCRIPTS.items()}
    language, most = max(counts.items(), key=lambda each: each[1])
    if counts["ja"]:
        return "ja"  # kana are found in Japanese only, however many Han characters stand between them
    if language == "ar" and _PERSIAN.search(sample) is not None:
        language = "ur" if _URDU.search(sample) is not None else "fa"
    return language if most > len(sample) / 4 else "en"


class _Plain(dict[int, str]):
    """Every blank and control character as one blank, so that positions stay."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        odd = character.isspace() or unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Zl", "Zp")
        self[code] = found = " " if odd else character
        return found


@cache
def _plain() -> _Plain:
    return _Plain()


@dataclass(frozen=True)
class LanguageSpan:
    """Paragraphs [start, end) of a text in one language; None where nothing tells it."""

    start: int
    end: int
    language: str | None


def language_spans(
    text: str, declared: Sequence[tuple[int, str | None]] = (), language: str | None = None
) -> tuple[LanguageSpan, ...]:
    """The languages of a text in its order, of whole paragraphs, each other than the one before.

    `declared` are the positions from which on a language is declared, None: that of the text, `language`. Where most
    letters of paragraphs are none of their language, these tell it; Latin letters tell none.
    """
    found = list[LanguageSpan]()
    for (own, script), run in groupby(_scripts(text, declared, language), lambda each: each[2:]):
        spans = list(run)
        start, end = spans[0][0], spans[-1][1]
        code = own if _is_own(own, script) else script_language(text[start:end]) or own
        if found and found[-1].language == code:
            start = found.pop().start
        found.append(LanguageSpan(start, end, code))
    return tuple(found)


def most_spoken(spans: Sequence[LanguageSpan]) -> str | None:
    """The language of most characters of a text."""
    lengths = Counter[str | None]()
    for span in spans:
        lengths[span.language] += span.end - span.start
    return max(lengths, key=lambda each: lengths[each], default=None)


def _scripts(
    text: str, declared: Sequence[tuple[int, str | None]], language: str | None
) -> Iterator[tuple[int, int, str | None, str]]:
    """Paragraphs with a letter, the languages that they declare, and the scripts of most of their letters."""
    places = [at for at, _ in declared]
    for start, end in paragraphs(text, places):
        at = bisect_right(places, start) - 1
        script = _script_of_most(text[start : min(end, start + _SAMPLE)])
        if script is not None:
            yield start, end, (declared[at][1] if at >= 0 else None) or language, script


def _is_own(language: str | None, script: str) -> bool:
    """True for a script of the language; its letters say nothing of a language whose script is not known."""
    rules = LANGUAGES.get((language or "en").partition("-")[0].lower())
    own = () if rules is None else rules.scripts
    return script == _LATIN or not own or script in own


def _script_of_most(text: str) -> str | None:
    """Script of most letters, by the first word of their names in Unicode; kana are of Chinese characters."""
    if text.isascii():
        return _LATIN if any(map(str.isalpha, text)) else None
    counts = Counter(_script_of(each) for each in text if each.isalpha())
    return max(counts, key=lambda each: counts[each], default=None)


@cache
def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return "CJK" if name in _KANA else name
