"""Engine front end in the parent process, without the model: token counts, voices, and the engine to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from voxyard.speech.engine import EngineSpec, find_factory


@dataclass(frozen=True)
class VoiceDescription:
    """Voice in words for people: a readable title, and the gender where it is known."""

    title: str
    gender: Literal["female", "male"] | None = None


class Frontend(Protocol):
    """The side of an engine that the parent process needs; it loads no weights and imports no torch.

    `count_tokens` and `check_voice` may be called from several threads.
    """

    @property
    def engine(self) -> EngineSpec:
        """Engine that a worker loads."""

    @property
    def max_tokens(self) -> int:
        """Most tokens in a chunk."""

    @property
    def max_seconds(self) -> float:
        """Longest audio of one chunk, with a margin for estimates that are too low."""

    @property
    def notes(self) -> Sequence[str]:
        """Warnings for a listener: that the weights are random, for example."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, before any cutting."""

    def voices(self) -> Sequence[str]:
        """The names of its voices, sorted."""

    def default_voice(self, language: str | None) -> str | None:
        """The voice of a document that names none, so that one voice speaks all of it; None: the engine has one."""

    def check_voice(self, name: str) -> None:
        """Checks that there is such a voice.

        Raises:
            Exception: with `exit_code`, for the user; the message names the nearest voices.
        """

    def language(self, voice: str | None) -> str | None:
        """The language of a voice, as a code such as `en`; None where it has none."""

    def describe(self, voice: str) -> VoiceDescription:
        """The voice of this name in words for people."""


def open_frontend(factory: str, settings: Mapping[str, object]) -> Frontend:
    """The front end of the engine that a setting names as `package.module:factory`.

    Raises:
        SpeechError: there is no such module or factory.
        Exception: with `exit_code`, where the factory finds its settings or its model wrong.
    """
    return cast("Frontend", find_factory("engine", factory)(settings))
