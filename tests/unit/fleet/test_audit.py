"""Audit log: each line is in the file and in the journal, whoever writes beside it and whatever was cut off."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from local_session import LocalSession

from fleet.audit import TAG, AuditEntry, record

LOG = ".voxyard/audit.jsonl"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File that systemd-cat appends to, on a host that is a directory."""
    programs, lines = tmp_path / "bin", tmp_path / "journal"
    programs.mkdir()
    lines.touch()
    (programs / "systemd-cat").write_text(f'#!/bin/sh\n[ "$*" = "-t {TAG}" ] && cat >> {lines}\n')
    (programs / "systemd-cat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return lines


def written(home: Path, count: int = 4) -> list[str]:
    """Lines of a log to which `count` actions were added."""
    session = LocalSession(home)
    for number in range(count):
        note = f'{number}: it\'s "100 %" of $HOME, \\n ☃'
        record(session, "gpu-01", AuditEntry("deploy", "a", "b", "ok", note))
    return (home / LOG).read_text().splitlines(keepends=True)


def test_a_write_that_was_cut_off_stays_a_line_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, 2)
    with (tmp_path / LOG).open("a") as file:
        file.write('{"at": "2026-01-05')
    assert json.loads(written(tmp_path, 1)[3])["note"] == '0: it\'s "100 %" of $HOME, \\n ☃'


def test_of_several_writers_each_has_its_lines(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: written(tmp_path, 3), range(4)))
    assert [json.loads(line)["what"] for line in (tmp_path / LOG).read_text().splitlines()] == ["deploy"] * 12


def test_the_journal_has_each_line(tmp_path: Path, journal: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet")
    lines = written(tmp_path)
    assert journal.read_text().splitlines(keepends=True) == lines
    assert not caplog.text


def test_a_host_without_a_journal_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fleet")
    written(tmp_path, 1)
    assert "gpu-01: no journal or syslog takes the audit line: it is in audit.jsonl alone" in caplog.text
