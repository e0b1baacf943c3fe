"""Audit log: one JSON line per action, with author and outcome, in a file on the host and in its journal."""

from __future__ import annotations

import json
import logging
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
_NO_JOURNAL = "no journal"


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


def append_command(host: str, who: str, entry: AuditEntry) -> Command:
    """Command that appends one line of JSON; prints where no journal took it."""
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
