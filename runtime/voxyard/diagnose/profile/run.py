"""Profile: the trainer's real pipeline, each stage alone and then all of them overlapped; what it costs, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from voxyard.corpus.cold import ColdSource
from voxyard.diagnose.dry_run import build_dry_run
from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import READ_SECONDS, GpuFigures, gpu_figures
from voxyard.diagnose.other_load import OtherLoadWatch, busy_gpus
from voxyard.diagnose.profile.advice import advise
from voxyard.diagnose.profile.bottleneck_cause import ReadingThreads
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.describe import advice_facts_of, setup_of
from voxyard.diagnose.profile.facts import AdviceFacts, Probed
from voxyard.diagnose.profile.interruptions import measure_interruptions
from voxyard.diagnose.profile.measure import LoadTiming, OverlappedRun, StageBenchmark
from voxyard.diagnose.profile.result import Overlapped, Profile, Reads
from voxyard.diagnose.profile.stages import Stage, figures, with_shares
from voxyard.diagnose.profile.timeline import gaps, measured_part
from voxyard.diagnose.profile.verdict import DeviceUse, judge
from voxyard.host.cores import whole_cores
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import longest_of, open_corpora
from voxyard.trainer.devices.auto_settings import apply_auto_settings
from voxyard.trainer.devices.tensorflow_setup import prepare_devices
from voxyard.trainer.out_of_memory import Doing, told_out_of_memory

if TYPE_CHECKING:
    from voxyard.trainer.loop import Run

FEWEST_STEPS = 5


def _discard(_: str) -> None:
    """Default of `progress`: discards the message."""


def profile(
    config: TrainConfig,
    *,
    steps: int = 100,
    gpu_monitoring: bool = True,
    progress: Callable[[str], None] = _discard,
) -> Profile:
    """Profiles the training that `config` describes; one a process, since TensorFlow's devices are set once.

    Nothing is saved, and the run's checkpoints are neither read nor written. `progress` is called with a line before
    each measurement. Raises DiagnoseError, TrainerError, CorpusError or HostError.
    """
    if steps < FEWEST_STEPS:
        raise DiagnoseError(f"--num-steps {steps}: expected {FEWEST_STEPS} or more; 100 is the default")
    if config.training.strategy == "auto":
        raise DiagnoseError(
            "--strategy auto times the strategies by itself (`voxyard train`); a profile is of one of them: give "
            "--strategy single, mirrored, or split (--data-gpu ID --model-gpu ID)"
        )
    config = apply_auto_settings(config)
    corpora = open_corpora(config)
    source = ColdSource(corpora.training)
    with tempfile.TemporaryDirectory(prefix="voxyard-profile-") as directory:
        clips = corpora.training
        devices = prepare_devices(config, corpus=clips.fingerprint, longest=longest_of(config, clips))
        others = OtherLoadWatch(gpus=busy_gpus(devices.cards) if gpu_monitoring else ())
        run = build_dry_run(config, Path(directory), devices=devices, corpora=replace(corpora, training=source))
        with told_out_of_memory(config, devices, lambda: Doing("in the profile"), lambda: "Nothing was saved."):
            found = _measured(config, run, StageBenchmark(run, steps, source), gpu_monitoring, others, progress)
    source.drop_read_clips()
    return found


def _measured(
    config: TrainConfig,
    run: Run,
    benchmark: StageBenchmark,
    gpu_monitoring: bool,
    others: OtherLoadWatch,
    progress: Callable[[str], None],
) -> Profile:
    steps = benchmark.steps
    with others:
        if benchmark.fill_cache():
            progress("dataset cache filled with the clips of the coming batches (not timed)")
        progress(f"load alone: {steps} batches with {run.config.data.num_workers} threads")
        loading = benchmark.load()
        progress("tracing and compiling (not timed)")
        benchmark.warm_up()
        progress(f"features, transfer and training alone: {steps} batches each")
        measured = {"load": loading.seconds, **benchmark.stages()}
        costs = _costs(run, loading, measured)
        probed = _probe(benchmark, loading, costs, progress)
        progress(f"overlapped: {benchmark.settling} steps of warm-up, {steps} measured")
        with GpuWatch(run.devices.cards, interval=READ_SECONDS, enabled=gpu_monitoring) as watch:
            overlap = benchmark.overlapped()
    gpus = gpu_figures(watch)
    overlapped = _overlapped(run, overlap, costs)
    progress("a checkpoint and a validation")
    interruptions = measure_interruptions(run, overlapped.seconds_per_step, steps, config.training.checkpoint_dir)
    stages = with_shares(measured, _notes(run, loading))
    use = _use(run, gpus, overlapped)
    pages = {"load alone": loading.pages, "overlapped": overlap.pages}
    reads = Reads(pages if probed is None else pages | {f"{probed.workers} threads": probed.pages})
    verdict = judge(
        stages,
        costs=costs,
        data_wait_share=overlapped.data_wait_share,
        variation=overlapped.variation,
        variation_within_buckets=overlapped.variation_within_buckets,
        use=use,
        activity=gpus.activity("model"),
        batch=run.rows,
        reads=reads.pages,
        reading=_reading(loading),
        others=others.load,
        interruptions=interruptions,
        computing={"load": loading.cpu / loading.in_thread if loading.in_thread else 0.0, **benchmark.computing},
    )
    facts: AdviceFacts = advice_facts_of(config, run, benchmark, costs, loading, probed, overlapped, gpus, others.load)
    return Profile(
        setup=setup_of(run, benchmark, facts, overlapped),
        stages=stages,
        costs=costs,
        overlapped=overlapped,
        use=use,
        gpus=gpus,
        verdict=verdict,
        recommendations=() if verdict.withheld else advise(facts),
        reads=reads,
        others=others.load,
        interruptions=interruptions,
    )


def _costs(run: Run, loading: LoadTiming, measured: Mapping[Stage, tuple[float, ...]]) -> Costs:
    mean = {stage: figures(seconds).mean for stage, seconds in measured.items()}
    return Costs(
        load=loading.per_batch,
        features=mean.get("features", 0.0),
        transfer=mean["transfer"],
        train=mean["train"],
        layout=run.devices.strategy,
        slots=run.config.data.prefetch_buffer_size,
        samples=run.rows,
    )


def _reading(loading: LoadTiming) -> ReadingThreads:
    return ReadingThreads(
        threads=loading.workers,
        cores=whole_cores(),
        computing=loading.cpu / loading.in_thread if loading.in_thread else 0.0,
        taken=loading.cpu * len(loading.reads) / loading.wall if loading.wall else 0.0,
        lock_held=loading.lock_held,
        queued=None if loading.queued is None or not loading.in_thread else loading.queued / loading.in_thread,
        in_memory=loading.pages.state in ("warm", "none"),
    )


def _probe(
    benchmark: StageBenchmark, loading: LoadTiming, costs: Costs, progress: Callable[[str], None]
) -> Probed | None:
    """Measures the load stage again with as many threads as could cure it; whether they do depends on the disk.

    Both measurements read the same batches, since a disk reads ahead: clips that lie close together cost less each.
    None where no more threads are needed, or where the clips came from the page cache and not from the disk.
    """
    wanted = benchmark.threads_that_could_help(loading, goal=costs.changed(load=0.0).step)
    if loading.per_batch < 0.8 * costs.step or wanted <= loading.workers or not loading.pages.trusted:
        return None
    progress(f"load alone once more, with {wanted} threads")
    batches = max(wanted, len(loading.reads))
    now = loading if batches == len(loading.reads) else benchmark.load(batches=batches, first=0)
    tried = benchmark.load(wanted, batches=batches, first=0)
    return Probed(wanted, loading.per_batch * tried.per_batch / now.per_batch, now.pages + tried.pages)


def _overlapped(run: Run, overlap: OverlappedRun, costs: Costs) -> Overlapped:
    timeline = measured_part(overlap.recorded, overlap.skipped)
    counted = [step.seconds for step in timeline.steps if not step.traced]
    if not counted:
        raise DiagnoseError(
            f"every one of {len(timeline.steps)} steps met a new shape and was traced: leave out "
            "--no-enable-static-shapes, so that batches are padded to length buckets",
            exit_code=1,
        )
    found = gaps(overlap.recorded, timeline)
    return Overlapped(
        steps=figures(counted),
        data_wait_share=found.model_share,
        variation_within_buckets=overlap.clock.variation_within_buckets,
        samples=run.rows,
        ideal_seconds=costs.step,
        ideal_bound_by=costs.bound_by,
        gaps=found,
        timeline=timeline,
        cpu_use=overlap.cpu_use,
        traced=len(timeline.steps) - len(counted),
        settled=overlap.skipped,
        epochs=overlap.epochs,
    )


def _use(run: Run, gpus: GpuFigures, overlapped: Overlapped) -> dict[str, DeviceUse]:
    """Utilisation of the devices: NVML's, on a CPU the share of the time in which its function ran."""
    split = run.devices.strategy == "split"
    if run.devices.kind == "gpu":
        roles = ("data", "model") if split else ("model",)
        source = gpus.missing or "NVML's utilization"
        return {role: DeviceUse(gpus.utilization(role), source) for role in roles}
    source = "share of the time in which the CPU device's function ran"
    use = {"model": DeviceUse(1 - overlapped.data_wait_share, source)}
    return {"data": DeviceUse(overlapped.gaps.data_busy_share, source), **use} if split else use


def _notes(run: Run, loading: LoadTiming) -> dict[Stage, str]:
    notes: dict[Stage, str] = {
        "load": (
            f"{loading.workers} threads, {loading.concurrency:.1f} at once; a batch takes one of them "
            f"{loading.in_thread * 1e3:.3g} ms, {loading.cpu / loading.in_thread:.0%} of it computing; "
            f"reads: {loading.pages}"
        )
    }
    if run.devices.strategy == "mirrored":
        notes["train"] = "the features of each replica's part are in it"
    elif run.corpora.training.feature_names:
        notes["features"] = "precomputed: only the copy onto the data device is left"
    return notes
