"""The most that each way of training can reach on a host, from the times of a step's stages. No TensorFlow."""

from __future__ import annotations

from voxyard.trainer.autotune.candidates import FEATURES
from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.bounds import MIRRORED, ON_DATA, ON_MODEL, SINGLE, SPLIT, StepStages

ON_ONE_DEVICE = (SINGLE, FEATURES)


def ceilings(stages: StepStages, rows: int, *, timed_by: str, devices: int, kind: Kind) -> dict[str, float]:
    """Clips a second that each way cannot exceed, by its name, from stages that took these times for `rows` clips.

    `timed_by` is the way whose trial timed them. A logical CPU device that is alone has the cores of all `devices`:
    what was timed on a part of them may be as many times as fast there. Where V was not timed apart, the second
    network may be placed so that both devices have the same to do.
    """
    on_all_cores = devices if kind == "cpu" and timed_by not in ON_ONE_DEVICE else 1
    train = stages.train + (stages.beside or 0.0)
    found = {name: bound / stages.in_turn for name, bound in stages.bounds(devices).items()}
    if stages.two_networks:
        if stages.beside is None:
            found[ON_DATA] = 2 / stages.in_turn
        found[SPLIT] = max(found[ON_DATA], found[ON_MODEL])  # of a model of the user's own, which has one placement
    found[SINGLE] = on_all_cores / max(stages.data, train)
    found[FEATURES] = on_all_cores / train
    found[MIRRORED] = devices / stages.in_turn
    return {name: rows * per_second for name, per_second in found.items()}
