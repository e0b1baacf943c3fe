"""Vocoder that speaks: Griffin-Lim, or a model's own where that was trained for long enough. No TensorFlow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from voxyard.trainer.errors import TrainerError

log = logging.getLogger("voxyard.trainer")

AUTO: Final = "auto"
NEURAL: Final = "neural"
GRIFFIN_LIM: Final = "griffin-lim"

ENOUGH = 15_000
"""Updates of a vocoder from which it is ahead of Griffin-Lim on recordings' mels: tests/bench/README.md#speech."""

EARLIER: Final = "vocoder_updates_before"
"""In the metadata of a checkpoint: updates of the vocoder in the runs whose weights this one began with."""

_UPDATES = "optimizer/vocoder/"


def updates_of(state: Mapping[str, Any], meta: Mapping[str, Any]) -> int:
    """Updates of the vocoder in the state and metadata of a checkpoint; 0 where it has none."""
    counts = [value for name, value in state.items() if name.startswith(_UPDATES) and name.endswith("_iteration")]
    return max(map(int, counts), default=0) + int(meta.get(EARLIER, 0))


def chosen_vocoder(asked: str, state: Mapping[str, Any], meta: Mapping[str, Any], path: Path, *, has_own: bool) -> str:
    """`griffin-lim` or `neural`, for the checkpoint `path` of a model that has a vocoder of its own or not.

    `auto` is the model's own from ENOUGH updates on, which is logged. Raises TrainerError where a vocoder is asked for
    that the model does not have.
    """
    if asked == NEURAL and not has_own:
        raise TrainerError(
            f"--vocoder {asked}: the model in {path} has no vocoder of its own; leave --vocoder out, or train one with "
            "--networks acoustic,vocoder"
        )
    if asked != AUTO:
        return asked
    if not has_own:
        return GRIFFIN_LIM
    updates = updates_of(state, meta)
    if updates < ENOUGH:
        log.info(
            "Griffin-Lim speaks: the model's own vocoder had %d updates, and was found better from %d on; --vocoder "
            "neural takes it",
            updates,
            ENOUGH,
        )
        return GRIFFIN_LIM
    log.info("The model's own vocoder speaks, after %d updates; --vocoder griffin-lim leaves it out", updates)
    return NEURAL
