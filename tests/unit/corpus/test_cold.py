"""Cold reads of a source: its clips come from the disk, at the first read and at every later one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cached_pages import cached_pages
from disks import on_disk
from tones import Corpus, as_shards, open_corpus

from voxyard.corpus import ExampleSource
from voxyard.corpus.cache import CachedSource
from voxyard.corpus.cold import ColdSource
from voxyard.corpus.examples import Subset
from voxyard.host.page_cache import Extent, Pages


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    """Three recordings on a disk."""
    with on_disk(tmp_path) as folder:
        yield written(folder / "corpus")


def written(folder: Path) -> Corpus:
    return Corpus(folder).add("a", "one").add("b", "two").add("c", "three")


def sums(source: ExampleSource) -> list[int]:
    """All of the sound is read, also through a map."""
    return [int(np.abs(source.read(i).pcm.astype(np.int64)).sum()) for i in range(len(source))]


def shards(corpus: Corpus) -> ExampleSource:
    folder = corpus.directory.with_name("shards")
    as_shards(corpus.directory, folder)
    return open_corpus(folder)


def test_a_look_reads_recordings_from_the_disk(corpus: Corpus) -> None:
    source = ColdSource(corpus.open())
    heard = sums(source)
    resident, pages = cached_pages(corpus.wav("a"))
    assert resident == pages
    with source.cold_read(range(3)) as cold:
        assert cached_pages(corpus.wav("a"))[0] == 0
        assert sums(source) == heard
    assert (cold.pages.state, cold.pages.total) == ("cold", 3 * pages)


def test_a_clip_that_comes_again_comes_from_the_disk_again(corpus: Corpus) -> None:
    source = ColdSource(corpus.open())
    with source.cold_read([0]) as cold:
        source.read(0)
        once = cold.pages.total
        assert cached_pages(corpus.wav("a"))[0] > 0
        source.read(0)
        assert cold.pages.total == 2 * once
        source.read(1)  # nobody said that it would come
        assert cold.pages.total == 3 * once
    assert cold.pages.state == "cold"
    source.read(0)
    assert cold.pages.total == 3 * once


def test_what_the_disk_read_ahead_stays_for_the_clips_that_come_next(corpus: Corpus) -> None:
    """Clips of shards lie side by side: each pass over them begins cold, and none begins anew in the middle."""
    source = ColdSource(shards(corpus))
    path, once = source.extents(0)[0].path, 0
    with source.cold_read(range(3)) as cold:
        for number in range(1, 4):
            assert sums(source)
            once = once or cold.pages.total
            assert cached_pages(path)[0] > 0
            assert cold.pages == Pages(number * once, 0)


def test_a_look_reads_mapped_shards_from_the_disk(corpus: Corpus) -> None:
    source = ColdSource(shards(corpus))
    heard = sums(source)
    (extent,) = source.extents(1)
    assert cached_pages(extent.path)[0] > 0
    with source.cold_read(range(3)) as cold:
        assert cached_pages(extent.path)[0] == 0
    assert cold.pages.state == "cold"
    assert sums(source) == heard


def test_every_part_of_the_shards_is_some_clips(corpus: Corpus) -> None:
    source = shards(corpus)
    parts = sorted((part.offset, part.length) for i in range(3) for part in source.extents(i))
    assert [offset for offset, _ in parts] == np.cumsum([0, *(length for _, length in parts[:-1])]).tolist()
    assert sum(length or 0 for _, length in parts) == source.extents(0)[0].path.stat().st_size


def test_a_cache_file_is_read_from_the_disk_and_keeps_what_was_just_written_to_it(corpus: Corpus) -> None:
    file = corpus.directory / "clips.cache"
    source = ColdSource(CachedSource(corpus.open(), file))
    assert {part.path for part in source.extents(0)} == {corpus.wav("a")}
    heard = sums(source)
    assert {part.path for part in source.extents(0)} == {file}
    with source.cold_read(range(3)) as cold:
        assert cold.pages.state == "cold"
        assert sums(source) == heard
    again = CachedSource(corpus.open(), file)
    assert sums(again) == heard


def test_clips_that_are_kept_in_memory_are_no_files(corpus: Corpus) -> None:
    source = ColdSource(CachedSource(corpus.open(), None))
    sums(source)
    with source.cold_read(range(3)) as cold:
        sums(source)
    assert (cold.pages.state, cold.pages.total) == ("none", 0)


def test_a_corpus_in_memory_is_warm() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        source = ColdSource(written(Path(folder) / "corpus").open())
        with source.cold_read(range(3)) as cold:
            sums(source)
    assert (cold.pages.state, cold.pages.trusted) == ("warm", False)


def test_a_subset_reads_its_own_clips(corpus: Corpus) -> None:
    subset = Subset(corpus.open(), np.array([2, 0]))
    assert subset.extents(0) == (Extent(corpus.wav("c")),)


def test_clips_that_were_read_cold_are_dropped_for_the_next_measurement(corpus: Corpus) -> None:
    source = ColdSource(corpus.open())
    with source.cold_read([0, 1]):
        sums(source)
    source.drop_read_clips()
    assert [cached_pages(corpus.wav(clip))[0] for clip in "ab"] == [0, 0]
    assert cached_pages(corpus.wav("c"))[0] > 0
