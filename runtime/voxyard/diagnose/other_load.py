"""Load of other programs during a measurement: the cores that they took while none was free, and who they are.

From /proc/stat and /proc/PID/stat (proc(5)). No TensorFlow.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from voxyard.diagnose.profile.stages import figures
from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu
from voxyard.host.readings import processes_on
from voxyard.telemetry.gpu_watch import GpuWatch

NOTABLE = 0.10
"""Share of the cores' time, or of a GPU's, from which others disturb: two measurements would differ by as much."""
FREE = 0.10
"""Share of the cores: with more of them idle, nobody waits for another."""
SAMPLE_SECONDS = 0.25
GPU_LOOK_SECONDS = 1.0
MOST_NAMED = 3
LEAST_NAMED = 0.05  # cores

_TICKS = os.sysconf("SC_CLK_TCK")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of include/linux/sched.h


@dataclass(frozen=True)
class Program:
    """Another program: its name, its number, and how many cores it took on average."""

    name: str
    pid: int
    cores: float


@dataclass(frozen=True)
class OtherLoad:
    """Load by others during a measurement; the defaults are those of a machine of one's own."""

    cores: int = 1  # that the measured program may use
    taken: float = 0.0  # cores' worth of time that others took
    contended: float = 0.0  # share of all cores' time that others took while no core was free
    programs: tuple[Program, ...] = ()  # the largest of them
    gpus: tuple[str, ...] = ()  # a sentence for each GPU that others use

    @property
    def disturbs(self) -> bool:
        """True where two measurements would not agree."""
        return self.spoils(cores=True, gpus=True)

    @property
    def unnamed(self) -> float:
        """Cores' worth of time beyond what `programs` explain: smaller programs, ended ones, other containers'."""
        return max(0.0, self.taken - sum(each.cores for each in self.programs))

    def spoils(self, *, cores: bool, gpus: bool) -> bool:
        """True where a figure that depends on free cores, or on free GPUs, would be another one without the others."""
        return (cores and self.contended >= NOTABLE) or (gpus and bool(self.gpus))

    def sentence(self) -> str:
        """How the measurement was disturbed, and by whom; "" where it was not."""
        parts = list(self.gpus)
        if self.contended >= NOTABLE:
            named = [f"{each.name}, process {each.pid}: {each.cores:.1f}" for each in self.programs]
            if named and self.unnamed >= LEAST_NAMED:
                named.append(f"and {self.unnamed:.1f} cores in other or short-lived programs")
            who = f" ({'; '.join(named)})" if named else " (by programs that cannot be seen from here, or have ended)"
            parts.insert(0, f"other programs took {self.taken:.1f} of {self.cores} cores while none was free{who}")
        return "; ".join(parts)

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self) | {"disturbs": self.disturbs, "unnamed": self.unnamed}


@dataclass
class OtherLoadWatch:
    """Watches the processors within the context; `load` is the result after it.

    `proc` is where the kernel tells: processes of other containers are counted in the sum, and cannot be named.
    """

    proc: Path = Path("/proc")
    gpus: tuple[str, ...] = ()  # see `busy_gpus`
    clock: Callable[[], float] = time.perf_counter
    load: OtherLoad = field(default_factory=OtherLoad, init=False)

    def __enter__(self) -> Self:
        self._cpus = frozenset(f"cpu{number}" for number in os.sched_getaffinity(0))
        self._ended = threading.Event()
        self._taken = self._contended = 0.0  # core seconds
        self._programs = self._running()
        self._last = self._now()
        self._began = self.clock()
        self._thread = threading.Thread(target=self._watch, name="voxyard-other-load", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sample()
        seconds, cores = self.clock() - self._began, len(self._cpus)
        self.load = OtherLoad(
            cores=cores,
            taken=self._taken / seconds,
            contended=min(1.0, self._contended / seconds / cores),
            programs=self._largest(seconds),
            gpus=self.gpus,
        )

    def _watch(self) -> None:
        """Adds up what others took, a quarter of a second at a time: an average would hide who waits for whom."""
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        now = self._now()
        busy, idle, own = (after - before for after, before in zip(now, self._last, strict=True))
        others = max(0.0, busy - own)
        self._taken += others
        if idle < FREE * (busy + idle):
            self._contended += others
        self._last = now

    def _now(self) -> tuple[float, float, float]:
        """Seconds in which the usable cores worked and were idle, and those that this program worked."""
        used = os.times()
        return *self._processors(), used.user + used.system + used.children_user + used.children_system

    def _processors(self) -> tuple[float, float]:
        """Seconds in which the usable cores worked for programs, or for the hypervisor's others, and were idle."""
        busy = idle = 0
        for line in (self.proc / "stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in self._cpus:
                user, nice, system, free, waiting, _, _, steal = (int(each) for each in ticks[:8])
                busy, idle = busy + user + nice + system + steal, idle + free + waiting
        return busy / _TICKS, idle / _TICKS

    def _running(self) -> Mapping[tuple[int, str], float]:
        """Seconds on the processor of each program but ourselves, by number and start."""
        found = {}
        for folder in self.proc.iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    text = (folder / "stat").read_text()
                except OSError:
                    continue  # it has ended
                words = text.rpartition(")")[2].split()
                if not int(words[6]) & _KERNEL_THREAD:
                    found[int(folder.name), words[19]] = (int(words[11]) + int(words[12])) / _TICKS
        return found

    def _largest(self, seconds: float) -> tuple[Program, ...]:
        taken = {key: total - self._programs.get(key, 0.0) for key, total in self._running().items()}
        largest = sorted(taken, key=lambda key: taken[key], reverse=True)[:MOST_NAMED]
        return tuple(
            Program(self._name(pid), pid, taken[pid, start] / seconds)
            for pid, start in largest
            if taken[pid, start] / seconds >= LEAST_NAMED
        )

    def _name(self, pid: int) -> str:
        try:
            return (self.proc / str(pid) / "comm").read_text().strip()
        except OSError:
            return "a program"


def busy_gpus(cards: Iterable[tuple[str, Gpu]]) -> tuple[str, ...]:
    """A sentence for each of these GPUs that is busy though the run does nothing on it. Takes a second; none: none.

    Raises HostError where NVML does not answer.
    """
    cards = tuple({gpu.uuid: (role, gpu) for role, gpu in cards}.values())
    if not cards:
        return ()
    with GpuWatch(cards, interval=GPU_LOOK_SECONDS / 2) as watch:
        time.sleep(1.5 * GPU_LOOK_SECONDS)
    found = []
    for _, gpu in cards:
        busy = figures(watch.gpus[gpu.uuid].utilizations).mean
        if busy >= NOTABLE:
            found.append(f"GPU {gpu.index} was {busy:.0%} busy before the run began{_who(gpu)}")
    return tuple(found)


def _who(gpu: Gpu) -> str:
    try:
        held = processes_on(gpu.index)
    except HostError:
        return ""
    others = [each for each in held if each.pid != os.getpid()]
    named = ", ".join(f"{each.name}, process {each.pid}" for each in others[:MOST_NAMED])
    return f" ({named})" if named else ""
