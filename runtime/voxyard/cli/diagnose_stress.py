"""Command `stress`: loads the devices with the trainer's real step."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, answering
from voxyard.cli.diagnose_profile import PROFILED
from voxyard.cli.train import load_settings_of_one_host
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")


@click.command("stress", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--stress-duration", type=click.FloatRange(min=0.1, max=86400), default=30.0, show_default=True,
              metavar="SECONDS", help="How long to train.")  # fmt: skip
@click.option("--skip-stress", is_flag=True, help="Train nothing: only measure the utilization of the idle machine.")
@JSON
@options(TrainConfig, only=PROFILED)
def stress(
    flags: dict[str, object], config: Path | None, stress_duration: float, skip_stress: bool, as_json: bool
) -> int:
    """Load the devices with the trainer's real step, and judge how busy they are.

    Utilization before, during and after, compared with the targets of a training; a device that stays below 30%
    gets a diagnosis. Takes the settings of `voxyard train`; without --train-data a small corpus is generated. Nothing
    is saved. Exit code 0: no target missed; 1: a target missed, or out of memory; 2: wrong use.
    """
    with answering("stress"):
        from voxyard.diagnose.stress.run import stress as load

        found = load(
            load_settings_of_one_host(flags, config).config,
            seconds=stress_duration,
            skip=skip_stress,
            progress=lambda said: log.info("Stress: %s", said),
        )
        print(json.dumps(found.document(), indent=1) if as_json else found.text())
        return found.exit_code
