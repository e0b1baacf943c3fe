"""Settings on a command line: a click option for each, shown by section in --help."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from voxyard.settings.fields import PREFIX, Section, Setting, settings_of


class SettingOption(click.Option):
    """A flag made from a setting; it hands the user's text on unread, for `load` to judge like any source."""

    def __init__(self, setting: Setting) -> None:
        switch = setting.is_switch
        names = f"{setting.flag}/{setting.off_flag}" if switch else setting.flag
        super().__init__(
            [_parameter(setting), names],
            default=None,
            is_flag=switch,
            type=click.BOOL if switch else click.STRING,
            metavar=None if switch else _metavar(setting),
            help=_help(setting),
            expose_value=True,
        )
        self.setting = setting


class SettingsCommand(click.Command):
    """A command whose --help lists the settings under the sections of the YAML file."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups: the command's own, then one for each section."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or isinstance(parameter, click.Argument):  # the command's sentences say what these are
                continue
            title = _title(parameter.setting) if isinstance(parameter, SettingOption) else "Options"
            groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def options(
    model: type[Section], *, only: Collection[str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a click command's function with a flag for each setting of `model` (or for `only` some).

    `only` names sections and keys. The function gets the argument `flags`: the values that the user gave, as
    texts or booleans, by canonical key; it is what `load(model, flags=flags, …)` takes.
    """
    settings = [each for each in settings_of(model) if only is None or {each.section, each.key} & set(only)]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**arguments: Any) -> Any:
            given = {each.key: arguments.pop(_parameter(each)) for each in settings}
            flags = {key: value for key, value in given.items() if value is not None}
            return function(flags=flags, **arguments)

        inherited: list[click.Option] = list(getattr(function, "__click_params__", []))
        made: list[click.Option] = [SettingOption(each) for each in reversed(settings)]
        command.__click_params__ = [*made, *inherited]  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(setting: Setting) -> str:
    return f"{setting.section}__{setting.name}"


def _title(setting: Setting) -> str:
    prefix = f", environment variables {PREFIX}{setting.group}_…" if setting.group else ""
    return f"Section `{setting.section}`{prefix}"


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join((*setting.choices, *(["N"] if int in setting.kinds else [])))
    if setting.unit:
        return {"seconds": "SECONDS", "MiB": "MIB", "Hz": "HZ", "dB": "DB"}.get(setting.unit, "N")
    if int in setting.kinds and str in setting.kinds:
        return "ID"
    if Path in setting.kinds:
        return "PATH"
    return {int: "N", float: "X"}.get(setting.kinds[0], "TEXT")


def _help(setting: Setting) -> str:
    facts = [setting.unit] if setting.unit and not setting.is_switch else []
    facts.append(f"default: {setting.default_text}")
    return f"{setting.description}  [{'; '.join(facts)}]"
