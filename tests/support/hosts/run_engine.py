"""Fake host with three GPUs, a release for training runs, and an engine whose containers are files."""

from __future__ import annotations

import shlex
from pathlib import Path

import fake_ssh_host
from fake_ssh_host import FakeHost
from fleet_doubles import uuid
from run_requests import RELEASE

from fleet.runs.files import DeployedRelease

GPUS = "".join(
    f"{index}, {uuid(index)}, RTX, 550.1, 0000:0{index}:00.0, 24564, 24000, Default, Enabled\n" for index in range(3)
)
# Containers are files: `up` makes one that runs, `stop` lets it end as a trainer does.
ENGINE = {
    "image": "exit 0",
    "up": """
run=$(printf %s "$*" | sed 's/.*voxyard-run-\\([^ ]*\\).*/\\1/')
printf running > "$FAKE_HOST/state-$run"
""",
    "ps": """
case "$*" in *' label=voxyard.role='*) ;; esac
for file in "$FAKE_HOST"/state-*; do [ ! -e "$file" ] || echo "${file##*/state-}"; done
""",
    "inspect": """
case "$*" in *format*) echo trainer-2026-01-05T08:00:00Z; exit 0;; esac
shift; sep=[
for run; do
  state=$(cat "$FAKE_HOST/state-$run"); code=$(cat "$FAKE_HOST/code" 2>/dev/null || echo 0)
  labels='{"voxyard.run": "'$run'", "voxyard.role": "trainer"}'
  printf '%s{"Id": "%s", "Image": "", "Config": {"Image": "", "Labels": %s}, ' "$sep" "$run" "$labels"
  printf '"State": {"Status": "%s", "ExitCode": %s, "StartedAt": "2026-01-05T08:00:00Z"}}' "$state" "$code"
  sep=,
done
echo ]
""",
    "stop": """
for run; do :; done
mkdir -p "$HOME/.voxyard/runs/$run/checkpoints/step-00000007"
printf exited > "$FAKE_HOST/state-$run"
""",
    "logs": 'cat "$FAKE_HOST/said" 2>/dev/null',
}


def make(folder: Path) -> FakeHost:
    """Create a host with the sample release."""
    made = fake_ssh_host.make(folder)
    for name, script in ENGINE.items():
        made.answers(name, script)
    smi = made.folder / "bin/nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(GPUS)}\n")
    smi.chmod(0o755)
    write_release(made, RELEASE)
    return made


def write_release(there: FakeHost, given: DeployedRelease) -> None:
    """Write a release that is the host's current one."""
    folder = there.place / "releases" / given.release
    folder.mkdir(parents=True)
    (there.place / "corpora/demo/0123456789ab/source").mkdir(parents=True, exist_ok=True)
    variables = {
        "VOXYARD_TRAINER_IMAGE": given.image,
        "VOXYARD_UID": given.uid,
        "VOXYARD_GID": given.gid,
        "VOXYARD_TRAINER_METRICS_ADDRESS": given.address,
        "VOXYARD_TRAINER_METRICS_PORT": given.port,
        "VOXYARD_TRAINER_STOP_SECONDS": given.stop_seconds,
        "VOXYARD_TRAINER_MEMORY": given.memory_mib,
    }
    (folder / "voxyard.env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    (folder / "plan.yaml").write_bytes(given.plan)
    (folder / "trainer.yaml").write_bytes(given.compose)
    current = there.place / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(f"releases/{given.release}")
