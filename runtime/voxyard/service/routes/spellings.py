"""Values as clients of other services write them: numbers as text, names in capitals, languages by their names."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, StringConstraints

NUMBER = re.compile(r"^[0-9]{1,3}(\.[0-9]{0,17})?$", re.ASCII)
_LANGUAGES = {
    "arabic": "ar", "chinese": "zh", "dutch": "nl", "english": "en", "french": "fr", "german": "de", "hindi": "hi",
    "italian": "it", "japanese": "ja", "korean": "ko", "persian": "fa", "polish": "pl", "portuguese": "pt",
    "russian": "ru", "spanish": "es", "turkish": "tr", "auto": "",
}  # fmt: skip
"""Codes of the names that clients of vLLM-Omni and Qwen3-TTS send; none where the language is to be found."""


def number(value: object) -> object:
    """Number of a numeric string, as some clients send one; all else as it is."""
    return float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value


def lower(value: object) -> object:
    """A name in lower case, as some clients write formats in capitals; all else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def truth(value: object) -> bool:
    """False for what says no, in any spelling; all else is true."""
    return str(value).strip().lower() not in ("false", "no", "off", "0")


def _language(value: object) -> object:
    return _LANGUAGES.get(value.lower(), value) if isinstance(value, str) else value


Language = Annotated[str, StringConstraints(max_length=35), BeforeValidator(_language)]
"""Language code, also by the language's English name; empty as none."""
