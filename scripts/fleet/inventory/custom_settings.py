"""Services of the operator's own, role `custom`: an image, a compose part, a health URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainValidator

from fleet.inventory.types import (
    Between,
    LocalPath,
    Matching,
    Seconds,
    expected,
    is_address,
    is_loopback,
    list_of,
    refusal,
)

CUSTOM = "custom"
OURS = (
    "exporter", "node-exporter", "bark", "trainer", "gateway", "head", "worker", "prometheus", "alertmanager",
    "grafana",
)  # fmt: skip
"""Names of services that no other may have."""


@dataclass(frozen=True, slots=True)
class HealthUrl:
    """URL of the service: of its health, asked on its host, or of its metrics, asked by Prometheus."""

    address: str
    port: int
    path: str


def _health(value: object) -> HealthUrl:
    form = "a URL as its host asks it, such as http://127.0.0.1:8200/healthz"
    try:
        found = urlsplit(value) if isinstance(value, str) and value.isprintable() and " " not in value else None
        port = found.port if found else None
    except ValueError:
        found = port = None
    if found is None or found.scheme != "http" or not port or not is_address(found.hostname) or found.username:
        raise expected(form, value, ": its port is part of it")
    address = (found.hostname or "").replace("%25", "%", 1)  # a zone of IPv6, as URLs spell it
    return HealthUrl(address, port, f"{found.path or '/'}{found.query and '?'}{found.query}")


def _metrics(value: object) -> HealthUrl:
    found = _health(value)
    if is_loopback(found.address):
        raise expected("a URL as Prometheus asks it", value, ": no other host reaches this address")
    return found


def _name(value: str) -> str:
    if value in OURS:
        raise refusal(f"{value} is a service of voxyard's: choose another name")
    return value


SecretName = Annotated[str, Matching("custom-[a-z0-9][a-z0-9-]{0,40}", "a name such as custom-token")]


@dataclass(frozen=True, slots=True)
class Custom:
    """One service of the operator's own."""

    image: Annotated[str, Matching(r"[A-Za-z0-9][\w.:@/-]*", "an image, best with its digest (name@sha256:…)")]
    compose: LocalPath  # file with the entry of the service, without its image
    health: Annotated[HealthUrl, PlainValidator(_health)]
    gpus: Annotated[int, Between("a number of GPUs", 0, 64)] = 0  # of its own, by the host's plan
    secrets: Annotated[tuple[SecretName, ...], list_of()] = ()  # of the secrets file, mounted in /run/secrets
    metrics: Annotated[HealthUrl, PlainValidator(_metrics)] | None = None  # without it: no alert
    start_seconds: Seconds = 90  # until it must be healthy
    stop_seconds: Seconds = 10  # until it is killed


Name = Annotated[str, Matching("[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?", "a name such as embeddings"), AfterValidator(_name)]
CustomServices = Mapping[Name, Custom]
