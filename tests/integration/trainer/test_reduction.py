"""Mean over hosts in packs: what is together, what waits for what, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from voxyard.trainer.hosts.collectives import LEAST, MOST_PACKS, PackedMean, packs_of

COUNTS = [LEAST // 4 + 3, 5, LEAST // 4 + 1, 1]  # of float32 numbers: two packs, from the end


@pytest.mark.parametrize(
    ("sizes", "least", "lengths"),
    [
        ([3, 3, 3], 1, [1, 1, 1]),
        ([3, 3, 3], 4, [2, 1]),
        ([9, 1, 1, 1], 3, [1, 3]),
        ([1, 1], 100, [2]),
        ([], 1, []),
        ([1] * 1000, 1, [32] * 31 + [8]),
    ],
)
def test_neighbours_are_packed_together_each_once(sizes: list[int], least: int, lengths: list[int]) -> None:
    packs = packs_of(sizes, least)
    assert [len(sizes[pack]) for pack in packs] == lengths
    assert [size for pack in packs for size in sizes[pack]] == sizes
    assert len(packs) <= MOST_PACKS + 1


def waits_for(operation: tf.Operation) -> set[tf.Operation]:
    """All operations that must have run before this one."""
    found: set[tf.Operation] = set()
    wanted = [operation]
    while wanted:
        one = wanted.pop()
        before = {*one.control_inputs, *(each.op for each in one.inputs)}
        wanted += before - found
        found |= before
    return found


@pytest.mark.parametrize("ordered", [False, True])
def test_a_pack_waits_for_its_own_tensors_only_unless_they_go_in_order(ordered: bool) -> None:
    """The packs of the last tensors are under way while the first, which backpropagation makes last, are computed."""
    mean = PackedMean(2, gpu=False, ordered=ordered)
    arguments = [tf.TensorSpec([count], tf.float32) for count in COUNTS]
    graph = tf.function(lambda *parts: mean(parts), autograph=False).get_concrete_function(*arguments).graph
    packs = [each for each in graph.get_operations() if each.type == "CollectiveReduceV2"]
    places = {each.op: place for place, each in enumerate(graph.inputs[: len(COUNTS)])}
    needed = [sorted(places[each] for each in waits_for(pack) if each in places) for pack in packs]
    assert needed == ([[2, 3], [0, 1, 2, 3]] if ordered else [[2, 3], [0, 1]])


def test_the_mean_has_the_order_shapes_and_numbers_of_its_tensors() -> None:
    mean = PackedMean(1, gpu=False, ordered=False)
    numbers = np.random.default_rng(1)
    arrays = [numbers.normal(size=shape).astype(np.float32) for shape in ((LEAST // 8, 2), (3,), (), (LEAST // 4,))]
    means = tf.function(lambda *parts: mean(parts), autograph=False)(*map(tf.constant, arrays))
    for one, array in zip(means, arrays, strict=True):
        np.testing.assert_array_equal(one.numpy(), array)


def test_calls_of_the_same_sizes_share_their_keys_and_no_others_do() -> None:
    """TensorFlow keeps a record of each key, and matches the packs of the hosts by it."""
    mean = PackedMean(2, gpu=False, ordered=False)

    def keys(*counts: int) -> list[int]:
        arguments = [tf.TensorSpec([count], tf.float32) for count in counts]
        graph = tf.function(lambda *parts: mean(parts), autograph=False).get_concrete_function(*arguments).graph
        packs = [each for each in graph.get_operations() if each.type == "CollectiveReduceV2"]
        return [int(tf.get_static_value(pack.inputs[3])) for pack in packs]

    first, other = keys(*COUNTS), keys(7)
    assert len({*first, *other}) == len(first) + len(other)
    assert keys(*COUNTS) == first
