"""Noise that belongs to a chunk and a step."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import numpy as np
import torch

from voxyard.bark.model.noise import Stage, gumbel, key


def noise_of(named: list[tuple[int, int]], steps: list[list[int]], width: int) -> Any:
    return gumbel(torch.tensor(named, dtype=torch.int32), torch.tensor(steps, dtype=torch.int32), width)


def mixed(number: Any) -> Any:
    """The hash as it is written down, on unsigned numbers."""
    number = (number ^ (number >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    number = (number ^ (number >> np.uint32(15))) * np.uint32(0x735A2D97)
    return number ^ (number >> np.uint32(15))


def test_the_noise_is_the_hash_of_key_step_and_place() -> None:
    named = key(7, 3, 0, "coarse")
    halves = np.array(named, dtype=np.int32).view(np.uint32)
    places = mixed(np.arange(50, dtype=np.uint32) + halves[:1])
    bits = mixed(places ^ mixed(np.uint32(11) ^ halves[1:])) >> np.uint32(9)

    expected = -np.log(-np.log((bits + 0.5) / 2**23))

    np.testing.assert_allclose(noise_of([named], [[11]], 50)[0, 0].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_rows_noise_is_the_same_among_other_rows_and_steps() -> None:
    mine, other = key(1, 2, 0, "semantic"), key(1, 3, 0, "semantic")

    alone = noise_of([mine], [[5]], 1000)
    among = noise_of([other, mine, other], [[0, 1], [4, 5], [9, 9]], 1000)

    assert torch.equal(alone[0, 0], among[1, 1])


def test_a_narrower_noise_is_the_beginning_of_a_wider_one() -> None:
    named = [key(1, 2, 0, "semantic")]

    assert torch.equal(noise_of(named, [[5]], 10)[..., :10], noise_of(named, [[5]], 100)[..., :10])


def test_every_number_of_a_chunk_makes_other_noise() -> None:
    names = [key(*numbers) for numbers in product((0, 1), (0, 1), (0, 1), get_args(Stage))]

    heard = noise_of(names, [[0]] * len(names), 8)[0]

    assert len({tuple(row.tolist()) for row in heard}) == len(names)


def test_millions_of_values_are_finite_and_distributed_as_gumbel() -> None:
    values = noise_of([key(0, 0, 0, "fine")], [list(range(1000))], 10_001)

    assert bool(values.isfinite().all())
    assert abs(values.mean().item() - 0.57722) < 0.002  # Euler's constant
    assert abs(values.std().item() - np.pi / 6**0.5) < 0.002
    for below in (-1.0, 0.0, 2.0, 5.0):
        assert abs((values < below).float().mean().item() - np.exp(-np.exp(-below))) < 0.001


def test_neighbouring_steps_and_places_do_not_follow_each_other() -> None:
    values = noise_of([key(0, 0, 0, "fine")], [list(range(400))], 400)[:, 0]

    for one, other in ((values[:-1], values[1:]), (values[:, :-1], values[:, 1:])):
        together = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]
        assert abs(together.item()) < 0.01
