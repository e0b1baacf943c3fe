"""Requests to an engine and its results; the pool knows nothing else of speech."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Audio = NDArray[np.float32]

SAMPLE_RATE = 24_000  # Hz

Boundary = Literal[
    "clause", "sentence", "paragraph", "chapter"
]  # what ends with a chunk: it decides the pause after it


@dataclass(frozen=True)
class Request:
    """One chunk to speak.

    Equal requests give equal audio, so a chunk that runs again because its worker died keeps all fields; `attempt`
    counts the engine's attempts for quality. `seconds` is an estimate of the audio's length. Neither that nor `urgent`
    changes the audio. `language` is the one that was named for the text, None where none was. An uploaded voice comes
    as a file with each of its chunks: the worker may have started before the upload, or run on another host.
    """

    chunk: int
    text: str
    voice: str | None = None
    seed: int = 0
    attempt: int = 0
    seconds: float = 1.0
    language: str | None = None
    speed: float = 1.0  # within the `speeds` of the engine's front end
    urgent: bool = False  # set by the pool: a listener waits for this chunk, the others of its batch can wait
    characters: int = 0  # of the submitted text that it speaks, for which the pool charges its tenant; 0: another does
    voice_file: bytes | None = field(default=None, repr=False)  # of an uploaded voice; None: the engine has `voice`


@dataclass(frozen=True, eq=False)
class Result:
    """One spoken chunk: mono float32 in [−1, 1], (samples,)."""

    chunk: int
    audio: Audio
    sample_rate: int = SAMPLE_RATE
    facts: Mapping[str, object] = field(default_factory=dict)  # measurements by the engine

    @classmethod
    def silence(cls, request: Request) -> Result:
        """Silence of the estimated length of a request, in place of a chunk that failed."""
        import numpy as np

        samples = round(max(0.0, request.seconds) * SAMPLE_RATE)
        return cls(request.chunk, np.zeros(samples, np.float32), SAMPLE_RATE, {"silence": True})

    @property
    def seconds(self) -> float:
        """Duration of the audio."""
        return len(self.audio) / self.sample_rate


@dataclass(frozen=True)
class Unspeakable:
    """One chunk that cannot be spoken, while others of its batch can.

    `refused` where the request is at fault, such as a text that the model cannot read: no other worker is tried.
    """

    reason: str
    refused: bool = False


@dataclass(frozen=True)
class Cancelled:
    """One chunk that the engine has ceased to speak, because the source has cancelled it."""
