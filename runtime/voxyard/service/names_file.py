"""YAML file of an operator's names: one name a line, with what it stands for."""

from __future__ import annotations

from pathlib import Path

from voxyard.service.errors import ServiceError
from voxyard.settings.errors import SettingsError

_SHOWN = 60  # characters of a name in a message


def read_names(path: Path, what: str, example: str) -> dict[str, str]:
    """Names of a file, each with what it stands for; `what` and an `example` line are for messages.

    Raises:
        ServiceError: the file cannot be read, or is no table of names.
    """
    from voxyard.settings.yaml_reader import read_plain

    try:
        table = read_plain(path)
    except SettingsError as error:
        raise ServiceError(f"{error}; expected a YAML file of {what} names, with lines such as `{example}`") from error
    table = {} if table is None else table
    pairs = table.items() if isinstance(table, dict) else [(table, None)]
    if not all(name and isinstance(other, str) for name, other in pairs):
        raise ServiceError(f"{path}: expected a name and a {what} on each line, such as `{example}`")
    return dict(table)


def shown(name: str) -> str:
    """A name that a client sent, quoted and of a bounded length, for messages."""
    return repr(name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…")
