"""The one loop that reads the GPUs: for the exporter, the monitor, and whoever watches a run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from voxyard.host.links import read_links
from voxyard.host.nvml import Gpu, GpuLostError, Session, SessionLostError, handle_key, lost_gpu
from voxyard.host.readings import GpuReader, Reading
from voxyard.host.xid import XidEvents
from voxyard.telemetry.known import Busy, KnownGpu, Xid

__all__ = ["REOPEN_SECONDS", "Busy", "GpuState", "Sampler", "Snapshot", "Xid"]

log = logging.getLogger("voxyard.telemetry")

REOPEN_SECONDS = 15.0
"""How often a lost GPU is looked for again, with a new session: NVML does not find it in the old one."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """What is known of one GPU. `reading` and the figures are None while it does not answer."""

    gpu: Gpu
    up: bool
    reading: Reading | None
    utilization_ratio: float | None  # mean of the last second's samples
    busy_seconds: float | None  # integral of utilization since the sampler began
    xids: Mapping[int, Xid]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The end of one pass over all GPUs. Times are Unix times."""

    taken: float
    monotonic: float  # the same moment, by the clock that never jumps
    success: bool
    last_success: float | None
    duration: float  # seconds that the pass took
    gpus: tuple[GpuState, ...]
    links: Mapping[tuple[str, str], str]  # (UUID, UUID) → NV4, PIX, …
    driver_version: str | None
    cuda_version: str | None
    errors: Mapping[tuple[str, int], int]  # (function, nvmlReturn_t) → how often
    problem: str | None = None  # why the pass failed


@dataclass(slots=True)
class _Open:
    """A session with the driver, and the GPUs that answered when it was opened."""

    session: Session
    since: float  # monotonic
    readers: dict[str, tuple[Any, GpuReader]]  # UUID → handle and reader
    by_handle: dict[int, str]
    xids: XidEvents
    driver_version: str | None
    cuda_version: str | None
    links: Mapping[tuple[str, str], str] | None = None


