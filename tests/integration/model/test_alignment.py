"""All monotonic paths, and the best one, against the paths counted one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.model.alignment import align, diagonal_prior

FRAMES, TOKENS = 7, 5
LENGTHS = [(7, 4), (5, 5), (6, 2), (1, 1), (7, 1), (4, 3)]
Table = NDArray[np.float32]


def scores(seed: int = 0) -> Table:
    return (2 * np.random.default_rng(seed).normal(size=(len(LENGTHS), FRAMES, TOKENS))).astype(np.float32)


def paths(frames: int, tokens: int) -> Iterator[NDArray[np.int64]]:
    """The token of each frame, for each way to cut the frames into as many parts as there are tokens."""
    for cuts in itertools.combinations(range(1, frames), tokens - 1):
        yield np.repeat(np.arange(tokens), np.diff([0, *cuts, frames]))


def path_scores(table: Table, frames: int, tokens: int) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    found = list(paths(frames, tokens))
    return found, np.array([table[np.arange(frames), path].sum(dtype=np.float64) for path in found])


def lengths() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant([frames for frames, _ in LENGTHS]), tf.constant([tokens for _, tokens in LENGTHS])


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("xla", [False, True])
def test_loss_and_best_path_are_those_of_all_paths_counted(xla: bool, in_blocks: bool) -> None:
    """With and without XLA; rows of different lengths side by side, junk in their padding."""
    table = scores()
    form = partial(align, in_blocks=in_blocks)
    found = tf.function(form, jit_compile=xla, autograph=False)(tf.constant(table), *lengths())
    for row, (frames, tokens) in enumerate(LENGTHS):
        every, sums = path_scores(table[row], frames, tokens)
        assert found.loss[row].numpy() == pytest.approx(-np.logaddexp.reduce(sums), abs=1e-4)
        np.testing.assert_array_equal(found.hard[row].numpy()[:frames].argmax(-1), every[int(sums.argmax())])


@pytest.mark.parametrize("in_blocks", [False, True])
def test_the_gradient_is_the_slope_of_the_loss(in_blocks: bool) -> None:
    """Finite differences of the loss counted path by path, each row with a weight of its own."""
    table, weights = scores(1), np.arange(1.0, len(LENGTHS) + 1, dtype=np.float32)
    variable = tf.constant(table)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total = tf.reduce_sum(align(variable, *lengths(), in_blocks=in_blocks).loss * weights)
    gradient = tape.gradient(total, variable).numpy()
    for row, (frames, tokens) in enumerate(LENGTHS):
        for frame, token in itertools.product(range(FRAMES), range(TOKENS)):
            step = np.zeros((FRAMES, TOKENS))
            step[frame, token] = 1e-4
            ahead = -np.logaddexp.reduce(path_scores(table[row] + step, frames, tokens)[1])
            behind = -np.logaddexp.reduce(path_scores(table[row] - step, frames, tokens)[1])
            slope = weights[row] * (ahead - behind) / 2e-4
            assert gradient[row, frame, token] == pytest.approx(slope, abs=1e-3)


def test_every_token_lasts_a_frame_and_all_frames_are_given_out() -> None:
    """Durations from the path, on long clips with many equal scores."""
    mel_length, token_length = tf.constant([200, 150, 40]), tf.constant([37, 40, 40])
    table = tf.cast(tf.random.stateless_uniform((3, 200, 40), (1, 2), 0, 3, tf.int32), tf.float32)
    hard = align(table, mel_length, token_length).hard.numpy()
    durations = hard.sum(1)
    np.testing.assert_array_equal(durations.sum(1), mel_length)
    np.testing.assert_array_equal(hard.sum(2), tf.sequence_mask(mel_length, 200, tf.float32))
    for row, tokens in enumerate(token_length.numpy()):
        assert (durations[row, :tokens] >= 1).all()
        assert not durations[row, tokens:].any()
        assert (np.diff(hard[row, : mel_length[row]].argmax(-1)) >= 0).all()


@pytest.mark.parametrize("frames", [2, 150, 151])
def test_blocks_of_frames_give_what_one_loop_over_the_frames_gives(frames: int) -> None:
    """Losses to 1e-5 of their size, the same best path, and gradients to the rounding of the scores."""
    mel_length = tf.constant([frames, frames - 1, max(2, frames // 2)])
    token_length = tf.constant([min(frames, 40), 1, min(frames, 25)])
    table = tf.constant(np.random.default_rng(3).normal(size=(3, frames, 40)).astype(np.float32) * 3)

    def form(in_blocks: bool) -> tuple[NDArray[np.float32], ...]:
        with tf.GradientTape() as tape:
            tape.watch(table)
            found = align(table, mel_length, token_length, in_blocks=in_blocks)
            total = tf.reduce_sum(found.loss)
        return found.loss.numpy(), found.hard.numpy(), tape.gradient(total, table).numpy()

    (loss, path, gradient), (blocks_loss, blocks_path, blocks_gradient) = form(False), form(True)
    np.testing.assert_allclose(blocks_loss, loss, rtol=1e-5)
    np.testing.assert_array_equal(blocks_path, path)
    np.testing.assert_allclose(blocks_gradient, gradient, atol=1e-6 * np.abs(loss).max() + 1e-5)


def test_a_clip_with_fewer_frames_than_tokens_costs_nothing_and_spreads_its_frames() -> None:
    """No path exists; one such clip must not poison its batch with NaN."""
    table = tf.constant(scores())
    with tf.GradientTape() as tape:
        tape.watch(table)
        found = align(table, tf.fill([6], 3), tf.fill([6], 5))
        total = tf.reduce_sum(found.loss)
    assert not found.loss.numpy().any()
    assert not tape.gradient(total, table).numpy().any()
    np.testing.assert_array_equal(found.hard[0].numpy()[:3].argmax(-1), [0, 1, 3])


@pytest.mark.slow
def test_long_clips_lose_no_precision() -> None:
    """The posterior of each frame sums to one after 800 frames."""
    table = tf.constant(np.random.default_rng(2).normal(size=(2, 800, 120)).astype(np.float32) * 3)
    mel_length, token_length = tf.constant([800, 640]), tf.constant([120, 70])
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(align(table, mel_length, token_length).loss)
    posterior = -tape.gradient(total, table).numpy().sum(-1)
    np.testing.assert_allclose(posterior, tf.sequence_mask(mel_length, 800, tf.float32), atol=0.02)


def test_the_diagonal_prior_is_a_distribution_over_the_tokens_of_each_frame() -> None:
    """Beta-binomial; its mean runs along the diagonal, whatever the padding."""
    made = tf.exp(diagonal_prior(tf.constant([30, 50]), tf.constant([12, 7]), 60, 20)).numpy()
    np.testing.assert_allclose(made.sum(-1), 1, atol=1e-3)
    assert not made[0, :, 12:].any()
    mean = (made[0, :30] * np.arange(20)).sum(-1)
    np.testing.assert_allclose(mean, 11 * (np.arange(30) + 1) / 31, atol=0.02)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_xla_knows_how_often_each_loop_goes_round(in_blocks: bool) -> None:
    """On a GPU a loop whose rounds it does not know asks the host in each of them whether to go on."""
    compiled = tf.function(lambda *table: align(*table, in_blocks=in_blocks), jit_compile=True, autograph=False)
    hlo = compiled.experimental_get_compiler_ir(tf.constant(scores()), *lengths())(stage="optimized_hlo")
    loops = [line for line in hlo.splitlines() if " while(" in line]
    assert loops
    assert [line for line in loops if "known_trip_count" not in line] == []
