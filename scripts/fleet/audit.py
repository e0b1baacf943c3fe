"""Audit log: one JSON line per action, with author and outcome, in a file on the host and in its journal.

Each line has the SHA-256 of the line before it: `fab check` finds lines that were changed or removed; the last ones by
the journal.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.facts.fact import Fact
from fleet.lock import operator
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

CHANGES = ("deploy", "rollback", "unlock")
"""Actions that decide which release stands on a host."""
TAG = "voxyard-audit"
"""Identifier of the lines in the journal."""
_LONGEST_NOTE = 500  # characters
_LONGEST_LINE = 8192  # bytes
_COMPARED = 1000  # newest lines of the journal
_NO_JOURNAL = "no journal"
_HASH = '"previous": "'


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action. `before` and `after` are release ids, empty for none; no field holds a secret."""

    what: str  # "deploy", "rollback", "drain", "unlock", "train", …
    before: str
    after: str
    result: str  # "ok", or the failure in a few words
    note: str = ""


def record(session: Session, host: str, entry: AuditEntry) -> None:
    """Append the entry to the host's audit.jsonl and its journal, with the host's time. Raises HostFailedError."""
    command = append_command(host, operator(), entry)
    answer = must(session, host, "write its audit log", command)
    if answer.out.strip() == _NO_JOURNAL:
        log.info("%s: no journal or syslog takes the audit line: it is in audit.jsonl alone", host)


def _last_change(text: str) -> AuditEntry | None:
    if not text.strip():
        return None
    found = json.loads(text.strip().splitlines()[-1])
    return AuditEntry(*(str(found[key]) for key in ("what", "from", "to", "result", "note")))


LAST_CHANGE: Fact[AuditEntry | None] = Fact(
    "last-change",
    verb("audit_last", "|".join(CHANGES)),
    _last_change,
)


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Audit log of a host: number of lines, and what was removed or changed, as text."""

    lines: int
    broken: tuple[str, ...] = ()


def _audit_log(text: str) -> AuditLog:
    journal, file = (base64.b64decode(each) for each in text.split("\n")[:2])
    lines = file.splitlines(keepends=True)
    return AuditLog(len(lines), (*_breaks(lines), *_missing(journal.splitlines(), file.splitlines())))


def _breaks(lines: Sequence[bytes]) -> Iterator[str]:
    """The first line that does not follow from those before it."""
    mark = _HASH.encode()
    for number, line in enumerate(lines):
        if not line.rstrip().endswith(b"}"):
            continue  # a write that was cut off
        expected = hashlib.sha256(lines[number - 1].rstrip(b"\n")).hexdigest().encode() if number else b""
        if line.partition(mark)[2].partition(b'"')[0] != expected:
            yield f"line {number + 1} does not follow from what is before it: a line was removed, changed or inserted"
            return


def _missing(journal: Sequence[bytes], lines: Sequence[bytes]) -> Iterator[str]:
    """Lines of the journal that the file lacks."""
    there = set(lines)
    missing = [line for line in journal if line not in there]
    if missing:
        yield f"{len(missing)} lines are in the journal alone, the first: {_title(missing[0])}"


def _title(line: bytes) -> str:
    """Time, action and author of a line; its beginning where it is none."""
    try:
        found = json.loads(line)
        return f"{found['what']} at {found['at']} by {found['who']}"
    except (ValueError, LookupError, TypeError):
        return line.decode(errors="replace")[:100]


AUDIT_LOG: Fact[AuditLog] = Fact(
    "audit-log",
    verb("audit_show", TAG, str(_COMPARED)),
    _audit_log,
)


def append_command(host: str, who: str, entry: AuditEntry) -> Command:
    """Command that appends one line of JSON with the hash of those before it; prints where no journal took it."""
    note = " ".join(entry.note.split())
    rest = {
        "who": who,
        "what": entry.what,
        "host": host,
        "from": entry.before,
        "to": entry.after,
        "result": entry.result,
        "note": note if len(note) <= _LONGEST_NOTE else f"{note[: _LONGEST_NOTE - 1]}…",
    }
    end = json.dumps(rest, ensure_ascii=False).removeprefix("{")
    return Command("audit", verb("audit_append", TAG, str(_LONGEST_LINE), end))
