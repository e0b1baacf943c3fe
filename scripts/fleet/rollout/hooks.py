"""Hooks of a rollout: the operator's own commands before and after a host is taken out of work."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.rollout_settings import HookCommand, HookSettings
from fleet.rollout.context import Outcome, RolloutCancelledError, RolloutContext

log = logging.getLogger("fleet")

POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_COMMAND_LENGTH = 120
_OUTPUT_BYTES = 4096
_OUTPUT_LINES = 10


def check_programs(hooks: HookSettings) -> None:
    """Raises FleetError where the program of a hook cannot be run on this machine."""
    for stage, command in _commands(hooks):
        if shutil.which(command[0]) is None:
            raise FleetError(
                f"rollout.hooks.{stage}: {command[0]} is no program of this machine: install it, make it executable, "
                "or correct the inventory"
            )


@dataclass(slots=True)
class HostHooks:
    """Hooks of one change of one host; `after` does nothing unless `before` was called."""

    host: str
    task: str  # deploy, rollback, drain
    release: str
    context: RolloutContext
    begun: bool = False

    def before(self) -> None:
        """Run the commands before the host is taken out of work.

        Raises HostFailedError at the first that fails, RolloutCancelledError after a Ctrl-C.
        """
        self.begun = True
        for command in self.context.hooks.before:
            self.context.cancellation.check()
            self._run("before", command, "")

    def after(self, outcome: Outcome) -> Outcome:
        """Run all commands after the host was out of work; the outcome names those that failed."""
        if not self.begun:
            return outcome
        failures = []
        for command in self.context.hooks.after:
            try:
                self._run("after", command, outcome.result)
            except FleetError as error:
                failures.append(str(error))
        if not failures:
            return outcome
        if outcome.result != "drained":
            failures.append("the host may still be out of work: put it back by hand")
        said = "\n".join(failures)
        return replace(outcome, note="\n".join(filter(None, [outcome.note, said])), hook_failure=said)

    @contextlib.contextmanager
    def unexpected(self) -> Iterator[None]:
        """Block whose unexpected end, an error of this program, runs the commands after it, too."""
        try:
            yield
        except BaseException:
            self.after(Outcome(self.host, "failed"))
            raise

    def _run(self, stage: str, command: HookCommand, result: str) -> None:
        name = f"{self.host}: the {stage} hook `{_shown(command)}`"
        log.info("%s: %s hook: %s", self.host, stage, _shown(command))
        hooks = self.context.hooks
        to_its_end = stage == "after" and self.context.cancellation.requested_twice  # before it runs
        with tempfile.TemporaryFile() as output:  # a pipe would wait for programs that the hook leaves running
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=hooks.folder,
                    env={**os.environ, **self._variables(stage, result)},
                    start_new_session=True,  # Ctrl-C is for this program, which decides
                )  # fmt: skip
            except OSError as error:
                raise HostFailedError(f"{name} could not be started: {error.strerror}") from error
            try:
                ended = self._wait(process, stage, to_its_end=to_its_end)
            except RolloutCancelledError:
                raise RolloutCancelledError(f"cancelled by Ctrl-C in {name.removeprefix(f'{self.host}: ')}") from None
            finally:
                _end(process)
            if not ended:
                raise HostFailedError(f"{name} did not end within {hooks.seconds} s{_said(output)}")
            if process.returncode:
                raise HostFailedError(f"{name} failed: {_reason(process.returncode)}{_said(output)}")

    def _variables(self, stage: str, result: str) -> Mapping[str, str]:
        return {
            "VOXYARD_HOOK": stage,
            "VOXYARD_HOOK_TASK": self.task,
            "VOXYARD_HOOK_HOST": self.host,
            "VOXYARD_HOOK_ADDRESS": self.context.addresses.get(self.host, ""),
            "VOXYARD_HOOK_RELEASE": self.release,
            "VOXYARD_HOOK_RESULT": result,
        }

    def _wait(self, process: subprocess.Popen[bytes], stage: str, *, to_its_end: bool) -> bool:
        """True when it has ended within its time limit. Raises RolloutCancelledError.

        The first Ctrl-C ends a command before the change; the second also one after it, if it comes while that runs.
        """
        cancellation = self.context.cancellation
        end = time.monotonic() + self.context.hooks.seconds
        while time.monotonic() < end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
                return True
            if not to_its_end:
                cancellation.check(rolling_back=stage == "after")
        return False


def _commands(hooks: HookSettings) -> Iterator[tuple[str, HookCommand]]:
    yield from (("before", command) for command in hooks.before)
    yield from (("after", command) for command in hooks.after)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that still runs, with all programs that it has started."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _shown(command: HookCommand) -> str:
    """Command for messages, on one line, shortened."""
    text = " ".join(shlex.join(command).split())
    return text if len(text) <= _COMMAND_LENGTH else f"{text[: _COMMAND_LENGTH - 1]}…"


def _reason(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"


def _said(output: IO[bytes]) -> str:
    """Last lines of the output of a hook, for a message."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _OUTPUT_BYTES))
    text = output.read().decode(errors="replace")
    lines = ["".join(mark for mark in line if mark.isprintable()) for line in text.strip().splitlines()]
    return f". Its last lines:\n{chr(10).join(lines[-_OUTPUT_LINES:])}" if lines else ""
