"""Voices that users of a service upload or mix, as files that travel with each chunk to its worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxyard.bark import voices
from voxyard.bark.errors import BarkError
from voxyard.bark.voices import VoicePrompt
from voxyard.speech.errors import SpeechError


@dataclass(frozen=True)
class BarkVoiceFiles:
    """Files of voices, made small; `directory` has the host's own voices beside the presets."""

    directory: Path | None = None

    def read(self, name: str, content: bytes) -> bytes:
        """The voice of an .npz file, checked as one of the host's own.

        Raises:
            SpeechError: the bytes are no voice file.
        """
        try:
            return voices.pack(voices.read(name, content))
        except BarkError as error:
            raise SpeechError(str(error)) from error

    def mix(self, name: str, manner: str | bytes, timbre: str | bytes) -> bytes:
        """The semantic tokens of one voice with the coarse and fine codes of another, each a name or a file.

        Raises:
            SpeechError: there is no such voice, or the bytes are no voice file.
        """
        try:
            return voices.pack(voices.mix(name, self._voice(manner), self._voice(timbre)))
        except BarkError as error:
            raise SpeechError(str(error)) from error

    def _voice(self, source: str | bytes) -> VoicePrompt:
        return voices.load(source, self.directory) if isinstance(source, str) else voices.read("part", source)
