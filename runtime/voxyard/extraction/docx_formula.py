"""Formulas of Word (OMML) in a line: powers are raised signs, fractions have a stroke."""

from __future__ import annotations

from typing import TYPE_CHECKING

from voxyard.extraction.raised import above, raised

if TYPE_CHECKING:
    from docx.oxml.xmlchemy import BaseOxmlElement

_NAMESPACE = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
FORMULA = f"{_NAMESPACE}oMath"
"""Tag of a formula."""


def spoken_omml(element: BaseOxmlElement) -> str:
    """Text of a formula, with blanks around the signs between its terms."""
    tag = element.tag.removeprefix(_NAMESPACE) if isinstance(element.tag, str) else ""
    if tag == "t":
        text = element.text or ""
        return f" {text.strip()} " if text.strip() in _SIGNS else text
    parts = {child.tag.removeprefix(_NAMESPACE): spoken_omml(child).strip() for child in element}
    match tag:
        case "f":
            return f"{parts.get('num', '')}/{parts.get('den', '')}"
        case "sSup":
            return _power(parts.get("e", ""), parts.get("sup", ""))
        case "sSub":
            return f"{parts.get('e', '')} {parts.get('sub', '')}"
        case "sSubSup":
            return _power(f"{parts.get('e', '')} {parts.get('sub', '')}", parts.get("sup", ""))
        case "rad":
            inner = parts.get("e", "")
            return f"{above(parts.get('deg', ''))}√{inner if inner.isalnum() else f'({inner})'}"
        case "d":
            return f"({parts.get('e', '')})"
        case "nary":
            return f"∑ {parts.get('sub', '')} … {parts.get('sup', '')} {parts.get('e', '')}"
        case _:
            return "".join(map(spoken_omml, element))


_SIGNS = frozenset("=+−-±×·≤≥<>≠≈→∈")


def _power(base: str, exponent: str) -> str:
    found = raised(base, exponent)
    return base + (found if found not in ("", exponent) else f"^{exponent}")
