"""Hooks of a rollout: order, variables, time limit, failures, Ctrl-C, on deploy, rollback and drain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eventually import eventually
from leaping_clock import LeapingCancellation
from programs import python_program
from release_doubles import image, release, saved
from shell_host import FakeServices, ShellHost

from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.images.archive import ImageCache
from fleet.inventory.hosts import Host
from fleet.inventory.rollout_settings import HookSettings
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.apply import drain_host
from fleet.rollout.change_plan import plan_change, plan_rollback
from fleet.rollout.context import Outcome, RolloutCancelledError, RolloutContext
from fleet.rollout.fleet import RolloutTask, run_rollout
from fleet.rollout.hooks import HostHooks, check_programs
from fleet.rollout.host_state import CONTAINERS, read_state
from fleet.ssh.connection_pool import Connections

HOST = Host("gpu-01", "192.0.2.11", "voxyard", roles=("bark",))
NOTE = """import json, os, sys
seen = {key.removeprefix("VOXYARD_"): value for key, value in os.environ.items() if key.startswith("VOXYARD_HOOK")}
with open("pool.log", "a") as file:
    file.write(json.dumps(seen | {"folder": os.getcwd(), "docker": open("trace").read()}) + "\\n")
print("pool says no")
sys.exit(int(sys.argv[1]))
"""


class Pool:
    """Load balancer of the tests: a log of the hooks that ran, and what had been done on the host by then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log, self.trace = folder / "pool.log", folder / "trace"
        self.trace.write_text("")
        self.program = folder / "pool"
        self.program.write_text(python_program(NOTE))
        self.program.chmod(0o755)

    def hook(self, code: int = 0) -> tuple[str, ...]:
        """Command that notes its variables and exits with this code."""
        return (str(self.program), str(code))

    def context(self, before: int = 0, after: int = 0, **other: Any) -> RolloutContext:
        """Rollout whose hooks exit with these codes."""
        hooks = HookSettings((self.hook(before),), (self.hook(after),), 30, self.folder)
        cache = ImageCache(self.folder / "cache", saved)
        given = {"cancellation": LeapingCancellation(), "cache": cache, "min_healthy_seconds": 1, "hooks": hooks}
        return RolloutContext(**{**given, "addresses": {"gpu-01": "192.0.2.11"}, **other})

    @property
    def calls(self) -> list[dict[str, str]]:
        """Hooks that ran."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def order(self) -> list[tuple[str, str]]:
        """Stage and result of the hooks that ran."""
        return [(call["HOOK"], call["HOOK_RESULT"]) for call in self.calls]


@pytest.fixture
def pool(tmp_path: Path, host: ShellHost) -> Pool:
    """Load balancer."""
    found = Pool(tmp_path)
    stop = host.engine.stopped

    class Traced(list[Any]):
        def append(self, each: Any) -> None:
            found.trace.write_text(f"stopped {each[0]}")
            super().append(each)

    host.engine.stopped = Traced(stop)
    return found


def deploy(host: ShellHost, wanted: Release, context: RolloutContext) -> Outcome:
    task = RolloutTask(
        "deploy",
        lambda _, session: plan_change(wanted, read_state(session, "gpu-01", manifest_of(wanted))),
    )
    with Connections(host.connect) as connections:
        (outcome,) = run_rollout([HOST], connections, task, context)
    return outcome


def test_hooks_run_before_services_stop_and_after_they_are_healthy(
    host: ShellHost, fake_services: FakeServices, pool: Pool, tmp_path: Path
) -> None:
    deploy(host, release(fake_services.port, configs={"exporter": "e-0", "bark": "b-0"}), pool.context())
    pool.log.unlink()
    pool.trace.write_text("")
    wanted = release(fake_services.port)
    assert deploy(host, wanted, pool.context()).good
    before, after = pool.calls
    assert before == {
        "HOOK": "before", "HOOK_TASK": "deploy", "HOOK_HOST": "gpu-01", "HOOK_ADDRESS": "192.0.2.11",
        "HOOK_RELEASE": wanted.id, "HOOK_RESULT": "", "folder": str(tmp_path), "docker": "",
    }  # fmt: skip
    assert after == before | {"HOOK": "after", "HOOK_RESULT": "deployed", "docker": "stopped bark"}
    assert deploy(host, wanted, pool.context()).result == "unchanged"
    assert len(pool.calls) == 2, "a host that is not taken out of work has no hooks"


def test_a_failed_before_hook_leaves_the_services_alone_and_the_host_counts_as_failed(
    host: ShellHost, fake_services: FakeServices, pool: Pool
) -> None:
    old = release(fake_services.port)
    deploy(host, old, pool.context())
    pool.log.unlink()
    stopped = len(host.engine.stopped)
    outcome = deploy(host, release(fake_services.port, configs={"exporter": "e-2", "bark": "b-2"}), pool.context(7))
    assert (outcome.result, outcome.failed) == ("failed", True)
    assert "gpu-01: the before hook `" in outcome.note
    assert outcome.note.endswith("failed: exit code 7. Its last lines:\npool says no")
    assert (host.services(), len(host.engine.stopped)) == ({"exporter": "e-1", "bark": "b-1"}, stopped)
    assert host.current == old.id
    assert pool.order == [("before", ""), ("after", "failed")], "what the first commands did is undone"
    assert "exit code 7" in host.audit()[-1]["note"]


def test_a_failed_after_hook_is_named_in_outcome_and_audit_log_and_the_release_stays(
    host: ShellHost, fake_services: FakeServices, pool: Pool
) -> None:
    wanted = release(fake_services.port)
    outcome = deploy(host, wanted, pool.context(after=3))
    assert (outcome.result, outcome.good, outcome.failed) == ("deployed", False, True)
    assert "the after hook `" in outcome.note
    assert "exit code 3" in outcome.note
    assert "the host may still be out of work: put it back by hand" in outcome.note
    assert host.current == wanted.id
    assert (host.audit()[-1]["result"], "exit code 3" in host.audit()[-1]["note"]) == ("ok", True)


def test_the_after_hook_of_a_host_that_was_rolled_back_is_told_so(
    host: ShellHost, fake_services: FakeServices, pool: Pool
) -> None:
    deploy(host, release(fake_services.port), pool.context())
    pool.log.unlink()
    host.engine.modes = {image("bark", "bad").reference: "unhealthy"}
    bad = release(fake_services.port, configs={"exporter": "e-1", "bark": "b-2"}, images={"bark": image("bark", "bad")})
    assert deploy(host, bad, pool.context()).result == "failed"
    assert host.services() == {"exporter": "e-1", "bark": "b-1"}
    assert pool.order == [("before", ""), ("after", "failed")]


def test_a_rollback_and_a_drain_have_the_same_hooks(host: ShellHost, fake_services: FakeServices, pool: Pool) -> None:
    for number in (1, 2):
        deploy(host, release(fake_services.port, configs={"exporter": "e", "bark": f"b-{number}"}), pool.context())
    pool.log.unlink()
    with Connections(host.connect) as connections:
        task = RolloutTask("rollback", lambda each, session: plan_rollback(session, each.name, None))
        list(run_rollout([HOST], connections, task, pool.context()))
    assert drain_host(host, "gpu-01", pool.context()).result == "drained"
    assert pool.order == [("before", ""), ("after", "rolled back"), ("before", ""), ("after", "drained")]
    assert [call["HOOK_TASK"] for call in pool.calls] == ["rollback", "rollback", "drain", "drain"]


def test_a_drain_that_cannot_list_the_containers_has_failed(
    host: ShellHost, fake_services: FakeServices, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(host, release(fake_services.port), pool.context())
    double = SimpleNamespace(command=CONTAINERS.command, among=lambda _: Unknown("context deadline exceeded"))
    monkeypatch.setattr("fleet.rollout.apply.CONTAINERS", double)
    outcome = drain_host(host, "gpu-01", pool.context())
    assert outcome.result == "failed"
    assert "cannot be listed, so services may run on: context deadline exceeded" in outcome.note


def test_a_drain_whose_before_hook_fails_stops_nothing(
    host: ShellHost, fake_services: FakeServices, pool: Pool
) -> None:
    deploy(host, release(fake_services.port), pool.context())
    outcome = drain_host(host, "gpu-01", pool.context(before=1))
    assert outcome.result == "failed"
    assert set(host.services()) == {"exporter", "bark"}


def test_an_error_of_the_program_itself_runs_the_after_hook(
    host: ShellHost, fake_services: FakeServices, pool: Pool
) -> None:
    def fault(_: float) -> None:
        raise ZeroDivisionError

    context = pool.context(cancellation=LeapingCancellation(fault))
    with pytest.raises(ZeroDivisionError):
        deploy(host, release(fake_services.port), context)
    assert pool.order == [("before", ""), ("after", "failed")]


def hooks_of(folder: Path, *commands: tuple[str, ...], seconds: int = 30, stage: str = "before") -> HostHooks:
    context = RolloutContext(hooks=HookSettings(**{stage: commands}, seconds=seconds, folder=folder))
    return HostHooks("gpu-01", "deploy", "0123", context)


def script(folder: Path, text: str) -> tuple[str, ...]:
    """Command that runs a shell script."""
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def alive(pid: int) -> bool:
    """True where a process runs; an ended one may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_hook_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = script(tmp_path, "echo waiting; sleep 600 & echo $! > child; wait")
    with pytest.raises(HostFailedError, match=r"hook` did not end within 15 s\. Its last lines:\nwaiting"):
        hooks_of(tmp_path, command, seconds=15).before()
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not alive(child), "the hook's child has ended")


