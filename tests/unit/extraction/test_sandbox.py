"""Sandbox: limits of the child process and its failures."""

from __future__ import annotations

import io
import logging
import os
import shlex
import sys
from pathlib import Path

import docx
import pdfs
import psutil
import pytest

from voxyard.extraction.errors import ReaderUnavailableError, UnreadableFileError
from voxyard.extraction.extract import extract
from voxyard.extraction.sandbox import ExtractionLimits, read_in_child

LINE = "It was late and so the night went on until the first light came over the hills."


def read(data: bytes, limits: ExtractionLimits) -> str:
    return extract(data, "story.pdf", None, max_characters=10_000_000, limits=limits).text


def test_reading_that_takes_too_long_is_ended_and_no_process_is_left() -> None:
    long = pdfs.written([[LINE] * 50] * 1500)
    with pytest.raises(UnreadableFileError, match=r"story\.pdf: reading takes longer than the limit of 1 s.*split it"):
        read(long, ExtractionLimits(seconds=1))
    assert [child for child in psutil.Process().children() if "voxyard.extraction.child" in child.cmdline()] == []


def test_reading_that_only_waits_is_ended_and_no_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pypdfium2.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UnreadableFileError, match="longer than the limit of 1 s"):
        read(pdfs.written([[LINE]]), ExtractionLimits(seconds=1))
    assert [child for child in psutil.Process().children() if "voxyard.extraction.child" in child.cmdline()] == []


@pytest.mark.slow
def test_a_child_that_starts_slowly_gets_the_whole_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nsleep 1\nexec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    pages = pdfs.written([[LINE] * 30] * 100)
    assert len(pages) > 200_000  # no pipe holds that much
    assert read(pages, ExtractionLimits(seconds=60)).count("late") == 3000


@pytest.mark.slow
def test_reading_that_takes_too_much_memory_is_ended() -> None:
    limits = ExtractionLimits(memory_mib=160)
    much = pdfs.document([b" " * 70_000_000 + pdfs.page_content([LINE])], packed=True)
    with pytest.raises(UnreadableFileError, match=r"more than the limit of 160 MiB of memory.*split it"):
        read(much, limits)
    assert read(pdfs.written([[LINE]]), limits) == LINE


def test_a_crash_of_the_child_is_an_unreadable_document_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho 'Traceback' >&2\necho 'KeyError: 17' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with caplog.at_level(logging.WARNING), pytest.raises(UnreadableFileError, match=r"broken.*KeyError: 17"):
        read(pdfs.written([[LINE]]), ExtractionLimits())
    assert "Traceback" in caplog.text


def test_a_reader_that_does_not_start_is_the_services_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/none/such/python")
    with pytest.raises(ReaderUnavailableError, match="did not start"):
        read(pdfs.written([[LINE]]), ExtractionLimits())


def test_a_missing_library_is_the_services_own_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pypdfium2.py").write_text("print('{}')\nraise ImportError('no pdfium here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ReaderUnavailableError, match=r"no pdfium here; install voxyard\[service\]"):
        read(pdfs.written([[LINE]]), ExtractionLimits())


def test_the_current_folder_lends_the_reader_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pypdfium2.py").write_text("raise ImportError('not that one')\n")
    monkeypatch.chdir(tmp_path)
    assert read(pdfs.written([[LINE]]), ExtractionLimits()) == LINE


@pytest.mark.slow
def test_long_documents_are_read_within_the_limits() -> None:
    pages = [[LINE.replace("night", f"night {page}")] * 45 for page in range(300)]
    assert read(pdfs.written(pages), ExtractionLimits()).count("It was late") == 300 * 45
    document = docx.Document()
    for number in range(2000):
        document.add_paragraph(f"{number} " + LINE * 10)
    content = io.BytesIO()
    document.save(content)
    found = read_in_child("docx", content.getvalue(), max_characters=10_000_000)
    assert found.text.count("\n\n") == 1999
