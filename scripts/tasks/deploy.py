"""`fab plan`, `deploy`, `rollback`, `drain`, `status`, `unlock`: releases on the hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric import task

from fleet import audit, lock
from fleet.errors import FleetError, HostFailedError
from fleet.images.archive import ImageCache
from fleet.images.cuda import cuda_needs
from fleet.images.gateway import GATEWAY, find_gateway
from fleet.images.image import ROLES
from fleet.images.node_exporter import NODE_EXPORTER, find_node_exporter
from fleet.inventory.hosts import Host, Inventory
from fleet.monitoring.silence import AlertmanagerSilencer
from fleet.release.artefact import ChecksumCache
from fleet.release.release import found_images
from fleet.rollout import report
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.context import RolloutContext
from fleet.rollout.drain import drain_host
from fleet.rollout.fitness import locked_hosts, refuse_locked, unfit_hosts
from fleet.rollout.fleet import (
    Images,
    PlannedRelease,
    RolloutTask,
    find_images,
    inspect_hosts,
    plan_hosts,
    read_host,
    run_rollout,
    unchanged,
)
from fleet.rollout.hooks import check_programs
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
    selected,
)

_OF_OTHERS = {NODE_EXPORTER: find_node_exporter, GATEWAY: find_gateway}
CHECKSUMS = ROOT / "build/checksums.json"
DRAIN = "stop training runs with a checkpoint and resume them afterwards; otherwise hosts that train are skipped"
SKIP_UNFIT = "go on without hosts that are unreachable, locked or not fit; they are named, and the exit code is 1"
IMAGE = (
    "ROLE=REFERENCE: use this image instead of the commit's in the registry, or of the last built one; roles: "
    f"{', '.join((*ROLES, *_OF_OTHERS))}"
)


@task(
    iterable=["host", "group", "image"],
    auto_shortflags=False,
    help=HELP
    | {
        "image": IMAGE,
        "skip-unfit": "plan as `deploy --skip-unfit` does: list the hosts that it leaves out",
        "exit-code": "exit with 1 where something would change",
    },
)
def plan(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    skip_unfit: bool = False,
    exit_code: bool = False,
    json: bool = False,
) -> None:
    """Show the changes a deploy would make on each host, as a diff; changes nothing."""
    with reporting_errors(), reading(), Connections() as connections:
        hosts = select_hosts(inventory, host, group)
        planned, _ = _planned(hosts, connections, _references(image), to_act=False, skip_unfit=skip_unfit)
        names = [each.name for each in hosts]
        changes = {name: planned.succeeded[name].change for name in names if name in planned.succeeded}
        withheld = _withheld(planned)
        document = report.plan_document(GroupResult(changes, planned.failed), names, withheld, skip_unfit=skip_unfit)
        if json:
            print_json(document)
        else:
            _show(changes, planned.failed, withheld, skip_unfit=skip_unfit)
        exit_with(good=bool(document["ok"]) and not (exit_code and document["changes"]))


@task(
    iterable=["host", "group", "image"],
    auto_shortflags=False,
    help=HELP | {"image": IMAGE, "drain": DRAIN, "skip-unfit": SKIP_UNFIT},
)
def deploy(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    drain: bool = False,
    skip_unfit: bool = False,
    json: bool = False,
) -> None:
    """Show the changes, then deploy: a canary per role first, then batches; stop after rollout.max_failed failures."""
    with reporting_errors(), Connections() as connections:
        fleet = load_inventory(inventory)
        hosts = selected(fleet, host, group)
        context = _context(fleet, connections, drain=drain)
        with reading():
            planned, needed = _planned(hosts, connections, _references(image), to_act=True, skip_unfit=skip_unfit)
        changes = {name: each.change for name, each in planned.succeeded.items()}
        if not json or _ends(planned, skip_unfit=skip_unfit):
            _show(changes, planned.failed, _withheld(planned), skip_unfit=skip_unfit)
        _refuse_unfit("not ready", planned, skip_unfit=skip_unfit)

        def replan(each: Host, session: Session) -> ChangePlan:
            release = planned.succeeded[each.name].release
            return plan_change(release, read_host(session, each, release))

        context.cache.keep_only(image for images in needed.values() for image in images.values())
        fit = [planned.succeeded[each.name].host for each in hosts if each.name in planned.succeeded]
        _run(
            fit, changes, connections, _rollout("deploy", replan, fleet, fit, skip_unfit=skip_unfit), context,
            json=json, unfit=planned.failed, withheld=_withheld(planned), order=hosts,
        )  # fmt: skip


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
        context = _context(fleet, connections, drain=drain)

        def planned(each: Host) -> ChangePlan:
            session = connections.to(each)
            if skip_unfit and (lock_there := lock.read_lock(session)) is not None:
                raise HostFailedError(lock.refusal(each.name, lock_there))
            return plan_rollback(session, each.name, release or None)

        with reading():
            found = on_every_host(hosts, planned)
        if not json or _ends(found, skip_unfit=skip_unfit):
            _show(found.succeeded, found.failed, {}, skip_unfit=skip_unfit)
        _refuse_unfit("cannot roll back", found, skip_unfit=skip_unfit)

        def replan(each: Host, session: Session) -> ChangePlan:
            return plan_rollback(session, each.name, found.succeeded[each.name].manifest.id)

        fit = [each for each in hosts if each.name in found.succeeded]
        _run(
            fit, found.succeeded, connections, _rollout("rollback", replan, fleet, fit, skip_unfit=skip_unfit), context,
            json=json, unfit=found.failed, withheld={}, order=hosts,
        )  # fmt: skip


@task(iterable=["host", "group"], auto_shortflags=False, help=HELP)
def drain(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Drain hosts: stop training runs with a checkpoint, stop services gracefully; undo with `deploy --drain`."""
    with reporting_errors(), Connections() as connections:
        if not host and not group:
            raise FleetError(missing_options("drain", ["host"]))
        fleet = load_inventory(inventory)
        hosts = selected(fleet, host, group)
        context = _context(fleet, connections, drain=True)
        with graceful_stop(context.cancellation):
            done = on_every_host(hosts, lambda each: drain_host(connections.to(each), each.name, context))
        _report(_outcomes(hosts, done), json=json)


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
        result: GroupResult[Status] = on_every_host(hosts, lambda each: read_status(connections.to(each)), keep=True)
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
    hosts: Sequence[Host],
    connections: Connections,
    references: Mapping[str, str],
    *,
    to_act: bool,
    skip_unfit: bool,
) -> tuple[GroupResult[PlannedRelease], Images]:
    """Planned release and changes of each host; hosts that fail the preflight are among the failed."""
    needed = find_images(hosts, references, ROOT)
    say(f"inspecting {len(hosts)} hosts")
    cuda = {name: cuda_needs(images) for name, images in needed.items()}
    others = {name for each in hosts for name in found_images(each)}
    found = {name: _OF_OTHERS[name](ROOT, references.get(name)) for name in others}
    needed = {each.name: {**needed[each.name], **{name: found[name] for name in found_images(each)}} for each in hosts}
    snapshots = inspect_hosts(hosts, connections, needed, cuda)
    if to_act and not skip_unfit:
        refuse_locked(snapshots.succeeded)
    unfit = unfit_hosts(hosts, snapshots)
    if unfit:
        reports = GroupResult({name: each.host_report for name, each in snapshots.succeeded.items()}, snapshots.failed)
        report.console(error=True).print(report.findings_table(reports, list(unfit)))
    if skip_unfit:
        unfit = {**locked_hosts(snapshots.succeeded), **unfit}
    fit = [each for each in hosts if each.name not in unfit]
    planned = plan_hosts(fit, connections, snapshots.succeeded, needed, COMPOSE, ChecksumCache(CHECKSUMS))
    return GroupResult(planned.succeeded, {**unfit, **planned.failed}), needed


