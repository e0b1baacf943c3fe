"""Export: a checkpoint's weights, text front end and corpus licence as one directory that the speech room loads."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from voxyard import __version__
from voxyard.corpus.text import SYMBOLS_HASH
from voxyard.host.durable_files import digest_of, put_directory
from voxyard.settings import path_of
from voxyard.trainer import checkpoint as checkpoints
from voxyard.trainer.config import TrainConfig, trained_config
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.steps.average import has_average, weights_for_use
from voxyard.trainer.text.front_end import described
from voxyard.trainer.voice.directory import FORMAT, LICENCE, META, README, WEIGHTS, read
from voxyard.trainer.voice.engine import VoiceEngine
from voxyard.trainer.voice.vocoder_choice import AUTO, NEURAL, chosen_vocoder

FREE_TEXT = "text:"  # begins a licence in words of one's own
LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING")  # of a corpus, with any ending and case
MOST_LICENCE = 2**20  # bytes
OF_TRAINING = "model/discriminators/"  # weights that only a training uses
OF_VOCODER = "model/vocoder/"
KEPT_DATA = ("pre_emphasis", "max_clip_seconds", "max_dropped_text")  # settings that speech depends on


@dataclass(frozen=True)
class ExportedVoice:
    """A voice that was written."""

    path: Path
    voices: tuple[str, ...]
    sample_rate: int
    vocoder: str
    step: int
    averaged: bool
    parameters: int
    licence: str  # first line


def export(checkpoint: Path, out: Path, *, vocoder: str = AUTO, licence: str | None = None) -> ExportedVoice:
    """Writes the voice of a checkpoint into the new directory `out`, whole or not at all, and loads it once.

    The vocoder is chosen as `voxyard synthesize` does (see chosen_vocoder). `licence` is the corpus' licence: an SPDX
    expression, a file with its text, or `text:` and words; without one the corpus' own file is taken. A voice has the
    averaged weights where the run has some.

    Raises:
        TrainerError: no checkpoint, no licence, no such vocoder, or a directory that is there or cannot be written.
    """
    if out.exists():
        raise TrainerError(f"--out {out} exists: give a new directory, or remove this one first")
    found = checkpoints.open_any(checkpoint)
    config = trained_config(found.meta["config"])
    text = _licence(licence, config.data.train_data)
    usable = weights_for_use(found.state)
    has_own = any(name.startswith(OF_VOCODER) for name in usable)
    vocoder = chosen_vocoder(vocoder, found.state, found.meta, found.path, has_own=has_own)
    weights = _weights(usable, config, vocoder, found.path)
    folder = _new_folder(out)
    try:
        _write(folder, weights, config, found, vocoder, text)
        engine = VoiceEngine({"model": str(folder), "device": "cpu"})  # a voice that does not load is none
        engine.prepare()
        engine.close()
        put_directory(folder, out)
    except OSError as error:
        raise TrainerError(f"--out {out} cannot be written: {error.strerror}", exit_code=1) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    voice = read(out)
    return ExportedVoice(
        out,
        voice.voices,
        config.model.sample_rate,
        vocoder,
        found.step,
        has_average(found.state),
        sum(each.size for each in weights.values()),
        text.strip().splitlines()[0],
    )


def _weights(
    weights: Mapping[str, NDArray[Any]], config: TrainConfig, vocoder: str, path: Path
) -> dict[str, NDArray[Any]]:
    """The weights that the voice needs."""
    if config.model.module is not None:
        raise TrainerError(
            f"{path} is a model of --model-module {config.model.module}: only voxyard's own models are exported; speak "
            "with it by voxyard synthesize"
        )
    left = (OF_TRAINING,) if vocoder == NEURAL else (OF_TRAINING, OF_VOCODER)
    return {name: value for name, value in weights.items() if not name.startswith(left)}


def _licence(asked: str | None, corpus: Path | None) -> str:
    """Text of the licence."""
    if asked is not None:
        if not asked.strip():
            raise TrainerError("--licence is empty: expected an SPDX name such as CC0-1.0, or a file with the text")
        path = path_of(asked)
        with suppress(OSError):  # a long name is no path
            if path.is_file():
                return _licence_text(path)
            if path.exists() or (os.sep in asked and " " not in asked):
                raise TrainerError(
                    f"--licence {path} is no file: expected one with the text, or a name such as CC0-1.0"
                )
        return _licence_name(asked.strip()) + "\n"
    for path in sorted(corpus.iterdir()) if corpus is not None and corpus.is_dir() else ():
        if path.is_file() and path.stem.upper() in LICENCE_FILES:
            return _licence_text(path)
    raise TrainerError(
        f"the licence of the corpus {corpus or ''} is not known, and a voice must say it: give --licence NAME, such as "
        "CC0-1.0, or --licence FILE"
    )


def _licence_name(asked: str) -> str:
    """An SPDX expression as SPDX writes it, or the words after `text:`."""
    if asked.startswith(FREE_TEXT):
        if words := asked.removeprefix(FREE_TEXT).strip():
            return words
        raise TrainerError(f"--licence {asked} is empty: expected words after {FREE_TEXT}")
    try:
        return canonicalize_license_expression(asked)
    except InvalidLicenseExpression as error:
        raise TrainerError(
            f"--licence {asked}: found no name of a licence, expected one of SPDX such as CC0-1.0 or CC-BY-4.0 "
            f"(spdx.org/licenses), LicenseRef-NAME for one of your own, a file with the text, or '{FREE_TEXT}WORDS'"
        ) from error


def _licence_text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_LICENCE:
            raise TrainerError(f"--licence {path} is larger than 1 MiB: expected the text of a licence")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainerError(f"--licence {path} cannot be read: {error}; expected a text in UTF-8") from error
    if not text.strip():
        raise TrainerError(f"--licence {path} is empty: expected the text of a licence, or its name")
    return text


def _new_folder(out: Path) -> Path:
    """An unfinished directory beside `out`."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".unfinished", dir=out.parent))
        folder.chmod(0o777 & ~_umask())  # mkdtemp lets its owner alone read it
        return folder
    except OSError as error:
        raise TrainerError(f"--out {out} cannot be written: {error.strerror}") from error


