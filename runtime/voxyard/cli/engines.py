"""Choice of the engine that `speak` and `serve` run: Bark, a voice that was exported, or espeak-ng."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voxyard.bark.config import BarkConfig
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import check_factory, find_factory
from voxyard.speech.errors import SpeechError
from voxyard.trainer.voice.directory import META

FRONTEND = "voxyard.bark.frontend:frontend"
VOICE_FRONTEND = "voxyard.trainer.voice.frontend:frontend"
ESPEAK_FRONTEND = "voxyard.espeak.frontend:frontend"
VOICE_SETTINGS = ("model", "device", "threads")  # of the section bark that an exported voice has as well


@dataclass(frozen=True)
class EngineChoice:
    """An engine's front end as `package.module:factory`, its settings, and the package that its workers need."""

    frontend: str
    settings: Mapping[str, Any]
    extra: str
    package: str
    device: str  # cpu, cuda or auto


def choose_engine(speech: SpeechSection, bark: BarkConfig, origins: Mapping[str, str]) -> EngineChoice:
    """The engine that the settings name.

    The recogniser of its word check is looked for here, before any worker starts; hosts of a cluster have their own.

    Raises:
        SpeechError: a setting has no effect on it, it is not the one that the model is for, it has no model,
            or there is no such recogniser.
    """
    engine = _engine(speech, bark, origins)
    if engine == "bark":
        if (bark.model / META).is_file():
            raise SpeechError(f"{bark.model} is a voice that voxyard export wrote: add --engine voxyard")
        if bark.recogniser is not None:
            look = check_factory if speech.pool == "ray" else find_factory
            look("recogniser", bark.recogniser)
        return EngineChoice(FRONTEND, _alone(speech, bark).model_dump(mode="json"), "bark", "torch", bark.device)
    has_effect = VOICE_SETTINGS if engine == "voxyard" else ("device",)
    for name, origin in _given(origins).items():
        if name not in has_effect:
            raise SpeechError(f"{origin} has no effect with --engine {engine}, as it is Bark's: leave it out")
    if engine == "espeak":
        if bark.device == "cuda":
            raise SpeechError("--engine espeak speaks on the CPU: leave --device cuda out")
        return EngineChoice(ESPEAK_FRONTEND, {}, "espeak", "espeakng_loader", "cpu")
    if "model" not in _given(origins):
        raise SpeechError("--engine voxyard speaks with a voice of yours: add --model DIR, as voxyard export wrote it")
    settings = bark.model_dump(mode="json", include=set(VOICE_SETTINGS))
    return EngineChoice(VOICE_FRONTEND, settings, "trainer,cpu", "tensorflow", bark.device)


def _alone(speech: SpeechSection, bark: BarkConfig) -> BarkConfig:
    """With room for one row where one chunk is spoken at a time, unless a number of rows is given. SpeechError."""
    if speech.enable_parallel_tts or bark.batch_size != "auto":
        return bark
    if bark.memory_budget is not None:
        raise SpeechError("--memory-budget has no effect with --no-parallel, which speaks in one row: leave one out")
    return bark.model_copy(update={"batch_size": 1})


def _engine(speech: SpeechSection, bark: BarkConfig, origins: Mapping[str, str]) -> str:
    """`auto` is Bark where its weights are, or anything of it was set, and espeak-ng on a machine that has neither."""
    if speech.engine != "auto":
        return speech.engine
    asked = speech.pool == "ray" or bark.model.exists() or set(_given(origins)) - {"device"}
    return "bark" if asked else "espeak"


def _given(origins: Mapping[str, str]) -> dict[str, str]:
    """The settings of the section bark that were set, by name, with where."""
    return {
        key.removeprefix("bark."): origin
        for key, origin in origins.items()
        if key.startswith("bark.") and origin != "default"
    }
