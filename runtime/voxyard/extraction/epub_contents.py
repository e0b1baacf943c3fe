"""Table of contents of an EPUB: what its nav or its NCX says of the places where chapters begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from urllib.parse import unquote, urlsplit

from lxml import etree

from voxyard.extraction.document import Block, HeadingBlock, Paragraph, in_language

_TYPE = "{http://www.idpf.org/2007/ops}type"
_DEEPEST = 6
_FEWEST_RUNNING = 3  # pages
_FEWEST = 2  # entries whose places are found, to go by them
_NO_WORD = re.compile(r"[\W_]+")
_LONGEST_HEADING = 120
_SHORTEST_HEADING = 3
_NUMBER_BEFORE = re.compile(r"^(?:\w{1,12}\s+)?(?:\d{1,3}(?:\.\d{1,3})*|[ivxlc]{1,7})(?:[.:)\s–—-]+|$)")
_PARTS = re.compile(r"\s*[:.–—-]\s+|(?<=\d)\s+")  # between a chapter's number and its name


@dataclass(frozen=True)
class ContentsEntry:
    """An entry: its title, the reference to its place, and its level, 1 for the highest."""

    title: str
    reference: str
    level: int


def entries_of_nav(root: etree._Element) -> list[ContentsEntry]:
    """Entries of an EPUB 3's navigation document."""
    for nav in root.iter("{*}nav"):
        if "toc" in (nav.get(_TYPE) or "").split():
            links = [link for link in nav.iter("{*}a") if link.get("href")]
            return [
                ContentsEntry(_words(link), link.get("href"), _depth(link, "{*}ol")) for link in links if _words(link)
            ]
    return []


def entries_of_ncx(root: etree._Element) -> list[ContentsEntry]:
    """Entries of an EPUB 2's NCX."""
    found = []
    for point in root.iter("{*}navPoint"):
        label, content = point.find("{*}navLabel/{*}text"), point.find("{*}content")
        if label is not None and content is not None and _words(label):
            found.append(ContentsEntry(_words(label), content.get("src", ""), 1 + _depth(point, "{*}navPoint")))
    return found


def places(entries: Sequence[ContentsEntry]) -> dict[str, HeadingBlock]:
    """The chapters that begin at an element of their page, by its id."""
    found: dict[str, HeadingBlock] = {}
    for entry in entries:
        if place := unquote(urlsplit(entry.reference).fragment):
            found.setdefault(place, _heading(entry))
    return found


def with_chapters(blocks: Sequence[Block], entries: Sequence[ContentsEntry]) -> Iterator[Block]:
    """The blocks of a page, with the chapters that the entries for this page name.

    A heading at the place of an entry is its chapter, and so is a paragraph with its words. An entry of the page
    itself, not of a place in it, is its first heading where nothing is above that; else, where its words do not stand
    there, the chapter that begins with the page's first paragraph.
    """
    left = [each for each in entries if not any(_begins(block, each) for block in blocks)]
    texts = [block.text for block in blocks if isinstance(block, (Paragraph, HeadingBlock))]
    first = True
    for block, after in zip_longest(blocks, blocks[1:]):
        if isinstance(block, HeadingBlock):
            whole = _of_page(left) if first else None
            named = next((each for each in left if is_named(each.title, block.text)), None) or whole
            if block.entry is None and named is not None:
                left.remove(named)
                yield in_language(entered(block.text, block.level, _heading(named)), block.language)
            else:
                yield block
        elif not isinstance(block, Paragraph):
            yield block
        elif block.chapter is not None:
            yield _title(block, block.chapter) if is_named(block.chapter.text, block.text) else block
        elif (entry := next((each for each in left if _is_in_two(each.title, block, after)), None)) is not None:
            left.remove(entry)
            yield replace(block, chapter=_heading(entry))
        elif (entry := next((each for each in left if is_named(each.title, block.text)), None)) is not None:
            left.remove(entry)
            yield _title(block, _heading(entry))
        elif (whole := _of_page(left)) is not None and not _any_named(whole.title, texts):
            left.remove(whole)
            yield replace(block, chapter=_heading(whole))
        else:
            yield block
        first = False


