"""Pages of PDFs after public reports about their readers: what is heard of each."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pdfs
import pytest
import yaml

from voxyard.extraction.pdf import read_pdf

CASES: dict[str, dict[str, Any]] = yaml.load(
    Path(__file__).with_name("reported_pages.yaml").read_bytes(), yaml.CSafeLoader
)


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_heard_as_it_is_seen(name: str) -> None:
    case = CASES[name]
    found = read_pdf(io.BytesIO(pdfs.document([page.encode() for page in case["pages"]])), max_characters=100_000)
    assert found.text.split("\n\n") == case["heard"]
