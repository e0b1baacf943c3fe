"""Styles of a DOCX's paragraphs and characters, each with what it takes from those that it is based on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docx.oxml.ns import nsmap

if TYPE_CHECKING:
    from docx.document import Document
    from docx.oxml.xmlchemy import BaseOxmlElement

BODY_LEVEL = 9
"""The outline level of text that is no heading."""

_W = f"{{{nsmap['w']}}}"
_HEADING_NAME = re.compile(r"(?:heading ([1-9])|title)", re.IGNORECASE)
_CONTENTS_NAME = re.compile(
    r"(?:toc \d|table of (?:figures|authorities)|index \d|toa heading|toc heading)", re.IGNORECASE
)


@dataclass(frozen=True)
class DocxStyle:
    """What a style says of its text: a heading's level, whether of a table of contents or hidden, its numbering."""

    level: int | None = None
    of_contents: bool = False
    hidden: bool = False
    numbering: BaseOxmlElement | None = None


def docx_styles(document: Document) -> dict[str | None, DocxStyle]:
    """The styles by their ids; titles are headings of level 1."""
    elements = {each.get(f"{_W}styleId"): each for each in document.styles.element.iterchildren(f"{_W}style")}
    return {name: _style(list(_with_bases(element, elements))) for name, element in elements.items()}


def is_on(element: BaseOxmlElement | None) -> bool:
    """True for a switch, such as that of hidden text, that is there and not off."""
    return element is not None and element.get(f"{_W}val", "true") not in ("0", "false", "off")


def outline(properties: BaseOxmlElement | None) -> int | None:
    """The outline level of a paragraph's properties, 1 for the highest; None without one."""
    found = None if properties is None else properties.find(f"{_W}outlineLvl")
    value = "" if found is None else found.get(f"{_W}val", "")
    return int(value) + 1 if value.isdecimal() and len(value) < 3 else None


def _with_bases(element: BaseOxmlElement, elements: dict[str | None, BaseOxmlElement]) -> Iterator[BaseOxmlElement]:
    seen = set[str | None]()
    found: BaseOxmlElement | None = element
    while found is not None and (name := found.get(f"{_W}styleId")) not in seen:
        seen.add(name)
        yield found
        base = found.find(f"{_W}basedOn")
        found = None if base is None else elements.get(base.get(f"{_W}val"))


def _style(own: list[BaseOxmlElement]) -> DocxStyle:
    """What a style says, or the next one that it is based on."""
    names = [name.get(f"{_W}val", "") for each in own if (name := each.find(f"{_W}name")) is not None]
    levels = [_level(each) for each in own]
    switches = [each.find(f"{_W}rPr/{_W}vanish") for each in own]
    numbers = (each.find(f"{_W}pPr/{_W}numPr") for each in own)
    level = next((level for level in levels if level is not None), None)
    return DocxStyle(
        level=level if level is not None and level <= BODY_LEVEL else None,
        of_contents=any(_CONTENTS_NAME.fullmatch(name) for name in names),
        hidden=is_on(next((each for each in switches if each is not None), None)),
        numbering=next((each for each in numbers if each is not None), None),
    )


def _level(style: BaseOxmlElement) -> int | None:
    name = style.find(f"{_W}name")
    found = _HEADING_NAME.fullmatch("" if name is None else name.get(f"{_W}val", ""))
    return int(found.group(1) or 1) if found else outline(style.find(f"{_W}pPr"))
