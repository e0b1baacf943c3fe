"""What the operator reads: tables for people, documents for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fleet.change import Change
from fleet.errors import FleetError
from fleet.finding import failed
from fleet.remote import GroupResult
from fleet.status import Status
from fleet.survey import Surveyed

_COLOURS = {"FAIL": "bold red", "WARN": "yellow", "INFO": "dim"}
_PIPED_WIDTH = 180


def console() -> Console:
    """Standard output; wide lines where no terminal breaks them."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=_PIPED_WIDTH)


def findings_table(result: GroupResult[Surveyed], names: Sequence[str]) -> Table:
    """A row a finding, hosts in the order of the inventory; a host without findings says so."""
    table = _table("host", "level", "check", "found", "what to do")
    for name in names:
        if name in result.failed:
            _row(table, name, "FAIL", "connection", str(result.failed[name]), "as it says")
            continue
        findings = result.succeeded[name].findings
        for each in findings:
            level = "WARN, known" if each.acknowledged else each.level
            _row(table, name, level, each.check, each.found, each.remedy)
        if not findings:
            _row(table, name, "ok", "", "nothing speaks against it", "")
    return table


def findings_document(result: GroupResult[Surveyed], names: Sequence[str], *, strict: bool) -> dict[str, object]:
    """The same for programs: `ok`, and `hosts` with name, `ok`, `error` (a text or null) and `findings`."""
    hosts: list[dict[str, object]] = []
    for name in names:
        error = result.failed.get(name)
        findings = () if error else result.succeeded[name].findings
        good = error is None and not failed(findings, strict=strict)
        said = None if error is None else str(error)
        hosts.append({"name": name, "ok": good, "error": said, "findings": [asdict(each) for each in findings]})
    return {"ok": all(each["ok"] for each in hosts), "hosts": hosts}


def status_table(result: GroupResult[Status], names: Sequence[str]) -> Table:
    """A row a host."""
    table = _table("host", "current", "runs", "state", "metrics", "exporter")
    for name in names:
        if name in result.failed:
            _row(table, name, "", "", str(result.failed[name]), "", "")
            continue
        status = result.succeeded[name]
        runs = status.container.release if status.container else ""
        where = f"{status.address}:{status.port}"
        _row(table, name, status.current or "", runs, status.state, status.metrics, where)
    return table


def status_document(result: GroupResult[Status], names: Sequence[str]) -> dict[str, object]:
    """The same for programs: `ok`, and `hosts` with name, `ok`, `error`, and what the table has."""
    hosts: list[dict[str, object]] = []
    for name in names:
        if name in result.failed:
            hosts.append({"name": name, "ok": False, "error": str(result.failed[name])})
            continue
        status = result.succeeded[name]
        container = None if status.container is None else asdict(status.container)
        place = {"address": status.address, "port": status.port}
        row = {"current": status.current, "metrics": status.metrics, **place, "container": container}
        hosts.append({"name": name, "ok": status.healthy, "error": status.problem, **row})
    return {"ok": all(each["ok"] for each in hosts), "hosts": hosts}


def changes_table(changes: Mapping[str, Change]) -> Table:
    """What a deploy will do, a row a step."""
    table = _table("host", "what will change")
    for name, change in changes.items():
        for line in change.lines():
            _row(table, name, line)
    return table


def errors_table(failures: Mapping[str, FleetError]) -> Table:
    """The hosts that failed, and why."""
    table = _table("host", "failed")
    for name, error in failures.items():
        _row(table, name, str(error))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("host", "level", "check", "current", "runs"))
    return table


def _row(table: Table, *cells: str) -> None:
    level = cells[1] if len(cells) > 1 else ""
    table.add_row(*(escape(cell) for cell in cells), style=_COLOURS.get(level.partition(",")[0], ""))
