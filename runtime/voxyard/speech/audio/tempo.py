"""Streaming time stretch: speech faster or slower at the same pitch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

SLOWEST, FASTEST = 0.25, 4.0
_BLOCK = 0.02  # seconds of an input block; atempo buffers up to one block
_TAIL = 0.5  # seconds of silence after the audio, which flush the filter's windows


def stretched_length(samples: int, speed: float) -> int:
    """Number of output samples for `samples` input samples at this speed."""
    return round(samples / speed)


class Stretch:
    """Time stretch of one audio stream, between SLOWEST and FASTEST: FFmpeg's atempo, cut to the exact length.

    atempo joins overlapping windows. Above 2 a single filter would skip whole windows, and it does not support less
    than 0.5, so two are then chained.
    """

    def __init__(self, speed: float, sample_rate: int) -> None:
        import numpy as np
        from av.filter import Graph

        self.speed, self.sample_rate = speed, sample_rate
        self.taken = self.given = 0  # samples in, samples out
        stages = 1 if 0.5 <= speed <= 2 else 2
        tempo = f"{math.pow(speed, 1 / stages):.12f}"
        graph = Graph()
        graph.threads = 1
        source = graph.add_abuffer(sample_rate=sample_rate, format="flt", layout="mono")
        graph.link_nodes(source, *(graph.add("atempo", tempo) for _ in range(stages)), graph.add("abuffersink"))
        graph.configure()
        self._graph = graph
        self._block = max(1, round(_BLOCK * sample_rate))
        self._held: Audio = np.zeros(0, np.float32)  # less than a block
        self._pushed = 0  # samples passed to the filter

    def stretch(self, audio: Audio) -> Audio:
        """Output for the input `audio`, (n,) in [−1, 1]: (m,), which may be empty."""
        self.taken += len(audio)
        return self._through(audio)

    def finish(self) -> Audio:
        """The last output, (m,), so that there are `stretched_length` samples in total."""
        import numpy as np

        missing = max(0, stretched_length(self.taken, self.speed) - self.given)
        return self._through(np.zeros(round(_TAIL * self.sample_rate), np.float32))[:missing]

    def _through(self, audio: Audio) -> Audio:
        """Feed whole blocks, so that the output does not depend on the sizes of the inputs."""
        import numpy as np
        from av.audio.frame import AudioFrame

        waiting = np.concatenate([self._held, audio], dtype=np.float32)
        whole = len(waiting) // self._block * self._block
        self._held = waiting[whole:].copy()
        stretched = [np.zeros(0, np.float32)]
        for start in range(0, whole, self._block):
            frame = AudioFrame.from_ndarray(waiting[None, start : start + self._block], format="flt", layout="mono")
            frame.sample_rate, frame.pts = self.sample_rate, self._pushed
            self._pushed += self._block
            self._graph.push(frame)
            stretched += self._pull()
        self.given += sum(map(len, stretched))
        return np.concatenate(stretched)

    def _pull(self) -> list[Audio]:
        from av.audio.frame import AudioFrame

        pulled: list[Audio] = []
        while True:
            try:
                frame = self._graph.pull()
            except (BlockingIOError, EOFError):  # needs more input, or has no more output
                return pulled
            if isinstance(frame, AudioFrame):
                pulled.append(frame.to_ndarray()[0])
