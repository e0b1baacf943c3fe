"""TLS of a host's services: certificate, key and authorities, from its secrets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import HOST_CA, HOST_CERTIFICATE, HOST_KEY, Secrets, place, read_all

NAMES = (HOST_CERTIFICATE, HOST_KEY, HOST_CA)


@dataclass(frozen=True, slots=True)
class HostTls:
    """With it all services of a host speak TLS only."""

    name: str  # of the host, for which the certificate is
    certificate: bytes = field(repr=False)  # PEM, with its chain
    key: bytes = field(repr=False)
    authorities: bytes = field(repr=False)  # PEM, the roots of the fleet's certificates


def host_tls(name: str, files: tuple[Path, ...], secrets: Secrets) -> HostTls | None:
    """TLS of the host with these secrets; None without. Raises FleetError where only some of the three are given."""
    given = {each: secrets.values[each] for each in NAMES if each in secrets.values}
    if not given:
        return None
    if missing := [each for each in NAMES if each not in given]:
        raise FleetError(
            f"{name}: TLS of a host needs {', '.join(NAMES)}, all three or none: add {' and '.join(missing)} to "
            f"{place(files)}; {fab()} certificates makes them"
        )
    return HostTls(name, given[HOST_CERTIFICATE], given[HOST_KEY], given[HOST_CA])


def read_tls(host: Host) -> HostTls | None:
    """TLS of the host, from its files. Raises FleetError."""
    return host_tls(host.name, host.secrets, read_all(host.secrets))


def with_tls(hosts: Iterable[tuple[str, tuple[Path, ...]]]) -> frozenset[str]:
    """Names of the hosts that speak TLS, of names and secrets files. Raises FleetError."""
    files: dict[tuple[Path, ...], Secrets] = {}
    found = set()
    for name, paths in hosts:
        if paths not in files:
            files[paths] = read_all(paths)
        if host_tls(name, paths, files[paths]) is not None:
            found.add(name)
    return frozenset(found)
