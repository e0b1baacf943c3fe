"""`fab plan`, `deploy`, `rollback`, `drain`, `status`, `unlock`: releases onto the hosts, and what runs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabric import task

from fleet import audit, lock
from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.images.image import ROLES
from fleet.inventory.hosts import Host, Inventory
from fleet.monitoring.silence import Silencer
from fleet.release.artefact import Checksums
from fleet.rollout import drain as draining
from fleet.rollout import fleet as steps
from fleet.rollout import report
from fleet.rollout.change_plan import Change
from fleet.rollout.change_plan import change as compare
from fleet.rollout.context import Site
from fleet.rollout.host_state import CURRENT
from fleet.rollout.outcome import Outcome
from fleet.rollout.rollback import way_back
from fleet.rollout.status import Status, read_status
from fleet.runs.rollout_hooks import TrainingRuns
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import (
    COMPOSE,
    HELP,
    IMAGES_CACHE,
    ROOT,
    answering,
    fleet_of,
    hosts_of,
    leave,
    named,
    print_json,
    say,
    stop,
    stopping_in_order,
)

CHECKSUMS = ROOT / "build/checksums.json"
DRAIN = "training runs write a checkpoint and stop, and are started again afterwards; without it, their host is skipped"
IMAGE = f"ROLE=REFERENCE: another image than the last built one; the roles are {', '.join(ROLES)}"


@task(
    iterable=["host", "image"],
    auto_shortflags=False,
    help=HELP | {"image": IMAGE, "exit-code": "answer 1 when there is something to do"},
)
def plan(
    _: Any,
    host: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    exit_code: bool = False,
    json: bool = False,
) -> None:
    """Show what a deploy would change on which host, as a diff; changes nothing."""
    with answering(), reading(), Connections() as connections:
        hosts = hosts_of(inventory, host)
        planned, _ = _planned(hosts, connections, _references(image), to_act=False)
        names = [each.name for each in hosts]
        changes = {name: planned.succeeded[name].change for name in names if name in planned.succeeded}
        document = report.plan_document(GroupResult(changes, planned.failed), names)
        if json:
            print_json(document)
        else:
            _show(changes, planned.failed)
        leave(good=bool(document["ok"]) and not (exit_code and document["changes"]))


@task(iterable=["host", "image"], auto_shortflags=False, help=HELP | {"image": IMAGE, "drain": DRAIN})
def deploy(
    _: Any,
    host: Sequence[str] | None = None,
    image: Sequence[str] | None = None,
    inventory: str = "",
    drain: bool = False,
    json: bool = False,
) -> None:
    """Show what would change on which host, then do it: a canary of each role, then batches; a failure stops it."""
    with answering(), Connections() as connections:
        fleet = fleet_of(inventory)
        hosts = fleet.select(named(host))
        with reading():
            planned, needed = _planned(hosts, connections, _references(image), to_act=True)
        changes = {name: each.change for name, each in planned.succeeded.items()}
        if not json or planned.failed:
            _show(changes, planned.failed)
        if planned.failed:
            stop(f"nothing was changed: not ready: {', '.join(planned.failed)} (choose the others with --host)")

        def again(each: Host, session: Session) -> Change:
            release = planned.succeeded[each.name].release
            return compare(release, steps.read(session, each, release))

        site = _site(fleet, connections, drain=drain)
        site.cache.keep_only(image for images in needed.values() for image in images.values())
        what = steps.Task("deploy", again, fleet.rollout.batch)
        _carry_out(hosts, changes, connections, what, site, json=json)


@task(
    iterable=["host"],
    auto_shortflags=False,
    help=HELP | {"release": "this one, instead of the one before the current one", "drain": DRAIN},
)
def rollback(
    _: Any,
    host: Sequence[str] | None = None,
    release: str = "",
    inventory: str = "",
    drain: bool = False,
    json: bool = False,
) -> None:
    """Go back to the release before the current one, from what is on the hosts."""
    with answering(), Connections() as connections:
        fleet = fleet_of(inventory)
        hosts = fleet.select(named(host))
        with reading():
            found = on_every_host(hosts, lambda each: way_back(connections.to(each), each.name, release or None))
        if not json or found.failed:
            _show(found.succeeded, found.failed)
        if found.failed:
            stop(f"nothing was changed: {', '.join(found.failed)} cannot go back (choose the others with --host)")

        def again(each: Host, session: Session) -> Change:
            return way_back(session, each.name, found.succeeded[each.name].manifest.id)

        site = _site(fleet, connections, drain=drain)
        _carry_out(
            hosts, found.succeeded, connections, steps.Task("rollback", again, fleet.rollout.batch), site, json=json
        )


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def drain(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Take hosts out of work: runs write a checkpoint and stop, Bark ends its leases; back with `deploy --drain`."""
    with answering(), Connections() as connections:
        fleet, names = fleet_of(inventory), named(host)
        if not names:
            raise FleetError("name the hosts that are to be drained: fab drain --host H")
        site = _site(fleet, connections, drain=True)
        with stopping_in_order(site.stopping):
            hosts = fleet.select(names)
            done = on_every_host(hosts, lambda each: draining.take_out(connections.to(each), each.name, site))
        _sum_up(_outcomes(hosts, done), json=json)


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def status(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show which release runs on each host, how its services are, and what is not as the release says (drift)."""
    with answering(), reading(), Connections() as connections:
        hosts = hosts_of(inventory, host)
        result: GroupResult[Status] = on_every_host(hosts, lambda each: read_status(connections.to(each)), keep=True)
        names = [each.name for each in hosts]
        document = report.status_document(result, names)
        if json:
            print_json(document)
        else:
            report.console().print(report.status_table(result, names))
        leave(good=bool(document["ok"]))


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def unlock(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Break the lock of hosts whose deploy has died; who held it is said, and stands in the audit log."""
    with answering(), Connections() as connections:
        names = named(host)
        if not names:
            raise FleetError("name the hosts whose lock is to be broken: fab unlock --host H")
        hosts = hosts_of(inventory, names)
        _sum_up(_outcomes(hosts, on_every_host(hosts, lambda each: _unlock(connections.to(each), each))), json=json)


def _unlock(session: Session, host: Host) -> Outcome:
    broken = lock.break_lock(session, host.name)
    current = CURRENT.among(session.run([CURRENT.command]))
    release = current if isinstance(current, str) else ""
    if broken is None:
        return Outcome(host.name, "unchanged", release, release, "nobody held its lock")
    note = f"broke the lock of {broken}"
    audit.record(session, host.name, audit.Entry("unlock", release, release, "ok", note))
    return Outcome(host.name, "unlocked", release, release, note)


def _planned(
    hosts: Sequence[Host], connections: Connections, references: Mapping[str, str], *, to_act: bool
) -> tuple[GroupResult[steps.Planned], steps.Images]:
    """Planned release and changes of each host; hosts that are not fit stand among the failed."""
    needed = steps.images(hosts, references)
    say(f"looking at {len(hosts)} hosts")
    grounds = steps.look(hosts, connections, needed)
    if to_act:
        steps.refuse_locked(grounds.succeeded)
    unfit = steps.unfit(hosts, grounds)
    if unfit:
        surveyed = GroupResult({name: each.surveyed for name, each in grounds.succeeded.items()}, grounds.failed)
        report.console(error=True).print(report.findings_table(surveyed, unfit))
    fit = [each for each in hosts if each.name not in unfit]
    planned = steps.plan(fit, connections, grounds.succeeded, needed, COMPOSE, Checksums(CHECKSUMS))
    failed = {name: FleetError("the check above speaks against it") for name in unfit} | dict(grounds.failed)
    return GroupResult(planned.succeeded, {**failed, **planned.failed}), needed


def _show(changes: Mapping[str, Change], failed: Mapping[str, FleetError]) -> None:
    console = report.console()
    if diff := report.diff_text(changes):
        console.print(diff, markup=False, highlight=False, soft_wrap=True)
    console.print(report.changes_table(changes))
    if failed:
        console.print(report.errors_table(failed))


def _carry_out(
    hosts: Sequence[Host],
    changes: Mapping[str, Change],
    connections: Connections,
    what: steps.Task,
    site: Site,
    *,
    json: bool,
) -> None:
    drained: Mapping[str, bool] = {}
    if site.drain:
        with reading():
            drained = on_every_host(hosts, lambda each: bool(site.runs.waiting(connections.to(each)))).succeeded
    concerned = [each for each in hosts if not changes[each.name].nothing or drained.get(each.name)]
    unchanged = [
        Outcome(each.name, "unchanged", changes[each.name].current or "", changes[each.name].manifest.id)
        for each in hosts
        if each not in concerned
    ]
    if not concerned:
        say("nothing to do on any host")
    done: list[Outcome] = []
    with stopping_in_order(site.stopping):
        if concerned:
            done = list(steps.carry_out(concerned, connections, what, site))
    order = {each.name: number for number, each in enumerate(hosts)}
    _sum_up(sorted([*done, *unchanged], key=lambda each: order[each.host]), json=json)


def _outcomes(hosts: Sequence[Host], done: GroupResult[Outcome]) -> list[Outcome]:
    return [
        done.succeeded.get(each.name) or Outcome(each.name, "failed", note=str(done.failed[each.name]))
        for each in hosts
    ]


def _sum_up(outcomes: Sequence[Outcome], *, json: bool) -> None:
    """The summary; hosts that were skipped because they work are no failure."""
    if json:
        print_json(report.outcomes_document(outcomes))
    else:
        report.console().print(report.outcomes_table(outcomes))
    leave(good=all(each.good or each.result == "skipped" for each in outcomes))


def _site(fleet: Inventory, connections: Connections, *, drain: bool) -> Site:
    silencer = Silencer(fleet.hosts, connections.shared)
    return Site(
        runs=TrainingRuns(),
        silencer=silencer,
        cache=ImageCache(IMAGES_CACHE),
        drain=drain,
        min_healthy_seconds=fleet.rollout.min_healthy_seconds,
    )


def _references(images: Sequence[str] | None) -> dict[str, str]:
    """Images by role, as typed."""
    found = {}
    for text in images or ():
        role, equals, reference = text.partition("=")
        if not equals or role not in ROLES or not reference:
            raise FleetError(f"--image {text}: expected ROLE=REFERENCE, with a role of {', '.join(ROLES)}")
        found[role] = reference
    return found
