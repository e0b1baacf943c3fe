"""Bark's presets in words for people: their language, number and gender."""

from __future__ import annotations

import re

from voxyard.speech.frontend import VoiceDescription

LANGUAGE_NAMES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}
WOMEN = {
    "de": (3, 8),
    "en": (9,),
    "es": (8, 9),
    "fr": (1, 2, 5),
    "hi": (0, 1, 3, 4, 9),
    "it": (2, 7, 9),
    "ja": (0, 1, 3, 4, 5, 7, 8, 9),
    "ko": (0,),
    "pl": (4, 6, 9),
    "pt": (),
    "ru": (5, 6, 9),
    "tr": (4, 5),
    "zh": (4, 6, 7, 9),
}
"""Numbers of the women among the second set (`v2/…`) of ten presets a language, by Suno's speaker library."""

_PRESET = re.compile(r"(v2/)?([a-z]{2})_speaker_(\d)")


def describe(voice: str) -> VoiceDescription:
    """Description of a preset by its name; of any other voice, its name in readable form.

    The speaker library names the gender of the second set alone.
    """
    found = _PRESET.fullmatch(voice)
    if found is None or found[2] not in LANGUAGE_NAMES:
        return VoiceDescription(readable(voice))
    title = f"{LANGUAGE_NAMES[found[2]]} speaker {found[3]}"
    if not found[1]:
        return VoiceDescription(f"{title}, first set")
    return VoiceDescription(title, "female" if int(found[3]) in WOMEN[found[2]] else "male")


def readable(name: str) -> str:
    """A name as a title: `old_captain` as `Old captain`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]
