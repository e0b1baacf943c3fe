"""Middleware components: what the admission and observability middleware and the operations routes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from voxyard.service.auth.api_keys import Keys
from voxyard.service.auth.sessions import Sessions, read_secret
from voxyard.service.config import ServiceSection
from voxyard.service.http.metrics import Disk, ServiceMetrics
from voxyard.service.http.rate_limit import Rates

SESSION_SECRET = "session-secret"  # noqa: S105 (a file's name)
Ready = Callable[[], tuple[bool, str]]
"""True where the service can speak, and a sentence that says so; it must not take long."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Dependencies of the middleware; `keys` and `sessions` are None where no key is asked for."""

    section: ServiceSection
    registry: CollectorRegistry
    keys: Keys | None
    sessions: Sessions | None
    rates: Rates
    metrics: ServiceMetrics
    ready: Ready


def open_frame(
    section: ServiceSection,
    registry: CollectorRegistry,
    *,
    keys: Keys | None,
    ready: Ready,
    documents: Callable[[], Mapping[str, int]] | None = None,
    disk: Callable[[], Disk] | None = None,
) -> Frame:
    """A frame by the settings; `documents` and `disk` are asked for the metrics (see ServiceMetrics).

    Raises:
        StoreError: the sessions' secret in the data directory cannot be read or made.
    """
    sessions = None if keys is None else Sessions(keys, read_secret(section.data_dir / SESSION_SECRET))
    metrics = ServiceMetrics(registry, documents=documents, disk=disk)
    return Frame(section, registry, keys, sessions, Rates(section.rate_limit), metrics, ready)
