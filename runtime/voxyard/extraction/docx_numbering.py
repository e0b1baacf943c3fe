"""Numbers of a DOCX's list items, which Word counts as it draws them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml

from voxyard.extraction.titles import roman

if TYPE_CHECKING:
    from docx.document import Document
    from docx.oxml.xmlchemy import BaseOxmlElement

_W = f"{{{nsmap['w']}}}"
_LETTERS = {"lowerLetter": "a", "upperLetter": "A"}
_PLACE = re.compile(r"%\d")
_WORDS_OR_SEVERAL = re.compile(r"[^\W\d_]|%\d.*%\d")  # in how a number is written: Article %1, %1.%2
_ROMAN = ("upperRoman", "lowerRoman")
_MOST_ROMAN = 400
_NO_NUMBERS = frozenset(["bullet", "none"])


@dataclass
class ListNumbers:
    """Counts a document's list items, in their order."""

    _lists: dict[str, str]  # id of a list → that of its definition
    _formats: dict[tuple[str, int], tuple[str, int]]  # definition and level → format and first number
    _restarts: dict[tuple[str, int], int]  # list and level → number with which that list begins
    _texts: dict[tuple[str, int], str]  # definition and level → how the number is written: Chapter %1
    _counts: dict[str, dict[int, int]] = field(default_factory=dict)  # definition → number of each level

    def next(self, properties: BaseOxmlElement | None) -> str:
        """Number or letter of the next item with these properties (numPr), such as 1.2; "" for a bullet."""
        number, level_text = (_value(properties, name) for name in ("numId", "ilvl"))
        definition, level = self._lists.get(number), _whole(level_text, 0)
        if definition is None or (definition, level) not in self._formats:
            return ""
        self._count(definition, level, number)
        label = self._label(definition, level).strip(" .:()[]")
        return (
            label
            if _WORDS_OR_SEVERAL.search(self._texts.get((definition, level), ""))
            else self._written(definition, level)
        )

    def label(self, properties: BaseOxmlElement | None, level: int) -> str:
        """Number of the next heading as it is written, such as Chapter 1 or 1.2; "" for one without.

        `level` counts from 0, for properties without one.
        """
        number, level_text = (_value(properties, name) for name in ("numId", "ilvl"))
        definition, level = self._lists.get(number), _whole(level_text, level)
        if definition is None or (definition, level) not in self._formats:
            return ""
        self._count(definition, level, number)
        return self._label(definition, level)

    def _label(self, definition: str, level: int) -> str:
        written = {f"%{each + 1}": self._written(definition, each) for each in range(level + 1)}
        text = self._texts.get((definition, level), "")
        return _PLACE.sub(lambda found: written.get(found[0], ""), text) if self._written(definition, level) else ""

    def _count(self, definition: str, level: int, number: str) -> None:
        _, start = self._formats[definition, level]
        counts = self._counts.setdefault(definition, {})
        restart = self._restarts.pop((number, level), None)
        counts[level] = restart if restart is not None else counts[level] + 1 if level in counts else start
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]

    def _written(self, definition: str, level: int) -> str:
        form, start = self._formats.get((definition, level), ("none", 1))
        count = self._counts.get(definition, {}).get(level, start)
        if form in _NO_NUMBERS:
            return ""
        if form in _ROMAN and 0 < count < _MOST_ROMAN:
            return roman(count)
        letter = _LETTERS.get(form)
        return chr(ord(letter) + count - 1) if letter and 1 <= count <= 26 else str(count)


def list_numbers(document: Document) -> ListNumbers:
    """The counts of a document's lists by their definitions; of none where it has no lists."""
    lists, formats, restarts = dict[str, str](), dict[tuple[str, int], tuple[str, int]](), dict[tuple[str, int], int]()
    texts = dict[tuple[str, int], str]()
    for relation in document.part.rels.values():
        if relation.reltype != RELATIONSHIP_TYPE.NUMBERING or relation.is_external:
            continue
        root = parse_xml(relation.target_part.blob)
        for definition in root.iterchildren(f"{_W}abstractNum"):
            for level in definition.iterchildren(f"{_W}lvl"):
                place = (definition.get(f"{_W}abstractNumId", ""), _whole(level.get(f"{_W}ilvl"), 0))
                texts[place] = _value(level, "lvlText")
                formats[place] = (_value(level, "numFmt") or "decimal", _whole(_value(level, "start"), 1))
        for each in root.iterchildren(f"{_W}num"):
            number = each.get(f"{_W}numId", "")
            lists[number] = _value(each, "abstractNumId")
            for override in each.iterchildren(f"{_W}lvlOverride"):
                if start := _value(override, "startOverride"):
                    restarts[number, _whole(override.get(f"{_W}ilvl"), 0)] = _whole(start, 1)
    return ListNumbers(lists, formats, restarts, texts)


def _value(parent: BaseOxmlElement | None, name: str) -> str:
    found = None if parent is None else parent.find(f"{_W}{name}")
    return "" if found is None else found.get(f"{_W}val", "")


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 6 else otherwise
