"""Shared parts of every task: choice of hosts, output, errors and exit codes."""

from __future__ import annotations

import logging
import os
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

from fleet.errors import FleetError
from fleet.inventory.hosts import Host, Inventory, load
from fleet.rollout.context import Cancellation

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "deploy/hosts.yaml"
COMPOSE = ROOT / "deploy/compose"
IMAGES_CACHE = Path(
    os.environ.get("VOXYARD_IMAGES_CACHE", ROOT / "build/images-cache")
)  # as large as all images together
CHECK_FAILED = 1
WRONG_USE = 2

HELP = {
    "host": "only this host; several times, or several with commas, for several",
    "inventory": "the fleet's file, deploy/hosts.yaml of this repository unless given",
    "json": "print the result as JSON",
}


def _wrong_use(_: ParseMachine, message: str) -> NoReturn:
    raise Exit(message, code=WRONG_USE)


# invoke leaves with 1 for an option that it does not know; here 1 means that a host is not well.
ParseMachine.error = _wrong_use


def load_inventory(inventory: str) -> Inventory:
    """The inventory that is meant. Raises FleetError."""
    return load(absolute_path(inventory) or INVENTORY)


def select_hosts(inventory: str, names: Sequence[str] | None) -> tuple[Host, ...]:
    """The hosts that are meant, all without names. Raises FleetError."""
    return load_inventory(inventory).select(split_names(names))


def split_names(names: Sequence[str] | None) -> list[str]:
    """The names as typed: one by one, or with commas."""
    return [name.strip() for text in names or () for name in text.split(",") if name.strip()]


def absolute_path(text: str) -> Path | None:
    """A path as the operator typed it, absolute; None for none."""
    return Path(text).expanduser().absolute() if text else None


def print_json(document: object) -> None:
    """The result, for programs."""
    print(dumps(document, indent=2))


def say(text: str) -> None:
    """Progress message for the operator."""
    print(f"→ {text}", file=sys.stderr)


def fail(text: str) -> NoReturn:
    """End the task: a check or a host failed."""
    raise Exit(text, code=CHECK_FAILED)


def exit_with(*, good: bool) -> None:
    """End the task as its result says."""
    if not good:
        raise Exit(code=CHECK_FAILED)


@contextmanager
def graceful_stop(cancellation: Cancellation) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or hang-up ends the work in order, the second without going back, the third at once."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def ask(number: int, _: FrameType | None) -> None:
        if cancellation.requested_twice:
            raise KeyboardInterrupt
        how = "leaving the host as it is; once more: at once"
        if not cancellation.asked:
            how = "a host that is being changed goes back to its last good release; once more: it is left as it is"
        say(f"{signal.Signals(number).name}: stopping after the steps that are under way; {how}")
        cancellation.ask()

    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turns an error that an operator or a host can cause into sentences on standard error and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("fleet").setLevel(logging.INFO)
    try:
        yield
    except FleetError as error:
        raise Exit(str(error), code=error.exit_code) from error
