"""Bark's front end in the parent process: tokenizer, voices, engine spec; imports no torch, loads no weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from voxyard.bark import voices
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.voices import BarkVoiceFiles
from voxyard.bark.weights import checkpoint, tokenizer
from voxyard.bark.weights.identity import identity
from voxyard.speech.engine import EngineSpec
from voxyard.speech.frontend import BaseFrontend, Frontend, VoiceDescription

ENGINE = "voxyard.bark.engine:create"
MAX_TOKENS = 256
MAX_SECONDS = 13.0  # the semantic stage ends after 15.4 s


class BarkFrontend(BaseFrontend):
    """Front end of one checked model directory. Thread-safe: the tokenizer is only read."""

    max_tokens = MAX_TOKENS
    max_seconds = MAX_SECONDS

    def __init__(self, config: BarkConfig) -> None:
        checkpoint.require(config.model)
        self._tokenizer = tokenizer.read(config.model)
        self.engine = EngineSpec(ENGINE, config.model_dump(mode="json"), identity(config.model))
        self.notes = _notes(config.model)
        self._own = config.voices
        voices.own(self._own)
        self.voice_files = BarkVoiceFiles(self._own)

    def count_tokens(self, text: str) -> int:
        """Number of Bark's text tokens, without special tokens or truncation.

        Raises:
            BarkError: the text contains a lone surrogate, which is no character.
        """
        try:
            return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except TypeError as problem:
            raise BarkError(
                "the text contains a lone surrogate, which is no character: expected valid UTF-8"
            ) from problem

    def voices(self) -> tuple[str, ...]:
        """The presets and the voices of the settings' directory, sorted.

        Raises:
            BarkError: the package with the presets is not installed, or the directory cannot be read.
        """
        return voices.names(self._own)

    def default_voice(self, language: str | None) -> str:
        """A preset of the language, else an English one; without a voice Bark invents a new one for every chunk."""
        return voices.default((language or "en").partition("-")[0].lower())

    def check_voice(self, name: str) -> None:
        """Check that there is such a voice or voice file.

        Raises:
            BarkError: there is none; the message names the nearest voices.
        """
        voices.load(name, self._own)

    def language(self, voice: str | None) -> str | None:
        """Language that a preset is named after; None for the announcer and for voice files."""
        return None if voice is None else voices.language(voice)

    def describe(self, voice: str) -> VoiceDescription:
        """Language, number and gender of a preset; other voices have their names alone."""
        return voices.describe(voice)


def frontend(settings: Mapping[str, object]) -> Frontend:
    """Front end factory `voxyard.bark.frontend:frontend`; its settings are the fields of BarkConfig.

    Raises:
        BarkError: a setting is wrong, or the directory holds no usable Bark model.
    """
    try:
        config = BarkConfig.model_validate(dict(settings))
    except ValidationError as problem:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors())
        raise BarkError(f"invalid settings of Bark: {wrong}") from problem
    # Absolute: a worker must find the files wherever it runs.
    paths = {"model": config.model, **({} if config.voices is None else {"voices": config.voices})}
    return BarkFrontend(config.model_copy(update={name: path.expanduser().absolute() for name, path in paths.items()}))


def _notes(directory: Path) -> tuple[str, ...]:
    if checkpoint.is_random(directory):
        return (f"the weights in {directory} are random: the audio will be noise",)
    return ()
