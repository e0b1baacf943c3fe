"""Numbers of chapters that are written with a zero to sort them: Kapitel 01, chapter 007, 第01章."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_PARTS = {
    "en": "chapter|episode|lesson|volume|season|book|part|track|unit|scene|act|day|week|step",
    "de": "kapitel|folge|lektion|band|staffel|buch|teil|szene|akt|tag|woche|schritt",
    "fr": "chapitre|épisode|leçon|volume|saison|livre|tome|partie|piste|scène|acte|jour|étape",
    "es": "capítulo|episodio|lección|volumen|temporada|libro|tomo|parte|pista|escena|acto|día|paso",
    "it": "capitolo|episodio|lezione|volume|stagione|libro|tomo|parte|traccia|scena|atto|giorno|passo",
    "pt": "capítulo|episódio|lição|volume|temporada|livro|tomo|parte|faixa|cena|ato|dia|passo",
    "nl": "hoofdstuk|aflevering|les|deel|seizoen|boek|scène|akte|dag|stap",
}


def patterns(code: str, language: Language) -> list[Reading]:
    """Patterns of a part's name and of its number; none where the language has no names."""
    if code in ("ja", "ko", "zh"):
        return [(re.compile(r"(?<=[第제])0+(?P<n>[1-9]\d{0,2})(?!\d)"), lambda found: cardinal(found["n"], language))]
    if code not in _PARTS:
        return []
    pattern = rf"(?<!\w)(?P<part>(?i:{_PARTS[code]})\s)0+(?P<n>[1-9]\d{{0,2}})(?![\w/-]|[.,:]\d)"
    return [(re.compile(pattern), lambda found: found["part"] + cardinal(found["n"], language))]
