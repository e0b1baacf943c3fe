"""`fab plan`, `deploy`, `rollback`, `drain`, `status`, `unlock`: releases on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric import task

from fleet import audit, lock
from fleet.errors import FleetError, HostFailedError
from fleet.images.image import ROLES
from fleet.images.third_party import THIRD_PARTY
from fleet.inventory.hosts import Host
from fleet.rollout import report
from fleet.rollout.apply import drain_host
from fleet.rollout.change_plan import ChangePlan, plan_rollback
from fleet.rollout.context import Outcome
from fleet.rollout.host_state import CURRENT
from fleet.rollout.status import Status, read_status
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import (
    HELP,
    exit_with,
    graceful_stop,
    load_inventory,
    missing_options,
    print_json,
    reporting_errors,
    select_hosts,
    selected,
)
from tasks.releases import (
    deploy_releases,
    outcomes_of,
    plan_releases,
    refuse_unfit,
    report_outcomes,
    rollout_context,
    rollout_task,
    run,
    select,
    show_or_end,
)

LONGEST_MAINTENANCE = 14 * 24 * 60  # minutes
DRAIN = "stop training runs with a checkpoint and resume them afterwards; otherwise hosts that train are skipped"
SKIP_UNFIT = "go on without hosts that are unreachable, locked or not fit; they are named, and the exit code is 1"
ROLE = "only hosts with this role (trainer, bark, monitoring, gateway); repeatable, as --host"
SITE = (
    "directory with your additions to monitoring: rules/*.yaml, targets/*.yaml, compose.yaml, monitoring.env "
    "[default: site/ beside the inventory]"
)
IMAGE = (
    "ROLE=REFERENCE: use this image instead of the commit's in the registry, or of the last built one; roles: "
    f"{', '.join((*ROLES, *THIRD_PARTY))}"
)


@task(
    iterable=["host", "group", "role", "image"],
    auto_shortflags=False,
    help=HELP
    | {
        "image": IMAGE,
        "role": ROLE,
        "site": SITE,
        "skip-unfit": "plan as `deploy --skip-unfit` does: list the hosts that it leaves out",
        "exit-code": "exit with 1 where something would change",
    },
)
def plan(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    role: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    site: str = "",
    skip_unfit: bool = False,
    exit_code: bool = False,
    json: bool = False,
) -> None:
    """Show the changes a deploy would make on each host, as a diff; changes nothing."""
    with reporting_errors(), reading(), Connections() as connections:
        chosen = select(inventory, host, group, role, site=site, image=image, skip_unfit=skip_unfit)
        plan_releases(chosen, connections, exit_code=exit_code, json=json)


@task(
    iterable=["host", "group", "role", "image"],
    auto_shortflags=False,
    help=HELP | {"image": IMAGE, "role": ROLE, "site": SITE, "drain": DRAIN, "skip-unfit": SKIP_UNFIT},
)
def deploy(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    role: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    site: str = "",
    drain: bool = False,
    skip_unfit: bool = False,
    json: bool = False,
) -> None:
    """Show the changes, then deploy: a canary per role first, then batches; stop after rollout.max_failed failures."""
    with reporting_errors(), Connections() as connections:
        chosen = select(inventory, host, group, role, site=site, image=image, skip_unfit=skip_unfit)
        deploy_releases(chosen, connections, drain=drain, json=json)


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP
    | {
        "release": "roll back to this release [default: the previous one]",
        "drain": DRAIN,
        "skip-unfit": "go on without hosts that are unreachable, locked or lack the release; exit code 1",
    },
)
def rollback(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    release: str = "",
    inventory: str = "",
    drain: bool = False,
    skip_unfit: bool = False,
    json: bool = False,
) -> None:
    """Roll back to the previous release, from the files and images on the hosts."""
    with reporting_errors(), Connections() as connections:
        fleet = load_inventory(inventory)
        hosts = selected(fleet, host, group)
        context = rollout_context(fleet, connections, drain=drain)

        def planned(each: Host) -> ChangePlan:
            session = connections.to(each)
            if skip_unfit and (lock_there := lock.read_lock(session)) is not None:
                raise HostFailedError(lock.refusal(each.name, lock_there))
            return plan_rollback(session, each.name, release or None)

        with reading():
            found = on_every_host(hosts, planned)
        show_or_end(hosts, found, {}, skip_unfit=skip_unfit, json=json)
        refuse_unfit("cannot roll back", found, skip_unfit=skip_unfit)

        def replan(each: Host, session: Session) -> ChangePlan:
            return plan_rollback(session, each.name, found.succeeded[each.name].manifest.id)

        fit = [each for each in hosts if each.name in found.succeeded]
        run(
            fit, found.succeeded, connections,
            rollout_task("rollback", replan, fleet, fit, skip_unfit=skip_unfit), context,
            json=json, unfit=found.failed, withheld={}, order=hosts,
        )  # fmt: skip


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP | {"minutes": "for which its alerts are silent, unless a deploy ends it before [default: 120]"},
)
def drain(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    minutes: str = "120",
    inventory: str = "",
    json: bool = False,
) -> None:
    """Drain hosts: stop training runs with a checkpoint, stop services gracefully; undo with `deploy --drain`."""
    with reporting_errors(), Connections() as connections:
        if not host and not group:
            raise FleetError(missing_options("drain", ["host"]))
        if not (minutes.isascii() and minutes.isdecimal()) or not 1 <= int(minutes) <= LONGEST_MAINTENANCE:
            raise FleetError(
                f"--minutes {minutes}: expected a number from 1 to {LONGEST_MAINTENANCE} (two weeks), such as 30"
            )
        fleet = load_inventory(inventory)
        hosts = selected(fleet, host, group)
        context = rollout_context(fleet, connections, drain=True, maintenance_seconds=60.0 * int(minutes))
        with graceful_stop(context.cancellation):
            done = on_every_host(hosts, lambda each: drain_host(connections.to(each), each.name, context))
        report_outcomes(outcomes_of(hosts, done), json=json)


@task(iterable=["host", "group"], auto_shortflags=False, help=HELP)
def status(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Show release, service health and configuration drift of each host."""
    with reporting_errors(), reading(), Connections() as connections:
        hosts = select_hosts(inventory, host, group)
        result: GroupResult[Status] = on_every_host(
            hosts, lambda each: read_status(connections.to(each), each.name), keep=True
        )
        names = [each.name for each in hosts]
        document = report.status_document(result, names)
        if json:
            print_json(document)
        else:
            report.console().print(report.status_table(result, names))
        exit_with(good=bool(document["ok"]))


@task(iterable=["host", "group"], auto_shortflags=False, help=HELP)
def unlock(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Break the deployment lock of hosts; prints its owner and records it in the audit log."""
    with reporting_errors(), Connections() as connections:
        if not host and not group:
            raise FleetError(missing_options("unlock", ["host"]))
        hosts = select_hosts(inventory, host, group)
        report_outcomes(
            outcomes_of(hosts, on_every_host(hosts, lambda each: _unlock(connections.to(each), each))), json=json
        )


def _unlock(session: Session, host: Host) -> Outcome:
    broken = lock.break_lock(session, host.name)
    current = CURRENT.among(session.run([CURRENT.command]))
    release = current if isinstance(current, str) else ""
    if broken is None:
        return Outcome(host.name, "unchanged", release, release, "it was not locked")
    note = f"broke the lock of {broken}"
    audit.record(session, host.name, audit.AuditEntry("unlock", release, release, "ok", note))
    return Outcome(host.name, "unlocked", release, release, note)
