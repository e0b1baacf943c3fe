"""Commands `train`, `synthesize` and `export`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, PATH, answering, log_notes, require_kept, require_writable
from voxyard.cli.documents import read_document
from voxyard.settings import Loaded, SettingsCommand, load, options
from voxyard.trainer.config import ALIASES, TrainConfig
from voxyard.trainer.devices.host_plan import apply_host_plan
from voxyard.trainer.errors import HOST_LOST, TrainerError
from voxyard.trainer.hosts.again import start_again

log = logging.getLogger("voxyard.cli")


@click.command("train", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--describe", is_flag=True, help="Print the table of model sizes, and train nothing.")
@JSON
@options(TrainConfig)
def train(flags: dict[str, object], config: Path | None, describe: bool, as_json: bool) -> int:
    """Train a text-to-speech model from recordings.

    A setting comes from its flag, else from its environment variable (VOXYARD_TRAIN_ and the flag's name,
    as in VOXYARD_TRAIN_BATCH_SIZE), else from --config FILE, else from the host's plan (VOXYARD_HOST_PLAN), else it
    has its default.
    """
    with answering("train"):
        loaded = load_settings(flags, config)
        if describe:
            from voxyard.trainer.api import describe as describe_sizes

            print(describe_sizes())
            return 0
        require_kept({"--cache-file": loaded.config.data.cache_file}, loaded.config)
        from voxyard.trainer.api import train as run

        try:
            report = run(loaded.config)
        except TrainerError as error:
            if error.exit_code == HOST_LOST:
                start_again(loaded.config.training.restarts, str(error))
            raise
        print(json.dumps(report.to_json(), indent=2) if as_json else report.render())
        return report.exit_code


VOCODER = click.option(
    "--vocoder",
    type=click.Choice(["auto", "neural", "griffin-lim"]),
    default="auto",
    show_default=True,
    help="What makes samples of the mel; neural is the model's own (train --networks acoustic,vocoder), auto takes it "
    "where it was trained for long enough.",
)


@click.command(context_settings=CONTEXT)
@click.option("--checkpoint", type=PATH, required=True, metavar="DIR", help="A run's checkpoints, or one of them.")
@click.argument("file", type=PATH, required=False)
@click.option("--text", help="Text to speak, in place of FILE.")
@click.option("--out", type=PATH, required=True, metavar="FILE", help="WAV file to write.")
@click.option("--mel", type=PATH, metavar="FILE", help="Also write the mel spectrogram (.npy).")
@click.option("--speaker", metavar="NAME", help="One of the model's speakers.  [default: the first]")
@click.option("--language", metavar="CODE", help="Language of the text, for a model of phonemes.  [default: its own]")
@VOCODER
@JSON
def synthesize(
    file: Path | None,
    checkpoint: Path,
    text: str | None,
    out: Path,
    mel: Path | None,
    speaker: str | None,
    language: str | None,
    vocoder: str,
    as_json: bool,
) -> None:
    """Synthesize speech with a trained model, into a WAV file.

    FILE is a text, Markdown, HTML, EPUB, PDF, Word, ODT, RTF or FB2 file; - reads text from standard input. A long text
    is split at its sentences.
    """
    if (file is None) == (text is None):
        found = "neither" if file is None else "both"
        raise click.UsageError(
            f"expected a text to speak: either --text TEXT, or FILE (- for standard input); found {found}"
        )
    if out.suffix.lower() not in ("", ".wav"):
        raise click.UsageError(
            f"--out {out}: found {out.suffix}, expected a WAV file (.wav); voxyard speak writes others"
        )
    with answering("synthesize"):
        require_kept({"--out": out, "--mel": mel})
        require_writable(out=out, mel=mel)
        import dataclasses

        from voxyard.trainer.api import synthesize as speak

        words = read_document(file).text if file is not None else text or ""
        spoken = speak(checkpoint, words, out, mel, speaker=speaker, language=language, vocoder=vocoder)
        if as_json:
            print(json.dumps(dataclasses.asdict(spoken), default=str))
        else:
            how = [f"step {spoken.step}"] + (["averaged weights"] if spoken.averaged else [])
            how += [f"vocoder {spoken.vocoder}"] if spoken.vocoder else []
            print(f"{spoken.path}: {spoken.seconds:.2f} s at {spoken.sample_rate} Hz, {', '.join(how)}")


@click.command(context_settings=CONTEXT)
@click.option("--checkpoint", type=PATH, required=True, metavar="DIR", help="A run's checkpoints, or one of them.")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Directory to write; it must not exist.")
@VOCODER
@click.option(
    "--licence",
    metavar="SPDX|FILE",
    help="Licence of the corpus: an SPDX name, LicenseRef-NAME, a file with its text, or 'text:WORDS'.  "
    "[default: LICENSE, LICENCE or COPYING in it]",
)
@JSON
def export(checkpoint: Path, out: Path, vocoder: str, licence: str | None, as_json: bool) -> None:
    """Export a trained voice as one directory, to speak and serve with.

    `voxyard speak` and `voxyard serve` take it with --engine voxyard --model DIR.
    """
    with answering("export"):
        import dataclasses

        from voxyard.trainer.api import export as write_voice

        made = write_voice(checkpoint, out, vocoder=vocoder, licence=licence)
        if as_json:
            print(json.dumps(dataclasses.asdict(made), default=str))
            return
        weights = ", averaged weights" if made.averaged else ""
        voices = ", ".join(made.voices)
        print(f"{made.path}: step {made.step}{weights}, vocoder {made.vocoder}, voices {voices}; {made.licence}")


def load_settings_of_one_host(flags: Mapping[str, object], config: Path | None) -> Loaded[TrainConfig]:
    """`load_settings` for a command that measures this host alone. Raises TrainerError where --hosts is set."""
    loaded = load_settings(flags, config)
    if loaded.config.training.hosts is not None:
        raise TrainerError(
            f"training.hosts ({loaded.origins['training.hosts']}) has no effect here: this command measures one host; "
            "leave it out"
        )
    return loaded


def load_settings(flags: Mapping[str, object], config: Path | None) -> Loaded[TrainConfig]:
    """The trainer's settings from all their sources; their notes are logged."""
    loaded = apply_host_plan(load(TrainConfig, flags=flags, file=config, aliases=ALIASES))
    log_notes(loaded.notes)
    for key, origin in loaded.origins.items():
        if origin != "default":
            section, _, name = key.partition(".")
            log.debug("%s is %s (%s)", key, getattr(getattr(loaded.config, section), name), origin)
    return loaded
