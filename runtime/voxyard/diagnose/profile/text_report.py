"""The profile as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from voxyard.diagnose.gpu_figures import GpuUse, described
from voxyard.diagnose.profile.stages import NAMES
from voxyard.trainer.reporting.figures import columns

if TYPE_CHECKING:
    from voxyard.diagnose.profile.result import Profile


UNREPORTED = "the driver does not report it"


def render(profile: Profile) -> str:
    """The sections: stage times, overlapped, gaps, GPU utilization, GPU memory, bottleneck, what to change."""
    sections = {
        "What was profiled": _setup(profile),
        "Stage times, each alone (milliseconds a batch)": _stages(profile),
        "Overlapped": _overlapped(profile),
        "Gaps": _gaps(profile),
        "Checkpoints and validation": profile.interruptions.lines(),
        "GPU utilization": _utilization(profile),
        "GPU memory": _memory(profile),
        "Where the bottleneck is": _verdict(profile),
        "What to change, and the expected gain": _advice(profile),
    }
    return "\n\n".join(
        "\n".join([title, *(f"  {line}".rstrip() for line in lines)]) for title, lines in sections.items()
    )


def ms(seconds: float) -> str:
    """Seconds as milliseconds with three digits that count."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _setup(profile: Profile) -> Iterator[str]:
    setup = profile.setup
    yield f"strategy {setup.strategy}, model {setup.model}, corpus {setup.corpus}"
    yield from setup.devices
    yield (
        f"{setup.batch} clips a step, {setup.buckets} length buckets, {setup.workers} reading threads, "
        f"host buffer {setup.buffer}, ring {setup.slots}, {setup.precision}, XLA {'on' if setup.xla else 'off'}"
    )
    yield (
        f"left out: tracing and compiling ({setup.left_out_seconds:.1f} s) and {profile.overlapped.settled} steps in "
        "which the buffers settle"
        + (f"; {profile.overlapped.traced} traced steps" if profile.overlapped.traced else "")
    )
    yield from setup.notes


def _stages(profile: Profile) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("stage", "mean", "std", "min", "p50", "p95", "max", "share")]
    for each in profile.stages:
        one = each.figures
        values = (one.mean, one.std, one.min, one.p50, one.p95, one.max)
        rows.append((each.stage, *(ms(value) for value in values), f"{each.share:.0%}"))
    yield from columns(rows, numbers=True)
    yield from (f"{each.stage}: {each.note}" for each in profile.stages if each.note)


def _overlapped(profile: Profile) -> Iterator[str]:
    over = profile.overlapped
    yield f"{ms(over.seconds_per_step)} ms a step, {over.samples_per_second:.3g} clips/s, over {over.steps.count} steps"
    yield f"ideal: {ms(over.ideal_seconds)} ms, the time of {over.ideal_bound_by} alone"
    if over.has_gap:
        yield (
            f"the gap between the two costs {ms(over.lost_seconds)} ms a step, "
            f"{over.lost_samples_per_second:.3g} clips/s ({over.lost_seconds / over.seconds_per_step:.0%})"
        )
    else:
        yield "no gap: overlapped it is as fast as its slowest part alone"
    yield from profile.reads.lines()
    yield f"the model waits for data {over.data_wait_share:.1%} of the time; CPU use {over.cpu_use:.0%} of the cores"
    yield f"std/mean of the steps {over.variation:.2f}, within a length bucket {over.variation_within_buckets:.2f}"


def _gaps(profile: Profile) -> Iterator[str]:
    found = profile.overlapped.gaps
    waits = found.model_waits
    if waits.count:
        yield (
            f"model device: {waits.count} waits longer than 1 ms, mean {ms(waits.mean)} ms, p95 {ms(waits.p95)} ms, "
            f"longest {ms(waits.max)} ms (step {found.longest_at_step})"
        )
    else:
        yield "model device: no wait longer than 1 ms"
    if profile.costs.layout == "split":
        yield (
            f"data device: busy {found.data_busy_share:.0%}, waits for the host {found.data_starved_share:.0%}, "
            f"waits for a free slot {found.data_blocked_share:.0%} (that is well: the model is slower)"
        )
    yield f"reading threads: {found.readers_busy:.1f} of {profile.setup.workers} at work on average"


def _utilization(profile: Profile) -> Iterator[str]:
    if profile.gpus.missing is not None:
        yield profile.gpus.missing
    for gpu in profile.gpus.gpus:
        one = gpu.utilization
        said = f"mean {one.mean:.0%}, p50 {one.p50:.0%}, max {one.max:.0%}" if one.count else UNREPORTED
        yield f"{_name(gpu)}: {said}"
        if gpu.activity:
            yield f"{_name(gpu)}: {described(gpu.activity)}"
    if profile.setup.kind == "cpu":
        for role, use in profile.use.items():
            yield f"{role} device: busy {use.value or 0:.0%} ({use.source})"
    if profile.data_device_ceiling is not None:
        expected = f"the stages alone predict {profile.data_device_ceiling:.0%} for the data device: D/max(D, M)"
        yield f"{expected}; stages that share cores take longer together" if profile.setup.kind == "cpu" else expected


def _memory(profile: Profile) -> Iterator[str]:
    if profile.gpus.missing is not None:
        yield profile.gpus.missing
    for gpu in profile.gpus.gpus:
        if gpu.memory_used is None or not gpu.memory_size:
            yield f"{_name(gpu)}: {UNREPORTED}"
        else:
            used, size = gpu.memory_used / 2**20, gpu.memory_size / 2**20
            yield f"{_name(gpu)}: {used:.0f} of {size:.0f} MiB at most ({used / size:.0%})"


def _name(gpu: GpuUse) -> str:
    return f"{gpu.role} GPU {gpu.index} ({gpu.name})"


def _verdict(profile: Profile) -> Iterator[str]:
    verdict = profile.verdict
    yield verdict.sentence
    if verdict.disturbed and not verdict.withheld:
        yield f"the measurement was disturbed, and the figures are rough: {verdict.disturbed}"
    for word, cause in (("cause", verdict.cause), ("also", verdict.also)):
        if cause is not None:
            yield f"{word}: {cause.title} ({cause.name}); {cause.remedy}"
    if verdict.explanation:
        yield verdict.explanation
    for each in verdict.annotations:
        sign = "<" if each.value < each.threshold else ">"
        yield f"- {each.sentence}: {each.value:.0%} {sign} {each.threshold:.0%}"


def _advice(profile: Profile) -> Iterator[str]:
    if profile.verdict.withheld:
        yield "nothing is advised from a disturbed measurement"
        return
    if withheld := profile.reads.withheld:
        yield withheld
    if profile.verdict.disturbed:
        yield "other programs took cores or GPUs: no gain is predicted that depends on these; measure again alone"
    elif not profile.recommendations:
        yield f"nothing that the measured times would reward: {NAMES[profile.verdict.bound_by]} is what the work takes"
    for number, each in enumerate(profile.recommendations, 1):
        yield f"{number}. {each.title}: {each.gain_text()}" + (
            f", {ms(each.seconds_per_step)} ms a step; then bound by {each.then}" if each.seconds_per_step else ""
        )
        yield f"   {each.why}"
        yield from (f"   $ {line}" for line in each.command)
