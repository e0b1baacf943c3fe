"""Trial of the run that `voxyard train` would start, on a corpus of its own if need be, leaving no files behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from voxyard.corpus.demo import make_demo, sentences
from voxyard.diagnose.errors import DiagnoseError
from voxyard.trainer.config import TrainConfig

if TYPE_CHECKING:
    from voxyard.trainer.corpora import Corpora
    from voxyard.trainer.devices.tensorflow_setup import Devices
    from voxyard.trainer.loop import Run

FEWEST_CLIPS = 32


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for as long as the block runs. Raises DiagnoseError where none can be made."""
    try:
        directory = tempfile.TemporaryDirectory(prefix="voxyard-")
    except OSError as error:
        raise DiagnoseError(
            f"no temporary directory can be made: {error.strerror}; TMPDIR names another place", exit_code=1
        ) from error
    with directory as path:
        yield Path(path)


def with_corpus(config: TrainConfig, rows: int, directory: Path) -> TrainConfig:
    """`config` itself, or on a small corpus spoken by espeak-ng into `directory` where it names none.

    Raises DiagnoseError where a batch of `rows` clips is more than the generated corpus can have.
    """
    if config.data.train_data is not None:
        return config
    most = len(sentences())
    if rows > most:
        raise DiagnoseError(f"a step takes {rows} clips and the generated corpus has {most}: give --train-data DIR")
    made = make_demo(directory / "corpus", clips=min(most, max(FEWEST_CLIPS, 2 * rows)))
    update = {"train_data": made.path, "validation_share": 0.0}
    return config.model_copy(update={"data": config.data.model_copy(update=update)})


def rows_of(config: TrainConfig, devices: Devices) -> int:
    """Clips in a step, on all devices together."""
    replicas = len(devices.replicas) if devices.strategy == "mirrored" else 1
    return devices.batch_size * config.training.grad_accum * replicas


def rehearse(config: TrainConfig, devices: Devices, directory: Path, corpora: Corpora | None = None) -> Run:
    """The run on devices that are set up, with its model built; no checkpoint is read or written.

    `corpora` are those that `config` names, where they are open already.
    Raises TrainerError or CorpusError as the trainer does.
    """
    from voxyard.trainer.corpora import open_corpora
    from voxyard.trainer.loop import Run

    aside = {"checkpoint_dir": directory / "none", "resume": True, "init_from": None}
    config = config.model_copy(update={"training": config.training.model_copy(update=aside)})
    return Run(config, devices, open_corpora(config) if corpora is None else corpora)
