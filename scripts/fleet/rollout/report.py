"""Reports of check, plan, deploy and status: rich tables and JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fleet.checks.finding import failures
from fleet.checks.host_report import HostReport
from fleet.errors import FleetError
from fleet.rollout.change_plan import ChangePlan
from fleet.rollout.context import Outcome
from fleet.rollout.status import Status
from fleet.ssh.connection_pool import GroupResult

_COLOURS = {"FAIL": "bold red", "WARN": "yellow", "INFO": "dim"}
_PIPED_WIDTH = 180
_UNBROKEN = (
    "host", "level", "check", "current", "runs", "service", "result", "from", "to", "run", "step", "since", "release",
)  # fmt: skip


def console(*, error: bool = False) -> Console:
    """Console for standard output or standard error; wide lines without a terminal."""
    plain = Console(stderr=error)
    return plain if plain.is_terminal else Console(stderr=error, width=_PIPED_WIDTH)


def findings_table(result: GroupResult[HostReport], names: Sequence[str]) -> Table:
    """One row per finding, hosts in the order of the inventory."""
    table = table_of("host", "level", "check", "found", "fix")
    for name in names:
        if name in result.failed:
            add_row(table, name, "FAIL", "connection", str(result.failed[name]), "see found")
            continue
        findings = result.succeeded[name].findings
        for each in findings:
            level = "WARN, acknowledged" if each.acknowledged else each.level
            add_row(table, name, level, each.check, each.found, each.remedy)
        if not findings:
            add_row(table, name, "ok", "", "no findings", "")
    return table


def findings_document(result: GroupResult[HostReport], names: Sequence[str], *, strict: bool) -> dict[str, object]:
    """JSON document: `ok`, and `hosts` with name, `ok`, `error` (string or null) and `findings`."""
    hosts: list[dict[str, object]] = []
    for name in names:
        error = result.failed.get(name)
        findings = () if error else result.succeeded[name].findings
        good = error is None and not failures(findings, strict=strict)
        said = None if error is None else str(error)
        hosts.append({"name": name, "ok": good, "error": said, "findings": [asdict(each) for each in findings]})
    return {"ok": all(each["ok"] for each in hosts), "hosts": hosts}


def status_table(result: GroupResult[Status], names: Sequence[str]) -> Table:
    """One row per service, hosts in the order of the inventory."""
    table = table_of("host", "current", "service", "runs", "state", "restarts", "answers", "drift")
    for name in names:
        if name in result.failed:
            add_row(table, name, "", "", "", str(result.failed[name]), "", "", "")
            continue
        status = result.succeeded[name]
        if status.problem is not None:
            add_row(table, name, status.current or "", "", "", status.problem, "", "", "")
        for each in status.services:
            drift = "; ".join(each.drift) or "none"
            cells = (each.name, each.release, each.state, str(each.restarts), each.answers, drift)
            add_row(table, name, status.current or "", *cells)
        for file in status.changed_files:
            add_row(table, name, "", "", "", "", "", "", f"{file} was changed on the host")
        if status.lock is not None:
            add_row(table, name, "", "", "", f"locked by {status.lock}", "", "", "")
    return table


def status_document(result: GroupResult[Status], names: Sequence[str]) -> dict[str, object]:
    """JSON document: `ok`, and `hosts` with name, `ok`, `error` and the columns of the table."""
    hosts: list[dict[str, object]] = []
    for name in names:
        if name in result.failed:
            hosts.append({"name": name, "ok": False, "error": str(result.failed[name])})
            continue
        status = result.succeeded[name]
        lock = status.lock
        hosts.append(
            {
                "name": name,
                "ok": status.healthy,
                "error": status.problem,
                "current": status.current,
                "previous": status.previous,
                "services": [asdict(each) for each in status.services],
                "drift": list(status.drift),
                "lock": None if lock is None else {"owner": lock.owner, "reason": lock.reason, "age": lock.age},
            }
        )
    return {"ok": all(each["ok"] for each in hosts), "hosts": hosts}


def changes_table(changes: Mapping[str, ChangePlan]) -> Table:
    """Table of planned changes, one row per step."""
    table = table_of("host", "change")
    for name, change in changes.items():
        for line in change.lines():
            add_row(table, name, line)
    return table


def diff_text(changes: Mapping[str, ChangePlan]) -> str:
    """Diff of the files, grouped by hosts with the same diff."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, change in changes.items():
        if change.diff:
            alike.setdefault(change.diff, []).append(name)
    return "\n".join(line for diff, names in alike.items() for line in (f"# {', '.join(names)}", *diff))


