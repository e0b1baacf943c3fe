"""Driver access of the sampler: one object for the host, one for each GPU, each used by a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from voxyard.host.links import read_links
from voxyard.host.nvml import Gpu, GpuLostError, Session, SessionLostError
from voxyard.host.readings import GpuReader, Reading
from voxyard.host.xid import XidEvents
from voxyard.telemetry.call_thread import CallThread
from voxyard.telemetry.gpu_state import KnownGpu

Links = Mapping[tuple[str, str], str]
"""(UUID, UUID) → NV4, PIX, …"""


@dataclass(slots=True)
class Driver:
    """An open session, and what is the same for all GPUs."""

    session: Session
    since: float  # monotonic: when lost GPUs were looked for the last time
    count: int
    xids: XidEvents
    driver_version: str | None
    cuda_version: str | None

    @classmethod
    def open(cls, session: Session, before: Driver | None) -> Driver:
        """Closes the open session, and opens a new one. Raises SessionLostError."""
        if before is not None:
            before.close()
        session.__enter__()
        try:
            cuda = session.ask("nvmlSystemGetCudaDriverVersion")
            return cls(
                session=session,
                since=time.monotonic(),
                count=session.ask("nvmlDeviceGetCount") or 0,
                xids=XidEvents(session),
                driver_version=session.ask("nvmlSystemGetDriverVersion"),
                cuda_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            )
        except SessionLostError:
            session.close()
            raise

    def poll(self, present: Sequence[tuple[str, str, Any]] | None) -> tuple[list[tuple[int, int]], Links | None]:
        """Events since the last call: (`handle_key`, Xid) of each error; the links, where GPUs are given for them.

        Raises SessionLostError.
        """
        return list(self.xids.poll()), None if present is None else read_links(self.session, present)

    def close(self) -> None:
        """Closes event set and session; no thread may be in a call."""
        with suppress(SessionLostError):  # the event set went with the driver
            self.xids.close()
        self.session.close()


class Card:
    """The GPU at one index of an open session. `gpu` has its identity, None until it was read."""

    def __init__(
        self, index: int, driver: Driver, thread: CallThread, *, only: Collection[str] | None, processes: bool
    ) -> None:
        self.index, self.thread = index, thread
        self._driver, self._only, self._processes = driver, only, processes
        self._reader: GpuReader | None = None
        self.gpu: Gpu | None = None
        self.handle: Any = None
        self.known: KnownGpu | None = None  # the loop's
        self.lost = False

    @property
    def wanted(self) -> bool:
        """True where it is to be read, as far as is known."""
        return self._only is None or self.gpu is None or self.gpu.uuid in self._only

    @property
    def decided(self) -> bool:
        """True where it has identified itself, or failed to."""
        return self.known is not None or self.lost or self.thread.hung or not self.wanted

    def read(self) -> Reading | None:
        """Reads the GPU, in its own thread; None where it is not to be read.

        Raises GpuLostError, also where it cannot be identified, and SessionLostError.
        """
        if self.gpu is None:
            self._identify()
        return None if self._reader is None else self._reader.read()

    def _identify(self) -> None:
        session = self._driver.session
        self.handle = session.handle(self.index)
        gpu = session.gpu(self.index, self.handle)
        if gpu.problem is not None:
            raise GpuLostError(gpu.problem, function="nvmlDeviceGetUUID", code=0)
        self.gpu = gpu
        if self.wanted:
            self._driver.xids.watch(self.handle)
            self._reader = GpuReader(session, self.handle, processes=self._processes)
