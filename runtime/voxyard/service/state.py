"""Application state: the parts of a running service that its endpoints use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from voxyard.host.nvml import Gpu
from voxyard.service.auth.key_limits import NO_LIMITS, KeyLimits
from voxyard.service.config import ServiceSection
from voxyard.service.documents.timelines import Timelines
from voxyard.service.streaming.shared_encoding import SharedEncodings
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import Frontend
from voxyard.speech.reading.spoken import READING, ReadingOptions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from voxyard.service.audio.store import AudioStore
    from voxyard.service.audiobook.word_aligner import WordAligner
    from voxyard.service.auth.api_keys import Keys
    from voxyard.service.documents.change_notifier import ChangeNotifier
    from voxyard.service.documents.queue import DocumentQueue
    from voxyard.service.documents.store import Store
    from voxyard.speech.pool.pool import Pool
    from voxyard.speech.reading.lexicon import Lexicon


def _no_gpus() -> Sequence[Gpu]:
    return ()


@dataclass(frozen=True, eq=False)
class AppState:
    """Dependencies of the endpoints. `keys` is None where no API key is required."""

    section: ServiceSection
    frontend: Frontend
    pool: Pool
    store: Store
    audio_store: AudioStore
    queue: DocumentQueue
    notifier: ChangeNotifier
    keys: Keys | None
    registry: CollectorRegistry
    gpus: Callable[[], Sequence[Gpu]] = _no_gpus
    pauses: Pauses = field(default_factory=Pauses)
    reading: ReadingOptions = READING
    encodings: SharedEncodings = field(default_factory=SharedEncodings)
    word_aligner: WordAligner | None = None  # None: times of words are estimated

    @cached_property
    def timelines(self) -> Timelines:
        """Times of the chunks of the documents that were looked at last."""
        return Timelines(self.store, self.pauses)

    def limits(self, client: str) -> KeyLimits:
        """Limits of a client's key."""
        return NO_LIMITS if self.keys is None else self.keys.limits(client)

    def lexicon(self, client: str) -> Lexicon | None:
        """Lexicon of a client's key. May read a file: not for the event loop."""
        return None if self.keys is None else self.keys.lexicon(client)
