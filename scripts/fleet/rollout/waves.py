"""Order of a rollout: a canary for each role, one at a time, then batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fleet.inventory.hosts import Host
from fleet.rollout.commands import EXPORTER
from fleet.rollout.outcome import Outcome


def waves(hosts: Sequence[Host], batch: int) -> list[tuple[Host, ...]]:
    """Waves of hosts, in rollout order; the hosts of a wave are changed in parallel.

    The canary of a role is the host marked in the inventory, else a canary of another role, else the first host with
    the role.
    """
    all_roles = dict.fromkeys(role for host in hosts for role in roles(host))
    canaries: list[Host] = []
    for role in all_roles:
        named = [host for host in hosts if host.canary and role in roles(host)]
        canaries += [host for host in named[:1] if host not in canaries]
    for role in all_roles:
        if not any(role in roles(host) for host in canaries):
            canaries.append(next(host for host in hosts if role in roles(host)))
    rest = [host for host in hosts if host not in canaries]
    return [*((host,) for host in canaries), *(tuple(rest[at : at + batch]) for at in range(0, len(rest), batch))]


def roles(host: Host) -> tuple[str, ...]:
    """Roles of a host; the exporter for a host without roles."""
    return host.roles or (EXPORTER,)


def roll(
    order: Sequence[Sequence[Host]],
    work: Callable[[Sequence[Host]], Sequence[Outcome]],
    may_continue: Callable[[], bool],
) -> Iterator[Outcome]:
    """Run the waves in order; after a failed host, or when `may_continue` is false, the rest is not touched."""
    stopped = False
    for wave in order:
        if stopped or not may_continue():
            stopped = True
            yield from (Outcome(host.name, "not touched") for host in wave)
            continue
        for outcome in work(wave):
            stopped = stopped or outcome.result in ("failed", "interrupted")
            yield outcome