def without_running_titles(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks of a book; the title that most of its pages have above their own is there once."""
    above = {
        at: block.text
        for at, (block, after) in enumerate(pairwise(blocks))
        if isinstance(block, HeadingBlock) and isinstance(after, HeadingBlock) and block.level < after.level
    }
    running, count = Counter(above.values()).most_common(1)[0] if above else ("", 0)
    if count < _FEWEST_RUNNING or count <= len(above) / 2:
        return tuple(blocks)
    repeated = {at for at, text in above.items() if text == running} - {min(above, key=lambda at: above[at] != running)}
    return tuple(block for at, block in enumerate(blocks) if at not in repeated)


def levelled(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks of a book; where its table of contents names most of the chapters, that tells their levels.

    Headings that it does not name are below the chapters then.
    """
    heads = [head for block in blocks if (head := _head(block)) is not None]
    entries = [head.entry for head in heads if head.entry is not None]
    own = Counter(head.level for head in heads)
    level = min((level for level, count in own.items() if count > 1), default=0)
    if len(entries) < _FEWEST or len(entries) < own[level] / 2:
        return tuple(blocks)
    deepest = max(entries)
    return tuple(_relevelled(block, deepest) for block in blocks)


def entered(text: str, level: int, entry: HeadingBlock) -> Block:
    """A heading at an entry; the contents name the chapter where the heading is its bare number."""
    number = text.strip(" .").lstrip("0")
    if not any(map(str.isalpha, text)) and number in [
        each.lstrip("0") for each in _NO_WORD.sub(" ", entry.text).split()
    ]:
        return Paragraph(text, entry)
    return HeadingBlock(text, level, entry.entry)


def _title(block: Paragraph, entry: HeadingBlock) -> HeadingBlock:
    return replace(entry, text=block.text, language=block.language)


def _heading(entry: ContentsEntry) -> HeadingBlock:
    level = min(entry.level, _DEEPEST)
    return HeadingBlock(entry.title, level, level)


def _head(block: Block) -> HeadingBlock | None:
    return block if isinstance(block, HeadingBlock) else block.chapter if isinstance(block, Paragraph) else None


def _relevelled(block: Block, deepest: int) -> Block:
    if isinstance(block, HeadingBlock):
        return replace(block, level=block.entry if block.entry is not None else deepest + block.level)
    return block


def _of_page(entries: Sequence[ContentsEntry]) -> ContentsEntry | None:
    """The first entry of the page itself."""
    return next((each for each in entries if "#" not in each.reference), None)


def _begins(block: Block, entry: ContentsEntry) -> bool:
    return isinstance(block, Paragraph) and block.chapter is not None and block.chapter.text == entry.title


def is_named(title: str, text: str) -> bool:
    """True where a paragraph has the words of a title, perhaps without its number: One: The Storm."""
    title, text = _folded(title), _folded(text)
    if not text or len(text) > _LONGEST_HEADING:
        return False
    shorter, longer = sorted((title, text), key=len)
    return title == text or (len(shorter) >= _SHORTEST_HEADING and _PARTS.split(longer)[-1] == shorter)


def _is_in_two(title: str, block: Paragraph, after: Block | None) -> bool:
    """True where a title stands in two paragraphs: Chapter 1, The Storm."""
    if not isinstance(after, Paragraph) or after.chapter is not None or len(block.text) > len(title):
        return False
    both, title = (_NO_WORD.sub("", each.casefold()) for each in (block.text + after.text, title))
    return both == title


def is_same(title: str, text: str) -> bool:
    """True for the same words, but for the numbers of chapters before them: 1.2 The Storm, The Storm."""
    title, text = (_NO_WORD.sub("", _NUMBER_BEFORE.sub("", each.strip().casefold())) for each in (title, text))
    return title == text and len(title) >= _SHORTEST_HEADING


def _any_named(title: str, texts: Sequence[str]) -> bool:
    return any(is_named(title, text) for text in texts)


def _words(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .:–—-")


def _depth(element: etree._Element, tag: str) -> int:
    return sum(1 for _ in element.iterancestors(tag))
