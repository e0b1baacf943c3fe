"""Facts: every captured output under tests/captures/facts parses to its expected value."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import RecordingSession, gpu

from fleet.facts import gpu_use as gpu_use_facts
from fleet.facts import gpus as gpu_facts
from fleet.facts import machine as machine_facts
from fleet.facts.fact import Fact, Unknown
from fleet.facts.gpus import merged
from fleet.facts.host import collect
from fleet.rollout.host_state import CURRENT
from fleet.ssh.command_batch import Answer

CAPTURES = Path(__file__).resolve().parents[3] / "captures/facts"
EVERY: dict[str, Fact[Any]] = {
    fact.name: fact
    for room in (gpu_facts, gpu_use_facts, machine_facts)
    for fact in (*vars(room).values(), CURRENT)
    if isinstance(fact, Fact)
}
CASES = sorted(path for name in EVERY for path in (CAPTURES / name).glob("*.json"))


def plain(value: Any) -> Any:
    """A fact as JSON has it."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_answer_is_read_as_its_case_says(path: Path) -> None:
    case = json.loads(path.read_text())
    answer = Answer("\n".join(case["out"]), "\n".join(case["err"]), case["code"])
    assert plain(EVERY[path.parent.name].read(answer)) == case["fact"]


def test_every_fact_has_a_case_that_is_known_and_one_that_is_not() -> None:
    known: dict[str, set[bool]] = {name: set() for name in EVERY}
    for path in CASES:
        fact = json.loads(path.read_text())["fact"]
        known[path.parent.name].add(isinstance(fact, dict) and "unknown" in fact)
    never_fail = {"toolkit", "containers", "gpu-clocks", "gpu-remaps", "login", "clock", "programs", "current"}
    assert {name for name, found in known.items() if found != {True, False}} <= never_fail


@pytest.mark.parametrize("fact", EVERY.values(), ids=EVERY)
def test_every_command_is_a_shell_command(fact: Fact[Any]) -> None:
    done = subprocess.run(["sh", "-n", "-c", fact.command.shell], capture_output=True, text=True)
    assert done.stderr == ""


def test_the_toolkit_is_asked_without_failing_where_nothing_is_there() -> None:
    done = subprocess.run(["sh", "-c", machine_facts.TOOLKIT.command.shell], capture_output=True, text=True)
    assert done.returncode == 0


def test_the_other_queries_complete_the_gpus_and_may_fail() -> None:
    first, second = gpu(0, pcie_width=None, pcie_width_max=None), gpu(1)
    health = {"0": {"mig": True, "ecc_uncorrected": 2, "pcie_width": 8, "pcie_width_max": 16}}
    remaps = {second.uuid: {"remap_pending": True, "remap_failed": False}}
    clocks, capabilities = Unknown("no such field"), {"1": {"compute_capability": (12, 0)}}
    found = merged(
        [replace(first, compute_capability=None), replace(second, clock_events=None)],
        [health, remaps, clocks, capabilities],
    )
    assert [each.compute_capability for each in found] == [None, (12, 0)]
    assert (found[0].mig, found[0].ecc_uncorrected, found[0].pcie_width, found[0].remap_pending) == (True, 2, 8, None)
    assert (found[1].mig, found[1].remap_pending, found[1].remap_failed, found[1].clock_events) == (
        None,
        True,
        False,
        None,
    )


SMI = """#!/bin/sh
case $1 in
  *clocks_event_reasons*)
    [ "$NEW" ] || { echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2; }
    echo 0, 0x0000000000000001 ;;
  *clocks_throttle_reasons*) echo 0, 0x0000000000000004 ;;
  *) echo GPU-1, 1, 300, python ;;
esac
echo WARNING: infoROM is corrupted at gpu 0000:0B:00.0
exit 14
"""


@pytest.mark.parametrize(("new", "bits"), [("", 4), ("1", 1)])
def test_a_warning_of_nvidia_smi_is_no_failure(new: str, bits: int, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o700)

    def read(fact: Fact[Any]) -> Any:
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NEW": new}
        words = ["sh", "-c", fact.command.shell]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        return fact.read(Answer(done.stdout, done.stderr, done.returncode))

    assert read(gpu_facts.CLOCKS) == {"0": {"clock_events": bits}}
    assert [(each.gpu, each.pid, each.memory_mib) for each in read(gpu_use_facts.PROCESSES)] == [("GPU-1", 1, 300)]


@pytest.mark.parametrize(
    ("clock", "skew"),
    [(1003.0, 0.0), (1000.0, 0.0), (1009.5, 4.5), (990.0, -10.0)],
)
def test_a_slow_answer_is_no_clock_skew(clock: float, skew: float) -> None:
    times = iter([1000.0, 1005.0])
    session = RecordingSession({"clock": Answer(f"{clock}\n")})
    assert collect(session, now=lambda: next(times)).clock_skew == pytest.approx(skew)


