"""Provisioning of a host with Debian or Ubuntu: the steps of its findings, as root, each in the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fleet.audit import AuditEntry, record
from fleet.checks.finding import Finding
from fleet.checks.gpus import RESTART_DOCKER
from fleet.checks.host_report import HostReport
from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.facts.fact import known
from fleet.inventory.hosts import Host
from fleet.lock import locked
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

UPDATE = "apt-get update"
REBOOT = "shutdown --reboot +1"
OF_THE_DRIVER = ("nvidia_smi", "driver")  # checks
_SECONDS = 3600  # a driver is compiled on the host


@dataclass(frozen=True, slots=True)
class Cure:
    """Finding with steps; `held` says why they are not run."""

    finding: Finding
    held: str = ""


def cures(report: HostReport, *, driver: bool) -> tuple[Cure, ...]:
    """What can be done about the findings of a host, once where several have the same steps."""
    running = [each.name for each in known(report.facts.containers, ()) if each.state == "running"]
    findings = {each.steps: each for each in report.findings if each.steps and not each.acknowledged}
    return tuple(Cure(each, _held(each, report.host.name, running, driver=driver)) for each in findings.values())


def _held(finding: Finding, host: str, running: Sequence[str], *, driver: bool) -> str:
    if finding.check in OF_THE_DRIVER and not driver:
        return "only with --driver"
    if running and (finding.check in OF_THE_DRIVER or RESTART_DOCKER in finding.steps):
        return f"it would end {', '.join(running)}: first {fab()} drain --host {host}"
    return ""


def lines(wanted: Sequence[Cure]) -> Iterator[str]:
    """Steps as text, each under what it is for."""
    for each in wanted:
        yield f"{each.finding.found}{f' (not done: {each.held})' if each.held else ''}"
        yield from (f"  {step}" for step in each.finding.steps)


def mend(
    host: Host,
    look: Callable[[], HostReport],
    connect: Callable[[Host], AbstractContextManager[Session]],
    ask: Callable[[], str] | None,
    *,
    driver: bool,
    reboot: bool,
) -> HostReport:
    """Run the steps of a host's findings under its lock, look again, and go on until there is no new one.

    A step that fails ends those of its finding. `ask` asks for the password of sudo. Returns the last report. Raises
    HostFailedError where nothing can be done.
    """
    with connect(host) as session, locked(session, host.name, "provision"):
        password = _password(session, host, ask)
        done: dict[tuple[str, ...], bool] = {}
        while True:
            report = look()
            todo = [each for each in cures(report, driver=driver) if not each.held and each.finding.steps not in done]
            if not todo:
                return report
            with connect(host) as again:  # a new login is in new groups
                if any("apt-get " in step for each in todo for step in each.finding.steps):
                    _run(again, host.name, UPDATE, password)
                for each in todo:
                    done[each.finding.steps] = _all(again, host.name, each.finding, password)
                if reboot and any(done[each.finding.steps] for each in todo if each.finding.check in OF_THE_DRIVER):
                    _run(again, host.name, REBOOT, password)
                    return look()


def _password(session: Session, host: Host, ask: Callable[[], str] | None) -> bytes:
    """Standard input of a step: the password of sudo, where that asks for one."""
    command = Command("rights", verb("fact_rights"))
    found = must(session, host.name, "say how to become root", command).out.split()
    if "apt" not in found:
        raise HostFailedError(f"{host.name} has no apt-get, it is neither Debian nor Ubuntu: mend it by hand")
    if "terminal" in found:
        raise HostFailedError(
            f"{host.name}: sudo demands a terminal, which a command over SSH has not: allow {host.user} to go without "
            f"(Defaults:{host.user} !requiretty in /etc/sudoers, by visudo), or name root as user"
        )
    if "password" in found:
        if ask is None:
            raise HostFailedError(
                f"{host.name}: sudo asks {host.user} for a password: run this in a terminal, which asks for it "
                "once, or allow sudo without one (NOPASSWD) meanwhile"
            )
        return f"{ask()}\n".encode()
    if not {"root", "sudo"} & {*found}:
        raise HostFailedError(f"{host.name}: {host.user} is not root and has no sudo: install it, or name root as user")
    return b""


def _all(session: Session, host: str, finding: Finding, password: bytes) -> bool:
    """Run the steps of a finding; False where one fails."""
    try:
        for step in finding.steps:
            _run(session, host, step, password)
    except HostFailedError as error:
        log.warning("%s; by hand: %s", error, finding.remedy)
        return False
    return True


def _run(session: Session, host: str, step: str, password: bytes) -> None:
    log.info("%s: %s", host, step)
    command = Command("provision", verb("provision_step", step), _SECONDS)
    try:
        must(session, host, f"run {step}", command, [password])
    except HostFailedError as error:
        record(session, host, AuditEntry("provision", "", "", "failed", str(error)))
        raise
    record(session, host, AuditEntry("provision", "", "", "ok", step))
