"""Front end of the engine, with the uploaded voices beside the engine's own."""

from __future__ import annotations

from collections.abc import Sequence

from voxyard.service.voices.table import UploadedVoices, is_uploaded
from voxyard.speech.engine import EngineSpec
from voxyard.speech.frontend import Frontend, VoiceDescription, VoiceFiles


class UploadedVoicesFrontend:
    """The engine's front end that knows the ids of uploaded voices, too; these are no names for clients."""

    def __init__(self, engine: Frontend, uploaded: UploadedVoices) -> None:
        self._engine, self._uploaded = engine, uploaded

    @property
    def engine(self) -> EngineSpec:
        """As the engine's."""
        return self._engine.engine

    @property
    def max_tokens(self) -> int:
        """As the engine's."""
        return self._engine.max_tokens

    @property
    def max_seconds(self) -> float:
        """As the engine's."""
        return self._engine.max_seconds

    @property
    def speeds(self) -> tuple[float, float]:
        """As the engine's."""
        return self._engine.speeds

    @property
    def notes(self) -> Sequence[str]:
        """As the engine's."""
        return self._engine.notes

    @property
    def voice_files(self) -> VoiceFiles | None:
        """As the engine's."""
        return self._engine.voice_files

    def count_tokens(self, text: str) -> int:
        """As the engine's."""
        return self._engine.count_tokens(text)

    def voices(self) -> Sequence[str]:
        """The engine's own."""
        return self._engine.voices()

    def has_voice(self, name: str) -> bool:
        """As the engine's: ids of uploaded voices are no names for clients."""
        return self._engine.has_voice(name)

    def default_voice(self, language: str | None) -> str | None:
        """As the engine's."""
        return self._engine.default_voice(language)

    def check_voice(self, name: str) -> None:
        """Checks that there is such a voice. Raises VoiceNotFoundError for an id, as the engine for a name."""
        if is_uploaded(name):
            self._uploaded.language(name)
        else:
            self._engine.check_voice(name)

    def language(self, voice: str | None) -> str | None:
        """Language of a voice, as its owner or the engine has it."""
        if voice is not None and is_uploaded(voice):
            return self._uploaded.language(voice)
        return self._engine.language(voice)

    def refusal(self, text: str, language: str | None) -> str | None:
        """As the engine's."""
        return self._engine.refusal(text, language)

    def describe(self, voice: str) -> VoiceDescription:
        """As the engine's."""
        return self._engine.describe(voice)
