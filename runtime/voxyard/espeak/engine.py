"""espeak-ng behind the engine protocol of `voxyard.speech`: a chunk at a time, on any CPU, faster than real time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from voxyard.corpus import CorpusError, espeak
from voxyard.espeak import voices
from voxyard.speech.engine import Answer, ChunkSource, Ready
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE, Request, Result, Unspeakable

WORDS_PER_MINUTE = 160  # at speed 1
CHUNK_PAUSE = 60.0  # seconds that a chunk may take: the library reports no progress


class EspeakEngine:
    """The pool's engine protocol. The same text sounds the same whatever was spoken before it, and with any seed."""

    def prepare(self) -> Ready:
        """Load the library.

        Raises:
            SpeechError: it is not installed.
        """
        voices.names()
        return Ready(1, SAMPLE_RATE, {"device": "cpu", "batch_size": 1, "sample_rate": SAMPLE_RATE}, 1)

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        """Speak the chunks of the source one by one; one whose voice is not there, or is silent, is unspeakable."""
        while requests := source.take(1, wait=True):
            for request in requests:
                source.progress(CHUNK_PAUSE)
                yield request, _answer(request)
                source.progress()

    def shrink(self, rows: int) -> None:
        """Always raises MemoryError: a batch is one chunk already."""
        raise MemoryError(f"a batch of {rows}: one chunk alone does not fit into the memory of the host")

    def close(self) -> None:
        """Nothing to do: the process ends."""


def _answer(request: Request) -> Result | Unspeakable:
    if not any(map(str.isalnum, request.text)):
        return Result(request.chunk, np.zeros(SAMPLE_RATE // 10, np.float32))  # a line of asterisks is a pause
    if request.voice_file is not None:  # of a document that was submitted to another engine
        return Unspeakable("the voice is an uploaded file, espeak-ng has only voices of its own", refused=True)
    voice = request.voice or voices.default(request.language)
    try:
        voices.check(voice)
        espeak.restart()  # its voice trembles, and goes on trembling where it left off
        sound, rate = espeak.speak(request.text, voice, words_per_minute=round(WORDS_PER_MINUTE * request.speed))
    except (SpeechError, CorpusError) as error:
        return Unspeakable(str(error), refused=True)
    if not sound.any():  # of letters such as those of Cherokee it makes nothing, without an error
        reason = f"the voice {voice} makes no sound of these letters: name a voice of their language, or leave them out"
        return Unspeakable(reason, refused=True)
    import soxr

    audio = soxr.resample(sound.astype(np.float32) / 2**15, rate, SAMPLE_RATE, quality="HQ")
    return Result(request.chunk, np.clip(audio, -1, 1))


def create(_settings: Mapping[str, object]) -> EspeakEngine:
    """Engine factory `voxyard.espeak.engine:create`; there are no settings."""
    return EspeakEngine()
