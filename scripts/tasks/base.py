"""Shared parts of all tasks: host selection, output, errors, exit codes."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from types import FrameType
from typing import NoReturn

from invoke.exceptions import Exit
from invoke.parser.parser import ParseMachine

from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.inventory.hosts import Host, Inventory, load
from fleet.inventory.types import unknown_home
from fleet.release.compose import SITE
from fleet.rollout.context import Cancellation
from fleet.runs.config import read_file

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "deploy/hosts.yaml"
COMPOSE = ROOT / "deploy/compose"
IMAGES_CACHE = Path(
    os.environ.get("VOXYARD_IMAGES_CACHE", ROOT / "build/images-cache")
)  # as large as all images together
CHECK_FAILED = 1
WRONG_USE = 2

HELP = {
    "host": "only this host; repeat the option or separate names with commas",
    "group": "only the hosts of this group of the inventory, and those of --host; repeatable, as --host",
    "inventory": "inventory file, a program that prints it, or - [default: deploy/hosts.yaml]",
    "json": "print the result as JSON",
}


_MISSING = re.compile(r"'(?P<task>[\w-]+)' did not receive required positional arguments: (?P<names>.+)")
_EXAMPLES = {"host": "gpu-01", "run": "RUN", "out": "DIR"}
_MAKE_TASKS = ("drain", "logs", "unlock")  # tasks of the Makefile that need a host


def _wrong_use(_: ParseMachine, message: str) -> NoReturn:
    found = _MISSING.fullmatch(message)
    if found is not None:
        message = missing_options(found["task"], re.findall(r"[\w-]+", found["names"]))
    raise Exit(message, code=WRONG_USE)


def missing_options(task: str, names: Sequence[str]) -> str:
    """Message for required options that were left out, with a complete command for `make` where it has the task."""
    missing = " and ".join(f"--{name}" for name in names)
    example = f"{fab()} {task} {' '.join(f'--{name} {_EXAMPLES.get(name, name.upper())}' for name in names)}"
    if task in _MAKE_TASKS and "host" in names:
        example = f"make {task} HOST={_EXAMPLES['host']}, or {example}"
        missing = missing.replace("--host", "HOST (--host)")
    return f"{missing} {'is' if len(names) == 1 else 'are'} missing; for example: {example}"


def _see_value(machine: ParseMachine, value: str) -> None:
    if not value and machine.flag is not None:
        machine.error(f"--{machine.flag.name} is empty: give it a value, or leave it out")
    _TAKE_VALUE(machine, value)


# invoke exits with 1 for an unknown option; here 1 means that a host failed. An empty value is one that was not given.
ParseMachine.error = _wrong_use
_TAKE_VALUE = ParseMachine.see_value
ParseMachine.see_value = _see_value


def load_inventory(inventory: str) -> Inventory:
    """Load the inventory; the default file for an empty path. Raises FleetError."""
    return load(absolute_path(inventory) or INVENTORY)


def select_hosts(inventory: str, names: Sequence[str] | None, groups: Sequence[str] | None = None) -> tuple[Host, ...]:
    """Hosts of these names and groups, all hosts without either. Raises FleetError."""
    return selected(load_inventory(inventory), names, groups)


def selected(fleet: Inventory, names: Sequence[str] | None, groups: Sequence[str] | None) -> tuple[Host, ...]:
    """Hosts of the options --host and --group, all hosts without either. Raises FleetError for an empty option."""
    for option, given in (("host", names), ("group", groups)):
        if given and not split_names(given):
            raise FleetError(f"--{option} {' '.join(given)!r} has no name: leave it out to select all hosts")
    return fleet.select(split_names(names), split_names(groups))


def split_names(names: Sequence[str] | None) -> list[str]:
    """Host names from repeated or comma-separated options."""
    return [name.strip() for text in names or () for name in text.split(",") if name.strip()]


def absolute_path(text: str) -> Path | None:
    """Absolute path of an option; None where it is empty. Raises FleetError for the home of an unknown user."""
    try:
        return Path(text).expanduser().absolute() if text else None
    except RuntimeError:
        raise FleetError(unknown_home(text)) from None


def one_host(inventory: str, host: str) -> Host:
    """The only host of this name. Raises FleetError for none or several names."""
    if len(split_names([host])) != 1:
        raise FleetError(f"found {host!r} as host, expected the name of one host")
    (found,) = select_hosts(inventory, [host])
    return found


def override_files(paths: Sequence[str] | None) -> tuple[tuple[str, bytes], ...]:
    """Names and contents of the operator's compose files, in merge order. Raises FleetError."""
    return tuple(
        (f"{SITE}{number}-{Path(each).name}", read_file(absolute_path(each)))
        for number, each in enumerate(paths or (), 1)
    )


def print_json(document: object) -> None:
    """Print the result as JSON on standard output."""
    print(dumps(document, indent=2))


def say(text: str) -> None:
    """Print a progress message on standard error."""
    print(f"→ {text}", file=sys.stderr)


def fail(text: str) -> NoReturn:
    """End the task with exit code 1: a check or a host failed."""
    raise Exit(text, code=CHECK_FAILED)


def exit_with(*, good: bool) -> None:
    """End the task with exit code 1 unless the result is good."""
    if not good:
        raise Exit(code=CHECK_FAILED)


@contextmanager
def graceful_stop(cancellation: Cancellation) -> Iterator[None]:
    """Graceful stop on SIGINT, SIGTERM or SIGHUP: the second signal skips the rollback, the third stops at once."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def ask(number: int, _: FrameType | None) -> None:
        if cancellation.requested_twice:
            raise KeyboardInterrupt
        how = "leaving hosts as they are; a third signal stops at once"
        if not cancellation.asked:
            how = "a host that is being changed is rolled back; a second signal leaves it as it is"
        say(f"{signal.Signals(number).name}: stopping after the current steps; {how}")
        cancellation.ask()

    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turns a FleetError into a message on standard error and an exit code; configures logging."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("fleet").setLevel(logging.INFO)
    try:
        yield
    except FleetError as error:
        raise Exit(str(error), code=error.exit_code) from error
