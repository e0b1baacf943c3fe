"""Order of a rollout: a canary for each role, one at a time, then batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK, HEAD
from fleet.rollout.commands import EXPORTER
from fleet.rollout.outcome import Outcome


def waves(hosts: Sequence[Host], batch: int) -> list[tuple[Host, ...]]:
    """Waves of hosts, in rollout order; the hosts of a wave are changed in parallel.

    Heads of Ray clusters come first, speech services on clusters last; of each of these parts its canaries first.
    """
    found: list[tuple[Host, ...]] = []
    for group in _groups(hosts):
        first = _canaries(group)
        rest = [host for host in group if host not in first]
        found += [(host,) for host in first]
        found += [tuple(rest[at : at + batch]) for at in range(0, len(rest), batch)]
    return found


def canaries(hosts: Sequence[Host]) -> list[Host]:
    """Canary of each role.

    It is the host marked in the inventory, else a canary of another role, else the first host with the role; of hosts
    that have to wait for others, see `waves`, each part has its own.
    """
    return [host for group in _groups(hosts) for host in _canaries(group)]


def _groups(hosts: Sequence[Host]) -> list[list[Host]]:
    """Hosts in the order of Ray clusters: heads, then workers and all hosts of no cluster, then speech services."""
    heads = [host for host in hosts if HEAD in host.roles]
    last = [host for host in hosts if BARK in host.ray_roles and HEAD not in host.roles]
    return [heads, [host for host in hosts if host not in heads and host not in last], last]


def _canaries(hosts: Sequence[Host]) -> list[Host]:
    all_roles = dict.fromkeys(role for host in hosts for role in roles(host))
    found: list[Host] = []
    for role in all_roles:
        named = [host for host in hosts if host.canary and role in roles(host)]
        found += [host for host in named[:1] if host not in found]
    for role in all_roles:
        if not any(role in roles(host) for host in found):
            found.append(next(host for host in hosts if role in roles(host)))
    return found


def roles(host: Host) -> tuple[str, ...]:
    """Roles of a host; the exporter for a host without roles."""
    return host.roles or (EXPORTER,)


def roll(
    order: Sequence[Sequence[Host]],
    work: Callable[[Sequence[Host]], Sequence[Outcome]],
    may_continue: Callable[[], bool],
    *,
    canaries: Collection[str] = (),
    max_failed: int = 0,
) -> Iterator[Outcome]:
    """Run the waves in order.

    After a failed canary (of the names in `canaries`), after more than `max_failed` failed hosts, or when
    `may_continue` is false, the rest is not touched.
    """
    failed: list[str] = []
    reason = ""
    for wave in order:
        if reason or not may_continue():
            yield from (Outcome(host.name, "not touched", note=reason) for host in wave)
            continue
        for outcome in work(wave):
            failed += [outcome.host] if outcome.failed else []
            yield outcome
            if outcome.result == "interrupted":
                reason = reason or "the rollout was interrupted"
        if broken := [name for name in failed if name in canaries]:
            reason = f"the canary {', '.join(broken)} failed"
        elif len(failed) > max_failed:
            reason = reason or f"failed: {', '.join(failed)}; rollout.max_failed allows {max_failed} of these hosts"
