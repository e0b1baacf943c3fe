"""Folder on a disk, even where temporary files are in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voxyard.host.page_cache import Extent, drop


@contextmanager
def on_disk(folder: Path) -> Iterator[Path]:
    """The folder itself where what is written to it can leave the page cache; else one below /var/tmp."""
    probe = folder / "probe"
    probe.write_bytes(b"a page")
    lies_on_disk = drop([Extent(probe)]).state == "cold"
    probe.unlink()
    if lies_on_disk:
        yield folder
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        yield Path(other)
