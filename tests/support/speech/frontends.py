"""Frontends of the engines in `engines`: words are tokens, and a few names are voices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import VoiceDescription, VoiceFiles

VOICES = ("announcer", "v2/de_speaker_1", *(f"v2/en_speaker_{number}" for number in range(10)))


class ToneFiles:
    """Files of tones begin with the word; a mixed one has both."""

    def read(self, name: str, content: bytes) -> bytes:
        if not content.startswith(b"tone"):
            raise SpeechError(f"the voice {name!r} is no tone: expected the word at the beginning")
        return content

    def mix(self, name: str, manner: str | bytes, timbre: str | bytes) -> bytes:
        return b"tone of " + b" and ".join(
            each if isinstance(each, bytes) else each.encode() for each in (manner, timbre)
        )


TONE_FILES: VoiceFiles = ToneFiles()


@dataclass(frozen=True)
class TonesFrontend:
    """The front of `engines:tones`."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 16
    max_seconds: float = 13.0
    notes: Sequence[str] = ("a test's tones: noise, no speech",)
    voice_files: VoiceFiles | None = TONE_FILES
    speeds: tuple[float, float] = (1.0, 1.0)

    @property
    def engine(self) -> EngineSpec:
        return EngineSpec("engines:tones", self.settings)

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def voices(self) -> Sequence[str]:
        return VOICES

    def has_voice(self, name: str) -> bool:
        return name in self.voices()

    def default_voice(self, language: str | None) -> str | None:
        return "v2/de_speaker_1" if language == "de" else "v2/en_speaker_6"

    def check_voice(self, name: str) -> None:
        if name not in VOICES:
            raise SpeechError(f"there is no voice {name!r}")

    def language(self, voice: str | None) -> str | None:
        return voice[3:5] if voice is not None and voice.startswith("v2/") else None

    def refusal(self, text: str, language: str | None) -> str | None:
        if language is not None and language == self.settings.get("unread_language"):
            return f"found the language {language!r}, expected one of mine"
        word = self.settings.get("unread")  # a word that it cannot read
        return f"found {word!r}, expected a word of mine" if word is not None and word in text else None

    def describe(self, voice: str) -> VoiceDescription:
        return VoiceDescription(
            f"Tone {voice[-1]}" if voice[-1].isdigit() else voice, None if voice == "announcer" else "male"
        )


def frontend(settings: Mapping[str, Any]) -> TonesFrontend:
    """The factory that a setting names as `frontends:frontend`."""
    return TonesFrontend(settings)
