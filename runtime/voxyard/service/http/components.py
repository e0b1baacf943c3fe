"""Middleware components: what the admission and observability middleware and the operations routes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from voxyard.service.auth.api_keys import Keys
from voxyard.service.auth.sessions import Sessions, read_secret, read_shared_secret
from voxyard.service.config import ServiceSection
from voxyard.service.documents.ownership import SharedDocuments
from voxyard.service.errors import BusyError
from voxyard.service.http.metrics import DiskUsage, ServiceMetrics
from voxyard.service.http.rate_limit import RateLimiter, whole_seconds

SESSION_SECRET = "session-secret"  # noqa: S105 (a file's name)
Ready = Callable[[], tuple[bool, str]]
"""Readiness check: True where the service is ready, and the reason as a sentence; must return quickly."""


@dataclass(frozen=True, eq=False)
class MiddlewareComponents:
    """Dependencies of the middleware; `keys` and `sessions` are None where no API key is required."""

    section: ServiceSection
    registry: CollectorRegistry
    keys: Keys | None
    sessions: Sessions | None
    rate_limiter: RateLimiter
    metrics: ServiceMetrics
    ready: Ready

    def take_request(self, client: str) -> None:
        """Counts a request of a key. Raises BusyError above its rate."""
        if self.keys is None:
            return
        own = self.keys.limits(client).requests_per_minute
        wait = self.rate_limiter.take(client, own)
        if wait:
            raise BusyError(
                f"rate limit exceeded: {self.rate_limiter.rate(own):g} requests per minute for the key {client}; "
                f"retry in {whole_seconds(wait)} s",
                retry_after=wait,
            )


def open_components(
    section: ServiceSection,
    registry: CollectorRegistry,
    *,
    keys: Keys | None,
    ready: Ready,
    documents: Callable[[], Mapping[str, int]] | None = None,
    ended: Callable[[], Mapping[str, int]] | None = None,
    disk: Callable[[], DiskUsage] | None = None,
    shelf: Callable[[], bool] | None = None,
    shared: Callable[[], SharedDocuments] | None = None,
) -> MiddlewareComponents:
    """Components for these settings; `documents`, `ended`, `disk`, `shelf` and `shared` as in ServiceMetrics.

    Raises:
        StoreError: the session secret in the data directory cannot be read or created.
        ServiceError: the given session secret cannot be read, or is too short.
    """
    sessions = None if keys is None else Sessions(keys, _session_secret(section))
    metrics = ServiceMetrics(registry, documents=documents, ended=ended, disk=disk, shelf=shelf, shared=shared)
    return MiddlewareComponents(section, registry, keys, sessions, RateLimiter(section.rate_limit), metrics, ready)


def _session_secret(section: ServiceSection) -> bytes:
    if section.session_secret is not None:
        return read_shared_secret(section.session_secret)
    return read_secret(section.data_dir / SESSION_SECRET)
