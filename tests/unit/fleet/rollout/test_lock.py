"""Host lock: one owner, reported to others, released in every case, broken on request only."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from local_session import LocalSession

from fleet.audit import AuditEntry, record
from fleet.errors import HostFailedError
from fleet.lock import Lock, break_lock, locked, operator, read_lock


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
    (tmp_path / ".voxyard/lock").write_text(content)
    with pytest.raises(HostFailedError, match="the lock file cannot be read"):
        hold(session)
    assert break_lock(session, "gpu-01") is not None


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 s"), (59, "59 s"), (600, "10 min"), (3 * 3600, "3 h"), (9 * 86400, "9 d")]
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
