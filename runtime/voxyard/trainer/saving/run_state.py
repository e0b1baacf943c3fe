"""Beginning of a run: from its newest checkpoint, another run's weights, or the state of the first host."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from voxyard.trainer import checkpoint
from voxyard.trainer.config import ModelConfig, TrainConfig, trained_config
from voxyard.trainer.corpora import Corpora
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.mel import EDGES
from voxyard.trainer.steps.average import has_average
from voxyard.trainer.text.front_end import reading_version
from voxyard.trainer.voice.vocoder_choice import EARLIER, updates_of

if TYPE_CHECKING:
    from voxyard.trainer.hosts.collectives import Hosts
    from voxyard.trainer.step import TrainStep

log = logging.getLogger("voxyard.trainer")

FRONT_END = ("text_units", "read_words", "sample_rate", "fft_size", "hop_length", "mels", "mel_low_hz", "mel_high_hz")
"""Settings of the model that give its weights their meaning: a resumed run keeps them."""

VOCODER = "model/vocoder/"  # in the names of its weights
_STEP, _BEST = "run/step", "run/best"  # beside the state that hosts share


class RunState:
    """State of a run in its checkpoints, and its beginning with one."""

    def __init__(self, config: TrainConfig, corpora: Corpora, rows: int) -> None:
        """`rows` is the number of clips in a batch of all hosts."""
        self._config, self._corpora, self._rows = config, corpora, rows
        self._vocoder_updates_before = 0

    def identity(self) -> dict[str, Any]:
        """Settings that a resumed run must share with the one before to be exactly its continuation."""
        training = self._config.training
        return {
            "corpus": self._corpora.training.fingerprint,
            "rows": self._rows,
            "seed": training.seed,
            "ema": training.ema,
            "discriminators_after": None if self._acoustic_alone else training.discriminators_after,
            "mel_edges": EDGES,
        }

    @property
    def _acoustic_alone(self) -> bool:
        return self._config.model.networks == "acoustic"

    def meta(self) -> dict[str, Any]:
        """Metadata of a checkpoint."""
        return {
            "config": self._config.model_dump(mode="json"),
            "speakers": list(self._corpora.speakers),
            "reading": reading_version(self._config.model),
            EARLIER: self._vocoder_updates_before,
            **self.identity(),
        }

    def restore(self, into: TrainStep) -> tuple[int, float]:
        """Gives a step the state of the run's checkpoints; the first step, and the best validation loss so far.

        Raises TrainerError or CheckpointError.
        """
        training = self._config.training
        if not training.resume:
            aside = checkpoint.set_aside(training.checkpoint_dir)
            if aside is not None:
                log.info("--no-resume: the earlier checkpoints are now in %s", aside)
        found = checkpoint.newest_good(training.checkpoint_dir) if training.resume else None
        if found is not None:
            self._refuse_other_front_end(found)
            self._refuse_other_size(found)
            into.restore(found.state)
            self._vocoder_updates_before = int(found.meta.get(EARLIER, 0))
            for name, mine in self.identity().items():
                if (was := found.meta.get(name)) != mine:
                    log.warning("The resumed run differs from the run before: %s was %s and is now %s", name, was, mine)
            log.info("Resuming from %s at step %d", found.path, found.step)
            best = found.meta.get("best")
            return found.step, math.inf if best is None else float(best)
        if training.init_from is not None:
            base = checkpoint.open_any(training.init_from)
            unfit = into.restore_weights(base.state)
            if not any(VOCODER in line for line in unfit):
                self._vocoder_updates_before = updates_of(base.state, base.meta)
            wrong = self._front_end_differences(base.meta) + unfit
            of = "averaged weights of step" if has_average(base.state) else "step"
            log.info("Fine-tuning from %s (%s %d); did not match: %d", base.path, of, base.step, len(wrong))
            for line in wrong:
                log.warning("  %s", line)
        return 0, math.inf

    def of_first(self, hosts: Hosts, into: TrainStep) -> tuple[int, float]:
        """Result of `restore`, and the state, of the first host, on every one."""
        step, best, state = 0, math.inf, {}
        if hosts.group.is_first:
            step, best = self.restore(into)
            state = into.state() | {_STEP: np.array(step, np.int64), _BEST: np.array(best, np.float64)}
        shared = hosts.from_first(state)
        step, best = int(shared.pop(_STEP)), float(shared.pop(_BEST))
        if not hosts.group.is_first:
            into.restore(shared)
            log.info("Starting at step %d with the state of %s", step, hosts.group.name(0))
        return step, best

    def _refuse_other_front_end(self, found: checkpoint.Checkpoint) -> None:
        """Raises TrainerError where a resumed run would give its weights another meaning."""
        mine = self._config.model
        was = trained_config(found.meta["config"]).model
        names = [*FRONT_END, *(["language"] if _needs_language(mine) and _needs_language(was) else [])]
        changed = [name for name in names if getattr(was, name) != getattr(mine, name)]
        if not changed:
            return
        differences = ", ".join(f"{name} was {getattr(was, name)} and is now {getattr(mine, name)}" for name in changed)
        flags = " ".join(_flag(name, getattr(was, name)) for name in changed)
        raise TrainerError(
            f"{found.path} cannot be resumed, its weights know another text or sound: {differences}; give {flags}, or "
            "start anew with --no-resume, or from its weights in another --checkpoint-dir with --init-from"
        )

    def _refuse_other_size(self, found: checkpoint.Checkpoint) -> None:
        """Raises TrainerError where our model, or its vocoder alone, is of another size."""
        mine, was = self._config.model, trained_config(found.meta["config"]).model
        if (was.networks, was.module) != (mine.networks, None):
            return  # the variables tell these
        sizes = [("model", "--model-size", was.size, mine.size)]
        if not self._acoustic_alone:
            sizes.append(("vocoder", "--vocoder-size", was.vocoder_row, mine.vocoder_row))
        for what, flag, theirs, asked in sizes:
            if theirs != asked:
                raise TrainerError(
                    f"{found.path} cannot be resumed, its {what} is {theirs} and not {asked}: give {flag} {theirs}, or "
                    "start anew with --no-resume, or from the weights that fit in another --checkpoint-dir with "
                    "--init-from"
                )

    def _front_end_differences(self, meta: Mapping[str, Any]) -> list[str]:
        """Settings and speakers that give weights another meaning than in their checkpoint, a line each."""
        was, model = trained_config(meta["config"]), self._config.model
        pairs = {
            f"model.{name}": (getattr(was.model, name), mine)
            for name, mine in model
            if name not in ("size", "vocoder_size", "module")  # the variables tell these
        }
        if was.model.read_words and model.read_words:
            pairs["reading of numbers"] = (meta.get("reading", 0), reading_version(model))
        pairs["data.pre_emphasis"] = (was.data.pre_emphasis, self._config.data.pre_emphasis)
        pairs["speakers"] = (list(meta["speakers"]), list(self._corpora.speakers))
        return [
            f"{name}: {theirs} in the checkpoint, {mine} here"
            for name, (theirs, mine) in pairs.items()
            if theirs != mine
        ]


def _needs_language(model: ModelConfig) -> bool:
    """True where tokens depend on the language."""
    return model.text_units == "phonemes" or bool(model.read_words)


def _flag(name: str, value: object) -> str:
    """The flag that gives a setting of the model this value."""
    flag = name.replace("_", "-")
    return f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {value}"