def _withheld(planned: GroupResult[PlannedRelease]) -> dict[str, Mapping[str, str]]:
    """Services that the preflight keeps from the release, with the reasons, by host."""
    return {name: each.withheld for name, each in planned.succeeded.items() if each.withheld}


def _ends(found: GroupResult[Any], *, skip_unfit: bool) -> bool:
    """True where hosts are not fit, unless they are to be skipped and others are left."""
    return bool(found.failed) and not (skip_unfit and found.succeeded)


def _refuse_unfit(what: str, found: GroupResult[Any], *, skip_unfit: bool) -> None:
    """End the task where it does not go on without the hosts that are not fit."""
    names = ", ".join(found.failed)
    if _ends(found, skip_unfit=skip_unfit):
        advice = "no host is left" if skip_unfit else "--skip-unfit leaves them out, --host selects hosts"
        fail(f"nothing was changed; {what}: {names} ({advice})")
    if found.failed:
        say(f"going on without {names}")


def _rollout(
    what: str,
    replan: Callable[[Host, Session], ChangePlan],
    fleet: Inventory,
    hosts: Sequence[Host],
    *,
    skip_unfit: bool,
) -> RolloutTask:
    return RolloutTask(what, replan, fleet.rollout.batch, fleet.rollout.max_failed.of(len(hosts)), skip_unfit)


