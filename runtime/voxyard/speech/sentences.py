"""Where sentences end: sentencex finds the ends, a few rules of ours say which of them are doubtful.

sentencex is fast, has every language that Bark speaks and gives exact positions. It stumbles over some blanks and
control characters, and its time grows with the square of some paragraphs: so it sees plain blanks and short blocks.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from voxyard.speech.abbreviations import BEFORE_A_NUMBER, GOES_ON
from voxyard.speech.errors import SpeechError

BLOCK = 8_000  # characters that sentencex gets at a time
_LOOK_BACK = 80  # characters that a rule sees before an end
_SAMPLE = 400  # characters that show the script of a paragraph

_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_ITEM = re.compile(r"[\n\r\x0b\x0c\x85\u2028]\s*(?=(?:[-*+•‣◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])\s)")
_LAST_WORD = re.compile(r"([^\W\d_][\w\u0900-\u097f]*)\.$")
_MARKER = re.compile(r"[\n\r\x0b\x0c\x85\u2028]\s*\(?(?:\d{1,3}|[A-Za-z])[.)]$")  # of a list's item: its text follows
_QUOTATIVE = re.compile(r"と|って")  # 「…」と言った: the sentence goes on after what is quoted
_SCRIPTS = {
    "ja": ("\u3040", "\u30ff"),
    "ko": ("\uac00", "\ud7a3"),
    "hi": ("\u0900", "\u097f"),
    "ar": ("\u0600", "\u06ff"),
    "ru": ("\u0400", "\u04ff"),
    "zh": ("\u4e00", "\u9fff"),
}


@dataclass(frozen=True)
class Ends:
    """Positions behind sentences and the blanks after them. The doubtful ones serve where a sentence is too long."""

    sure: list[int]
    doubtful: list[int]


def language_code(language: str | None) -> str | None:
    """`pt-BR` → `pt`. Raises SpeechError for what is no language code."""
    if language is None:
        return None
    if (found := _CODE.fullmatch(language)) is None:
        raise SpeechError(f"the language {language!r} is no code: give one such as en or pt-BR, or none at all")
    return found[1].lower()


def sentence_ends(text: str, language: str | None) -> Ends:
    """The ends of the sentences of one paragraph; its own end is always a sure one.

    Args:
        text: one paragraph.
        language: a code of two or three letters; None goes by the script, and takes Latin letters for English.

    Raises:
        SpeechError: sentencex has failed on this text.
    """
    language = language or _script(text)
    items = {match.end() for match in _ITEM.finditer(text)}
    sure, doubtful = set(items), []
    for at in _found(text.translate(_plain()), language):
        if at in items or not _goes_on(text, at, language):
            sure.add(at)
        else:
            doubtful.append(at)
    return Ends(sorted({*sure, len(text)} - {0}), doubtful)


def _found(text: str, language: str) -> list[int]:
    """Every end but the last one, in blocks: each begins at the last end that the one before it found."""
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
        if type(failure).__name__ != "PanicException":  # Rust's, which is no Exception and would end a worker
            raise
        raise SpeechError(
            f"the sentence splitter failed on the text that begins {block[:60]!r}: {failure}. "
            "Please report it with that text; another language setting may get past it"
        ) from failure


def _goes_on(text: str, at: int, language: str) -> bool:
    """Whether the sentence more likely goes on than ends at this position."""
    before = ("\n" if at <= _LOOK_BACK else "") + text[max(0, at - _LOOK_BACK) : at].rstrip()
    first = text[at]
    if language == "ja":
        return before.endswith(("」", "』")) and _QUOTATIVE.match(text, at) is not None
    if _MARKER.search(before) is not None:
        return True
    if not before.endswith("."):
        return False
    if first.islower():
        return True
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    return word[1].lower() in (BEFORE_A_NUMBER if first.isdigit() else GOES_ON.get(language, ()))


def _script(text: str) -> str:
    sample = text[:_SAMPLE]
    counts = {language: sum(low <= each <= high for each in sample) for language, (low, high) in _SCRIPTS.items()}
    language, most = max(counts.items(), key=lambda each: each[1])
    if counts["ja"]:
        return "ja"  # kana are found in Japanese only, however many Han characters stand between them
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
