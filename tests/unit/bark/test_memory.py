"""Rows that fit on a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from voxyard import speech
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.model.memory import MIB, Footprint, activation_bytes, row_bytes
from voxyard.speech.config import SpeechSection

LARGE = Footprint(weights=0, activations=0, row=96 * MIB)


def test_a_row_of_the_large_model_takes_96_mib_in_bfloat16() -> None:
    assert row_bytes(24, 16, 1024, 1024, 2) == 96 * MIB
    assert row_bytes(24, 16, 1024, 1024, 2, in_8_bits=True) == 49.5 * MIB  # a number of 2 bytes for 64 of one


@pytest.mark.parametrize(("gib", "rows"), [(1, 9), (4, 38), (80, 128)])
def test_rows_are_what_is_free_less_a_tenth_and_at_most_128(gib: int, rows: int) -> None:
    assert LARGE.rows(gib * 1024 * MIB) == rows


def test_a_gpu_worker_with_the_large_model_has_room_by_default() -> None:
    rows, billion = 8, 1_100_000_000  # parameters, all four stages
    activations = activation_bytes(1024, 1024, 10_048, 2, rows=rows, check_every=BarkConfig().check_every)
    footprint = Footprint(2 * billion, activations, 2 * row_bytes(24, 16, 1024, 1024, 2))  # both stages keep theirs

    assert footprint.rows((SpeechSection().worker_memory_mib - 1024) * MIB) >= rows  # CUDA's context beside it


@pytest.mark.parametrize(("rows", "check_every"), [(1, 1), (8, 1), (1, 16), (8, 16)])
def test_activations_hold_the_noise_of_every_row_and_step_between_two_checks(rows: int, check_every: int) -> None:
    def activations(rows: int) -> int:
        return activation_bytes(1024, 1024, 10_048, 2, rows=rows, check_every=check_every)

    assert activations(8 + rows) - activations(8) == rows * check_every * 10_048 * 3 * 4  # float32, at three moments


@pytest.mark.parametrize(("rows", "windows"), [(1, 1), (4, 4), (8, 8), (128, 8)])
def test_activations_hold_the_windows_of_one_prefill_and_of_the_fine_stage(rows: int, windows: int) -> None:
    found = activation_bytes(1024, 1024, 0, 2, rows=rows, check_every=16)
    noise = 1024 * 1024 * 3 * 4  # of the codes of every frame, at three moments

    assert found == (windows + 1) * 1024 * 1024 * 11 * 2 + noise  # hidden, projections and MLP of every position


def test_the_guides_table_of_rows_is_the_footprint() -> None:
    """Budgets hold the rows, with CUDA's context and the reserve."""
    guide = (Path(speech.__file__).parent / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^  \| (\d+)(?:, [^|]+)? \| ([\d.]+) \| ([\d.]+) \|", guide, re.MULTILINE)
    assert [int(rows) for rows, _, _ in table] == [1, 8, 16, 32, 64, 128]
    for rows, taken, budget in ((int(rows), float(taken), float(budget)) for rows, taken, budget in table):
        activations = activation_bytes(1024, 1024, 10_048, 2, rows=rows, check_every=BarkConfig().check_every)
        found = Footprint(2_200_000_000, activations, 2 * row_bytes(24, 16, 1024, 1024, 2))
        assert (found.weights + found.activations + rows * found.row) / 2**30 == pytest.approx(taken, abs=0.05)
        assert found.holds(rows, int((budget - 1) * 2**30))
        assert not found.holds(rows, int((budget - 1.1) * 2**30))


def test_the_guides_budgets_of_a_cache_in_8_bits_are_the_footprint() -> None:
    guide = (Path(speech.__file__).parent / "README.md").read_text(encoding="utf-8")
    sixty_four, most = re.findall(r"64 rows in `--memory-budget ([\d.]+)`, 128 in ([\d.]+)", guide)[0]
    for rows, budget in ((64, float(sixty_four)), (128, float(most))):
        activations = activation_bytes(1024, 1024, 10_048, 2, rows=rows, check_every=BarkConfig().check_every)
        found = Footprint(2_200_000_000, activations, 2 * row_bytes(24, 16, 1024, 1024, 2, in_8_bits=True))
        assert found.holds(rows, int((budget - 1) * 2**30))
        assert not found.holds(rows, int((budget - 1.1) * 2**30))


def test_weights_and_activations_come_first() -> None:
    assert Footprint(weights=2048 * MIB, activations=512 * MIB, row=96 * MIB).rows(4096 * MIB) == 11


def test_rows_are_held_where_they_fit_with_a_tenth_left() -> None:
    footprint = Footprint(weights=2048 * MIB, activations=512 * MIB, row=96 * MIB)
    assert [footprint.holds(rows, 4096 * MIB) for rows in (1, 11, 12, 64)] == [True, True, False, False]
    assert not footprint.holds(1, 2900 * MIB)


def test_no_room_for_one_row_says_how_much_is_needed() -> None:
    with pytest.raises(BarkError, match="50 MiB are free on the device, Bark needs 107 MiB for one row"):
        LARGE.rows(50 * MIB)
