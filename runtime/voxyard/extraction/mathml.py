"""MathML in a line: its alternative text, or its signs in the order in which they are read."""

from __future__ import annotations

import re

from lxml import html

from voxyard.extraction.raised import raised

_TEX = re.compile(r"[\\{}^_]")
_NO_TEXT = frozenset(("annotation", "annotation-xml", "mphantom", "none", "mprescripts"))


def spoken_formula(math: html.HtmlElement) -> str:
    """Text of a formula: `alttext` where that is words, else what is written, with powers and fractions in a line."""
    words = " ".join((math.get("alttext") or "").split())
    return words if words and _TEX.search(words) is None else " ".join(_linear(math).split())


def _linear(element: html.HtmlElement) -> str:
    if not isinstance(element.tag, str):
        return ""
    tag = element.tag.rpartition(":")[2]
    if tag in _NO_TEXT:
        return ""
    parts = [_linear(child) for child in element]
    match tag:
        case "msup" if len(parts) == 2:
            base, exponent = parts[0].strip(), parts[1].strip()
            above = raised(base, exponent)
            return base + (above if above not in ("", exponent) else f"^{exponent}")
        case "mfrac" if len(parts) == 2:
            return f"{parts[0].strip()}/{parts[1].strip()}"
        case "msqrt":
            return f"√({' '.join(parts).strip()})" if len(parts) > 1 else f"√{''.join(parts).strip()}"
        case "mo":
            return f" {(element.text or '').strip()} "
        case _:
            return (element.text or "").strip() + "".join(parts)
