"""The self-test of a GPU: a card that holds its memory and computes right passes, others do not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.validate import self_test
from voxyard.diagnose.validate.self_test import Card, check_card


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SIZE", 64), ("PRODUCTS", 3), ("BLOCK_MIB", 1)):
        monkeypatch.setattr(self_test, name, value)


def card(*, off: float = 0.0, stuck: int = 0) -> Card:
    """A card whose products are off in one sum, and whose memory has stuck bits."""

    def multiply(one: Any, other: Any) -> Callable[[], Any]:
        wrong = np.zeros((len(one), len(one)), np.float32)
        wrong[3, 4] = off
        return lambda: one @ other + wrong

    def fill(words: int, pattern: int) -> Callable[[], bool]:
        block = np.full(words, pattern, np.int32)
        block[-1] |= stuck
        return lambda: bool((block == pattern).all())

    return Card(multiply, fill)


def test_a_good_card_passes_with_what_was_tested() -> None:
    assert check_card(card(), 3) == "3 MiB of memory hold what was written, 3 products are exact"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (card(off=1.0), "product 1 of 3 has 1 wrong sums"),
        (card(stuck=1 << 1), "2 of 2 blocks of memory do not hold"),
        (card(stuck=1 << 2), "2 of 2 blocks of memory do not hold"),
    ],
    ids=["sum", "odd bit", "even bit"],
)
def test_a_bad_card_is_told(bad: Card, said: str) -> None:
    with pytest.raises(DiagnoseError, match=said):
        check_card(bad, 2)


PROGRAM = """
from voxyard.diagnose.validate import self_test
self_test.SIZE, self_test.PRODUCTS, self_test.BLOCK_MIB = 64, 2, 1
print(self_test.check_card(self_test.{library}_card({device!r}), 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("library", "device"), [("torch", "cpu"), ("tensorflow", "/CPU:0")])
def test_the_libraries_do_it_on_a_processor(library: str, device: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = PROGRAM.format(library=library, device=device)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=280)
    assert ended.stdout == "2 MiB of memory hold what was written, 2 products are exact\n", ended.stderr[-2000:]
