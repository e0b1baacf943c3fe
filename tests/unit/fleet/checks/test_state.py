"""The directory of a host's state: what the host says of it, and whether two hosts have the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import facts, host, state
from local_session import LocalSession

from fleet.audit import AuditEntry, record
from fleet.checks.host_report import collect_reports
from fleet.checks.requirements import HostRequirements
from fleet.checks.state import across
from fleet.facts.fact import Unknown
from fleet.facts.machine import STATE, State
from fleet.lock import locked
from fleet.ssh.command_batch import HOST_SCRIPT, script

NFS: dict[str, Any] = {"kind": "nfs4", "source": "filer:/home", "boot": "other", "device": "47"}
LUSTRE = NFS | {"kind": "lustre", "source": "10.0.0.1@tcp:/lab"}
GPFS, FOLDER = NFS | {"kind": "gpfs", "source": "gpfs0"}, NFS | {"kind": "virtiofs", "source": "home"}
PAIRS: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("one home of the network", {**NFS, "boot": "a"}, {**NFS, "boot": "b", "device": "53"}, True),
    ("homes of the network of two logins", NFS, {**NFS, "boot": "b", "inode": "9"}, False),
    ("two exports", NFS, {**NFS, "boot": "b", "source": "filer:/home2", "changed": "5.0"}, False),
    ("an export and its server's own disk", NFS, {"boot": "b"}, True),
    ("Lustre", LUSTRE, {**LUSTRE, "boot": "b"}, True),
    ("GPFS, whose source looks like a disk's", GPFS, {**GPFS, "boot": "b"}, True),
    ("a folder of the hypervisor in two machines", FOLDER, {**FOLDER, "boot": "b"}, True),
    ("one machine by two addresses", {}, {"changed": "1.0"}, True),
    ("two users of one machine", {}, {"inode": "7"}, False),
    ("two containers of one machine", {"kind": "overlay"}, {"kind": "overlay", "device": "53"}, False),
    ("twins of one image", {}, {"boot": "b"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), [each[1:] for each in PAIRS], ids=[each[0] for each in PAIRS])
def test_hosts_with_one_directory_are_failures_of_both(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    hosts = [host(name="node-1"), host(name="node-2"), host(name="node-3")]
    states = [state(**one), state(**other), Unknown("cut")]
    found = across(hosts, {on.name: facts(state=each) for on, each in zip(hosts, states, strict=True)})
    assert sorted(found) == (["node-1", "node-2"] if same else [])
    for (finding,) in found.values():
        assert (finding.level, "state_dir" in finding.remedy) == ("FAIL", True)
    if same:
        assert "/home/voxyard/.voxyard is also that of node-2" in found["node-1"][0].found


def read(session: LocalSession) -> State:
    found = STATE.among(session.run([STATE.command]))
    assert isinstance(found, State), found
    return found


def test_a_host_tells_where_its_state_is_and_whether_it_can_be_written(tmp_path: Path) -> None:
    before, again = read(LocalSession(tmp_path)), read(LocalSession(tmp_path))
    assert (before.folder, before.at, before.writable) == (f"{tmp_path}/.voxyard", str(tmp_path), True)
    assert before.is_that_of(again)
    (tmp_path / ".voxyard").mkdir()
    after = read(LocalSession(tmp_path))
    assert after.at == after.folder
    assert not after.is_that_of(before)
    assert before.inode == str(tmp_path.stat().st_ino)
    (tmp_path / "file").write_text("")
    assert not read(LocalSession(tmp_path / "file")).writable


def test_state_dir_moves_all_that_a_host_keeps(tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    text, _ = script([STATE.command], str(elsewhere))
    assert f"export VOXYARD_STATE_DIR='{elsewhere}'" in text
    session = LocalSession(tmp_path, {"VOXYARD_STATE_DIR": str(elsewhere)})
    assert (read(session).folder, read(session).at) == (str(elsewhere), str(tmp_path))
    with locked(session, "gpu-01", "deploy"):
        assert (elsewhere / "lock").exists()
    record(session, "gpu-01", AuditEntry("deploy", "", "a", "ok"))
    assert (elsewhere / "audit.jsonl").exists()
    assert not (tmp_path / ".voxyard").exists()


def test_the_home_is_named_where_the_state_is_chosen_and_where_it_is_asked_alone() -> None:
    lines = [line.strip() for line in HOST_SCRIPT.read_text(encoding="utf-8").splitlines() if "$HOME" in line]
    assert lines == ["home=${VOXYARD_STATE_DIR:-$HOME/.voxyard}", 'printf \'%s\\n%s\\n\' "$HOME" "${SSH_CONNECTION-}"']
    assert (host().files, host(state_dir="/srv/x").files) == (".voxyard", "/srv/x")


def test_the_reports_of_hosts_with_one_home_say_so(tmp_path: Path) -> None:
    hosts = (host(name="node-1", roles=()), host(name="node-2", roles=()))
    reports = collect_reports(hosts, HostRequirements(), LocalSession(tmp_path).connect).succeeded
    for name, other in (("node-1", "node-2"), ("node-2", "node-1")):
        (finding,) = [each for each in reports[name].findings if each.check == "state"]
        assert f"also that of {other}" in finding.found
