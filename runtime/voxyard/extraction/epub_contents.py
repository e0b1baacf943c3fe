"""Table of contents of an EPUB: what its nav or its NCX says of the places where chapters begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from lxml import etree

from voxyard.extraction.document import Block, HeadingBlock, Paragraph

_XHTML = "{http://www.w3.org/1999/xhtml}"
_NCX = "{http://www.daisy.org/z3986/2005/ncx/}"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_DEEPEST = 6
_LONGEST_HEADING = 120
_SHORTEST_HEADING = 3
_PARTS = re.compile(r"\s*[:.–—-]\s+|(?<=\d)\s+")  # between a chapter's number and its name


@dataclass(frozen=True)
class ContentsEntry:
    """An entry: its title, the reference to its place, and its level, 1 for the highest."""

    title: str
    reference: str
    level: int


def entries_of_nav(root: etree._Element) -> list[ContentsEntry]:
    """Entries of an EPUB 3's navigation document."""
    for nav in root.iter(f"{_XHTML}nav"):
        if "toc" in (nav.get(_TYPE) or "").split():
            links = [link for link in nav.iter(f"{_XHTML}a") if link.get("href")]
            return [
                ContentsEntry(_words(link), link.get("href"), _depth(link, f"{_XHTML}ol"))
                for link in links
                if _words(link)
            ]
    return []


def entries_of_ncx(root: etree._Element) -> list[ContentsEntry]:
    """Entries of an EPUB 2's NCX."""
    found = []
    for point in root.iter(f"{_NCX}navPoint"):
        label, content = point.find(f"{_NCX}navLabel/{_NCX}text"), point.find(f"{_NCX}content")
        if label is not None and content is not None and _words(label):
            found.append(ContentsEntry(_words(label), content.get("src", ""), 1 + _depth(point, f"{_NCX}navPoint")))
    return found


def places(entries: Sequence[ContentsEntry]) -> dict[str, HeadingBlock]:
    """The chapters that begin at an element of their page, by its id."""
    found: dict[str, HeadingBlock] = {}
    for entry in entries:
        if place := unquote(urlsplit(entry.reference).fragment):
            found.setdefault(place, HeadingBlock(entry.title, min(entry.level, _DEEPEST)))
    return found


def with_chapters(blocks: Sequence[Block], entries: Sequence[ContentsEntry]) -> Iterator[Block]:
    """The blocks of a page without headings, with the chapters that the entries for this page name.

    A paragraph with the words of an entry is its heading. An entry of the page itself, not of a place in it, whose
    words do not stand there is the chapter that begins with the page's first paragraph.
    """
    left = [each for each in entries if not any(_begins(block, each) for block in blocks)]
    texts = [block.text for block in blocks if isinstance(block, Paragraph)]
    for block in blocks:
        if not isinstance(block, Paragraph):
            yield block
            continue
        if block.chapter is not None:
            named = _is_named(block.chapter.text, block.text)
            yield HeadingBlock(block.text, block.chapter.level) if named else block
            continue
        entry = next((each for each in left if _is_named(each.title, block.text)), None)
        if entry is not None:
            left.remove(entry)
            yield HeadingBlock(block.text, min(entry.level, _DEEPEST))
            continue
        whole = next((each for each in left if "#" not in each.reference and not _any_named(each.title, texts)), None)
        if whole is None:
            yield block
            continue
        left.remove(whole)
        yield replace(block, chapter=HeadingBlock(whole.title, min(whole.level, _DEEPEST)))


def _begins(block: Block, entry: ContentsEntry) -> bool:
    return isinstance(block, Paragraph) and block.chapter is not None and block.chapter.text == entry.title


def _is_named(title: str, text: str) -> bool:
    """True where a paragraph has the words of a title, perhaps without its number: One: The Storm."""
    title, text = _folded(title), _folded(text)
    if not text or len(text) > _LONGEST_HEADING:
        return False
    shorter, longer = sorted((title, text), key=len)
    return title == text or (len(shorter) >= _SHORTEST_HEADING and _PARTS.split(longer)[-1] == shorter)


def _any_named(title: str, texts: Sequence[str]) -> bool:
    return any(_is_named(title, text) for text in texts)


def _words(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .:–—-")


def _depth(element: etree._Element, tag: str) -> int:
    return sum(1 for _ in element.iterancestors(tag))
