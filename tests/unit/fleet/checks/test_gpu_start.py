"""A throw-away container with the release's GPU request: what is run, and what its result means."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import RecordingSession, blocked, facts, host, uuid

from fleet.checks.finding import Finding
from fleet.checks.gpu_start import check_all, with_gpu_start
from fleet.facts.fact import Unknown
from fleet.facts.gpu_start import GpuStart, gpu_start
from fleet.facts.machine import Toolkit
from fleet.release.gpu_assignment import assign
from fleet.ssh.command_batch import Answer

LISTED = f"GPU 0: NVIDIA GeForce RTX 4090 (UUID: {uuid(0)})\nGPU 1: NVIDIA GeForce RTX 4090 (UUID: {uuid(1)})\n"
CDI_ONLY = (
    'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[compute gpu]].'
)
NO_PROGRAM = (
    "docker: Error response from daemon: failed to create task: OCI runtime create failed: runc create failed: unable "
    'to start container process: exec: "nvidia-smi": executable file not found in $PATH: unknown.'
)
HOOK_FAILED = (
    "docker: Error response from daemon: OCI runtime create failed: error running hook #0: nvidia-container-cli: "
    "initialization error: load library failed: libnvidia-ml.so.1: no such file or directory: unknown."
)


# Ends of the engine's messages in public reports, of nvidia-container-cli where nothing else is said → what helps.
REPORTED = {
    "initialization error: nvml error: driver/library version mismatch: unknown.": "reboot",  # labdao/plex#18
    "initialization error: nvml error: driver not loaded: unknown.": "modprobe nvidia",  # NVIDIA/nvidia-docker
    "mount error: stat failed: /dev/nvidia-uvm: no such file or directory: unknown.": "nvidia-modprobe -u",  # …#139
    "ldcache error: process /sbin/ldconfig.real failed with error code: 1: unknown.": "@/sbin/ldconfig",  # …#1616
    "mount error: failed to add device rules: unable to find any existing device filters attached to the cgroup: "
    "bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted: unknown.": "no-cgroups",
    "container error: cgroup subsystem devices not found: unknown.": "1.8 or newer",  # …#1447
    "mount error: file creation failed: /var/lib/docker/overlay2/f8/merged/usr/bin/nvidia-smi: file exists: unknown.":
        "remove libnvidia-*",  # NVIDIA/nvidia-container-runtime#41
    "mount error: stat failed: /proc/driver/nvidia/gpus/cfdd:00:00.0: no such file or directory: unknown.":
        "update nvidia-container-toolkit",  # NVIDIA/nvidia-docker#1316
    "device error: GPU-1: unknown device id: unknown.": "nvidia-smi -L",
    'exec: "nvidia-container-runtime-hook": executable file not found in $PATH: unknown.': "again",  # …#958
}  # fmt: skip


@pytest.mark.parametrize("said", REPORTED)
def test_words_of_the_container_toolkit_have_their_own_cure(said: str) -> None:
    (found,) = findings(code=125, said=f"docker: Error response from daemon: OCI runtime create failed: {said}")
    assert said in found.found
    assert REPORTED[said] in found.remedy


def findings(**result: Any) -> list[Finding]:
    return list(
        check_all(facts(gpu_start=GpuStart(**{"image": "aa11", "own": True, "command": "docker run", **result})))
    )


def test_a_container_that_sees_the_gpus_is_reported_with_what_was_run() -> None:
    (found,) = findings(wanted=(uuid(0), uuid(1)), said=LISTED)
    assert (found.level, found.check) == ("INFO", "toolkit")
    assert found.found == "a container of image aa11 saw 2 GPUs (docker run)"


@pytest.mark.parametrize(
    ("result", "said", "remedy"),
    [
        ({"code": 125, "said": CDI_ONLY}, "could not select device driver", "no nvidia-container-runtime-hook"),
        ({"code": 125, "said": "unresolvable CDI devices nvidia.com/gpu=all"}, "unresolvable CDI", "cdi generate"),
        ({"code": 127, "said": HOOK_FAILED}, "initialization error", "nvidia-ctk runtime configure"),
        ({"code": 127, "said": NO_PROGRAM}, "the toolkit mounted no nvidia-smi into it", "nvidia-ctk"),
        ({"code": 255, "said": "Failed to initialize NVML: Unknown Error"}, "Failed to initialize", "cgroup driver"),
        ({"code": 124}, "did not list them in time", "check again"),
        ({"code": 9}, "exit code 9", "check again"),
        ({"said": LISTED.splitlines()[0]}, f"does not see GPUs that it requested: {uuid(1)}", "check again"),
        ({"said": LISTED, "wanted": (uuid(7),)}, f"does not see GPUs that it requested: {uuid(7)}", "check again"),
    ],
)
def test_a_container_that_does_not_see_its_gpus_fails_the_check_whatever_is_installed(
    result: dict[str, Any], said: str, remedy: str
) -> None:
    (found,) = findings(**result)
    assert (found.level, found.check) == ("FAIL", "toolkit")
    assert said in found.found
    assert "(docker run)" in found.found
    assert remedy in found.remedy
    assert blocked([found]) == {"exporter", "bark", "trainer", "worker"}


def test_what_could_not_be_tried_is_said() -> None:
    (none,) = findings(image="")
    assert (none.level, none.found) == ("INFO", "no container with GPUs was tried: the host has no image yet")
    (foreign,) = findings(own=False, code=127, said=NO_PROGRAM)
    assert (foreign.level, "cannot run nvidia-smi" in foreign.found) == ("INFO", True)
    (unknown,) = check_all(facts(gpu_start=Unknown("timed out")))
    assert (unknown.level, "timed out" in unknown.found) == ("WARN", True)


def test_the_request_is_that_of_the_release_and_hosts_without_gpus_are_left_alone() -> None:
    session = RecordingSession({"gpu-start": Answer(f"aa11\nown\n0\n{LISTED}")})
    found = facts()
    seen = with_gpu_start(session, found, assign(found, host())).gpu_start
    assert isinstance(seen, GpuStart)
    assert seen.wanted == (uuid(0), uuid(1))
    assert (seen.own, seen.code, seen.seen) == (True, 0, frozenset(seen.wanted))
    assert f'--gpus \'"device={uuid(0)},{uuid(1)}","capabilities=compute,utility"\'' in session.texts["gpu-start"]
    with_gpu_start(session, found, assign(found, host(roles=("monitoring",))))
    assert "--gpus all,capabilities=utility " in session.texts["gpu-start"]
    nothing = Toolkit(hook=False, runtime=False, cdi=False)
    for other in ({"gpus": ()}, {"gpus": Unknown("x")}, {"toolkit": nothing}, {"docker": Unknown("x")}):
        alone = RecordingSession()
        assert with_gpu_start(alone, facts(**other), assign(found, host())).gpu_start is None
        assert alone.asked == []


DOCKER = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$1 $2" in
  "image ls") cat {folder}/{images};;
  "image inspect") printf '900 aaaaaaaaaaaa\\n70 bbbbbbbbbbbb\\n8000 cccccccccccc\\n';;
  run*) {run};;
esac
"""


