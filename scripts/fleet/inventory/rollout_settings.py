"""Settings of a rollout: how many hosts may fail, and the commands before and after a host is taken out of work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.inventory import validators
from fleet.inventory.validators import InvalidValueError, Readers
from fleet.inventory.yaml_lines import YamlValue

HOOK_SECONDS = 60
MIN_HEALTHY_SECONDS = 30

HookCommand = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MaxFailed:
    """Number of hosts that may fail before a rollout stops: a count, or a share of its hosts in percent."""

    count: int = 0
    percent: float | None = None

    def of(self, hosts: int) -> int:
        """Allowed failures of a rollout to so many hosts; a share is rounded down."""
        return self.count if self.percent is None else int(hosts * self.percent / 100)


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Commands on the operator's machine before and after a host is taken out of work, as argument lists."""

    before: tuple[HookCommand, ...] = ()
    after: tuple[HookCommand, ...] = ()
    seconds: int = HOOK_SECONDS  # time limit of one command
    folder: Path = field(default_factory=Path)  # working directory: that of the inventory


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """Settings of all rollouts of a fleet."""

    batch: int = 4  # hosts in parallel, after the canaries
    min_healthy_seconds: int = MIN_HEALTHY_SECONDS  # without a restart
    max_failed: MaxFailed = MaxFailed()
    hooks: HookSettings = field(default_factory=HookSettings)


def rollout_settings(given: Mapping[str, object], folder: Path) -> RolloutSettings:
    """Settings from values that `READERS` has read; `folder` is that of the inventory."""
    values = dict(given)
    if isinstance(hooks := given.get("hooks"), dict):
        commands = {
            stage: tuple(_resolved(command, folder) for command in hooks.get(stage, ()))
            for stage in ("before", "after")
        }
        values["hooks"] = HookSettings(**{**hooks, **commands}, folder=folder.absolute())
    return RolloutSettings(**values)  # type: ignore[arg-type]


def _resolved(command: HookCommand, folder: Path) -> HookCommand:
    """Command whose program, where it is a path, is absolute."""
    program = command[0]
    return (str((folder / program).absolute()) if "/" in program else program, *command[1:])


def _max_failed(node: YamlValue) -> MaxFailed:
    value = node.value
    if isinstance(value, str) and (found := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%", value)):
        percent = float(found[1])
        if percent <= 100:
            return MaxFailed(percent=percent)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return MaxFailed(value)
    raise InvalidValueError(
        f"expected a number of hosts from 0 to 1000, or a share such as 10%, found {node.describe()}"
    )


def _commands(node: YamlValue) -> tuple[HookCommand, ...]:
    if not isinstance(node.value, tuple):
        raise InvalidValueError(f"expected a list of commands, found {node.describe()}")
    return tuple(_command(each) for each in node.value)


def _command(node: YamlValue) -> HookCommand:
    expected = "expected a command as a list of arguments, such as [/usr/local/bin/pool, remove]"
    if not isinstance(node.value, tuple):
        raise InvalidValueError(f"{expected}, found {node.describe()}")
    for argument in node.value:
        if not isinstance(argument.value, str):
            raise InvalidValueError(f"{expected}, found {argument.describe()} as an argument: put it in quotes")
    if not node.value:
        raise InvalidValueError(f"{expected}, found an empty list")
    program, *arguments = node.value
    found = validators.text(program)
    if found.startswith("~"):
        found = str(validators.path(program))
    return (found, *(str(each.value) for each in arguments))


READERS: Readers = {
    "batch": validators.integer("a number of hosts", 1, 1000),
    "min_healthy_seconds": validators.integer("seconds", 1, 3600),
    "max_failed": _max_failed,
    "hooks": {
        "before": _commands,
        "after": _commands,
        "seconds": validators.integer("seconds", 1, 3600),
    },
}
