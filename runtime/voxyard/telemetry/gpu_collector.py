"""GPU metrics for Prometheus, made from the sampler's latest snapshot: what is gone from it is gone from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.host.readings import Reading
from voxyard.host.topology import rank
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

_GPU = ("uuid", "gpu")

Labels = tuple[str, ...]
Series = Iterator[tuple[Labels, float]]  # further labels, value


class GpuCollector(Collector):
    """Yields metric families from a snapshot; a scrape reads memory and never waits for a driver."""

    def __init__(self, sampler: GpuSampler) -> None:
        self._sampler = sampler

    def collect(self) -> Iterator[Metric]:
        """All families; measurements only of GPUs that answered in the latest pass, and only while it is fresh."""
        snapshot = self._sampler.snapshot
        fresh = snapshot is not None and self._sampler.age() < self._sampler.stale_after()
        yield from _exporter(snapshot, fresh, self._sampler.age())
        if snapshot is None:
            return
        yield _info(snapshot)
        yield _gauge("gpu_up", "1 while the driver answers for this GPU.", snapshot, lambda gpu: _one(fresh and gpu.up))
        yield from _xids(snapshot)
        if fresh:
            for name, text, read in _GAUGES:
                yield _gauge(name, text, snapshot, read)
            for name, text, label, read_more in _LABELLED_GAUGES:
                yield _gauge(name, text, snapshot, read_more, label)
            for name, text, label, read_more in _COUNTERS:
                yield _family(CounterMetricFamily, name, text, snapshot, read_more, label)
            yield from _mig(snapshot)
            yield _processes(snapshot)
            yield _links(snapshot)


def _one(value: object) -> Series:
    if value is not None:
        yield (), float(value)  # type: ignore[arg-type]


def _value(read: Callable[[Reading], float | None]) -> Callable[[GpuState], Series]:
    return lambda gpu: _one(read(gpu.reading)) if gpu.reading is not None else iter(())


def _values(read: Callable[[Reading], Mapping[str, float]]) -> Callable[[GpuState], Series]:
    def series(gpu: GpuState) -> Series:
        if gpu.reading is not None:
            yield from (((name,), float(value)) for name, value in read(gpu.reading).items())

    return series


def _of_link(name: str) -> Callable[[GpuState], Series]:
    return _value(lambda reading: reading.pcie_link.get(name))


def _total(name: str) -> Callable[[GpuState], Series]:
    return _value(lambda reading: reading.totals.get(name))


def _part(prefix: str) -> Callable[[Reading], dict[str, float]]:
    return lambda reading: {
        name.removeprefix(prefix): value for name, value in reading.totals.items() if name.startswith(prefix)
    }


def _present(state: str | None) -> dict[str, float]:
    return {} if state is None else {state: 1.0}


def _directions(prefix: str) -> Callable[[Reading], dict[str, float]]:
    return lambda reading: {
        way: reading.totals[f"{prefix}_{way}_bytes"]
        for way in ("transmit", "receive")
        if f"{prefix}_{way}_bytes" in reading.totals
    }


def _memory(part: str) -> Callable[[GpuState], Series]:
    return _value(lambda reading: None if reading.memory is None else getattr(reading.memory, part))


_GAUGES: tuple[tuple[str, str, Callable[[GpuState], Series]], ...] = (
    (
        "gpu_utilization_ratio",
        "Share of the last second in which a kernel ran.",
        lambda gpu: _one(gpu.utilization_ratio),
    ),
    (
        "gpu_memory_activity_ratio",
        "Share of the driver's last window in which device memory was read or written.",
        _value(lambda reading: reading.memory_activity_ratio),
    ),
    ("gpu_encoder_utilization_ratio", "Use of the video encoder.", _value(lambda reading: reading.encoder_ratio)),
    ("gpu_decoder_utilization_ratio", "Use of the video decoder.", _value(lambda reading: reading.decoder_ratio)),
    ("gpu_memory_size_bytes", "Device memory of the card.", _memory("size")),
    ("gpu_memory_used_bytes", "Device memory that processes hold.", _memory("used")),
    ("gpu_memory_free_bytes", "Device memory that is free.", _memory("free")),
    ("gpu_memory_reserved_bytes", "Device memory that driver and firmware keep.", _memory("reserved")),
    ("gpu_power_watts", "Power drawn now.", _value(lambda reading: reading.power_watts)),
    ("gpu_power_limit_watts", "Power limit in force.", _value(lambda reading: reading.power_limit_watts)),
    (
        "gpu_power_limit_default_watts",
        "Power limit that the card starts with.",
        _value(lambda reading: reading.power_limit_default_watts),
    ),
    ("gpu_temperature_celsius", "Temperature of the GPU.", _value(lambda reading: reading.temperature_celsius)),
    (
        "gpu_temperature_slowdown_celsius",
        "Temperature from which on the card slows itself down.",
        _value(lambda reading: reading.temperature_slowdown_celsius),
    ),
    (
        "gpu_memory_temperature_celsius",
        "Temperature of the device memory.",
        _value(lambda reading: reading.memory_temperature_celsius),
    ),
    ("gpu_fan_speed_ratio", "Fan speed as a share of its most.", _value(lambda reading: reading.fan_ratio)),
    ("gpu_pcie_link_width", "Lanes of the PCIe link in use.", _of_link("width")),
    ("gpu_pcie_link_width_max", "Lanes that GPU and slot can use.", _of_link("width_max")),
    ("gpu_pcie_link_generation", "PCIe generation in use; it falls when the GPU idles.", _of_link("generation")),
    ("gpu_pcie_link_generation_max", "PCIe generation that GPU and slot can use.", _of_link("generation_max")),
    ("gpu_processes", "Processes that compute on the GPU.", _value(lambda reading: reading.process_count)),
    (
        "gpu_nvlinks_active",
        "NVLinks of the GPU that are up, where it has any.",
        _value(lambda reading: reading.nvlinks_active),
    ),
    ("gpu_mig_enabled", "1 while the GPU is divided into MIG instances.", _value(lambda reading: reading.mig_enabled)),
    ("gpu_mig_instances", "MIG instances, where MIG is on.", _value(lambda reading: reading.mig_instances)),
)

_LABELLED_GAUGES: tuple[tuple[str, str, str, Callable[[GpuState], Series]], ...] = (
    ("gpu_clock_hertz", "Clock now.", "clock", _values(lambda reading: reading.clocks_hertz)),
    ("gpu_clock_max_hertz", "Highest clock.", "clock", _values(lambda reading: reading.clocks_max_hertz)),
    (
        "gpu_clock_event_active",
        "1 while this reason holds the clocks down.",
        "reason",
        _values(lambda reading: reading.clock_events),
    ),
    ("gpu_remapped_rows", "Rows of memory that were remapped, or are to be.", "kind", _values(_part("remapped_"))),
    (
        "gpu_retired_pages",
        "Pages of memory retired by cause; pending: 1 while one waits for a reset. Cards before Ampere.",
        "kind",
        _values(_part("retired_")),
    ),
    (
        "gpu_recovery_action",
        "1 for what the driver asks for to recover the GPU: none, reset, reboot and others.",
        "action",
        _values(lambda reading: _present(reading.recovery_action)),
    ),
    (
        "gpu_fabric_state",
        "1 for the state of its registration with the NVLink fabric.",
        "state",
        _values(lambda reading: _present(reading.fabric_state)),
    ),
)

_COUNTERS: tuple[tuple[str, str, str, Callable[[GpuState], Series]], ...] = (
    (
        "gpu_busy_seconds",
        "Integral of utilization over every sample of the driver.",
        "",
        lambda gpu: _one(gpu.busy_seconds),
    ),
    ("gpu_energy_joules", "Energy since the driver was loaded.", "", _total("energy_joules")),
    ("gpu_pcie_bytes", "Bytes over PCIe.", "direction", _values(_directions("pcie"))),
    ("gpu_nvlink_bytes", "Bytes over all NVLinks of the GPU.", "direction", _values(_directions("nvlink"))),
    ("gpu_nvlink_errors", "Errors of all NVLinks of the GPU.", "kind", _values(_part("nvlink_errors_"))),
    (
        "gpu_activity_seconds",
        "Integral of what its parts do: multiprocessors with work (sm), warps in them (occupancy), tensor cores, "
        "bandwidth of its memory (dram). Hopper and newer.",
        "part",
        _values(_part("activity_")),
    ),
    (
        "gpu_moved_bytes",
        "Bytes over PCIe and NVLink, by the same counters as its activity. Hopper and newer.",
        "path",
        _values(_part("moved_")),
    ),
    ("gpu_pcie_replays", "Packets that PCIe had to send again.", "", _total("pcie_replays")),
    ("gpu_ecc_errors", "ECC errors: volatile since the driver was loaded, aggregate in the card's life.", "kind",
     _values(_part("ecc_"))),
)  # fmt: skip


def _exporter(snapshot: Snapshot | None, fresh: bool, unanswered: float) -> Iterator[Metric]:
    success = snapshot is not None and snapshot.success and fresh
    yield _single("exporter_collect_success", "1 while the NVIDIA driver answers and passes are made.", float(success))
    if snapshot is None:
        return
    if snapshot.last_success is not None:
        yield _single(
            "exporter_last_success_timestamp_seconds", "Unix time of the latest good pass.", snapshot.last_success
        )
    if snapshot.last_success_monotonic is not None:
        yield _single(
            "exporter_last_success_age_seconds",
            "Seconds since the latest good pass, whatever the host's clock says.",
            snapshot.monotonic - snapshot.last_success_monotonic + unanswered,
        )
    yield _single("exporter_collect_duration_seconds", "Time that the latest pass took.", snapshot.duration)
    errors = CounterMetricFamily(
        "voxyard_exporter_nvml_errors",
        "Calls that NVML refused, or did not return from (code 10).",
        labels=("function", "code"),
    )
    for (function, code), count in sorted(snapshot.errors.items()):
        errors.add_metric((function, str(code)), count)
    yield errors


def _info(snapshot: Snapshot) -> Metric:
    labels = (*_GPU, "name", "pci_bus_id", "driver_version", "cuda_version")
    family = GaugeMetricFamily("voxyard_gpu_info", "Which GPU this is; always 1.", labels=labels)
    versions = (snapshot.driver_version or "", snapshot.cuda_version or "")
    for state in snapshot.gpus:
        family.add_metric((*_identity(state), state.gpu.name, state.gpu.pci_bus_id, *versions), 1)
    return family


def _xids(snapshot: Snapshot) -> Iterator[Metric]:
    labels = (*_GPU, "xid")
    counts = CounterMetricFamily("voxyard_gpu_xid_errors", "Xid errors that the driver reported.", labels=labels)
    times = GaugeMetricFamily("voxyard_gpu_xid_last_timestamp_seconds", "Unix time of the latest one.", labels=labels)
    ages = GaugeMetricFamily(
        "voxyard_gpu_xid_age_seconds", "Seconds since the latest one, whatever the host's clock says.", labels=labels
    )
    for state in snapshot.gpus:
        for number, xid in sorted(state.xids.items()):
            counts.add_metric((*_identity(state), str(number)), xid.count)
            times.add_metric((*_identity(state), str(number)), xid.last)
            ages.add_metric((*_identity(state), str(number)), snapshot.monotonic - xid.monotonic)
    yield from (counts, times, ages)


def _mig(snapshot: Snapshot) -> Iterator[Metric]:
    labels = (*_GPU, "mig")
    used = GaugeMetricFamily(
        "voxyard_gpu_mig_memory_used_bytes", "Device memory that processes hold of a MIG instance.", labels=labels
    )
    size = GaugeMetricFamily("voxyard_gpu_mig_memory_size_bytes", "Device memory of a MIG instance.", labels=labels)
    active = CounterMetricFamily(
        "voxyard_gpu_mig_activity_seconds",
        "Integral of the share of a MIG instance's part that works (Hopper and newer), as of whole cards.",
        labels=(*labels, "part"),
    )
    for state in snapshot.gpus:
        for each in state.reading.mig if state.reading else ():
            which = (*_identity(state), str(each.number))
            if each.memory_size is not None and each.memory_used is not None:
                used.add_metric(which, each.memory_used)
                size.add_metric(which, each.memory_size)
            for name, seconds in each.activity.totals.items():
                if name.startswith("activity_"):
                    active.add_metric((*which, name.removeprefix("activity_")), seconds)
    yield from (used, size, active)


def _processes(snapshot: Snapshot) -> Metric:
    labels = (*_GPU, "pid", "process")
    family = GaugeMetricFamily("voxyard_gpu_process_memory_bytes", "Device memory that a process holds.", labels=labels)
    for state in snapshot.gpus:
        for each in state.reading.processes if state.reading else ():
            family.add_metric((*_identity(state), str(each.pid), each.name), each.memory_bytes)
    return family


def _links(snapshot: Snapshot) -> Metric:
    labels = (*_GPU, "peer", "link")
    family = GaugeMetricFamily(
        "voxyard_gpu_link_rank", "Rank of the link to a GPU: SYS 1 … PIX 5, NVLink 10 + its lanes.", labels=labels
    )
    up = {state.gpu.uuid: state for state in snapshot.gpus if state.up}
    for (one, other), link in sorted(snapshot.links.items()):
        if one in up and other in up:
            family.add_metric((*_identity(up[one]), other, link), rank(link))
    return family


def _gauge(name: str, text: str, snapshot: Snapshot, read: Callable[[GpuState], Series], label: str = "") -> Metric:
    return _family(GaugeMetricFamily, name, text, snapshot, read, label)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    text: str,
    snapshot: Snapshot,
    read: Callable[[GpuState], Series],
    label: str,
) -> Metric:
    family = kind(f"voxyard_{name}", text, labels=(*_GPU, label) if label else _GPU)
    for state in snapshot.gpus:
        identity = _identity(state)
        for more, value in read(state):
            family.add_metric((*identity, *more), value)
    return family


def _single(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"voxyard_{name}", text, value=value)


def _identity(state: GpuState) -> Labels:
    return state.gpu.uuid, str(state.gpu.index)
