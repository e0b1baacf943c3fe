"""espeak-ng's front end in the parent process: voices, and how long a chunk may be."""

from __future__ import annotations

from collections.abc import Mapping

from voxyard.espeak import voices
from voxyard.speech.engine import EngineSpec
from voxyard.speech.frontend import BaseFrontend, Frontend, VoiceDescription

ENGINE = "voxyard.espeak.engine:create"
NOTE = (
    "espeak-ng speaks (a formant synthesizer, no neural voice; GPL-3.0, a package of its own); for Bark: "
    "voxyard weights fetch suno/bark --out DIR, then --model DIR"
)


class EspeakFrontend(BaseFrontend):
    """Front end of the installed library. Thread-safe: it only reads."""

    max_tokens = 600  # characters: bounds a text of silent characters only
    max_seconds = 20.0
    speeds = (0.5, 2.5)  # the library's slowest and fastest rate, at which each word is still whole
    notes = (NOTE,)

    def __init__(self) -> None:
        voices.names()
        self.engine = EngineSpec(ENGINE, name="espeak-ng")

    def voices(self) -> tuple[str, ...]:
        """Names of the voices, sorted."""
        return voices.names()

    def has_voice(self, name: str) -> bool:
        """True for every language, alone and with every variant."""
        return voices.exists(name)

    def default_voice(self, language: str | None) -> str:
        """The voice of the language, else that of American English."""
        return voices.default(language)

    def check_voice(self, name: str) -> None:
        """Check that there is such a voice.

        Raises:
            SpeechError: there is none; the message names the nearest.
        """
        voices.check(name)

    def language(self, voice: str | None) -> str | None:
        """Language of a voice, such as en."""
        return None if voice is None else voices.language(voice)

    def describe(self, voice: str) -> VoiceDescription:
        """The language in words, and the gender where the variant tells it."""
        return voices.describe(voice)


def frontend(_settings: Mapping[str, object]) -> Frontend:
    """Front end factory `voxyard.espeak.frontend:frontend`; there are no settings.

    Raises:
        SpeechError: espeak-ng is not installed.
    """
    return EspeakFrontend()
