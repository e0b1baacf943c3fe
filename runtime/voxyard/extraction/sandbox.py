"""PDF and DOCX are read in a child process with a limit of time and memory: a file may be made to cost both."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Literal

from voxyard.extraction.errors import (
    ExtractionError,
    ReaderBusyError,
    ReaderUnavailableError,
    TextTooLongError,
    UnreadableFileError,
    UnsupportedFileError,
)

_log = logging.getLogger(__name__)

AT_A_TIME = 2
"""Documents that are read at a time: each may take a core and `Limits.memory_mib`."""

_WAIT_SECONDS = 60.0
_free = threading.BoundedSemaphore(AT_A_TIME)
_ERRORS: dict[str, type[ExtractionError]] = {
    error.__name__: error
    for error in (TextTooLongError, ReaderUnavailableError, UnreadableFileError, UnsupportedFileError)
}


@dataclass(frozen=True)
class Limits:
    """Limits for reading one document: wall-clock (and processor) seconds, MiB of address space."""

    seconds: int = 120
    memory_mib: int = 1536


DEFAULT_LIMITS = Limits()


def read_in_child(
    kind: Literal["pdf", "docx"], data: bytes, *, max_characters: int, limits: Limits = DEFAULT_LIMITS
) -> tuple[str | None, str]:
    """The title in a document's properties, if any, and its text, read in a child process.

    Raises:
        UnreadableFileError: broken, encrypted, without text, or it takes more than the limits.
        UnsupportedFileError: it is no document of this kind.
        TextTooLongError: its text has far more than `max_characters`.
        ReaderBusyError: other documents are being read and take long.
        ReaderUnavailableError: a library is missing.
    """
    if not _free.acquire(timeout=_WAIT_SECONDS):
        raise ReaderBusyError(
            f"{AT_A_TIME} other documents are being read, which takes long: try it again later",
            retry_after=_WAIT_SECONDS,
        )
    try:
        return _read(kind, data, max_characters, limits)
    finally:
        _free.release()


def _read(kind: str, data: bytes, max_characters: int, limits: Limits) -> tuple[str | None, str]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "voxyard.extraction.child",
        kind,
        str(max_characters),
        str(limits.seconds),
        str(limits.memory_mib),
    ]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=limits.seconds, check=False)
    except subprocess.TimeoutExpired as error:  # it has been killed
        raise _too_slow(limits) from error
    except OSError as error:
        raise ReaderUnavailableError(f"the program that reads documents did not start: {error}") from error
    if done.returncode == -signal.SIGXCPU:
        raise _too_slow(limits)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
        _log.warning("a %s could not be read: %s", kind, "\n".join(lines[-30:]))
        raise UnreadableFileError(
            f"its {kind.upper()} structure is broken, reading it ended with: {lines[-1][:200]};"
            " open it in the program that made it, save it again and send that"
        )
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise _ERRORS[answer["error"]](answer["message"])
    return answer["title"], answer["text"]


def _too_slow(limits: Limits) -> UnreadableFileError:
    return UnreadableFileError(
        f"reading it takes longer than {limits.seconds} s, the most that a document may take:"
        " split it, or save its text as TXT and send that"
    )
