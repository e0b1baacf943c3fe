"""YAML file of an operator's names: one name a line, with what it stands for."""

from __future__ import annotations

from pathlib import Path

from voxyard.service.errors import ServiceError

LARGEST_FILE = 1 << 20  # bytes; a table of names has a few kilobytes
_SHOWN = 60  # characters of a name in a message


def read_names(path: Path, what: str, example: str) -> dict[str, str]:
    """Names of a file, each with what it stands for; `what` and an `example` line are for messages.

    Raises:
        ServiceError: the file cannot be read, or is no table of names.
    """
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ServiceError(f"{path}: larger than {LARGEST_FILE >> 20} MiB: expected a YAML file of {what} names")
        table = yaml.safe_load(data)
    except OSError as error:
        raise ServiceError(f"{path}: cannot be read: {error.strerror}; expected a YAML file of names") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ServiceError(f"{path}: invalid YAML: expected lines such as `{example}`") from error
    table = {} if table is None else table
    pairs = table.items() if isinstance(table, dict) else [(table, None)]
    if not all(isinstance(name, str) and name and isinstance(other, str) for name, other in pairs):
        raise ServiceError(f"{path}: expected a name and a {what} on each line, such as `{example}`")
    return dict(table)


def shown(name: str) -> str:
    """A name that a client sent, quoted and of a bounded length, for messages."""
    return repr(name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…")
