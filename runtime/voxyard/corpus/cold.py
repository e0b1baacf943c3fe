"""A source that is read from the disk while its reading is measured, not from the page cache."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from voxyard.corpus.examples import Example, ExampleSource, SameClips
from voxyard.host.page_cache import Pages, drop


class ColdRead:
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
        """Drops a clip that was not announced; where a clip is read again, all of them, as before the first read.

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


class ColdSource(SameClips):
    """A source whose clips come from the disk within `cold_read`, and are read as usual outside of it."""

    def __init__(self, source: ExampleSource) -> None:
        super().__init__(source)
        self._cold: ColdRead | None = None
        self._dropped: set[int] = set()

    def read(self, i: int) -> Example:
        """The clip; within `cold_read`, from the disk."""
        if self._cold is not None:
            self._cold.prepare(i)
        return super().read(i)

    @contextmanager
    def cold_read(self, clips: Iterable[int]) -> Iterator[ColdRead]:
        """Drops clips from the page cache before each read within the block, `clips` when it begins. Not nested."""
        chosen = set(clips)
        self._dropped |= chosen
        self._cold = cold = ColdRead(self._source, set(chosen))
        try:
            yield cold
        finally:
            self._cold = None

    def drop_read_clips(self) -> None:
        """Drops the clips that were read from the page cache, so that no later measurement finds them cached."""
        _dropped(self._source, self._dropped)


def _dropped(source: ExampleSource, clips: Iterable[int]) -> Pages:
    return drop(extent for clip in clips for extent in source.extents(clip))
