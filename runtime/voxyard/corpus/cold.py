"""A source that is read from the disk while its reading is measured, not from the page cache."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from voxyard.corpus.examples import Example, ExampleSource
from voxyard.host.page_cache import Extent, Pages, drop


class Look:
    """One measurement of reading: its clips were dropped from the page cache before it."""

    def __init__(self, source: ExampleSource, clips: set[int]) -> None:
        self._source, self._clips, self._lock = source, clips, threading.Lock()
        self._read: set[int] = set()
        self._pages = _dropped(source, clips)

    @property
    def pages(self) -> Pages:
        """All that was read so far or was dropped to be read, and what of it was still cached just before."""
        with self._lock:
            return self._pages

    def prepare(self, clip: int) -> None:
        """Drops a clip that nobody said would come; where one comes again, all of them, as before the first.

        One by one they would take with them what the disk had just read ahead for their neighbours.
        """
        with self._lock:
            if clip in self._read:
                self._pages += _dropped(self._source, self._clips)
                self._read.clear()
            elif clip not in self._clips:
                self._pages += _dropped(self._source, (clip,))
                self._clips.add(clip)
            self._read.add(clip)


class ColdSource:
    """A source whose clips come from the disk within `look`; outside of it nothing is different."""

    def __init__(self, source: ExampleSource) -> None:
        self._source = source
        self.sample_rate, self.speakers = source.sample_rate, source.speakers
        self.ids, self.samples, self.token_lengths = source.ids, source.samples, source.token_lengths
        self.feature_names, self.fingerprint = source.feature_names, source.fingerprint
        self._look: Look | None = None
        self._dropped: set[int] = set()

    def __len__(self) -> int:
        return len(self._source)

    def read(self, i: int) -> Example:
        """The clip; within a look, from the disk."""
        if self._look is not None:
            self._look.prepare(i)
        return self._source.read(i)

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Those of the source."""
        return self._source.extents(i)

    @contextmanager
    def look(self, clips: Iterable[int]) -> Iterator[Look]:
        """Clips are cold within the block, these and others, the first time and every time; one look at a time."""
        chosen = set(clips)
        self._dropped |= chosen
        self._look = look = Look(self._source, set(chosen))
        try:
            yield look
        finally:
            self._look = None

    def forget(self) -> None:
        """Drops what the looks have read: whoever measures next on these clips shall not find them cached by us."""
        _dropped(self._source, self._dropped)


def _dropped(source: ExampleSource, clips: Iterable[int]) -> Pages:
    return drop(extent for clip in clips for extent in source.extents(clip))
