"""Profiles made up for tests: stage times as wanted, a timeline that follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voxyard.diagnose.gpu_figures import NO_GPU, GpuFigures
from voxyard.diagnose.profile.advice import advise
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.facts import AdviceFacts, CorpusFacts, HostFacts, LoadFacts
from voxyard.diagnose.profile.result import Overlapped, Profile, Reads, Setup
from voxyard.diagnose.profile.stages import StageTimes, figures, with_shares
from voxyard.diagnose.profile.timeline import Recorded, Span, StepSpan, Timeline, gaps, measured_part
from voxyard.diagnose.profile.verdict import ALONE, UNINTERRUPTED, DeviceUse, judge
from voxyard.host.page_cache import Pages

COLD = Pages(1000, 0)
WORDS = ("train", "--train-data", "corpus", "--data-gpu", "0", "--model-gpu", "1", "--device", "cpu")


def stage_times(
    load: float, features: float, transfer: float, train: float, *, count: int = 40
) -> tuple[StageTimes, ...]:
    """Stages of constant length, in seconds a batch."""
    means = {"load": load, "features": features, "transfer": transfer, "train": train}
    return with_shares({stage: (mean,) * count for stage, mean in means.items()})  # type: ignore[misc]


def advice_facts(costs: Costs, **values: Any) -> AdviceFacts:
    """Facts of a split over logical CPU devices, recordings on a disk; `host`, `corpus`, `load` hold what differs."""
    host = {"kind": "cpu", "cores": 4, "available_bytes": 2**34, "devices": 2} | values.pop("host", {})
    corpus = {
        "path": Path("corpus"), "shards": False, "features": False, "cached": False, "decoded_bytes": 2**30,
        "can_precompute": True,
    } | values.pop("corpus", {})  # fmt: skip
    load = {
        "workers": 2, "in_thread": 2 * costs.load, "cpu": 0.1 * costs.load, "from_memory": 1e-4, "pages": COLD,
    } | values.pop("load", {})  # fmt: skip
    facts: dict[str, Any] = {
        "costs": costs, "overlapped": costs.step, "with_tracing": costs.step,
        "data_wait_share": 0.3, "pair": ("0", "1"),
        "batch_size": 4, "precision": "float32", "xla": False, "recompute": False, "static_shapes": True,
        "buffer": 50, "words": WORDS,
    } | values  # fmt: skip
    return AdviceFacts(load=LoadFacts(**load), corpus=CorpusFacts(**corpus), host=HostFacts(**host), **facts)


def recorded(load: float, data: float, train: float, *, steps: int, slots: int = 3) -> Recorded:
    """Recording of a pipeline of one reading thread, a data device and a model device, by its own rules."""
    reads: list[Span] = []
    made: list[Span] = []
    done: list[StepSpan] = []
    asks: list[float] = []
    read = staged = trained = 0.0
    for number in range(steps + 20):
        reads.append((read, read + load))
        read += load
        free = asks[number - slots + 1] if number >= slots else 0.0
        begin = max(read, staged, free)
        staged = begin + data
        made.append((begin, staged))
        asks.append(trained)
        got = max(trained, staged)
        done.append(StepSpan(trained, got, got + train))
        trained = got + train
    end = done[steps - 1].done
    return Recorded([one for one in reads if one[0] < end], [one for one in made if one[0] < end], done[:steps], slots)


def made_up(load: float, features: float, transfer: float, train: float, /, **values: Any) -> Profile:
    """A whole profile of these stage times; `reads`, `others`, `interruptions` and facts for advice may be given."""
    reads = values.pop("reads", Reads({"load alone": COLD, "overlapped": COLD}))
    others = values.pop("others", ALONE)
    interruptions = values.pop("interruptions", UNINTERRUPTED)
    costs = Costs(load, features, transfer, train, samples=4)
    stages = stage_times(load, features, transfer, train)
    record = recorded(load, features + transfer, train, steps=44)
    timeline: Timeline = measured_part(record, 4)
    found = gaps(record, timeline)
    overlapped = Overlapped(
        steps=figures([step.seconds for step in timeline.steps]), data_wait_share=found.model_share,
        variation_within_buckets=0.1, samples=4, ideal_seconds=costs.step, ideal_bound_by=costs.bound_by, gaps=found,
        timeline=timeline, cpu_use=0.5, traced=0, settled=4, epochs=1,
    )  # fmt: skip
    use = {
        "data": DeviceUse(found.data_busy_share, "share of the time in which the CPU device's function ran"),
        "model": DeviceUse(1 - found.model_share, "share of the time in which the CPU device's function ran"),
    }
    setup = Setup(
        strategy="split", kind="cpu", devices=("data: logical CPU device 0", "model: logical CPU device 1"),
        model="tiny (6.1 M parameters)", corpus="corpus (1000 clips)", batch=4, workers=2, slots=3, buffer=50,
        precision="float32", xla=False, buckets=3, command=("voxyard", *WORDS), left_out_seconds=3.2,
    )  # fmt: skip
    verdict = judge(
        stages, costs=costs, data_wait_share=found.model_share, variation=overlapped.variation, use=use,
        variation_within_buckets=0.1, reads=reads.pages, others=others, interruptions=interruptions,
    )  # fmt: skip
    values["load"] = values.get("load", {}) | {"pages": reads.measurements["load alone"]}
    facts = advice_facts(
        costs, overlapped=overlapped.seconds_per_step, data_wait_share=found.model_share, others=others, **values
    )
    return Profile(
        setup=setup, stages=stages, costs=costs, overlapped=overlapped, use=use, gpus=GpuFigures(missing=NO_GPU),
        verdict=verdict, recommendations=() if verdict.withheld else advise(facts), reads=reads, others=others,
        interruptions=interruptions,
    )  # fmt: skip
