"""Quantities before a noun that they describe: in English a five dollar bill, a five kilometer run."""

from __future__ import annotations

import re

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.tables import table

_BEFORE = re.compile(
    r"\b(?:an?(?:\s[a-z]+)?|the|this|that|every|each|another|one|two|three|four|five|six|seven|eight|nine|ten|several|"
    r"many|some|few|no|his|her|its|my|your|our|their|(?!(?:it|that|he|she|here|there|what|who|where|let|how|this)['’])[^\W\d_]+['’]s)\s(?:[a-z0-9]+-[a-z]+,\s)?$",
    re.IGNORECASE,
)
_NOUN = re.compile(r"(?:\s\([^()\n]{1,20}\))?[\s-]([a-z]+|[A-Z]{2,5}|[A-Z]{1,2}\d{1,2})(?![\w'’])")
_AND_MORE = re.compile(r"\+\s([a-z]+)(?![\w'’])")  # $1M+ homes


def is_attribute(found: re.Match[str], language: Language) -> bool:
    """True where a quantity in English stands between an article and a noun: a 5 km run, but not the 5 km were long."""
    if language.locale != "en":
        return False
    if re.match(r"-an?-[a-z]", found.string[found.end() : found.end() + 5]):  # a $100-a-day habit
        return True
    more = _AND_MORE.match(found.string, found.end())
    if more is not None:
        return more[1] not in table("en").no_attribute
    before = _BEFORE.search(found.string[max(0, found.start() - 40) : found.start()])
    noun = _NOUN.match(found.string[found.end() : found.end() + 40])
    return (
        before is not None
        and noun is not None
        and noun[1] not in table("en").no_attribute
        and not noun[1].endswith(("ed", "ly"))
    )
