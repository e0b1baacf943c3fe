"""Command `profile`: times the stages of a training and suggests changes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, PATH, answering, require_folder, require_writable
from voxyard.cli.train import load_settings_of_one_host
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")

PROFILED = (
    "model", "data", "training.device", "training.cpu_devices", "training.device_threads", "training.strategy",
    "training.batch_size", "training.grad_accum", "training.seed", "training.precision", "training.xla",
    "training.recompute", "training.auto", "training.enable_memory_isolation", "training.data_gpu_memory",
    "training.model_gpu_memory", "training.checkpoint_dir", "training.checkpoint_every", "training.validate_every",
)  # fmt: skip


@click.command("profile", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--num-steps", type=click.IntRange(min=5), default=100, show_default=True, metavar="N",
              help="Batches of each measurement.")  # fmt: skip
@click.option("--no-gpu-monitoring", is_flag=True, help="Do not read the GPUs' utilization and memory.")
@click.option("--html", type=PATH, metavar="FILE", help="Also write the result as one page, with a timeline.")
@JSON
@options(TrainConfig, only=PROFILED)
def profile(
    flags: dict[str, object],
    config: Path | None,
    num_steps: int,
    no_gpu_monitoring: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Profile a training run and suggest changes.

    Takes the settings of `voxyard train` and runs its real pipeline on your model and data: each stage alone, then all
    of them overlapped. Nothing is saved. Exit code 0 whatever the verdict; 2: wrong use, or no corpus.
    """
    with answering("profile"):
        require_writable(html=html)
        from voxyard.diagnose.profile.run import profile as measure
        from voxyard.diagnose.profile.text_report import render

        loaded = load_settings_of_one_host(flags, config).config
        require_folder(checkpoint_dir=loaded.training.checkpoint_dir)
        found = measure(
            loaded,
            steps=num_steps,
            gpu_monitoring=not no_gpu_monitoring,
            progress=lambda said: log.info("Profiling: %s", said),
        )
        if html is not None:
            from voxyard.diagnose.profile.html_report import write_page

            write_page(found, html)
            log.info("Page written to %s", html)
        print(json.dumps(found.document(), indent=1) if as_json else render(found))
