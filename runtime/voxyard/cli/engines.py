"""Choice of the engine that `speak` and `serve` run: Bark, a voice of voxyard export, espeak-ng, servers, one's own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voxyard.bark.config import BarkConfig
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import check_factory, find_factory
from voxyard.speech.errors import SpeechError
from voxyard.speech.open_pool import SERVERS
from voxyard.trainer.voice.directory import META

_log = logging.getLogger("voxyard.cli")

FRONTEND = "voxyard.bark.frontend:frontend"
VOICE_FRONTEND = "voxyard.trainer.voice.frontend:frontend"
REMOTE_FRONTEND = "voxyard.speech.remote.frontend:frontend"
ESPEAK_FRONTEND = "voxyard.espeak.frontend:frontend"
OF_SERVERS = ("base_url", "api_key_file", "remote_model", "server_requests", "server_timeout")
OF_WORKERS = (
    "gpus", "pool", "cluster", "max_parallel_tts_workers", "enable_parallel_tts", "worker_memory_mib", "start_timeout",
)  # fmt: skip
VOICE_SETTINGS = ("model", "device", "threads")  # of the section bark that an exported voice has as well


@dataclass(frozen=True)
class EngineChoice:
    """An engine's front end as `package.module:factory`, its settings, and the package that its workers need."""

    frontend: str
    settings: Mapping[str, Any]
    extra: str
    package: str
    device: str  # cpu, cuda, auto, or SERVERS


def choose_engine(speech: SpeechSection, bark: BarkConfig, origins: Mapping[str, str]) -> EngineChoice:
    """The engine that the settings name.

    The recogniser of its word check is looked for here, before any worker starts; hosts of a cluster have their own.

    Raises:
        SpeechError: a setting has no effect on it, it is not the one that the model is for, it has no model,
            or there is no such recogniser or front end.
    """
    engine = engine_of(speech, bark, origins)
    _check_speech_settings(engine, origins)
    if engine == "bark":
        if (bark.model / META).is_file():
            raise SpeechError(f"{bark.model} is a voice that voxyard export wrote: add --engine voxyard")
        if bark.recogniser is not None:
            look = check_factory if speech.pool == "ray" else find_factory
            look("recogniser", bark.recogniser)
        return EngineChoice(FRONTEND, _alone(speech, bark).model_dump(mode="json"), "bark", "torch", bark.device)
    own = ":" in engine
    has_effect = VOICE_SETTINGS if own else {"voxyard": VOICE_SETTINGS, "espeak": ("device",)}.get(engine, ())
    for name, origin in _given(origins).items():
        if name not in has_effect:
            raise SpeechError(f"{origin} has no effect with --engine {engine}, as it is Bark's: leave it out")
    if own:
        find_factory("engine", engine)
        settings = bark.model_dump(mode="json", include=set(_given(origins)))
        return EngineChoice(engine, settings, "", engine.partition(":")[0].partition(".")[0], bark.device)
    if engine == "openai":
        return _servers(speech)
    if engine == "espeak":
        if bark.device == "cuda":
            raise SpeechError("--engine espeak speaks on the CPU: leave --device cuda out")
        if speech.gpus is not None:
            raise SpeechError(
                f"--engine espeak speaks on the CPU: leave --gpus {speech.gpus} out"
                if speech.engine == "espeak"
                else f"there are no weights of Bark, so that espeak-ng speaks, on the CPU: leave --gpus {speech.gpus} "
                "out, or name the weights with --model DIR"
            )
        return EngineChoice(ESPEAK_FRONTEND, {}, "espeak", "espeakng_loader", "cpu")
    if "model" not in _given(origins):
        raise SpeechError("--engine voxyard speaks with a voice of yours: add --model DIR, as voxyard export wrote it")
    settings = bark.model_dump(mode="json", include=set(VOICE_SETTINGS))
    return EngineChoice(VOICE_FRONTEND, settings, "trainer,cpu", "tensorflow", bark.device)


def _check_speech_settings(engine: str, origins: Mapping[str, str]) -> None:
    """Settings of the section speech that are for servers alone, or for all but these. Raises SpeechError."""
    given = {key: origin for key, origin in origins.items() if origin != "default"}
    for name in OF_WORKERS if engine == "openai" else OF_SERVERS:
        if (origin := given.get(f"speech.{name}")) is not None:
            raise SpeechError(
                f"{origin} has no effect with --engine openai, which speaks on other servers: leave it out"
                if engine == "openai"
                else f"{origin} is a setting of --engine openai, and {engine} speaks: add that, or leave it out"
            )


def _servers(speech: SpeechSection) -> EngineChoice:
    """Servers as the engine."""
    from voxyard.speech.remote.client import read_urls

    settings = {
        "base_urls": list(read_urls(speech.base_url)),
        "key_file": None if speech.api_key_file is None else str(speech.api_key_file),
        "model": speech.remote_model,
        "timeout": speech.server_timeout,
        "requests": speech.server_requests,
    }
    return EngineChoice(REMOTE_FRONTEND, settings, "service", "av", SERVERS)


def _alone(speech: SpeechSection, bark: BarkConfig) -> BarkConfig:
    """With room for one row where one chunk is spoken at a time, unless a number of rows is given. SpeechError."""
    if speech.enable_parallel_tts or bark.batch_size != "auto":
        return bark
    if bark.memory_budget is not None:
        raise SpeechError("--memory-budget has no effect with --no-parallel, which speaks in one row: leave one out")
    return bark.model_copy(update={"batch_size": 1})


def engine_of(speech: SpeechSection, bark: BarkConfig, origins: Mapping[str, str]) -> str:
    """`auto` is Bark where its weights are, or anything of it was set, and espeak-ng on a machine that has neither."""
    if speech.engine != "auto":
        return speech.engine
    if speech.pool == "ray" or bark.model.exists():
        return "bark"
    given = {name: origin for name, origin in _given(origins).items() if name != "device"}
    if given and "model" not in given:
        are = "is a setting" if len(given) == 1 else "are settings"
        _log.info("%s %s of Bark, so Bark speaks; --engine espeak needs no weights", ", ".join(given.values()), are)
    return "bark" if given else "espeak"


def _given(origins: Mapping[str, str]) -> dict[str, str]:
    """The settings of the section bark that were set, by name, with where."""
    return {
        key.removeprefix("bark."): origin
        for key, origin in origins.items()
        if key.startswith("bark.") and origin != "default"
    }
