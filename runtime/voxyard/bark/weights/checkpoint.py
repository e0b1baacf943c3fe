"""Checkpoint of Bark: a directory in Hugging Face's layout, checked and loaded with `from_pretrained`."""

from __future__ import annotations

import json
import pickletools
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

from voxyard.bark.errors import BarkError
from voxyard.bark.model.dimensions import Layout, layout_of
from voxyard.bark.weights.downloaded import instead
from voxyard.bark.weights.tokenizer import read

MARKER = "voxyard.json"  # beside the weights; marks random ones
Precision = Literal["float32", "bfloat16"]
_STAGES = ("semantic", "coarse_acoustics", "fine_acoustics", "codec_model")
_ONE_FILE = ("model.safetensors", "pytorch_model.bin")
_SUNO = tuple(f"{stage}{size}.pt" for size in ("_2", "") for stage in ("text", "coarse", "fine"))
_INSIDE = ("*/config.json", "snapshots/*/config.json", "models--*/snapshots/*/config.json")  # the hub's cache, a copy
_FIRST_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"  # bytes of what PyTorch wrote before its archives
_ADVICE = "run `voxyard weights fetch`, or `voxyard weights tiny DIR` for a random model to test with"


@dataclass(frozen=True)
class BarkCheckpoint:
    """A loaded model: transformers' modules with the weights, dimensions of the stages, tokenizer."""

    model: Any  # transformers.BarkModel, in evaluation
    layout: Layout
    tokenizer: Any  # tokenizers.Tokenizer
    random: bool


def load(directory: Path, device: str = "cpu", precision: Precision = "float32") -> BarkCheckpoint:
    """Load a checkpoint; the codec stays in float32, which is small and affects audio quality.

    Raises:
        BarkError: the directory is no usable Bark model; the message says what is missing.
    """
    require(directory)
    import torch
    from transformers import BarkModel
    from transformers.utils import logging

    progress: Any = logging
    progress.disable_progress_bar()
    try:
        model, report = BarkModel.from_pretrained(
            directory,
            dtype=getattr(torch, precision),
            local_files_only=True,
            weights_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told below, in words
        )
    except UnpicklingError as problem:
        raise BarkError(
            f"the weights in {directory} contain more than tensors and could run code when loaded: refused; "
            "use weights in safetensors, or plain tensors in pytorch_model.bin"
        ) from problem
    except (OSError, ValueError, RuntimeError) as problem:
        raise BarkError(f"the weights in {directory} cannot be read: {problem}") from problem
    _check_tensors(directory, report)
    model.codec_model.float()
    return BarkCheckpoint(model.eval().to(device), layout_of(model), read(directory), is_random(directory))


def _check_tensors(directory: Path, report: dict[str, Any]) -> None:
    missing, strange = sorted(report["missing_keys"]), sorted(report["unexpected_keys"])
    if missing:
        other = f" and has {len(strange)} of other names, {strange[0]} among them" if strange else ""
        raise BarkError(
            f"{directory} lacks {len(missing)} tensors of its model, {missing[0]} among them{other}: download it again"
        )
    if report["mismatched_keys"]:
        name, found, expected = max(report["mismatched_keys"])
        raise BarkError(
            f"{directory}: {name} has the shape {tuple(found)}, config.json expects {tuple(expected)}: the weights and "
            "config.json belong to different models; download both again"
        )


def require(directory: Path) -> None:
    """Check that a directory is a usable Bark model.

    Raises:
        BarkError: the message says what is missing.
    """
    problems = check(directory)
    if problems:
        raise BarkError(
            f"{directory} is no usable Bark model: {'; '.join(problems)}. {_ADVICE[0].upper()}{_ADVICE[1:]}."
        )


def check(directory: Path) -> tuple[str, ...]:
    """Problems of a model directory; empty if it is usable. Reads headers, no weights."""
    if fault := elsewhere(directory):
        return (fault,)
    parts = _check_settings(directory), _check_weights(directory), _check_tokenizer(directory), _check_mark(directory)
    return tuple(problem for part in parts for problem in part)


def elsewhere(directory: Path) -> str | None:
    """What is to be given instead of a path that is no directory of a model at all."""
    if not directory.is_dir():
        if directory.exists():
            return f"{directory} is a file, expected the directory of a model's files (an archive is to be unpacked)"
        return f"there is no directory {directory}"
    if (directory / "config.json").is_file():
        return None
    inner = next((found.parent for pattern in _INSIDE for found in sorted(directory.glob(pattern))), None)
    if inner is not None:
        return f"there is no config.json, but one in {inner}: give that directory"
    if suno := [name for name in _SUNO if (directory / name).is_file()]:
        return (
            f"{', '.join(suno)} are weights in Suno's first layout, expected Hugging Face's, which has the same weights"
        )
    return None


def files(directory: Path) -> tuple[Path, ...]:
    """Weight files of a usable model."""
    for name in _ONE_FILE:
        if (directory / name).is_file():
            return (directory / name,)
    for name in _ONE_FILE:
        table = _document(directory / f"{name}.index.json")
        if isinstance(table, dict):
            return tuple(directory / shard for shard in sorted(set(table.get("weight_map", {}).values())))
    return ()


