"""Validate: five numbered checks of the very run that `voxyard train` would start, each with its figures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from voxyard.diagnose.dry_run import scratch
from voxyard.diagnose.validate.checks import ValidationChecks
from voxyard.diagnose.validate.result import Check, CheckError, Found, ValidationReport
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.out_of_memory import is_out_of_memory

log = logging.getLogger("voxyard.diagnose")

PREREQUISITES = "prerequisites"
PLACEMENT = "device placement"
MODEL = "model on the model GPU and forward pass"
TRANSFER = "transfer between the GPUs"
PIPELINE = "3 batches of the real pipeline"


Step = tuple[str, Callable[[], Found]]


def validate(config: TrainConfig, *, progress: Callable[[str], None] = lambda _: None) -> ValidationReport:
    """Checks the training that `config` describes; one a process, since TensorFlow's devices are set once.

    Without a corpus in `config` a small one is generated. Nothing is saved. `progress` is called with the
    name of each check that begins.
    """
    with scratch() as directory:
        return run_checks(checks_of(config, directory), progress)


def checks_of(config: TrainConfig, directory: Path) -> tuple[Step, ...]:
    """The five checks in their order; each needs the results of those before it."""
    validation = ValidationChecks(config, directory)
    return (
        (PREREQUISITES, validation.prerequisites),
        (PLACEMENT, validation.placement),
        (MODEL, validation.model),
        (TRANSFER, validation.transfer),
        (PIPELINE, validation.pipeline),
    )


def run_checks(steps: Sequence[Step], progress: Callable[[str], None] = lambda _: None) -> ValidationReport:
    """Runs the checks one after the other; those after a failed one are not run, and do not pass."""
    checks: list[Check] = []
    for number, (name, step) in enumerate(steps, 1):
        failed = next((check.number for check in checks if not check.passed), None)
        if failed is not None:
            checks.append(Check(number, name, False, problem=f"not run: check {failed} did not pass", ran=False))
            continue
        progress(f"{number}/{len(steps)} {name}")
        checks.append(_checked(number, name, step))
    return ValidationReport(tuple(checks))


def _checked(number: int, name: str, step: Callable[[], Found]) -> Check:
    try:
        found = step()
    except CheckError as error:
        kept = error.found
        return Check(number, name, False, kept.figures, kept.measured, problem=str(error), advice=error.advice)
    except Exception as error:  # whatever it is, it is why the check did not pass
        log.debug("check %d failed", number, exc_info=True)
        ours = hasattr(error, "exit_code")  # a room's error is a sentence for the user, others are known by their type
        text = str(error) if ours else f"{type(error).__name__}: {error}"
        return Check(number, name, False, problem=_shortened(text), advice="" if ours else _advice(error))
    return Check(number, name, True, found.figures, found.measured)


def _shortened(text: str, most: int = 12) -> str:
    lines = text.splitlines()
    return "\n".join(lines if len(lines) <= most else [*lines[:most], f"… and {len(lines) - most} lines more"])


def _advice(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "pip install 'voxyard[trainer,cpu]', or 'voxyard[trainer,gpu]' on a host with GPUs"
    if is_out_of_memory(error) or isinstance(error, MemoryError):
        return "the memory does not suffice: lower --batch-size, add --recompute, or free the device"
    return "voxyard -v validate … shows the traceback"
