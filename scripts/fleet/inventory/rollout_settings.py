"""Settings of a rollout: how many hosts may fail, commands around it; and how many sick GPUs may go out of work."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, PlainValidator, ValidationInfo

from fleet.inventory.types import Between, Seconds, expected, list_of, path, refusal, text

HOOK_SECONDS = 60
MIN_HEALTHY_SECONDS = 30

HookCommand = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MaxFailed:
    """Number of hosts that may fail, or of GPUs that may go: a count, or a share of all in percent."""

    count: int = 0
    percent: float | None = None

    def of(self, hosts: int) -> int:
        """Allowed failures of a rollout to so many hosts; a share is rounded down."""
        return self.count if self.percent is None else int(hosts * self.percent / 100)


def _max_failed(value: object, what: str = "hosts") -> MaxFailed:
    if isinstance(value, str) and (share := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%", value)):
        percent = float(share[1])
        if percent <= 100:
            return MaxFailed(percent=percent)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return MaxFailed(value)
    raise expected(f"a number of {what} from 0 to 1000, or a share such as 10%", value)


def _most_sick(value: object) -> MaxFailed:
    return _max_failed(value, "GPUs")


def _command(value: object, info: ValidationInfo[Path]) -> HookCommand:
    """Command whose program, where it is a path, is absolute."""
    form = "a command as a list of arguments, such as [/usr/local/bin/pool, remove]"
    if not isinstance(value, list):
        raise expected(form, value)
    for argument in value:
        if not isinstance(argument, str):
            raise expected(form, argument, " as an argument: put it in quotes")
        if "\0" in argument:
            raise refusal("an argument has a NUL character, which no command can be given")
    if not value:
        raise refusal(f"expected {form}, found an empty list")
    program = text(value[0])
    return (str(path(program, info)) if "/" in program or program.startswith("~") else program, *value[1:])


def _folder(_: object, info: ValidationInfo[Path]) -> Path:
    return info.context.absolute()


Commands = Annotated[tuple[Annotated[HookCommand, PlainValidator(_command)], ...], list_of("commands", repeats=True)]
Folder = Annotated[Path, PlainValidator(_folder), Field(validate_default=True)]


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Commands on the operator's machine before and after a host is taken out of work, as argument lists."""

    before: Commands = ()
    after: Commands = ()
    seconds: Seconds = HOOK_SECONDS  # time limit of one command
    folder: Folder = field(default_factory=Path)  # working directory: that of the inventory


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """Settings of all rollouts of a fleet."""

    batch: Annotated[int, Between("a number of hosts", 1, 1000)] = 4  # in parallel, after the canaries
    min_healthy_seconds: Seconds = MIN_HEALTHY_SECONDS  # without a restart
    max_failed: Annotated[MaxFailed, PlainValidator(_max_failed)] = MaxFailed()
    hooks: HookSettings = field(default_factory=HookSettings)


@dataclass(frozen=True, slots=True)
class SickGpus:
    """How many GPUs of the fleet go out of work without asking where they are sick."""

    most: Annotated[MaxFailed, PlainValidator(_most_sick)] = MaxFailed(percent=25)  # a share is 1 at least
