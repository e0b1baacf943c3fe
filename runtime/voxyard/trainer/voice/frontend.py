"""Voice front end in the parent process: speakers and text limits of a voice directory; imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import BaseFrontend, Frontend
from voxyard.speech.nearest import nearest
from voxyard.speech.reading.reader import READING_VERSION
from voxyard.speech.text.sentences import language_code
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.text.reader import TextReader
from voxyard.trainer.voice.directory import VoiceDirectory, read

ENGINE = "voxyard.trainer.voice.engine:create"
CHUNK_SECONDS = 10.0  # of a text: as long as the clips of common corpora
CHUNK_CHARACTERS = 400  # bounds a text of silent characters only: 10 s have about 150


class VoiceFrontend(BaseFrontend):
    """Front end of one voice directory; its speakers are its voices. Thread-safe: it only reads."""

    max_tokens = CHUNK_CHARACTERS

    def __init__(self, voice: VoiceDirectory, device: str, threads: int) -> None:
        self._voice, self._reader = voice, TextReader(voice.config)
        self.max_seconds = min(CHUNK_SECONDS, voice.config.data.max_clip_seconds)
        settings = {"model": str(voice.path), "device": device, "threads": threads}
        self.engine = EngineSpec(ENGINE, settings, voice.identity, name="voxyard")
        self.notes = tuple(_notes(voice))

    def voices(self) -> tuple[str, ...]:
        """Names of the speakers, sorted."""
        return tuple(sorted(self._voice.voices))

    def default_voice(self, language: str | None) -> str:
        """The first speaker of the model, for any language: all of them speak its own."""
        return self._voice.voices[0]

    def check_voice(self, name: str) -> None:
        """Check that there is such a speaker.

        Raises:
            TrainerError: there is none; the message names the nearest.
        """
        if name not in self._voice.voices:
            near = nearest(name, self._voice.voices, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(self._voice.voices[:20])}"
            raise TrainerError(f"the voice in {self._voice.path} has no speaker {name!r}; {hint}")

    def language(self, voice: str | None) -> str | None:
        """Language of the model, such as en; None for one that is not named by a language."""
        try:
            return language_code(self._voice.config.model.language)
        except SpeechError:
            return None

    def refusal(self, text: str, language: str | None) -> str | None:
        """Reason for which the model cannot read a text; None where nothing is found."""
        return self._reader.refusal(text, language) if any(map(str.isalnum, text)) else None


def _notes(voice: VoiceDirectory) -> Iterator[str]:
    if voice.reading not in (0, READING_VERSION):
        yield (
            f"the voice in {voice.path} learned texts by reading {voice.reading} of numbers and dates, and this "
            f"voxyard has reading {READING_VERSION}: some may be spoken in other words than those that it learned"
        )


def frontend(settings: Mapping[str, object]) -> Frontend:
    """Front end factory `voxyard.trainer.voice.frontend:frontend`: `model`, `device` and `threads`, see VoiceEngine.

    Raises:
        TrainerError: the directory holds no voice.
    """
    voice = read(Path(str(settings["model"])).expanduser().absolute())
    return VoiceFrontend(voice, str(settings.get("device", "auto")), int(str(settings.get("threads", 1))))
