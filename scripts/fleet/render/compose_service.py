"""Service of a release's compose file, with its variables substituted: source of a container elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleet.errors import FleetError
from fleet.release.compose import parse

_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Z_][A-Z0-9_]*)(?::([-?])([^}]*))?\})")


def service_of(content: bytes, name: str, service: str, variables: Mapping[str, str]) -> Mapping[str, Any]:
    """Entry of `service` in the compose file `name`. Raises FleetError for a variable without a value."""
    found = parse(content, name).get("services", {}).get(service)
    if not isinstance(found, dict):
        raise FleetError(f"{name}: no service {service}")
    return {key: _substituted(each, variables, name) for key, each in found.items()}


def seconds(text: str) -> int:
    """Seconds of a duration such as 90s or 30m."""
    found = re.fullmatch(r"([0-9]+)([smh])", str(text))
    if found is None:
        raise FleetError(f"found {text!r} in a compose file, expected a duration such as 90s")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def quantity(text: str) -> str:
    """Kubernetes' quantity of a size such as 512m, 8g, or a number of bytes."""
    found = re.fullmatch(r"([0-9]+)([kmg]?)b?", str(text).lower())
    if found is None:
        raise FleetError(f"found {text!r} in a compose file, expected a size such as 512m")
    return f"{found[1]}{found[2].capitalize()}i" if found[2] else found[1]


def _substituted(value: object, variables: Mapping[str, str], name: str) -> object:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, variables, name), value)
    if isinstance(value, dict):
        return {key: _substituted(each, variables, name) for key, each in value.items()}
    return [_substituted(each, variables, name) for each in value] if isinstance(value, list) else value


def _value(found: re.Match[str], variables: Mapping[str, str], name: str) -> str:
    escaped, variable, sign, alternative = found.groups()
    if escaped:
        return "$"
    if variables.get(variable):
        return variables[variable]
    if sign == "-":
        return str(alternative)
    raise FleetError(f"{name}: {variable} has no value in the release")
