"""`fab check`: what speaks against running on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric import task

from fleet import report
from fleet.preflight import Needs
from fleet.survey import survey
from tasks.frame import HELP, answering, hosts_of, leave, print_json


@task(iterable=["host"], auto_shortflags=False, help=HELP | {"strict": "warnings that nobody acknowledged fail too"})
def check(
    _: Any, host: Sequence[str] | None = None, inventory: str = "", strict: bool = False, json: bool = False
) -> None:
    """Look at all hosts side by side: what speaks against running on them, and what to do about it."""
    with answering():
        hosts = hosts_of(inventory, host)
        result = survey(hosts, Needs())
        names = [each.name for each in hosts]
        document = report.findings_document(result, names, strict=strict)
        if json:
            print_json(document)
        else:
            report.console().print(report.findings_table(result, names))
        leave(good=bool(document["ok"]))