def test_a_program_that_a_hook_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    command = script(tmp_path, "sleep 600 & echo $! > child")
    hooks_of(tmp_path, command).before()
    child = int((tmp_path / "child").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_no_argument_is_read_by_a_shell(tmp_path: Path) -> None:
    hooks_of(tmp_path, (*script(tmp_path, 'printf %s "$1" > said'), "$(id); rm -rf *")).before()
    assert (tmp_path / "said").read_text() == "$(id); rm -rf *"


def test_a_hook_that_is_killed_says_by_what_signal_and_its_output_has_no_control_characters(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, script(tmp_path, "printf 'red \\033[31m\\n'; kill -9 $$"))
    with pytest.raises(HostFailedError, match=r"ended by signal 9\. Its last lines:\nred \[31m$"):
        hooks.before()


def test_the_first_ctrl_c_ends_a_before_hook_and_the_after_hooks_still_run(tmp_path: Path) -> None:
    before = script(tmp_path, "touch begun; exec sleep 600")
    after = ("touch", str(tmp_path / "after"))
    context = RolloutContext(hooks=HookSettings((before,), (after,), 60, tmp_path))
    hooks = HostHooks("gpu-01", "deploy", "0123", context)
    threading.Thread(target=ask_when, args=(tmp_path / "begun", context, 1)).start()
    with pytest.raises(RolloutCancelledError, match=r"cancelled by Ctrl-C in the before hook `.*hook`"):
        hooks.before()
    assert not hooks.after(Outcome("gpu-01", "interrupted")).hook_failure
    assert (tmp_path / "after").exists()


def test_the_second_ctrl_c_ends_an_after_hook_that_runs_which_is_named(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, script(tmp_path, "touch begun; exec sleep 600"), stage="after")
    hooks.begun = True
    threading.Thread(target=ask_when, args=(tmp_path / "begun", hooks.context, 2)).start()
    said = hooks.after(Outcome("gpu-01", "deployed")).hook_failure
    assert "cancelled by Ctrl-C in the after hook" in said


def test_two_ctrl_cs_as_an_after_hook_begins_are_of_the_time_in_which_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = hooks_of(tmp_path, ("sleep", "600"), stage="after")
    hooks.begun = True
    start = subprocess.Popen

    def begin(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*words, **options)
        for _ in range(2):
            hooks.context.cancellation.ask()
        return process

    monkeypatch.setattr(subprocess, "Popen", begin)
    assert "cancelled by Ctrl-C in the after hook" in hooks.after(Outcome("gpu-01", "deployed")).hook_failure


def test_an_after_hook_that_begins_after_two_ctrl_cs_runs_to_its_end(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, script(tmp_path, "sleep 0.3; touch ended"), stage="after")
    hooks.begun = True
    for _ in range(2):
        hooks.context.cancellation.ask()
    assert not hooks.after(Outcome("gpu-01", "interrupted")).hook_failure
    assert (tmp_path / "ended").exists()


def ask_when(path: Path, context: RolloutContext, times: int) -> None:
    """Type Ctrl-C so many times once the file is there."""
    eventually(path.exists)
    for _ in range(times):
        context.cancellation.ask()


def test_every_after_hook_runs_though_the_first_fails(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, ("false",), ("touch", "second"), stage="after")
    hooks.begun = True
    outcome = hooks.after(Outcome("gpu-01", "deployed", note="all is well"))
    assert (tmp_path / "second").exists()
    assert outcome.note.startswith("all is well\ngpu-01: the after hook `false` failed: exit code 1\n")


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "/nowhere/pool"])
def test_a_program_that_is_not_there_is_found_before_anything_is_changed(program: str) -> None:
    with pytest.raises(FleetError, match=rf"rollout\.hooks\.after: {program} is no program of this machine") as error:
        check_programs(HookSettings(before=(("true",),), after=((program, "x"),)))
    assert error.value.exit_code == 2
