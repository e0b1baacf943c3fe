"""Tasks of `fab` in the test's own process, with an inventory of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from invoke.exceptions import Exit

Fab = Callable[..., tuple[int, str, str]]


def task_runner(inventory: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Fab:
    """Runs a task with this inventory, which is written to the folder: exit code, output, messages."""
    path = folder / "hosts.yaml"
    path.write_text(inventory)

    def run(task: Any, **options: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        code, message = 0, ""
        try:
            task.body(None, inventory=str(path), **options)
        except Exit as end:
            code, message = end.code, end.message or ""
        said = capsys.readouterr()
        return code, said.out, f"{said.err}{message}"

    return run
