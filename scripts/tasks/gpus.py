"""`fab gpus`: sick GPUs of the hosts: which are out of work, and why; take one out, or return it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fabric import task
from rich.markup import escape
from rich.table import Table

from fleet import audit
from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.facts.gpu_use import OUT_OF_WORK, Marks
from fleet.facts.machine import Container, container_of
from fleet.inventory.hosts import Host
from fleet.rollout import report
from fleet.rollout.commands import EXPORTER
from fleet.rollout.host_state import CONTAINERS
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host
from fleet.ssh.interrupt import reading
from fleet.ssh.verbs import must
from tasks.base import HELP, exit_with, print_json, reporting_errors, say, select_hosts


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP
    | {
        "return": "let this GPU work again: its UUID, or its index on the one --host",
        "take-out": "take this GPU out of work, also beyond what the inventory's sick_gpus allows",
    },
)
def gpus(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    return_: str = "",
    take_out: str = "",
    inventory: str = "",
    json: bool = False,
) -> None:
    """Show the sick GPUs of the hosts, as their exporters mark them; take one out of work, or return it."""
    with reporting_errors(), Connections() as connections:
        hosts = select_hosts(inventory, host, group)
        found = _read(hosts, connections)
        for option, gpu in (("--take-out", take_out), ("--return", return_)):
            if gpu:
                there = _host_of(hosts, gpu, found, option)
                _change(connections.to(there), there.name, option, gpu)
                found = _read(hosts, connections)
        rows = [(name, mark) for name, (marks, _) in found.succeeded.items() for mark in marks]
        failed = {name: said for name, (_, said) in found.succeeded.items() if said}
        failed |= {name: str(error) for name, error in found.failed.items()}
        if json:
            print_json({"gpus": [{"host": name, **asdict(mark)} for name, mark in rows], "failed": failed})
        else:
            table = Table("host", "GPU", "UUID", "state", "cause", "cure")
            for name, mark in rows:
                table.add_row(*map(escape, (name, str(mark.gpu), mark.uuid, mark.state, mark.cause, mark.cure)))
            for line in (table, *(f"{name}: {why}" for name, why in failed.items())):
                report.console().print(line)
        exit_with(good=not failed)


def _read(hosts: Sequence[Host], connections: Connections) -> GroupResult[tuple[Marks, str]]:
    """The marks of each host, and why they may not be all; empty where its exporter runs."""
    with reading():
        return on_every_host(hosts, lambda each: _marks(connections.to(each), each.name))


def _marks(session: Session, host: str) -> tuple[Marks, str]:
    answers = session.run([OUT_OF_WORK.command, CONTAINERS.command])
    found = OUT_OF_WORK.among(answers)
    if isinstance(found, Unknown):
        raise HostFailedError(f"the marks of sick GPUs on {host} cannot be read: {found.reason}")
    try:
        exporter = _exporter(CONTAINERS.among(answers))
    except HostFailedError as error:
        return found, str(error)
    return found, "" if exporter.state == "running" else f"its exporter, which marks sick GPUs, is {exporter.state}"


def _exporter(containers: Sequence[Container] | Unknown) -> Container:
    """The container that marks the sick GPUs of a host. Raises HostFailedError."""
    if isinstance(containers, Unknown):
        raise HostFailedError(f"docker does not answer: {containers.reason}")
    found = container_of(containers, EXPORTER)
    if found is None:
        raise HostFailedError(f"no exporter is there, which marks sick GPUs and keeps the marks: {fab()} deploy")
    return found


def _host_of(hosts: Sequence[Host], gpu: str, found: GroupResult[tuple[Marks, str]], option: str) -> Host:
    """The one host that was named, or the one that has marked this UUID. Raises FleetError."""
    having = {name for name, (marks, _) in found.succeeded.items() if any(mark.uuid == gpu for mark in marks)}
    chosen = hosts if len(hosts) == 1 else [each for each in hosts if each.name in having]
    if len(chosen) != 1:
        unread = "; ".join(f"{name}: {why}" for name, why in found.failed.items())
        said = f"{option} {gpu}: expected one --host, or the UUID of a GPU that {fab()} gpus lists"
        raise FleetError(said + (f"; not read: {unread}" if unread else ""))
    return chosen[0]


def _change(session: Session, host: str, option: str, gpu: str) -> None:
    """Changes the mark of a GPU by the exporter of its host, and records that. Raises HostFailedError."""
    try:
        exporter = _exporter(CONTAINERS.among(session.run([CONTAINERS.command])))
    except HostFailedError as error:
        raise HostFailedError(f"{host}: {error}") from None
    words = shlex.join(("docker", "exec", exporter.id, "voxyard", "gpus", option, gpu))
    said = must(session, host, f"change GPU {gpu}", Command("gpus", words, 60)).out.strip()
    audit.record(session, host, audit.AuditEntry("gpus", exporter.release, exporter.release, "ok", said))
    say(f"{host}: {said}")
