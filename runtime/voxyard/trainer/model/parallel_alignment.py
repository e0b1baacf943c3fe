"""Parallel form of the alignment's recursions: blocks of frames side by side, in 3·√T rounds instead of T.

What K frames do to the scores is a banded matrix, since a path moves on by K tokens at the most: entry (l, d) is the
score of all paths (or of the best one) from token l − d to token l. The matrices of all blocks are computed at once,
then the scores at the block borders one block after another, then the scores within all blocks at once. It is K times
the arithmetic of one loop over the frames, and pays where a round costs a kernel launch and not its arithmetic: on
GPUs. Blelloch (1990), "Prefix sums and their applications", has the scan; the band keeps its products small.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf


def block_length(frames: int) -> int:
    """Frames in a block, so that the rounds, 2 · K + T / K, are fewest."""
    return max(1, round(math.sqrt(frames / 2)))


def scan(start: tf.Tensor, steps: tf.Tensor, summed: tf.Tensor, impossible: float) -> tf.Tensor:
    """Scores (T, R, B, L) after each frame, from those of the first frame (R, B, L) and `steps` (T, R, B, L).

    A path stays at its token or moves on by one, and each cell adds its step; `summed` (R, 1, 1) is 1 for recursions
    that sum over both ways in log space, and 0 for those that take the better one.
    """
    frames, recursions, batch, tokens = steps.shape
    length = block_length(frames)
    blocks = -(-(frames - 1) // length)
    rest = tf.pad(steps[1:], [[0, blocks * length - (frames - 1)], [0, 0], [0, 0], [0, 0]])
    cells = tf.reshape(rest, [blocks, length, recursions, batch, tokens])
    cells = tf.transpose(cells, [1, 0, 2, 3, 4])  # (K, blocks, recursions, batch, tokens)

    def either(one: tf.Tensor, other: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        return tf.maximum(one, other) + weight * tf.math.log1p(tf.exp(-tf.abs(one - other)))

    def moved(scores: tf.Tensor) -> tf.Tensor:
        """The scores one token on, along the last axis."""
        return tf.pad(scores, [[0, 0]] * (len(scores.shape) - 1) + [[1, 0]], constant_values=impossible)[..., :-1]

    def widen(frame: tf.Tensor, band: tf.Tensor) -> tf.Tensor:
        nearer = tf.pad(band, [[0, 0]] * 3 + [[1, 0], [0, 0]], constant_values=impossible)[:, :, :, :-1]
        return either(band, moved(nearer), summed[..., None]) + cells[frame][:, :, :, None]

    unmoved = tf.concat([tf.zeros([1, tokens]), tf.fill([length, tokens], impossible)], 0)  # (distance, tokens)
    bands = tf.broadcast_to(unmoved, [blocks, recursions, batch, length + 1, tokens])
    _, bands = _loop(length, lambda frame, band: (band, widen(frame, band)), bands)

    origin = tf.range(tokens)[None] - tf.range(length + 1)[:, None] + length  # (distance, tokens), in padded scores

    def cross(block: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        padded = tf.pad(scores, [[0, 0]] * 2 + [[length, 0]], constant_values=impossible)
        ways = tf.gather(padded, origin, axis=2) + bands[block]  # (recursions, batch, distance, tokens)
        best = tf.reduce_max(ways, 2)
        return scores, best + summed * tf.math.log(tf.reduce_sum(tf.exp(ways - best[:, :, None]), 2))

    borders, _ = _loop(blocks, cross, start, keep=True)  # (blocks, recursions, batch, tokens)

    def follow(frame: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        after = either(scores, moved(scores), summed) + cells[frame]
        return after, after

    inside, _ = _loop(length, follow, borders, keep=True)  # (K, blocks, recursions, batch, tokens)
    within = tf.reshape(tf.transpose(inside, [1, 0, 2, 3, 4]), [blocks * length, recursions, batch, tokens])
    return tf.concat([start[None], within[: frames - 1]], 0)


def trace_back(came_from_left: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Token (T, B) of each frame, from the last frame's (B,) and 1 where a cell came from the left (T − 1, B, L)."""
    moves, batch, tokens = came_from_left.shape
    length = block_length(moves + 1)
    blocks = -(-moves // length)
    # Backwards; filled up at the end, where a path stays at the token of the first frame.
    came = tf.pad(tf.reverse(tf.cast(came_from_left, tf.int32), [0]), [[0, blocks * length - moves], [0, 0], [0, 0]])
    came = tf.transpose(tf.reshape(came, [blocks, length, batch, tokens]), [1, 0, 2, 3])  # (K, blocks, batch, tokens)

    def back(frame: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return at, at - tf.gather(came[frame], at, batch_dims=2)

    every = tf.broadcast_to(tf.range(tokens), [blocks, batch, tokens])
    _, origins = _loop(length, back, every)  # token before a block, for each token at its end
    ends, first = _loop(
        blocks, lambda block, at: (at, tf.gather(origins[block], at[:, None], batch_dims=1)[:, 0]), last, keep=True
    )

    def back_one(frame: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return at, at - tf.gather(came[frame], at[:, :, None], batch_dims=2)[:, :, 0]

    inside, _ = _loop(length, back_one, ends, keep=True)  # (K, blocks, batch)
    path = tf.reshape(tf.transpose(inside, [1, 0, 2]), [blocks * length, batch])[:moves]
    return tf.reverse(tf.concat([path, first[None]], 0), [0])


def _loop(
    rounds: int,
    advance: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    state: tf.Tensor,
    *,
    keep: bool = False,
) -> tuple[tf.Tensor | None, tf.Tensor]:
    """Outputs of `advance(round, state)` in each round, stacked where they are to be kept; and the last state."""
    kept = tf.TensorArray(state.dtype, rounds if keep else 0, element_shape=state.shape)

    def body(i: tf.Tensor, state: tf.Tensor, kept: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        out, after = advance(i, state)
        return i + 1, after, kept.write(i, out) if keep else kept

    # XLA knows the number of rounds where only `maximum_iterations` ends them; else a GPU waits for the host in each.
    _, state, kept = tf.while_loop(
        lambda *_: True, body, (tf.constant(0), state, kept), parallel_iterations=1, maximum_iterations=rounds
    )
    return kept.stack() if keep else None, state
