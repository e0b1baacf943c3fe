"""One pass over one GPU: everything that NVML measures, absent where the card does not measure it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from voxyard.host.gpm import Activity, ActivityReader
from voxyard.host.nvlink import VALUE_MEMBERS, NvLinkCounters, field_number
from voxyard.host.nvml import UNSUPPORTED, Session, refuses

SLOW_SECONDS = 10.0
"""Time for which a value that seldom changes (limits, link width) is kept."""
ASK_AGAIN_SECONDS = 300.0
"""Time for which something unsupported is left alone: a mode such as MIG may be switched off again."""

_MIB, _KIB, _MHZ, _KB = 1024 * 1024, 1024, 1_000_000, 1000
_SAMPLE_UTILIZATION = 1  # nvml.h, NVML_GPU_UTILIZATION_SAMPLES
_CLOCKS = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}  # nvml.h, enum nvmlClockType_t
_CLOCK_EVENTS = {  # nvml.h, nvmlClocksEventReason…
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
    "display_clock_setting": 0x100,
    "board_limit": 0x200,
    "reliability": 0x400,
}
_WHOLE = 0xFFFFFFFF  # as scope: all NVLinks of the GPU together
_FIELDS: tuple[tuple[str, Any, float], ...] = (  # name, nvml.h's NVML_FI_DEV_… (and scope), factor
    ("energy_joules", 83, 1e-3),
    ("pcie_transmit_bytes", 197, 1),
    ("pcie_receive_bytes", 198, 1),
    ("nvlink_transmit_bytes", (138, _WHOLE), _KIB),
    ("nvlink_receive_bytes", (139, _WHOLE), _KIB),
    ("ecc_corrected_volatile", 3, 1),
    ("ecc_uncorrected_volatile", 4, 1),
    ("ecc_corrected_aggregate", 5, 1),
    ("ecc_uncorrected_aggregate", 6, 1),
    ("remapped_correctable", 142, 1),
    ("remapped_uncorrectable", 143, 1),
    ("remapped_pending", 144, 1),
    ("remapped_failure", 145, 1),
    ("memory_celsius", 82, 1),
)
_SLOW_FIELDS = {  # name → nvml.h's NVML_FI_DEV_…
    "retired_single_bit": 29,
    "retired_double_bit": 30,
    "retired_pending": 31,
    "nvlinks": 91,
    "pcie_replays": 94,
    "recovery_action": 230,
}
_RECOVERY_ACTIONS = (  # nvml.h, enum nvmlDeviceGpuRecoveryAction_t
    *("none", "reset", "reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset", "system_reboot"),
)
_FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}  # nvml.h, NVML_GPU_FABRIC_STATE_…
_FABRIC_DEGRADED = (0x3, 1)  # of the health mask: which bits, and what they are where bandwidth is missing
_PCIE_COUNTERS = {"pcie_transmit_bytes": 0, "pcie_receive_bytes": 1}  # nvml.h, enum nvmlPcieUtilCounter_t
# Bytes a second of one lane by generation, after the line code (PCI-SIG: 2.5, 5, 8, 16, 32 and 64 GT/s).
_LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_MPS_SERVER = "nvidia-cuda-mps-server"
_THRESHOLD_SLOWDOWN = 1  # nvml.h, enum nvmlTemperatureThresholds_t
_MOST_PERCENT, _MOST_CELSIUS = 200, 200  # what is more was not measured
_WRAP = 2**32
_UNSIGNED_INT = 1  # nvml.h, enum nvmlValueType_t
_FIELD_IDS = [field for _, field, _ in _FIELDS]
_FIELD_VALUES = "nvmlDeviceGetFieldValues"  # its own success says nothing: each value has a code


@dataclass(frozen=True, slots=True)
class Sample:
    """Utilization over one of the driver's own sampling windows (1/6 to 1 s)."""

    time_us: int  # its end, in the driver's clock
    ratio: float  # 0…1: share of the window in which a kernel ran


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Device memory in bytes. `reserved` is what driver and firmware keep; older drivers count it as used."""

    size: int
    used: int
    free: int
    reserved: int | None


@dataclass(frozen=True, slots=True)
class MigReading:
    """A MIG instance: its number on its GPU, memory in bytes, and what its parts do."""

    number: int
    memory_size: int | None
    memory_used: int | None
    activity: Activity


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds memory of this GPU."""

    pid: int
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurements of one GPU. None, or a missing name: this card or driver does not report the value."""

    samples: tuple[Sample, ...] | None  # since the reading before; None: not supported
    utilization_ratio: float | None  # the driver's own latest window
    memory_activity_ratio: float | None
    encoder_ratio: float | None
    decoder_ratio: float | None
    memory: DeviceMemory | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: float | None
    fan_ratio: float | None
    clocks_hertz: Mapping[str, int]
    clocks_max_hertz: Mapping[str, int]
    clock_events: Mapping[str, bool]  # by reason, whether it slows the clocks now
    pcie_link: Mapping[str, int]  # width, width_max, generation, generation_max
    totals: Mapping[str, float]  # the counters: energy, bytes, errors, remapped rows, retired pages
    processes: tuple[Process, ...]
    refusal: str | None = None  # where NVML refused to measure anything at all: one such call, and its code
    memory_temperature_celsius: float | None = None
    power_limit_default_watts: float | None = None  # what the card starts with
    temperature_slowdown_celsius: float | None = None  # from which on the card slows itself down
    process_count: int | None = None  # of those that compute
    recovery_action: str | None = None  # what the driver asks for: none, reset, reboot, …
    fabric_state: str | None = None  # of its registration with the NVLink fabric; failed and degraded are states too
    mig_enabled: bool | None = None
    mig_instances: int | None = None  # where MIG is on
    mig: tuple[MigReading, ...] = ()  # as far as this process may see them
    nvlinks_active: int | None = None  # of cards that have any
    activity: Activity = field(default_factory=Activity)  # of its parts


class GpuReader:
    """Reads one GPU repeatedly; keeps which values it does not support, and the time of the last sample."""

    def __init__(self, session: Session, handle: Any, *, processes: bool = False) -> None:
        self._session, self._handle, self._with_processes = session, handle, processes
        self._unsupported: dict[str, float] = {}
        self._slow: tuple[float, dict[str, Any]] | None = None
        self._last_sample_us = 0
        self._throughput = _Throughput()
        self._unwrapped = {name: UnwrappedCounter() for name in _PCIE_COUNTERS}
        self._nvlinks = NvLinkCounters(lambda fields: self._ask(_FIELD_VALUES, fields, key="NVLink fields"))
        self._activity = ActivityReader(session, handle)
        self._instances: tuple[tuple[int, Any], ...] = ()  # of MIG, where it was on when somebody looked last
        self._mig_activity: dict[int, ActivityReader] = {}  # by the driver's id of a GPU instance
        self._answered = False
        self._refusal: str | None = None

    def read(self) -> Reading:
        """One pass. Raises GpuLostError or SessionLostError."""
        slow = self._slow_values()
        self._answered, self._refusal = False, None  # limits and links do not count: a dead GPU's are in the library
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        power = self._ask("nvmlDeviceGetPowerUsage")
        fan = self._ask("nvmlDeviceGetFanSpeed")
        totals, activity = self._totals(), self._activity.read()
        return Reading(
            samples=self._samples(),
            utilization_ratio=None if rates is None else _share(rates.gpu),
            memory_activity_ratio=None if rates is None else _share(rates.memory),
            encoder_ratio=_first_share(self._ask("nvmlDeviceGetEncoderUtilization")),
            decoder_ratio=_first_share(self._ask("nvmlDeviceGetDecoderUtilization")),
            memory=self._memory(),
            power_watts=None if power is None else power / 1000,
            power_limit_watts=slow["power_limit_watts"],
            temperature_celsius=self._temperature(),
            fan_ratio=None if fan is None or fan >= _MOST_PERCENT else fan / 100,  # it may exceed its most
            clocks_hertz=self._clocks("nvmlDeviceGetClockInfo"),
            clocks_max_hertz=slow["clocks_max_hertz"],
            clock_events=self._clock_events(),
            pcie_link=slow["pcie_link"],
            processes=self.processes() if self._with_processes else (),
            refusal=None if self._answered else self._refusal,
            memory_temperature_celsius=_celsius(totals.pop("memory_celsius", 0.0)) or None,  # 0: it has no such sensor
            totals=slow["counters"] | totals | activity.totals,
            activity=activity,
            mig=tuple(self._mig_reading(*each) for each in self._instances) if slow["state"]["mig_enabled"] else (),
            **slow["state"],
        )

    def _ask(self, function: str, *arguments: Any, key: str = "") -> Any:
        """NVML's answer; what was not supported a moment ago is not asked again."""
        key = key or function
        until = self._unsupported.get(key)
        if until is not None and time.monotonic() < until:
            return None
        code, answer = self._session.attempt(function, self._handle, *arguments)
        if code in UNSUPPORTED:
            self._unsupported[key] = time.monotonic() + ASK_AGAIN_SECONDS
        else:
            self._unsupported.pop(key, None)
        if code != 0 or function != _FIELD_VALUES:
            self._note(function, code)
        return answer

    def _note(self, function: str, code: int) -> None:
        if code == 0:
            self._answered = True
        elif self._refusal is None and refuses(function, code):
            self._refusal = self._session.refusal(function, code)

    def _samples(self) -> tuple[Sample, ...] | None:
        function = "nvmlDeviceGetSamples"
        answer = self._ask(function, _SAMPLE_UTILIZATION, self._last_sample_us)
        if answer is None:
            return None if function in self._unsupported else ()
        kind, found = answer
        member = VALUE_MEMBERS[kind]
        told = sorted((each.timeStamp, getattr(each.sampleValue, member)) for each in found)
        if told:
            self._last_sample_us = told[-1][0]
        shares = ((time_us, _share(percent)) for time_us, percent in told)
        return tuple(Sample(time_us, ratio) for time_us, ratio in shares if ratio is not None)

    def _memory(self) -> DeviceMemory | None:
        version2 = self._ask("nvmlDeviceGetMemoryInfo", _memory_version(), key="memory v2")
        if version2 is not None:
            return _own(DeviceMemory(version2.total, version2.used, version2.free, version2.reserved))
        version1 = self._ask("nvmlDeviceGetMemoryInfo")
        return None if version1 is None else _own(DeviceMemory(version1.total, version1.used, version1.free, None))

    def _temperature(self) -> float | None:
        celsius = self._ask("nvmlDeviceGetTemperatureV", 0)
        if celsius is None and "nvmlDeviceGetTemperatureV" in self._unsupported:
            celsius = self._ask("nvmlDeviceGetTemperature", 0)  # drivers before 570
        return None if celsius is None else _celsius(celsius)

    def _temperature_slowdown(self) -> float | None:
        margin = self._ask("nvmlDeviceGetMarginTemperature")  # Ada and newer tell how far it is
        if margin is None:
            celsius = self._ask("nvmlDeviceGetTemperatureThreshold", _THRESHOLD_SLOWDOWN)
        else:
            celsius = now + margin if (now := self._temperature()) is not None else None
        return None if celsius is None else _celsius(celsius)

    def _clocks(self, function: str) -> dict[str, int]:
        asked = {name: self._ask(function, kind, key=f"{function} {name}") for name, kind in _CLOCKS.items()}
        return {name: megahertz * _MHZ for name, megahertz in asked.items() if megahertz is not None}

    def _clock_events(self) -> dict[str, bool]:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        return {} if bits is None else {reason: bool(bits & bit) for reason, bit in _CLOCK_EVENTS.items()}

    def _slow_values(self) -> dict[str, Any]:
        now = time.monotonic()
        if self._slow is None or now - self._slow[0] >= SLOW_SECONDS:
            self._slow = now, self._read_slow_values()
        return self._slow[1]

    def _read_slow_values(self) -> dict[str, Any]:
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        link = {
            "width": self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
            "width_max": self._ask("nvmlDeviceGetMaxPcieLinkWidth"),
            "generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            "generation_max": self._ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        }
        fields = self._slow_fields()
        return {
            "power_limit_watts": None if limit is None else limit / 1000,
            "clocks_max_hertz": self._clocks("nvmlDeviceGetMaxClockInfo"),
            "pcie_link": {name: value for name, value in link.items() if value is not None},
            "state": self._state(fields.pop("recovery_action", None))
            | {"nvlinks_active": self._nvlinks_active(links := int(fields.pop("nvlinks", 0)))},
            "counters": self._nvlinks.read(links) | fields,
        }

    def _slow_fields(self) -> dict[str, float]:
        values = self._ask(_FIELD_VALUES, list(_SLOW_FIELDS.values()), key="slow fields")
        found = zip(_SLOW_FIELDS, map(field_number, values or ()), strict=False)
        return {name: number for name, number in found if number is not None}

    def _state(self, recovery: float | None) -> dict[str, Any]:
        """Values that change when somebody acts: limits, modes, processes; by the names of a Reading."""
        limit = self._ask("nvmlDeviceGetPowerManagementDefaultLimit")
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        mig = self._ask("nvmlDeviceGetMigMode")
        return {
            "power_limit_default_watts": None if limit is None else limit / 1000,
            "temperature_slowdown_celsius": self._temperature_slowdown(),
            "process_count": None if processes is None else self._programs({each.pid for each in processes}),
            "recovery_action": None if recovery is None else _recovery_action(int(recovery)),
            "fabric_state": self._fabric_state(),
            "mig_enabled": None if mig is None else bool(mig[0]),
            "mig_instances": len(self._find_instances()) if mig is not None and mig[0] else None,
        }

    def _programs(self, pids: set[int]) -> int:
        """How many compute for themselves: NVIDIA's MPS has a server beside its clients."""
        if len(pids) < 2:
            return len(pids)
        names = (self._session.ask("nvmlSystemGetProcessName", pid) or "" for pid in pids)
        return sum(not name.endswith(_MPS_SERVER) for name in names) or 1

    def _find_instances(self) -> tuple[tuple[int, Any], ...]:
        self._instances = self._session.mig_handles(self._handle)
        return self._instances

    def _mig_reading(self, number: int, handle: Any) -> MigReading:
        memory = self._session.ask("nvmlDeviceGetMemoryInfo", handle)
        instance = self._session.ask("nvmlDeviceGetGpuInstanceId", handle)
        activity = Activity()
        if instance is not None:
            if instance not in self._mig_activity:
                self._mig_activity[instance] = ActivityReader(self._session, self._handle, instance=instance)
            activity = self._mig_activity[instance].read()
        size, used = (None, None) if memory is None else (memory.total, memory.used)
        return MigReading(number, size, used, activity)

    def _nvlinks_active(self, links: int) -> int | None:
        if links == 0:
            return None
        key = "nvlink states"
        states = [self._ask("nvmlDeviceGetNvLinkState", lane, key=key) for lane in range(links)]
        return None if None in states else sum(map(bool, states))

    def _fabric_state(self) -> str | None:
        info = self._ask("nvmlDeviceGetGpuFabricInfoV")
        state = None if info is None else _FABRIC_STATES.get(info.state & 0xFF)
        if info is None or state != "completed":
            return state
        bits, degraded = _FABRIC_DEGRADED
        return "failed" if info.status != 0 else "degraded" if info.healthMask & bits == degraded else state

    def _totals(self) -> dict[str, float]:
        values = self._ask(_FIELD_VALUES, _FIELD_IDS)
        totals: dict[str, float] = {}
        for (name, _, factor), value in zip(_FIELDS, values or (), strict=False):
            self._note(_FIELD_VALUES, value.nvmlReturn)
            if (number := field_number(value)) is not None:
                totals[name] = number * factor
                if name in _PCIE_COUNTERS:
                    narrow = value.valueType == _UNSIGNED_INT
                    most = self._most_pcie_bytes() if narrow else 0.0
                    totals[name] = self._unwrapped[name].add(totals[name], most, partial(self._rate, name))
        for name in _PCIE_COUNTERS:
            if name not in totals and (rate := self._rate(name)) is not None:
                totals[name] = self._throughput.add(name, rate)
        return totals

    def _rate(self, name: str) -> float | None:
        """Bytes a second over PCIe in the last 20 ms, which is how long the call takes."""
        kilobytes = self._ask("nvmlDeviceGetPcieThroughput", _PCIE_COUNTERS[name], key=name)
        return None if kilobytes is None else float(kilobytes) * _KB

    def _most_pcie_bytes(self) -> float:
        """Bytes a second that the PCIe link can move in one direction; 0.0 where the driver does not tell."""
        link = self._slow_values()["pcie_link"]
        return float(link.get("width_max", 0) * _LANE_BYTES.get(link.get("generation_max", 0), 0.0))

    def processes(self) -> tuple[Process, ...]:
        """The processes that hold memory of this GPU, by their number. Raises as Session.ask does."""
        found: dict[int, Process] = {}
        for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            for each in self._ask(function) or ():
                if each.usedGpuMemory is not None:
                    name = self._session.ask("nvmlSystemGetProcessName", each.pid) or "unknown"
                    found[each.pid] = Process(each.pid, name.rpartition("/")[2], each.usedGpuMemory)
        return tuple(found[pid] for pid in sorted(found))


def processes_on(index: int, mig_instance: int | None = None) -> tuple[Process, ...]:
    """The processes that hold memory of the GPU with nvidia-smi's `index`, or of its instance, as the driver tells.

    Raises HostError where the driver or the GPU does not answer.
    """
    with Session() as session:
        handle = dict(session.handles()).get(index)
        if handle is not None and mig_instance is not None:
            handle = dict(session.mig_handles(handle)).get(mig_instance)
        return () if handle is None else GpuReader(session, handle).processes()


class UnwrappedCounter:
    """Byte counter that only grows, out of one that begins again at 2^32.

    nvml.h says of the PCIe fields that their value can be wrapped. Where the link can move that much between two
    readings, the rate tells how often it has.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: tuple[float, float] | None = None  # when, and the raw value
        self._total = 0.0

    def add(self, raw: float, most: float, rate: Callable[[], float | None]) -> float:
        """The counter after a reading of `raw`; `most` and `rate` are in bytes a second."""
        now = self._clock()
        since, last = self._before or (now, 0.0)
        step = raw - last
        if step < 0:
            step = raw if last >= _WRAP else step + _WRAP  # one that has passed 2^32 does not wrap: it was reset
        if most * (now - since) > _WRAP and (measured := rate()) is not None:
            step += _WRAP * max(0, round((measured * (now - since) - step) / _WRAP))
        self._before = now, raw
        self._total += step
        return self._total


class _Throughput:
    """Counters of bytes out of rates, for cards without byte counters: the latest rate since the one before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counters: dict[str, tuple[float, float]] = {}  # name → when, how much

    def add(self, name: str, bytes_per_second: float) -> float:
        now = self._clock()
        before, total = self._counters.get(name, (now, 0.0))
        total += bytes_per_second * (now - before)
        self._counters[name] = now, total
        return total


def _recovery_action(number: int) -> str:
    return _RECOVERY_ACTIONS[number] if 0 <= number < len(_RECOVERY_ACTIONS) else str(number)


def _share(percent: float) -> float | None:
    """0…1; None for a number far above 100, which drivers answer now and then."""
    return min(percent, 100) / 100 if 0 <= percent < _MOST_PERCENT else None


def _first_share(answer: Any) -> float | None:
    return None if answer is None else _share(answer[0])


def _celsius(number: float) -> float | None:
    return float(number) if abs(number) < _MOST_CELSIUS else None


def _memory_version() -> int:
    import pynvml

    version: int = pynvml.nvmlMemory_v2
    return version


def _own(memory: DeviceMemory) -> DeviceMemory | None:
    """None for a total of 0, as some drivers tell it of a GPU that shares the host's memory, or less than is used."""
    return memory if 0 < memory.size >= max(memory.used, memory.free) else None
