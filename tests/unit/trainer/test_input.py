"""Input: batches padded to their bucket, broken clips replaced up to a share, a buffer that fits the memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from voxyard.corpus import CorpusError, Example
from voxyard.host.page_cache import Extent
from voxyard.trainer.input import BatchAssembler, batch_bytes, buffer_that_fits, pad
from voxyard.trainer.sampler import BatchPlan, BatchSampler, Bucket

HOP = 256


@dataclass
class FakeSource:
    """Clips whose samples all have the value of their position; some cannot be read."""

    count: int = 20
    broken: frozenset[int] = frozenset()
    sample_rate: int = 22050
    speakers: tuple[str, ...] = ("",)
    feature_names: tuple[str, ...] = ()
    fingerprint: str = "fake"
    reads: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ids = [f"clip-{i}" for i in range(self.count)]
        self.samples = np.full(self.count, 10 * HOP)
        self.token_lengths = np.full(self.count, 5)

    def __len__(self) -> int:
        return self.count

    def read(self, i: int) -> Example:
        self.reads.append(i)
        if i in self.broken:
            raise CorpusError(f"clip-{i}: data chunk is cut short")
        return Example(np.full(10 * HOP, i, np.int16), np.full(5, i + 1, np.int32), 0)

    def extents(self, i: int) -> tuple[Extent, ...]:
        return ()


def plans(count: int, source: FakeSource, rows: int = 4) -> tuple[BatchSampler, list[BatchPlan]]:
    sampler = BatchSampler(
        source.samples // HOP, source.token_lengths, buckets=(Bucket(32, 8),), rows=rows, seed=0, window=0
    )
    return sampler, list(sampler.batches(0, count))


def assembler(source: FakeSource, share: float = 0.1) -> tuple[BatchAssembler, list[BatchPlan]]:
    sampler, planned = plans(5, source)
    return BatchAssembler(source, sampler, hop_length=HOP, seed=0, max_bad_share=share), planned


def test_arrays_are_padded_to_the_bucket_with_zeros():
    arrays = pad([Example(np.full(700, 3, np.int16), np.array([4, 5], np.int32), 2)], Bucket(8, 6), HOP)
    assert arrays["pcm"].shape == (1, 8 * HOP)
    assert arrays["pcm"].dtype == np.int16
    assert (arrays["pcm"][0] == np.r_[np.full(700, 3), np.zeros(8 * HOP - 700)]).all()
    assert arrays["tokens"].tolist() == [[4, 5, 0, 0, 0, 0]]
    assert [int(arrays[name][0]) for name in ("pcm_length", "token_length", "speaker")] == [700, 2, 2]


def test_precomputed_features_are_padded_and_keep_their_lengths():
    """A corpus prepared with features needs no PCM."""
    features = {
        "mel": np.ones((3, 80), np.float32),
        "pitch": np.ones(3, np.float32),
        "energy": np.ones(3, np.float32),
    }
    arrays = pad([Example(np.zeros(0, np.int16), np.array([1], np.int32), 0, features)], Bucket(8, 8), HOP)
    assert "pcm" not in arrays
    assert arrays["mel"].shape == (1, 8, 80)
    assert arrays["mel"][0, 3:].min() == pytest.approx(np.log(1e-5))
    assert arrays["mel_length"].tolist() == [3]


def test_a_broken_clip_is_replaced_by_its_neighbour_and_named(caplog):
    source = FakeSource(broken=frozenset({2}))
    assemble, planned = assembler(source)
    assert assemble(planned[0]).arrays["pcm"][:, 0].tolist() == [0, 1, 3, 3]
    assert assemble.bad == {2: "clip-2: data chunk is cut short"}
    assert "clip-2" in caplog.text


def test_more_broken_clips_than_allowed_stop_the_run_with_the_list():
    source = FakeSource(broken=frozenset({1, 2, 3}))
    assemble, planned = assembler(source, share=0.1)
    with pytest.raises(CorpusError, match=r"more clips cannot be read.*--max-bad-share") as caught:
        assemble(planned[0])
    assert all(f"clip-{i}: " in str(caught.value) for i in (1, 2, 3))


def test_the_noise_of_a_clip_follows_from_seed_and_step():
    source = FakeSource()
    assemble, planned = assembler(source)
    first, again, other = (assemble(planned[i]).arrays["clip_seed"] for i in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_the_buffer_is_capped_by_memory():
    """A quarter of what is available, never less than one batch."""
    largest = batch_bytes(Bucket(1024, 200), 16, HOP, None)
    assert largest > 16 * 1024 * HOP * 2
    assert buffer_that_fits(50, largest, available=10**12) == 50
    assert buffer_that_fits(50, largest, available=40 * largest) == 10
    assert buffer_that_fits(50, largest, available=largest) == 1


@pytest.mark.parametrize("hosts", [2, 3])
def test_the_parts_of_a_batch_that_hosts_make_are_the_batch(hosts):
    """The same rows with the same seeds, broken clips replaced alike; each host reads its own."""
    whole_source = FakeSource(broken=frozenset({3}))
    sampler, made = plans(3, whole_source, rows=6)
    settings: dict[str, Any] = {"hop_length": HOP, "seed": 7, "max_bad_share": 0.1}
    whole = BatchAssembler(whole_source, sampler, **settings)
    sources = [FakeSource(broken=frozenset({3})) for _ in range(hosts)]
    share = 6 // hosts
    parts = [
        BatchAssembler(source, sampler, part=slice(place * share, (place + 1) * share), **settings)
        for place, source in enumerate(sources)
    ]
    for plan in made:
        expected, found = whole(plan).arrays, [part(plan).arrays for part in parts]
        for name, array in expected.items():
            np.testing.assert_array_equal(np.concatenate([one[name] for one in found]), array, err_msg=name)
    assert all(len(source.reads) < len(whole_source.reads) for source in sources)
