"""Sandbox: reads documents in a child process with limits on time and memory, against malicious files."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Literal

from voxyard.extraction.document import CodeBlocks, ParsedDocument, TextChapter
from voxyard.extraction.errors import (
    ExtractionCancelledError,
    ExtractionError,
    ReaderUnavailableError,
    TextTooLongError,
    UnreadableFileError,
    UnsupportedFileError,
)

_log = logging.getLogger(__name__)

MAX_CONCURRENT = 3
"""Child processes that a service has at a time; each may use one core and `ExtractionLimits.memory_mib`."""

_TICK_SECONDS = 0.2  # between two looks whether it is cancelled
_ABORTS = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL)
_ERRORS: dict[str, type[ExtractionError]] = {
    error.__name__: error
    for error in (TextTooLongError, ReaderUnavailableError, UnreadableFileError, UnsupportedFileError)
}


@dataclass(frozen=True)
class ExtractionLimits:
    """Limits of one child process: seconds of CPU time and of wall-clock time, MiB of address space.

    Crafted files of two million characters that can still be read took up to 20 s of CPU, books some seconds; on a
    busy machine that was several times as long by the clock.
    """

    cpu_seconds: int = 30
    seconds: int = 120
    memory_mib: int = 1536


DEFAULT_LIMITS = ExtractionLimits()


def read_in_child(
    kind: Literal["pdf", "docx", "epub", "html", "markdown", "odt", "rtf", "fb2"],
    data: bytes,
    *,
    max_characters: int,
    code: CodeBlocks = "skip",
    limits: ExtractionLimits = DEFAULT_LIMITS,
    cancelled: threading.Event | None = None,
) -> ParsedDocument:
    """Contents of a document, read in a child process; `code` says whether code blocks are announced.

    Raises:
        UnreadableFileError: broken, encrypted, without text, or over the limits.
        UnsupportedFileError: not a document of this type.
        TextTooLongError: its text has far more than `max_characters`.
        ReaderUnavailableError: a library is missing.
        ExtractionCancelledError: `cancelled` was set; the child was killed.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "voxyard.extraction.child",
        kind,
        code,
        str(max_characters),
        str(limits.cpu_seconds),
        str(limits.memory_mib),
    ]
    try:
        done = _run(command, data, limits.seconds, cancelled or threading.Event())
    except subprocess.TimeoutExpired as error:  # the child was killed
        raise _too_slow(f"{limits.seconds} s") from error
    except OSError as error:
        raise ReaderUnavailableError(f"the document reader did not start: {error}") from error
    if done.returncode == -signal.SIGXCPU:
        raise _too_slow(f"{limits.cpu_seconds} s of CPU time")
    if done.returncode in _ABORTS:  # of pdfium, where it gets no memory
        raise UnreadableFileError(
            f"reading takes more than the limit of {limits.memory_mib} MiB of memory, or its structure is broken:"
            " split it, or save its text as TXT and send that"
        )
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
        _log.warning("a %s could not be read: %s", kind, "\n".join(lines[-30:]))
        raise UnreadableFileError(
            f"broken {kind.upper()} structure, reading failed with: {lines[-1][:200]};"
            " open it in the program that made it, save it again and send that"
        )
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise _ERRORS[answer["error"]](answer["message"])
    return ParsedDocument(
        title=answer["title"],
        text=answer["text"],
        chapters=tuple(TextChapter(**chapter) for chapter in answer["chapters"]),
        language=answer["language"],
        cover=None if answer["cover"] is None else base64.b64decode(answer["cover"]),
        author=answer["author"],
        note=answer["note"],
        languages=tuple((start, language) for start, language in answer["languages"]),
        damage=answer["damage"],
    )


def _run(
    command: list[str], data: bytes, seconds: float, cancelled: threading.Event
) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run`, until it is cancelled; the child is killed then, or after so many seconds.

    The child reads the data from a file in memory: `communicate` sends nothing more once it was called again.
    """
    ends = time.monotonic() + seconds
    with os.fdopen(os.memfd_create("document"), "w+b") as file:
        file.write(data)
        file.seek(0)
        child = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with child:
        try:
            while not cancelled.is_set():
                tick = max(0.0, min(_TICK_SECONDS, ends - time.monotonic()))
                try:
                    output, errors = child.communicate(timeout=tick)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= ends:
                        raise
                else:
                    return subprocess.CompletedProcess(command, child.returncode, output, errors)
        finally:
            child.kill()
    raise ExtractionCancelledError("reading was cancelled")


def _too_slow(limit: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"reading takes longer than the limit of {limit}: split it, or save its text as TXT and send that"
    )
