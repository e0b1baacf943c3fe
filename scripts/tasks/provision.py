"""`fab provision`: installs what the check of a host found missing."""

from __future__ import annotations

import functools
import getpass
import sys
from typing import Any

from fabric import task

from fleet.checks.finding import failures
from fleet.checks.host_report import HostReport, collect_reports
from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.rollout import provision as steps
from fleet.rollout import report
from fleet.ssh.connection_pool import GroupResult, connected
from tasks.base import HELP, exit_with, one_host, reporting_errors, say
from tasks.check import requirements_of


@task(
    auto_shortflags=False,
    help={
        "host": "host to provision",
        "inventory": HELP["inventory"],
        "yes": "run the steps; without it they are printed only",
        "driver": "NVIDIA's driver, too, where it is missing or too old",
        "reboot": "with --driver: reboot the host one minute after a driver was installed",
    },
)
def provision(
    _: Any, host: str, inventory: str = "", yes: bool = False, driver: bool = False, reboot: bool = False
) -> None:
    """Print what mends the findings of a host with Debian or Ubuntu, as commands; with --yes, run them as root."""
    with reporting_errors():
        if reboot and not driver:
            raise FleetError("--reboot has no effect without --driver: leave it out, or reboot the host yourself")
        where = one_host(inventory, host)
        look = functools.partial(_look, where)
        if not yes:
            print("\n".join(steps.lines(steps.cures(look(), driver=driver))) or "nothing that has steps")
            say("nothing was changed: --yes runs these steps, then those of what the check finds next")
            return
        ask = functools.partial(getpass.getpass, f"password of {where.user} on {where.name}, for sudo: ")
        left = steps.mend(where, look, connected, ask if sys.stdin.isatty() else None, driver=driver, reboot=reboot)
        report.console().print(report.findings_table(GroupResult({where.name: left}, {}), [where.name]))
        exit_with(good=not failures(left.findings))


def _look(host: Host) -> HostReport:
    result = collect_reports((host,), requirements_of((host,)), connected)
    for error in result.failed.values():
        raise error
    return result.succeeded[host.name]
