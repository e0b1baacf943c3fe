"""The settings of a run, judged here by the trainer's own models before anything is sent; no TensorFlow."""

from __future__ import annotations

import difflib
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from voxyard.settings import Loaded, Setting, SettingsError, load, settings_of
from voxyard.trainer.aliases import ALIASES
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.host_plan import PLAN, apply_host_plan
from voxyard.trainer.devices.placement import refuse_settings_without_effect
from voxyard.trainer.errors import TrainerError

_SETTINGS: Mapping[str, Setting] = {each.key: each for each in settings_of(TrainConfig)}
_DEPLOYED = {  # what a run on a host has from its compose file
    "training.checkpoint_dir": "the run's directory on the host",
    "telemetry.run": "the run's id",
    "telemetry.metrics_host": "trainer.metrics_port of the inventory, on the exporter's address",
    "telemetry.metrics_port": "trainer.metrics_port of the inventory, on the exporter's address",
    "training.resume": "a new run, or the one that --resume names",
}
_PATHS = ("data.train_data", "data.val_data", "data.cache_file", "training.init_from")
_SHARDS_FOLLOW = ("sample_rate", "text_units", "language", "hop_length")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run: the file and the flags as the operator gave them."""

    file: bytes = b""  # YAML
    flags: tuple[tuple[str, str], ...] = ()  # canonical key, value as typed

    def words(self) -> list[str]:
        """The flags as the trainer's command line has them."""
        words: list[str] = []
        for key, value in self.flags:
            setting = _SETTINGS[key]
            if setting.is_switch:
                words.append(setting.flag if value in ("true", "True", "1", "yes", "on") else setting.off_flag)
            else:
                words.append(f"{setting.flag}={value}")
        return words


def flags_of(assignments: Sequence[str], named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The flags out of `--set key=value` and of those that have an option of their own (by key, empty: not given).

    Raises FleetError for a key that is no setting.
    """
    found = {key: value for key, value in named.items() if value}
    for text in assignments:
        key, sign, value = text.partition("=")
        if not sign or key not in _SETTINGS:
            near = difflib.get_close_matches(key, _SETTINGS, 1)
            advice = f": is {near[0]} meant?" if near else ", such as training.max_steps=1000"
            raise FleetError(f"--set {text}: expected section.key=value with a setting of `voxyard train`{advice}")
        if instead := _DEPLOYED.get(key):
            raise FleetError(f"--set {text}: on a host this is {instead}")
        if key in _PATHS:
            raise FleetError(f"--set {text}: give a path in the configuration file, or the corpus with --corpus")
        found[key] = value
    return tuple(sorted(found.items()))


def read_file(path: Path | None) -> bytes:
    """The configuration file. Raises FleetError."""
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None


def validate(settings: RunSettings, *, name: str = "the run's settings", plan: bytes = b"") -> Loaded[TrainConfig]:
    """The settings as the trainer will find them on a host with this plan; `name` stands for the file in messages.

    Raises FleetError with every mistake, each with its line or flag.
    """
    with tempfile.TemporaryDirectory(prefix="voxyard-settings-") as folder:
        file, host_plan = Path(folder, "train.yaml"), Path(folder, "plan.yaml")
        file.write_bytes(settings.file)
        host_plan.write_bytes(plan)
        shown = {str(file): name, str(host_plan): "plan.yaml of the host"}
        try:
            loaded = load(
                TrainConfig,
                flags=dict(settings.flags),
                file=file,
                environ={},  # the operator's own is none of the host's
                host_plan=host_plan if plan else None,
                aliases=ALIASES,
            )
        except SettingsError as error:
            raise FleetError("\n".join(_shown(problem, shown) for problem in error.problems)) from None
    fitted = apply_host_plan(
        Loaded(
            loaded.config,
            {key: _shown(origin, shown) for key, origin in loaded.origins.items()},
            tuple(_shown(note, shown) for note in loaded.notes),
        )
    )
    _refuse_what_the_trainer_refuses(fitted.config, name)
    return fitted


def ignored_settings(loaded: Loaded[TrainConfig]) -> tuple[str, ...]:
    """A line for each setting that the operator gave and that a run on a host does not take from there."""
    return tuple(
        f"{key} ({loaded.origins[key]}) has no effect on a host: it is {instead}"
        for key, instead in _DEPLOYED.items()
        if loaded.origins[key] != "default" and not loaded.origins[key].startswith(PLAN)
    )


def folders_of(config: TrainConfig, corpus: Path | None) -> dict[str, Path]:
    """The directories here that a run reads, by role: train, validation, init. Raises FleetError without a corpus.

    `corpus` comes before the settings'; theirs are meant from where one stands, as `voxyard train` means them.
    """
    found = {"train": corpus or config.data.train_data}
    found |= {"validation": config.data.val_data, "init": config.training.init_from}
    if found["train"] is None:
        raise FleetError("no corpus: give --corpus DIR, or data.train_data in the configuration file")
    return {role: path.absolute() for role, path in found.items() if path is not None}


def shards_key(config: TrainConfig) -> str:
    """Eight hex digits over all that shards of recordings depend on."""
    values = {name: getattr(config.model, name) for name in _SHARDS_FOLLOW}
    values |= {name: getattr(config.data, name) for name in ("max_bad_share", "max_dropped_text")}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _refuse_what_the_trainer_refuses(config: TrainConfig, name: str) -> None:
    if config.training.auto or config.training.strategy in ("auto", "multiworker"):
        return  # what becomes of these is decided on the host
    try:
        refuse_settings_without_effect(config)
    except TrainerError as error:
        raise FleetError(f"{name}: {error}") from None


def _shown(text: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text
