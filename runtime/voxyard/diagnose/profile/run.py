"""Profile: the trainer's real pipeline, each stage alone and then all of them overlapped; what it costs, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_meter import GpuFigures, GpuMeter
from voxyard.diagnose.profile.advice import advise
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.describe import setup_of, situation_of
from voxyard.diagnose.profile.facts import Probed, Situation
from voxyard.diagnose.profile.reads import Reads
from voxyard.diagnose.profile.result import Overlapped, Profile
from voxyard.diagnose.profile.stages import Stage, figures, with_shares
from voxyard.diagnose.profile.timeline import gaps, measured_part
from voxyard.diagnose.profile.verdict import DeviceUse, judge
from voxyard.trainer.config import TrainConfig

if TYPE_CHECKING:
    from voxyard.diagnose.profile.measure import Bench, Loading, Overlap
    from voxyard.trainer.loop import Run

FEWEST_STEPS = 5


def _say_nothing(_: str) -> None:
    """Hears what is measured now, and keeps it."""


def profile(
    config: TrainConfig,
    *,
    steps: int = 100,
    gpu_monitoring: bool = True,
    progress: Callable[[str], None] = _say_nothing,
) -> Profile:
    """Profiles the training that `config` describes; one a process, since TensorFlow's devices are set once.

    Nothing is saved, and the run's checkpoints are neither read nor written. `progress` hears what is measured now.
    Raises DiagnoseError, TrainerError, CorpusError or HostError with what was found, expected and to be done.
    """
    if steps < FEWEST_STEPS:
        raise DiagnoseError(f"--num-steps {steps}: fewer than {FEWEST_STEPS} steps say nothing; 100 is the default")
    if config.training.strategy == "auto":
        raise DiagnoseError(
            "--strategy auto times the strategies by itself (`voxyard train`); a profile is of one of them: give "
            "--strategy single, mirrored, or split (--data-gpu ID --model-gpu ID)"
        )
    from voxyard.corpus.cold import ColdSource
    from voxyard.trainer.corpora import open_corpora
    from voxyard.trainer.devices.auto_settings import settle
    from voxyard.trainer.devices.tensorflow_setup import prepare

    config = settle(config)
    corpora = open_corpora(config)
    source = ColdSource(corpora.training)
    devices = prepare(config)  # before anything else touches TensorFlow
    from voxyard.diagnose.profile.measure import Bench
    from voxyard.trainer.loop import Run

    with tempfile.TemporaryDirectory(prefix="voxyard-profile-") as directory:
        run = Run(_beside_the_run(config, Path(directory)), devices, replace(corpora, training=source))
        found = _measured(config, run, Bench(run, steps, source), gpu_monitoring, progress)
    source.forget()
    return found


def _beside_the_run(config: TrainConfig, directory: Path) -> TrainConfig:
    """The same training with no checkpoints of its own, neither to begin with nor to leave behind."""
    aside = {"checkpoint_dir": directory / "none", "resume": True, "init_from": None}
    return config.model_copy(update={"training": config.training.model_copy(update=aside)})


def _measured(
    config: TrainConfig, run: Run, bench: Bench, gpu_monitoring: bool, progress: Callable[[str], None]
) -> Profile:
    steps = bench.steps
    if bench.fill_cache():
        progress("the dataset cache was filled with what is coming, which is left out")
    progress(f"load alone: {steps} batches with {run.config.data.num_workers} threads")
    loading = bench.load()
    progress("tracing and compiling, which is left out")
    bench.prime()
    progress(f"features, transfer and training alone: {steps} batches each")
    measured = {"load": loading.seconds, **bench.stages()}
    costs = _costs(run, loading, measured)
    probed = _probe(bench, loading, costs, progress)
    progress(f"overlapped: {bench.settling} steps to settle, {steps} that count")
    with GpuMeter(run.devices.cards, wanted=gpu_monitoring) as meter:
        overlap = bench.overlapped()
    gpus = meter.figures()
    overlapped = _overlapped(run, overlap, costs)
    stages = with_shares(measured, _notes(run, loading))
    use = _use(run, gpus, overlapped)
    looks = {"load alone": loading.pages, "overlapped": overlap.pages}
    reads = Reads(looks if probed is None else looks | {f"{probed.workers} threads": probed.pages})
    verdict = judge(
        stages,
        costs=costs,
        data_wait_share=overlapped.data_wait_share,
        variation=overlapped.variation,
        variation_within_buckets=overlapped.variation_within_buckets,
        use=use,
        reads=reads.pages,
    )
    situation: Situation = situation_of(config, run, bench, costs, loading, probed, overlapped, gpus)
    return Profile(
        setup=setup_of(run, bench, situation, overlapped),
        stages=stages,
        costs=costs,
        overlapped=overlapped,
        use=use,
        gpus=gpus,
        verdict=verdict,
        recommendations=advise(situation),
        reads=reads,
    )


def _costs(run: Run, loading: Loading, measured: Mapping[Stage, tuple[float, ...]]) -> Costs:
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


def _probe(bench: Bench, loading: Loading, costs: Costs, progress: Callable[[str], None]) -> Probed | None:
    """The load stage once more with as many threads as could cure it: whether they do depends on the disk.

    The same batches in both looks, since a disk reads ahead: of clips that lie close together each costs less. What the
    page cache gave says nothing about the disk, and is no reason to try.
    """
    wanted = bench.threads_that_could_help(loading, goal=costs.changed(load=0.0).step)
    if loading.per_batch < 0.8 * costs.step or wanted <= loading.workers or not loading.pages.trusted:
        return None
    progress(f"load alone once more, with {wanted} threads")
    batches = max(wanted, len(loading.reads))
    now = loading if batches == len(loading.reads) else bench.load(batches=batches, first=0)
    tried = bench.load(wanted, batches=batches, first=0)
    return Probed(wanted, loading.per_batch * tried.per_batch / now.per_batch, now.pages + tried.pages)


def _overlapped(run: Run, overlap: Overlap, costs: Costs) -> Overlapped:
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


def _notes(run: Run, loading: Loading) -> dict[Stage, str]:
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
