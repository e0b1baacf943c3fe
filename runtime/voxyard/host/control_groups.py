"""The control groups (cgroups) of this process: folders whose files tell the limits that hold for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def control_groups(controller: str, root: Path = Path("/")) -> Iterator[Path]:
    """Folders of the control groups of this process that may limit `controller`, each with those above it.

    A container sees its own as the root, unless it shares the host's namespace: then its path is its own folder.
    `root` stands in for / in tests.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in ["0::/", *lines]:
        _, controllers, path = line.split(":", 2)
        mounted = root / "sys/fs/cgroup"
        if controllers:
            if controller not in controllers.split(","):
                continue
            mounted /= controllers
        group = mounted / path.lstrip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(mounted))
