"""Voice and model names that clients may use: the engine's own, OpenAI's aliases, and the operator's aliases."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voxyard.service.config import DEFAULT_VOICES
from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.speech.engine import EngineSpec
from voxyard.speech.frontend import Frontend

MODEL_ALIASES = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
LARGEST_FILE = 1 << 20  # bytes; a table of names has a few kilobytes
_SHOWN = 60  # characters of a name in a message


class VoiceNotFoundError(NotFoundError):
    """No voice of this name."""

    code = "voice_not_found"


class ModelNotFoundError(NotFoundError):
    """No model of this name."""

    code = "model_not_found"


@dataclass(frozen=True)
class VoiceName:
    """A voice name that requests may use; `alias_of` is the engine's name where this one is an alias."""

    name: str
    language: str | None
    alias_of: str | None = None


class VoiceNames:
    """Voice names, resolved to the engine's. Only these names reach the engine: a client cannot pass a path."""

    def __init__(self, frontend: Frontend, aliases: Mapping[str, str]) -> None:
        own = {name: VoiceName(name, frontend.language(name)) for name in frontend.voices()}
        further = {
            alias: VoiceName(alias, own[name].language, name)
            for alias, name in aliases.items()
            if name in own and alias not in own
        }
        self._voices = own | dict(sorted(further.items()))

    def resolve(self, name: str) -> str:
        """The engine's name of a voice.

        Raises:
            VoiceNotFoundError: no voice of this name; the message names the nearest.
        """
        found = self._voices.get(name)
        if found is None:
            raise VoiceNotFoundError(self._unknown(name), parameter="voice")
        return found.alias_of or found.name

    def all(self) -> tuple[VoiceName, ...]:
        """All names: the engine's own first, then the aliases, each sorted."""
        return tuple(self._voices.values())

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name[:_SHOWN], self._voices, n=3)
        nearest = f"the nearest are {', '.join(near)}" if near else "no name is similar"
        return f"no voice {_shown(name)}: {nearest}; GET /v1/audio/voices lists all {len(self._voices)}"


def open_voices(frontend: Frontend, path: Path | None) -> VoiceNames:
    """The engine's voices, OpenAI's aliases for those that it has, and the aliases of the operator's file.

    Raises:
        ServiceError: the file cannot be read, or names a voice that the engine does not have.
    """
    further = {} if path is None else _read(path)
    own = frontend.voices()
    for alias, name in further.items():
        if name not in own:
            near = difflib.get_close_matches(name, own, n=3)
            hint = f"the nearest are {', '.join(near)}" if near else "`voxyard voices` lists them"
            raise ServiceError(f"{path}: {alias}: the engine has no voice {_shown(name)}; {hint}")
    return VoiceNames(frontend, {**DEFAULT_VOICES, **further})


def _read(path: Path) -> dict[str, str]:
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ServiceError(f"{path}: larger than {LARGEST_FILE >> 20} MiB: expected a YAML file of voice names")
        table = yaml.safe_load(data)
    except OSError as error:
        raise ServiceError(f"{path}: cannot be read: {error.strerror}; expected a YAML file of names") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ServiceError(f"{path}: invalid YAML: expected lines such as `narrator: v2/en_speaker_6`") from error
    table = {} if table is None else table
    pairs = table.items() if isinstance(table, dict) else [(table, None)]
    if not all(isinstance(name, str) and name and isinstance(voice, str) for name, voice in pairs):
        raise ServiceError(f"{path}: expected a name and a voice on each line, such as `narrator: v2/en_speaker_6`")
    return dict(table)


def model_name(engine: EngineSpec) -> str:
    """Model name of the engine: its own, else the package of its factory: `bark` of `voxyard.bark.engine:bark`."""
    if engine.name:
        return engine.name
    module, _, factory = engine.factory.partition(":")
    packages = module.split(".")
    return packages[-2] if len(packages) > 1 else factory


def check_model(name: str, frontend: Frontend) -> None:
    """Checks that the service has a model of this name.

    Raises:
        ModelNotFoundError: no model of this name; the message lists the names.
    """
    known = (model_name(frontend.engine), *MODEL_ALIASES)
    if name not in known:
        raise ModelNotFoundError(
            f"no model {_shown(name)}: this service has {known[0]}, also under the names {', '.join(MODEL_ALIASES)}",
            parameter="model",
        )


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…")
