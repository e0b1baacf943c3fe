"""Wiring of the service: opens and connects its parts, and closes them in reverse order."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from voxyard.extraction.document import CodeBlocks
from voxyard.host import Gpu
from voxyard.service.app import create_app
from voxyard.service.audio.shelf import check_shelf, open_shelf
from voxyard.service.audio.store import AudioStore
from voxyard.service.audiobook.word_aligner import WordAligner
from voxyard.service.auth.api_keys import Keys
from voxyard.service.auth.key_limits import no_limits
from voxyard.service.config import ServiceSection
from voxyard.service.documents.change_notifier import ChangeNotifier
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.store import Store
from voxyard.service.healthcheck import CANNOT_WORK
from voxyard.service.http.components import open_components
from voxyard.service.http.metrics import DiskUsage
from voxyard.service.model_names import open_models
from voxyard.service.shutdown import GracefulShutdown
from voxyard.service.state import AppState
from voxyard.service.streaming.concurrency import ConcurrencyLimiter
from voxyard.service.uploads.read import UploadReader
from voxyard.service.voice_names import open_voices
from voxyard.service.voices.frontend import UploadedVoicesFrontend
from voxyard.service.webhooks.rules import read_rules
from voxyard.service.webhooks.sender import WebhookSender
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.pool import Pool
from voxyard.speech.reading.spoken import READING, ReadingOptions

_MIB = 2**20


@contextmanager
def running_app(
    section: ServiceSection,
    pauses: Pauses,
    frontend: Frontend,
    pool: Pool,
    registry: CollectorRegistry,
    gpus: Callable[[], Sequence[Gpu]] = tuple,
    reading: ReadingOptions = READING,
    code_blocks: CodeBlocks = "skip",
) -> Iterator[Starlette]:
    """The application over its data directory and a worker pool, until the block ends.

    Its `state.app_state` is what `open_state` gives, whose `graceful_shutdown` is what `server.serve` drains.
    Raises ServiceError as `open_state` does.
    """
    with open_state(section, pauses, frontend, pool, registry, gpus, reading, code_blocks) as state:
        yield create_app(state)


@contextmanager
def open_state(
    section: ServiceSection,
    pauses: Pauses,
    engine: Frontend,
    pool: Pool,
    registry: CollectorRegistry,
    gpus: Callable[[], Sequence[Gpu]] = tuple,
    reading: ReadingOptions = READING,
    code_blocks: CodeBlocks = "skip",
) -> Iterator[AppState]:
    """All parts of a service, connected and running, until the block ends.

    Raises:
        ServiceError: a setting or a file that it names is wrong, or another service uses the data directory.
    """
    with ExitStack() as stack:
        keys = None if section.keys is None else Keys(section.keys)
        limits = no_limits if keys is None else keys.limits
        rules, models = read_rules(section), open_models(engine.engine, section.models)
        section.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = section.store_place()
        name = f"{section.instance or socket.gethostname()}:{os.getpid()}"
        store = Store(place, service=name, claim_seconds=section.claim_seconds)
        stack.callback(store.close)
        frontend = UploadedVoicesFrontend(engine, store.voices)
        voices = open_voices(frontend, section.voices, store.voices)
        audio_store = open_audio_store(section, store, shared=isinstance(place, str))
        stack.callback(store.meter.close)
        store.meter.start()
        pool.meter(store.meter.charge)
        webhooks, notifier = WebhookSender(rules, store), ChangeNotifier()

        word_aligner = None if section.aligner is None else WordAligner(section.aligner, store, audio_store, pauses)
        if word_aligner is not None:
            stack.callback(word_aligner.close)
            word_aligner.start()

        def on_change(document: str) -> None:
            notifier.bump(document)
            webhooks.wake()
            if word_aligner is not None:
                word_aligner.notice(document)

        queue = DocumentQueue(
            *(store, audio_store, pool, section, pauses, on_change, notifier.forget),
            limits=limits,
            read_upload=UploadReader(frontend, voices, section, limits, reading, code_blocks),
        )
        peers = store.peers(queue, notifier.bump_waiting)
        limiter = ConcurrencyLimiter(section.max_requests, limits)
        graceful_shutdown = GracefulShutdown(queue, limiter, pool, notifier)
        components = open_components(
            section,
            registry,
            keys=keys,
            ready=lambda: readiness(pool, queue, graceful_shutdown),
            documents=lambda: {str(state): count for state, count in store.counts().items()},
            ended=lambda: store.ended,
            disk=lambda: DiskUsage(audio_store.used_bytes(), section.disk_quota_mib * _MIB, audio_store.room_bytes()),
            shelf=audio_store.reachable,
            shared=None if peers is None else peers.state,
        )
        state = AppState(
            *(
                section,
                frontend,
                pool,
                store,
                audio_store,
                queue,
                notifier,
                keys,
                voices,
                models,
                rules,
                limiter,
            ),
            *(graceful_shutdown, components, gpus, pauses, reading, code_blocks, word_aligner),
        )
        stack.callback(lambda: pool.close(0.0) if graceful_shutdown.forced else None)
        if peers is not None:
            stack.callback(peers.close)
        stack.callback(queue.close)
        queue.start()
        if peers is not None:
            peers.start()
        stack.callback(webhooks.close)
        webhooks.start()
        yield state


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


def readiness(pool: Pool, queue: DocumentQueue, graceful_shutdown: GracefulShutdown) -> tuple[bool, str]:
    """True where a worker has its model loaded and documents are dispatched, and the reason as a sentence.

    Workers that have ended for want of work are as good as loaded, also while one of them loads its model again.
    """
    if graceful_shutdown.announced and not graceful_shutdown.draining:
        return False, "the service is about to shut down and still accepts requests: send new ones elsewhere"
    if graceful_shutdown.draining:
        return (
            False,
            f"the service is shutting down and waits for {graceful_shutdown.describe_pending() or 'open requests'}",
        )
    if pool.ended is not None:
        return False, f"{CANNOT_WORK}: the worker pool has stopped: {pool.ended}"
    if queue.problem is not None:
        return False, f"no documents are dispatched: {queue.problem}"
    workers = pool.workers()
    loaded = sum(worker.state in ("ready", "busy") for worker in workers)
    waiting = "; ".join(worker.reason for worker in workers if worker.state == "waiting")
    if loaded:
        summary = f"{loaded} of {len(workers)} workers have their model loaded"
        return True, f"{summary}; waiting: {waiting}" if waiting else summary
    if any(worker.state in ("released", "stopping") or worker.woken for worker in workers):
        return True, "no worker has its model loaded, as there was nothing to speak: the next request starts one"
    reasons = "; ".join(
        worker.reason if worker.state == "waiting" else f"{worker.device}: {worker.reason or worker.state}"
        for worker in workers
    )
    if not any(worker.state == "waiting" for worker in workers):
        reasons = pool.waiting or reasons
    if workers and all(worker.state == "off" for worker in workers):
        return False, f"{CANNOT_WORK}: no worker could be started ({reasons})"
    return False, f"no worker has its model loaded ({reasons})"
