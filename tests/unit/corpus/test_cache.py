"""The cache of decoded clips: decodes once, and never gives the clips of another corpus."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from disks import run_on_small_disk
from tones import Corpus, write_wav

from voxyard.corpus import CorpusError, Example, ExampleSource
from voxyard.corpus.cache import CachedSource, _aligned
from voxyard.host.page_cache import Extent


class Counting:
    """A source that remembers what was read from it."""

    def __init__(self, source: ExampleSource) -> None:
        self._source = source
        self.reads: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)

    def __len__(self) -> int:
        return len(self._source)

    def read(self, i: int) -> Example:
        self.reads.append(i)
        return self._source.read(i)


def _opened(corpus: Corpus) -> Counting:
    return Counting(corpus.open())


@pytest.fixture
def three(corpus: Corpus) -> Corpus:
    """Three clips of odd lengths, of two speakers."""
    return corpus.add("a", "one", 0.3001, "x").add("b", "two", 0.4003, "y").add("c", "three words", 0.5, "x")


@pytest.mark.parametrize("where", ["memory", "file"])
def test_every_clip_is_decoded_once_and_comes_back_the_same(three: Corpus, tmp_path: Path, where: str) -> None:
    source, plain = _opened(three), three.open()
    cached = CachedSource(source, None if where == "memory" else tmp_path / "cache")  # type: ignore[arg-type]
    for _ in range(2):
        for i in (2, 0, 1):
            a, b = cached.read(i), plain.read(i)
            assert (a.pcm.tolist(), a.tokens.tolist(), a.speaker) == (b.pcm.tolist(), b.tokens.tolist(), b.speaker)
    assert source.reads == [2, 0, 1]
    assert (len(cached), list(cached.ids), cached.speakers) == (3, ["a", "b", "c"], ("x", "y"))
    assert cached.fingerprint == plain.fingerprint


def test_a_second_run_decodes_nothing_that_the_first_decoded(three: Corpus, tmp_path: Path) -> None:
    CachedSource(_opened(three), tmp_path / "cache").read(1)  # type: ignore[arg-type]
    source = _opened(three)
    cached = CachedSource(source, tmp_path / "cache")  # type: ignore[arg-type]
    assert cached.read(1).pcm.tolist() == three.open().read(1).pcm.tolist()
    assert source.reads == []
    cached.read(0)
    assert source.reads == [0]
    assert (tmp_path / "cache").stat().st_size == CachedSource.size(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["speaker", "text", "order", "rate", "subset"])
def test_the_cache_of_another_corpus_is_made_anew(three: Corpus, tmp_path: Path, other: str) -> None:
    """Also where all lengths are the same."""
    CachedSource(_opened(three), tmp_path / "cache").read(0)  # type: ignore[arg-type]
    rate = 22050
    if other == "speaker":
        three.write([three.lines[0].replace("|x", "|y"), *three.lines[1:]])
    elif other == "text":
        three.write([three.lines[0].replace("one", "own"), *three.lines[1:]])
    elif other == "order":
        three.write(three.lines[::-1])
    elif other == "subset":
        three.write(three.lines[:2])
    else:
        rate = 16000
    source, plain = Counting(three.open(sample_rate=rate)), three.open(sample_rate=rate)
    cached = CachedSource(source, tmp_path / "cache")  # type: ignore[arg-type]
    example, wanted = cached.read(0), plain.read(0)
    assert source.reads == [0]
    assert example.pcm.tolist() == wanted.pcm.tolist()
    assert (example.tokens.tolist(), example.speaker) == (wanted.tokens.tolist(), wanted.speaker)


class Some:
    """Two clips of a source, under one fingerprint whichever they are."""

    def __init__(self, source: ExampleSource, clips: list[int]) -> None:
        self._source, self._clips = source, clips
        self.sample_rate, self.speakers = source.sample_rate, source.speakers
        self.samples, self.token_lengths = source.samples[clips], source.token_lengths[clips]
        self.ids = [source.ids[i] for i in clips]
        self.feature_names, self.fingerprint = (), source.fingerprint + "/2"

    def __len__(self) -> int:
        return len(self._clips)

    def read(self, i: int) -> Example:
        return self._source.read(self._clips[i])

    def extents(self, i: int) -> tuple[Extent, ...]:
        return self._source.extents(self._clips[i])


def test_other_clips_of_the_same_corpus_are_not_mistaken(corpus: Corpus, tmp_path: Path) -> None:
    """The subset held out by one run and by another may be of one size."""
    source = corpus.add("a", "one").add("b", "two").add("c", "six").open()
    CachedSource(Some(source, [0, 1]), tmp_path / "cache").read(0)
    again = CachedSource(Some(source, [2, 1]), tmp_path / "cache").read(0)
    assert again.pcm.tolist() == source.read(2).pcm.tolist()


@pytest.mark.parametrize("content", [b"my thesis", b"\0" * 5000, b"v"])
def test_a_file_that_is_no_cache_is_refused_and_untouched(three: Corpus, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CorpusError, match="is no cache"):
        CachedSource(three.open(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize("path", ["nowhere/cache", "corpus", "corpus/metadata.csv/cache"])
def test_a_place_where_no_file_can_be_is_a_sentence(three: Corpus, tmp_path: Path, path: str) -> None:
    with pytest.raises(CorpusError, match=f"--cache-file .*{path}"):
        CachedSource(three.open(), tmp_path / path)


def test_a_cache_that_was_cut_is_made_anew(three: Corpus, tmp_path: Path) -> None:
    CachedSource(three.open(), tmp_path / "cache").read(2)
    os.truncate(tmp_path / "cache", 500)
    source = _opened(three)
    cached = CachedSource(source, tmp_path / "cache")  # type: ignore[arg-type]
    assert cached.read(2).pcm.tolist() == three.open().read(2).pcm.tolist()
    assert source.reads == [2]


def test_a_broken_clip_is_named_each_time_and_harms_no_other(three: Corpus, tmp_path: Path) -> None:
    cached = CachedSource(three.open(), tmp_path / "cache")
    write_wav(three.wav("b"), np.zeros(999))
    for _ in range(2):
        with pytest.raises(CorpusError, match="b"):
            cached.read(1)
    assert len(cached.read(2).pcm) == 11025


def test_several_threads_get_what_one_gets(three: Corpus, tmp_path: Path) -> None:
    plain = three.open()
    wanted = [plain.read(i).pcm.tobytes() for i in range(3)]
    for _ in range(10):
        cached = CachedSource(plain, None)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i, cached=cached: cached.read(i % 3).pcm.tobytes(), range(24)))
        assert found == wanted * 8


def test_a_run_with_another_corpus_does_not_spoil_the_cache_of_one_that_runs(three: Corpus, tmp_path: Path) -> None:
    """The file is mapped; to cut it under a running training would kill that."""
    running = CachedSource(three.open(), tmp_path / "cache")
    wanted = running.read(0).pcm.tolist()
    with pytest.raises(CorpusError, match="in use"):
        CachedSource(three.open(sample_rate=16000), tmp_path / "cache")
    again = CachedSource(three.open(), tmp_path / "cache")  # the same corpus may share it
    assert again.read(0).pcm.tolist() == running.read(0).pcm.tolist() == wanted


def test_room_that_was_taken_in_vain_is_given_back(
    three: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems keep what they found before they were full; the next try begins anew."""

    def run_full(handle: int, _: int, __: int) -> None:
        os.write(handle, b"some blocks")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", run_full)
        with pytest.raises(CorpusError, match="No space left on device"):
            CachedSource(three.open(), tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_size == 0
    assert len(CachedSource(three.open(), tmp_path / "cache").read(2).pcm) == 11025


def test_a_full_disk_is_a_sentence_before_the_training_begins(three: Corpus, tmp_path: Path) -> None:
    """On a real full file system: a tmpfs of 32 KiB in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    program = """
import sys
from pathlib import Path
from voxyard.corpus import CorpusError, CorpusSettings, open_source
from voxyard.corpus.cache import CachedSource
from voxyard.host.page_cache import Extent
source = open_source(Path(sys.argv[1]), CorpusSettings())
try:
    CachedSource(source, Path(sys.argv[2]) / "cache")
except CorpusError as error:
    print(error)
print(sum(path.stat().st_blocks for path in Path(sys.argv[2]).iterdir()))
"""
    disk = tmp_path / "disk"
    done = run_on_small_disk("32k", disk, program, three.directory, disk)
    assert done.returncode == 0, done.stderr
    said, blocks = done.stdout.splitlines()
    assert "No space left on device" in said
    assert f"--cache-file {disk}/cache" in said
    assert blocks == "0"


def test_a_clip_that_was_cut_short_is_decoded_again(three: Corpus, tmp_path: Path) -> None:
    """A clip counts as there only when all of it has been written, speaker included."""

    class CutShort:
        def __init__(self, example: Example) -> None:
            self.pcm, self.tokens = example.pcm, example.tokens

        @property
        def speaker(self) -> int:
            raise KeyboardInterrupt  # between two writes

    source, plain = _opened(three), three.open()
    cached = CachedSource(source, tmp_path / "cache")  # type: ignore[arg-type]
    source.read = lambda i: CutShort(plain.read(i))  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(KeyboardInterrupt):
        cached.read(1)
    del source.read
    assert cached.read(1).pcm.tolist() == plain.read(1).pcm.tolist()
    assert source.reads == [1]


def test_parts_of_a_clip_begin_at_multiples_of_four_bytes() -> None:
    assert [_aligned(count) for count in (0, 1, 4, 5)] == [0, 4, 4, 8]
