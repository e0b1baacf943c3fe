"""Damaged files: whatever is wrong with a file of any type, it is read or refused in words."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import pdfs
import pytest
import yaml
from damage import damaged
from written_files import data_of

from voxyard.extraction.child import read_document
from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import extract

CASES = yaml.load(Path(__file__).with_name("reported_files.yaml").read_bytes(), yaml.CSafeLoader).values()
FILES = [(each["kind"], data_of(each)) for each in CASES]
FILES += [("pdf", pdfs.written([["Chapter One", "It was late.1"], ["So it went on.", "1 The note."]], title="Late"))]
KINDS = sorted({kind for kind, _ in FILES})


def damaged_archive(data: bytes, chance: random.Random) -> bytes:
    """A ZIP with one of its files damaged or lost, or the bytes of the archive itself."""
    if chance.random() < 0.3:
        return damaged(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([name for name in files if files[name]])
    files[name] = damaged(files[name], chance) if chance.random() < 0.9 else b""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize("number", [10, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_in_words(kind: str, number: int) -> None:
    chance = random.Random(f"{kind} {number}")
    files = [data for each, data in FILES if each == kind]
    for _ in range(number):
        data = chance.choice(files)
        data = (damaged_archive if zipfile.is_zipfile(io.BytesIO(data)) else damaged)(data, chance)
        try:
            if kind == "txt":
                found = extract(data, "book.txt", None, max_characters=100_000).text
            else:
                found = read_document(kind, io.BytesIO(data), "skip", 100_000).text
        except (ExtractionError, MemoryError, RecursionError) as error:  # the last two as the child process tells them
            assert "object" not in str(error), error  # Python's words
        else:
            found.encode()  # no half of a pair of UTF-16
