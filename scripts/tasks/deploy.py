"""`fab plan`, `deploy`, `rollback`, `drain`, `status`, `unlock`: releases on the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabric import task

from fleet import audit, lock
from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.images.cuda import cuda_needs
from fleet.images.image import ROLES
from fleet.inventory.hosts import Host, Inventory
from fleet.monitoring.silence import AlertmanagerSilencer
from fleet.release.artefact import ChecksumCache
from fleet.rollout import report
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.context import RolloutContext
from fleet.rollout.drain import drain_host
from fleet.rollout.fleet import (
    Images,
    PlannedRelease,
    RolloutTask,
    find_images,
    inspect_hosts,
    plan_hosts,
    read_host,
    refuse_locked,
    run_rollout,
    unfit_hosts,
)
from fleet.rollout.host_state import CURRENT
from fleet.rollout.outcome import Outcome
from fleet.rollout.rollback import plan_rollback
from fleet.rollout.status import Status, read_status
from fleet.runs.rollout_hooks import TrainingRunHooks
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import (
    COMPOSE,
    HELP,
    IMAGES_CACHE,
    ROOT,
    exit_with,
    fail,
    graceful_stop,
    load_inventory,
    missing_options,
    print_json,
    reporting_errors,
    say,
    select_hosts,
    split_names,
)

CHECKSUMS = ROOT / "build/checksums.json"
DRAIN = "stop training runs with a checkpoint and resume them afterwards; otherwise hosts that train are skipped"
IMAGE = f"ROLE=REFERENCE: use this image instead of the last built one; roles: {', '.join(ROLES)}"


@task(
    iterable=["host", "image"],
    auto_shortflags=False,
    help=HELP | {"image": IMAGE, "exit-code": "exit with 1 where something would change"},
)
def plan(
    _: Any,
    host: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    exit_code: bool = False,
    json: bool = False,
) -> None:
    """Show the changes a deploy would make on each host, as a diff; changes nothing."""
    with reporting_errors(), reading(), Connections() as connections:
        hosts = select_hosts(inventory, host)
        planned, _ = _planned(hosts, connections, _references(image), to_act=False)
        names = [each.name for each in hosts]
        changes = {name: planned.succeeded[name].change for name in names if name in planned.succeeded}
        document = report.plan_document(GroupResult(changes, planned.failed), names)
        if json:
            print_json(document)
        else:
            _show(changes, planned.failed)
        exit_with(good=bool(document["ok"]) and not (exit_code and document["changes"]))


@task(iterable=["host", "image"], auto_shortflags=False, help=HELP | {"image": IMAGE, "drain": DRAIN})
def deploy(
    _: Any,
    host: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    drain: bool = False,
    json: bool = False,
) -> None:
    """Show the changes, then deploy: a canary per role first, then batches; the first failure stops the rollout."""
    with reporting_errors(), Connections() as connections:
        fleet = load_inventory(inventory)
        hosts = fleet.select(split_names(host))
        with reading():
            planned, needed = _planned(hosts, connections, _references(image), to_act=True)
        changes = {name: each.change for name, each in planned.succeeded.items()}
        if not json or planned.failed:
            _show(changes, planned.failed)
        if planned.failed:
            fail(f"nothing was changed; not ready: {', '.join(planned.failed)} (select the other hosts with --host)")

        def replan(each: Host, session: Session) -> ChangePlan:
            release = planned.succeeded[each.name].release
            return plan_change(release, read_host(session, each, release))

        context = _context(fleet, connections, drain=drain)
        context.cache.keep_only(image for images in needed.values() for image in images.values())
        task = RolloutTask("deploy", replan, fleet.rollout.batch)
        _run(hosts, changes, connections, task, context, json=json)


@task(
    iterable=["host"],
    auto_shortflags=False,
    help=HELP | {"release": "roll back to this release [default: the previous one]", "drain": DRAIN},
)
def rollback(
    _: Any,
    host: Sequence[str] | None = None,
    release: str = "",
    inventory: str = "",
    drain: bool = False,
    json: bool = False,
) -> None:
    """Roll back to the previous release, from the files and images on the hosts."""
    with reporting_errors(), Connections() as connections:
        fleet = load_inventory(inventory)
        hosts = fleet.select(split_names(host))
        with reading():
            found = on_every_host(hosts, lambda each: plan_rollback(connections.to(each), each.name, release or None))
        if not json or found.failed:
            _show(found.succeeded, found.failed)
        if found.failed:
            fail(
                f"nothing was changed; cannot roll back: {', '.join(found.failed)} (select the other hosts with --host)"
            )

        def replan(each: Host, session: Session) -> ChangePlan:
            return plan_rollback(session, each.name, found.succeeded[each.name].manifest.id)

        context = _context(fleet, connections, drain=drain)
        _run(
            hosts,
            found.succeeded,
            connections,
            RolloutTask("rollback", replan, fleet.rollout.batch),
            context,
            json=json,
        )


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def drain(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Drain hosts: stop training runs with a checkpoint, stop services gracefully; undo with `deploy --drain`."""
    with reporting_errors(), Connections() as connections:
        names = split_names(host)
        if not names:
            raise FleetError(missing_options("drain", ["host"]))
        fleet = load_inventory(inventory)
        context = _context(fleet, connections, drain=True)
        with graceful_stop(context.cancellation):
            hosts = fleet.select(names)
            done = on_every_host(hosts, lambda each: drain_host(connections.to(each), each.name, context))
        _report(_outcomes(hosts, done), json=json)


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def status(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show release, service health and configuration drift of each host."""
    with reporting_errors(), reading(), Connections() as connections:
        hosts = select_hosts(inventory, host)
        result: GroupResult[Status] = on_every_host(hosts, lambda each: read_status(connections.to(each)), keep=True)
        names = [each.name for each in hosts]
        document = report.status_document(result, names)
        if json:
            print_json(document)
        else:
            report.console().print(report.status_table(result, names))
        exit_with(good=bool(document["ok"]))


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def unlock(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Break the deployment lock of hosts; prints its owner and records it in the audit log."""
    with reporting_errors(), Connections() as connections:
        names = split_names(host)
        if not names:
            raise FleetError(missing_options("unlock", ["host"]))
        hosts = select_hosts(inventory, names)
        _report(_outcomes(hosts, on_every_host(hosts, lambda each: _unlock(connections.to(each), each))), json=json)


def _unlock(session: Session, host: Host) -> Outcome:
    broken = lock.break_lock(session, host.name)
    current = CURRENT.among(session.run([CURRENT.command]))
    release = current if isinstance(current, str) else ""
    if broken is None:
        return Outcome(host.name, "unchanged", release, release, "it was not locked")
    note = f"broke the lock of {broken}"
    audit.record(session, host.name, audit.AuditEntry("unlock", release, release, "ok", note))
    return Outcome(host.name, "unlocked", release, release, note)


def _planned(
    hosts: Sequence[Host], connections: Connections, references: Mapping[str, str], *, to_act: bool
) -> tuple[GroupResult[PlannedRelease], Images]:
    """Planned release and changes of each host; hosts that fail the preflight are among the failed."""
    needed = find_images(hosts, references)
    say(f"inspecting {len(hosts)} hosts")
    cuda = {name: cuda_needs(images) for name, images in needed.items()}
    snapshots = inspect_hosts(hosts, connections, needed, cuda)
    if to_act:
        refuse_locked(snapshots.succeeded)
    unfit = unfit_hosts(hosts, snapshots)
    if unfit:
        reports = GroupResult({name: each.host_report for name, each in snapshots.succeeded.items()}, snapshots.failed)
        report.console(error=True).print(report.findings_table(reports, unfit))
    fit = [each for each in hosts if each.name not in unfit]
    planned = plan_hosts(fit, connections, snapshots.succeeded, needed, COMPOSE, ChecksumCache(CHECKSUMS))
    failed = {name: FleetError("preflight failed, see the findings above") for name in unfit} | dict(snapshots.failed)
    return GroupResult(planned.succeeded, {**failed, **planned.failed}), needed


def _show(changes: Mapping[str, ChangePlan], failed: Mapping[str, FleetError]) -> None:
    console = report.console()
    if diff := report.diff_text(changes):
        console.print(diff, markup=False, highlight=False, soft_wrap=True)
    console.print(report.changes_table(changes))
    if failed:
        console.print(report.errors_table(failed))


def _run(
    hosts: Sequence[Host],
    changes: Mapping[str, ChangePlan],
    connections: Connections,
    task: RolloutTask,
    context: RolloutContext,
    *,
    json: bool,
) -> None:
    drained: Mapping[str, bool] = {}
    if context.drain:
        with reading():
            drained = on_every_host(hosts, lambda each: bool(context.runs.waiting(connections.to(each)))).succeeded
    concerned = [each for each in hosts if not changes[each.name].nothing or drained.get(each.name)]
    unchanged = [
        Outcome(each.name, "unchanged", changes[each.name].current or "", changes[each.name].manifest.id)
        for each in hosts
        if each not in concerned
    ]
    if not concerned:
        say("nothing to do on any host")
    done: list[Outcome] = []
    with graceful_stop(context.cancellation):
        if concerned:
            done = list(run_rollout(concerned, connections, task, context))
    order = {each.name: number for number, each in enumerate(hosts)}
    _report(sorted([*done, *unchanged], key=lambda each: order[each.host]), json=json)


def _outcomes(hosts: Sequence[Host], done: GroupResult[Outcome]) -> list[Outcome]:
    return [
        done.succeeded.get(each.name) or Outcome(each.name, "failed", note=str(done.failed[each.name]))
        for each in hosts
    ]


def _report(outcomes: Sequence[Outcome], *, json: bool) -> None:
    """Print the outcomes; hosts skipped because they train do not count as failed."""
    if json:
        print_json(report.outcomes_document(outcomes))
    else:
        report.console().print(report.outcomes_table(outcomes))
    exit_with(good=all(each.good or each.result == "skipped" for each in outcomes))


def _context(fleet: Inventory, connections: Connections, *, drain: bool) -> RolloutContext:
    silencer = AlertmanagerSilencer(fleet.hosts, connections.shared)
    return RolloutContext(
        runs=TrainingRunHooks(),
        silencer=silencer,
        cache=ImageCache(IMAGES_CACHE),
        drain=drain,
        min_healthy_seconds=fleet.rollout.min_healthy_seconds,
    )


def _references(images: Sequence[str] | None) -> dict[str, str]:
    """Image references by role, from --image options."""
    found = {}
    for text in images or ():
        role, equals, reference = text.partition("=")
        if not equals or role not in ROLES or not reference:
            raise FleetError(f"--image {text}: expected ROLE=REFERENCE, with a role of {', '.join(ROLES)}")
        found[role] = reference
    return found
