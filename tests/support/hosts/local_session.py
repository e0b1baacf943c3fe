"""Session on this machine: commands run by the same script as over SSH, without a network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command, script, split


class LocalSession:
    """Session on this machine; `home` is the login's home directory, `variables` are added to the environment."""

    def __init__(self, home: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ) | ({"HOME": str(home)} if home else {}) | dict(variables or {})
        self.asked: list[str] = []

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Run the commands in order."""
        self.asked += [command.text for command in commands]
        text, marker = script(commands)
        done = subprocess.run(["sh", "-c", text], capture_output=True, env=self._environment, check=False)
        return split(done.stdout.decode(), done.stderr.decode(), marker)

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Run a command with standard input."""
        self.asked.append(command.text)
        done = subprocess.run(
            ["sh", "-c", command.shell],
            input=b"".join(data),
            capture_output=True,
            env=self._environment,
            check=False,
        )
        return Answer(done.stdout.decode(), done.stderr.decode(), done.returncode)

    @contextmanager
    def connect(self, host: Host) -> Iterator[LocalSession]:
        """Replacement of `connected`."""
        yield self
