"""Plans and carries out releases for the tasks: which hosts, with which images and parts, shown and reported."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.images.cuda import cuda_needs
from fleet.images.image import ROLES, LocalImage
from fleet.images.third_party import THIRD_PARTY, find_third_party
from fleet.inventory.host_tls import with_tls
from fleet.inventory.hosts import Host, Inventory, Role
from fleet.inventory.secrets import read_all
from fleet.monitoring import role as monitoring
from fleet.monitoring.silence import LONGEST_SECONDS, AlertmanagerSilencer
from fleet.release.artefact import ChecksumCache
from fleet.release.manifest import manifest_of
from fleet.release.release import found_images
from fleet.release.service import RolePart
from fleet.rollout import report
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.context import Outcome, RolloutContext
from fleet.rollout.fitness import locked_hosts, refuse_locked, unfit_hosts
from fleet.rollout.fleet import (
    Images,
    PlannedRelease,
    RolloutTask,
    find_images,
    inspect_hosts,
    plan_hosts,
    run_rollout,
    unchanged,
)
from fleet.rollout.hooks import check_programs
from fleet.rollout.host_state import read_state
from fleet.runs.rollout_hooks import TrainingRunHooks
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import (
    COMPOSE,
    IMAGES_CACHE,
    ROOT,
    absolute_path,
    exit_with,
    fail,
    graceful_stop,
    load_inventory,
    print_json,
    say,
    selected,
    split_names,
)

CHECKSUMS = ROOT / "build/checksums.json"


@dataclass(frozen=True, slots=True)
class Selection:
    """Hosts of a task, and where the operator's additions to monitoring lie."""

    fleet: Inventory
    hosts: tuple[Host, ...]
    site: Path
    references: Mapping[str, str] = field(default_factory=dict)  # images by role
    skip_unfit: bool = False


def plan_releases(selection: Selection, connections: Connections, *, exit_code: bool, json: bool) -> None:
    """Show what a deploy would change; changes nothing."""
    planned, _ = _planned(selection, connections, to_act=False)
    names = [each.name for each in selection.hosts]
    changes = {name: planned.succeeded[name].change for name in names if name in planned.succeeded}
    withheld = _withheld(planned)
    skip_unfit = selection.skip_unfit
    document = report.plan_document(GroupResult(changes, planned.failed), names, withheld, skip_unfit=skip_unfit)
    if json:
        print_json(document)
    else:
        show(changes, planned.failed, withheld, skip_unfit=skip_unfit)
    exit_with(good=bool(document["ok"]) and not (exit_code and document["changes"]))


def deploy_releases(selection: Selection, connections: Connections, *, drain: bool, json: bool) -> None:
    """Show the changes, then deploy."""
    fleet, skip_unfit = selection.fleet, selection.skip_unfit
    context = rollout_context(fleet, connections, drain=drain)
    with reading():
        planned, needed = _planned(selection, connections, to_act=True)
    changes = {name: each.change for name, each in planned.succeeded.items()}
    shown = GroupResult(changes, planned.failed)
    show_or_end(selection.hosts, shown, _withheld(planned), skip_unfit=skip_unfit, json=json)
    refuse_unfit("not ready", planned, skip_unfit=skip_unfit)

    def replan(each: Host, session: Session) -> ChangePlan:
        release = planned.succeeded[each.name].release
        return plan_change(release, read_state(session, each.name, manifest_of(release)))

    context.cache.keep_only(image for images in needed.values() for image in images.values())
    fit = [planned.succeeded[each.name].host for each in selection.hosts if each.name in planned.succeeded]
    run(
        fit, changes, connections, rollout_task("deploy", replan, fleet, fit, skip_unfit=skip_unfit), context,
        json=json, unfit=planned.failed, withheld=_withheld(planned), order=selection.hosts,
    )  # fmt: skip


def select(
    inventory: str,
    names: Sequence[str] | None,
    groups: Sequence[str] | None,
    roles: Sequence[str] | None,
    *,
    site: str = "",
    image: Sequence[str] | None = None,
    skip_unfit: bool = False,
) -> Selection:
    """Selection by the options of a task. Raises FleetError."""
    fleet = load_inventory(inventory)
    hosts = with_roles(fleet, selected(fleet, names, groups), names, groups, roles)
    folder = absolute_path(site) or fleet.path.parent / "site"
    return Selection(fleet, hosts, folder, image_references(image), skip_unfit)