def run(folder: Path, images: str, *, run: str = "echo GPU 0") -> GpuStart | Unknown:
    """The command as a host's shell runs it, with a program `docker` that answers."""
    (folder / "table").write_text(
        "postgres 111111111111\nr:5000/site/voxyard-exporter 222222222222\nvoxyard-exporter 3\n"
    )
    (folder / "ids").write_text("")
    docker = folder / "docker"
    docker.write_text(DOCKER.format(folder=folder, images=images, run=run))
    docker.chmod(0o755)
    fact = gpu_start([uuid(0)])
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(
        ["sh", "-c", fact.command.shell], capture_output=True, text=True, env=environment, check=False
    )
    return fact.read(Answer(done.stdout, done.stderr, done.returncode))


def test_the_newest_exporter_is_the_image_else_the_smallest(tmp_path: Path) -> None:
    found = run(tmp_path, "table")
    assert isinstance(found, GpuStart)
    assert (found.image, found.own, found.code, found.said) == ("222222222222", True, 0, "GPU 0")
    (asked,) = [line for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("run ")]
    assert "--network none --read-only --cap-drop ALL --security-opt no-new-privileges" in asked
    assert asked.endswith(
        f'--gpus "device={uuid(0)}","capabilities=compute,utility" --entrypoint nvidia-smi 222222222222 -L'
    )
    (tmp_path / "table2").write_text("postgres 111111111111\n")
    smallest = run(tmp_path, "table2")
    assert isinstance(smallest, GpuStart)
    assert (smallest.image, smallest.own) == ("bbbbbbbbbbbb", False)


def test_without_an_image_nothing_is_started(tmp_path: Path) -> None:
    found = run(tmp_path, "ids")
    assert isinstance(found, GpuStart)
    assert found.image == ""
    assert "run " not in (tmp_path / "asked").read_text()


def test_the_engines_refusal_and_exit_code_are_kept(tmp_path: Path) -> None:
    found = run(tmp_path, "table", run="echo 'could not select device driver' >&2; exit 125")
    assert isinstance(found, GpuStart)
    assert (found.code, found.said) == (125, "could not select device driver")
