"""Xid errors: the driver's error events of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from voxyard.host.nvml import GpuLostError, Session, handle_key

_XID_EVENTS = 0x8  # nvml.h, nvmlEventTypeXidCriticalError
_WAIT_MS = 1
_MOST_AT_ONCE = 1000


class XidEvents:
    """The Xid errors of some GPUs, collected by the driver since the last poll.

    They are polled, not awaited: no call of theirs is under way when the session is closed.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._set = session.ask("nvmlEventSetCreate")

    def watch(self, handle: Any) -> None:
        """Collects those of this GPU too. Raises GpuLostError."""
        if self._set is not None:
            kinds = self._session.ask("nvmlDeviceGetSupportedEventTypes", handle)
            if kinds is not None and kinds & _XID_EVENTS:
                self._session.ask("nvmlDeviceRegisterEvents", handle, _XID_EVENTS, self._set)

    def poll(self) -> Iterator[tuple[int, int]]:
        """(`handle_key` of the GPU, Xid) for each error, in the order of their coming; returns without waiting."""
        for _ in range(_MOST_AT_ONCE if self._set is not None else 0):
            event = self._wait()
            if event is None:
                return
            if event.eventType & _XID_EVENTS:
                yield handle_key(event.device), int(event.eventData)

    def close(self) -> None:
        """Closes the event set."""
        if self._set is not None:
            self._session.ask("nvmlEventSetFree", self._set)
            self._set = None

    def _wait(self) -> Any:
        try:
            return self._session.ask("nvmlEventSetWait_v2", self._set, _WAIT_MS)
        except GpuLostError:
            return None  # which one, its reader finds out