def test_a_driver_or_an_engine_that_hangs_is_asked_once() -> None:
    hangs = Answer("", "", 124)
    session = RecordingSession({"gpus": hangs, "docker": hangs, "clock": Answer("1000.0\n")})

    found = collect(session, now=lambda: 1000.0)

    assert found.gpus == found.topology == found.processes == Unknown("timed out")
    assert found.docker == found.compose == found.containers == Unknown("timed out")
    assert {"gpus", "docker", "xids"} <= set(session.asked)
    assert {"compose", "toolkit", "disk", "images", "containers"}.isdisjoint(session.asked)
    assert {
        "gpu-health",
        "gpu-remaps",
        "gpu-clocks",
        "gpu-capabilities",
        "gpu-recovery",
        "topology",
        "p2p",
        "gpu-processes",
        "numa",
    }.isdisjoint(session.asked)


def test_a_host_that_answers_nothing_has_only_unknown_facts() -> None:
    class Broken(RecordingSession):
        def _answer(self, command: Any) -> Answer:
            return Answer("", "sh: 1: not found", 127)

    found = asdict(collect(Broken()))
    assert found.pop("gpu_start") is None  # tried when the GPUs of a host are assigned
    assert found.pop("ray_reach") is None  # of hosts of a Ray cluster
    assert found.pop("shared_documents") is None  # of hosts whose inventory names a store
    assert found.pop("unread_health") == ()  # the GPUs are not known
    assert all(set(value) == {"reason"} for value in found.values())


def info(said: str = "", **more: Any) -> str:
    """A `docker` whose root is a directory of the test, and whose `info` says this."""
    said = said or f"printf '%s\\n' '{json.dumps(more, separators=(',', ':'))}'"
    return f'case "$*" in *DockerRootDir*) echo ROOT/docker ;; *) {said} ;; esac'


SNAPSHOTTER: dict[str, Any] = {"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
OWN: dict[str, Any] = {"Containerd": {"Address": "/var/run/docker/containerd/containerd.sock", "Namespaces": {}}}
SYSTEMS: dict[str, Any] = {"Containerd": {"Address": "/run/containerd/containerd.sock", "Namespaces": {}}}
CONFIG = "printf \"version = 3\\nroot = 'ROOT/big'\\nstate = '/run/c'\\n[plugins]\\n  root = '/no'\\n\""
# After docker/cli#6645, moby/moby#50517.
ON_A_HOST: list[tuple[str, dict[str, str], str]] = [
    ("images of the engine", {"docker": info(Driver="overlay2")}, "docker"),
    ("of containerd", {"docker": info(**SNAPSHOTTER), "containerd": CONFIG}, "big"),
    ("of containerd, which the engine names", {"docker": info(**SNAPSHOTTER, **SYSTEMS), "containerd": CONFIG}, "big"),
    (
        "of the engine's own containerd",
        {"docker": info(**SNAPSHOTTER, **OWN), "containerd": CONFIG},
        "docker/containerd/daemon",
    ),
    ("an engine that tells its root only", {"docker": info(said="exit 1")}, "docker"),
]


def fakes(folder: Path, programs: dict[str, str]) -> dict[str, str]:
    """Environment in which these programs stand before the machine's own."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o700)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def asked(fact: Fact[Any], environment: dict[str, str]) -> Any:
    done = subprocess.run(["sh", "-c", fact.command.shell], capture_output=True, text=True, env=environment)
    return fact.read(Answer(done.stdout, done.stderr, done.returncode))


@pytest.mark.parametrize(("says", "programs", "place"), ON_A_HOST, ids=[each[0] for each in ON_A_HOST])
def test_the_space_is_that_of_the_directory_with_the_images(
    says: str, programs: dict[str, str], place: str, tmp_path: Path
) -> None:
    for name in ("docker/containerd/daemon", "big", "bin"):
        (tmp_path / name).mkdir(parents=True)
    df = 'for last do :; done; echo "Filesystem Size Used Free Part Mounted on"; echo "/dev/sda 9 1 8 9% $last"'
    placed = {name: text.replace("ROOT", str(tmp_path)) for name, text in {**programs, "df": df}.items()}
    found = asked(machine_facts.DISK, fakes(tmp_path / "bin", placed))
    assert found == machine_facts.Disk(f"{tmp_path}/{place}", 9 << 10, 8 << 10, 8)


def test_a_memory_of_a_gpu_is_no_numa_node_with_processors(tmp_path: Path) -> None:
    cat = r"printf '0-71\n\n\n\n'"  # of nodes 0 to 3, of which three are memory of the card
    found = asked(gpu_use_facts.NUMA, fakes(tmp_path, {"cat": cat, "nvidia-smi": "exit 1"}))
    assert found.nodes == 1


@pytest.mark.parametrize(("program", "there"), [("sha256sum", False), ("tar", False), ("flock", True)])
def test_busybox_is_not_taken_for_what_it_cannot_do(program: str, there: bool, tmp_path: Path) -> None:
    environment = fakes(tmp_path, {"busybox": ":"})  # after ekristen/distillery#151, chainloop-dev/chainloop#871
    (tmp_path / program).symlink_to(tmp_path / "busybox")
    found = asked(machine_facts.PROGRAMS, environment)
    assert (program in found, "bash" in found) == (there, True)
