"""Aligner in a process of its own, which a service can wait for, and end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from voxyard.host.child_process import ChildError, ChildProcess, LateChildError
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
        self._process: ChildProcess | None = None
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
        with self._lock:
            if self._closed:
                raise SpeechError("the aligner is closed")
            try:
                self._process = process = ChildProcess("voxyard.speech.alignment.process", self._factory)
            except ChildError as error:
                raise SpeechError(f"the aligner: {error}") from error
        said = self._receive(process, _START_SECONDS)
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
        process = self._process
        if process is None:
            raise SpeechError("the aligner is closed")
        asked = {"sample_rate": sample_rate, "words": list(words), "language": language}
        said = self._receive(process, self._answer_seconds, asked, audio.astype("float32").tobytes())
        if "times" not in said:
            raise SpeechError(said["reason"])
        return [None if each is None else (float(each[0]), float(each[1])) for each in said["times"]]

    def end(self) -> None:
        """Ends the process, whatever it does; a later call may start another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def close(self) -> None:
        """Ends it for good. A call that waits for an answer raises SpeechError."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()  # its pipe ends, and with it the call that waits, which does the rest

    def _receive(self, process: ChildProcess, seconds: float, *asked: Any) -> dict[str, Any]:
        """The next message, of a question where one is given. Raises SpeechError where none comes; it is ended then."""
        try:
            if asked:
                process.send(*asked)
            return process.receive(seconds)
        except LateChildError:
            reason = f"the aligner took more than {seconds:g} s"
        except ChildError:
            reason = "the aligner ended"
        self.end()
        _log.warning("%s", reason)
        raise SpeechError(reason)
