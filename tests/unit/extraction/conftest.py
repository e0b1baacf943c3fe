"""Documents are read without a process of their own, except in slow tests and where that process is what is tested."""

from __future__ import annotations

import io
import threading

import pytest

from voxyard.extraction import extract
from voxyard.extraction.child import read_document
from voxyard.extraction.document import CodeBlocks, ParsedDocument
from voxyard.extraction.sandbox import ExtractionLimits

_IN_CHILD = ("test_sandbox.py", "test_hostile_files.py")


@pytest.fixture(autouse=True)
def _in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(
        kind: str,
        data: bytes,
        *,
        max_characters: int,
        code: CodeBlocks,
        limits: ExtractionLimits,
        cancelled: threading.Event | None,
    ) -> ParsedDocument:
        return read_document(kind, io.BytesIO(data), code, max_characters)

    if request.path.name not in _IN_CHILD and request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(extract, "read_in_child", read)
