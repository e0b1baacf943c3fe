"""Facts that advice depends on beside the stage times: settings, corpus, host. No TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from voxyard.diagnose.other_load import OtherLoad
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.host.page_cache import Pages


@dataclass(frozen=True)
class Probed:
    """The load stage as tried with another number of threads."""

    workers: int
    seconds: float  # a batch of the stage
    pages: Pages  # that the clips lie on


@dataclass(frozen=True)
class LoadFacts:
    """Facts about the load stage."""

    workers: int  # threads
    in_thread: float  # seconds of a batch in its thread
    cpu: float  # of it, seconds in which the thread computes; the rest it waits for disk or network
    from_memory: float  # seconds that a thread takes for a batch whose clips lie decoded in memory
    pages: Pages  # that the clips lie on: what of them was cached when these times were measured
    probed: Probed | None = None


@dataclass(frozen=True)
class CorpusFacts:
    """Facts about the corpus: the source of the clips."""

    path: Path
    shards: bool
    features: bool  # precomputed, in the shards
    cached: bool
    decoded_bytes: int
    can_precompute: bool  # the model's features are mel, pitch and energy, and no step changes the sound


@dataclass(frozen=True)
class HostFacts:
    """Facts about the host."""

    kind: Literal["gpu", "cpu"]
    cores: int
    available_bytes: int
    devices: int  # GPUs, or logical CPU devices
    pair: tuple[int, int] | None = None  # the recommended data and model GPU
    pair_reason: str = ""
    compute_capability: tuple[int, int] | None = None
    model_memory_share: float | None = None  # of the model GPU, in use at the most
    recommended_batch: int | None = None


@dataclass(frozen=True)
class AdviceFacts:
    """All facts that the advice follows from."""

    costs: Costs
    overlapped: float  # measured seconds a step
    with_tracing: float  # the same with the steps that were traced in mid-run
    data_wait_share: float
    load: LoadFacts
    corpus: CorpusFacts
    host: HostFacts
    pair: tuple[str, str] | None  # data and model GPU as set, in split mode
    batch_size: int
    precision: str
    xla: bool
    recompute: bool
    static_shapes: bool
    buffer: int  # host batches that the memory allows, at most what is set
    words: tuple[str, ...] = field(default=())  # of the command line that was profiled, from `train` on
    others: OtherLoad = field(default=OtherLoad())  # beside which it was measured
