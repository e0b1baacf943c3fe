"""Buckets and the order of batches: full batches, the same order again, any step at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxyard.trainer.errors import TrainerError
from voxyard.trainer.sampler import BatchSampler, Bucket, plan_buckets, smallest_fitting

lengths = st.lists(st.tuples(st.integers(1, 900), st.integers(1, 200)), min_size=1, max_size=120)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    frames, tokens = np.array(pairs, np.int64).T
    return frames, tokens


def sampler(clips: int = 50, *, rows: int = 4, seed: int = 1, window: int = 40, most: int = 3) -> BatchSampler:
    draw = np.random.default_rng(0)
    frames, tokens = draw.integers(20, 400, clips), draw.integers(3, 90, clips)
    buckets = plan_buckets(frames, tokens, rows=rows, most=most)
    return BatchSampler(frames, tokens, buckets=buckets, rows=rows, seed=seed, window=window)


@given(lengths, st.integers(1, 16), st.integers(1, 8))
def test_every_clip_fits_a_bucket_and_every_bucket_is_used(pairs, rows, most):
    """Static shapes that hold every clip, few of them, none that can never be filled."""
    frames, tokens = arrays(pairs)
    if len(frames) < rows:
        with pytest.raises(TrainerError, match=f"needs {rows} clips and the corpus has {len(frames)}"):
            plan_buckets(frames, tokens, rows=rows, most=most)
        return
    buckets = plan_buckets(frames, tokens, rows=rows, most=most)
    assert 1 <= len(buckets) <= most
    assert [bucket.frames for bucket in buckets] == sorted({bucket.frames for bucket in buckets})
    assert (smallest_fitting(frames, tokens, buckets) >= 0).all()


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 40))
def test_a_resumed_order_is_the_undisturbed_order_from_that_step_on(first, more):
    """Batch N is the same whether the run began at 0 or at N."""
    whole = list(sampler().batches(0, first + more))
    assert list(sampler().batches(first, first + more)) == whole[first:]
    assert [plan.step for plan in whole] == list(range(first + more))


def test_another_seed_and_another_epoch_give_another_order():
    steps = sampler().steps_per_epoch
    plans = [plan.clips for plan in sampler().batches(0, 2 * steps)]
    assert plans[:steps] != plans[steps:]
    assert plans != [plan.clips for plan in sampler(seed=2).batches(0, 2 * steps)]


def test_an_epoch_holds_each_clip_once_at_most_and_drops_less_than_a_batch_a_bucket():
    made = sampler(clips=53, rows=4)
    clips = [clip for plan in made.batches(0, made.steps_per_epoch) for clip in plan.clips]
    assert len(clips) == len(set(clips))
    assert len(clips) > 53 - 3 * 4


def test_what_one_epoch_drops_another_uses():
    made = sampler(clips=53, rows=4)
    seen = {clip for plan in made.batches(0, 10 * made.steps_per_epoch) for clip in plan.clips}
    assert len(seen) == 53


@pytest.mark.parametrize(("window", "spread"), [(0, 0), (8, 12), (800, 150)])
def test_the_shuffle_window_sets_how_far_a_clip_travels(window, spread):
    """Shuffle_buffer_multiplier; 0 keeps the order of the corpus, more mixes wider."""
    clips = np.arange(400)
    made = BatchSampler(clips, clips, buckets=(Bucket(400, 400),), rows=4, seed=3, window=window)
    order = np.array([clip for plan in made.batches(0, 100) for clip in plan.clips])
    neighbours = np.minimum(np.abs(np.diff(order)), 400 - np.abs(np.diff(order)))
    if window == 0:
        assert (order == clips).all()
    elif window == 8:
        assert 1 < np.median(neighbours) < spread
    else:
        assert np.median(neighbours) > spread / 2


def test_without_buckets_each_batch_has_the_shape_of_its_longest_clip():
    """--no-enable-static-shapes."""
    frames, tokens = np.array([10, 20, 30, 40]), np.array([4, 3, 2, 1])
    made = BatchSampler(frames, tokens, buckets=None, rows=2, seed=0, window=0)
    assert [plan.bucket for plan in made.batches(0, 2)] == [Bucket(20, 4), Bucket(40, 2)]


def test_buckets_that_no_batch_can_fill_are_an_error_that_names_what_to_lower():
    frames = np.array([10, 10, 300, 300])
    with pytest.raises(TrainerError, match="--batch-size"):
        BatchSampler(frames, frames, buckets=(Bucket(32, 400), Bucket(400, 400)), rows=3, seed=0, window=0)
