"""What stands in a page of HTML beside its text, or is drawn apart from it: found before its blocks are read.

Lists of links to the places of a book, numbers of printed pages, links for sharing, letters drawn larger than a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, islice

from lxml import html

from voxyard.extraction.silent import is_title_of_contents
from voxyard.extraction.style_sheets import unseen

_FEWEST_LINKS = 3
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEAVES = ("p", "li", "div", "td", "dt", "dd", *_HEADINGS)
_NUMBER_OF_NOTE = re.compile(r"\s*[\[(]?\s*(?:\d{1,4}|[*†‡])\s*[\])]?[.:]?\s*")
_NUMBER_BEFORE = re.compile(r"^\s*(?:\[\d{1,3}\]|\(\d{1,3}\)|\d{1,3}[.:)]|[*†‡])\s+(?=\S)")
_NOTES = frozenset(("footnote", "endnote", "rearnote", "doc-footnote", "doc-endnote"))
_BACK = frozenset((
    "back", "go back", "return", "back to text", "return to text", "back to the text", "zurück", "zurück zum text",
    "retour", "retour au texte", "volver", "indietro", "voltar", "terug", "назад", "вернуться", "戻る", "返回",
))  # fmt: skip
_NO_WORD = re.compile(r"[\W_]+")
_NEAR = 4  # elements between a mark of a note, or its number, and the one that names its place
_PAGE = re.compile(r"[^#:?]+\.x?html?(?:#.*)?", re.IGNORECASE)  # of the same book
_BESIDE_LINKS = re.compile(r"[\W\d_]*")
_PAGE_NUMBER = re.compile(
    r"\s*[\[({|]?\s*(?:pg\.?|page|p\.|seite|s\.)?\s*(?:\d{1,4}|[ivxl]{1,6})\s*[\])}|]?\s*", re.IGNORECASE
)
_LONGEST_NUMBER = 20  # characters: Page 4 of 20
_OF_PAGE = re.compile(
    r"(?:^|[\s_-])(?:page|pg|pb|folio|pagebreak|page-?num\w*)(?:$|[\s_\d-])|doc-pagebreak", re.IGNORECASE
)
_NAMED = re.compile(
    r"(?:^|\s)(?:skip[-_]?(?:link|nav|to)[\w-]*|mw-(?:editsection|jump-link)|noprint|navbox|catlinks|printfooter|"
    r"(?:newsletter|subscribe|advert|related-(?:posts|articles|stories))[\w-]*|addtoany\w*|sharedaddy|(?:social|share|sharing)[-_]?(?:share|links?|buttons?|bar|icons?|media|list|tools|widget))(?:$|\s)",
    re.IGNORECASE,
)
_SHOWN = (
    "boolean(//body//text()[normalize-space() and "
    "not(ancestor::*[@hidden or self::script or self::style or self::noscript])])"
)
_DROP_CAP = re.compile(r"drop[-_]?cap|lettrine|initial", re.IGNORECASE)


def is_page_number(text: str) -> bool:
    """True for the number of a printed page, or a text without letters; words are not."""
    return (
        _PAGE_NUMBER.fullmatch(text) is not None
        or not any(map(str.isalpha, text))
        or (len(text) <= _LONGEST_NUMBER and any(map(str.isdecimal, text)))
    )


def hide_around(root: html.HtmlElement, *, of_book: bool = False, linked: Callable[[str], str] | None = None) -> None:
    """Marks as hidden what is not spoken; a large letter alone is joined to the word that follows it.

    In a page of a book links to other pages are its contents, too. `linked` is the text of a style sheet.
    """
    hidden = [element for element in unseen(root, linked) if "hidden" not in element.attrib]
    for element in hidden:
        element.set("hidden", "")
    if hidden and not of_book and not root.xpath(_SHOWN):  # a page that a script shows
        for element in hidden:
            del element.attrib["hidden"]
    silent: dict[str, bool] = {}  # by class
    for element in root.xpath("descendant-or-self::*[@class or @id or @role]"):
        classes = element.get("class") or ""
        if classes not in silent:
            silent[classes] = _NAMED.search(classes) is not None
        named = f"{classes} {element.get('id') or ''}"
        if silent[classes] or (_OF_PAGE.search(named) and _PAGE_NUMBER.fullmatch(element.text_content())):
            element.set("hidden", "")
        elif element.tag in _LEAVES and _DROP_CAP.search(classes):
            _join_drop_cap(element)
    _hide_numbers_of_notes(root, of_book)
    _hide_contents(root, of_book)


def _hide_numbers_of_notes(root: html.HtmlElement, of_book: bool) -> None:
    """Hides the number that a note begins with, and the word that it ends with, where these lead back to the mark.

    The mark leads to the note, or, in a book, is on another page. A number that is no link goes from what is called a
    note.
    """
    for note in root.xpath("//*[@role or @*[name()='epub:type']]"):
        if not _NOTES.isdisjoint(f"{note.get('role') or ''} {note.get('epub:type') or ''}".split()):
            first = next((each for each in note.iter() if (each.text or "").strip()), note)
            first.text = _NUMBER_BEFORE.sub("", first.text or "", count=1)
    for link in root.iter("a"):
        if "#" in (link.get("href") or "") and _folded(link) in _BACK and not _after(link):
            link.set("hidden", "")
            link.tail = (link.tail or "").strip(" .")
    links = [each for each in root.iter("a") if "#" in (each.get("href") or "")]
    named = {name: each for each in root.xpath("//*[@id or @name]") for name in (each.get("id"), each.get("name"))}
    for link in links:
        if _NUMBER_OF_NOTE.fullmatch(link.text_content()) is None or not _begins_block(link):
            continue
        own = {f"#{each.get(name)}" for each in _around(link) for name in ("id", "name") if each.get(name)}
        if not link.get("href").startswith("#"):
            if of_book and own and _after(link):
                link.set("hidden", "")
            continue
        target = named.get(link.get("href")[1:])
        if target is None:
            continue
        near = [*islice(target.iter("a"), _NEAR), *_around(target)]
        if any(each.get("href") in own for each in near):
            link.set("hidden", "")


def _folded(link: html.HtmlElement) -> str:
    return " ".join(_NO_WORD.sub(" ", link.text_content()).casefold().split())


def _after(element: html.HtmlElement) -> bool:
    """Whether words follow an element in its block."""
    for inner in _around(element)[:-1]:
        if _NO_WORD.sub("", inner.tail or ""):
            return True
        for each in inner.itersiblings("*"):
            if _NO_WORD.sub("", f"{each.text_content()}{each.tail or ''}"):
                return True
    return False


def _around(element: html.HtmlElement) -> list[html.HtmlElement]:
    """An element, and those up to the block that it is in."""
    found = [element, *islice(element.iterancestors(), _NEAR)]
    last = next((at for at, each in enumerate(found) if each.tag in _LEAVES), len(found) - 1)
    return found[: last + 1]


def _begins_block(element: html.HtmlElement) -> bool:
    """True where nothing but blanks and a bracket stands before an element in its block, which is no heading."""
    while element.tag not in _LEAVES:
        before, parent = element.getprevious(), element.getparent()
        text = before.tail if before is not None else parent.text if parent is not None else ""
        if parent is None or (before is not None and before.text_content().strip()) or (text or "").strip(" \n\t[("):
            return False
        element = parent
    return element.tag not in _HEADINGS


def _join_drop_cap(element: html.HtmlElement) -> None:
    letter, following = element.text_content().strip(), element.getnext()
    if len(letter) == 1 and letter.isalpha() and following is not None and (following.text or "")[:1].isalpha():
        following.text = letter + following.text
        element.set("hidden", "")


def _hide_contents(root: html.HtmlElement, of_book: bool) -> None:
    """Hides blocks in a row with nothing but at least three links to places, and the title above them."""
    ids = set(root.xpath("//@id|//@name"))
    places = {link for link in root.iter("a") if _leads_to_a_place(link.get("href") or "", ids, of_book)}
    if len(places) < _FEWEST_LINKS:
        return
    around = {above for each in root.iter(*_LEAVES) for above in each.iterancestors(*_LEAVES)}
    leaves = [each for each in root.iter(*_LEAVES) if each not in around and each.text_content().strip()]
    at = 0
    for links, run in groupby(leaves, lambda leaf: _is_entry(leaf, places)):
        found = list(run)
        if links and sum(len(list(leaf.iter("a"))) for leaf in found) >= _FEWEST_LINKS:
            above = leaves[at - 1 : at] if at else []
            for each in [*(leaf for leaf in above if is_title_of_contents(leaf.text_content())), *found]:
                each.set("hidden", "")
        at += len(found)


def _is_entry(leaf: html.HtmlElement, places: set[html.HtmlElement]) -> bool:
    """True for a block with nothing but links to places, and perhaps their numbers."""
    links = list(leaf.iter("a"))
    if not links or not places.issuperset(links):
        return False
    linked = sum(len(link.text_content().strip()) for link in links)
    words = any(letter.isalpha() for link in links for letter in link.text_content())
    left = leaf.text_content()
    for link in links:
        left = left.replace(link.text_content(), " ", 1)
    return bool(linked) and words and _BESIDE_LINKS.fullmatch(left) is not None


def _leads_to_a_place(reference: str, ids: set[str], of_book: bool) -> bool:
    return (reference.startswith("#") and reference[1:] in ids) or (of_book and _PAGE.fullmatch(reference) is not None)
