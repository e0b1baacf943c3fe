"""Application state: all parts of a service, opened and connected in one place, closed in reverse order."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry

from voxyard.extraction.document import CodeBlocks
from voxyard.host.nvml import Gpu
from voxyard.service.audio.shelf import check_shelf, open_shelf
from voxyard.service.audio.store import AudioStore
from voxyard.service.audiobook.word_aligner import WordAligner
from voxyard.service.auth.api_keys import Keys
from voxyard.service.auth.sessions import Sessions, open_secret
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queue import ChangeNotifier, DocumentQueue
from voxyard.service.documents.store import Store
from voxyard.service.documents.submission import read_upload
from voxyard.service.errors import StoreError
from voxyard.service.fairness import NO_LIMITS, FairThreads, KeyLimits
from voxyard.service.http.metrics import DiskUsage, ServiceMetrics
from voxyard.service.http.rate_limit import RateLimiter
from voxyard.service.names import open_models, open_voices
from voxyard.service.routes.answers import Answers
from voxyard.service.routes.serializers import Timelines
from voxyard.service.shutdown import GracefulShutdown
from voxyard.service.streaming.shared_encoding import SharedEncodings
from voxyard.service.streaming.speech_request import ConcurrencyLimiter
from voxyard.service.voices.table import FrontendWithUploads
from voxyard.service.webhooks.rules import read_rules
from voxyard.service.webhooks.sender import WebhookSender
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.pool import Pool
from voxyard.speech.reading.options import READING, ReadingOptions

if TYPE_CHECKING:
    from voxyard.speech.reading.lexicon import Lexicon

_MIB = 2**20


@dataclass(eq=False)
class AppState:
    """The parts of a service over its data directory and a worker pool, which the endpoints and the middleware use.

    A context manager: they are opened, connected and running in its block.

    Raises:
        ServiceError: a setting or a file that it names is wrong, or another service uses the data directory.
    """

    section: ServiceSection
    pauses: Pauses
    engine_frontend: Frontend
    pool: Pool
    registry: CollectorRegistry
    gpus: Callable[[], Sequence[Gpu]] = tuple
    reading: ReadingOptions = READING
    code_blocks: CodeBlocks = "skip"  # of Markdown

    def __enter__(self) -> Self:
        section = self.section
        self.keys = None if section.keys is None else Keys(section.keys)  # None: no API key is required
        self.webhook_rules, self.models = read_rules(section), open_models(self.engine_frontend.engine, section.models)
        with ExitStack() as stack:
            self._open_store(stack)
            self._open_queue()
            self._open_limits()
            self._open_metrics()
            self._start(stack)
            self._parts = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._parts.close()

    def _open_store(self, stack: ExitStack) -> None:
        """Documents and their audio, voices, usage, and times of words."""
        section = self.section
        try:
            section.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot use the data directory {section.data_dir}: {error.strerror}; choose another --data-dir"
            ) from error
        place = section.store_place()
        name = f"{section.instance or socket.gethostname()}:{os.getpid()}"
        self.store = store = Store(place, service=name, claim_seconds=section.claim_seconds)
        stack.callback(store.close)
        self.frontend = FrontendWithUploads(self.engine_frontend, store.voices)
        self.voices = open_voices(self.frontend, section.voices, store.voices)
        self.audio_store = open_audio_store(section, store, shared=isinstance(place, str))
        self.timelines = Timelines(store, self.pauses)
        stack.callback(store.meter.close)
        store.meter.start()
        self.pool.meter(store.meter.charge)
        self.word_aligner = None  # times of words are estimated
        if section.aligner is not None:
            self.word_aligner = WordAligner(section.aligner, store, self.audio_store, self.pauses)
            stack.callback(self.word_aligner.close)
            self.word_aligner.start()

    def _open_queue(self) -> None:
        """The queue of documents, and who hears of their changes."""
        self.notifier, self._webhooks = ChangeNotifier(), WebhookSender(self.webhook_rules, self.store)
        read = partial(
            read_upload, frontend=self.frontend, voices=self.voices, section=self.section,
            limits=self.limits, reading=self.reading, code=self.code_blocks,
        )  # fmt: skip
        self.queue = DocumentQueue(
            self.store, self.audio_store, self.pool, self.section, self.pauses, self._on_change, self.notifier.forget,
            limits=self.limits, read_upload=read,
        )  # fmt: skip
        self._peers = None  # no other service can have its documents
        if self.store.postgres is not None:
            from voxyard.service.documents.peers import Peers

            self._peers = Peers(self.store.postgres, self.store.claims, self.queue, self.notifier.bump_waiting)

    def _open_limits(self) -> None:
        """What keys may have at a time, and the threads and streams that they share."""
        self.limiter = ConcurrencyLimiter(self.section.max_requests, self.limits)
        self.rate_limiter = RateLimiter(self.section.rate_limit)
        self.sessions = None if self.keys is None else Sessions(self.keys, open_secret(self.section))
        self.graceful_shutdown = GracefulShutdown(self.queue, self.limiter, self.pool, self.notifier)
        self.encodings = SharedEncodings()
        self.open_streams: Counter[str] = Counter()  # WebSockets by key
        self.open_events: Counter[str] = Counter()  # event streams by key
        self.answers = Answers(self.limits)
        self.preparing = FairThreads("voxyard-preparing", self.limits)  # of documents
        # Of changes to documents and voices: each waits for the disk, and for the others.
        self.changing = FairThreads("voxyard-changing", self.limits)
        self.preparing_speech = FairThreads(
            "voxyard-preparing-speech", self.limits
        )  # of speech requests, which are short
        self.audiobooks = FairThreads("voxyard-audiobook", self.limits, threads=4)  # each takes a core

    def _open_metrics(self) -> None:
        store, audio_store = self.store, self.audio_store
        quota = self.section.disk_quota_mib * _MIB
        self.metrics = ServiceMetrics(
            self.registry,
            documents=lambda: {str(state): count for state, count in store.counts().items()},
            ended=lambda: store.ended,
            disk=lambda: DiskUsage(audio_store.used_bytes(), quota, audio_store.room_bytes()),
            shelf=audio_store.reachable,
            shared=None if self._peers is None else self._peers.state,
        )

    def _start(self, stack: ExitStack) -> None:
        """Starts what works in the background."""
        stack.callback(lambda: self.pool.close(0.0) if self.graceful_shutdown.forced else None)
        if self._peers is not None:
            stack.callback(self._peers.close)
        stack.callback(self.queue.close)
        self.queue.start()
        if self._peers is not None:
            self._peers.start()
        stack.callback(self._webhooks.close)
        self._webhooks.start()

    def _on_change(self, document: str) -> None:
        self.notifier.bump(document)
        self._webhooks.wake()
        if self.word_aligner is not None:
            self.word_aligner.notice(document)

    def limits(self, owner: str) -> KeyLimits:
        """Limits of a key."""
        return NO_LIMITS if self.keys is None else self.keys.limits(owner)

    def lexicon(self, owner: str) -> Lexicon | None:
        """Lexicon of a key. May read a file: not for the event loop."""
        return None if self.keys is None else self.keys.lexicon(owner)

    def take_request(self, owner: str) -> None:
        """Counts a request of a key. Raises BusyError above its rate."""
        if self.keys is not None:
            self.rate_limiter.admit(owner, self.limits(owner).requests_per_minute)


def open_audio_store(section: ServiceSection, store: Store, *, shared: bool) -> AudioStore:
    """The audio files of the settings, checked to be those of the store's documents. Raises StoreError."""
    files = open_shelf(section.shelf_place(), shared=shared)
    check_shelf(files, store, mark=shared or section.shelf is not None)
    return AudioStore(
        files,
        quota=section.disk_quota_mib * _MIB,
        reserve=section.disk_reserve_mib * _MIB,
        shared_usage=store.audio_bytes if files.used_bytes() is None else None,
    )
