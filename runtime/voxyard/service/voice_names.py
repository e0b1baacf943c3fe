"""Voice names that clients may use: the engine's own, OpenAI's aliases, and the operator's aliases."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.service.config import DEFAULT_VOICES
from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.service.names_file import read_names, shown
from voxyard.speech.frontend import Frontend

_COMPARED = 60  # characters of an unknown name, which may be long


class VoiceNotFoundError(NotFoundError):
    """No voice of this name."""

    code = "voice_not_found"


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


class VoiceNames:
    """Voice names, resolved to the engine's. Only these names reach the engine: a client cannot pass a path."""

    def __init__(self, frontend: Frontend, aliases: Mapping[str, str]) -> None:
        own = {name: _described(name, frontend) for name in frontend.voices()}
        further = {
            alias: _alias(alias, own[name]) for alias, name in aliases.items() if name in own and alias not in own
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
        near = difflib.get_close_matches(name[:_COMPARED], self._voices, n=3)
        nearest = f"the nearest are {', '.join(near)}" if near else "no name is similar"
        return f"no voice {shown(name)}: {nearest}; GET /v1/audio/voices lists all {len(self._voices)}"


def open_voices(frontend: Frontend, path: Path | None) -> VoiceNames:
    """The engine's voices, OpenAI's aliases for those that it has, and the aliases of the operator's file.

    Raises:
        ServiceError: the file cannot be read, or names a voice that the engine does not have.
    """
    further = {} if path is None else read_names(path, "voice", "narrator: v2/en_speaker_6")
    own = frontend.voices()
    for alias, name in further.items():
        if name not in own:
            near = difflib.get_close_matches(name, own, n=3)
            hint = f"the nearest are {', '.join(near)}" if near else "`voxyard voices` lists them"
            raise ServiceError(f"{path}: {alias}: the engine has no voice {shown(name)}; {hint}")
    return VoiceNames(frontend, {**DEFAULT_VOICES, **further})


def _described(name: str, frontend: Frontend) -> VoiceName:
    found = frontend.describe(name)
    title = found.title if found.gender is None else f"{found.title} ({found.gender})"
    return VoiceName(name, title, frontend.language(name), found.gender)


def _alias(alias: str, voice: VoiceName) -> VoiceName:
    title = f"{alias[:1].upper()}{alias[1:]}: {voice.title}"
    return VoiceName(alias, title, voice.language, voice.gender, voice.name)
