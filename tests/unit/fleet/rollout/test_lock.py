"""Host lock: one owner, reported to others, released in every case, broken on request only."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from eventually import PATIENCE
from local_session import LocalSession

from fleet.audit import AuditEntry, record
from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.lock import LOCK, Lock, break_lock, locked, operator, read_lock
from fleet.rollout.fleet import all_locked
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Connections


def hold(session: LocalSession, reason: str = "deploy") -> None:
    with locked(session, "gpu-01", reason):
        pass


def test_the_lock_is_there_while_the_block_runs_and_says_whose_it_is(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    with locked(session, "gpu-01", 'deploy of "x"'):
        found = read_lock(session)
        assert found is not None
        assert (found.owner, found.reason) == (operator(), 'deploy of "x"')
        assert abs(found.at - time.time()) < 60
        assert (tmp_path / ".voxyard/lock").stat().st_mode & 0o777 == 0o600
    assert read_lock(session) is None
    assert list((tmp_path / ".voxyard").iterdir()) == []


def test_the_age_of_a_lock_is_told_by_no_date_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "date").write_text("#!/bin/sh\nexec /bin/date +%s\n")  # of Ubuntu 25.10: iiab/iiab#4060
    (tmp_path / "date").chmod(0o700)
    session = LocalSession(tmp_path, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with locked(session, "gpu-01", "deploy"):
        os.utime(tmp_path / ".voxyard/lock", (1_760_000_000, 1_760_000_000))
        found = read_lock(session)
    assert found is not None
    assert found.at == 1_760_000_000


def test_a_second_one_is_refused_and_told_owner_reason_age_and_fix(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    said = r"gpu-01 is locked by \S+@\S+ for \d+ s \(deploy\): wait .* fab unlock --host gpu-01"
    with locked(session, "gpu-01", "deploy"):
        with pytest.raises(HostFailedError, match=said):
            hold(session)
        assert read_lock(session) is not None, "the second one takes nothing away"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, HostFailedError])
def test_the_lock_is_given_back_however_the_work_ends(tmp_path: Path, error: type[BaseException]) -> None:
    session = LocalSession(tmp_path)
    with pytest.raises(error), locked(session, "gpu-01", "deploy"):
        raise error
    hold(session)


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    contexts = [locked(session, "gpu-01", f"deploy {number}") for number in range(24)]

    def attempt(context: AbstractContextManager[None]) -> bool:
        try:
            context.__enter__()
        except HostFailedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, contexts)) == 1


class RolloutOperator:
    """One of two operators who roll out to the same hosts; the host `near` answers this one first."""

    def __init__(self, folder: Path, near: str) -> None:
        self.folder, self.near = folder, near
        self.tried_or_ended = threading.Event()  # to lock the near host; the rollout
        self.other = self

    @contextmanager
    def connect(self, host: Host) -> Iterator[LocalSession]:
        """Connection to the host, which is a directory."""
        home = self.folder / host.name
        home.mkdir(exist_ok=True)
        yield NearOrFar(home, self, near=host.name == self.near)

    def rolls_out(self, hosts: Sequence[Host], both_done: threading.Barrier) -> bool:
        """True where the locks of all hosts were taken."""
        try:
            with Connections(self.connect) as connections, all_locked(hosts, connections, "deploy"):
                self.tried_or_ended.set()
                both_done.wait(PATIENCE)
                return True
        except HostFailedError:
            self.tried_or_ended.set()
            both_done.wait(PATIENCE)
            return False


class NearOrFar(LocalSession):
    """Connection that takes a lock at once, or only after the other operator has tried to lock the near host."""

    def __init__(self, home: Path, operator: RolloutOperator, *, near: bool) -> None:
        super().__init__(home)
        self._operator, self._near = operator, near

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        takes = any(command.name == "lock" for command in commands)
        if takes and not self._near:
            assert self._operator.other.tried_or_ended.wait(PATIENCE)
        answers = super().run(commands)
        if takes and self._near:
            self._operator.tried_or_ended.set()
        return answers


def test_of_two_rollouts_to_the_same_hosts_at_once_one_gets_all_locks(tmp_path: Path) -> None:
    hosts = [Host(name, "192.0.2.1", "voxyard") for name in ("gpu-01", "gpu-02")]
    first, second = (RolloutOperator(tmp_path, host.name) for host in hosts)
    first.other, second.other = second, first
    both_done = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda each: each.rolls_out(hosts, both_done), (first, second)))
    assert got == [True, False]
    assert [read_lock(LocalSession(tmp_path / host.name)) for host in hosts] == [None, None]


def test_only_its_holder_gives_it_back(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    with locked(session, "gpu-01", "first"):
        assert break_lock(session, "gpu-01") is not None
        second = locked(session, "gpu-01", "second")
        second.__enter__()
    found = read_lock(session)
    assert found is not None
    assert found.reason == "second"


def test_breaking_tells_whose_it_was_and_nothing_where_there_is_none(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    assert break_lock(session, "gpu-01") is None
    held = locked(session, "gpu-01", "deploy")
    held.__enter__()
    broken = break_lock(session, "gpu-01")
    assert broken is not None
    assert broken.reason == "deploy"
    assert break_lock(session, "gpu-01") is None
    hold(session)


class Broken(LocalSession):
    """A connection that is gone after the lock was taken."""

    def run(self, commands):
        if any(command.name == "give-lock-back" for command in commands):
            raise HostFailedError("the connection to gpu-01 broke")
        return super().run(commands)


def test_when_the_connection_is_gone_the_lock_stays_and_that_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hold(Broken(tmp_path))
    assert "could not release the lock" in caplog.text
    assert "fab unlock --host gpu-01" in caplog.text
    assert read_lock(LocalSession(tmp_path)) is not None


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"owner": 1}'])
def test_a_lock_file_that_cannot_be_read_is_a_lock_all_the_same(tmp_path: Path, content: str) -> None:
    session = LocalSession(tmp_path)
    (tmp_path / ".voxyard").mkdir()
    path = tmp_path / ".voxyard/lock"
    path.write_text(content)
    three_hours_ago = time.time() - 3 * 3600
    os.utime(path, (three_hours_ago, three_hours_ago))
    said = f"locked by somebody for 3 h (the lock file cannot be read: {content!r})"
    with pytest.raises(HostFailedError, match=re.escape(said)):
        hold(session)
    assert break_lock(session, "gpu-01") is not None


def test_a_lock_that_is_released_while_it_is_read_is_none(tmp_path: Path) -> None:
    (tmp_path / ".voxyard").mkdir()
    was_there = Command("lock", LOCK.command.shell.replace("[ -e lock ]", "true"))
    assert LOCK.among(LocalSession(tmp_path).run([was_there])) is None


def test_a_lock_that_cannot_be_removed_is_not_called_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = LocalSession(tmp_path)
    held = locked(session, "gpu-01", "deploy")
    held.__enter__()
    mv = tmp_path / "mv"
    mv.write_text("#!/bin/sh\necho 'Read-only file system' >&2\nexit 1\n")
    mv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostFailedError, match="gpu-01 could not break its lock: Read-only file system"):
        break_lock(LocalSession(tmp_path), "gpu-01")
    assert read_lock(session) is not None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (2 * 86400 - 1, "47 h"),
        (2 * 86400, "2 d"),
    ],
)
def test_the_age_is_by_the_clock_of_the_host(seconds: int, said: str) -> None:
    assert Lock("a@b", "deploy", 1000, 1000 + seconds, "t").age == said


def test_a_home_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".voxyard").write_text("a file")
    with pytest.raises(HostFailedError, match="gpu-01 could not be locked"):
        hold(LocalSession(tmp_path))


def test_the_audit_log_grows_by_a_line_a_action(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    record(session, "gpu-01", AuditEntry("deploy", "a", "b", "ok"))
    record(
        session, "gpu-01", AuditEntry("deploy", "b", "c", "failed", 'it\'s "100 %"\nof $HOME `id` \\n ☃ ' + "x" * 900)
    )
    path = tmp_path / ".voxyard/audit.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["at"].endswith("Z")
    rest = {"who": operator(), "what": "deploy", "host": "gpu-01", "from": "a", "to": "b", "result": "ok", "note": ""}
    assert {**first, "at": ""} == {"at": "", **rest}
    assert second["note"].startswith('it\'s "100 %" of $HOME `id` \\n ☃ xxx')
    assert len(second["note"]) == 500
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_audit_log_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".voxyard").write_text("a file")
    with pytest.raises(HostFailedError, match="gpu-01 could not write its audit log"):
        record(LocalSession(tmp_path), "gpu-01", AuditEntry("deploy", "", "b", "ok"))
