"""Lines of a plain text: whether each is a paragraph, or a paragraph is wrapped to several."""

from __future__ import annotations

import re
import unicodedata

_FEWEST = 3  # lines in a row by which it is told
_GOING_ON = 0.12  # share of lines that begin as a sentence goes on: of wrapped text it is far more
_ENDED = 0.6  # share of lines that end a sentence, or are a heading
_FULL = 0.5  # share of lines as long as the longest, of wrapped text
_NEARLY = 0.85  # of the longest line's length
_VERSE = 60  # characters of a line of verse, at most
_SHORT = 30  # characters of a line that is a heading or an exclamation
_SENTENCE_ENDS = tuple('.!?…。！？؟۔」』”"’»:：;；؛')
_BROKEN = re.compile(r"(?<![\w-])((?:\w+-)*)(\w{2,})-\n[^\S\n]*([a-zà-öø-ÿ]{2,})(?P<more>-\w)?")
_SHARED = frozenset(["und", "oder", "bis", "sowie", "bzw", "noch", "als", "auch"])  # Vor- und Nachteile
_HYPHENATED = re.compile(  # words that keep their hyphen
    r"(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-\w+|\w*\d\w*-\w+|\w+-(?:year|old|in-law)|"
    r"(?:vingt|trente|quarante|cinquante|soixante|quatre|dix|grand|peut|demi|celui|celle|ceux|celles|non)-\w+|"
    r"\w+-(?:il|elle|on|ils|elles|je|tu|nous|vous|ce|ci|là|moi|toi|lui|leur|même|mêmes)"
)


def with_paragraphs(text: str) -> str:
    """The text with an empty line after each line, where its lines are paragraphs; else with its broken words joined.

    Lines are paragraphs (of a dialogue, a poem, a novel) where they begin as sentences do, or, in letters without case,
    end as they do; text that is wrapped at a width stays as it is. A word that is broken at the end of a line is joined
    where it is no compound, and the text nowhere has it with its hyphen.
    """
    runs = [block.split("\n") for block in text.split("\n\n")]
    inner = [line for lines in runs if len(lines) > 1 for line in lines[1:] if line.strip()]
    lines = [line for each in runs if len(each) > 1 for line in each if line.strip()]
    if len(inner) >= _FEWEST and _are_paragraphs(inner, lines):
        return "\n\n".join("\n\n".join(line.strip() for line in each if line.strip()) for each in runs)
    return _BROKEN.sub(lambda found: _joined(found, text), text)


def _are_paragraphs(inner: list[str], lines: list[str]) -> bool:
    longest = max(map(len, lines))
    full = sum(len(line) >= _NEARLY * longest for line in lines) / len(lines)
    if not any(_has_case(line) for line in inner):
        return sum(line.strip().endswith(_SENTENCE_ENDS) for line in lines) >= _ENDED * len(lines)
    ended = sum(_ends(line) for line in lines) / len(lines)
    if all(line.upper() == line for line in inner if _has_case(line)):
        return False  # all in capitals: where a sentence begins is not told
    going_on = sum(_goes_on(line) for line in inner) / len(inner)
    return going_on <= _GOING_ON and (full < _FULL or ended >= _ENDED or longest <= _VERSE)


def _has_case(line: str) -> bool:
    return line.lower() != line.upper()


def _goes_on(line: str) -> bool:
    first = next((each for each in line if each.isalnum()), "")
    return first.islower()


def _ends(line: str) -> bool:
    line = line.strip()
    return line.endswith(_SENTENCE_ENDS) or (len(line) < _SHORT and unicodedata.category(line[-1])[0] in "LN")


def _joined(found: re.Match[str], text: str) -> str:
    before, first, last, more = found[1], found[2], found[3], found["more"] or ""
    if last in _SHARED:
        return f"{before}{first}- {last}{more}"
    hyphenated = f"{first}-{last}"
    known = re.search(rf"(?<!\w){re.escape(hyphenated)}(?!\w)", text) is not None
    keeps = before or more or known or _HYPHENATED.fullmatch(hyphenated.lower())
    return f"{before}{hyphenated if keeps else first + last}{more}"
