"""Mean losses of a validation: each clip counts once, whatever a batch is filled up with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from voxyard.corpus.examples import Example
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.validation import HeldOutValidation

HOP = 256


class Clips:
    """Five clips; the sound of each is its number."""

    sample_rate, speakers, feature_names, fingerprint = 22050, ("",), (), "clips"
    ids = tuple(f"clip-{number}" for number in range(5))
    samples = np.full(5, 10 * HOP)
    token_lengths = np.full(5, 5)

    def __len__(self) -> int:
        return 5

    def read(self, i: int) -> Example:
        return Example(np.full(10 * HOP, i, np.int16), np.full(5, 1, np.int32), 0)

    def extents(self, i: int) -> tuple[()]:
        return ()


class Step:
    """Gives the number of each clip as its loss."""

    def evaluate(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return {"total": np.asarray(arrays["pcm"])[:, 0].astype(np.float64)}


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_every_clip_counts_once(rows: int) -> None:
    held_out: Any = HeldOutValidation(Clips(), (Bucket(32, 8),), rows=rows, hop_length=HOP, max_bad_share=0.0)
    assert held_out.run(Step()) == {"total": pytest.approx(2.0)}
