"""`fab provision` as an operator types it, on a host that is a directory: steps, rights, order, lock and audit log."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fab_tasks import Fab, task_runner
from fleet_doubles import container, facts, gpu
from shell_host import ShellHost

from fleet.checks.host_report import HostReport
from fleet.checks.preflight import preflight
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown
from fleet.facts.machine import TOOLS, Toolkit
from fleet.images.cuda import DEFAULTS
from fleet.inventory.hosts import Host
from fleet.lock import locked
from fleet.release.gpu_assignment import assign
from fleet.ssh import command_batch
from fleet.ssh.connection_pool import GroupResult
from tasks import base, provision

INVENTORY = (
    "defaults: {user: voxyard, node_exporter: false}\nhosts:\n  gpu-01: {address: 192.0.2.11, roles: [trainer]}\n"
)
NO_TOOLKIT = Toolkit(hook=False, runtime=False, cdi=False)
APT = "apt-get -o DPkg::Lock::Timeout=600 install --yes"
COMPOSE = (
    "apt-get -o DPkg::Lock::Timeout=600 satisfy --yes "
    "docker-compose-plugin (>= 2.24.4) | docker-compose-v2 (>= 2.24.4) | docker-compose (>= 2.24.4)"
)
NO_SMI = Unknown("voxyard-host: 1: nvidia-smi: not found")
NO_DOCKER = Unknown("voxyard-host: 1: docker: not found")
PROGRAMS = ("apt-get", "systemctl", "usermod", "nvidia-ctk", "nvidia-smi", "shutdown", "ubuntu-drivers")
FAKE = """#!/bin/sh
# What root runs on the host: its words go into a file; a line of `broken` makes those that begin with it fail.
said="${0##*/} $*"
[ -n "${AS_ROOT-}" ] || { echo 'are you root?' >&2; exit 100; }
while read -r each; do
  case "$said" in "$each"*) echo "E: $each" >&2; exit 100 ;; esac
