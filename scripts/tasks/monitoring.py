"""`fab monitoring`: Prometheus, Alertmanager and Grafana on the hosts that watch the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.inventory.hosts import Host, Inventory
from fleet.inventory.secrets import GRAFANA, Secrets
from fleet.inventory.secrets import read as read_secrets
from fleet.monitoring import images as monitoring_images
from fleet.monitoring.check import check_here
from fleet.monitoring.export import write
from fleet.monitoring.release import Picture, Release, Supplies, gather, render
from fleet.monitoring.render import webhook_secrets
from fleet.monitoring.report import changes_table, document
from fleet.monitoring.rollout import Rollout
from fleet.monitoring.state import Change, change, read_login, read_state
from fleet.rollout import report
from fleet.ssh.connection_pool import Connections, GroupResult, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import HELP, IMAGES_CACHE, ROOT, answering, fleet_of, leave, path_of, print_json, say, stop


@task(
    iterable=["host"],
    auto_shortflags=False,
    help=HELP
    | {
        "check": "only show what would change",
        "exit-code": "with --check: answer 1 where something would change",
        "site": "directory with what you add: rules/*.yaml, targets/*.yaml, compose.yaml, monitoring.env; "
        "`site` beside the inventory unless given",
        "out": "write the files to this directory, for the machine you sit at, and touch no host",
    },
)
def monitoring(
    _: Any,
    host: Sequence[str] | None = None,
    inventory: str = "",
    site: str = "",
    check: bool = False,
    exit_code: bool = False,
    out: str = "",
    json: bool = False,
) -> None:
    """Set up what watches the hosts, on those with the role monitoring; start or reload only what changed."""
    with answering():
        if exit_code and not check:
            raise FleetError("--exit-code goes with --check: it says whether something would change")
        fleet = fleet_of(inventory)
        supplies = gather(ROOT, path_of(site) or fleet.path.parent / "site")
        if out:
            _write(fleet, supplies, Path(out).expanduser().absolute())
            return
        hosts = _watchers(fleet, host)
        pictures = monitoring_images.find(supplies.images, monitoring_images.pinned(ROOT))
        with Connections() as connections:
            with reading():
                planned = _plan(hosts, fleet, supplies, pictures, connections)
            names = [each.name for each in hosts]
            if not json:
                report.console().print(changes_table(planned))
            if check:
                if json:
                    print_json(document(names, planned, {}, done=False))
                leave(good=not exit_code or all(each.nothing for each in planned.values()))
                return
            done = _carry_out(hosts, planned, connections, fleet.rollout.min_healthy_seconds)
        if json:
            print_json(document(names, planned, done.failed, done=True))
        if done.failed:
            for name, error in done.failed.items():
                say(f"{name}: {error}")
            stop(f"monitoring: done: {', '.join(done.succeeded) or 'no host'}; failed: {', '.join(done.failed)}")
        say(f"monitoring: done: {', '.join(done.succeeded)}" if done.succeeded else "nothing to do on any host")


def _plan(
    hosts: Sequence[Host],
    fleet: Inventory,
    supplies: Supplies,
    pictures: dict[str, Picture],
    connections: Connections,
) -> dict[str, Change]:
    """Planned release of each host, checked, beside its state. Ends the task where one cannot be read."""
    secrets = {each.name: read_secrets(each.secrets) if each.secrets else Secrets() for each in hosts}

    def rendered(each: Host) -> Release:
        login = read_login(connections.to(each), each.name)
        return render(fleet, supplies, secrets[each.name], pictures, login.uid, login.gid)

    releases = _all_of(on_every_host(hosts, rendered))
    for one in {each.id: each for each in releases.values()}.values():
        check_here(one)

    def compared(each: Host) -> Change:
        wanted = releases[each.name]
        return change(wanted, read_state(connections.to(each), each.name, wanted.id))

    return _all_of(on_every_host(hosts, compared))


def _carry_out(
    hosts: Sequence[Host], planned: dict[str, Change], connections: Connections, min_healthy_seconds: float
) -> GroupResult[Change]:
    cache = ImageCache(IMAGES_CACHE)

    def act(each: Host) -> Change:
        rollout = Rollout(each.name, connections.to(each), cache, min_healthy_seconds)
        return rollout.carry_out(planned[each.name].release)

    return on_every_host([each for each in hosts if not planned[each.name].nothing], act)


def _all_of(result: GroupResult[Any]) -> dict[str, Any]:
    """Results of every host; where one failed, nothing has been changed yet, and the task ends."""
    if result.failed:
        stop("\n".join([*map(str, result.failed.values()), "nothing was changed"]))
    return dict(result.succeeded)


def _watchers(fleet: Inventory, names: Sequence[str] | None) -> tuple[Host, ...]:
    """The hosts that watch. Raises FleetError where there is none, or one is named that does not."""
    chosen = fleet.select(names or ())
    watchers = tuple(each for each in chosen if "monitoring" in each.roles)
    others = [each.name for each in chosen if each not in watchers] if names else []
    if others or not watchers:
        who = f"{', '.join(others)} does not have" if others else "no host has"
        raise FleetError(
            f"{fleet.path}: {who} the role monitoring: give it to the host that is to watch the others, "
            "roles: [monitoring]; or write the files for this machine with --out DIR"
        )
    return watchers


def _write(fleet: Inventory, supplies: Supplies, folder: Path) -> None:
    names = (*webhook_secrets(fleet), GRAFANA)  # their values stay with the operator
    release = render(fleet, supplies, Secrets(dict.fromkeys(names, b"")), {}, os.getuid(), os.getgid())
    check_here(release)
    command = write(release, folder)
    say(f"{folder}: monitoring {release.id}, {len(release.files)} files")
    if release.secrets:
        say(f"put the secrets there, a file each, for yourself alone: {folder}/secrets: {', '.join(release.secrets)}")
    say(f"start with: {command}")
