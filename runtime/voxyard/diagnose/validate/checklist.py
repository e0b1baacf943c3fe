"""Checklist before a long training: seven questions, each answered with what was found."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import NO_GPU
from voxyard.diagnose.profile.result import Profile
from voxyard.diagnose.profile.run import profile
from voxyard.host.cores import whole_cores
from voxyard.host.errors import HostError
from voxyard.host.limits import HEADROOM_MIB, recommended_mib
from voxyard.host.memory import available_bytes
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import DevicePlan
from voxyard.trainer.errors import TrainerError

log = logging.getLogger("voxyard.diagnose")

PROFILED, BOTTLENECK, LIMITS, VISIBLE = "profiler run", "no major bottleneck", "limits match the host", "GPUs visible"
DATASET, BATCH, WORKERS = "dataset path right", "batch size fits", "reading threads"
BIG_HOST_CORES, FEWEST_WORKERS, MOST_WORKERS = 16, 16, 32
PROFILE_STEPS = 20
SMALLEST_SHARE = 0.5
"""Of the recommended limit: with less, most of the card stays unused."""


@dataclass(frozen=True)
class Item:
    """One question. `answer` is None where it does not apply; `found` is the reason, or what was found."""

    name: str
    answer: bool | None
    found: str
    advice: str = ""

    def lines(self) -> list[str]:
        """The item for a terminal."""
        mark = {True: "✅", False: "❌", None: "–"}[self.answer]
        lines = [f"     {line}" for line in self.found.splitlines()]
        return [f"{mark} {self.name}", *lines, *([f"     → {self.advice}"] if self.advice else [])]


@dataclass(frozen=True)
class Checklist:
    """The items in their order."""

    items: tuple[Item, ...]

    @property
    def passed(self) -> bool:
        """True where no answer is no."""
        return all(item.answer is not False for item in self.items)

    @property
    def exit_code(self) -> int:
        """0 unless an answer is no."""
        return 0 if self.passed else 1

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {"passed": self.passed, "items": [asdict(item) for item in self.items]}

    def text(self) -> str:
        """The checklist for a terminal."""
        lines = [
            f"{number}. {line}" if first else line
            for number, item in enumerate(self.items, 1)
            for first, line in zip((True, *[False] * 99), item.lines(), strict=False)
        ]
        counts = [sum(item.answer is answer for item in self.items) for answer in (True, False, None)]
        return "\n".join([*lines, "", f"{counts[0]} yes, {counts[1]} no, {counts[2]} do not apply here"])


Profiler = Callable[[TrainConfig], Profile]


def checklist(
    config: TrainConfig,
    *,
    profiler: Profiler | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Checklist:
    """Answers the checklist for the training that `config` describes; one a process. Nothing is saved.

    `profiler` makes the profile that two answers stand on (a short one by default).
    """
    from voxyard.trainer.devices.auto_settings import apply_auto_settings
    from voxyard.trainer.devices.placement import choose
    from voxyard.trainer.devices.tensorflow_setup import inspect_host

    config = apply_auto_settings(config)
    dataset = dataset_item(config)
    plan, host, refused = None, None, ""
    try:
        host = inspect_host(config)
        plan = choose(config, host)
    except (TrainerError, HostError) as error:
        refused = str(error)
    progress(f"profiling {PROFILE_STEPS} steps")
    measure = profiler or (lambda wanted: profile(wanted, steps=PROFILE_STEPS, progress=progress))
    found = _profiled(config, dataset, refused, measure)
    return Checklist(
        (
            profiled_item(found),
            bottleneck_item(found),
            limits_item(plan),
            visible_item(plan, host, refused),
            dataset,
            batch_item(found, plan),
            workers_item(config.data.num_workers, whole_cores()),
        )
    )


def _profiled(config: TrainConfig, dataset: Item, refused: str, measure: Profiler) -> Profile | str:
    """The profile, or the reason why there is none."""
    if not dataset.answer:
        return "not run: there is no corpus to profile with"
    if refused:
        return "not run: the devices are not there"
    try:
        return measure(config)
    except Exception as error:  # the answer to two questions, whatever it is
        log.debug("the profile failed", exc_info=True)
        return str(error) if isinstance(error, DiagnoseError) else f"{type(error).__name__}: {error}"


def profiled_item(found: Profile | str) -> Item:
    """Checks that the profiler ran."""
    if isinstance(found, str):
        return Item(PROFILED, False, found, "voxyard profile shows more")
    over = found.overlapped
    return Item(PROFILED, True, f"{over.steps.count} steps of {over.seconds_per_step * 1e3:.3g} ms, overlapped")


def bottleneck_item(found: Profile | str) -> Item:
    """Checks that the model does not wait for data."""
    if isinstance(found, str):
        return Item(BOTTLENECK, False, "not known: the profiler did not run")
    verdict = found.verdict
    waits = f"{verdict.sentence}; the model waits for data {verdict.data_wait_share:.1%} of the time"
    if verdict.withheld:
        return Item(BOTTLENECK, None, waits)
    if verdict.bottleneck is None:
        return Item(BOTTLENECK, True, waits)
    advice = [f"{each.title}: {' '.join(each.flags)}" for each in found.recommendations[:1]]
    return Item(BOTTLENECK, False, waits, advice[0] if advice else "voxyard profile shows more")


def limits_item(plan: DevicePlan | None) -> Item:
    """Checks that the memory limits fit the cards: no more than is free, no less than half of what is recommended."""
    if plan is None or plan.kind == "cpu":
        return Item(LIMITS, None, NO_GPU if plan is not None else "not known: the devices are not there")
    lines, wrong = [], []
    for one in plan.assigned:
        gpu = one.gpu
        if gpu is None or gpu.memory_total_mib is None or gpu.memory_free_mib is None:
            wrong.append(f"{one.role}: the driver does not report the card's memory")
            continue
        wanted, most = recommended_mib(gpu, one.role), gpu.memory_free_mib - HEADROOM_MIB
        said = f"{one.role}: GPU {gpu.index}, {gpu.memory_free_mib} of {gpu.memory_total_mib} MiB free"
        if one.limit_mib is None:
            lines.append(f"{said}, no limit (memory growth); {wanted} MiB is recommended")
        elif one.limit_mib > most:
            wrong.append(f"{said}, limit {one.limit_mib} MiB: more than the {most} MiB left beside {HEADROOM_MIB} MiB")
        elif one.limit_mib < SMALLEST_SHARE * min(wanted, most):
            wrong.append(f"{said}, limit {one.limit_mib} MiB: less than half of the {min(wanted, most)} recommended")
        else:
            lines.append(f"{said}, limit {one.limit_mib} MiB ({wanted} recommended)")
    text = "\n".join((*lines, *wrong))
    if wrong:
        return Item(LIMITS, False, text, "voxyard limits prints what fits this host; voxyard train --auto takes it")
    if any(one.limit_mib is None for one in plan.assigned):
        return Item(LIMITS, None, text, "--enable-memory-isolation sets limits")
    return Item(LIMITS, True, text)


def visible_item(plan: DevicePlan | None, host: HostDevices | None, refused: str) -> Item:
    """Checks that the GPUs that the training asks for can be seen."""
    if plan is None or host is None:
        return Item(VISIBLE, False, refused)
    if plan.kind == "cpu":
        return Item(VISIBLE, None, NO_GPU)
    used = "\n".join(f"{one.role}: {one.gpu}" for one in plan.assigned)
    return Item(VISIBLE, True, f"{len(host.cuda_bus_ids)} of {len(host.gpus)} GPUs can be used here\n{used}")


def dataset_item(config: TrainConfig) -> Item:
    """Checks that the corpus is there and can be read."""
    from voxyard.corpus import CorpusError
    from voxyard.trainer.corpora import open_corpora

    path = config.data.train_data
    try:
        training = open_corpora(config).training
        training.read(0)
    except (TrainerError, CorpusError) as error:
        return Item(DATASET, False, str(error), "voxyard corpus check DIR names what is wrong with a corpus")
    hours = float(training.samples.sum()) / training.sample_rate / 3600
    return Item(DATASET, True, f"{path}: {len(training)} clips, {hours:.2g} hours; the first can be read")


def batch_item(found: Profile | str, plan: DevicePlan | None) -> Item:
    """Checks that steps of this batch size ran, and how much memory they took."""
    clips = f"{plan.batch_size} clips on a device" if plan is not None else "batch size"
    if isinstance(found, str):
        memory = any(word in found for word in ("ResourceExhausted", "MemoryError", "OOM", "out of memory"))
        why = found if memory else "not known: the profiler did not run"
        return Item(BATCH, False, f"{clips}: {why}", "lower --batch-size, or add --recompute" if memory else "")
    ran = f"{clips}, {found.overlapped.steps.count} steps without running out of memory"
    cards = [
        f"{gpu.role} GPU {gpu.index}: at most {gpu.memory_used / 2**20:.0f} of {gpu.memory_size / 2**20:.0f} MiB in use"
        for gpu in found.gpus.gpus
        if gpu.memory_used is not None and gpu.memory_size
    ]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    host = f"host memory: at most {most / 2**30:.1f} GiB taken, {available_bytes() / 2**30:.1f} GiB still available"
    return Item(BATCH, True, "\n".join([ran, *(cards or [f"GPU memory {found.gpus.missing or NO_GPU}"]), host]))


def workers_item(workers: int, cores: int) -> Item:
    """Checks the number of reading threads, neither too few nor too many: 16 to 32, on a small host by its cores."""
    if cores >= BIG_HOST_CORES:
        low, high = FEWEST_WORKERS, MOST_WORKERS
    else:
        low, high = cores, min(MOST_WORKERS, max(FEWEST_WORKERS, 2 * cores))
    why = "" if cores >= BIG_HOST_CORES else f", below the 16 to 32 of big hosts: this one has {cores} cores"
    found = f"{workers} threads, {low} to {high} fit {cores} cores{why}"
    if low <= workers <= high:
        return Item(WORKERS, True, found)
    return Item(WORKERS, False, found, f"--num-workers {low if workers < low else high}")
