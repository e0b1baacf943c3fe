"""Pages of a file that lie in memory, as the kernel counts them."""

from __future__ import annotations

import os
from pathlib import Path

from voxyard.host.page_cache import _PAGE, _resident


def cached_pages(path: Path) -> tuple[int, int]:
    """Pages of a file that lie in memory, and all of them. Raises OSError where the kernel does not report them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pages = -(-os.fstat(descriptor).st_size // _PAGE)
        return _resident(descriptor, [(0, pages)]), pages
    finally:
        os.close(descriptor)
