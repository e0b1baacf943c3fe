"""Settings of a run, validated locally by the trainer's models before anything is sent; no TensorFlow."""

from __future__ import annotations

import difflib
import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from voxyard.settings import Loaded, Setting, SettingsError, load, settings_of
from voxyard.trainer.config import ALIASES, TrainConfig
from voxyard.trainer.devices.host_plan import PLAN, apply_host_plan
from voxyard.trainer.devices.placement import refuse_settings_without_effect
from voxyard.trainer.errors import TrainerError

_SETTINGS: Mapping[str, Setting] = {each.key: each for each in settings_of(TrainConfig)}
_DEPLOYED = {  # set by the compose file on a host
    "training.checkpoint_dir": "the run's directory on the host",
    "telemetry.run": "the run's id",
    "telemetry.metrics_host": "trainer.metrics_port of the inventory, on the exporter's address",
    "telemetry.metrics_port": "trainer.metrics_port of the inventory, on the exporter's address",
    "telemetry.metrics_web_config": "add host-certificate to the secrets file; deploy/README.md says how",
    "training.resume": "false for a new run, true with --resume",
}
HOST_SETTINGS = ("training.hosts", "training.host_index")
PATHS = ("data.train_data", "data.val_data", "data.cache_file", "training.init_from")
_SHARDS_FOLLOW = ("sample_rate", "text_units", "language", "read_words", "hop_length")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run: settings file and flags."""

    file: bytes = b""  # YAML
    flags: tuple[tuple[str, str], ...] = ()  # canonical key, value as given

    def with_flags(self, flags: Iterable[tuple[str, str]]) -> RunSettings:
        """These settings with further flags, which replace those of the same keys."""
        return RunSettings(self.file, tuple(sorted({**dict(self.flags), **dict(flags)}.items())))

    def words(self) -> list[str]:
        """Flags of the trainer's command line."""
        words: list[str] = []
        for key, value in self.flags:
            setting = _SETTINGS[key]
            if setting.is_switch:
                words.append(setting.flag if value in ("true", "True", "1", "yes", "on") else setting.off_flag)
            else:
                words.append(f"{setting.flag}={value}")
        return words


def flags_of(assignments: Sequence[str], named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Flags from `--set key=value` options and from dedicated options (by key, empty: not given).

    Raises FleetError for an unknown key.
    """
    found = {key: value for key, value in named.items() if value}
    for text in assignments:
        key, sign, value = text.partition("=")
        if not sign or key not in _SETTINGS:
            near = difflib.get_close_matches(key, _SETTINGS, 1)
            advice = f": is {near[0]} meant?" if near else ", such as training.max_steps=1000"
            raise FleetError(f"--set {text}: expected section.key=value with a setting of `voxyard train`{advice}")
        if instead := _DEPLOYED.get(key) or ("--hosts of fab train" if key in HOST_SETTINGS else None):
            raise FleetError(f"--set {text}: set by the deployment: {instead}")
        if key in PATHS:
            raise FleetError(f"--set {text}: name paths in the settings file, or the corpus with --corpus")
        found[key] = value
    return tuple(sorted(found.items()))


def read_file(path: Path | None) -> bytes:
    """Content of the settings file. Raises FleetError."""
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None


def validate(settings: RunSettings, *, name: str = "the run's settings", plan: bytes = b"") -> Loaded[TrainConfig]:
    """Validate the settings as the trainer does on a host with this plan; `name` is the file in messages.

    Raises FleetError with all errors, by line or flag.
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
                environ={},  # the operator's environment does not apply
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
    _check_with_trainer(fitted.config, name)
    return fitted


def ignored_settings(loaded: Loaded[TrainConfig]) -> tuple[str, ...]:
    """Warnings for given settings that the deployment overrides."""
    return tuple(
        f"{key} ({loaded.origins[key]}) has no effect on a host: set by the deployment: {instead}"
        for key, instead in _DEPLOYED.items()
        if loaded.origins[key] != "default" and not loaded.origins[key].startswith(PLAN)
    )


def folders_of(config: TrainConfig, corpus: Path | None) -> dict[str, Path]:
    """Local directories that a run reads, by role: train, validation, init. Raises FleetError without a corpus.

    `corpus` overrides the settings; their paths are relative to the working directory, as for `voxyard train`.
    """
    found = {"train": corpus or config.data.train_data}
    found |= {"validation": config.data.val_data, "init": config.training.init_from}
    if found["train"] is None:
        raise FleetError("no corpus: give --corpus DIR, or data.train_data in the settings file")
    return {role: path.absolute() for role, path in found.items() if path is not None}


def shards_key(config: TrainConfig) -> str:
    """Hash (8 hex digits) of the settings that shards depend on."""
    values = {name: getattr(config.model, name) for name in _SHARDS_FOLLOW}
    values |= {name: getattr(config.data, name) for name in ("max_bad_share", "max_dropped_text")}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _check_with_trainer(config: TrainConfig, name: str) -> None:
    if config.training.auto or config.training.strategy in ("auto", "multiworker"):
        return  # decided on the host
    try:
        refuse_settings_without_effect(config)
    except TrainerError as error:
        raise FleetError(f"{name}: {error}") from None


def _shown(text: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text
