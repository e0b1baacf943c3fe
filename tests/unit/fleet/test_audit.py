"""Audit log: lines are chained by their hashes and copied to the journal, so that a removed one shows."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fleet_doubles import facts
from local_session import LocalSession

from fleet.audit import AUDIT_LOG, TAG, AuditEntry, AuditLog, record
from fleet.checks.preflight import audit_log
from fleet.facts.fact import Unknown

LOG = ".voxyard/audit.jsonl"
UNCHAINED = '{"at": "2026-01-05T08:00:00Z", "who": "ann@desk", "what": "deploy", "host": "gpu-01", "note": ""}\n'


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File that systemd-cat appends to and journalctl prints, on a host that is a directory."""
    programs, lines = tmp_path / "bin", tmp_path / "journal"
    programs.mkdir()
    lines.touch()
    texts = {
        "systemd-cat": f'[ "$*" = "-t {TAG}" ] && cat >> {lines}',
        "journalctl": f'case "$*" in *"--identifier {TAG} _UID=$(id -u)") cat {lines};; *) exit 1;; esac',
    }
    for name, text in texts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return lines


def written(home: Path, count: int = 4) -> list[str]:
    """Lines of a log to which `count` actions were added."""
    session = LocalSession(home)
    for number in range(count):
        note = f'{number}: it\'s "100 %" of $HOME, "previous": "x", \\n ☃'
        record(session, "gpu-01", AuditEntry("deploy", "a", "b", "ok", note))
    return (home / LOG).read_text().splitlines(keepends=True)


def read(home: Path) -> AuditLog:
    found = AUDIT_LOG.among(LocalSession(home).run([AUDIT_LOG.command]))
    assert not isinstance(found, Unknown), found
    return found


def test_each_line_has_the_hash_of_the_one_before_it(tmp_path: Path) -> None:
    lines = written(tmp_path)
    hashes = [json.loads(line)["previous"] for line in lines]
    assert hashes == ["", *(hashlib.sha256(line.rstrip("\n").encode()).hexdigest() for line in lines[:-1])]
    assert read(tmp_path) == AuditLog(4)


CHANGES: dict[str, tuple[Callable[[list[str]], list[str]], int]] = {
    "the first line removed": (lambda lines: lines[1:], 1),
    "a line removed": (lambda lines: [lines[0], *lines[2:]], 2),
    "a line changed": (lambda lines: [lines[0], lines[1].replace('"ok"', '"failed"'), *lines[2:]], 3),
    "two lines exchanged": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
    "a line inserted": (lambda lines: [*lines[:2], UNCHAINED, *lines[2:]], 3),
    "a line appended": (lambda lines: [*lines, UNCHAINED], 5),
}


@pytest.mark.parametrize(("change", "line"), CHANGES.values(), ids=CHANGES)
def test_a_change_shows_with_its_line(tmp_path: Path, change: Callable[[list[str]], list[str]], line: int) -> None:
    lines = change(written(tmp_path))
    (tmp_path / LOG).write_text("".join(lines))
    (said,) = read(tmp_path).broken
    assert said.startswith(f"line {line} does not follow from what is before it")
    (finding,) = audit_log(facts(audit_log=read(tmp_path)))
    assert (finding.level, finding.check) == ("WARN", "audit")
    assert f"line {line} " in finding.found


def test_a_line_without_a_hash_after_chained_ones_shows_also_when_later_lines_follow(tmp_path: Path) -> None:
    lines = written(tmp_path, 2)
    (tmp_path / LOG).write_text("".join([*lines, UNCHAINED]))
    assert len(written(tmp_path, 2)) == 5
    (said,) = read(tmp_path).broken
    assert said.startswith("line 3 does not follow")


def test_a_log_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / LOG).mkdir(parents=True)
    (finding,) = audit_log(facts(audit_log=AUDIT_LOG.among(LocalSession(tmp_path).run([AUDIT_LOG.command]))))
    assert finding.level == "WARN"
    assert "cannot be read" in finding.found


def test_a_write_that_was_cut_off_stays_a_line_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, 2)
    with (tmp_path / LOG).open("a") as file:
        file.write('{"at": "2026-01-05')
    assert json.loads(written(tmp_path, 1)[3])["note"].startswith("0: ")
    assert read(tmp_path) == AuditLog(4)


def test_of_several_writers_each_hashes_the_line_of_the_one_before(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: written(tmp_path, 3), range(4)))
    assert read(tmp_path) == AuditLog(12)


def test_the_journal_has_each_line_and_shows_which_were_removed_at_the_end(tmp_path: Path, journal: Path) -> None:
    lines = written(tmp_path)
    assert journal.read_text().splitlines(keepends=True) == lines
    assert read(tmp_path) == AuditLog(4)
    (tmp_path / LOG).write_text("".join(lines[:2]))
    (said,) = read(tmp_path).broken
    third = json.loads(lines[2])
    assert said == f"2 lines are in the journal alone, the first: deploy at {third['at']} by {third['who']}"
    (tmp_path / LOG).unlink()
    assert "4 lines are in the journal alone" in read(tmp_path).broken[0]


def test_a_host_without_a_journal_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet")
    written(tmp_path, 1)
    assert "gpu-01: no journal or syslog takes the audit line: it is in audit.jsonl alone" in caplog.text


def test_with_a_journal_nothing_is_said(tmp_path: Path, journal: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet")
    written(tmp_path, 1)
    assert not caplog.text


def test_a_host_without_a_log_has_nothing_to_find(tmp_path: Path) -> None:
    assert read(tmp_path) == AuditLog(0)
    assert not list(audit_log(facts()))
    (finding,) = audit_log(facts(audit_log=Unknown("permission denied")))
    assert "cannot be read: permission denied" in finding.found
