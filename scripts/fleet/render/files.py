"""Rendered files on disk; a list beside them names those that the next rendering may remove."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleet.errors import FleetError

LIST = ".rendered"


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files below `folder`, each whole; files of an earlier rendering that are not among them are removed.

    Other files, such as checkpoints, stay. Raises FleetError where the directory cannot be written, or has a file of
    somebody else under a rendered name.
    """
    listed = folder / LIST
    try:
        earlier = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
        for name, content in files.items():
            path = folder / name
            if name not in earlier and path.exists() and path.read_bytes() != content:
                raise FleetError(f"{path}: exists, and fab render did not write it: move it, or name another --out")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.unfinished")
            unfinished.write_bytes(content)
            unfinished.replace(path)
        for name in set(earlier) - files.keys():
            if not Path(name).is_absolute() and ".." not in Path(name).parts:
                (folder / name).unlink(missing_ok=True)
        listed.write_text("".join(f"{name}\n" for name in sorted(files)), encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{folder}: cannot be written: {error}; name another directory with --out") from None
