"""`voxyard …` in the process of the test."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from voxyard import cli


@dataclass
class Ended:
    """Exit of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    """Runs `voxyard …`, with no VOXYARD_ variables around."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch
        for name in [name for name in os.environ if name.startswith("VOXYARD_")]:
            monkeypatch.delenv(name)

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended:
        self.monkeypatch.setattr(sys, "argv", ["voxyard", *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as caught:
            cli.main()
        printed = self.capsys.readouterr()
        return Ended(int(caught.value.code or 0), printed.out, printed.err)
