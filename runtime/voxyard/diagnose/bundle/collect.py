"""Diagnose: everything about a slow training in one archive, with secrets removed, each part or why it is missing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from voxyard import __version__
from voxyard.diagnose.bundle.archive import Archive, Contents, Part, PartError, whole_file
from voxyard.diagnose.bundle.redact import Redactor
from voxyard.diagnose.bundle.subprocess_run import ended_by_sigterm, voxyard
from voxyard.diagnose.bundle.summary import page
from voxyard.diagnose.dry_run import FEWEST_CLIPS, scratch
from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import NO_GPU
from voxyard.diagnose.host_facts import driver_version, system
from voxyard.host.nvml import every_gpu
from voxyard.host.topology import MATRIX_COMMAND, P2P_COMMAND, nvidia_smi, parse
from voxyard.trainer.config import TrainConfig

FEWEST_STEPS = 5
PART_SECONDS = 1800.0
SMI_SECONDS = 60
VARIABLES = (
    "VOXYARD_", "CUDA", "NVIDIA", "TF_", "XLA_", "KERAS_", "NCCL_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "MALLOC_",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHON", "VIRTUAL_ENV", "CONDA", "LANG", "LC_", "TMPDIR", "SLURM_",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
)  # fmt: skip
"""Prefixes of the variables that can make a training slow or wrong."""

_NOT_REPEATED = {
    "training": ("checkpoint_dir", "resume", "init_from", "epochs", "max_steps", "max_minutes", "checkpoint_every"),
    "telemetry": ("run", "metrics_port", "metrics_host", "tensorboard", "sample_text"),
}
"""Settings of the user's run that the measured ones do without: they shall neither touch its files nor its port."""


@dataclass(frozen=True)
class Bundle:
    """The archive that was written."""

    path: Path
    size: int
    parts: tuple[Part, ...]
    verdict: str

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        parts = [part.document() for part in self.parts]
        return {"archive": str(self.path), "bytes": self.size, "verdict": self.verdict, "parts": parts}

    def text(self) -> str:
        """Report of the written archive, for a terminal."""
        parts = [
            f"  {part.name}: {', '.join(part.files)}" if part.missing is None else f"  {part.name}: {part.missing}"
            for part in self.parts
        ]
        head = f"{self.path}: {self.size / 2**20:.2f} MiB, secrets removed"
        return "\n".join([head, *parts, f"verdict: {self.verdict}"])


@dataclass(frozen=True)
class BundleRequest:
    """Parts to collect, and the settings for it."""

    config: TrainConfig
    origins: Mapping[str, str]
    file: Path | None
    steps: int = 100
    seconds: float = PART_SECONDS  # for each part
    arguments: tuple[str, ...] = ()  # the command line


Collectors = Sequence[tuple[str, Callable[[], Contents]]]


def diagnose(wanted: BundleRequest, out: Path, *, progress: Callable[[str], None] = lambda _: None) -> Bundle:
    """Collects everything into the archive `out`. Profile and training run in processes of their own.

    Ctrl-C and SIGTERM end what is running and leave no archive. Raises DiagnoseError where `out` cannot be written.
    """
    if wanted.steps < FEWEST_STEPS:
        raise DiagnoseError(f"--steps {wanted.steps}: expected {FEWEST_STEPS} or more; 100 is the default")
    with ended_by_sigterm(), whole_file(out) as write, scratch() as directory:
        archive = Archive(redactor_for(wanted))
        return bundle(
            archive, collectors(wanted, directory), out, write, progress, corpus=wanted.config.data.train_data
        )


