"""Threads that extract texts of uploads: few at a time, by turns of the keys, each to be cancelled."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from voxyard.extraction.sandbox import MAX_CONCURRENT

Work = Callable[[threading.Event], None]
"""Extraction of one text; ends soon once the event is set."""


@dataclass(eq=False)
class _Extraction:
    id: str
    owner: str
    work: Work
    arrival: int
    cancelled: threading.Event = field(default_factory=threading.Event)


class ExtractionWorkers:
    """Runs extractions in threads; those of one key never take all places. May be used from any thread."""

    def __init__(self, most: int = MAX_CONCURRENT) -> None:
        self._most = most
        self._waiting: list[_Extraction] = []
        self._running: list[_Extraction] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._closed = False

    def add(self, id: str, owner: str, work: Work) -> None:
        """Runs `work` for a document of this key as soon as there is a place."""
        with self._lock:
            self._waiting.append(_Extraction(id, owner, work, next(self._arrivals)))
            self._start_next()

    def cancel(self, id: str) -> None:
        """Cancels the extraction of a document, where there is one."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each.id != id]
            for each in self._running:
                if each.id == id:
                    each.cancelled.set()

    def close(self) -> None:
        """Starts nothing more, and cancels what runs."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            for each in self._running:
                each.cancelled.set()

    def _start_next(self) -> None:
        while not self._closed and len(self._running) < self._most:
            running = Counter(each.owner for each in self._running)
            free = [each for each in self._waiting if running[each.owner] < max(1, self._most - 1)]
            if not free:
                return
            found = min(free, key=lambda each: (running[each.owner], each.arrival))
            self._waiting.remove(found)
            self._running.append(found)
            threading.Thread(target=self._run, args=(found,), name="voxyard-extraction", daemon=True).start()

    def _run(self, extraction: _Extraction) -> None:
        try:
            extraction.work(extraction.cancelled)
        finally:
            with self._lock:
                self._running.remove(extraction)
                self._start_next()