def plan_document(
    result: GroupResult[ChangePlan],
    names: Sequence[str],
    withheld: Mapping[str, Mapping[str, str]],
    *,
    skip_unfit: bool = False,
) -> dict[str, object]:
    """JSON document: `ok`, `changes`, and `hosts` with name, `error`, `skipped`, releases, `steps` and `diff`.

    `withheld` of a host has the reason of each service that the preflight keeps from its release; `skipped` is true
    for a host that a deploy with these options leaves out.
    """
    hosts: list[dict[str, object]] = []
    for name in names:
        if name in result.failed:
            hosts.append({"name": name, "error": str(result.failed[name]), "skipped": skip_unfit})
            continue
        change = result.succeeded[name]
        steps = [] if change.nothing else list(change.lines())
        releases = {"current": change.current, "release": change.manifest.id}
        kept = dict(withheld.get(name, {}))
        found = {"name": name, "error": None, "skipped": False, **releases, "steps": steps, "withheld": kept}
        hosts.append({**found, "diff": list(change.diff)})
    changes = any(not each.nothing for each in result.succeeded.values())
    return {"ok": not result.failed and not withheld, "changes": changes, "hosts": hosts}


def with_reasons(outcome: Outcome, withheld: Mapping[str, str]) -> Outcome:
    """Outcome whose note has the reason of each service that the preflight kept from the release."""
    reasons = [f"{service}: {reason}" for service, reason in withheld.items()]
    return replace(outcome, note="\n".join(filter(None, [outcome.note, *reasons])))


def outcomes_table(outcomes: Sequence[Outcome]) -> Table:
    """Table of outcomes, one row per host."""
    table = table_of("host", "result", "from", "to", "seconds", "note")
    for each in outcomes:
        said = "\n".join([each.note, *each.limits]).strip()
        seconds = f"{each.seconds:.0f}" if each.seconds else ""
        style = "" if each.good else _COLOURS["FAIL" if each.failed else "WARN"]
        table.add_row(*map(escape, (each.host, each.result, each.before, each.after, seconds, said)), style=style)
    return table


def outcomes_document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """JSON document: `ok`, and `hosts` with the columns of the table."""
    hosts = [
        {
            "name": each.host,
            "ok": each.good,
            "result": each.result,
            "from": each.before,
            "to": each.after,
            "seconds": round(each.seconds, 1),
            "note": each.note,
            "limits": list(each.limits),
            "withheld": list(each.withheld),
        }
        for each in outcomes
    ]
    return {"ok": all(each.good for each in outcomes), "hosts": hosts}


def errors_table(failures: Mapping[str, FleetError], heading: str = "failed") -> Table:
    """Table of failed or skipped hosts with their errors."""
    table = table_of("host", heading)
    for name, error in failures.items():
        add_row(table, name, str(error))
    return table


def withheld_table(withheld: Mapping[str, Mapping[str, str]]) -> Table:
    """Table of services that the preflight keeps from the release of a host, with the reasons."""
    table = table_of("host", "service", "left as it is because of")
    for name, services in withheld.items():
        for service, reason in services.items():
            add_row(table, name, service, reason)
    return table


def table_of(*columns: str) -> Table:
    """Table with these columns, of which names and numbers are not broken."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in _UNBROKEN)
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of plain text, in the colour of the level in its second cell, where that is one."""
    level = cells[1] if len(cells) > 1 else ""
    table.add_row(*(escape(cell) for cell in cells), style=_COLOURS.get(level.partition(",")[0], ""))