class Sampler:
    """Reads all GPUs every `interval` seconds in a thread of its own; `snapshot` is what it saw last.

    A lost GPU, a driver that is restarted or not there at all are states that it reports and leaves by itself.
    `only` names the UUIDs of the GPUs to read; `on_snapshot` is called in its thread after each pass.
    """

    def __init__(
        self,
        interval: float = 1.0,
        *,
        only: Collection[str] | None = None,
        processes: bool = False,
        on_snapshot: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self.interval = interval
        self._only, self._processes, self._on_snapshot = only, processes, on_snapshot
        self._known: dict[str, KnownGpu] = {}
        self._nameless: tuple[Gpu, ...] = ()  # lost before they said who they are
        self._open: _Open | None = None
        self._errors: dict[tuple[str, int], int] = {}
        self._last_success: float | None = None
        self._said: str | None = None
        self._made = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="voxyard-gpu-sampler", daemon=True)
        self.snapshot: Snapshot | None = None

    def start(self) -> Self:
        """Begins the loop; the first pass is on its way when this returns."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the loop after the pass that is under way; a driver that hangs is not waited for."""
        self._ended.set()
        self._thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stale_after(self) -> float:
        """Seconds after which a snapshot no longer says how things are: several passes, however slow they are."""
        duration = self.snapshot.duration if self.snapshot else 0.0
        return max(10.0, 5 * self.interval, 3 * duration)

    def age(self) -> float:
        """Seconds since the end of the latest pass, or since the loop was made where there was none yet."""
        return time.monotonic() - (self.snapshot.monotonic if self.snapshot else self._made)

    def alive(self) -> bool:
        """Whether the loop makes its passes; a call into a driver that hangs ends that."""
        return self._thread.is_alive() and self.age() < self.stale_after()

    def _run(self) -> None:
        next_pass = time.monotonic()
        ended = False
        while not ended:  # one pass at least, also where the end comes before this thread has run at all
            self._pass()
            next_pass = max(next_pass + self.interval, time.monotonic())
            ended = self._ended.wait(next_pass - time.monotonic())
        self._close()

    def _pass(self) -> None:
        begun = time.monotonic()
        problem = None
        try:
            opened = self._session()
            self._take_xids(opened)
            self._read(opened)
            self._last_success = time.time()
        except SessionLostError as error:
            problem = str(error)
            self._close()
            for known in self._known.values():
                known.pause()
        self._tell(problem)
        self.snapshot = self._snapshot(begun, problem)
        if self._on_snapshot is not None:
            self._on_snapshot(self.snapshot)

    def _session(self) -> _Open:
        """The open session, a new one where a GPU is missing and it is time to look for it again."""
        if self._open is not None:
            missing = self._nameless or any(known.reading is None for known in self._known.values())
            if not missing or time.monotonic() - self._open.since < REOPEN_SECONDS:
                return self._open
            self._close()
        session = Session()
        try:
            session.__enter__()
            self._open = self._look_around(session)
        except SessionLostError:
            self._count(session)
            raise
        return self._open

    def _look_around(self, session: Session) -> _Open:
        readers: dict[str, tuple[Any, GpuReader]] = {}
        silent: dict[int, str] = {}
        for index, handle in session.handles():
            try:
                gpu = lost_gpu(index, "GPU is lost") if handle is None else session.gpu(index, handle)
            except GpuLostError as error:
                gpu = lost_gpu(index, str(error))
            if not gpu.uuid:
                silent[index] = gpu.problem or "does not say its UUID"
                continue
            if self._only is not None and gpu.uuid not in self._only:
                continue
            readers[gpu.uuid] = handle, GpuReader(session, handle, processes=self._processes)
            self._remember(gpu)
        missed = {known.gpu.index for uuid, known in self._known.items() if uuid not in readers}
        if self._only is None:
            self._nameless = tuple(lost_gpu(index, why) for index, why in silent.items() if index not in missed)
        cuda = session.ask("nvmlSystemGetCudaDriverVersion")
        return _Open(
            session=session,
            since=time.monotonic(),
            readers=readers,
            by_handle={handle_key(handle): uuid for uuid, (handle, _) in readers.items()},
            xids=XidEvents(session, [handle for handle, _ in readers.values()]),
            driver_version=session.ask("nvmlSystemGetDriverVersion"),
            cuda_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        )

    def _remember(self, gpu: Gpu) -> None:
        known = self._known.get(gpu.uuid)
        if known is None:
            self._known[gpu.uuid] = KnownGpu(gpu)
        else:
            known.gpu = replace(gpu, problem=known.gpu.problem)  # that it has a name does not mean that it answers

    def _take_xids(self, opened: _Open) -> None:
        for handle, number in opened.xids.poll():
            uuid = opened.by_handle.get(handle)
            if uuid is None:
                continue
            xids = self._known[uuid].xids
            before = xids[number].count if number in xids else 0
            xids[number] = Xid(before + 1, time.time())
            log.warning("GPU %d (%s): Xid %d", self._known[uuid].gpu.index, uuid, number)

    def _read(self, opened: _Open) -> None:
        for uuid, (_, reader) in list(opened.readers.items()):
            try:
                self._known[uuid].take(reader.read(), time.monotonic())
            except GpuLostError as error:
                del opened.readers[uuid]
                self._known[uuid].goes(str(error))
        for uuid in self._known.keys() - opened.readers.keys():
            self._known[uuid].pause()
        if opened.links is None:
            present = [(uuid, self._known[uuid].gpu.pci_bus_id, handle) for uuid, (handle, _) in opened.readers.items()]
            opened.links = read_links(opened.session, present)

    def _snapshot(self, begun: float, problem: str | None) -> Snapshot:
        opened = self._open
        states = [self._state(known) for known in self._known.values()]
        states += [GpuState(gpu, False, None, None, None, {}) for gpu in self._nameless]
        errors = dict(self._errors)
        for refusal, count in (opened.session.errors if opened else {}).items():
            errors[refusal] = errors.get(refusal, 0) + count
        now = time.monotonic()
        return Snapshot(
            taken=time.time(),
            monotonic=now,
            success=problem is None,
            last_success=self._last_success,
            duration=now - begun,
            gpus=tuple(sorted(states, key=lambda state: state.gpu.index)),
            links=(opened.links if opened else None) or {},
            driver_version=opened.driver_version if opened else None,
            cuda_version=opened.cuda_version if opened else None,
            errors=errors,
            problem=problem,
        )

    @staticmethod
    def _state(known: KnownGpu) -> GpuState:
        up = known.reading is not None
        busy = known.busy
        return GpuState(
            gpu=known.gpu,
            up=up,
            reading=known.reading,
            utilization_ratio=busy.ratio if up and not known.silent else None,
            busy_seconds=busy.seconds if up and busy.measured else None,
            xids=dict(known.xids),
        )

    def _tell(self, problem: str | None) -> None:
        if problem != self._said:
            log.warning("%s", problem) if problem else log.info("the NVIDIA driver answers again")
        self._said = problem

    def _close(self) -> None:
        if self._open is None:
            return
        opened, self._open = self._open, None
        try:
            opened.xids.close()
        except (GpuLostError, SessionLostError) as error:
            log.debug("the event set went with the driver: %s", error)
        opened.session.close()
        self._count(opened.session)

    def _count(self, session: Session) -> None:
        for refusal, count in session.errors.items():
            self._errors[refusal] = self._errors.get(refusal, 0) + count