done <"$HOME/broken"
printf '%s\\n' "$said" >>"$HOME/steps"
"""
SUDO = """#!/bin/sh
[ "$(cat "$HOME/asks")" != tty ] || { echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1; }
[ "$1" = -n ] && exit "$(cat "$HOME/asks")"
shift 4
if [ "$(cat "$HOME/asks")" != 0 ]; then
  read -r word; [ "$word" = secret ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
fi
AS_ROOT=1 exec "$@"
"""


class Machine(ShellHost):
    """Host of which each look finds the next facts; the last ones stay."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.looks: list[dict[str, Any]] = [{}]
        for name, text in (dict.fromkeys(PROGRAMS, FAKE) | {"sudo": SUDO, "id": "#!/bin/sh\necho 1000\n"}).items():
            self.program(name, text)
        for name in ("steps", "broken", "asks"):
            (self.home / name).write_text("0" if name == "asks" else "")

    def program(self, name: str, text: str) -> None:
        path = self.home.parent / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def report(self, hosts: tuple[Host, ...], requirements: HostRequirements, _: object) -> GroupResult[HostReport]:
        now, (host,) = facts(**(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])), hosts
        planned = assign(now, host)
        found = HostReport(host, now, planned, preflight(now, host, requirements, planned))
        return GroupResult({host.name: found}, {})

    def steps(self) -> list[str]:
        return (self.home / "steps").read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A host with sudo that asks for no password."""
    found = Machine(tmp_path / "host")
    monkeypatch.setattr(provision, "connected", found.connect)
    monkeypatch.setattr(provision, "collect_reports", found.report)
    monkeypatch.setattr(provision, "requirements_of", lambda _: HostRequirements(cuda=DEFAULTS))
    yield found
    found.close()


@pytest.fixture
def fab(tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine) -> Fab:
    """Runs a task."""
    return task_runner(INVENTORY, tmp_path, capsys)


FINDINGS: dict[str, tuple[dict[str, Any], dict[str, bool], list[str]]] = {
    "no Docker": ({"docker": NO_DOCKER}, {}, ["apt-get update", f"{APT} docker.io"]),
    "a Docker that is stopped": (
        {"docker": Unknown("Cannot connect to the Docker daemon at …")}, {}, ["systemctl enable --now docker"],
    ),
    "a login outside of the group": (
        {"docker": Unknown("permission denied while trying …")}, {}, ["usermod --append --groups docker voxyard"],
    ),
    "no Compose": ({"compose": Unknown("unknown flag: --short")}, {}, ["apt-get update", COMPOSE]),
    "no Compose, and the end of the usage instead": (
        {"compose": Unknown("…exit codes Run 'docker COMMAND --help' for more information on a command.")}, {},
        ["apt-get update", COMPOSE],
    ),
    "an old Compose": ({"compose": "2.20.3"}, {}, ["apt-get update", COMPOSE]),
    "a Compose that hangs": ({"compose": Unknown("timed out")}, {}, []),
    "no rsync": ({"programs": frozenset(TOOLS) - {"rsync"}}, {}, ["apt-get update", f"{APT} rsync"]),
    "no flock": ({"programs": frozenset(TOOLS) - {"flock"}}, {}, ["apt-get update", f"{APT} util-linux"]),
    "no toolkit": (
        {"toolkit": NO_TOOLKIT}, {},
        [
            "apt-get update", f"{APT} nvidia-container-toolkit", "nvidia-ctk runtime configure --runtime=docker",
            "systemctl restart docker",
        ],
    ),
    "persistence off, on two GPUs": (
        {"gpus": (gpu(0, persistence=False), gpu(1, persistence=False))}, {},
        ["systemctl enable --now nvidia-persistenced"],
    ),
    "no driver": ({"gpus": NO_SMI}, {}, []),
    "no driver, and --driver": (
        {"gpus": NO_SMI}, {"driver": True},
        ["apt-get update", f"{APT} ubuntu-drivers-common", "ubuntu-drivers install --gpgpu"],
    ),
    "an old driver, --driver and --reboot": (
        {"gpus": (gpu(0, driver_version="470.239.06"),)}, {"driver": True, "reboot": True},
        ["apt-get update", f"{APT} ubuntu-drivers-common", "ubuntu-drivers install --gpgpu", "shutdown --reboot +1"],
    ),
    "a driver that is broken": ({"gpus": Unknown("couldn't communicate with the driver")}, {"driver": True}, []),
    "a host where all is well": ({}, {"driver": True, "reboot": True}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_what_the_check_found_missing_is_printed_and_done_when_it_is_asked_for(
    name: str, fab: Fab, machine: Machine
) -> None:
    found, options, expected = FINDINGS[name]
    machine.looks = [found]
    code, out, said = fab(provision.provision, host="gpu-01", **options)
    assert code == 0
    assert "nothing was changed" in said
    assert (machine.steps(), machine.audit(), machine.tree()) == ([], [], {})
    printed = out.replace("'", "")
    assert all(step in printed for step in expected if step not in ("apt-get update", "shutdown --reboot +1"))

    machine.looks = [found, {}]
    code, _, said = fab(provision.provision, host="gpu-01", yes=True, **options)

    assert machine.steps() == expected
    audited = "\n".join(each["note"] for each in machine.audit()).replace("'", "")
    assert all(each["what"] == "provision" and each["result"] == "ok" for each in machine.audit())
    assert all(step in audited for step in expected)
    assert not (machine.folder / "lock").exists()
    again = list(expected)
    fab(provision.provision, host="gpu-01", yes=True, **options)
    assert machine.steps() == again, "a host where nothing is found is left alone"


def test_what_docker_hid_is_mended_in_the_same_call(fab: Fab, machine: Machine) -> None:
    machine.looks = [
        {"docker": NO_DOCKER},
        {"docker": Unknown("permission denied"), "compose": Unknown("unknown flag: --short")},
        {"compose": Unknown("unknown flag: --short"), "toolkit": NO_TOOLKIT},
        {},
    ]
    code, out, _ = fab(provision.provision, host="gpu-01", yes=True)
    assert code == 0
    steps = machine.steps()
    order = [f"{APT} docker.io", "usermod --append", COMPOSE, f"{APT} nvidia-container-toolkit", "systemctl restart"]
    places = [next(place for place, step in enumerate(steps) if step.startswith(each)) for each in order]
    assert places == sorted(places)
    assert "pair" in out, "the check after it"


def test_a_step_that_fails_ends_those_of_its_finding_and_the_others_go_on(fab: Fab, machine: Machine) -> None:
    (machine.home / "broken").write_text(f"{APT} nvidia-container-toolkit\n")
    machine.looks = [{"toolkit": NO_TOOLKIT, "gpus": (gpu(0, persistence=False), gpu(1))}]
    code, _, said = fab(provision.provision, host="gpu-01", yes=True)
    assert code == 1
    assert machine.steps() == ["apt-get update", "systemctl enable --now nvidia-persistenced"]
    assert "gpu-01 could not run apt-get" in said
    assert "add NVIDIA's apt repository first" in said
    assert [each["result"] for each in machine.audit()] == ["ok", "failed", "ok"]


@pytest.mark.parametrize(
    "found", [{"toolkit": NO_TOOLKIT}, {"gpus": (gpu(0, driver_version="470.239.06"),)}], ids=["toolkit", "driver"]
)
def test_what_would_end_running_services_waits_until_they_are_drained(
    found: dict[str, Any], fab: Fab, machine: Machine
) -> None:
    machine.looks = [{**found, "containers": (container(),)}]
    _, out, _ = fab(provision.provision, host="gpu-01", driver=True)
    assert "(not done: it would end voxyard-exporter-1: first fab drain --host gpu-01)" in out
    assert fab(provision.provision, host="gpu-01", driver=True, yes=True)[0] == 1
    assert machine.steps() == []


def test_a_driver_is_named_and_left_alone_without_its_option(fab: Fab, machine: Machine) -> None:
    machine.looks = [{"gpus": NO_SMI}]
    _, out, _ = fab(provision.provision, host="gpu-01")
    assert "nvidia-smi fails" in out
    assert "(not done: only with --driver)" in out


def test_a_password_is_asked_for_once_and_written_nowhere(
    fab: Fab, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.home / "asks").write_text("1")
    machine.looks = [{"programs": frozenset(TOOLS) - {"rsync"}}, {}]
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "secret"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", answer)
    assert fab(provision.provision, host="gpu-01", yes=True)[0] == 0
    assert asked == ["password of voxyard on gpu-01, for sudo: "]
    assert machine.steps() == ["apt-get update", f"{APT} rsync"]
    kept = [path for path in machine.home.rglob("*") if path.is_file() and "secret" in path.read_text()]
    assert not kept
    assert not any("secret" in text for text in machine.texts)


REFUSED = {
    "sudo that demands a terminal": ("asks", "tty", "Defaults:voxyard !requiretty"),
    "sudo that asks, without a terminal": ("asks", "1", "sudo asks voxyard for a password: run this in a terminal"),
    "no sudo": ("sudo", None, "voxyard is not root and has no sudo"),
    "no apt": ("apt-get", None, "gpu-01 has no apt-get, it is neither Debian nor Ubuntu"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_host_where_nothing_can_be_installed_says_why(
    name: str, fab: Fab, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, value, expected = REFUSED[name]
    if value is not None:
        (machine.home / what).write_text(value)
    else:
        (machine.home.parent / "bin" / what).unlink()
        machine.environment["PATH"] = _without(what, machine)
        monkeypatch.setattr(command_batch, "_PROGRAMS", ())  # nor in the system's own folders
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    machine.looks = [{"docker": NO_DOCKER}]
    code, _, said = fab(provision.provision, host="gpu-01", yes=True)
    assert code == 1
    assert expected in said
    assert (machine.steps(), machine.audit()) == ([], [])
    assert not (machine.folder / "lock").exists()


def _without(program: str, machine: Machine) -> str:
    """PATH of the machine on which the program is nowhere: links to all others."""
    folder = machine.home.parent / "links"
    folder.mkdir()
    for place in machine.environment["PATH"].split(":"):
        for each in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / each.name
            if each.name != program and not link.exists() and not link.is_symlink():
                link.symlink_to(each)
    return str(folder)


def test_a_host_that_somebody_changes_is_left_alone(fab: Fab, machine: Machine) -> None:
    machine.looks = [{"docker": NO_DOCKER}]
    with locked(machine, "gpu-01", "deploy 0123"):
        code, _, said = fab(provision.provision, host="gpu-01", yes=True)
    assert code == 1
    assert re.search(r"gpu-01 is locked by .* \(deploy 0123\)", said)
    assert machine.steps() == []


def test_a_reboot_without_a_driver_is_refused(fab: Fab, machine: Machine) -> None:
    machine.looks = [{"programs": frozenset(TOOLS) - {"rsync"}}]
    code, _, said = fab(provision.provision, host="gpu-01", yes=True, reboot=True)
    assert code == base.WRONG_USE
    assert "--reboot has no effect without --driver" in said
    assert machine.steps() == []


def test_all_hosts_at_once_are_no_host(fab: Fab) -> None:
    assert fab(provision.provision, host="gpu-01,gpu-02")[0] == base.WRONG_USE
