"""Mean of tensors over hosts in packs, each of them reduced as soon as its tensors are computed.

Each pack is one CollectiveReduceV2 operation. TensorFlow runs operations on the same resource one after the other, in
the order in which they were traced, and others as their inputs become ready. So packs with a token of their own are
under way while the rest of the gradients is computed. Packs with one common token go one by one, in the same order on
all hosts, which must be where a waiting pack would stop the others: NCCL, the executor of executor_scope.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

LEAST, MOST_PACKS = 2**20, 32
LEAST_NCCL = 32 * 2**20  # a GPU's function is compiled by XLA and returns all gradients at once
_GROUP = 2**20  # beyond those that tf.distribute takes


class PackedMean:
    """The mean over `count` hosts in graph code, called with the same shapes in the same order on all of them."""

    def __init__(self, count: int, *, gpu: bool, ordered: bool) -> None:
        """With `gpu` the first GPU reduces (NCCL), else the CPU; `ordered` keeps packs in order there, too."""
        self._count, self._ring = count, "nccl" if gpu else "ring"
        self._least, self._device = LEAST_NCCL if gpu else LEAST, "/device:GPU:0" if gpu else "/device:CPU:0"
        with tf.device(self._device):
            tokens = 1 if gpu or ordered else MOST_PACKS + 1
            self._tokens = [tf.Variable(0.0, trainable=False) for _ in range(tokens)]
        self._keys: dict[tuple[int, ...], int] = {}  # first instance key of an update's packs of these sizes

    def __call__(self, tensors: Sequence[tf.Tensor], of: int = 0) -> list[tf.Tensor]:
        """The mean of each tensor, of a static shape; the last ones first, as backpropagation makes them.

        `of` numbers the update in its step: those of one step may be alike in size.
        """
        backwards = list(tensors)[::-1]
        sizes = [int(each.shape.num_elements()) for each in backwards]
        packs = packs_of([size * each.dtype.size for size, each in zip(sizes, backwards, strict=True)], self._least)
        lengths = tuple(sum(sizes[pack]) for pack in packs)
        first = self._keys.setdefault((of, *lengths), 1 + sum(len(key) - 1 for key in self._keys))
        means: list[tf.Tensor] = []
        for number, pack in enumerate(packs):
            reduced = self._reduced(backwards[pack], first + number, self._tokens[number % len(self._tokens)])
            parts = tf.split(reduced, sizes[pack])
            means += [tf.reshape(part, each.shape) for part, each in zip(parts, backwards[pack], strict=True)]
        return means[::-1]

    def _reduced(self, pack: Sequence[tf.Tensor], key: int, token: tf.Variable) -> tf.Tensor:
        with tf.device(self._device):
            total = tf.raw_ops.CollectiveReduceV2(
                input=tf.concat([tf.reshape(each, [-1]) for each in pack], 0),
                group_size=self._count,
                group_key=_GROUP,
                instance_key=key,
                ordering_token=[token.handle],
                merge_op="Add",
                final_op="Id",
                communication_hint=self._ring,
            )
            return total / self._count


def packs_of(sizes: Sequence[int], least: int) -> list[slice]:
    """Neighbours together in packs of at least so many bytes, but for the last one, and at most MOST_PACKS + 1."""
    full = max(least, -(-sum(sizes) // MOST_PACKS))
    packs, begin, held = [], 0, 0
    for end, size in enumerate(sizes, 1):
        held += size
        if held >= full or end == len(sizes):
            packs.append(slice(begin, end))
            begin, held = end, 0
    return packs
