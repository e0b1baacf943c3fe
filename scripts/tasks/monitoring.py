"""`fab monitoring`: what watches the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fabric import task

from fleet.monitoring import base, render, write
from tasks.frame import HELP, ROOT, answering, fleet_of, say

ALERTMANAGER = ROOT / "deploy/alertmanager/alertmanager.yml"


@task(
    auto_shortflags=False,
    help={"inventory": HELP["inventory"], "out": "directory for the files, build/monitoring unless given"},
)
def monitoring(_: Any, inventory: str = "", out: str = "") -> None:
    """Write Alertmanager's configuration and Prometheus's targets, as the inventory says."""
    with answering():
        folder = Path(out) if out else ROOT / "build/monitoring"
        files = render(fleet_of(inventory), base(ALERTMANAGER))
        write(files, folder)
        say(f"{folder}: {', '.join(sorted(files))}")
        say(f"start with: VOXYARD_MONITORING={folder.resolve()} docker compose -f deploy/compose/monitoring.yaml up -d")
