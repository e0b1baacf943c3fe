"""Worker pool as the service uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import Job, OnFailure, Outcome
from voxyard.speech.requests import Request


class SpeechPool(Protocol):
    """Pool interface of the dispatcher and of what speaks chunks again."""

    @property
    def ended(self) -> SpeechError | None:
        """Error that ended the pool; None while it accepts chunks."""

    @property
    def waiting(self) -> str | None:
        """Reason why no worker can start; None while one runs or may start."""

    @property
    def rows(self) -> int:
        """Chunks that its workers speak at a time."""

    def submit(
        self,
        requests: Sequence[Request],
        *,
        priority: int = 0,
        listening: bool = False,
        on_failure: OnFailure = "fail",
        deliver: Callable[[Outcome], None] | None = None,
        tenant: str = "",
        share: float = 1.0,
    ) -> Job:
        """Queues these chunks of a tenant. Raises SpeechError where the pool has ended."""
