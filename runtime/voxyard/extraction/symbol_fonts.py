"""Fonts that draw signs in place of letters, as Symbol and Wingdings do: what their letters are."""

from __future__ import annotations

import re

_PRIVATE = 0xF000  # Word's place for the letters of such a font
_GREEK = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ",
        strict=True,
    )
)
_SYMBOL = _GREEK | {
    "¢": "′", "£": "≤", "¥": "∞", "¬": "←", "®": "→", "°": "°", "±": "±", "³": "≥", "´": "×", "¶": "∂", "·": "•",
    "¸": "÷", "¹": "≠", "º": "≡", "»": "≈", "¼": "…", "Î": "∈", "Ö": "√", "×": "⋅", "å": "∑", "ò": "∫",
}  # fmt: skip
_WINGDINGS = {
    "J": "☺", "K": "😐", "L": "☹", "à": "→", "ß": "←", "è": "→", "ð": "→", "ü": "✓", "û": "✗", "þ": "☑",
}  # fmt: skip
_SYMBOL_NAME = re.compile(r"symbol(?: ?mt)?", re.IGNORECASE)
_ORNAMENTS_NAME = re.compile(r"wingdings(?: ?[23])?|webdings|zapf ?dingbats", re.IGNORECASE)


def is_symbol_font(name: str) -> bool:
    """True for the name of a font that draws signs."""
    name = name.strip(" \"';")
    return _SYMBOL_NAME.fullmatch(name) is not None or _ORNAMENTS_NAME.fullmatch(name) is not None


def as_drawn(text: str, font: str) -> str:
    """The text as a font of signs draws it, without its ornaments."""
    text = "".join(chr(ord(each) - _PRIVATE) if _PRIVATE <= ord(each) < _PRIVATE + 0x100 else each for each in text)
    if _ORNAMENTS_NAME.fullmatch(font.strip(" \"';")) is not None:
        return "".join(_WINGDINGS.get(each, each if each.isspace() else "") for each in text)
    return "".join(_SYMBOL.get(each, each) for each in text)
