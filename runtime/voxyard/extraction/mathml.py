"""MathML in a line: its alternative text, or its signs in the order in which they are read."""

from __future__ import annotations

import re

from lxml import html

from voxyard.extraction.raised import above, raised

_TEX = re.compile(r"[\\{}^_]")
_ACCENT = re.compile(r"[¯‾^~→⃗˙¨ˆ˜⏞\s]*")
_SCRIPTS = {"msup": "^", "msub": "_", "msubsup": "_^", "munder": "u", "mover": "o", "munderover": "uo"}
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
    if tag in _SCRIPTS and len(parts) == 1 + len(_SCRIPTS[tag]):
        return _with_scripts(_SCRIPTS[tag], *(part.strip() for part in parts))
    match tag:
        case "mfrac" if len(parts) == 2:
            return f"{parts[0].strip()}/{parts[1].strip()}"
        case "mroot" if len(parts) == 2:
            return f"{above(parts[1].strip())}√{parts[0].strip()}"
        case "msqrt":
            return f"√({' '.join(parts).strip()})" if len(parts) > 1 else f"√{''.join(parts).strip()}"
        case "mtr" | "mlabeledtr":
            return f" {' '.join(part.strip() for part in parts)}, "
        case "mo":
            return f" {(element.text or '').strip()} "
        case _:
            return (element.text or "").strip() + "".join(parts)


def _with_scripts(places: str, base: str, *scripts: str) -> str:
    """A base with what stands at it: ^ above and _ below to its right, o over and u under it."""
    at = dict(zip(places, scripts, strict=True))
    if "u" in at:
        return f"{base} {at['u']}{' … ' + at['o'] if 'o' in at else ''} "
    if "o" in at:
        return base if _ACCENT.fullmatch(at["o"]) else f"{base} {at['o']}"
    lower = at.get("_", "")
    said = f"{base}{'' if not lower or lower.isdigit() else ' '}{lower}"
    if "^" not in at:
        return said
    exponent = raised(base, at["^"])
    return said + (exponent if exponent not in ("", at["^"]) else f"^{at['^']}")
