"""What stands in a page of HTML beside its text, or is drawn apart from it: found before its blocks are read.

Lists of links to the places of a book, numbers of printed pages, links for sharing, letters drawn larger than a word.
"""

from __future__ import annotations

import re
from itertools import groupby

from lxml import html

from voxyard.extraction.silent import is_title_of_contents

_FEWEST_LINKS = 3
_LEAVES = ("p", "li", "div", "td", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6")
_PAGE = re.compile(r"[^#:?]+\.x?html?(?:#.*)?", re.IGNORECASE)  # of the same book
_BESIDE_LINKS = re.compile(r"[\W\d_]*")
_PAGE_NUMBER = re.compile(
    r"\s*[\[({|]?\s*(?:pg\.?|page|p\.|seite|s\.)?\s*(?:\d{1,4}|[ivxl]{1,6})\s*[\])}|]?\s*", re.IGNORECASE
)
_OF_PAGE = re.compile(
    r"(?:^|[\s_-])(?:page|pg|pb|folio|pagebreak|page-?num\w*)(?:$|[\s_\d-])|doc-pagebreak", re.IGNORECASE
)
_NAMED = re.compile(
    r"(?:^|\s)(?:skip[-_]?(?:link|nav|to)[\w-]*|mw-(?:editsection|jump-link)|noprint|navbox|catlinks|printfooter|"
    r"addtoany\w*|sharedaddy|(?:social|share|sharing)[-_]?(?:share|links?|buttons?|bar|icons?|media|list|tools|widget))(?:$|\s)",
    re.IGNORECASE,
)
_DROP_CAP = re.compile(r"drop[-_]?cap|lettrine|initial", re.IGNORECASE)


def hide_around(root: html.HtmlElement, *, of_book: bool = False) -> None:
    """Marks as hidden what is not spoken; a large letter alone is joined to the word that follows it.

    In a page of a book links to other pages are its contents, too.
    """
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        named = f"{element.get('class') or ''} {element.get('role') or ''} {element.get('id') or ''}".strip()
        if not named:
            continue
        if _NAMED.search(element.get("class") or "") or (
            _OF_PAGE.search(named) and _PAGE_NUMBER.fullmatch(element.text_content())
        ):
            element.set("hidden", "")
        elif _DROP_CAP.search(named) and element.tag in _LEAVES:
            _join_drop_cap(element)
    _hide_contents(root, of_book)


def _join_drop_cap(element: html.HtmlElement) -> None:
    letter, following = element.text_content().strip(), element.getnext()
    if len(letter) == 1 and letter.isalpha() and following is not None and (following.text or "")[:1].isalpha():
        following.text = letter + following.text
        element.set("hidden", "")


def _hide_contents(root: html.HtmlElement, of_book: bool) -> None:
    """Hides at least three blocks in a row that are links to places, with the title above them."""
    ids = {each.get("id") or each.get("name") for each in root.iter() if isinstance(each.tag, str)}
    around = {above for each in root.iter(*_LEAVES) for above in each.iterancestors(*_LEAVES)}
    leaves = [each for each in root.iter(*_LEAVES) if each not in around and each.text_content().strip()]
    at = 0
    for links, run in groupby(leaves, lambda leaf: _is_entry(leaf, ids, of_book)):
        found = list(run)
        if links and len(found) >= _FEWEST_LINKS:
            above = leaves[at - 1 : at] if at else []
            for each in [*(leaf for leaf in above if is_title_of_contents(leaf.text_content())), *found]:
                each.set("hidden", "")
        at += len(found)


def _is_entry(leaf: html.HtmlElement, ids: set[str | None], of_book: bool) -> bool:
    """True for a block with nothing but links to places, and perhaps their numbers."""
    links = list(leaf.iter("a"))
    if not links or not all(_leads_to_a_place(link.get("href") or "", ids, of_book) for link in links):
        return False
    linked = sum(len(link.text_content().strip()) for link in links)
    words = any(letter.isalpha() for link in links for letter in link.text_content())
    left = leaf.text_content()
    for link in links:
        left = left.replace(link.text_content(), " ", 1)
    return bool(linked) and words and _BESIDE_LINKS.fullmatch(left) is not None


def _leads_to_a_place(reference: str, ids: set[str | None], of_book: bool) -> bool:
    return (reference.startswith("#") and reference[1:] in ids) or (of_book and _PAGE.fullmatch(reference) is not None)
