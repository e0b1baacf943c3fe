"""The Bark engine behind the pool's protocol: settings and voices by name, results with their facts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from voxyard.bark import voices
from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.errors import BarkError
from voxyard.bark.requests import Request, Voice
from voxyard.speech import engine, requests
from voxyard.speech.pool.worker_process import given_gpu


class Speaker:
    """One engine with the voices that it was asked for so far."""

    def __init__(self, config: BarkConfig, find_voice: Callable[[str], Voice]) -> None:
        self._engine = BarkEngine(config)
        self._find_voice = find_voice
        self._voices: dict[str, Voice] = {}

    def prepare(self) -> engine.Ready:
        """Load the model.

        Raises:
            BarkError: the model cannot be read, or there is no such device.
            MemoryError: the device has no room for it.
        """
        ready = self._engine.prepare()
        return engine.Ready(ready.batch_size, ready.sample_rate, asdict(ready))

    def speak(self, source: engine.Source[requests.Request]) -> Iterator[engine.Answer]:
        """Speak what comes from the source, as `BarkEngine.flow` does; a chunk's error refuses that chunk alone."""
        for asked, made in self._engine.flow(source, self._request):
            if isinstance(made, BarkError):
                yield asked, requests.Unspeakable(str(made))
            else:
                yield asked, requests.Result(made.chunk, made.audio, made.sample_rate, asdict(made.facts))

    def shrink(self, rows: int) -> None:
        """Decode in batches of so many rows from here on."""
        self._engine.shrink(rows)

    def close(self) -> None:
        """Give the model back."""
        self._engine.close()

    def _request(self, asked: requests.Request) -> Request:
        return Request(asked.chunk, asked.text, self._voice(asked.voice), asked.seed, asked.attempt)

    def _voice(self, name: str | None) -> Voice | None:
        if name is None:
            return None
        if name not in self._voices:
            self._voices[name] = self._find_voice(name)
        return self._voices[name]


def speaker(settings: Mapping[str, object]) -> engine.Engine:
    """The factory that a pool names: `voxyard.bark.speaker:speaker`, with the fields of BarkConfig as its settings.

    A worker that was given a GPU speaks there or not at all: for it, the device `auto` means cuda.
    """
    config = BarkConfig.model_validate(dict(settings))
    if config.device == "auto" and given_gpu():
        config = config.model_copy(update={"device": "cuda"})
    return Speaker(config, functools.partial(voices.load, directory=config.voices))
