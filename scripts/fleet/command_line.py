"""How the user starts `fab`, for messages that say what to type next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def fab() -> str:
    """What to type for the `fab` of this environment in the folder where the user is: `fab`, `.venv/bin/fab`, …."""
    return typed(Path(sys.executable).with_name("fab"), os.environ.get("PATH", os.defpath), Path.cwd())


def typed(program: Path, search: str, folder: Path) -> str:
    """What to type for `program` in `folder` where PATH is `search`; outside the checkout it is told where that is."""
    inside = folder.is_relative_to(CHECKOUT)
    found = shutil.which(program.name, path=search)
    if not program.exists() or (found and Path(found).samefile(program)):
        words = program.name
    else:
        words = shlex.quote(os.path.relpath(program, folder) if inside else str(program))
    return words if inside else f"{words} --search-root {shlex.quote(str(CHECKOUT))}"
