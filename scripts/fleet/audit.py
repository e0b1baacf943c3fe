"""Audit log: one JSON line per action, with author and outcome, in a file on the host."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from fleet.errors import HostFailedError
from fleet.facts.fact import Fact
from fleet.lock import operator
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Session

CHANGES = ("deploy", "rollback", "unlock")
"""Actions that decide which release stands on a host."""
_LONGEST_NOTE = 500  # characters: a line is one atomic write


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action. `before` and `after` are release ids, empty for none; no field holds a secret."""

    what: str  # "deploy", "rollback", "drain", "unlock", "train", …
    before: str
    after: str
    result: str  # "ok", or the failure in a few words
    note: str = ""


def record(session: Session, host: str, entry: AuditEntry) -> None:
    """Append the entry to the host's audit.jsonl, with the host's time. Raises HostFailedError."""
    command = append_command(host, operator(), entry)
    answer = session.run([command])[command.name]
    if not answer.ok:
        raise HostFailedError(f"{host} could not write its audit log: {answer.message}")


def _last_change(text: str) -> AuditEntry | None:
    if not text.strip():
        return None
    found = json.loads(text.strip().splitlines()[-1])
    return AuditEntry(*(str(found[key]) for key in ("what", "from", "to", "result", "note")))


LAST_CHANGE: Fact[AuditEntry | None] = Fact(
    "last-change",
    f'grep -sE \'"what": "({"|".join(CHANGES)})"\' "$HOME/.voxyard/audit.jsonl" | tail -n 1',
    _last_change,
)


def append_command(host: str, who: str, entry: AuditEntry) -> Command:
    """Command that appends one line of JSON."""
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
    lines = [
        "set -eu",
        "umask 077",
        'mkdir -p "$HOME/.voxyard"',
        'cd "$HOME/.voxyard"',
        f'printf \'{{"at": "%s", %s\\n\' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" {shlex.quote(end)} >> audit.jsonl',
    ]
    return Command("audit", "\n".join(lines))
