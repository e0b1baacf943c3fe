"""Settings from all their sources: flag > environment > file > host plan > default, each with its origin."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from voxyard.settings import yaml_file
from voxyard.settings.aliases import Alias, rename
from voxyard.settings.errors import SettingsError
from voxyard.settings.fields import GROUPS, PREFIX, Section, Setting, section_type, settings_of, variable_of
from voxyard.settings.values import from_file, from_text, path_of
from voxyard.settings.yaml_file import FileEntry, SectionHead
from voxyard.settings.yaml_reader import FileNote

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
HOST_PLAN_VARIABLE = f"{PREFIX}HOST_PLAN"

M = TypeVar("M", bound=Section)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[M]):
    """The settings in force.

    `origins` says for each key where its value came from (`--batch-size`, `VOXYARD_TRAIN_SEED`, `train.yaml:12`,
    `host plan plan.yaml:3`, `default`); `notes` are lines that the user should see.
    """

    config: M
    origins: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Source:
    """Settings from one source: values by key with their origins, and the problems found in it."""

    values: dict[str, tuple[Any, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load(
    model: type[M],
    *,
    flags: Mapping[str, object] | None = None,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    host_plan: Path | None = None,
    aliases: Iterable[Alias] = (),
) -> Loaded[M]:
    """Read the settings of `model`.

    `flags` holds what the user gave on the command line by canonical key (`training.batch_size`); `environ`
    is os.environ unless given; `host_plan` is the file named by VOXYARD_HOST_PLAN unless given. An empty
    variable counts as not set. Values of every source are checked, also those that another source overrides;
    only of the host's plan, which is written for every program on the host, other sections are passed over.
    Raises SettingsError with all problems of all sources.
    """
    environ = os.environ if environ is None else environ
    if host_plan is None and environ.get(HOST_PLAN_VARIABLE):
        host_plan = path_of(environ[HOST_PLAN_VARIABLE])
    known = {each.key: each for each in settings_of(model)}
    aliases = tuple(aliases)
    sources = [
        _from_file(host_plan, known, aliases, plan=True) if host_plan else _Source(),
        _from_file(file, known, aliases) if file else _Source(),
        _from_environment(environ, known),
        _from_flags(flags or {}, known),
    ]
    problems = [problem for source in sources for problem in source.problems]
    if problems:
        raise SettingsError(problems)
    given = {key: pair for source in sources for key, pair in source.values.items()}
    origins = {key: given[key][1] if key in given else "default" for key in known}
    config = _build(model, {key: value for key, (value, _) in given.items()}, origins)
    return Loaded(config, origins, tuple(note for source in sources for note in source.notes))


def _from_flags(flags: Mapping[str, object], known: Mapping[str, Setting]) -> _Source:
    source = _Source()
    for key, value in flags.items():
        setting = known[key]
        flag = setting.off_flag if setting.is_switch and value is False else setting.flag
        _take(source, setting, value, flag)
    return source


def _from_environment(environ: Mapping[str, str], known: Mapping[str, Setting]) -> _Source:
    source = _Source()
    variables, shared = {each.variable: each for each in known.values()}, (CONFIG_VARIABLE, HOST_PLAN_VARIABLE)
    for name, text in sorted(environ.items()):
        if name in variables:
            if text:
                _take(source, variables[name], text, name)
        elif name.startswith(PREFIX) and name not in shared:
            if meant := _meant(name, variables):
                source.notes.append(f"{name} is no setting and has no effect: did you mean {meant}?")
            elif name.startswith(_group_prefixes(variables)):
                source.notes.append(f"{name} is no setting and has no effect: --help lists the settings")
    return source


def _group_prefixes(variables: Mapping[str, Setting]) -> tuple[str, ...]:
    return tuple({f"{PREFIX}{setting.group}_" for setting in variables.values() if setting.group})


def _meant(name: str, variables: Mapping[str, Setting]) -> str | None:
    """The variable that an unknown one may stand for: its group left out or given twice, or misspelt.

    None for a variable of another group.
    """
    for variable, setting in variables.items():
        if name in (variable_of("", setting.flag), setting.group_and_flag):
            return variable
    others = {f"{PREFIX}{group}_" for group in GROUPS} - set(_group_prefixes(variables))
    if name.startswith(tuple(others)):
        return None
    near = difflib.get_close_matches(name, [*variables, CONFIG_VARIABLE, HOST_PLAN_VARIABLE], 1, cutoff=0.85)
    return near[0] if near else None


def _from_file(path: Path, known: Mapping[str, Setting], aliases: tuple[Alias, ...], *, plan: bool = False) -> _Source:
    prefix = "host plan " if plan else ""
    try:
        file = yaml_file.read(path)
    except SettingsError as error:
        named = "VOXYARD_HOST_PLAN, or --plan of the exporter" if plan else "--config, or VOXYARD_CONFIG"
        advice = f"{named}: expected a YAML file of settings; correct the path, or leave it out"
        found = [f"{prefix}{each}" for each in error.problems]
        return _Source(problems=found if _is_file(path) else [f"{each} ({advice})" for each in found])
    if plan:
        file = file.only({each.section for each in known.values()})
    renamed = rename(file, aliases)
    problems = [*file.problems, *renamed.problems, *_unknown_names(file.sections, renamed.entries, known)]
    values: dict[str, tuple[Any, str]] = {}
    for entry in renamed.entries:
        setting = known.get(entry.key)
        if setting is None:
            continue
        try:
            values[setting.key] = from_file(setting, entry.value), f"{prefix}{path}:{entry.line}"
        except SettingsError as error:
            problems.append(FileNote(entry.line, f"{entry.old_key or entry.key}: {error}"))
    told = [
        [f"{prefix}{path}:{each.line}: {each.text}" for each in sorted(remarks, key=lambda remark: remark.line)]
        for remarks in (problems, renamed.notes)
    ]
    return _Source(values, *told)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _take(source: _Source, setting: Setting, value: object, origin: str) -> None:
    try:
        source.values[setting.key] = from_text(setting, value), origin
    except SettingsError as error:
        source.problems.append(f"{origin}: {error}")


def _unknown_names(
    heads: Iterable[SectionHead], entries: Iterable[FileEntry], known: Mapping[str, Setting]
) -> Iterator[FileNote]:
    sections = list(dict.fromkeys(each.section for each in known.values()))
    for head in heads:
        if head.name not in sections:
            yield FileNote(head.line, _unknown_section(head.name, sections, known))
        elif head.misshapen:
            yield FileNote(head.line, f"section {head.name}: expected keys below it, found {head.misshapen}")
    for entry in entries:
        if entry.section in sections and entry.key not in known:
            yield FileNote(entry.line, _unknown_key(entry.section, entry.name, known))


def _unknown_section(section: str, sections: list[str], known: Mapping[str, Setting]) -> str:
    elsewhere = [each.key for each in known.values() if each.name == section]
    if elsewhere:
        return f"{section} stands outside a section: it belongs to `{elsewhere[0].partition('.')[0]}:`"
    near = difflib.get_close_matches(section, sections, 1)
    return f"unknown section {_shown(section)}: " + (
        f"did you mean {near[0]}?" if near else f"expected {', '.join(sections)}"
    )


def _unknown_key(section: str, name: str, known: Mapping[str, Setting]) -> str:
    key = _shown(f"{section}.{name}")
    elsewhere = [each.key for each in known.values() if each.name == name]
    here = [each.name for each in known.values() if each.section == section]
    near = elsewhere or [f"{section}.{match}" for match in difflib.get_close_matches(name, here, 1)]
    near = near or difflib.get_close_matches(f"{section}.{name}", list(known), 1, cutoff=0.7)
    return f"unknown key {key}: " + (f"did you mean {near[0]}?" if near else f"{section} has {', '.join(here)}")


def _shown(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= 80 else f"{ascii(name)[:77]}…"


def _build(model: type[M], values: Mapping[str, Any], origins: Mapping[str, str]) -> M:
    """The model from checked values; what its own validators refuse becomes a SettingsError."""
    sections: dict[str, Section] = {}
    problems: list[str] = []
    for name in model.model_fields:
        own = {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")}
        try:
            sections[name] = section_type(model, name)(**own)
        except ValidationError as error:
            problems += [_refusal(each, name, origins) for each in error.errors(include_url=False)]
    if problems:
        raise SettingsError(problems)
    try:
        return model(**sections)
    except ValidationError as error:
        raise SettingsError([_refusal(each, "", origins) for each in error.errors(include_url=False)]) from None


def _refusal(error: Any, section: str, origins: Mapping[str, str]) -> str:
    cause = error.get("ctx", {}).get("error")
    message = str(cause) if isinstance(cause, Exception) else str(error["msg"])
    place = ".".join(str(part) for part in (section, *error["loc"]) if part != "")
    named = [
        f"{key} from {origin}" for key, origin in origins.items() if origin != "default" and _mentions(message, key)
    ]
    return f"{place}: {message}" + (f" ({'; '.join(named)})" if named else "")


def _mentions(message: str, key: str) -> bool:
    name = key.partition(".")[2]
    return key in message or name in message or name.replace("_", " ") in message
