"""Languages as audio files name them: ISO 639-2, by codes of three letters."""

from __future__ import annotations

from collections.abc import Mapping

_CODES = "alb arm baq bur chi cze dut fre geo ger gre ice mac mao may per rum slo tib wel"
_BIBLIOGRAPHIC = frozenset(_CODES.split())
"""Codes of libraries: files have the other one of such a language (ISO/IEC 14496-12)."""


def three_letters(language: str | None) -> str | None:
    """`en-GB` → `eng`; None for what has no such code, or is no language."""
    from babel.core import get_global

    code = (language or "").replace("_", "-").partition("-")[0].strip().lower()
    aliases: Mapping[str, str] = get_global("language_aliases")
    short = aliases.get(code, code)
    found = [
        each for each, of in aliases.items() if (of, len(each)) == (short, 3) and each not in _BIBLIOGRAPHIC
    ]  # single languages of a group stand before its own code
    alike = [each for each in found if each.startswith(short)] or found
    return alike[-1] if alike else (code if len(code) == 3 and code.isalpha() and code != "und" else None)
