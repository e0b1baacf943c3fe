"""Alignment: which token each mel frame belongs to, learned from all monotonic paths, and the best one of them.

A path starts at the first token, ends at the last, and from one frame to the next stays or moves on by one token, so
that every token lasts a frame or more. Badlani et al. (2021), "One TTS alignment to rule them all", has the idea of the
forward sum; here its gradient is the exact posterior of a forward and a backward recursion (Rabiner 1989, §III).
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from voxyard.trainer.model.parallel_alignment import scan, trace_back

IMPOSSIBLE = -1e9  # a log probability; finite, so that no NaN is born of differences


class Alignment(NamedTuple):
    """Result of `align`."""

    loss: tf.Tensor  # (B,) −log of the summed probability of all paths; 0 where a clip has fewer frames than tokens
    hard: tf.Tensor  # (B, T, L) float32, 1 where the best path has frame t at token l; zero rows beyond a clip's end


def align(log_prob: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor, *, in_blocks: bool = False) -> Alignment:
    """All paths and the best path through `log_prob` (B, T, L), float32: log probabilities of token l at frame t.

    The loss has a gradient, the path has none. Rows of frames and columns of tokens beyond a clip's lengths (B,) count
    for nothing, whatever they hold. A clip with fewer frames than tokens has no path: its loss and gradient are 0, and
    its frames are spread evenly over its tokens. One loop over the frames for the three recursions (forward, backward
    and best path), one to trace the best path back; both with a static count of rounds. With `in_blocks` the rounds are
    few and large instead (parallel_alignment).
    """
    frames, tokens = log_prob.shape[1:]
    inside = (
        tf.sequence_mask(mel_length, frames)[:, :, None] & tf.sequence_mask(token_length, tokens)[:, None, :]
    )  # (batch, frames, tokens)
    possible = mel_length >= token_length  # (batch,)
    blocked = tf.where(inside, tf.stop_gradient(log_prob), IMPOSSIBLE)
    forward, backward, best = _recursions(blocked, mel_length, token_length, in_blocks)
    total = _at_end(forward, mel_length, token_length)  # (batch,)
    posterior = tf.exp(tf.minimum(forward + backward - blocked - total[:, None, None], 0.0))
    posterior = tf.where(inside & possible[:, None, None], posterior, 0.0)
    total = tf.where(possible, total, 0.0)

    @tf.custom_gradient
    def summed(scores: tf.Tensor) -> tuple[tf.Tensor, object]:
        del scores  # its gradient is known already
        return -total, lambda upstream: -upstream[:, None, None] * posterior

    hard = tf.where(
        possible[:, None, None],
        _trace_back(best, mel_length, token_length, in_blocks),
        _even(inside, mel_length, token_length),
    )
    return Alignment(summed(log_prob), tf.stop_gradient(hard))


def diagonal_prior(mel_length: tf.Tensor, token_length: tf.Tensor, frames: int, tokens: int) -> tf.Tensor:
    """Log of a beta-binomial prior (B, T, L) around the diagonal, from lengths (B,) (Badlani et al. 2021, §2.3).

    Frame t of T has α = t + 1 and β = T − t over L tokens. Columns beyond a clip's tokens are IMPOSSIBLE; rows beyond
    its frames hold the last frame's.
    """
    length = tf.cast(mel_length, tf.float32)[:, None, None]
    last = tf.cast(token_length, tf.float32)[:, None, None] - 1
    frame = tf.minimum(tf.range(frames, dtype=tf.float32)[None, :, None], length - 1)  # (batch, frames, 1)
    token = tf.minimum(tf.range(tokens, dtype=tf.float32)[None, None, :], last)  # (batch, 1, tokens)
    alpha, beta = frame + 1, length - frame
    choose = tf.math.lgamma(last + 1) - tf.math.lgamma(token + 1) - tf.math.lgamma(last - token + 1)
    numerator = (
        tf.math.lgamma(token + alpha) + tf.math.lgamma(last - token + beta) - tf.math.lgamma(last + alpha + beta)
    )
    log_prior = choose + numerator - tf.math.lgamma(alpha) - tf.math.lgamma(beta) + tf.math.lgamma(alpha + beta)
    return tf.where(tf.sequence_mask(token_length, tokens)[:, None, :], log_prior, IMPOSSIBLE)


def _recursions(
    log_prob: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor, in_blocks: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Log scores (B, T, L) of all paths up to a cell, of all paths from it on, and of the best path up to it.

    The cell counts in each. From the end, a path is one through the reversed table.
    """
    batch, frames, tokens = log_prob.shape
    steps = tf.transpose(
        tf.stack([log_prob, _reversed(log_prob, mel_length, token_length), log_prob]), [2, 0, 1, 3]
    )  # (frames, 3, batch, tokens)
    summed = tf.constant([1.0, 1.0, 0.0])[:, None, None]  # whether a recursion sums its two ways, or takes the better
    before_first = tf.fill([3, batch, 1], IMPOSSIBLE)
    start = tf.concat([tf.zeros([3, batch, 1]), tf.fill([3, batch, tokens - 1], IMPOSSIBLE)], -1) + steps[0]
    if in_blocks and frames > 1:
        forward, backward, best = tf.unstack(tf.transpose(scan(start, steps, summed, IMPOSSIBLE), [1, 2, 0, 3]))
        return forward, _reversed(backward, mel_length, token_length), best

    def advance(t: tf.Tensor, score: tf.Tensor, scores: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        moved = tf.concat([before_first, score[:, :, :-1]], -1)
        both = tf.math.log1p(tf.exp(-tf.abs(score - moved)))
        score = tf.maximum(score, moved) + summed * both + steps[t]
        return t + 1, score, scores.write(t, score)

    scores = tf.TensorArray(tf.float32, frames, element_shape=[3, batch, tokens]).write(0, start)
    _, _, scores = tf.while_loop(
        lambda *_: True,  # XLA counts the rounds where nothing else ends them: no wait for the host in each
        advance,
        (tf.constant(1), start, scores),
        parallel_iterations=1,
        maximum_iterations=frames - 1,
    )
    forward, backward, best = tf.unstack(tf.transpose(scores.stack(), [1, 2, 0, 3]))  # 3 × (batch, frames, tokens)
    return forward, _reversed(backward, mel_length, token_length), best


def _reversed(table: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor) -> tf.Tensor:
    """A table (B, T, L) with the frames and the tokens of each clip in reverse, its padding where it was."""
    backwards = tf.reverse_sequence(table, mel_length, seq_axis=1)
    return tf.reverse_sequence(backwards, token_length, seq_axis=2)


def _at_end(scores: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor) -> tf.Tensor:
    """The scores (B,) at each clip's last frame and last token."""
    last_frame = tf.gather(scores, mel_length - 1, batch_dims=1)  # (batch, tokens)
    return tf.gather(last_frame, token_length - 1, batch_dims=1)


def _trace_back(best: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor, in_blocks: bool) -> tf.Tensor:
    """The best path (B, T, L) of zeros and ones, from the best scores (B, T, L) up to each cell."""
    batch, frames, tokens = best.shape
    previous = best[:, :-1]  # (batch, frames − 1, tokens)
    moved = tf.pad(previous, [[0, 0], [0, 0], [1, 0]], constant_values=2 * IMPOSSIBLE * frames)[:, :, :-1]
    inside = tf.sequence_mask(mel_length, frames)[:, 1:, None]
    came_from_left = tf.cast((moved > previous) & inside, tf.float32)
    came_from_left = tf.transpose(came_from_left, [1, 0, 2])  # (frames − 1, batch, tokens)
    if in_blocks and frames > 1:
        chosen = tf.transpose(tf.one_hot(trace_back(came_from_left, token_length - 1), tokens), [1, 0, 2])
        return chosen * tf.sequence_mask(mel_length, frames, tf.float32)[:, :, None]
    last = tf.one_hot(token_length - 1, tokens)  # (batch, tokens)

    def retreat(t: tf.Tensor, at: tf.Tensor, path: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        leaving = at * came_from_left[t]
        at = at - leaving + tf.pad(leaving[:, 1:], [[0, 0], [0, 1]])
        return t - 1, at, path.write(t, at)

    path = tf.TensorArray(tf.float32, frames, element_shape=[batch, tokens]).write(frames - 1, last)
    _, _, path = tf.while_loop(
        lambda *_: True,
        retreat,
        (tf.constant(frames - 2), last, path),
        parallel_iterations=1,
        maximum_iterations=frames - 1,
    )
    return tf.transpose(path.stack(), [1, 0, 2]) * tf.sequence_mask(mel_length, frames, tf.float32)[:, :, None]


def _even(inside: tf.Tensor, mel_length: tf.Tensor, token_length: tf.Tensor) -> tf.Tensor:
    """Frames spread evenly over the tokens (B, T, L)."""
    _, frames, tokens = inside.shape
    token = tf.range(frames)[None] * token_length[:, None] // mel_length[:, None]  # (batch, frames)
    return tf.where(inside, tf.one_hot(token, tokens), 0.0)
