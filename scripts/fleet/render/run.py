"""Training run on a cluster: settings validated locally, the GPUs that it reserves, its identity."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.runs.config import PATHS, RunSettings, validate
from voxyard.settings import Loaded
from voxyard.trainer.config import TrainConfig

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_RENDERED = {  # settings that the rendered files decide
    "training.checkpoint_dir": "the run's directory on the cluster",
    "telemetry.run": "the run's name",
    "training.resume": "a run that starts again always continues from its checkpoint",
}


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """Validated training run; the same settings on the same image have the same `config` hash."""

    name: str
    settings: bytes  # YAML
    words: tuple[str, ...]  # flags of the trainer's command line
    loaded: Loaded[TrainConfig]
    gpus: int
    config: str  # 12 hex digits
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """Directories and files that the run reads, as the cluster sees them; the training corpus first."""
        config = self.loaded.config
        found = (config.data.train_data, config.data.val_data, config.training.init_from)
        return tuple(path for path in found if path is not None)

    def is_set(self, key: str) -> bool:
        """True where the settings file or a flag sets this setting."""
        return self.loaded.origins[key] != "default"


def read_run(
    settings: RunSettings, *, image: str, file: Path | None, name: str = "", gpus: int | None = None
) -> ClusterRun:
    """Validate a run for a cluster; `name` defaults to that of the settings `file`, `gpus` to what they imply.

    `image` is the image or program that trains. Raises FleetError.
    """
    shown = "the run's settings" if file is None else str(file)
    loaded = validate(settings, name=shown)
    _require_paths(loaded.config, shown)
    reserved = _gpus(loaded.config, gpus)
    content = [settings.file.decode(), settings.flags, image, reserved]
    config = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
    ignored = tuple(
        f"{key} ({loaded.origins[key]}) has no effect here: {instead}"
        for key, instead in _RENDERED.items()
        if loaded.origins[key] != "default"
    )
    return ClusterRun(
        name=run_name(name, file),
        settings=settings.file or b"{}\n",
        words=tuple(settings.words()),
        loaded=loaded,
        gpus=reserved,
        config=config,
        notes=(*loaded.notes, *ignored),
    )


def run_name(given: str, file: Path | None) -> str:
    """Name of a run: as given, else that of the settings file. Raises FleetError for one that no object may have."""
    if given and not _ID.fullmatch(given):
        raise FleetError(f"--run {given}: expected at most 48 lower-case letters, digits and -, without - at an end")
    return (
        given or re.sub(r"[^a-z0-9]+", "-", (file.stem if file else "run").lower()).strip("-")[:48].strip("-") or "run"
    )


def _require_paths(config: TrainConfig, shown: str) -> None:
    """Raises FleetError for a missing corpus, or a path that means another place on each machine."""
    if config.data.train_data is None:
        raise FleetError(f"{shown}: no corpus: set data.train_data to its directory as the cluster sees it")
    for key in PATHS:
        section, _, field = key.partition(".")
        path = getattr(getattr(config, section), field)
        if path is not None and not path.is_absolute():
            raise FleetError(f"{shown}: {key} is {path}: expected an absolute path, as the cluster sees it")


def _gpus(config: TrainConfig, asked: int | None) -> int:
    """Number of GPUs of the run. Raises FleetError where the settings and `asked` disagree."""
    training, data = config.training, config.data
    if training.device == "cpu":
        if asked:
            raise FleetError(f"--gpus {asked} has no effect with training.device cpu: leave one of them out")
        return 0
    ids = {str(each) for each in (data.data_gpu, data.model_gpu) if each is not None}
    if not asked and (training.auto or training.strategy in ("auto", "mirrored")):
        raise FleetError("the strategy takes as many GPUs as there are: say with --gpus how many the run reserves")
    count = asked or max(1, len(ids))
    if wrong := sorted(each for each in ids if not each.isdecimal() or int(each) >= count):
        raise FleetError(
            f"GPU {', '.join(wrong)} in the settings: a cluster numbers the {count} that a run reserves from 0: "
            f"expected data.data_gpu and data.model_gpu below {count}, or more with --gpus"
        )
    return count
