"""Documents that somebody listens to, at this service or at others on its database."""

from __future__ import annotations

import time
from collections.abc import Callable

HERE = ""
"""Name of this service."""


class Listeners:
    """Services at which a document has listeners; one that does not repeat so within `seconds` is gone."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: dict[str, dict[str, float]] = {}  # id → service → when its word ends

    def __contains__(self, id: str) -> bool:
        return id in self._until

    def set(self, id: str, listening: bool, service: str = HERE) -> bool:
        """Adds or removes a service; True where the document got its first listener or lost its last."""
        before = id in self._until
        services = self._until.setdefault(id, {})
        if listening:
            services[service] = float("inf") if service == HERE else self._clock() + self._seconds
        else:
            services.pop(service, None)
        if not services:
            del self._until[id]
        return before != (id in self._until)

    def expire(self) -> tuple[str, ...]:
        """Removes the services that are gone; returns the documents that lost their last listener."""
        now = self._clock()
        gone = [(id, each) for id, services in self._until.items() for each, until in services.items() if until < now]
        return tuple(id for id, service in gone if self.set(id, False, service))

    def forget(self, id: str) -> None:
        """Removes a document."""
        self._until.pop(id, None)
