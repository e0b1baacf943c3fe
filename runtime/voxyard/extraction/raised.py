"""Raised and small text: an exponent keeps its place above its number, the mark of a note is silent."""

from __future__ import annotations

import re

_ABOVE = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_SIGNS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_BELOW = str.maketrans(_SIGNS, "0123456789+-")
_RAISED = re.compile(rf"(?<=\S)[{_SIGNS}]+")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|ère|re|e|ème|nd|nde|o|a|os|as|º|ª|h|TM|®|™)\.?", re.IGNORECASE)
_SHORTENED = re.compile(r"r|t|me|mes|lle|lles|gr|ve|bre|nos|os|is")  # after a capital letter: Mme, Dr
_EXPRESSION = re.compile(r"(?=.*[+\-−·/]|\d*[a-zα-ω]{1,2}$)[\dA-Za-zα-ω]{1,3}(?:\s?[+\-−·/]\s?[\dA-Za-zα-ω]{1,3}){0,3}")
_EXPONENT = re.compile(r"[+\-−]?\d{1,3}")
_NOTE = re.compile(r"[\[(]?\s*(?:\d{1,4}(?:\s*[,–-]\s*\d{1,4})*|[*†‡§¶]+|[a-z])\s*[\])]?")
_BASE = re.compile(r"(?:(?<![\d.,])\d{1,3}|(?<![^\W_])[A-Za-z]|(?<![^\W\d_])(?:mm|cm|dm|km|ft|in|yd|mi|mc|hm))$")
_VARIABLE = re.compile(r"(?<![^\W_])(?:[A-Za-z]|\d{1,3})$")


def above(text: str) -> str:
    """Figures as raised signs, without the brackets of a note's mark."""
    return text.strip("[]()").translate(_ABOVE)


def settled(text: str) -> str:
    """A line in which raised signs are what `raised` makes of them: an exponent, or the silent mark of a note."""
    return _RAISED.sub(
        lambda found: raised(text[max(0, found.start() - 20) : found.start()], found[0].translate(_BELOW)), text
    )


def raised(before: str, text: str) -> str:
    """What is heard of raised text, by what stands directly before it.

    After a number of up to three figures, a variable or a unit of length it is an exponent, in raised signs; after a
    word or a mark it is that of a note, and silent. The ending of an ordinal joins its number.
    """
    text = text.strip()
    if _EXPONENT.fullmatch(text) and _BASE.search(before) is not None:
        return text.translate(_ABOVE)
    if _ORDINAL.fullmatch(text) and before[-1:].isalnum():
        return text
    if _SHORTENED.fullmatch(text) and before[-1:].isupper():
        return text
    if _EXPRESSION.fullmatch(text) and len(text) > 1 and _VARIABLE.search(before) is not None:
        return f"^({text})"
    if len(text) == 1 and text.isalpha() and _VARIABLE.search(before) is not None:
        return f"^{text}"
    if _NOTE.fullmatch(text) and before[-1:].strip():
        return ""
    return text
