"""Small files after public reports about readers of books and documents: what is heard of each, and its chapters."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from written_files import data_of

from voxyard.extraction.child import read_document
from voxyard.extraction.document import ParsedDocument
from voxyard.extraction.extract import ExtractedText, extract

CASES: dict[str, dict[str, Any]] = yaml.load(
    Path(__file__).with_name("reported_files.yaml").read_bytes(), yaml.CSafeLoader
)


def read(case: dict[str, Any]) -> ExtractedText | ParsedDocument:
    """What is read of a case, without a process of its own."""
    kind, data = case["kind"], data_of(case)
    if kind == "txt":
        return extract(data, case.get("name", "book.txt"), None, max_characters=100_000)
    return read_document(kind, io.BytesIO(data), "skip", 100_000)


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_heard_as_a_listener_expects(name: str) -> None:
    case = CASES[name]
    found = read(case)
    assert found.text.split("\n\n") == case["heard"]
    if "chapters" in case:
        assert [chapter.title for chapter in found.chapters] == case["chapters"]
    for name in ("title", "author"):
        if name in case:
            assert getattr(found, name) == case[name]
    for chapter in found.chapters:
        assert 0 <= chapter.start < len(found.text)