def bundle(
    archive: Archive,
    parts: Collectors,
    out: Path,
    write: Callable[[Mapping[str, bytes]], int],
    progress: Callable[[str], None] = lambda _: None,
    *,
    corpus: Path | None = None,
) -> Bundle:
    """Collects the parts, adds summary and manifest, and writes."""
    for name, part in parts:
        progress(name)
        archive.collect(name, part)
    verdict = _verdict(archive)
    head = {
        "voxyard": __version__,
        "host": socket.gethostname(),
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "corpus": f"measured on {corpus or 'a small corpus that was generated for it'}",
    }
    archive.add("summary.html", page(verdict, archive.redactor.data(head), archive.documents, archive.parts))
    archive.add("manifest.json", archive.manifest(**head, verdict=verdict))
    first = {name: archive.files[name] for name in ("summary.html", "manifest.json")}
    return Bundle(out, write(first | archive.files), tuple(archive.parts), verdict)


def redactor_for(wanted: BundleRequest) -> Redactor:
    """A redactor that knows the secrets of the environment and of the configuration."""
    redactor = Redactor()
    redactor.learn_from(dict(os.environ))
    redactor.learn_from(wanted.config.model_dump(mode="json"))
    if wanted.file is not None:
        with contextlib.suppress(PartError):  # what cannot be read here does not go into the archive either
            redactor.learn_from(_parsed(wanted.file))
    return redactor


def collectors(wanted: BundleRequest, directory: Path) -> Collectors:
    """The parts in the order in which they are collected."""
    measuring = MeasuredParts(wanted, directory)
    return (
        ("system", lambda: {"system.json": system((Path.cwd(), Path("/"), *_paths(wanted.config)))}),
        ("GPUs", _gpus),
        ("nvidia-smi", _nvidia_smi),
        ("topology", _topology),
        ("configuration", lambda: _configuration(wanted)),
        ("packages", lambda: {"packages.txt": packages()}),
        ("environment", lambda: _environment(wanted)),
        ("profile", measuring.profile),
        (f"{wanted.steps} training steps", measuring.training),
    )


# -- what there is ------------------------------------------------------------------------------------------------


def packages() -> str:
    """Names and versions of the installed Python packages, a line each."""
    found = {f"{each.metadata['Name']}=={each.version}" for each in distributions()}
    return "\n".join([f"Python {sys.version.split()[0]}", *sorted(found, key=str.lower)]) + "\n"


def _gpus() -> Contents:
    found = every_gpu()
    if not found:
        raise PartError(NO_GPU)
    return {"gpus.json": {"driver": driver_version(), "gpus": [dataclasses.asdict(gpu) for gpu in found]}}


def _nvidia_smi() -> Contents:
    files: dict[str, str] = {}
    for name, command in (("nvidia-smi.txt", ["nvidia-smi"]), ("nvidia-smi-q.txt", ["nvidia-smi", "-q"])):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SMI_SECONDS, check=False
            )
        except FileNotFoundError:
            raise PartError(f"{NO_GPU} (nvidia-smi is not on this machine)") from None
        except subprocess.TimeoutExpired:
            raise PartError(f"{' '.join(command)} did not answer within {SMI_SECONDS} s", files) from None
        files[name] = done.stdout + done.stderr
        if done.returncode:
            raise PartError(f"{' '.join(command)} ended with code {done.returncode}", files)
    return files


def _topology() -> Contents:
    if not every_gpu():
        raise PartError(NO_GPU)
    text = nvidia_smi(MATRIX_COMMAND)
    files: dict[str, Any] = {"topology.txt": text}
    found = parse(text)
    files["topology.json"] = {"gpus": found.gpus, "links": {name: dict(found.links[name]) for name in found.gpus}}
    if len(found.gpus) > 1:
        files["p2p.txt"] = nvidia_smi(P2P_COMMAND)
    return files


def _configuration(wanted: BundleRequest) -> Contents:
    values = wanted.config.model_dump(mode="json")
    given = {key: origin for key, origin in wanted.origins.items() if origin != "default"}
    files: dict[str, Any] = {"configuration.json": {"in force": values, "where from": given}}
    if wanted.file is None:
        return files
    try:
        # Read and written anew: a comment may hold a secret, and no comment passes this way.
        return {**files, "configuration-file.json": _parsed(wanted.file)}
    except PartError as error:
        raise PartError(str(error), files) from None


