"""Times of a text's words from those of what is spoken for it, where numbers and short forms became words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from voxyard.speech.alignment.aligner import WordSpan


def text_times(
    words: Sequence[str], weights: Sequence[int], spoken: Sequence[str], times: Sequence[WordSpan | None]
) -> list[WordSpan]:
    """Times of these words of a text; `times` are those of the `spoken` words.

    Words that are spoken as they are written have the times of these. Between them, words of the text share the time
    of what is spoken for them by their weights, such as estimated durations. A word for which nothing is spoken has no
    duration, at the end of the one before it.
    """
    found: list[WordSpan | None] = [None] * len(words)
    matcher = SequenceMatcher(None, [_plain(word) for word in words], [_plain(word) for word in spoken], autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            found[first:last] = times[begin:end]
        elif kind == "replace":
            found[first:last] = _shared(weights[first:last], [each for each in times[begin:end] if each is not None])
    at = next((each[0] for each in found if each is not None), 0.0)
    filled = list[WordSpan]()
    for each in found:
        filled.append((at, at) if each is None else each)
        at = filled[-1][1]
    return filled


def _shared(weights: Sequence[int], times: Sequence[WordSpan]) -> list[WordSpan | None]:
    """The time from the first to the last of these, shared by the weights."""
    if not times:
        return [None] * len(weights)
    start, end = times[0][0], times[-1][1]
    total, passed = sum(weights) or 1, 0
    found = list[WordSpan | None]()
    for weight in weights:
        begin = start + (end - start) * passed / total
        passed += weight
        found.append((begin, start + (end - start) * passed / total))
    return found


def _plain(word: str) -> str:
    """The word without its case and punctuation; punctuation alone as it is."""
    return "".join(letter for letter in word.casefold() if letter.isalnum()) or word
