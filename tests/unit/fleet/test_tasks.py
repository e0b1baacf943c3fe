"""Tasks of the fleet as an operator types them: output and exit code, on hosts that are directories."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fabfile
import fake_ssh_host
import pytest
from fab_tasks import Fab, task_runner
from fleet_doubles import facts
from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.parser import Parser
from leaping_clock import LeapingCancellation
from release_doubles import release, saved
from run_requests import RELEASE, REQUEST
from shell_host import FakeServices, ShellHost

from fleet.certificates import make
from fleet.checks.host_report import HostReport
from fleet.errors import HostFailedError
from fleet.images.archive import ImageCache
from fleet.images.image import ROLES
from fleet.images.third_party import THIRD_PARTY
from fleet.inventory.hosts import Host, Inventory
from fleet.lock import Lock, locked
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.apply import apply
from fleet.rollout.change_plan import plan_change
from fleet.rollout.context import RolloutContext
from fleet.rollout.fitness import HostSnapshot
from fleet.rollout.host_state import read_state
from fleet.runs.files import render
from fleet.runs.runs import find_run
from fleet.ssh.connection_pool import Connections, GroupResult
from tasks import base, check, deploy, monitoring, over_hosts, releases, runs

INVENTORY = "defaults: {user: voxyard, node_exporter: false}\nhosts:\n  gpu-01: {address: 192.0.2.11, roles: [bark]}\n"
HOST = Host("gpu-01", "192.0.2.11", "voxyard", roles=("bark",))


@pytest.fixture
def fab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fab:
    """Runs a task with an inventory of one host: exit code, output, messages."""
    return task_runner(INVENTORY, tmp_path, capsys)


@pytest.fixture
def services() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


@pytest.fixture
def host(tmp_path: Path, services: FakeServices, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellHost]:
    """Host to which two releases were deployed."""
    found = ShellHost(tmp_path / "host")
    for wanted in (release(services.port), release(services.port, configs={"exporter": "e-2", "bark": "b-2"})):
        put(found, wanted, tmp_path)
    monkeypatch.setattr(deploy, "Connections", lambda: Connections(found.connect))
    yield found
    found.close()


def put(host: ShellHost, wanted: Release, folder: Path) -> None:
    """Deploy a release."""
    state = read_state(host, "gpu-01", manifest_of(wanted))
    context = RolloutContext(
        cancellation=LeapingCancellation(), cache=ImageCache(folder / "cache", saved), min_healthy_seconds=1
    )
    assert apply("gpu-01", host, plan_change(wanted, state), (), context).result == "deployed"


@pytest.mark.slow
def test_the_status_of_a_host_is_a_table_and_its_exit_code(host: ShellHost, services: FakeServices, fab: Fab) -> None:
    code, out, _ = fab(deploy.status)
    assert code == 0
    assert f"gpu-01  {host.current}  bark" in out
    services.bad.add("/readyz")
    code, out, _ = fab(deploy.status, json=True)
    assert (code, json.loads(out)["ok"]) == (1, False)


@pytest.mark.slow
def test_unlock_says_whose_lock_it_broke(host: ShellHost, fab: Fab) -> None:
    held = locked(host, "gpu-01", "deploy of ann's")
    held.__enter__()
    code, out, _ = fab(deploy.unlock, host=["gpu-01"])
    assert code == 0
    assert "unlocked" in out
    assert "deploy of ann's" in out
    code, out, _ = fab(deploy.unlock, host=["gpu-01"])
    assert code == 0
    assert "it was not locked" in out


@pytest.mark.slow
def test_a_rollback_changes_the_host_and_another_one_has_nothing_to_do(
    host: ShellHost, fab: Fab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = RolloutContext(
        cancellation=LeapingCancellation(), cache=ImageCache(tmp_path / "cache", saved), min_healthy_seconds=1
    )
    monkeypatch.setattr(deploy, "rollout_context", lambda *_, **__: context)
    newer, older = host.current, (host.folder / "previous").readlink().name
    code, out, said = fab(deploy.rollback)
    assert (code, host.current) == (0, older), said
    assert f"{newer}" in out
    assert "nothing to do" not in said
    code, out, said = fab(deploy.rollback, release=older, json=True)
    assert code == 0
    assert "nothing to do on any host" in said
    (outcome,) = json.loads(out)["hosts"]
    assert (outcome["result"], outcome["from"], outcome["to"]) == ("unchanged", older, older)


def test_a_deploy_to_a_locked_host_is_refused_before_anything_is_planned(
    fab: Fab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock("ann@desk", "deploy", 1000, 1600, "t")
    login = LoginInfo("192.0.2.11", gpus=False, memory_mib=64 << 10)
    snapshot = HostSnapshot(HostReport(HOST, facts(), Assignment(), ()), login, lock)
    monkeypatch.setattr(releases, "find_images", lambda *_: {"gpu-01": {}})
    monkeypatch.setattr(releases, "inspect_hosts", lambda *_: GroupResult({"gpu-01": snapshot}, {}))
    code, _, said = fab(deploy.deploy)
    assert code == 1
    assert "gpu-01 is locked by ann@desk for 10 min (deploy)" in said
    assert said.endswith("nothing was changed")


def unreachable(_: Host) -> AbstractContextManager[Any]:
    """Connection to a host that is switched off."""
    raise HostFailedError("gpu-01 cannot be reached")


def test_a_deploy_to_a_host_that_is_off_shows_what_was_found(fab: Fab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "Connections", lambda: Connections(unreachable))
    monkeypatch.setattr(releases, "find_images", lambda *_: {"gpu-01": {}})
    code, _, said = fab(deploy.deploy)
    assert code == 1
    assert "FAIL" in said
    assert "gpu-01 cannot be reached" in said
    assert "nothing was changed; not ready: gpu-01" in said


@pytest.fixture
def half_off(host: ShellHost, fab: Fab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellHost:
    """Host of a fleet whose other host is switched off, in a group of its own."""
    (tmp_path / "hosts.yaml").write_text(f"{INVENTORY}  gpu-02: {{address: 192.0.2.12, groups: [far]}}\n")

    def connect(to: Host) -> AbstractContextManager[Any]:
        if to.name == "gpu-02":
            raise HostFailedError("gpu-02 cannot be reached")
        return host.connect(to)

    context = RolloutContext(
        cancellation=LeapingCancellation(), cache=ImageCache(tmp_path / "cache", saved), min_healthy_seconds=1
    )
    monkeypatch.setattr(deploy, "rollout_context", lambda *_, **__: context)
    monkeypatch.setattr(deploy, "Connections", lambda: Connections(connect))
    return host


@pytest.mark.slow
def test_a_rollback_without_an_unfit_host_names_it_and_its_exit_code_says_that_not_all_was_done(
    half_off: ShellHost, fab: Fab
) -> None:
    newer, older = half_off.current, (half_off.folder / "previous").readlink().name
    code, _, said = fab(deploy.rollback)
    assert (code, half_off.current) == (1, newer)
    assert "nothing was changed; cannot roll back: gpu-02 (--skip-unfit leaves them out" in said
    code, out, said = fab(deploy.rollback, skip_unfit=True, json=True)
    assert (code, half_off.current) == (1, older)
    assert "going on without gpu-02" in said
    document = json.loads(out)
    assert {each["name"]: (each["result"], each["note"]) for each in document["hosts"]} == {
        "gpu-01": ("rolled back", ""),
        "gpu-02": ("unfit", "gpu-02 cannot be reached"),
    }
    code, _, said = fab(deploy.rollback, group=["far"], skip_unfit=True)
    assert code == 1
    assert "nothing was changed; cannot roll back: gpu-02 (no host is left)" in said


@pytest.mark.slow
def test_a_locked_host_is_unfit_for_a_rollback_that_skips_such_hosts(half_off: ShellHost, fab: Fab) -> None:
    with locked(half_off, "gpu-01", "deploy of ann's"):
        code, _, said = fab(deploy.rollback, skip_unfit=True)
    assert code == 1
    assert "nothing was changed; cannot roll back: gpu-01, gpu-02 (no host is left)" in said


@pytest.mark.slow
def test_a_group_selects_hosts_and_an_unknown_one_is_wrong_use(half_off: ShellHost, fab: Fab) -> None:
    code, out, _ = fab(deploy.status, group=["far"], json=True)
    assert [each["name"] for each in json.loads(out)["hosts"]] == ["gpu-02"]
    for task in (check.check, deploy.plan, deploy.deploy, deploy.rollback, deploy.drain, deploy.status, deploy.unlock):
        code, _, said = fab(task, group=["near"])
        assert code == base.WRONG_USE
        assert "no group near in" in said
        assert said.endswith("expected one of far")
        code, _, said = fab(task, group=[" , "])
        assert (code, "has no name: leave it out to select all hosts" in said) == (base.WRONG_USE, True)
    for task in (monitoring.monitoring, runs.runs):
        assert fab(task, group=["near"])[0] == base.WRONG_USE


def test_a_hook_whose_program_is_missing_is_found_before_a_host_is_contacted(fab: Fab, tmp_path: Path) -> None:
    hooks = "rollout: {hooks: {before: [[no-such-pool, remove]]}}\n"
    (tmp_path / "hosts.yaml").write_text(f"{INVENTORY}{hooks}")
    for task in (deploy.deploy, deploy.rollback, deploy.drain):
        code, _, said = fab(task, host=["gpu-01"])
        assert code == base.WRONG_USE
        assert "rollout.hooks.before: no-such-pool is no program of this machine" in said


@pytest.mark.parametrize("json_too", [False, True])
def test_a_check_of_a_host_that_is_off_fails(fab: Fab, monkeypatch: pytest.MonkeyPatch, json_too: bool) -> None:
    off: GroupResult[HostReport] = GroupResult({}, {"gpu-01": HostFailedError("gpu-01 cannot be reached")})
    monkeypatch.setattr(check, "collect_reports", lambda *_: off)
    monkeypatch.setattr(check, "requirements_of", lambda _: None)
    code, out, _ = fab(check.check, json=json_too)
    assert code == 1
    assert "gpu-01 cannot be reached" in out


@pytest.mark.parametrize("reference", ["grafanas=x", "bark", "bark="])
def test_an_image_of_no_role_is_wrong_use(fab: Fab, reference: str) -> None:
    code, _, said = fab(deploy.plan, image=[reference])
    assert code == base.WRONG_USE
    assert f"--image {reference}: expected ROLE=REFERENCE, with a role of {', '.join((*ROLES, *THIRD_PARTY))}" in said


@pytest.mark.parametrize("words", ["render --to slurm --gpus ''", "render --run= --to slurm", "check --inventory ''"])
def test_an_empty_value_of_an_option_is_wrong_use(words: str) -> None:
    """As of a variable that a shell does not have: it must not select the default."""
    parser = Parser(contexts=Collection.from_module(fabfile).to_contexts())
    with pytest.raises(Exit, match=r"--\w+ is empty: give it a value, or leave it out") as caught:
        parser.parse_argv(shlex.split(words))
    assert caught.value.code == base.WRONG_USE


def test_an_exit_code_of_monitoring_needs_a_check(fab: Fab) -> None:
    code, _, said = fab(monitoring.monitoring, exit_code=True)
    assert (code, said) == (base.WRONG_USE, "--exit-code needs --check")


def test_monitoring_files_for_this_machine_are_named_with_the_command_that_starts_them(
    fab: Fab, tmp_path: Path
) -> None:
    code, _, said = fab(monitoring.monitoring, out=str(tmp_path / "out"))
    assert code == 0
    first, *_, last = said.splitlines()
    assert first.startswith(f"→ {tmp_path}/out: ")
    assert last.startswith("→ start with: docker compose ")


def test_monitoring_files_for_this_machine_ask_hosts_over_tls_by_the_secrets_that_are_here(
    fab: Fab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secured = replace(HOST, secrets=(make(tmp_path, [HOST], []).path,))
    elsewhere = replace(HOST, name="gpu-02", secrets=(tmp_path / "none.yaml",))
    monkeypatch.setattr(
        monitoring, "load_inventory", lambda _: Inventory(tmp_path / "hosts.yaml", (secured, elsewhere))
    )
    code, _, said = fab(monitoring.monitoring, out=str(tmp_path / "out"))
    assert code == 0
    assert "secrets of gpu-02 are not on this machine: these hosts are asked in plain HTTP" in said
    folder = tmp_path / "out/config/prometheus/current"
    assert (folder / "host-ca.pem").read_bytes() == (tmp_path / "host-ca.pem").read_bytes()
    assert (folder / "targets/bark.yaml").read_text().count("__scheme__: https") == 1


@pytest.mark.needs("rsync", "ssh")
def test_a_fetched_run_is_told_with_the_command_that_speaks_with_it(
    fab: Fab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = fake_ssh_host.make(tmp_path / "host")
    for name, value in there.variables.items():
        monkeypatch.setenv(name, value)
    folder = there.place / "runs/demo-1"
    (folder / "checkpoints").mkdir(parents=True)
    for name, content in render(REQUEST, RELEASE).files:
        (folder / name).write_bytes(content)
    monkeypatch.setattr(over_hosts, "connected", lambda _: there.session().connect(HOST))
    code, out, said = fab(runs.fetch, host="gpu-01", run="demo-1", out=str(tmp_path / "out"))
    assert code == 0, said
    assert out.startswith(f"{tmp_path}/out: checkpoints at step none")


def test_a_run_that_trains_is_told_with_its_verified_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = fake_ssh_host.make(tmp_path / "host")
    for name, value in there.variables.items():
        monkeypatch.setenv(name, value)
    folder = there.place / "runs/demo-1"
    folder.mkdir(parents=True)
    files = render(REQUEST, RELEASE)
    for name, content in files.files:
        (folder / name).write_bytes(content)
    monkeypatch.setattr(over_hosts, "connected", lambda _: there.session().connect(HOST))
    monkeypatch.setattr(over_hosts, "wait_until_training", find_run)
    monkeypatch.setattr(over_hosts, "verify_limits", lambda *_: ("GPU 0: 8192 MiB",))
    over_hosts._follow_up([HOST], "demo-1", [files], json=False)
    assert "\nverified  GPU 0: 8192 MiB\n" in capsys.readouterr().out
