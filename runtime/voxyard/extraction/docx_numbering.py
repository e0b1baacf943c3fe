"""Numbers of a DOCX's list items, which Word counts as it draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml.ns import nsmap
from docx.oxml.parser import parse_xml

if TYPE_CHECKING:
    from docx.document import Document
    from docx.oxml.xmlchemy import BaseOxmlElement

_W = f"{{{nsmap['w']}}}"
_LETTERS = {"lowerLetter": "a", "upperLetter": "A"}
_NO_NUMBERS = frozenset(["bullet", "none"])


@dataclass
class ListNumbers:
    """Counts a document's list items, in their order."""

    _lists: dict[str, str]  # id of a list → that of its definition
    _formats: dict[tuple[str, int], tuple[str, int]]  # definition and level → format and first number
    _restarts: dict[tuple[str, int], int]  # list and level → number with which that list begins
    _counts: dict[str, dict[int, int]] = field(default_factory=dict)  # definition → number of each level

    def next(self, properties: BaseOxmlElement | None) -> str:
        """Number or letter of the next item with these properties (numPr); "" for a bullet."""
        number, level_text = (_value(properties, name) for name in ("numId", "ilvl"))
        definition, level = self._lists.get(number), _whole(level_text, 0)
        if definition is None or (definition, level) not in self._formats:
            return ""
        form, start = self._formats[definition, level]
        counts = self._counts.setdefault(definition, {})
        restart = self._restarts.pop((number, level), None)
        counts[level] = restart if restart is not None else counts[level] + 1 if level in counts else start
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if form in _NO_NUMBERS:
            return ""
        letter = _LETTERS.get(form)
        return chr(ord(letter) + counts[level] - 1) if letter and 1 <= counts[level] <= 26 else str(counts[level])


def list_numbers(document: Document) -> ListNumbers:
    """The counts of a document's lists by their definitions; of none where it has no lists."""
    lists, formats, restarts = dict[str, str](), dict[tuple[str, int], tuple[str, int]](), dict[tuple[str, int], int]()
    for relation in document.part.rels.values():
        if relation.reltype != RELATIONSHIP_TYPE.NUMBERING or relation.is_external:
            continue
        root = parse_xml(relation.target_part.blob)
        for definition in root.iterchildren(f"{_W}abstractNum"):
            for level in definition.iterchildren(f"{_W}lvl"):
                place = (definition.get(f"{_W}abstractNumId", ""), _whole(level.get(f"{_W}ilvl"), 0))
                formats[place] = (_value(level, "numFmt") or "decimal", _whole(_value(level, "start"), 1))
        for each in root.iterchildren(f"{_W}num"):
            number = each.get(f"{_W}numId", "")
            lists[number] = _value(each, "abstractNumId")
            for override in each.iterchildren(f"{_W}lvlOverride"):
                if start := _value(override, "startOverride"):
                    restarts[number, _whole(override.get(f"{_W}ilvl"), 0)] = _whole(start, 1)
    return ListNumbers(lists, formats, restarts)


def _value(parent: BaseOxmlElement | None, name: str) -> str:
    found = None if parent is None else parent.find(f"{_W}{name}")
    return "" if found is None else found.get(f"{_W}val", "")


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 6 else otherwise
