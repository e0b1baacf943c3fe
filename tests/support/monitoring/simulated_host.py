"""Simulated GPU host: voxyard's collectors over generated values, on simulated time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

from voxyard.host.nvml import Gpu
from voxyard.host.readings import DeviceMemory, Reading
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.scheduler import PoolStats
from voxyard.telemetry import input_metrics, workloads
from voxyard.telemetry.configuration import HASH_VARIABLE, RELEASE_VARIABLE, ExpectedConfigurations, HostPlan
from voxyard.telemetry.gpu_collector import GpuCollector
from voxyard.telemetry.input_metrics import InputMetrics
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot, Xid
from voxyard.telemetry.workloads import Phase, TrainMetrics, WorkloadGpus

disable_created_metrics()  # type: ignore[no-untyped-call]  # as what serves them does

GIB = 1 << 30
LIMIT_MIB = 65_536
IDLE_CLOCK = 345e6  # hertz

Scrape = dict[str, float]
"""Values by series, as PromQL writes it, without the labels of the target."""


@dataclass
class SimulatedGpu:
    """State of a card; a fault changes it."""

    gpu: Gpu
    utilization: float = 0.0  # 0…1
    temperature: float = 45.0
    memory_used: int = 2 * GIB
    up: bool = True
    clock_events: set[str] = field(default_factory=set)
    power_limit: float = 700.0
    sm_clock: float = 1.755e9
    processes: int | None = None  # None: those of its workloads
    workloads: int = 0
    pcie_width: int = 16
    pcie_generation: int = 5  # under load
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    xids: dict[int, Xid] = field(default_factory=dict)
    busy_seconds: float = 0.0
    activity: dict[str, float] = field(default_factory=dict)  # 0…1 by part; empty: an older card
    memory_clock: float = 2.619e9
    memory_temperature: float | None = None  # None: a little warmer than the GPU
    mig: bool = False
    fabric_state: str = "completed"
    nvlinks_active: int = 18
    active_seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def number(cls, index: int) -> SimulatedGpu:
        """Card `index` of the host, idle."""
        uuid, bus = f"GPU-{index:08x}-1111-2222-3333-000000000000", f"00000000:{0x10 + index:02X}:00.0"
        return cls(Gpu(index, uuid, "NVIDIA H100 80GB HBM3", bus, 81_920, 79_872, (9, 0)))

    def state(self) -> GpuState:
        """As the sampler tells it."""
        reading = self._reading() if self.up else None
        busy, ratio = (self.busy_seconds, self.utilization) if self.up else (None, None)
        return GpuState(self.gpu, self.up, reading, ratio, busy, dict(self.xids))

    @property
    def idle(self) -> bool:
        """Nothing runs on it to speak of: a real card lets its clocks fall then."""
        return self.utilization <= 0.05

    def _reading(self) -> Reading:
        clock = min(self.sm_clock, IDLE_CLOCK) if self.idle else self.sm_clock
        events = self.clock_events | ({"gpu_idle"} if self.idle else set())
        reasons = ("gpu_idle", "sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake")
        return Reading(
            samples=None,
            utilization_ratio=self.utilization,
            memory_activity_ratio=self.utilization / 2,
            encoder_ratio=0,
            decoder_ratio=0,
            memory=DeviceMemory(80 * GIB, self.memory_used, 80 * GIB - self.memory_used, GIB),
            power_watts=120 + 500 * self.utilization,
            power_limit_watts=self.power_limit,
            temperature_celsius=self.temperature,
            fan_ratio=None,
            clocks_hertz={"sm": int(clock), "memory": int(self.memory_clock)},
            clocks_max_hertz={"sm": 1_980_000_000, "memory": 2_619_000_000},
            clock_events={reason: reason in events for reason in reasons},
            pcie_link={
                "width": self.pcie_width,
                "width_max": 16,
                "generation": self.pcie_generation if self.utilization else 1,
                "generation_max": 5,
            },
            totals={
                "energy_joules": 1e6,
                "ecc_corrected_volatile": self.ecc_corrected,
                "ecc_uncorrected_volatile": self.ecc_uncorrected,
                "remapped_pending": 0,
                "remapped_failure": 0,
                "pcie_replays": 0,
                **{f"activity_{part}": seconds for part, seconds in self.active_seconds.items()},
                **{f"nvlink_errors_{kind}": 0 for kind in ("crc", "replay", "recovery")},
            },
            processes=(),
            memory_temperature_celsius=self.memory_temperature or self.temperature + 8,
            power_limit_default_watts=700,
            process_count=self.workloads if self.processes is None else self.processes,
            recovery_action="none",
            fabric_state=self.fabric_state,
            mig_enabled=self.mig,
            nvlinks_active=self.nvlinks_active,
        )


@dataclass
class Reads:
    """Input of a run: what its reading threads and its data stage do with their time."""

    threads: int = 8
    cores: int = 32
    reading: float = 0.3  # share of the threads' time in which they make batches
    computing: float = 0.9  # share of that in which they compute
    waiting: float = 0.02  # share of time in which the data stage waits for them
    lock_held: float = 0.1  # share of the looks at which one of them held Python's lock
    queued: float | None = 0.0  # share of it in which they could compute and have no core; None: not told
    features: float = 0.05  # seconds of a batch alone, whatever its step waits for
    transfer: float = 0.005
    second_network: float = 0.0  # of a step's time, on the data GPU

    def advance(self, metrics: InputMetrics, seconds: float) -> None:
        """So many seconds of reading; the data stage is timed on one batch of them."""
        metrics.sizes(threads=self.threads, cores=lambda: self.cores)
        made = seconds * self.threads * self.reading
        metrics.read(made, made * self.computing, None if self.queued is None else made * self.queued)
        metrics.waited(seconds * self.waiting)
        for look in range(10):
            metrics.looked(look < 10 * self.lock_held)
        metrics.staged("features", self.features)
        metrics.staged("transfer", self.transfer)
        if self.second_network:
            metrics.trained_beside(seconds * self.second_network)


@dataclass
class SimulatedRun:
    """A training run: what a step takes, and how much of it is waiting."""

    metrics: TrainMetrics
    step_seconds: float = 0.5
    wait_seconds: float = 0.01
    loss: float = 2.0
    epoch: int = 7  # it went on from a checkpoint
    pretrained: bool | None = None  # None: where it is past its first epoch
    variation: float = 0.1
    lengths: float = 0.0  # variation that comes from lengths: within buckets there is none of it
    reads: Reads = field(default_factory=Reads)
    shapes: dict[str, tuple[float, float]] = field(default_factory=lambda: {"16x512": (1.0, 1.0)})
    """By shape: how often a step has it, and its time as a multiple of a step's."""
    held_out: tuple[float, float] = (0.0, 0.0)  # of a validation, the share that reads, and that computes for it
    traced: float = 0.0  # share of the steps for which something is compiled
    learning: bool = True
    stuck: bool = False  # nothing is read: the wait is told when it has ended
    ending: bool = False  # it has said that it ended, and its process goes next
    _hanging: list[AbstractContextManager[None]] = field(default_factory=list)
    _rest: float = 0.0
    _stuck_seconds: float = 0.0
    _interrupted: ExitStack | None = None
    _phase: Phase | None = None

    def hang(self) -> None:
        """A thread begins a read that does not end, or not soon."""
        hanging = self.metrics.input.reading()
        hanging.__enter__()
        self._hanging.append(hanging)

    def go_on(self) -> None:
        """What hung has ended."""
        while self._hanging:
            self._hanging.pop().__exit__(None, None, None)

    def interrupt(self, phase: Phase | None) -> None:
        """The run validates, or saves; with None it trains on. One that goes on goes on."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._interrupted is not None:
            self._interrupted.close()
            self._interrupted = None
        if phase is not None:
            self._interrupted = ExitStack()
            self._interrupted.enter_context(self.metrics.during(phase))

    def advance(self, seconds: float, dice: random.Random) -> None:
        """So many seconds of steps."""
        if self._interrupted is not None:
            self.metrics.progress()
            self.metrics.input.read_held_out(seconds * self.held_out[0], seconds * self.held_out[1])
            return
        if self.stuck:
            self._stuck_seconds += seconds
            return
        if self._stuck_seconds:
            self.metrics.input.read(self._stuck_seconds * self.reads.threads, 0.0)
            self.metrics.input.waited(self._stuck_seconds)
            self.metrics.step(self._stuck_seconds, self._stuck_seconds, 16, 0)
            self._stuck_seconds = 0.0
        self.reads.advance(self.metrics.input, seconds)
        self._rest += seconds
        while self.learning and self._rest >= self.step_seconds:
            self._rest -= self.step_seconds
            ((shape, (_, length)),) = dice.choices(
                list(self.shapes.items()), [often for often, _ in self.shapes.values()]
            )
            factor = dice.lognormvariate(0, 0.1) * length
            self.metrics.step(self.step_seconds * factor, self.wait_seconds * factor, 16, 3)
            computed = (self.step_seconds - self.wait_seconds) * factor
            self.metrics.computed(shape, computed, traced=dice.random() < self.traced)
        self.metrics.variation(self.variation + self.lengths, self.variation)
        self.metrics.losses({"total": self.loss * dice.lognormvariate(0, 0.05)})
        self.metrics.learning_rate(1e-4)
        self.metrics.epoch(self.epoch)
        self.metrics.pretrained(self.epoch > 0 if self.pretrained is None else self.pretrained)


@dataclass
class SimulatedPool:
    """A Bark pool: its workers, its queue, what comes in and goes out."""

    metrics: PoolMetrics
    gpus: tuple[str, ...]
    running: int
    waiting: int = 0
    chunk_seconds: float = 4.0
    first_sound_seconds: float = 3.0
    heard: Callable[[], None] = lambda: None  # a stream has ended
    faulty: dict[str, tuple[float, str]] = field(default_factory=dict)  # by GPU: the share of chunks, and their fault

    def advance(self, seconds: float, dice: random.Random) -> None:
        """So many seconds of speaking: a chunk holds 8 s of sound; one listener hears something for the first time."""
        busy = min(self.running, self.waiting)
        for gpu in self.gpus[:busy]:
            chunks = max(1, round(seconds / self.chunk_seconds * dice.uniform(0.8, 1.2)))
            self.metrics.worked(gpu, self.chunk_seconds * chunks)
            for _ in range(chunks):
                self.metrics.chunk_spoken(gpu, 8.0, self.chunk_seconds)
                share, fault = self.faulty.get(gpu, (0.02, "no end"))
                self.metrics.chunk_checked(gpu, "bark", [fault] if dice.random() < share else [])
        if busy:
            self.metrics.first_audio(self.first_sound_seconds)
            self.heard()
        self.metrics.stats(PoolStats(len(self.gpus), self.running, busy, self.waiting, busy))


class SimulatedHost:
    """Eight GPUs with the exporter, a trainer, a Bark pool and node_exporter; everything by a clock of its own."""

    def __init__(
        self,
        plan: Path,
        *,
        name: str = "gpu-01",
        state: Path | None = None,
        link: str = "NV18",
        now: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`plan` is the host's plan, `state` what a deployment left; `link` is what connects GPU 0 and GPU 1.

        `now` is Unix time.
        """
        self.name = name
        self.now = now
        self.dice = random.Random(seed)
        self.gpus = [SimulatedGpu.number(index) for index in range(8)]
        self.links = self._links(link)
        self._held: dict[str, set[int]] = {}  # GPUs by workload
        self.nvml_errors: dict[tuple[str, int], int] = {}  # (function, nvmlReturn_t) → how often
        self.run: SimulatedRun | None = None
        self.pool: SimulatedPool | None = None
        self.exporter_answers = True
        self.driver_gone_since: float | None = None
        self.clock_skew = 0.0  # seconds
        self.driver_version, self.release = "580.65.06", "release-1"
        self.quota: tuple[int, int] | None = None  # periods of the run's quota of cores, and those with all of it used
        self.node_answers = True  # False: nobody scrapes a node_exporter there
        self.cpu_clock: float | None = 0.8  # that of its fastest core against the highest; None: a virtual machine
        self.pressure = {"cpu": 0.0, "io": 0.0, "memory": 0.0}  # share of time in which something waits for it
        self._waited = dict.fromkeys(self.pressure, 0.0)
        self.answers = True  # False: the whole host is gone
        self.disk_free = 0.6
        self.memory_free = 0.7
        self.booted = now - 30 * 86400
        self.started: dict[str, float] = {}  # Unix time at which the program of a job began, where it is not the boot
        self.registries: dict[str, CollectorRegistry] = {"exporter": CollectorRegistry()}
        self.registries["exporter"].register(_Process(self, "exporter"))
        self.registries["exporter"].register(GpuCollector(cast("GpuSampler", self)))
        self.registries["exporter"].register(HostPlan(plan))
        if state is not None:
            self.registries["exporter"].register(ExpectedConfigurations(state))

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot that the exporter's sampler would hold."""
        gone = self.driver_gone_since
        gpus = self.gpus if gone is None else [replace(each, up=False) for each in self.gpus]
        states = tuple(each.state() for each in gpus)
        good = self.now if gone is None else gone
        return Snapshot(
            self.now, self.now, gone is None, good, 0.01, states, self.links, self.driver_version, "13.0",
            dict(self.nvml_errors), last_success_monotonic=good,
        )  # fmt: skip

    def clock(self) -> AbstractContextManager[object]:
        """Scope in which runs read the clock of this host."""
        return patch.object(workloads, "time", SimpleNamespace(time=lambda: self.now))

    def age(self) -> float:
        """The snapshot is of now."""
        return 0.0

    def stale_after(self) -> float:
        """As the sampler's."""
        return 10.0

    def start_run(self, name: str, data: int, model: int) -> SimulatedRun:
        """A trainer on two GPUs, in a process of its own."""
        registry = self.registries["trainer"] = CollectorRegistry()
        cards = [("data", self.gpus[data].gpu), ("model", self.gpus[model].gpu)]
        limits = {"data": LIMIT_MIB, "model": LIMIT_MIB}
        with patch.dict(os.environ, {HASH_VARIABLE: f"sha-{self.release}", RELEASE_VARIABLE: self.release}):
            metrics = TrainMetrics(
                name, cards=cards, limits=limits, ring_slots=4, registry=registry, clock=lambda: self.now
            )
        for _, gpu in cards:
            self.gpus[gpu.index].memory_used = LIMIT_MIB << 20
        with self.clock():
            metrics.start()
        self.run = SimulatedRun(metrics)
        self._hold("trainer", {data, model})
        return self.run

    def end_run(self) -> None:
        """Its process is gone, whatever it said before."""
        self.run = None
        self._hold("trainer", set())
        self.registries.pop("trainer", None)

    def start_pool(self, indices: Iterable[int]) -> SimulatedPool:
        """A Bark pool with a worker on each of these GPUs."""
        registry = self.registries["bark"] = CollectorRegistry()
        registry.register(_Process(self, "bark"))
        held = WorkloadGpus(registry, "bark")
        chosen = [self.gpus[index].gpu for index in indices]
        for gpu in chosen:
            held.assign("bark", gpu)
        self._hold("bark", {gpu.index for gpu in chosen})
        self.pool = SimulatedPool(PoolMetrics(registry), tuple(str(gpu.index) for gpu in chosen), len(chosen))
        return self.pool

    def restart(self, job: str) -> None:
        """The program of a job is ended and started again; what it counts goes on, which nobody judges here."""
        self.started[job] = self.now

    def reboot(self) -> None:
        """The whole host starts again, and all of its programs with it."""
        self.booted = self.now
        self.started.clear()

    def _hold(self, workload: str, indices: set[int]) -> None:
        self._held[workload] = indices
        for index, gpu in enumerate(self.gpus):
            gpu.workloads = sum(index in held for held in self._held.values())

    def advance(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds
        for resource, share in self.pressure.items():
            self._waited[resource] += seconds * share
        for gpu in self.gpus:
            gpu.busy_seconds += seconds * min(1.0, max(0.0, gpu.utilization * self.dice.uniform(0.95, 1.05)))
            for part, share in gpu.activity.items():
                gpu.active_seconds[part] = gpu.active_seconds.get(part, 0.0) + seconds * share
        if self.run is not None:
            with self.clock():
                self.run.advance(seconds, self.dice)
        if self.pool is not None:
            self.pool.advance(seconds, self.dice)

    def scrape(self) -> Mapping[str, Scrape | None]:
        """Scrape of each job; None where it does not answer. A job that never answered is not in it."""
        with patch.object(input_metrics, "quota_periods", lambda: self.quota):
            found: dict[str, Scrape | None] = {job: dict(_series(each)) for job, each in self.registries.items()}
        if not self.exporter_answers:
            found["exporter"] = None
        if self.node_answers:
            found["node"] = self.node()
        return found if self.answers else dict.fromkeys(found)

    def _links(self, link: str) -> dict[tuple[str, str], str]:
        uuids = [each.gpu.uuid for each in self.gpus]
        links = {(one, other): "NV18" for one in uuids for other in uuids if one != other}
        return links | {(uuids[0], uuids[1]): link, (uuids[1], uuids[0]): link}

    def _cores(self, clock: float) -> Scrape:
        """A core that works, and one that rests."""
        return {
            f'node_cpu_{name}_hertz{{cpu="{cpu}"}}': hertz
            for cpu, now in enumerate((clock, 0.2))
            for name, hertz in (("scaling_frequency", now * 3.7e9), ("frequency_max", 3.7e9))
        }

    def node(self) -> Scrape:
        """Scrape of node_exporter."""
        disk = '{device="/dev/nvme0n1p2",fstype="ext4",mountpoint="/"}'
        return {
            f"node_filesystem_avail_bytes{disk}": self.disk_free * 4e12,
            f"node_filesystem_size_bytes{disk}": 4e12,
            f"node_filesystem_readonly{disk}": 0,
            **{f"node_pressure_{name}_waiting_seconds_total{{}}": waited for name, waited in self._waited.items()},
            **({} if self.cpu_clock is None else self._cores(self.cpu_clock)),
            "node_time_seconds{}": self.now + self.clock_skew,
            "node_boot_time_seconds{}": self.booted + self.clock_skew,
            "process_start_time_seconds{}": self.started.get("node", self.booted),
            "node_memory_MemAvailable_bytes{}": self.memory_free * 1000e9,
            "node_memory_MemTotal_bytes{}": 1000e9,
        }


@dataclass(frozen=True)
class _Process:
    """Start of a job's program, as prometheus_client's collector tells that of its own."""

    host: SimulatedHost
    job: str

    def collect(self) -> Iterator[GaugeMetricFamily]:
        began = self.host.started.get(self.job, self.host.booted)
        yield GaugeMetricFamily("process_start_time_seconds", "Start of the process, Unix time.", value=began)


def _series(registry: CollectorRegistry) -> Iterator[tuple[str, float]]:
    for family in registry.collect():
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            yield f"{sample.name}{{{labels}}}", sample.value
