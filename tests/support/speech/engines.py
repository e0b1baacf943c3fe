"""Engines that a pool can be tried with: they speak tones in no time, and misbehave where they are told to.

Faults are given by their stage ("create", "prepare", "speak", "between", "close") and happen a number of times in all,
whatever the process: `marks` is a directory in which each time leaves a file.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from voxyard.speech.engine import Answer, ChunkSource, EngineLostError, Ready
from voxyard.speech.requests import SAMPLE_RATE, Cancelled, Request, Result, Unspeakable


def tones(settings: Mapping[str, Any]) -> TonesEngine:
    """The factory that a pool names."""
    engine = TonesEngine(settings)
    engine.fault("create")
    return engine


def broken(settings: Mapping[str, Any]) -> TonesEngine:
    """A factory that never makes an engine."""
    raise ValueError("there are no weights here")


class TonesEngine:
    """Its sound depends on text, seed and chunk number only."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._rows = int(settings.get("rows", 4))
        self._meant_rows = int(settings.get("meant_rows", 0))  # that there would be with more memory
        self._seconds = float(settings.get("seconds", 0.0))  # that as many chunks as there are rows take
        self._pause = settings.get("pause")  # it asks for so many seconds, and reports nothing while it speaks
        self._held = settings.get("held")  # chunks that it speaks before `marks` holds "on"
        self._opening = float(settings.get("opening", 0.0))
        self._samples = int(settings.get("samples", 240))  # a character of the text
        self._espeak = bool(settings.get("espeak"))  # English in place of noise
        self._poison = set(settings.get("poison", ()))  # chunks that it refuses
        self._deranging = set(settings.get("deranging", ()))  # chunks that make it raise
        self._deadly = set(settings.get("deadly", ()))  # chunks that end the process
        self._fits = settings.get("fits")  # more rows than these are out of memory
        self._faults: Mapping[str, Sequence[Any]] = settings.get("faults", {})  # stage → [what, how often]
        self._heard = settings.get("heard")  # faults of its own check, in each second chunk
        self._marks = Path(settings["marks"]) if "marks" in settings else None
        self._spoken = 0
        self._refused = [settings[name] for name in ("unread", "refused") if name in settings]  # words
        self._unspeakable = settings.get("unspeakable")  # a word that it refuses until `marks` holds "cured"

    def prepare(self) -> Ready:
        time.sleep(self._opening)
        self.fault("prepare")
        return Ready(self._rows, meant_rows=self._meant_rows, facts={"gpus": os.environ.get("CUDA_VISIBLE_DEVICES")})

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        running: deque[Request] = deque()
        begun = False
        while True:
            fresh = source.take(self._rows - len(running), wait=not running)
            if fresh:
                self.fault("speak")
            running += fresh
            if not running:
                return
            if self._fits is not None and self._rows > self._fits:
                raise MemoryError(f"no room for {self._rows} rows")
            if begun:
                self.fault("between")
            begun = True
            cancelled = self._spend(self._seconds / self._rows, source)
            for request in cancelled:
                running.remove(request)
                yield request, Cancelled()
            if cancelled:
                continue
            request = running.popleft()
            if request.chunk in self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if word := next((each for each in self._refused if each in request.text), None):
                yield request, Unspeakable(f"found {word!r}, expected a word of mine", refused=True)
                continue
            if request.chunk in self._poison or self._cannot_say(request.text):
                missing = "" if self._unspeakable is None else f": {self._marks}/cured is missing"
                yield request, Unspeakable(f"voice {request.voice!r} cannot say chunk {request.chunk}{missing}")
                continue
            if request.chunk in self._deranging:
                raise ValueError(f"chunk {request.chunk} upsets the engine")
            facts: dict[str, object] = {
                "pid": os.getpid(),
                "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
                "batch_size": self._rows,
            }
            facts |= {} if self._heard is None else {"faults": self._heard if request.chunk % 2 else ()}
            audio = speech(request) if self._espeak else sound(request, self._samples)
            self._spoken += 1
            yield request, Result(request.chunk, audio, facts=facts)

    def shrink(self, rows: int) -> None:
        self._rows = rows

    def close(self) -> None:
        self.fault("close")

    def _spend(self, seconds: float, source: ChunkSource) -> Sequence[Request]:
        """Take so long, reporting progress or in a pause that was asked for; less where chunks are cancelled: these.

        Longer where it is held.
        """
        if self._pause is not None:
            source.progress(float(self._pause))
            time.sleep(seconds)
            return ()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 or self._is_held():
            source.progress()
            if cancelled := source.cancelled():
                return cancelled
            time.sleep(min(max(left, 0.02), 0.1))
        return ()

    def _is_held(self) -> bool:
        if self._held is None or self._spoken < self._held:
            return False
        return self._marks is None or not (self._marks / "on").exists()

    def _cannot_say(self, text: str) -> bool:
        cured = self._marks is not None and (self._marks / "cured").exists()
        return self._unspeakable is not None and self._unspeakable in text and not cured

    def fault(self, stage: str) -> None:
        """Do what is planned for this stage, unless it has been done often enough."""
        if stage not in self._faults or self._marks is None:
            return
        what, times = self._faults[stage]
        if not any(_mark(self._marks / f"{stage}-{number}") for number in range(times)):
            return
        match what:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill soon":  # most likely while it writes its results
                threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGKILL)).start()
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "hang":
                time.sleep(3600)
            case "memory":
                raise MemoryError("the device is full")
            case "cuda":
                raise RuntimeError("CUDA error: device-side assert triggered")
            case "lost":
                raise EngineLostError("the model's server is gone")
            case _:
                raise RuntimeError(f"fault {what!r} in {stage}")


def sound(request: Request, samples: int = 240) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Audio of the engine: noise that follows from the request alone."""
    voice = () if request.voice_file is None else tuple(request.voice_file)
    generator = np.random.default_rng((request.seed, request.chunk, request.attempt, *voice))
    return generator.uniform(-0.5, 0.5, samples * len(request.text)).astype(np.float32)


def speech(request: Request) -> np.ndarray[Any, np.dtype[np.float32]]:
    """espeak-ng's English; the seed chooses how fast it speaks."""
    import soxr

    from voxyard.corpus import espeak

    samples, rate = espeak.speak(request.text, words_per_minute=140 + 10 * (request.seed % 5))
    return np.asarray(soxr.resample((samples / 32768).astype(np.float32), rate, SAMPLE_RATE), np.float32)


def _mark(path: Path) -> bool:
    """True where this is the first to come here."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
