"""Diff between the current and the planned release of a host."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from fleet.release.manifest import MANIFEST_FILE, Manifest


def file_diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Lines of a unified diff of the files, without the manifest."""
    names = [name for name in dict.fromkeys([*after, *before]) if name != MANIFEST_FILE]
    return tuple(line for name in names for line in _one(name, before.get(name), after.get(name)))


def limit_changes(before: Manifest | None, after: Manifest) -> tuple[str, ...]:
    """Changes of GPU memory limits, one line each."""
    old, new = _limits(before), _limits(after)
    return tuple(
        f"{service}: limit on {gpu}: {_mib(old.get((service, gpu)))} → {_mib(new.get((service, gpu)))}"
        for service, gpu in dict.fromkeys([*new, *old])
        if old.get((service, gpu)) != new.get((service, gpu))
    )


def _one(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    if before == after:
        return
    try:
        old, new = (_lines(content) for content in (before, after))
    except UnicodeDecodeError:
        yield f"{name}: binary files differ"
        return
    ends = ("/dev/null" if before is None else f"a/{name}", "/dev/null" if after is None else f"b/{name}")
    yield from difflib.unified_diff(old, new, *ends, lineterm="", n=2)


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode().splitlines()


def _limits(found: Manifest | None) -> dict[tuple[str, str], int]:
    services = () if found is None else found.services
    return {(each.name, gpu): mib for each in services for gpu, mib in each.gpu_limits.items()}


def _mib(limit: int | None) -> str:
    return "none" if limit is None else f"{limit} MiB"