def _write(
    folder: Path,
    weights: dict[str, NDArray[Any]],
    config: TrainConfig,
    found: checkpoints.Checkpoint,
    vocoder: str,
    licence: str,
) -> None:
    checkpoints.write_state(folder / WEIGHTS, weights)
    model = config.model.model_dump(mode="json")
    if vocoder != NEURAL:
        model |= {"networks": "acoustic", "vocoder_size": "auto"}
    data = config.data.model_dump(mode="json")
    meta = {
        "format": FORMAT,
        "voxyard": __version__,
        "config": {"model": model, "data": {name: data[name] for name in KEPT_DATA}},
        "speakers": list(found.meta["speakers"]),
        "symbols": SYMBOLS_HASH,
        "reading": found.meta.get("reading", 0),
        "vocoder": vocoder,
        "step": found.step,
        "averaged": has_average(found.state),
        "sha256": digest_of(folder / WEIGHTS),
    }
    (folder / META).write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (folder / LICENCE).write_text(licence, encoding="utf-8")
    (folder / README).write_text(_card(config, found, vocoder, licence), encoding="utf-8")


def _card(config: TrainConfig, found: checkpoints.Checkpoint, vocoder: str, licence: str) -> str:
    model = config.model
    names = [name or "default" for name in found.meta["speakers"]] or ["default"]
    one = f" --voice {shlex.quote(names[0])}" if len(names) > 1 else ""
    speakers = ", ".join(names)
    return (
        "# A voice made with voxyard\n\n"
        f"- speakers: {speakers}\n- language: {model.language or 'not known'}; read as {described(model)}\n"
        f"- model: {model.size}, step {found.step}, vocoder {vocoder}, {model.sample_rate} Hz\n"
        f"- licence of the corpus ({LICENCE}): {licence.strip().splitlines()[0]}\n\n"
        "```\nvoxyard serve --engine voxyard --model DIR\n"
        f"voxyard speak book.txt --engine voxyard --model DIR{one} --out book.mp3\n```\n"
    )


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
