"""Contestants of the end-to-end benchmark: the same chunks in the same voice by voxyard, by transformers, by Suno."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol
from unittest import mock

import torch
from bench_floor import ChunkTokens
from bench_stages import StageTimes, hooked
from bench_suno import suno
from spoken import speak

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.model import codec, fine
from voxyard.bark.model.coarse import CoarseRows
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.semantic import SemanticRows
from voxyard.bark.voices import load
from voxyard.bark.weights.checkpoint import BarkCheckpoint
from voxyard.speech.requests import SAMPLE_RATE, Request

_PROMPTS = ("semantic_prompt", "coarse_prompt", "fine_prompt")


class Contestant(Protocol):
    """Speaks chunks of text in one voice."""

    def speak(self, texts: Sequence[str]) -> float:
        """Speak all texts; seconds of audio."""

    def watched(self, times: StageTimes) -> AbstractContextManager[None]:
        """Context in which the time of each stage is accounted to `times`."""


class Voxyard:
    """voxyard's engine with the shipped settings, but for those given here."""

    def __init__(self, config: BarkConfig, voice: str) -> None:
        self._engine, self._voice = BarkEngine(config), voice
        self.ready = self._engine.prepare()
        self.chunks: tuple[ChunkTokens, ...] = ()  # of the latest call

    def speak(self, texts: Sequence[str]) -> float:
        """Speak all texts; seconds of audio."""
        requests = [Request(index, text, voice=self._voice) for index, text in enumerate(texts)]
        results = speak(self._engine, requests)
        facts: list[Any] = [result.facts for result in results]
        self.chunks = tuple(ChunkTokens(each["semantic_tokens"], each["frames"]) for each in facts)
        return sum(result.seconds for result in results)

    @contextmanager
    def watched(self, times: StageTimes) -> Iterator[None]:
        """Context in which the time of each stage is accounted to `times`, where they follow each other."""
        if self.ready.facts["finish"] == "beside":  # a clock that waits for the device would end their overlap
            yield
            return
        network = "semantic"

        def within(name: str) -> Callable[..., None]:
            def note(*_: Any) -> None:
                nonlocal network
                network = name

            return note

        def prefill(_: Decoder, windows: Sequence[tuple[int, Any]]) -> None:
            for _row, embedded in windows:
                times.feed(network, 1, len(embedded))

        patched = [
            *((SemanticRows, name, within("semantic")) for name in ("enter", "step")),
            *((CoarseRows, name, within("coarse")) for name in ("enter", "step")),
            (Decoder, "prefill", prefill),
            (Decoder, "run", lambda *_: times.feed(network, 0, 1)),
            (fine, "speak", lambda *_: times.enter("fine")),
            (codec, "decode", lambda *_: times.enter("codec")),
        ]
        with ExitStack() as stack:
            for owner, name, before in patched:
                stack.enter_context(mock.patch.object(owner, name, _preceded(getattr(owner, name), before)))
            times.enter("semantic")
            try:
                yield
            finally:
                times.enter(None)


def _preceded(function: Callable[..., Any], before: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        before(*given, *named.values())
        return function(*given, **named)

    return called


class Transformers:
    """`BarkModel.generate` with a voice preset: one voice a batch."""

    def __init__(self, checkpoint: BarkCheckpoint, voice: str, rows: int) -> None:
        self._model, self._tokenizer, self._rows = checkpoint.model, checkpoint.tokenizer, rows
        prompt = load(voice)
        self._prompt = {name: torch.tensor(getattr(prompt, name), device=self._model.device) for name in _PROMPTS}

    def speak(self, texts: Sequence[str]) -> float:
        """Speak all texts, in batches; seconds of audio."""
        starts = range(0, len(texts), self._rows)
        return sum(self._generate(texts[start : start + self._rows]) for start in starts) / SAMPLE_RATE

    def _generate(self, texts: Sequence[str]) -> int:
        """Samples of one batch, without what pads the shorter rows."""
        ids, mask = torch.zeros(2, len(texts), 256, dtype=torch.long)
        for row, text in enumerate(texts):
            tokens = self._tokenizer.encode(text, add_special_tokens=False).ids
            ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
        _, lengths = self._model.generate(
            ids.to(self._model.device),
            attention_mask=mask.to(self._model.device),
            history_prompt=self._prompt,
            return_output_lengths=True,
        )
        return sum(lengths)

    def watched(self, times: StageTimes) -> AbstractContextManager[None]:
        """Context in which the time of each stage is accounted to `times`."""
        model = self._model
        modules = {
            "semantic": model.semantic,
            "coarse": model.coarse_acoustics,
            "fine": model.fine_acoustics.layers[0],  # its `forward` is called without hooks
            "codec": model.codec_model.decoder,
        }

        def fed(given: tuple[Any, ...], named: Any) -> tuple[int, int]:
            embedded = named.get("inputs_embeds")
            tokens = embedded if embedded is not None else given[0] if given else named["input_ids"]
            return tokens.shape[0], tokens.shape[1]

        return hooked(modules, times, fed)


class Suno:
    """Suno's `generate_audio` with a history prompt: one chunk at a time."""

    def __init__(self, checkpoint: BarkCheckpoint, voice: str) -> None:
        self._package = suno(checkpoint.model, checkpoint.tokenizer)
        self._models = dict(self._package.generation.models)
        prompt = load(voice)
        self._prompt = {name: getattr(prompt, name) for name in _PROMPTS}

    def speak(self, texts: Sequence[str]) -> float:
        """Speak all texts; seconds of audio."""
        self._package.generation.models.update(self._models)  # one dict for all of the process
        made = (self._package.generate_audio(text, history_prompt=self._prompt, silent=True) for text in texts)
        return sum(len(audio) for audio in made) / SAMPLE_RATE

    def watched(self, times: StageTimes) -> AbstractContextManager[None]:
        """Context in which the time of each stage is accounted to `times`."""
        modules = {
            "semantic": self._models["text"]["model"],
            "coarse": self._models["coarse"],
            "fine": self._models["fine"],
            "codec": self._models["codec"].decoder,
        }

        def fed(given: tuple[Any, ...], named: Any) -> tuple[int, int]:
            rows, tokens = given[0].shape
            return rows, tokens - 256 if named.get("merge_context") and tokens > 1 else tokens

        return hooked(modules, times, fed)
