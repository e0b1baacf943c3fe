"""Setup of a profiled run, and the facts of its settings, corpus and host that advice depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voxyard.corpus.cache import CachedSource
from voxyard.corpus.shards import is_shards
from voxyard.diagnose.profile.facts import AdviceFacts, CorpusFacts, HostFacts, LoadFacts, Probed
from voxyard.diagnose.profile.result import Overlapped, Setup
from voxyard.host.cores import whole_cores
from voxyard.host.errors import HostError
from voxyard.host.limits import recommend
from voxyard.host.memory import available_bytes
from voxyard.host.nvml import every_gpu
from voxyard.host.plan import plan_trainer, read_links
from voxyard.settings import flags_of
from voxyard.trainer.config import TrainConfig

if TYPE_CHECKING:
    from voxyard.diagnose.gpu_figures import GpuFigures
    from voxyard.diagnose.other_load import OtherLoad
    from voxyard.diagnose.profile.cost_model import Costs
    from voxyard.diagnose.profile.measure import LoadTiming, StageBenchmark
    from voxyard.trainer.loop import Run

_PRECOMPUTED = {"mel", "pitch", "energy"}  # what `corpus prepare --features` writes
_NOT_TRAINED_WITH = {"training.auto"}  # carried out already


def advice_facts_of(
    config: TrainConfig,
    run: Run,
    benchmark: StageBenchmark,
    costs: Costs,
    loading: LoadTiming,
    probed: Probed | None,
    overlapped: Overlapped,
    gpus: GpuFigures,
    others: OtherLoad,
) -> AdviceFacts:
    """The facts of a run that was profiled."""
    data, training = run.config.data, run.config.training
    split = run.devices.strategy == "split"
    return AdviceFacts(
        costs=costs,
        overlapped=overlapped.seconds_per_step,
        with_tracing=(overlapped.timeline.end - overlapped.timeline.begin) / len(overlapped.timeline.steps),
        data_wait_share=overlapped.data_wait_share,
        load=_load(benchmark, loading, probed),
        corpus=_corpus(run),
        host=_host(run, gpus),
        pair=(str(data.data_gpu), str(data.model_gpu)) if split else None,
        batch_size=run.devices.batch_size,
        precision=training.precision,
        xla=bool(training.xla),
        recompute=training.recompute,
        static_shapes=data.static_shapes,
        buffer=benchmark.buffer,
        words=("train", *flags_of(config, leave_out=_NOT_TRAINED_WITH)),
        others=others,
    )


def setup_of(run: Run, benchmark: StageBenchmark, facts: AdviceFacts, overlapped: Overlapped) -> Setup:
    """Setup that was profiled, for the head of a report."""
    config, model = run.config, run.config.model
    notes = []
    if overlapped.epochs > 1:
        notes.append(
            f"the corpus has {run.sampler.steps_per_epoch} batches an epoch and was gone through "
            f"{overlapped.epochs} times: each time its clips were dropped from the page cache again"
        )
    if benchmark.buffer < config.data.pipeline_buffer_size:
        notes.append(
            f"the memory allows {benchmark.buffer} host batches of the {config.data.pipeline_buffer_size} asked for"
        )
    return Setup(
        strategy=run.devices.strategy,
        kind=run.devices.kind,
        devices=run.devices.description,
        model=f"{model.module or model.size} ({run.step.model.count_params() / 1e6:.1f} M parameters)",
        corpus=f"{facts.corpus.path} ({len(run.corpora.training)} clips)",
        batch=run.rows,
        workers=config.data.num_workers,
        slots=config.data.prefetch_buffer_size,
        buffer=benchmark.buffer,
        precision=config.training.precision,
        xla=bool(config.training.xla),
        buckets=len(run.buckets),
        command=("voxyard", *facts.words),
        left_out_seconds=benchmark.left_out_seconds,
        notes=tuple(notes),
    )


def _load(benchmark: StageBenchmark, loading: LoadTiming, probed: Probed | None) -> LoadFacts:
    return LoadFacts(
        workers=loading.workers,
        in_thread=loading.in_thread,
        cpu=loading.cpu,
        from_memory=benchmark.from_memory(),
        pages=loading.pages,
        probed=probed,
    )


def _corpus(run: Run) -> CorpusFacts:
    config, source = run.config, run.corpora.training
    path = config.data.train_data
    if path is None:
        raise ValueError("a run without a corpus")
    spec = run.step.trainable.batch_spec(run.buckets[0], run.rows)
    return CorpusFacts(
        path=path,
        shards=is_shards(path),
        features=bool(source.feature_names),
        cached=config.data.cache_dataset or config.data.cache_file is not None,
        decoded_bytes=CachedSource.size(source),
        can_precompute=spec.keys() >= _PRECOMPUTED and config.data.gain_augment_db == 0,
    )


def _host(run: Run, gpus: GpuFigures) -> HostFacts:
    devices, training = run.devices, run.config.training
    cores = whole_cores()
    if devices.kind == "cpu":
        return HostFacts("cpu", cores, available_bytes(), training.cpu_devices)
    found = every_gpu()
    totals = [gpu.memory_total_mib for role, gpu in devices.cards if role == "model" and gpu.memory_total_mib]
    shares = [
        use.memory_used / use.memory_size
        for use in gpus.gpus
        if use.role == "model" and use.memory_used is not None and use.memory_size
    ]
    pair, reason = _pair(found)
    return HostFacts(
        kind="gpu",
        cores=cores,
        available_bytes=available_bytes(),
        devices=len(found),
        pair=pair,
        pair_reason=reason,
        compute_capability=devices.compute_capability,
        model_memory_share=max(shares, default=None),
        recommended_batch=recommend(min(totals)).batch_size if totals else None,
    )


def _pair(found: Any) -> tuple[tuple[int, int] | None, str]:
    """The pair that this host's plan would take; none where there is none."""
    if len(found) < 2:
        return None, ""
    try:
        plan = plan_trainer(found, read_links())
    except HostError:
        return None, ""
    data = plan.limits.data
    return (None, "") if data is None else ((data.index, plan.limits.model.index), plan.reason)
