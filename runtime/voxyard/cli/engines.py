"""Choice of the engine that `speak` and `serve` run: Bark, or a voice that was exported."""

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
VOICE_SETTINGS = ("model", "device", "threads")  # of the section bark that an exported voice has as well


@dataclass(frozen=True)
class EngineChoice:
    """An engine's front end as `package.module:factory`, its settings, and the package that its workers need."""

    frontend: str
    settings: Mapping[str, Any]
    extra: str
    package: str


def choose_engine(speech: SpeechSection, bark: BarkConfig, origins: Mapping[str, str]) -> EngineChoice:
    """The engine that the settings name.

    The recogniser of its word check is looked for here, before any worker starts; hosts of a cluster have their own.

    Raises:
        SpeechError: a setting has no effect on it, it is not the one that the model is for, it has no model,
            or there is no such recogniser.
    """
    if speech.engine == "bark":
        if (bark.model / META).is_file():
            raise SpeechError(f"{bark.model} is a voice that voxyard export wrote: add --engine voxyard")
        if bark.recogniser is not None:
            look = check_factory if speech.pool == "ray" else find_factory
            look("recogniser", bark.recogniser)
        return EngineChoice(FRONTEND, bark.model_dump(mode="json"), "bark", "torch")
    if origins.get("bark.model", "default") == "default":
        raise SpeechError("--engine voxyard speaks with a voice of yours: add --model DIR, as voxyard export wrote it")
    for key, origin in origins.items():
        section, _, name = key.partition(".")
        if section == "bark" and origin != "default" and name not in VOICE_SETTINGS:
            raise SpeechError(f"{origin} has no effect with --engine {speech.engine}, as it is Bark's: leave it out")
    settings = bark.model_dump(mode="json", include=set(VOICE_SETTINGS))
    return EngineChoice(VOICE_FRONTEND, settings, "trainer,cpu", "tensorflow")
