"""Application state: the parts of a running service that its endpoints use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from voxyard.extraction.document import CodeBlocks
from voxyard.host.nvml import Gpu
from voxyard.service.auth.key_limits import NO_LIMITS, KeyLimits
from voxyard.service.config import ServiceSection
from voxyard.service.documents.timelines import Timelines
from voxyard.service.fair_threads import FairThreads
from voxyard.service.routes.answers import Answers
from voxyard.service.streaming.shared_encoding import SharedEncodings
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import Frontend
from voxyard.speech.reading.spoken import ReadingOptions

if TYPE_CHECKING:
    from voxyard.service.audio.store import AudioStore
    from voxyard.service.audiobook.word_aligner import WordAligner
    from voxyard.service.auth.api_keys import Keys
    from voxyard.service.documents.change_notifier import ChangeNotifier
    from voxyard.service.documents.queue import DocumentQueue
    from voxyard.service.documents.store import Store
    from voxyard.service.http.components import MiddlewareComponents
    from voxyard.service.model_names import ModelNames
    from voxyard.service.shutdown import GracefulShutdown
    from voxyard.service.streaming.concurrency import ConcurrencyLimiter
    from voxyard.service.voice_names import VoiceNames
    from voxyard.service.webhooks.rules import WebhookRules
    from voxyard.speech.pool.pool import Pool
    from voxyard.speech.reading.lexicon import Lexicon


@dataclass(frozen=True, eq=False)
class AppState:
    """What the endpoints and the middleware use, as `lifespan.open_state` connects it."""

    section: ServiceSection
    frontend: Frontend
    pool: Pool
    store: Store
    audio_store: AudioStore
    queue: DocumentQueue
    notifier: ChangeNotifier
    keys: Keys | None  # None: no API key is required
    voices: VoiceNames
    models: ModelNames
    webhook_rules: WebhookRules | None
    limiter: ConcurrencyLimiter
    graceful_shutdown: GracefulShutdown
    components: MiddlewareComponents
    gpus: Callable[[], Sequence[Gpu]]
    pauses: Pauses
    reading: ReadingOptions
    code_blocks: CodeBlocks  # of Markdown
    word_aligner: WordAligner | None  # None: times of words are estimated
    encodings: SharedEncodings = field(default_factory=SharedEncodings)
    open_streams: Counter[str] = field(default_factory=Counter)  # WebSockets by key
    open_events: Counter[str] = field(default_factory=Counter)  # event streams by key

    @cached_property
    def preparing(self) -> FairThreads:
        """Threads in which documents are read and prepared."""
        return FairThreads("voxyard-preparing", self.limits)

    @cached_property
    def changing(self) -> FairThreads:
        """Threads in which documents and voices are changed: each waits for the disk, and for the others."""
        return FairThreads("voxyard-changing", self.limits)

    @cached_property
    def reading_texts(self) -> FairThreads:
        """Threads in which the texts of speech requests are prepared, which are short."""
        return FairThreads("voxyard-reading-texts", self.limits)

    @cached_property
    def audiobooks(self) -> FairThreads:
        """Threads that write audiobooks: each takes a core."""
        return FairThreads("voxyard-audiobook", self.limits, threads=4)

    @cached_property
    def answers(self) -> Answers:
        """Long answers about documents."""
        return Answers(self.limits)

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
