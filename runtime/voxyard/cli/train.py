"""Commands `train` and `synthesize`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, PATH, answering, log_notes
from voxyard.settings import Loaded, SettingsCommand, load, options
from voxyard.trainer.aliases import ALIASES
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.host_plan import apply_host_plan

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
        from voxyard.trainer.api import train as run

        report = run(loaded.config)
        print(json.dumps(report.to_json(), indent=2) if as_json else report.render())
        return report.exit_code


@click.command(context_settings=CONTEXT)
@click.option("--checkpoint", type=PATH, required=True, metavar="DIR", help="A run's checkpoints, or one of them.")
@click.option("--text", required=True, help="Text to speak.")
@click.option("--out", type=PATH, required=True, metavar="FILE", help="WAV file to write.")
@click.option("--mel", type=PATH, metavar="FILE", help="Also write the mel spectrogram (.npy).")
@JSON
def synthesize(checkpoint: Path, text: str, out: Path, mel: Path | None, as_json: bool) -> None:
    """Synthesize speech with a trained model, into a WAV file."""
    with answering("synthesize"):
        import dataclasses

        from voxyard.trainer.api import synthesize as speak

        spoken = speak(checkpoint, text, out, mel)
        if as_json:
            print(json.dumps(dataclasses.asdict(spoken), default=str))
        else:
            print(f"{spoken.path}: {spoken.seconds:.2f} s at {spoken.sample_rate} Hz, step {spoken.step}")


def load_settings(flags: Mapping[str, object], config: Path | None) -> Loaded[TrainConfig]:
    """The trainer's settings from all their sources; their notes are logged."""
    loaded = apply_host_plan(load(TrainConfig, flags=flags, file=config, aliases=ALIASES))
    log_notes(loaded.notes)
    for key, origin in loaded.origins.items():
        if origin != "default":
            section, _, name = key.partition(".")
            log.debug("%s is %s (%s)", key, getattr(getattr(loaded.config, section), name), origin)
    return loaded
