"""A running service, put together from its settings: what is opened first is closed last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from voxyard.host import Gpu
from voxyard.service.app import create_app, install
from voxyard.service.auth.api_keys import Keys
from voxyard.service.config import ServiceSection
from voxyard.service.documents.audio_store import Shelf
from voxyard.service.documents.change_notifier import Changes
from voxyard.service.documents.queue import Desk
from voxyard.service.documents.store import Store
from voxyard.service.documents.webhooks import Webhooks, read_rules
from voxyard.service.http.components import open_frame
from voxyard.service.http.metrics import Disk
from voxyard.service.shutdown import Work
from voxyard.service.state import Services
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.pool import Pool

_MIB = 2**20


@contextmanager
def assembled(
    section: ServiceSection,
    pauses: Pauses,
    frontend: Frontend,
    pool: Pool,
    registry: CollectorRegistry,
    gpus: Callable[[], Sequence[Gpu]],
) -> Iterator[Starlette]:
    """The application over its data directory and a pool; closing stops the documents' work gracefully.

    `app.state.work` is the Work that `server.serve` ends.

    Raises:
        ServiceError: a setting or a file that it names is wrong, or another service has the data directory.
    """
    with ExitStack() as stack:
        keys = None if section.keys is None else Keys(section.keys)
        rules = read_rules(section)
        section.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = Store(section.data_dir / "documents.sqlite")
        stack.callback(store.close)
        shelf = Shelf(
            section.data_dir / "audio",
            quota=section.disk_quota_mib * _MIB,
            reserve=section.disk_reserve_mib * _MIB,
        )
        webhooks = Webhooks(rules, store)
        changes = Changes()

        def changed(document: str) -> None:
            changes.bump(document)
            webhooks.wake()

        desk = Desk(store, shelf, pool, section, pauses, changed, changes.forget)
        services = Services(
            section, frontend, pool, store, shelf, desk, changes, keys, registry, gpus=gpus, pauses=pauses
        )
        app = create_app(services)
        app.state.work = work = Work(desk, app.state.turnstile, pool)
        frame = open_frame(
            section,
            registry,
            keys=keys,
            ready=lambda: readiness(pool, desk, work),
            documents=lambda: {str(state): count for state, count in store.counts().items()},
            disk=lambda: Disk(shelf.used_bytes(), section.disk_quota_mib * _MIB),
        )
        install(app, frame)
        stack.callback(lambda: pool.close(0.0) if work.cut else None)
        stack.callback(desk.close)
        desk.start()
        stack.callback(webhooks.close)
        webhooks.start()
        yield app


def readiness(pool: Pool, desk: Desk, work: Work) -> tuple[bool, str]:
    """True where a worker has its model loaded and documents are spoken, and a sentence that says so."""
    if work.draining:
        return False, f"the service is going down, and waits for {work.awaited() or 'open requests'}"
    if pool.ended is not None:
        return False, f"the workers have ended: {pool.ended}"
    if desk.problem is not None:
        return False, f"no document can be spoken: {desk.problem}"
    workers = pool.workers()
    loaded = sum(worker.state in ("ready", "busy") for worker in workers)
    waiting = "; ".join(worker.reason for worker in workers if worker.state == "waiting")
    if loaded:
        said = f"{loaded} of {len(workers)} workers have their model loaded"
        return True, f"{said}; waiting: {waiting}" if waiting else said
    reasons = "; ".join(
        worker.reason if worker.state == "waiting" else f"{worker.device}: {worker.reason or worker.state}"
        for worker in workers
    )
    return False, f"no worker has its model loaded ({reasons})"