def is_random(directory: Path) -> bool:
    """True where the weights are marked as random.

    Raises:
        BarkError: the mark cannot be read.
    """
    found = _mark(directory)
    if isinstance(found, str):
        raise BarkError(f"{directory}: {found}")
    return bool(found.get("random_weights"))


def _mark(directory: Path) -> dict[str, Any] | str:
    marker = directory / MARKER
    return _document(marker) if marker.exists() else {}


def _check_mark(directory: Path) -> list[str]:
    found = _mark(directory)
    return [found] if isinstance(found, str) else []


def _check_settings(directory: Path) -> list[str]:
    problems = []
    config = _document(directory / "config.json")
    if isinstance(config, str):
        problems.append(config)
    elif config.get("model_type") != "bark":
        problems.append(f"config.json describes the model type {config.get('model_type')!r}, expected 'bark'")
    generation = _document(directory / "generation_config.json")
    if isinstance(generation, str):
        problems.append(generation)
    else:
        stages = ("semantic_config", "coarse_acoustics_config", "fine_acoustics_config")
        problems += [f"generation_config.json has no {stage}" for stage in stages if stage not in generation]
    return problems


def _document(file: Path) -> dict[str, Any] | str:
    """A JSON object, or a message on the problem."""
    if not file.is_file():
        return _missing(file)
    try:
        content = file.read_bytes()
        if fault := instead(content):
            return f"{file.name} {fault}"
        found = json.loads(content.decode("utf-8"))
    except ValueError as problem:
        return f"{file.name} is not JSON: {problem}"
    return found if isinstance(found, dict) else f"{file.name} contains no JSON object"


def _missing(file: Path) -> str:
    if file.is_symlink():
        return f"{file.name} is a link to {file.readlink()}, which is not there"
    return f"{file.name} is missing"


def _check_weights(directory: Path) -> list[str]:
    single = next((directory / name for name in _ONE_FILE if (directory / name).is_file()), None)
    if single is not None:
        return _check_files([single])
    for index in (f"{name}.index.json" for name in _ONE_FILE):
        table = _document(directory / index)
        if isinstance(table, dict):
            shards = [directory / shard for shard in sorted(set(table.get("weight_map", {}).values()))]
            missing = [f"{_missing(shard)} (listed in {index})" for shard in shards if not shard.is_file()]
            return missing or _check_files(shards)
    dangling = [_missing(directory / name) for name in _ONE_FILE if (directory / name).is_symlink()]
    return dangling or [f"there are no weights ({' or '.join(_ONE_FILE)}, or their shards)"]


def _check_files(files: list[Path]) -> list[str]:
    """Problems of weight files that are there."""
    faults = [f"{file.name} {fault}" for file in files if (fault := _fault(file))]
    return faults or _check_names(files)


def _fault(file: Path) -> str | None:
    """What is wrong with a file's container; None where it can be read."""
    try:
        with file.open("rb") as content:
            head = content.read(256)
        found = instead(head)
        if found is not None or file.suffix == ".safetensors" or head.startswith(_FIRST_TORCH):
            return found
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "is damaged or not complete, or no file of PyTorch: download it again"
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    if not any(name.endswith("/data.pkl") for name in names):
        return f"is an archive of {', '.join(names[:3])}, expected tensors that PyTorch saved: unpack it"
    return None


def _check_names(files: list[Path]) -> list[str]:
    """Problems of the names of tensors, as far as the heads of weight files tell them."""
    from safetensors import SafetensorError

    names: set[str] = set()
    for file in files:
        try:
            found = _names(file)
        except SafetensorError as problem:
            return [f"{file.name} is damaged ({problem})"]
        if found is None:
            return []
        names.update(name.partition(".")[0] for name in found)
    lacking = [stage for stage in _STAGES if stage not in names]
    others = ", ".join(sorted(names - {*_STAGES})) if len(lacking) == len(_STAGES) else ""
    found_words = f"; they have {others}" if others else ""
    return [f"the weights have no part {', '.join(lacking)}{found_words}"] if lacking else []


def _names(file: Path) -> Sequence[str] | None:
    """Names of a file's tensors; None where its head does not tell them, as one of PyTorch from before its archives."""
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, framework="numpy") as opened:
            return list(opened.keys())
    try:
        with zipfile.ZipFile(file) as archive:
            pickled = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
        read = [(code.name, str(text)) for code, text, _ in pickletools.genops(pickled)]  # runs nothing
    except (ValueError, zipfile.BadZipFile, zlib.error):
        return None
    if any(code == "GLOBAL" and not text.startswith(("torch", "collections")) for code, text in read):
        return None  # more than tensors: whoever loads it says so
    return [text for code, text in read if "UNICODE" in code and "." in text]  # not `storage`, `cpu`, numbers


def _check_tokenizer(directory: Path) -> list[str]:
    if (directory / "tokenizer.json").is_file() or (directory / "vocab.txt").is_file():
        return []
    return ["there is no tokenizer (tokenizer.json or vocab.txt)"]
