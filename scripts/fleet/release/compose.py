"""Compose files of a host: source files, entries of generated ones, and the parts that affect one service."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.inventory.hosts import Host

CPU_FILE = "cpu.yaml"  # after those of the services: no GPU is reserved
SITE = "site-"
"""Prefix of the operator's own compose files in a release."""
_NAMED = ("networks", "volumes", "secrets", "configs")
_VARIABLE = re.compile(r"\$(?:\$|\{?([A-Za-z_][A-Za-z0-9_]*))")


def sources(folder: Path, host: Host, names: Iterable[str]) -> dict[str, Path]:
    """Local compose files of these names, then those that the inventory adds, in merge order: name → path.

    Raises FleetError for a missing file.
    """
    found = {name: folder / name for name in names}
    found |= {f"{SITE}{number}-{path.name}": path for number, path in enumerate(host.compose_overrides, 1)}
    return {name: required(path, host) for name, path in found.items()}


def required(path: Path, host: Host) -> Path:
    """The path of a compose file. Raises FleetError where it is missing."""
    if not path.is_file():
        raise FleetError(f"{path}: no such compose file, required for {host.name}")
    return path


def gpu_request(gpus: Sequence[str]) -> dict[str, Any]:
    """Entry of a service that reserves these GPUs, by UUID: a variable cannot hold a list."""
    devices = [{"driver": "nvidia", "device_ids": list(gpus), "capabilities": ["gpu", "compute", "utility"]}]
    return {"deploy": {"resources": {"reservations": {"devices": devices}}}}


def mount(source: str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    """Bind mount; Compose makes no directory where the source is missing."""
    mount = {"type": "bind", "source": source, "target": target, "bind": {"create_host_path": False}}
    return {**mount, "read_only": True} if read_only else mount


def to_bytes(document: Mapping[str, Any], what: str) -> bytes:
    """Generated compose file as YAML; `what` is its heading."""
    return f"# {what}; written by fab deploy.\n{yaml.safe_dump(dict(document), sort_keys=False)}".encode()


@lru_cache(maxsize=64)
def parse(content: bytes, name: str) -> Mapping[str, Any]:
    """Parse a compose file, once for all services that it is asked about; tags such as `!reset` are kept.

    Raises FleetError with the line.
    """
    try:
        document = yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join((error.problem or "not readable").split())
        raise FleetError(f"{name}:{mark.line + 1 if mark else 1}: not YAML: {said}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FleetError(f"{name}: not readable as YAML: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not isinstance(document.get("services", {}), dict | None):
        raise FleetError(f"{name}: expected a compose file, with services as a mapping")
    return document


def refuse_strangers(theirs: Mapping[str, bytes], ours: Mapping[str, bytes], host: Host) -> None:
    """Raises FleetError for an entry of the operator's files that is of no service of `ours` and brings no image."""
    known = {service for name, body in ours.items() for service in parse(body, name).get("services") or {}}
    for name, body in theirs.items():
        for service, entry in (parse(body, name).get("services") or {}).items():
            given = set(entry) if isinstance(entry, Mapping) else set()
            if service not in known and not given & {"image", "build", "extends", "!reset"} and service[:1] != "!":
                raise FleetError(
                    f"{name.split('-', 2)[2]}: services.{service}: {host.name} has no such service, and the entry no "
                    f"image: expected one of {', '.join(sorted(known))}"
                )


def parts_for(document: Mapping[str, Any], service: str) -> Mapping[str, Any]:
    """Parts of one file that affect a service: its entry, and the objects that it names.

    A file that includes others affects every service: their content is not visible here.
    """
    own = (document.get("services") or {}).get(service)
    if "include" in document or (isinstance(own, dict) and "extends" in own):
        return document
    if own is None and not _default_network(document):
        return {}
    words = set(texts(own))
    found: dict[str, Any] = {} if own is None else {"service": own}
    for kind in _NAMED:
        entries = document.get(kind)
        if isinstance(entries, dict):
            used = {name: entry for name, entry in entries.items() if name in words or _volume_named(name, words)}
            found |= {kind: used} if used else {}
    if _default_network(document):
        found["default"] = document["networks"]["default"]
    return found


def variables(document: Any) -> set[str]:
    """Variables that a document interpolates."""
    return {found[1] for text in texts(document) for found in _VARIABLE.finditer(text) if found[1]}


def texts(document: Any) -> Iterator[str]:
    """All strings in a document, including keys."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key)
            yield from texts(value)
    elif isinstance(document, list | tuple):
        for each in document:
            yield from texts(each)


def mounted_files(document: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Files of the release that a document mounts."""
    said = {text.removeprefix("./").partition(":")[0] for text in texts(document)}
    return tuple(name for name in names if name in said)


def _default_network(document: Mapping[str, Any]) -> bool:
    networks = document.get("networks")
    return isinstance(networks, dict) and "default" in networks


def _volume_named(name: str, words: set[str]) -> bool:
    return any(word.startswith(f"{name}:") for word in words)


class _Loader(yaml.SafeLoader):
    """YAML loader that accepts every tag, and no alias within its own anchor."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent) and node is not None and node.end_mark is None:
            raise yaml.composer.ComposerError(None, None, "an alias stands within its own anchor", node.start_mark)
        return node


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.MappingNode):
        value: Any = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = node.value
    return {f"!{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)
