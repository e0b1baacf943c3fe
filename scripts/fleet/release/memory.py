"""Memory limits of the containers on a host, from its memory: a leak ends a container and not the host."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.errors import FleetError
from fleet.inventory.hosts import Host

RESERVED_MIB = 2048
"""Left to the system and to the exporters, at least; a sixteenth of a large host's memory."""
_MIB = 1024  # in a GiB


def memory_limits(host: Host, total_mib: int | None) -> Mapping[str, int]:
    """Limit in MiB of the services that compute, by role, on a host with `total_mib` of memory.

    The inventory's value, else an equal share of what is left to them, where the host's memory is known. Raises
    FleetError for a limit that the host cannot hold.
    """
    given = {"bark": host.bark.memory_gib, "trainer": host.trainer.memory_gib, "worker": None}
    roles: list[str] = [role for role in given if role in host.roles]
    found = {role: _MIB * asked for role in roles if (asked := given[role]) is not None}
    if total_mib is None:
        return found
    for role, mib in found.items():
        if mib > total_mib:
            raise FleetError(
                f"{host.name}: {role}.memory_gib is {mib // _MIB}, the host has {total_mib / _MIB:.0f} GiB: lower it, "
                "or leave it out"
            )
    reserved = min(max(RESERVED_MIB, total_mib // 16), total_mib // 4)
    return {role: found.get(role, (total_mib - reserved) // len(roles)) for role in roles}