def with_roles(
    fleet: Inventory,
    hosts: Sequence[Host],
    names: Sequence[str] | None,
    groups: Sequence[str] | None,
    roles: Sequence[str] | None,
) -> tuple[Host, ...]:
    """Those of `hosts` that have one of the roles; all without roles.

    Raises FleetError for an unknown role, a named host that lacks them, and where no host is left.
    """
    wanted = split_names(roles)
    if unknown := [each for each in wanted if each not in get_args(Role)]:
        raise FleetError(f"no role {', '.join(unknown)}: expected one of {', '.join(get_args(Role))}")
    found = tuple(each for each in hosts if not wanted or not set(wanted).isdisjoint(each.roles))
    others = [each.name for each in hosts if each.name in split_names(names) and each not in found]
    if others or not found:
        no_host = f"no host of {', '.join(split_names(groups))} has" if groups else "no host has"
        who = f"{', '.join(others)} does not have" if others else no_host
        role = " or ".join(wanted)
        raise FleetError(f"{fleet.path}: {who} the role {role}: add roles: [{wanted[0]}] to a host")
    return found


def _planned(
    selection: Selection, connections: Connections, *, to_act: bool
) -> tuple[GroupResult[PlannedRelease], Images]:
    """Planned release and changes of each host; hosts that fail the preflight are among the failed."""
    hosts, skip_unfit = selection.hosts, selection.skip_unfit
    watching = [each for each in hosts if "monitoring" in each.roles]
    inputs = monitoring.read_inputs(ROOT, selection.site) if watching else None
    needed = find_images(hosts, selection.references, ROOT)
    say(f"inspecting {len(hosts)} hosts")
    cuda = {name: cuda_needs(images) for name, images in needed.items()}
    needed = _with_third_party(hosts, needed, selection.references, inputs)
    parts = {}
    if inputs is not None:
        parts = {each.name: (_monitoring_part(selection.fleet, each, inputs, needed[each.name]),) for each in watching}
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
    planned = plan_hosts(fit, connections, snapshots.succeeded, needed, COMPOSE, ChecksumCache(CHECKSUMS), parts)
    return GroupResult(planned.succeeded, {**unfit, **planned.failed}), needed


def _with_third_party(
    hosts: Sequence[Host],
    needed: Images,
    references: Mapping[str, str],
    inputs: monitoring.MonitoringInputs | None,
) -> Images:
    """Images of each host with those that others make."""
    given = dict(references) if inputs is None else {**inputs.images, **references}

    @functools.cache
    def found(name: str, reference: str | None) -> LocalImage:
        return find_third_party(name, ROOT, reference)

    def of(host: Host) -> dict[str, str | None]:
        watching = () if inputs is None or "monitoring" not in host.roles else inputs.programs
        own = {name: each.image for name, each in host.own_services.items()}
        return {name: given.get(name) for name in (*found_images(host), *watching)} | own

    return {
        each.name: {**needed[each.name], **{name: found(name, reference) for name, reference in of(each).items()}}
        for each in hosts
    }


def _monitoring_part(
    fleet: Inventory, host: Host, inputs: monitoring.MonitoringInputs, images: Mapping[str, LocalImage]
) -> RolePart:
    encrypted = with_tls((each.name, each.secrets) for each in fleet.hosts)
    return monitoring.monitoring_part(fleet, inputs, read_all(host.secrets), images, encrypted=encrypted)


def _withheld(planned: GroupResult[PlannedRelease]) -> dict[str, Mapping[str, str]]:
    """Services that the preflight keeps from the release, with the reasons, by host."""
    return {name: each.withheld for name, each in planned.succeeded.items() if each.withheld}


def ends(found: GroupResult[Any], *, skip_unfit: bool) -> bool:
    """True where hosts are not fit, unless they are to be skipped and others are left."""
    return bool(found.failed) and not (skip_unfit and found.succeeded)


