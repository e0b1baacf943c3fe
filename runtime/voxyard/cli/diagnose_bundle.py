"""Command `diagnose`: collects everything about a slow training into one archive."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, PATH, answering
from voxyard.cli.diagnose_profile import PROFILED
from voxyard.cli.train import load_settings
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")


@click.command("diagnose", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--out", type=PATH, required=True, metavar="FILE", help="Archive to write, as NAME.tar.gz.")
@click.option("--steps", type=click.IntRange(min=5), default=100, show_default=True, metavar="N",
              help="Training steps, and batches of each measurement of the profile.")  # fmt: skip
@click.option("--part-timeout", type=click.FloatRange(min=1), default=1800.0, show_default=True, metavar="SECONDS",
              help="Time limit of the profile, and of the training; a part over it is left out.")  # fmt: skip
@JSON
@options(TrainConfig, only=PROFILED)
def diagnose(
    flags: dict[str, object], config: Path | None, out: Path, steps: int, part_timeout: float, as_json: bool
) -> None:
    """Collect everything about a slow training into one archive, without secrets.

    System, GPUs, nvidia-smi, topology, the configuration, packages, environment, a profile and some training steps;
    summary.html in it has the verdict. A part that cannot be collected is listed with the reason. Takes the settings
    of `voxyard train`; without --train-data a small corpus is generated. The archive is written whole or not at all:
    Ctrl-C (exit code 130) and a full disk leave none. Look through it before you pass it on. Exit code 0: the archive
    is written, also if parts are missing; 1: it could not be written; 2: wrong use.
    """
    with answering("diagnose"):
        from voxyard.diagnose.bundle.collect import BundleRequest
        from voxyard.diagnose.bundle.collect import diagnose as collect

        loaded = load_settings(flags, config)
        request = BundleRequest(loaded.config, loaded.origins, config, steps, part_timeout, tuple(sys.argv[1:]))
        made = collect(request, out, progress=lambda said: log.info("Collecting: %s", said))
        print(json.dumps(made.document(), indent=1) if as_json else made.text())
