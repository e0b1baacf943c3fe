"""Moves of chess after their number, with the names of the pieces: 1. e4 e5 2. Nf3 Nc6."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import table


def patterns(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """The pattern of a numbered move of one or both, with its words; none where the language has no pieces."""
    names = table(language.locale).chess
    if not names:
        return []
    piece = "|".join(sorted((each for each in names if each != "x"), key=len, reverse=True))
    move = rf"(?:(?:{piece})[a-h1-8]?[x:]?|[a-h][x:])?[a-h][1-8](?![\w.,]\d|[^\W\d_])[+#!?]{{0,2}}"
    part = re.compile(rf"(?P<piece>{piece})|(?P<takes>[x:])|(?P<square>[a-h]?[1-8])|[a-h]")

    def said(move: str) -> str:
        words = []
        for each in part.finditer(re.sub(r"[+#!?]", "", move)):
            if each["square"]:
                words.append("-".join(cardinal(sign, language) if sign.isdigit() else sign for sign in each[0]))
            else:
                words.append(names["x"] if each["takes"] else names.get(each[0], each[0]))
        return " ".join(words)

    def words(found: re.Match[str]) -> str:
        moves = ", ".join(said(each) for each in found["moves"].split())
        return f"{cardinal(found['n'], language)} {moves}"

    return [(re.compile(rf"(?<![\w.,])(?P<n>[1-9]\d{{0,2}})\.(?:\.\.)? ?(?P<moves>{move}(?: {move})?)"), words)]
