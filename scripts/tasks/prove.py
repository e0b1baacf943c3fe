"""`fab prove`: the trainer's GPU benchmarks on a host, with its released image; fetches the report."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.runs import gpu_proof as proof
from fleet.ssh.connection_pool import connected
from fleet.ssh.interrupt import InterruptedByOperatorError
from gpu_report import run as gpu_report
from tasks.base import (
    HELP,
    ROOT,
    absolute_path,
    exit_with,
    one_host,
    override_files,
    print_json,
    reporting_errors,
    say,
)


@task(
    iterable=["override"],
    auto_shortflags=False,
    help={
        "host": "host with the role trainer, deployed",
        "out": "new directory for the report [default: build/gpu-report/HOST-TIME]",
        "override": "additional compose file, merged last, as for `fab train`; repeatable",
        "stand-in": "rehearse the same way on CPU devices with tiny sizes; measures nothing",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def prove(
    _: Any,
    host: str,
    out: str = "",
    override: Sequence[str] | None = None,
    stand_in: bool = False,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Run the trainer's benchmarks on a host's GPUs with the released image; fetch one report."""
    with reporting_errors():
        where = one_host(inventory, host)
        if "trainer" not in where.roles:
            raise FleetError(f"{where.name} has not the role trainer, which is what is proved: name a host that has it")
        name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        folder = absolute_path(out) or ROOT / "build/gpu-report" / f"{where.name}-{name}"
        steps, long = (proof.STAND_IN_STEPS, "minutes") if stand_in else (proof.STEPS, "up to an hour")
        say(f"{where.name}: {', '.join(steps)}; {long}, no training run may be active")
        files = override_files(override)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the proof as Ctrl-C does
        try:
            with connected(where) as session:
                report = proof.prove(session, where.name, name, ROOT, folder, overrides=files, stand_in=stand_in)
        except KeyboardInterrupt:
            raise InterruptedByOperatorError("interrupted: the proof was ended and removed from the host") from None
        gpu_report.write(report, folder)
        if json:
            print_json(report)
        else:
            print(gpu_report.verdict(report))
            print(f"→ {folder / 'index.html'}")
        exit_with(good=bool(report["ok"]))
