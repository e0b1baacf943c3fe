"""Command that is being carried out, as words to type again with other settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from voxyard.settings.flags import SettingOption


@dataclass(frozen=True)
class TypedCommand:
    """A command as it was typed, its settings left out."""

    words: tuple[str, ...]  # `voxyard profile`
    own: tuple[str, ...]  # options that are no settings, as they were given
    settings: frozenset[str]  # keys that the command has a flag for


def typed_command() -> TypedCommand | None:
    """The voxyard command that this thread carries out; None outside of one, as in a program that calls the library.

    `--config` is left out: what the file holds is in the settings.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name is None:
        return None
    taken = frozenset(each.setting.key for each in context.command.params if isinstance(each, SettingOption))
    if not taken:
        return None
    return TypedCommand(("voxyard", *_below_root(context)), tuple(_own(context)), taken)


def _below_root(context: click.Context) -> list[str]:
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, context.info_name or "")
        context = context.parent
    return names or [context.command.name or ""]


def _own(context: click.Context) -> Iterator[str]:
    for each in context.command.params:
        if isinstance(each, SettingOption) or not isinstance(each, click.Option) or each.name in (None, "config"):
            continue
        if context.get_parameter_source(each.name) is not ParameterSource.COMMANDLINE:
            continue
        value: Any = context.params.get(each.name)
        flag = max(each.opts, key=len)
        yield from (flag,) if each.is_flag else (flag, str(value))
