"""Voice directory: weights, text front end and licence of a trained model, read without TensorFlow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxyard.corpus.text import SYMBOLS_HASH
from voxyard.host.durable_files import digest_of
from voxyard.trainer.config import TrainConfig, trained_config
from voxyard.trainer.errors import TrainerError

FORMAT = 1
META, WEIGHTS, LICENCE, README = "voice.json", "weights.safetensors", "LICENCE.txt", "README.md"


@dataclass(frozen=True)
class VoiceDirectory:
    """A voice's directory with what its voice.json says; its weights are not read."""

    path: Path
    config: TrainConfig
    speakers: tuple[str, ...]
    vocoder: str
    step: int
    sha256: str
    reading: int = 0  # version of the reading of numbers and dates that it was trained with; 0 is none

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the speakers, in the order of the model; a model without names has the voice `default`."""
        return tuple(name or "default" for name in self.speakers) or ("default",)

    @property
    def identity(self) -> str:
        """First 16 hex digits of the weights' SHA-256."""
        return self.sha256[:16]


def read(path: Path) -> VoiceDirectory:
    """The voice of a directory.

    Raises:
        TrainerError: it is no voice directory, or one of another format.
    """
    file = path / META
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            found = meta.get("format") if isinstance(meta, dict) else meta
            raise TrainerError(f"{file} has format {found!r}, expected {FORMAT}: export the voice with this voxyard")
        if (symbols := meta["symbols"]) != SYMBOLS_HASH:
            raise TrainerError(
                f"{file}: the voice reads text by another table of symbols ({symbols}) than this voxyard "
                f"({SYMBOLS_HASH}): speak with the voxyard {meta['voxyard']} that exported it, or export it again"
            )
        return VoiceDirectory(
            path,
            trained_config(meta["config"]),
            tuple(meta["speakers"]),
            str(meta["vocoder"]),
            int(meta["step"]),
            str(meta["sha256"]),
            int(meta.get("reading", 0)),
        )
    except OSError as error:
        raise TrainerError(
            f"{path} is no voice: {META} cannot be read ({error.strerror}); expected a directory that "
            "`voxyard export` has written"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise TrainerError(f"{file} is damaged ({type(error).__name__}: {error}): export the voice again") from error


def read_weights(voice: VoiceDirectory) -> dict[str, Any]:
    """Weights by name, as NumPy arrays, verified.

    Raises:
        TrainerError: the file is missing or damaged.
    """
    path = voice.path / WEIGHTS
    try:
        digest = digest_of(path)
    except OSError as error:
        raise TrainerError(f"{path} cannot be read: {error.strerror}; copy or export the voice again") from error
    if digest != voice.sha256:
        raise TrainerError(
            f"{path} is damaged: its SHA-256 is {digest[:12]}…, but {voice.sha256[:12]}… was exported; copy or export "
            "the voice again"
        )
    from safetensors.numpy import load_file

    return load_file(path)
