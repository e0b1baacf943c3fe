"""Names of models and voices for clients: the engine's own, OpenAI's and the operator's aliases, uploaded voices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from voxyard.service.config import DEFAULT_MODELS
from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.service.voices.table import StoredVoice, UploadedVoices, VoiceNotFoundError
from voxyard.settings.errors import SettingsError
from voxyard.speech.cast import Cast, openai_names
from voxyard.speech.engine import EngineSpec
from voxyard.speech.frontend import Frontend
from voxyard.speech.nearest import nearest

_SHOWN = 60  # characters of a name in a message
_NAMED = 20  # voices of the engine in a message


class ModelNotFoundError(NotFoundError):
    """No model of this name."""

    code = "model_not_found"


class ModelNames:
    """Names of the service's one model. An alias that ends in `*` stands for all names with that beginning."""

    def __init__(self, own: str, aliases: Collection[str]) -> None:
        self.own = own
        self._exact = tuple(sorted({alias for alias in aliases if not alias.endswith("*")} - {own}))
        self._beginnings = tuple(sorted({alias[:-1] for alias in aliases if alias.endswith("*")}))

    def listed(self) -> tuple[str, ...]:
        """The model's own name and the aliases that are whole names."""
        return (self.own, *self._exact)

    def check(self, name: str) -> None:
        """Checks that this is a name of the model.

        Raises:
            ModelNotFoundError: it is not; the message lists the names.
        """
        if name == self.own or name in self._exact or name.startswith(self._beginnings):
            return
        known = ", ".join((*self._exact, *(f"{beginning}*" for beginning in self._beginnings)))
        raise ModelNotFoundError(
            f"no model {shown(name)}: this service has {self.own}, also under the names {known}", parameter="model"
        )


def open_models(engine: EngineSpec, path: Path | None) -> ModelNames:
    """The names of the engine's model: its own, OpenAI's, and those of the operator's file.

    Raises:
        ServiceError: the file cannot be read, or a name stands for a model that the service does not have.
    """
    own = engine.model
    further = {} if path is None else read_names(path, "model", f"kokoro*: {own}")
    for alias, model in further.items():
        if model != own:
            raise ServiceError(f"{path}: {alias}: the service has no model {shown(model)}; its model is {own}")
        if "*" in alias[:-1]:
            raise ServiceError(f"{path}: {alias}: a * may stand at the end alone, as in `kokoro*: {own}`")
    return ModelNames(own, (*DEFAULT_MODELS, *further))


def read_names(path: Path, what: str, example: str) -> dict[str, str]:
    """Names of a file, each with what it stands for; `what` and an `example` line are for messages.

    Raises:
        ServiceError: the file cannot be read, or is no table of names.
    """
    from voxyard.settings.yaml_reader import read_plain

    try:
        table = read_plain(path)
    except SettingsError as error:
        raise ServiceError(f"{error}; expected a YAML file of {what} names, with lines such as `{example}`") from error
    table = {} if table is None else table
    pairs = table.items() if isinstance(table, dict) else [(table, None)]
    if not all(name and isinstance(other, str) for name, other in pairs):
        raise ServiceError(f"{path}: expected a name and a {what} on each line, such as `{example}`")
    return dict(table)


