"""Lines of a plain text: whether each is a paragraph, or a paragraph is wrapped to several."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, zip_longest

from voxyard.extraction.titles import chapter_title

_FEWEST = 3  # lines in a row by which it is told
_GOING_ON = 0.12  # share of lines that begin as a sentence goes on: of wrapped text it is far more
_ENDED = 0.6  # share of lines that end a sentence, or are a heading
_FULL = 0.5  # share of lines as long as the longest, of wrapped text
_NEARLY = 0.85  # of the longest line's length
_VERSE = 60  # characters of a line of verse, at most
_SHORT = 30  # characters of a line that is a heading or an exclamation
_FEWEST_SPACED, _SPACED = 5, 0.35  # lines of print that are apart, and the share of those that go on
_NARROWEST, _WIDEST = 30, 120  # characters of the longest
_FULL_SHARE = 0.6  # of the longest line's length
_LETTERS = 0.85  # of the signs, with blanks
_MOST_INDENTED = 0.5  # of the lines, where these begin paragraphs
_WIDE_BLANK = "\u3000"
_INDENTED = re.compile(r"(?:[^\S\n]{2,}|\u3000)(?=\S)")
_PAGE_NUMBER = re.compile(r"[-–—\[(|\s]*(?:page|pg\.?|p\.|seite|s\.)?\s*(?P<number>\d{1,4})[-–—\])|\s]*", re.IGNORECASE)
_FEWEST_LETTERS = 4  # of the head of a page
_LONGEST_HEAD = 60  # characters of the head of a page
_MOST_PAGES = 2  # from one head to the next, where left and right pages have others
_NUMBERED_HEAD = re.compile(
    r"(?P<before>\d{1,4})[^\S\n]{2,}(?P<head>[^\W\d].*[^\W\d_]\W*)|(?P<first>[^\W\d].*[^\W\d_]\W*?)[^\S\n]{2,}(?P<after>\d{1,4})"
)
_SENTENCE_ENDS = tuple('.!?…。！？؟۔」』”"’»:：;；؛')
_BROKEN = re.compile(r"(?<![\w-])((?:\w+-)*)(\w{2,})-\n[^\S\n]*([a-zà-öø-ÿ]{2,})(?P<more>-\w)?")
_SHARED = frozenset(["und", "oder", "bis", "sowie", "bzw", "noch", "als", "auch"])  # Vor- und Nachteile
COMPOUND = r"(?:well|self)-(?!ish|ness)\w{3,}|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-\w+"
"""Pattern of English words that keep their hyphen where a line ends with it."""

_HYPHENATED = re.compile(
    rf"{COMPOUND}|\w*\d\w*-\w+|\w+-(?:year|old|in-law)|"
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
    text = _with_indented_paragraphs(_single_spaced(runs))
    runs = [block.split("\n") for block in text.split("\n\n")]
    inner = [line for lines in runs if len(lines) > 1 for line in lines[1:] if line.strip()]
    lines = [line for each in runs if len(each) > 1 for line in each if line.strip()]
    if len(inner) >= _FEWEST and _are_paragraphs(inner, lines):
        return "\n\n".join("\n\n".join(line.strip() for line in each if line.strip()) for each in runs)
    return joined_words(text)


def _single_spaced(runs: list[list[str]]) -> list[list[str]]:
    """The lines in paragraphs, where an empty line is between all of them, as some programs print a text."""
    going_on = lines_going_on([each[0] for each in runs])
    if not any(going_on) or any(len(each) > 1 for each in runs):
        return runs
    found: list[list[str]] = []
    for each, goes_on in zip(runs, going_on, strict=True):
        if goes_on:
            found[-1] += each
        else:
            found.append(each)
    return found


def lines_going_on(lines: Sequence[str]) -> list[bool]:
    """Which of a text's paragraphs are lines that go on with the one before, where print had them in one paragraph.

    Then all are short, and many begin with a small letter; a short line that ends a sentence ends a paragraph.
    """
    longest = max(map(len, lines), default=0)
    small = sum(_goes_on(line) for line in lines[1:])
    full = sum(len(line) >= _FULL_SHARE * longest for line in lines)
    if (
        len(lines) < _FEWEST_SPACED
        or small < _SPACED * len(lines)
        or full < _FULL * len(lines)
        or not _NARROWEST <= longest <= _WIDEST
        or sum(sign.isalpha() or sign.isspace() for line in lines for sign in line) < _LETTERS * sum(map(len, lines))
    ):
        return [False] * len(lines)
    going_on = [False]
    for before, line in pairwise(lines):
        ended = before.rstrip().endswith(_SENTENCE_ENDS) and len(before) < _NEARLY * longest
        going_on.append(not ended and (_goes_on(line) or len(before) >= _FULL * longest))
    return going_on


def joined_words(text: str) -> str:
    """A paragraph with its words whole that are broken at the ends of its lines."""
    return _BROKEN.sub(lambda found: _joined(found, text), text)


def _with_indented_paragraphs(runs: list[list[str]]) -> str:
    """The text with an empty line before each line that is indented, where these begin paragraphs, as in print.

    They follow the end of a sentence, and most lines are not indented: verses are.
    """
    pairs = [pair for lines in runs for pair in pairwise(lines)]
    after = [before for before, line in pairs if _INDENTED.match(line)]
    ended = sum(before.strip().endswith(_SENTENCE_ENDS) for before in after)
    if not after or len(after) > _MOST_INDENTED * len(pairs) or ended < _NEARLY * len(after):
        return "\n\n".join("\n".join(lines) for lines in runs)
    return "\n\n".join(
        "\n".join(lines[:1] + [f"\n{line.lstrip()}" if _INDENTED.match(line) else line for line in lines[1:]])
        for lines in runs
    )


def without_page_numbers(text: str) -> str:
    """A text without the numbers of its printed pages, each on a line of its own, with the next one's rising by 1.

    They have dashes or brackets, or most part a sentence; all others are numbers of chapters. The halves of a sentence
    are joined. The head of the pages beside their numbers is left out, too.
    """
    blocks = _without_running_heads(text.split("\n\n"))
    short = ((at, line) for at, block in enumerate(blocks) if len(line := block.strip()) < _SHORT)
    found = [(at, each) for at, block in short if (each := _PAGE_NUMBER.fullmatch(block)) is not None]
    numbers = {at: int(each["number"]) for at, each in found}
    rising = {at for (at, one), (next_, other) in pairwise(numbers.items()) if other == one + 1 for at in (at, next_)}
    parting = {at for at in rising if _parts_a_sentence(blocks, at)}
    marked = {at for at, each in found if at in rising and not each[0].isdecimal()}
    if len(rising) < _FEWEST or (len(marked) < len(rising) and len(parting) <= len(rising) / 2):
        return "\n\n".join(blocks)
    kept = list[str]()
    for at, block in enumerate(blocks):
        if at in rising:
            continue
        if at - 1 in parting and kept:
            kept[-1] += f"\n{block}"
        else:
            kept.append(block)
    return "\n\n".join(kept)


def _without_running_heads(blocks: list[str]) -> list[str]:
    """The blocks without the head that stands on pages again and again, after or before their numbers."""
    lines = [
        block.strip() if len(block.strip()) <= _LONGEST_HEAD and "\n" not in block.strip() else "" for block in blocks
    ]
    found = [(at, each) for at, line in enumerate(lines) if (each := _PAGE_NUMBER.fullmatch(line)) is not None]
    numbers = {at: int(each["number"]) for at, each in found}
    rising = {at for (at, one), (after, other) in pairwise(numbers.items()) if other == one + 1 for at in (at, after)}
    near = {at + step for at in rising for step in (-1, 1) if 0 <= at + step < len(lines)} - set(numbers)
    heads = Counter(lines[at] for at in near if _may_be_head(lines[at]))
    running = {head for head, count in heads.items() if count >= _FEWEST}
    left_out = {at for at in near if lines[at] in running}
    numbered: dict[str, list[tuple[int, int]]] = {}  # heads with a number in their line: where, and which
    for at, line in enumerate(lines):
        if (headed := _NUMBERED_HEAD.fullmatch(line)) is not None and chapter_title(line) is None:
            number, head = headed["before"] or headed["after"], headed["head"] or headed["first"]
            numbered.setdefault(head, []).append((at, int(number)))
    for places in numbered.values():
        rises = all(0 < other - one <= _MOST_PAGES for (_, one), (_, other) in pairwise(places))
        if len(places) >= _FEWEST and rises:
            left_out |= {at for at, _ in places}
    kept = list[str]()
    for at, block in enumerate(blocks):
        if at in left_out:
            continue
        goes_on = at - 1 in left_out and kept and _NUMBERED_HEAD.fullmatch(lines[at - 1]) is not None
        if goes_on and not kept[-1].rstrip().endswith(_SENTENCE_ENDS) and block.lstrip()[:1].islower():
            kept[-1] += f"\n{block}"
        else:
            kept.append(block)
    return kept


def _may_be_head(line: str) -> bool:
    return sum(map(str.isalpha, line)) >= _FEWEST_LETTERS and not line.endswith(_SENTENCE_ENDS)


def _parts_a_sentence(blocks: list[str], at: int) -> bool:
    if not 0 < at < len(blocks) - 1:
        return False
    return not blocks[at - 1].rstrip().endswith(_SENTENCE_ENDS) and blocks[at + 1].lstrip()[:1].islower()


def _are_paragraphs(inner: list[str], lines: list[str]) -> bool:
    longest = max(map(len, lines))
    full = sum(len(line) >= _NEARLY * longest for line in lines) / len(lines)
    if not any(_has_case(line) for line in inner):
        ends = [_ends_without_case(line, after) for line, after in zip_longest(lines, lines[1:], fillvalue="")]
        return sum(ends) >= _ENDED * len(lines)
    ended = sum(_ends(line) or chapter_title(line) is not None for line in lines) / len(lines)
    if all(line.upper() == line for line in inner if _has_case(line)):
        return False  # all in capitals: where a sentence begins is not told
    going_on = sum(_goes_on(line) and chapter_title(line) is None for line in inner) / len(inner)
    return going_on <= _GOING_ON and (full < _FULL or ended >= _ENDED or longest <= _VERSE)


def _ends_without_case(line: str, after: str) -> bool:
    """True for a line that ends a sentence, is a title, or stands before a line that is indented by a wide blank."""
    line = line.strip()
    return line.endswith(_SENTENCE_ENDS) or after.startswith(_WIDE_BLANK) or chapter_title(line) is not None


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
