"""Engine front end in the parent process, without the model: token counts, voices, and the engine to load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from voxyard.speech.engine import EngineSpec, find_factory
from voxyard.speech.errors import SpeechError


@dataclass(frozen=True)
class VoiceDescription:
    """Voice in words for people: a readable title, and the gender where it is known."""

    title: str
    gender: Literal["female", "male"] | None = None


class VoiceFiles(Protocol):
    """Voices of users as files, which an engine reads from `Request.voice_file`. May be called from several threads."""

    def read(self, name: str, content: bytes) -> bytes:
        """Checks the file of a voice; the file for the workers, which may be smaller.

        Raises:
            SpeechError: the bytes are no voice; nothing in them was run.
        """

    def mix(self, name: str, manner: str | bytes, timbre: str | bytes) -> bytes:
        """A voice with the manner of speaking of one and the timbre of another: names of the engine's, or such files.

        Raises:
            SpeechError: there is no such voice, or these two cannot be mixed.
        """


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
    def speeds(self) -> tuple[float, float]:
        """Slowest and fastest `Request.speed` that the engine speaks at itself; 1 and 1 where it has one speed."""

    @property
    def notes(self) -> Sequence[str]:
        """Warnings for a listener: that the weights are random, for example."""

    @property
    def voice_files(self) -> VoiceFiles | None:
        """Reader of the voices that users bring as files; None where the engine takes none."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, before any cutting."""

    def voices(self) -> Sequence[str]:
        """The names of its voices that are listed, sorted."""

    def has_voice(self, name: str) -> bool:
        """True where clients may name this voice: one that is listed, or a variant of one; never a file."""

    def default_voice(self, language: str | None) -> str | None:
        """The voice of a document that names none, so that one voice speaks all of it; None: the engine has one."""

    def check_voice(self, name: str) -> None:
        """Checks that there is such a voice.

        Raises:
            Exception: with `exit_code`, for the user; the message names the nearest voices.
        """

    def language(self, voice: str | None) -> str | None:
        """The language of a voice, as a code such as `en`; None where it has none."""

    def refusal(self, text: str, language: str | None) -> str | None:
        """Reason for which the engine cannot speak a chunk of this text, in the language that was named for it.

        None where it can, and where only a worker finds out. It may be called from several threads.
        """

    def describe(self, voice: str) -> VoiceDescription:
        """The voice of this name in words for people."""


class BaseFrontend(ABC):
    """Base of front ends: one speed, limits in characters, no voices of users, and any text is spoken."""

    speeds: tuple[float, float] = (1.0, 1.0)
    notes: Sequence[str] = ()
    voice_files: VoiceFiles | None = None

    @abstractmethod
    def voices(self) -> Sequence[str]:
        """As Frontend."""

    def count_tokens(self, text: str) -> int:
        """Characters of a text."""
        return len(text)

    def has_voice(self, name: str) -> bool:
        """True for those that are listed."""
        return name in self.voices()

    def refusal(self, text: str, language: str | None) -> str | None:
        """None: it speaks any text, or finds out while it does."""
        return None

    def describe(self, voice: str) -> VoiceDescription:
        """The name itself."""
        return VoiceDescription(voice)


@dataclass(frozen=True)
class OneVoice(BaseFrontend):
    """Front end of an engine that has one voice."""

    engine: EngineSpec
    max_tokens: int = 600  # characters
    max_seconds: float = 30.0
    speeds: tuple[float, float] = (1.0, 1.0)
    notes: Sequence[str] = ()
    voice_files: VoiceFiles | None = None

    def voices(self) -> Sequence[str]:
        """The name of the engine: the API asks for one."""
        return (self.engine.model,)

    def default_voice(self, language: str | None) -> str | None:
        """That name."""
        return self.engine.model

    def check_voice(self, name: str) -> None:
        """Raises SpeechError where it is another name."""
        if not self.has_voice(name):
            raise SpeechError(f"there is no voice {name!r}, expected {self.engine.model}")

    def language(self, voice: str | None) -> str | None:
        """None: it is not known."""
        return None


_MEMBERS = sorted(name for name in vars(Frontend) if not name.startswith("_"))


def open_frontend(factory: str, settings: Mapping[str, object]) -> Frontend:
    """The front end of the engine that a setting names as `package.module:factory`.

    Raises:
        SpeechError: there is no such module or factory, or what it makes is no front end.
        Exception: with `exit_code`, where the factory finds its settings or its model wrong.
    """
    make = find_factory("engine", factory)
    try:
        made = make(settings)
        lacking = [name for name in _MEMBERS if not hasattr(made, name)]
    except Exception as error:
        if hasattr(error, "exit_code"):
            raise
        raise SpeechError(
            f"engine {factory} raised {type(error).__name__}: {error}; expected a function that takes the settings"
        ) from error
    if lacking:
        raise SpeechError(
            f"engine {factory}: found {type(made).__name__} without {', '.join(lacking)}; expected a front end: "
            "see voxyard.speech.frontend:OneVoice"
        )
    return cast("Frontend", made)
