"""Commands `profile`, `validate`, `stress` and `diagnose`: how a training does on this host, with its settings."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click

from voxyard.cli.base import (
    CONFIG,
    CONTEXT,
    JSON,
    PATH,
    NumberRange,
    answering,
    require_folder,
    require_kept,
    require_writable,
)
from voxyard.cli.train import load_settings, load_settings_of_one_host
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")

PROFILED = (
    "model", "data", "training.device", "training.cpu_devices", "training.device_threads", "training.strategy",
    "training.batch_size", "training.grad_accum", "training.seed", "training.precision", "training.xla",
    "training.recompute", "training.auto", "training.enable_memory_isolation", "training.data_gpu_memory",
    "training.model_gpu_memory", "training.checkpoint_dir", "training.checkpoint_every", "training.validate_every",
)  # fmt: skip
_GPU_SECONDS = 300  # a GPU that hangs does not pass


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
        require_kept({"--html": html}, loaded)
        require_folder(checkpoint_dir=loaded.training.checkpoint_dir)
        found = measure(
            loaded,
            steps=num_steps,
            gpu_monitoring=not no_gpu_monitoring,
            progress=_told("Profiling:"),
        )
        if html is not None:
            from voxyard.diagnose.profile.html_report import write_page

            write_page(found, html)
            log.info("Page written to %s", html)
        print(json.dumps(found.document(), indent=1) if as_json else render(found))


@click.command("validate", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--checklist", is_flag=True, help="Answer the checklist before a training instead of the five checks.")
@click.option("--gpu", metavar="GPU", help="Only test this GPU, within 5 minutes: its memory, and products on it.")
@JSON
@options(TrainConfig, only=PROFILED)
def validate(flags: dict[str, object], config: Path | None, checklist: bool, gpu: str | None, as_json: bool) -> int:
    """Check that this host can train as configured: five checks with figures.

    Prerequisites, device placement, the model with a forward pass, the transfer between the GPUs, and 3 batches of
    the real pipeline. Takes the settings of `voxyard train`; without --train-data a small corpus is generated. Nothing
    is saved. Exit code 0: all passed; 1: a check failed; 2: wrong use.
    """
    with answering("validate"):
        if gpu is not None:
            print(json.dumps({"gpu": gpu, "tested": _tested(gpu)}) if as_json else f"GPU {gpu}: {_tested(gpu)}")
            return 0
        loaded = load_settings_of_one_host(flags, config).config
        if checklist:
            from voxyard.diagnose.validate.checklist import checklist as answered

            answers = answered(loaded, progress=_told("Checklist:"))
            print(json.dumps(answers.document(), indent=1) if as_json else answers.text())
            return answers.exit_code
        from voxyard.diagnose.validate.run import validate as check

        found = check(loaded, progress=_told("Check"))
        print(json.dumps(found.document(), indent=1, default=str) if as_json else found.text())
        return found.exit_code


def _tested(named: str) -> str:
    """What was tested of a GPU. Raises DiagnoseError or HostError where it did not pass."""
    from voxyard.diagnose.validate.self_test import check_gpu
    from voxyard.host.gpu_choice import choose_gpus
    from voxyard.host.nvml import every_gpu

    signal.alarm(_GPU_SECONDS)
    (gpu,) = choose_gpus(every_gpu(), named, None)
    return check_gpu(gpu.uuid, gpu.memory_free_mib)


@click.command("stress", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--stress-duration", type=NumberRange(min=0.1, max=86400), default=30.0, show_default=True,
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
            progress=_told("Stress:"),
        )
        print(json.dumps(found.document(), indent=1) if as_json else found.text())
        return found.exit_code


@click.command("diagnose", cls=SettingsCommand, context_settings=CONTEXT)
@CONFIG
@click.option("--out", type=PATH, required=True, metavar="FILE", help="Archive to write, as NAME.tar.gz.")
@click.option("--steps", type=click.IntRange(min=5), default=100, show_default=True, metavar="N",
              help="Training steps, and batches of each measurement of the profile.")  # fmt: skip
@click.option("--part-timeout", type=NumberRange(min=1), default=1800.0, show_default=True, metavar="SECONDS",
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
        require_kept({"--out": out}, loaded.config)
        request = BundleRequest(loaded.config, loaded.origins, config, steps, part_timeout, tuple(sys.argv[1:]))
        made = collect(request, out, progress=_told("Collecting:"))
        print(json.dumps(made.document(), indent=1) if as_json else made.text())


def _told(what: str) -> Callable[[str], None]:
    """Progress, a line of the log for each part."""
    return lambda said: log.info("%s %s", what, said)