def show_or_end(
    hosts: Sequence[Host],
    found: GroupResult[ChangePlan],
    withheld: Mapping[str, Mapping[str, str]],
    *,
    skip_unfit: bool,
    json: bool,
) -> None:
    """Print the changes; as a document only where the task ends with them, for it prints one document."""
    if not json:
        show(found.succeeded, found.failed, withheld, skip_unfit=skip_unfit)
    elif ends(found, skip_unfit=skip_unfit):
        print_json(report.plan_document(found, [each.name for each in hosts], withheld, skip_unfit=skip_unfit))


def refuse_unfit(what: str, found: GroupResult[Any], *, skip_unfit: bool) -> None:
    """End the task where it does not go on without the hosts that are not fit."""
    names = ", ".join(found.failed)
    if ends(found, skip_unfit=skip_unfit):
        advice = "no host is left" if skip_unfit else "--skip-unfit leaves them out, --host selects hosts"
        fail(f"nothing was changed; {what}: {names} ({advice})")
    if found.failed:
        say(f"going on without {names}")


def rollout_task(
    what: str,
    replan: Callable[[Host, Session], ChangePlan],
    fleet: Inventory,
    hosts: Sequence[Host],
    *,
    skip_unfit: bool,
) -> RolloutTask:
    """Task of a rollout on `hosts`, with the settings of the inventory."""
    return RolloutTask(what, replan, fleet.rollout.batch, fleet.rollout.max_failed.of(len(hosts)), skip_unfit)


def show(
    changes: Mapping[str, ChangePlan],
    failed: Mapping[str, FleetError],
    withheld: Mapping[str, Mapping[str, str]],
    *,
    skip_unfit: bool,
) -> None:
    """Print diff, changes, services that the preflight withholds, and hosts that are not fit."""
    console = report.console()
    if diff := report.diff_text(changes):
        console.print(diff, markup=False, highlight=False, soft_wrap=True)
    console.print(report.changes_table(changes))
    if withheld:
        console.print(report.withheld_table(withheld))
    if failed:
        console.print(report.errors_table(failed, "skipped" if skip_unfit else "failed"))


def run(
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
    report_outcomes([report.with_reasons(each, withheld.get(each.host, {})) for each in outcomes], json=json)


def outcomes_of(hosts: Sequence[Host], done: GroupResult[Outcome]) -> list[Outcome]:
    """Outcomes in the order of `hosts`."""
    return [
        done.succeeded.get(each.name) or Outcome(each.name, "failed", note=str(done.failed[each.name]))
        for each in hosts
    ]


def report_outcomes(outcomes: Sequence[Outcome], *, json: bool) -> None:
    """Print the outcomes; hosts skipped because they train do not count as failed."""
    if json:
        print_json(report.outcomes_document(outcomes))
    else:
        report.console().print(report.outcomes_table(outcomes))
    exit_with(good=all(each.good or each.result == "skipped" for each in outcomes))


def rollout_context(
    fleet: Inventory, connections: Connections, *, drain: bool, maintenance_seconds: float = LONGEST_SECONDS
) -> RolloutContext:
    """Context of a rollout. Raises FleetError where the program of a hook is missing."""
    check_programs(fleet.rollout.hooks)
    silencer = AlertmanagerSilencer(fleet.hosts, connections.shared, longest_seconds=maintenance_seconds)
    return RolloutContext(
        runs=TrainingRunHooks(),
        silencer=silencer,
        cache=ImageCache(IMAGES_CACHE),
        drain=drain,
        maintenance_seconds=maintenance_seconds,
        min_healthy_seconds=fleet.rollout.min_healthy_seconds,
        hooks=fleet.rollout.hooks,
        addresses={each.name: each.address for each in fleet.hosts},
    )


def image_references(images: Sequence[str] | None) -> dict[str, str]:
    """Image references by role, from --image options."""
    found = {}
    for text in images or ():
        role, equals, reference = text.partition("=")
        if not equals or role not in (*ROLES, *THIRD_PARTY) or not reference:
            names = ", ".join((*ROLES, *THIRD_PARTY))
            raise FleetError(f"--image {text}: expected ROLE=REFERENCE, with a role of {names}")
        found[role] = reference
    return found
