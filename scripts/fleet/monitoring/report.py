"""Output of `fab monitoring`: table and JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from fleet.errors import FleetError
from fleet.monitoring.state import MonitoringChange


def changes_table(changes: Mapping[str, MonitoringChange]) -> Table:
    """Table of planned changes, one row per step."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("host", no_wrap=True)
    table.add_column("change", overflow="fold")
    for name, change in changes.items():
        for line in change.lines():
            table.add_row(escape(name), escape(line))
    return table


def document(
    names: Sequence[str], changes: Mapping[str, MonitoringChange], failures: Mapping[str, FleetError], *, done: bool
) -> dict[str, object]:
    """JSON document: `ok`, `changes`, and `hosts` with name, `error`, both releases, `steps`, `done`."""
    hosts: list[dict[str, object]] = []
    for name in names:
        error, change = failures.get(name), changes.get(name)
        hosts.append(
            {
                "name": name,
                "error": None if error is None else str(error),
                "current": None if change is None else change.current,
                "wanted": None if change is None else change.release.id,
                "steps": [] if change is None or change.nothing else list(change.lines()),
                "done": done and error is None,
            }
        )
    changing = any(each["steps"] for each in hosts)
    return {"ok": not failures, "changes": changing, "hosts": hosts}
