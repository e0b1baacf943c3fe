"""Style sheets of a page: the elements that they never show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree, html

LONGEST_SHEET = 500_000
"""Characters of a style sheet that are read."""

_MOST_RULES = 300  # that hide elements
_LONGEST_SELECTOR = 100  # characters
_MOST_LOOKS = 500_000  # at an element of a page, or one around it, for a rule
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BRACE = re.compile(r"([{}])")
_SHOWN = re.compile(r"(?:^|;)\s*(display|visibility)\s*:\s*([\w-]+)", re.IGNORECASE)
_UNSEEN = ("none", "hidden", "collapse")
_IMPORT = re.compile(r"@import\s+(?:url\(\s*)?[\"']?([^\"'()\s;]+)[\"']?\s*\)?\s*(?:all|screen)?\s*;", re.IGNORECASE)
_MEDIA = ("", "all", "screen")
_STEP = re.compile(r"\s*(>?)\s*([\w-]+|\*)?((?:[.#][\w-]+|\[[^\[\]]*\])*)")
_CONDITION = re.compile(
    r"\.(?P<word>[\w-]+)|#(?P<id>[\w-]+)|\[\s*(?P<name>[\w|-]+)\s*(?:(?P<sign>~?=)\s*[\"']?(?P<value>[\w-]+)[\"']?\s*)?\]"
)


@dataclass(frozen=True)
class _Condition:
    """What an attribute must have: a value, a word among others, or, where that is None, nothing more."""

    name: str
    value: str | None
    among: bool = False

    def holds(self, element: html.HtmlElement) -> bool:
        found = element.get(self.name)
        if found is None or self.value is None:
            return found is not None
        return self.value in found.split() if self.among else self.value == found


@dataclass(frozen=True)
class _Step:
    """One element of a selector; a `child` is directly below the element before it."""

    tag: str | None
    conditions: tuple[_Condition, ...]
    child: bool

    def fits(self, element: html.HtmlElement) -> bool:
        return self.tag in (None, element.tag) and all(each.holds(element) for each in self.conditions)


_Selector = tuple[_Step, ...]


def unseen(root: html.HtmlElement, linked: Callable[[str], str] | None = None) -> Iterator[html.HtmlElement]:
    """Elements of a page that its style sheets never show; `linked` is the text of a sheet by its reference.

    Sheets and rules for some media or states of a page alone are left out, and what is beyond the limits of this file.
    """
    hidden: dict[tuple[str, str], bool] = {}  # by the selector and the property; the last rule counts
    for element in root.iter("style", "link"):
        if (element.get("media") or "").strip().lower() not in _MEDIA:
            continue
        if element.tag == "style":
            hidden.update(_hidden(element.text or ""))
        elif linked is not None and (element.get("rel") or "").lower().split() == ["stylesheet"]:
            hidden.update(_hidden(linked(element.get("href") or "")))
    selectors = dict.fromkeys(selector for (selector, _), is_hidden in hidden.items() if is_hidden)
    steps = list(filter(None, map(_steps, list(selectors)[:_MOST_RULES])))
    return _found(root, steps) if steps else iter(())


def imports(sheet: str) -> list[str]:
    """References of a sheet to others."""
    return _IMPORT.findall(_COMMENT.sub("", sheet[:LONGEST_SHEET]))


@lru_cache(maxsize=16)
def _hidden(sheet: str) -> dict[tuple[str, str], bool]:
    """Whether rules hide what they are for, by selector and property."""
    return {
        (" ".join(selector.split()), name.lower()): value.lower() in _UNSEEN
        for selectors, body in _rules(_COMMENT.sub("", sheet[:LONGEST_SHEET]))
        for name, value in _SHOWN.findall(body)
        for selector in selectors.split(",")
        if len(selector) <= _LONGEST_SELECTOR
    }


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Selectors and declarations of the rules that stand in no other."""
    above, before = list[str](), ""
    for piece in _BRACE.split(sheet):
        if piece == "{":
            above.append(before.rpartition(";")[2].strip().removeprefix("<!--"))
        elif piece == "}" and above:
            selectors = above.pop()
            if not above and not selectors.startswith("@"):
                yield selectors, before
        before = piece


def _steps(selector: str) -> _Selector | None:
    """The steps of a selector; None where it goes by more than names, attributes, and what is around an element."""
    steps, at = list[_Step](), 0
    while at < len(selector):
        found = _STEP.match(selector, at)
        if found is None or found.end() == at or not (found[2] or found[3]):
            return None
        conditions, end = list[_Condition](), 0
        for each in _CONDITION.finditer(found[3]):
            if each.start() != end:
                return None
            end = each.end()
            if each["word"]:
                conditions.append(_Condition("class", each["word"], among=True))
            elif each["id"]:
                conditions.append(_Condition("id", each["id"]))
            else:
                conditions.append(_Condition(each["name"].replace("|", ":"), each["value"], each["sign"] == "~="))
        if end != len(found[3]):
            return None
        steps.append(_Step(found[2] if found[2] != "*" else None, tuple(conditions), bool(found[1])))
        at = found.end()
    return tuple(steps) or None


def _found(root: html.HtmlElement, selectors: Iterable[_Selector]) -> Iterator[html.HtmlElement]:
    by_name: defaultdict[str, list[_Selector]] = defaultdict(list)  # a class, an id, or a tag
    for selector in selectors:
        last = selector[-1]
        named = [each.value for each in last.conditions if each.name in ("class", "id") and each.value]
        by_name[named[0] if named else last.tag or ""].append(selector)
    looks = iter(range(_MOST_LOOKS))
    for element in root.iter(etree.Element):
        names = {"", element.tag, element.get("id") or "", *(element.get("class") or "").split()}
        rules = [selector for name in names for selector in by_name.get(name, ())]
        if any(_is_at(element, selector, looks) for selector in rules):
            yield element


def _is_at(element: html.HtmlElement, selector: _Selector, looks: Iterator[int]) -> bool:
    """True for an element that a selector is for; of those around it, the nearest that fits a step is taken.

    Each look takes one of `looks`; where none is left, no element is found.
    """
    around: Iterator[html.HtmlElement] = iter([element])
    for step in reversed(selector):
        at = next((each for each, _ in zip(around, looks, strict=False) if step.fits(each)), None)
        if at is None:
            return False
        around = iter([] if (above := at.getparent()) is None else [above]) if step.child else at.iterancestors()
    return True