def _parsed(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PartError(f"{file} cannot be read as YAML: {type(error).__name__}") from None


def _environment(wanted: BundleRequest) -> Contents:
    chosen = {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}
    arguments = Redactor().arguments(wanted.arguments)
    return {"environment.json": {"variables": chosen, "command": arguments, "directory": str(Path.cwd())}}


def _paths(config: TrainConfig) -> list[Path]:
    data = config.data
    return [path for path in (data.train_data, data.cache_file, config.training.checkpoint_dir) if path is not None]


# -- what is measured ---------------------------------------------------------------------------------------------


class MeasuredParts:
    """The profile and the training steps, each by the command that a user would type, in a process of its own."""

    def __init__(self, wanted: BundleRequest, directory: Path) -> None:
        self._wanted, self._directory = wanted, directory
        self._corpus: Path | None = None

    def profile(self) -> Contents:
        """`voxyard profile`."""
        folder = self._folder("profile")
        html = folder / "profile.html"
        words = ["profile", "--json", "--num-steps", str(self._wanted.steps), "--html", str(html)]
        files = self._run("profile", words, folder)
        if html.exists():
            files["profile.html"] = html.read_text(encoding="utf-8")
        return files

    def training(self) -> Contents:
        """`voxyard train`, as many steps as wanted, its checkpoint thrown away."""
        folder = self._folder("training")
        words = ["train", "--json", "--max-steps", str(self._wanted.steps), "--checkpoint-dir", str(folder / "run")]
        return self._run("training", [*words, "--no-tensorboard", "--checkpoint-every", str(10**9)], folder)

    def _run(self, name: str, words: Sequence[str], folder: Path) -> dict[str, Any]:
        settings = folder / "settings.yaml"
        settings.write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        seconds = self._wanted.seconds
        ended = voxyard([*words, "--config", str(settings)], folder, timeout=seconds, environ=_plain_environment())
        files: dict[str, Any] = {f"{name}.log": ended.log}
        if ended.code is None:
            raise PartError(f"not finished after {seconds:g} s and stopped; {ended.log_tail}", files)
        if ended.code != 0:
            raise PartError(f"voxyard {words[0]} ended with code {ended.code}: {ended.log_tail}", files)
        files[f"{name}.json"] = json.loads(ended.out)
        return files

    def _folder(self, name: str) -> Path:
        folder = self._directory / name
        folder.mkdir()
        return folder

    def _settings(self) -> dict[str, Any]:
        """The user's settings, as given, without those that belong to the run itself."""
        given: dict[str, Any] = self._wanted.config.model_dump(mode="json", exclude_unset=True)
        for section, names in _NOT_REPEATED.items():
            given[section] = {name: value for name, value in given.get(section, {}).items() if name not in names}
        if not given.get("data", {}).get("train_data"):
            given["data"] = {**given.get("data", {}), "train_data": str(self._generated()), "validation_share": 0.0}
        given["telemetry"] = {**given["telemetry"], "sample_text": ""}
        return {section: values for section, values in given.items() if values}

    def _generated(self) -> Path:
        if self._corpus is None:
            from voxyard.corpus.demo import make_demo

            rows = (self._wanted.config.training.batch_size or 8) * self._wanted.config.training.grad_accum
            clips = min(160, max(FEWEST_CLIPS, 2 * rows))
            self._corpus = make_demo(self._directory / "corpus", clips=clips).path
        return self._corpus


def _plain_environment() -> dict[str, str]:
    """This environment less voxyard's variables: their values are in the settings already."""
    return {name: value for name, value in os.environ.items() if not name.startswith("VOXYARD_")}


def _verdict(archive: Archive) -> str:
    profile = archive.documents.get("profile.json")
    if profile is not None:
        return str(profile["verdict"]["sentence"])
    missing = next((part.missing for part in archive.parts if part.name == "profile"), None)
    return f"none: the profile is missing ({missing})"
