"""Damaged files: whatever is wrong with a file of any type, it is read or refused in words."""

from __future__ import annotations

import io
import random
import re
import zipfile
from pathlib import Path

import pdfs
import pytest
import yaml
from written_files import data_of

from voxyard.extraction.child import read_document
from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import extract

CASES = yaml.load(Path(__file__).with_name("reported_files.yaml").read_bytes(), yaml.CSafeLoader).values()
FILES = [(each["kind"], data_of(each)) for each in CASES]
FILES += [("pdf", pdfs.written([["Chapter One", "It was late.1"], ["So it went on.", "1 The note."]], title="Late"))]
KINDS = sorted({kind for kind, _ in FILES})
TOKEN = re.compile(rb'<[^<>]{0,300}>|"[^"]{0,200}"|\d+|\\[a-z]+-?\d*|[A-Za-z_]+|[^A-Za-z0-9_]')
VALUE = re.compile(rb'\d+|(?<=")[^"]*(?=")')
OTHERS = [
    b"",
    b"0",
    b"-1",
    b"1.5",
    b"65536",
    b"99999999999999999999",
    b"1e999",
    b"abc",
    b"%",
    b"IX",
    b"0x10",
    b"\xc3\xa9",
]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut, exchanged or lost at random, or their tags, words and values."""
    if chance.random() < 0.3:
        found, at = bytearray(data), chance.randrange(len(data) + 1)
        found[at : at + chance.choice((0, 1, 1, 8, 1000))] = chance.randbytes(chance.choice((0, 1, 4)))
        return bytes(found if chance.random() < 0.9 else found[:at])
    tokens = TOKEN.findall(data) or [b""]
    for _ in range(chance.choice((1, 2, 6))):
        at, change = chance.randrange(len(tokens)), chance.randrange(4)
        if change == 0:
            tokens[at] = VALUE.sub(lambda _: chance.choice(OTHERS), tokens[at])
        elif change == 1:
            tokens[at] = chance.choice(tokens)
        else:
            tokens[at : at + chance.choice((0, 1, 3))] = tokens[at : at + 9] * chance.choice((0, 1, 20))
            tokens = tokens or [b""]
    return b"".join(tokens)


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
                found = extract(io.BytesIO(data), "book.txt", None, max_characters=100_000).text
            else:
                found = read_document(kind, io.BytesIO(data), "skip", 100_000).text
        except (ExtractionError, MemoryError, RecursionError) as error:  # the last two as the child process tells them
            assert "object" not in str(error), error  # Python's words
        else:
            found.encode()  # no half of a pair of UTF-16