def _show(
    changes: Mapping[str, ChangePlan],
    failed: Mapping[str, FleetError],
    withheld: Mapping[str, Mapping[str, str]],
    *,
    skip_unfit: bool,
) -> None:
    console = report.console()
    if diff := report.diff_text(changes):
        console.print(diff, markup=False, highlight=False, soft_wrap=True)
    console.print(report.changes_table(changes))
    if withheld:
        console.print(report.withheld_table(withheld))
    if failed:
        console.print(report.errors_table(failed, "skipped" if skip_unfit else "failed"))


def _run(
    hosts: Sequence[Host],
    changes: Mapping[str, ChangePlan],
    connections: Connections,
    task: RolloutTask,
    context: RolloutContext,
    *,
    json: bool,
    unfit: Mapping[str, FleetError],
    withheld: Mapping[str, Mapping[str, str]],
    order: Sequence[Host],
) -> None:
    """Run the rollout on `hosts`; reports those that are `unfit`, too, in the given order."""
    drained: Mapping[str, bool] = {}
    if context.drain:
        with reading():
            drained = on_every_host(hosts, lambda each: bool(context.runs.waiting(connections.to(each)))).succeeded
    concerned = [each for each in hosts if not changes[each.name].nothing or drained.get(each.name)]
    same = [unchanged(each.name, changes[each.name]) for each in hosts if each not in concerned]
    skipped = [Outcome(name, "unfit", note=str(error)) for name, error in unfit.items()]
    if not concerned:
        say("nothing to do on any host")
    done: list[Outcome] = []
    with graceful_stop(context.cancellation):
        if concerned:
            done = list(run_rollout(concerned, connections, task, context))
    places = {each.name: number for number, each in enumerate(order)}
    outcomes = sorted([*done, *same, *skipped], key=lambda each: places[each.host])
    _report([report.with_reasons(each, withheld.get(each.host, {})) for each in outcomes], json=json)


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
    """Context of a rollout. Raises FleetError where the program of a hook is missing."""
    check_programs(fleet.rollout.hooks)
    silencer = AlertmanagerSilencer(fleet.hosts, connections.shared)
    return RolloutContext(
        runs=TrainingRunHooks(),
        silencer=silencer,
        cache=ImageCache(IMAGES_CACHE),
        drain=drain,
        min_healthy_seconds=fleet.rollout.min_healthy_seconds,
        hooks=fleet.rollout.hooks,
        addresses={each.name: each.address for each in fleet.hosts},
    )


def _references(images: Sequence[str] | None) -> dict[str, str]:
    """Image references by role, from --image options."""
    found = {}
    for text in images or ():
        role, equals, reference = text.partition("=")
        if not equals or role not in (*ROLES, *_OF_OTHERS) or not reference:
            names = ", ".join((*ROLES, *_OF_OTHERS))
            raise FleetError(f"--image {text}: expected ROLE=REFERENCE, with a role of {names}")
        found[role] = reference
    return found