def shown(name: str) -> str:
    """A name that a client sent, quoted and of a bounded length, for messages."""
    return repr(name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…")


@dataclass(frozen=True)
class VoiceName:
    """A voice name that requests may use; `alias_of` is the engine's name where this one is an alias.

    `title` is for people, such as `English speaker 6 (male)`.
    """

    name: str
    title: str
    language: str | None
    gender: Literal["female", "male"] | None
    alias_of: str | None = None
    uploaded: StoredVoice | None = None


class VoiceNames:
    """Voice names, resolved to the engine's. Only these names reach the engine: a client cannot pass a path.

    The service's own names go before uploaded voices, whose ids reach the engine with the file.
    """

    def __init__(self, frontend: Frontend, aliases: Mapping[str, str], uploaded: UploadedVoices | None = None) -> None:
        self._frontend, self._uploaded = frontend, uploaded
        own = {name: _described(name, frontend) for name in frontend.voices()}
        further = {
            alias: _alias(alias, own.get(name) or _described(name, frontend))
            for alias, name in aliases.items()
            if alias not in own
        }
        self._voices = own | dict(sorted(further.items()))
        self._any_case = {name.casefold(): voice for name, voice in reversed(self._voices.items())}

    def __contains__(self, name: str) -> bool:
        """True where the service has a voice of this name itself."""
        return name in self._voices or self._frontend.has_voice(name)

    def resolve(self, name: str, owner: str = "", *, parameter: str = "voice") -> str:
        """The engine's name of a voice, or the id of one that this key has uploaded, which is read from the store.

        Raises:
            VoiceNotFoundError: no voice of this name; the message names the nearest.
        """
        found = self._found(name, owner)
        if found is None:
            raise VoiceNotFoundError(self._unknown(name, owner), parameter=parameter)
        return found

    def _found(self, name: str, owner: str) -> str | None:
        found = self._voices.get(name)
        if found is not None:
            return found.alias_of or found.name
        if self._frontend.has_voice(name):
            return name
        own = None if self._uploaded is None else self._uploaded.find(owner, name)
        if own is not None:
            return own.id
        meant = self._any_case.get(name.strip().casefold())  # `Alloy`, as lists of other programs show it
        return None if meant is None else meant.alias_of or meant.name

    def cast(self, members: Mapping[str, str] | None, owner: str = "") -> Cast:
        """Cast of a request, over the voices that this key may name.

        Raises:
            ServiceError: one of its voices is not there; the message names the nearest.
        """
        found = dict[str, str]()
        for name, voice in (members or {}).items():
            try:
                found[name] = self.resolve(voice, owner)
            except VoiceNotFoundError as error:
                raise ServiceError(str(error), parameter=f"cast.{name}") from error
        return self.cast_of(found, owner)

    def cast_of(self, members: Mapping[str, str], owner: str = "") -> Cast:
        """Cast with these voices of the engine, or ids of uploaded ones."""

        def known() -> list[str]:
            return [voice.name for voice in self.all(owner)]

        return Cast(partial(self._found, owner=owner), members, known, "GET /v1/audio/voices lists all")

    def all(self, owner: str = "") -> tuple[VoiceName, ...]:
        """All names: the engine's own, then the aliases, then the voices that this key has uploaded, each sorted."""
        own = () if self._uploaded is None else self._uploaded.of(owner)
        return *self._voices.values(), *(uploaded_voice(each) for each in own if each.name not in self._voices)

    def _unknown(self, name: str, owner: str) -> str:
        known = [voice.name for voice in self.all(owner)]
        near = nearest(name, known)
        told = f"the nearest are {', '.join(near)}" if near else "no name is similar"
        return f"no voice {shown(name)}: {told}; GET /v1/audio/voices lists all {len(known)}"


def open_voices(frontend: Frontend, path: Path | None, uploaded: UploadedVoices | None = None) -> VoiceNames:
    """The engine's voices, OpenAI's names as aliases of them, those of the operator's file, and uploaded voices.

    Raises:
        ServiceError: the file cannot be read, or names a voice that the engine does not have.
    """
    further = {} if path is None else read_names(path, "voice", "narrator: v2/en_speaker_6")
    own = frontend.voices()
    for alias, name in further.items():
        if not frontend.has_voice(name):
            near = nearest(name, own)
            hint = f"the nearest are {', '.join(near)}" if near else f"it has {', '.join(own[:_NAMED])}"
            raise ServiceError(f"{path}: {alias}: the engine has no voice {shown(name)}; {hint}")
    return VoiceNames(frontend, {**openai_names(frontend), **further}, uploaded)


def uploaded_voice(voice: StoredVoice) -> VoiceName:
    """Name of a voice that a key has uploaded."""
    readable = voice.name.replace("_", " ")
    return VoiceName(
        voice.name, f"{readable[:1].upper()}{readable[1:]} (uploaded)", voice.language, None, uploaded=voice
    )


def _described(name: str, frontend: Frontend) -> VoiceName:
    found = frontend.describe(name)
    title = found.title if found.gender is None else f"{found.title} ({found.gender})"
    return VoiceName(name, title, frontend.language(name), found.gender)


def _alias(alias: str, voice: VoiceName) -> VoiceName:
    title = f"{alias[:1].upper()}{alias[1:]}: {voice.title}"
    return VoiceName(alias, title, voice.language, voice.gender, voice.name)
