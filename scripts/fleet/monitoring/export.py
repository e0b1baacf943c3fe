"""Exports the monitoring files to a local directory, to be started by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

from fleet.errors import FleetError
from fleet.monitoring.commands import DATA
from fleet.monitoring.release import ENVIRONMENT_FILE, MonitoringRelease


def write(release: MonitoringRelease, folder: Path) -> str:
    """Write the files below `folder`, replacing earlier ones; returns the command line that starts them.

    Secrets are not written. Raises FleetError where the files cannot be written.
    """
    live, partial = folder / "monitoring/live", folder / "monitoring/.live.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        for name, content in release.files:
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if live.exists():
            shutil.rmtree(live)
        partial.replace(live)
        for name in DATA:
            (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        (folder / "secrets").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FleetError(f"{folder}: cannot be written: {error}; name another directory with --out") from None
    files = " ".join(f"--file {live / name}" for name in release.manifest.compose_files)
    return f"docker compose --env-file {live / ENVIRONMENT_FILE} {files} up --detach"
