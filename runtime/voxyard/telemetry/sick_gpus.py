"""Sick GPUs: what the sampler sees of them takes them out of work, and what is out of work is a metric."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.host.errors import HostError
from voxyard.host.out_of_work import LEAST_SHARE, MEND, NO_ACTION, Mark, OutOfWork, boot, sickness
from voxyard.telemetry.sampler import GpuState, Snapshot

log = logging.getLogger("voxyard.telemetry")


@dataclass(frozen=True, slots=True)
class SickPolicy:
    """What a host's plan says of its sick GPUs."""

    most: int | None = None  # that may be out of work without asking; None: a quarter of those there are, at least 1
    stay: frozenset[str] | None = frozenset()  # UUIDs of GPUs that stay at work whatever they have; None: all do


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a GPU had at the last pass: nothing of it is judged twice."""

    xids: dict[int, int]  # count by number
    action: str | None


class SickGpus(Collector):
    """Judges each snapshot of the sampler, marks what is sick, and exports `voxyard_gpu_out_of_work`."""

    def __init__(self, file: OutOfWork, policy: SickPolicy, *, boot: Callable[[], str] = boot) -> None:
        self._file, self._policy, self._boot = file, policy, boot
        self._seen: dict[str, _Seen] = {}
        self._problem = ""

    def judge(self, snapshot: Snapshot) -> None:
        """Marks GPUs with a new critical Xid, or a new wish of the driver to recover them; notes which were reset."""
        try:
            for state in snapshot.gpus:
                self._judge(state, len(snapshot.gpus))
            self._problem = ""
        except HostError as error:
            if str(error) != self._problem:
                log.error("sick GPUs stay at work: %s", error)
            self._problem = str(error)

    def collect(self) -> Iterator[Metric]:
        """One series of value 1 for each sick GPU; those last known and one more while their file cannot be used."""
        family = GaugeMetricFamily(
            "voxyard_gpu_out_of_work",
            "1 for a sick GPU: out of work, reset and before its self-test, or kept at work as too many are out; "
            "unknown: what is marked cannot be read.",
            labels=("uuid", "gpu", "state", "cause", "cure"),
        )
        try:
            self._file.marks()
        except HostError as error:
            family.add_metric(("", "unknown", "unknown", str(error).removesuffix(f": {MEND}"), MEND), 1)
        for mark in self._file.known.values():
            family.add_metric((mark.uuid, str(mark.gpu), mark.state, mark.cause, mark.cure), 1)
        yield family

    def _judge(self, state: GpuState, gpus: int) -> None:
        uuid, before = state.gpu.uuid, self._seen.get(state.gpu.uuid, _Seen({}, None))
        counts = {number: xid.count for number, xid in state.xids.items()}
        action = before.action if state.reading is None else state.reading.recovery_action
        new = [number for number, count in counts.items() if count > before.xids.get(number, 0)]
        found = sickness(new, action if action != before.action else None)
        mark = self._file.marks().get(uuid)
        if found is not None and (mark is None or mark.state != "out"):
            self._mark(state, gpus, found, action)
        elif mark is not None and mark.state != "reset" and state.up:
            if self._boot() != mark.boot or (mark.action is not None and action == NO_ACTION):
                self._note_reset(mark)
            elif action not in (None, NO_ACTION, mark.action):  # it may come after the Xid
                self._file.put(replace(mark, action=action))
        self._seen[uuid] = _Seen(counts, action)

    def _mark(self, state: GpuState, gpus: int, found: tuple[str, str], action: str | None) -> None:
        (cause, cure), uuid, stay = found, state.gpu.uuid, self._policy.stay
        if stay is None or uuid in stay:
            log.warning("GPU %d (%s) stays at work, as its inventory says: %s", state.gpu.index, uuid, cause)
            return
        most = max(1, gpus // LEAST_SHARE) if self._policy.most is None else self._policy.most
        out = [mark for mark in self._file.marks().values() if not mark.works and mark.uuid != uuid]
        kept = len(out) >= most
        asks = None if action == NO_ACTION else action
        mark = Mark(uuid, state.gpu.index, cause, cure, "kept" if kept else "out", boot=self._boot(), action=asks)
        self._file.put(mark)
        why = f"; it stays at work: {len(out)} GPUs are out of it already, of at most {most}" if kept else ""
        log.error("%s%s", mark, why)

    def _note_reset(self, mark: Mark) -> None:
        if mark.works:
            self._file.give_back(mark.uuid)
            log.info("GPU %d (%s) was reset: nothing is known against it any more", mark.gpu, mark.uuid)
            return
        self._file.put(replace(mark, state="reset", cure="nothing: its next worker or run tests it first"))
        log.info("GPU %d (%s) was reset: it works again once it has passed its self-test", mark.gpu, mark.uuid)
