"""Preflight checks of the directory of a host's state: the login can write it, and it is no other host's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet.checks.finding import Finding
from fleet.facts.fact import Unknown
from fleet.facts.host import HostFacts
from fleet.inventory.hosts import Host


def check_all(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: files can be made in the directory."""
    if isinstance(facts.state, Unknown):
        found = f"it is not known whether the login can write its files: {facts.state.reason}"
        yield Finding("WARN", "state", found, "log in and try: touch ~/.voxyard/x")
    elif not facts.state.writable:
        folder, at = facts.state.folder, facts.state.at
        found = f"{host.user} cannot write {folder}" + (
            f": there is only {at}, which is" if at != folder else ", which is"
        )
        remedy = (
            f"sudo install -d -o {host.user} {folder} (a file system that is full or read-only needs its own cure), or "
            "name another directory as state_dir in the inventory"
        )
        yield Finding("FAIL", "state", f"{found} not writable for it", remedy)


def across(hosts: Sequence[Host], facts: Mapping[str, HostFacts]) -> Mapping[str, tuple[Finding, ...]]:
    """Findings by host where hosts have one directory, as on a home of a network: one lock, one release for all."""
    there = [(host, state) for host in hosts if not isinstance(state := facts[host.name].state, Unknown)]
    found: dict[str, tuple[Finding, ...]] = {}
    for host, state in there:
        if others := [other.name for other, its in there if other is not host and state.is_that_of(its)]:
            said = f"{state.folder} is also that of {', '.join(others)} ({state.source}): one lock, one release for all"
            remedy = (
                "name a directory on a disk of each host as state_dir in the inventory, such as /var/lib/voxyard, that "
                f"{host.user} can write; a machine with two addresses is one entry"
            )
            found[host.name] = (Finding("FAIL", "state", said, remedy),)
    return found
