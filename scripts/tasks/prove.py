"""`fab prove`: the trainer's GPU benchmarks on a host, with its released image; fetches the report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fabric import task

from fleet.runs import gpu_proof as proof
from fleet.ssh.connection_pool import connected
from gpu_report import run as gpu_report
from tasks.base import HELP, ROOT, absolute_path, exit_with, print_json, reporting_errors, say, select_hosts


@task(
    auto_shortflags=False,
    help={
        "host": "host with the role trainer, deployed",
        "out": "new directory for the report [default: build/gpu-report/HOST-TIME]",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def prove(_: Any, host: str, out: str = "", inventory: str = "", json: bool = False) -> None:
    """Run the trainer's benchmarks on a host's GPUs with the released image; fetch one report."""
    with reporting_errors():
        (where,) = select_hosts(inventory, [host])
        name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        folder = absolute_path(out) or ROOT / "build/gpu-report" / f"{where.name}-{name}"
        say(f"{where.name}: {', '.join(proof.STEPS)}; up to an hour, no training run may be active")
        with connected(where) as session:
            report = proof.prove(session, where.name, name, ROOT, folder)
        gpu_report.write(report, folder)
        if json:
            print_json(report)
        else:
            print(gpu_report.verdict(report))
            print(f"→ {folder / 'index.html'}")
        exit_with(good=bool(report["ok"]))
