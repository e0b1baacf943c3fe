"""Mean losses of a validation: each clip counts once, whatever a batch is filled up with."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from voxyard.corpus.examples import Example
from voxyard.trainer import TrainConfig, TrainingConfig
from voxyard.trainer.judging.run_validation import RunValidation
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


@dataclass
class Step:
    """Gives the number of each clip as its loss; on several replicas batches of one layout at once."""

    replicas: int = 1
    at_once: list[int] = field(default_factory=list)

    def evaluate_each(self, batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.at_once.append(len(batches))
        return [{"total": np.asarray(arrays["pcm"])[:, 0].astype(np.float64)} for arrays in batches]


@dataclass
class OneOf:
    """A host of `count` whose collective leaves what it was given."""

    index: int
    count: int
    group = property(lambda self: self)

    def merged(self, arrays: Any) -> Any:
        return arrays


def validation(rows: int, hosts: Any = None) -> Any:
    return HeldOutValidation(Clips(), (Bucket(32, 8),), rows=rows, hop_length=HOP, max_bad_share=0.0, hosts=hosts)


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_every_clip_counts_once(rows: int, replicas: int) -> None:
    step = Step(replicas)
    assert validation(rows).run(step) == {"total": 2.0}
    assert max(step.at_once) <= replicas
    assert sum(step.at_once) == -(-5 // rows)


@pytest.mark.parametrize(("rows", "count"), [(1, 2), (2, 2), (2, 3), (4, 3), (8, 3)])
def test_hosts_share_the_batches(rows: int, count: int) -> None:
    """The last ones have none to count where there are fewer batches than hosts, and know the losses' names."""
    steps = [Step() for _ in range(count)]
    found = [validation(rows, OneOf(index, count)).run(step) for index, step in enumerate(steps)]
    assert sum(each["total"] for each in found) == pytest.approx(2.0)
    assert sum(sum(step.at_once) for step in steps) == max(-(-5 // rows), count)


def test_over_hosts_statistics_are_the_first_hosts() -> None:
    """What BatchNormalization keeps is another one on each host, and a validation has one result."""

    class Second(OneOf):
        def from_first(self, state: dict[str, Any]) -> dict[str, Any]:
            return {name: np.full_like(value, 7) for name, value in state.items()}

    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)])
    step: Any = SimpleNamespace(model=model, replicas=1, averaged=nullcontext, evaluate_each=Step().evaluate_each)
    metrics: Any = SimpleNamespace(
        during=lambda _: nullcontext(), progress=lambda: None, input=SimpleNamespace(reading_held_out=nullcontext)
    )
    config = TrainConfig(training=TrainingConfig(checkpoint_dir=Path("unused")))
    clips: Any = Clips()
    hosts: Any = Second(1, 2)
    validating = RunValidation(config, step, clips, metrics, hosts)
    validating.open((Bucket(32, 8),), 2)
    observer: Any = SimpleNamespace(validation=lambda *_: None)
    validating.run(1, observer)
    assert [value.numpy().tolist() for value in model.non_trainable_weights] == [[7.0] * 3] * 2
