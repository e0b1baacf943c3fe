"""A deploy in its order: look, judge, render, compare; then, and only then, act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.change import Change, change, read_state
from fleet.image import LocalImage, save
from fleet.inventory import Host
from fleet.release import Release, compose_sources, render
from fleet.remote import GroupResult, connected, on_every_host
from fleet.rollout import apply
from fleet.survey import Surveyed


def releases(surveyed: Mapping[str, Surveyed], image: LocalImage, compose: Path) -> dict[str, Release]:
    """What each host should have; `compose` is the folder with our compose files. Raises FleetError."""
    return {
        name: render(
            each.host,
            each.assignment,
            image,
            compose_sources(compose, each.host, gpus=each.has_gpus),
            each.address,
        )
        for name, each in surveyed.items()
    }


def changes(hosts: Sequence[Host], wanted: Mapping[str, Release]) -> GroupResult[Change]:
    """What would change on each host; changes nothing."""

    def compare(host: Host) -> Change:
        with connected(host) as session:
            return change(wanted[host.name], read_state(session, wanted[host.name]))

    return on_every_host(hosts, compare)


def carry_out(hosts: Sequence[Host], planned: Mapping[str, Change]) -> GroupResult[Change]:
    """Do what is planned, on every host with something to do; a host that fails stands among the failed."""

    def act(host: Host) -> Change:
        planned_here = planned[host.name]
        with connected(host) as session:
            apply(host.name, session, planned_here, lambda: save(planned_here.release.image))
        return planned_here

    return on_every_host([host for host in hosts if not planned[host.name].nothing], act)
