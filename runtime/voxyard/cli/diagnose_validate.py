"""Command `validate`: checks a host and a configuration before a training."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path

import click

from voxyard.cli.base import CONFIG, CONTEXT, JSON, answering
from voxyard.cli.diagnose_profile import PROFILED
from voxyard.cli.train import load_settings_of_one_host
from voxyard.settings import SettingsCommand, options
from voxyard.trainer.config import TrainConfig

log = logging.getLogger("voxyard.cli")


_GPU_SECONDS = 300  # a GPU that hangs does not pass


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

            answers = answered(loaded, progress=lambda said: log.info("Checklist: %s", said))
            print(json.dumps(answers.document(), indent=1) if as_json else answers.text())
            return answers.exit_code
        from voxyard.diagnose.validate.run import validate as check

        found = check(loaded, progress=lambda said: log.info("Check %s", said))
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
