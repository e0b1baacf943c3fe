"""Local check of Prometheus's configuration with promtool, before anything is sent."""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from pathlib import Path

from fleet.errors import FleetError
from fleet.monitoring.role import PROMETHEUS_FILE
from fleet.release.service import RolePart, below
from fleet.rollout.commands import config_refusal

log = logging.getLogger("fleet")

SECONDS = 120


def check_here(part: RolePart, program: str = "promtool") -> bool:
    """True where the local promtool accepts the configuration; False without promtool: the host's image checks it.

    amtool is not used: an older one rejects configuration of newer versions. Raises FleetError with promtool's
    message.
    """
    found = shutil.which(program)
    if found is None:
        log.info("%s is not installed on this machine: the configuration is checked on the host only", program)
        return False
    with tempfile.TemporaryDirectory(prefix="voxyard-monitoring-") as folder:
        for name, content in below(part.files, "prometheus").items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        command = [found, "check", "config", str(Path(folder, PROMETHEUS_FILE))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FleetError(f"promtool failed to check the configuration: {error}") from error
        if done.returncode != 0:
            said = config_refusal(f"{done.stdout}\n{done.stderr}").replace(f"{folder}/", "")
            raise FleetError(f"promtool rejects the Prometheus configuration, nothing was sent: {said}")
    return True
