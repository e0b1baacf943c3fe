"""Aligner in a process of its own, which a service can wait for, and end."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from voxyard.speech.alignment.aligner import WordSpan
from voxyard.speech.errors import SpeechError

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

_log = logging.getLogger(__name__)

MOST_SECONDS, MOST_WORDS, MOST_LETTERS = 120.0, 600, 10_000
"""Most of one sound that is aligned; no engine speaks chunks so long."""
ANSWER_SECONDS = 60.0
"""Time that an aligner may take for a sound."""
_START_SECONDS = 120.0


class AlignerProcess:
    """One process at a time, started where there is none. `align` may be called from one thread, `close` from any."""

    def __init__(self, factory: str, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.languages: frozenset[str] | None = frozenset()
        self._factory, self._answer_seconds = factory, answer_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id; None where there is none."""
        return None if self._process is None else self._process.pid

    def open(self) -> None:
        """Starts the process, and waits until the aligner is loaded. Raises SpeechError where it cannot be."""
        if self._process is not None:
            return
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "voxyard.speech.alignment.process", self._factory, str(theirs.fileno())]
        with theirs, self._lock:
            if self._closed:
                ours.close()
                raise SpeechError("the aligner is closed")
            self._connection = Connection(ours.detach())
            try:
                self._process = subprocess.Popen(
                    command,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)},
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__ and sys.__stderr__.fileno(),
                )
            except OSError as error:
                self._connection.close()
                self._connection = None
                raise SpeechError(f"the aligner did not start: {error}") from error
        said = self._receive(_START_SECONDS)
        if "error" in said:
            self.end()
            raise SpeechError(said["error"])
        self.languages = None if said["languages"] is None else frozenset(said["languages"])

    def align(self, audio: Audio, sample_rate: int, words: Sequence[str], language: str) -> list[WordSpan | None]:
        """As `Aligner.align`.

        Raises:
            SpeechError: they do not fit, are too long, or the process ended or took too long: the next call starts
                another.
        """
        if len(audio) > MOST_SECONDS * sample_rate:
            raise SpeechError(f"it is longer than {MOST_SECONDS:g} s")
        if len(words) > MOST_WORDS or sum(map(len, words)) > MOST_LETTERS:
            raise SpeechError(f"it has more than {MOST_WORDS} words, or {MOST_LETTERS:,} letters")
        self.open()
        asked = {"sample_rate": sample_rate, "words": list(words), "language": language}
        try:
            if self._connection is None:
                raise EOFError
            self._connection.send_bytes(json.dumps(asked).encode())
            self._connection.send_bytes(audio.astype("float32").tobytes())
        except (OSError, EOFError):
            self.end()
            raise SpeechError("the aligner ended") from None
        said = self._receive(self._answer_seconds)
        if "times" not in said:
            raise SpeechError(said["reason"])
        return [None if each is None else (float(each[0]), float(each[1])) for each in said["times"]]

    def end(self) -> None:
        """Ends the process, whatever it does; a later call may start another."""
        with self._lock:
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Ends it for good. A call that waits for an answer raises SpeechError."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()  # its pipe ends, and with it the call that waits, which does the rest

    def _receive(self, seconds: float) -> dict[str, Any]:
        """The next message. Raises SpeechError where none comes; then the process is ended."""
        reason = f"the aligner took more than {seconds:g} s"
        try:
            if self._connection is not None and self._connection.poll(seconds):
                found: dict[str, Any] = json.loads(self._connection.recv_bytes())
                return found
        except (OSError, EOFError):
            reason = "the aligner ended"
        self.end()
        _log.warning("%s", reason)
        raise SpeechError(reason)
