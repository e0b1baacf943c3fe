"""`fab monitoring`: Prometheus, Alertmanager and Grafana on the monitoring hosts."""

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
from fleet.monitoring import images
from fleet.monitoring.check import check_here
from fleet.monitoring.export import write
from fleet.monitoring.release import MonitoringImage, MonitoringInputs, MonitoringRelease, read_inputs, render
from fleet.monitoring.render import webhook_secrets
from fleet.monitoring.report import changes_table, document
from fleet.monitoring.rollout import MonitoringRollout
from fleet.monitoring.state import MonitoringChange, plan_change, read_container_user, read_state
from fleet.rollout import report
from fleet.ssh.connection_pool import Connections, GroupResult, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import (
    HELP,
    IMAGES_CACHE,
    ROOT,
    absolute_path,
    exit_with,
    fail,
    load_inventory,
    print_json,
    reporting_errors,
    say,
    selected,
    split_names,
)


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP
    | {
        "check": "only show the changes",
        "exit-code": "with --check: exit with 1 where something would change",
        "site": "directory with your additions: rules/*.yaml, targets/*.yaml, compose.yaml, monitoring.env "
        "[default: site/ beside the inventory]",
        "out": "write the files to this local directory instead of deploying to hosts",
    },
)
def monitoring(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    site: str = "",
    check: bool = False,
    exit_code: bool = False,
    out: str = "",
    json: bool = False,
) -> None:
    """Deploy Prometheus, Alertmanager and Grafana to the monitoring hosts; restart or reload only what changed."""
    with reporting_errors():
        if exit_code and not check:
            raise FleetError("--exit-code needs --check")
        fleet = load_inventory(inventory)
        inputs = read_inputs(ROOT, absolute_path(site) or fleet.path.parent / "site")
        if (folder := absolute_path(out)) is not None:
            _write(fleet, inputs, folder)
            return
        hosts = _monitoring_hosts(fleet, host, group)
        program_images = images.find(inputs.images, images.pinned(ROOT))
        with Connections() as connections:
            with reading():
                planned = _plan(hosts, fleet, inputs, program_images, connections)
            names = [each.name for each in hosts]
            if not json:
                report.console().print(changes_table(planned))
            if check:
                if json:
                    print_json(document(names, planned, {}, done=False))
                exit_with(good=not exit_code or all(each.nothing for each in planned.values()))
                return
            done = _apply(hosts, planned, connections, fleet.rollout.min_healthy_seconds)
        if json:
            print_json(document(names, planned, done.failed, done=True))
        if done.failed:
            for name, error in done.failed.items():
                say(f"{name}: {error}")
            fail(f"monitoring: done: {', '.join(done.succeeded) or 'no host'}; failed: {', '.join(done.failed)}")
        say(f"monitoring: done: {', '.join(done.succeeded)}" if done.succeeded else "nothing to do on any host")


def _plan(
    hosts: Sequence[Host],
    fleet: Inventory,
    inputs: MonitoringInputs,
    program_images: dict[str, MonitoringImage],
    connections: Connections,
) -> dict[str, MonitoringChange]:
    """Planned changes of each host, after a configuration check. Ends the task where a host cannot be read."""
    secrets = {each.name: read_secrets(each.secrets) if each.secrets else Secrets() for each in hosts}

    def rendered(each: Host) -> MonitoringRelease:
        login = read_container_user(connections.to(each), each.name)
        return render(fleet, inputs, secrets[each.name], program_images, login.uid, login.gid)

    releases = _all_of(on_every_host(hosts, rendered))
    for one in {each.id: each for each in releases.values()}.values():
        check_here(one)

    def compared(each: Host) -> MonitoringChange:
        wanted = releases[each.name]
        return plan_change(wanted, read_state(connections.to(each), each.name, wanted.id))

    return _all_of(on_every_host(hosts, compared))


def _apply(
    hosts: Sequence[Host], planned: dict[str, MonitoringChange], connections: Connections, min_healthy_seconds: float
) -> GroupResult[MonitoringChange]:
    cache = ImageCache(IMAGES_CACHE)

    def act(each: Host) -> MonitoringChange:
        rollout = MonitoringRollout(each.name, connections.to(each), cache, min_healthy_seconds)
        return rollout.apply(planned[each.name].release)

    return on_every_host([each for each in hosts if not planned[each.name].nothing], act)


def _all_of(result: GroupResult[Any]) -> dict[str, Any]:
    """Results of all hosts. Ends the task where one failed: nothing has been changed yet."""
    if result.failed:
        fail("\n".join([*map(str, result.failed.values()), "nothing was changed"]))
    return dict(result.succeeded)


def _monitoring_hosts(
    fleet: Inventory, names: Sequence[str] | None, groups: Sequence[str] | None = None
) -> tuple[Host, ...]:
    """Hosts with the role monitoring. Raises FleetError where there is none, or a named host lacks the role."""
    chosen = selected(fleet, names, groups)
    monitoring_hosts = tuple(each for each in chosen if "monitoring" in each.roles)
    others = [each.name for each in chosen if each.name in split_names(names) and each not in monitoring_hosts]
    if others or not monitoring_hosts:
        no_host = f"no host of {', '.join(split_names(groups))} has" if groups else "no host has"
        who = f"{', '.join(others)} does not have" if others else no_host
        raise FleetError(
            f"{fleet.path}: {who} the role monitoring: add roles: [monitoring] to a host, "
            "or write the files for this machine with --out DIR"
        )
    return monitoring_hosts


def _write(fleet: Inventory, inputs: MonitoringInputs, folder: Path) -> None:
    names = (*webhook_secrets(fleet), GRAFANA)  # the values are not written
    placeholders = Secrets(dict.fromkeys(names, b""))
    release = render(fleet, inputs, placeholders, {}, os.getuid(), os.getgid(), named=lambda name, _: name)
    check_here(release)
    command = write(release, folder)
    say(f"{folder}: monitoring {release.id}, {len(release.files)} files")
    if release.secrets:
        say(f"write each secret to a file of its own (mode 0600) in {folder}/secrets: {', '.join(release.secrets)}")
    say(f"start with: {command}")
