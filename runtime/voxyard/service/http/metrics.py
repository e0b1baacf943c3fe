"""Prometheus metrics of the service: requests by route, documents by state, disk space of audio."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.service.documents.claims import SharedDocuments
from voxyard.service.errors import ServiceError
from voxyard.telemetry.call_thread import CallThread

log = logging.getLogger("voxyard.service")

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
UNDERRUNS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
ENDS = ("completed", "failed", "refused")
STATES = ("pending", "processing", "completed", "failed")
READ_SECONDS = 1.0
"""Time that a scrape waits for the store; a value that comes later is left out."""
UNMATCHED = "unmatched"
"""Route label of requests that match no route: their paths would be a label of unbounded cardinality."""
Value = TypeVar("Value")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True)
class DiskUsage:
    """Disk space of stored audio, in bytes."""

    used: int
    quota: int
    free: float  # that further audio may take, by the quota and the disk


class ServiceMetrics:
    """Metrics `voxyard_service_*` of one service."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        documents: Callable[[], Mapping[str, int]] | None = None,
        ended: Callable[[], Mapping[str, int]] | None = None,
        disk: Callable[[], DiskUsage] | None = None,
        shelf: Callable[[], bool] | None = None,
        shared: Callable[[], SharedDocuments] | None = None,
    ) -> None:
        """`documents` (state → number), `disk`, `shelf` (it answers) and `shared` are called at each scrape.

        So is `ended` (how → number of documents since the start), which asks no database.
        """
        self._requests = Counter(
            "voxyard_service_requests",
            "Requests by route, method and status.",
            ["route", "method", "status"],
            registry=registry,
        )
        self._duration = Histogram(
            "voxyard_service_request_duration_seconds",
            "Time from a request's headers to the end of its response.",
            ["route"],
            registry=registry,
            buckets=SECONDS,
        )
        self._in_flight = Gauge("voxyard_service_in_flight", "Requests in flight.", registry=registry)
        self._underrun = Histogram(
            "voxyard_service_stream_underrun_seconds",
            "Seconds that the listener of a stream waited after the first sound: it had heard all that was sent.",
            registry=registry,
            buckets=UNDERRUNS,
        )
        registry.register(_ScrapeCollector(documents, ended, disk, shelf, shared))

    def request_started(self) -> None:
        """Counts a request in flight."""
        self._in_flight.inc()

    def request_finished(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts a finished request; `status` 499 where the client disconnected before the response."""
        self._in_flight.dec()
        self._requests.labels(route, method if method in _METHODS else "other", str(status)).inc()
        self._duration.labels(route).observe(seconds)

    def stream_heard(self, waited: float) -> None:
        """Counts a stream that has ended, whose listener waited so many seconds after the first sound."""
        self._underrun.observe(waited)


class _SlowValue(Generic[Value]):
    """A value that may take long to read, in a thread of its own: a scrape waits a second for it."""

    def __init__(self, name: str, read: Callable[[], Value]) -> None:
        self._read = read
        self._lock, self._ended = threading.Lock(), threading.Condition()
        self._call = CallThread(f"voxyard-{name}", self._ended)

    def value(self) -> Value:
        """What is read now. Raises TimeoutError where it takes longer, and what that raised."""
        with self._lock:
            if self._call.answered:  # too late for an earlier scrape
                with contextlib.suppress(Exception):
                    self._call.collect()
            if self._call.free:
                self._call.begin(self._read)
            with self._ended:
                if not self._ended.wait_for(lambda: self._call.answered, READ_SECONDS):
                    raise TimeoutError(f"no answer within {READ_SECONDS:g} s")
            value: Value = self._call.collect()
            return value


def _value(slow: _SlowValue[Value] | None, problem: str) -> Value | None:
    """What is read; None where there is nothing to read, or where that fails, which is logged."""
    try:
        return None if slow is None else slow.value()
    except (TimeoutError, ServiceError, OSError) as error:
        log.warning("%s: %s", problem, error)
    except Exception:
        log.exception("%s", problem)
    return None


class _ScrapeCollector(Collector):
    """Collector of the gauges that are read from the service at each scrape."""

    def __init__(
        self,
        documents: Callable[[], Mapping[str, int]] | None,
        ended: Callable[[], Mapping[str, int]] | None,
        disk: Callable[[], DiskUsage] | None,
        shelf: Callable[[], bool] | None,
        shared: Callable[[], SharedDocuments] | None,
    ) -> None:
        self._documents = None if documents is None else _SlowValue("documents", documents)
        self._disk = None if disk is None else _SlowValue("disk", disk)
        self._shelf = None if shelf is None else _SlowValue("shelf", shelf)
        self._ended, self._shared = ended, shared

    def describe(self) -> Iterable[Metric]:
        """Families without values, so that registering calls nothing."""
        return [
            self._family_of_documents({}), self._family_of_ended({}), *self._families_of_disk(None),
            self._family_of_shelf(None), *self._families_of_shared(None),
        ]  # fmt: skip

    def collect(self) -> Iterable[Metric]:
        """Current values; those that cannot be read are left out.

        A database that does not answer is not asked: a scrape would take longer than Prometheus waits.
        """
        if self._shelf is not None:
            up = _value(self._shelf, "the place of the audio files does not answer")
            yield self._family_of_shelf(up is True)
        if self._ended is not None:
            yield self._family_of_ended(self._ended())
        if self._shared is not None:
            shared = self._shared()
            yield from self._families_of_shared(shared)
            if not shared.store_answers:
                return
        if (counts := _value(self._documents, "cannot count the documents for /metrics")) is not None:
            yield self._family_of_documents(counts)
        if (usage := _value(self._disk, "cannot read the disk usage for /metrics")) is not None:
            yield from self._families_of_disk(usage)

    @staticmethod
    def _family_of_shelf(up: bool | None) -> GaugeMetricFamily:
        value = None if up is None else float(up)
        return GaugeMetricFamily("voxyard_service_shelf_up", "The place of the audio files answers.", value=value)

    @staticmethod
    def _family_of_documents(counts: Mapping[str, int]) -> GaugeMetricFamily:
        family = GaugeMetricFamily("voxyard_service_documents", "Documents by state.", labels=["state"])
        for state in STATES:
            family.add_metric([state], counts.get(state, 0))
        return family

    @staticmethod
    def _family_of_ended(counts: Mapping[str, int]) -> CounterMetricFamily:
        family = CounterMetricFamily(
            "voxyard_service_documents_ended",
            "Documents that ended; refused: their own text or file is at fault.",
            labels=["outcome"],
        )
        for outcome in ENDS:
            family.add_metric([outcome], counts.get(outcome, 0))
        return family

    @staticmethod
    def _families_of_disk(disk: DiskUsage | None) -> Iterable[GaugeMetricFamily]:
        used, quota, free = (None, None, None) if disk is None else (disk.used, disk.quota, disk.free)
        yield GaugeMetricFamily("voxyard_service_audio_bytes", "Disk space used by audio.", value=used)
        yield GaugeMetricFamily("voxyard_service_audio_quota_bytes", "Quota of disk space for audio.", value=quota)
        yield GaugeMetricFamily("voxyard_service_audio_free_bytes", "Space that further audio may take.", value=free)

    @staticmethod
    def _families_of_shared(shared: SharedDocuments | None) -> Iterable[Metric]:
        up, claims = (None, None) if shared is None else (float(shared.store_answers), shared.claims)
        count, seconds = (None, None) if shared is None else (shared.transactions, shared.seconds)
        yield GaugeMetricFamily("voxyard_service_store_up", "The shared database of documents answers.", value=up)
        yield GaugeMetricFamily("voxyard_service_claims", "Shared documents that this service has.", value=claims)
        family = CounterMetricFamily(
            "voxyard_service_claims_ran_out", "Documents taken over, by the service that had them.", labels=["owner"]
        )
        for owner, count in (shared.ran_out if shared else {}).items():
            family.add_metric([owner], count)
        yield family
        for name, text, value in (
            ("transactions", "Transactions of this service with the shared database.", count),
            ("seconds", "Seconds that they took, waits for a connection included.", seconds),
        ):
            yield CounterMetricFamily(f"voxyard_service_store_{name}", text, value=value)
