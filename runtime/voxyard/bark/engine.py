"""The Bark engine: chunks of text in, sound out as each is done, in batches of one fixed shape."""

from __future__ import annotations

import itertools
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from voxyard.bark import pipeline, quality
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.memory_cap import put_into_force
from voxyard.bark.model import codec, fine
from voxyard.bark.model.dimensions import SAMPLES_PER_FRAME, Layout
from voxyard.bark.pipeline import Sketch, Work
from voxyard.bark.requests import Audio, Facts, Request, Result, Voice
from voxyard.bark.stages import Stages
from voxyard.bark.weights.checkpoint import Checkpoint, Precision, load
from voxyard.speech.engine import Chunks, Source
from voxyard.speech.verification.word_error_rate import Heard, WordCheck, open_recogniser

_log = logging.getLogger(__name__)

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Ready:
    """Properties of the engine with its model loaded."""

    device: str
    precision: str
    batch_size: int
    sample_rate: int
    random_weights: bool  # what it speaks is noise


@dataclass
class _Chunk(Generic[Asked]):
    """A chunk on its way, and what came of it so far."""

    asked: Asked
    request: Request  # the first attempt
    tokens: Sequence[int]
    made: list[Result] = field(default_factory=list)

    def work(self, number: int) -> Work:
        request = replace(self.request, attempt=self.request.attempt + len(self.made))
        return Work(number, request, self.tokens)


class BarkEngine:
    """Speaks chunks. One engine a process: torch's number of threads belongs to the process."""

    def __init__(self, config: BarkConfig) -> None:
        self.config = config
        self._loaded: tuple[Checkpoint, Stages] | None = None
        self._words: WordCheck | None = None

    def prepare(self) -> Ready:
        """Load the model and make room for its batch.

        Raises:
            BarkError: the model cannot be read, there is no such device, or it has less memory than the cap.
            SpeechError: there is no such recogniser.
            MemoryError: the device has no room for it.
        """
        torch.set_num_threads(self.config.threads)
        device, precision = placed(self.config)
        self._words = None if self.config.recogniser is None else WordCheck(open_recogniser(self.config.recogniser))
        if device == "cuda" and (cap := put_into_force(self.config.gpu_memory, torch.cuda)) is not None:
            _log.info("this worker's tensors take no more than %d MiB of its GPU", cap)
        with _memory_errors():
            checkpoint = load(self.config.model, "cpu" if self.config.offload else device, precision)
        if checkpoint.random:
            _log.warning("the weights in %s are random: what is spoken is noise", self.config.model)
        with torch.inference_mode(), _memory_errors():
            stages = Stages(checkpoint, self.config, device)
        self._loaded = replace(checkpoint, model=None), stages
        return Ready(device, precision, self.config.batch_size, checkpoint.layout.sample_rate, checkpoint.random)

    def count_tokens(self, text: str) -> int:
        """Text tokens as the model counts them; a chunk may have 256."""
        return len(self._ready()[0].tokenizer.encode(text, add_special_tokens=False).ids)

    def speak(self, batch: Sequence[Request]) -> list[Result]:
        """Speak chunks, in the order of the requests.

        Raises:
            BarkError: a text or a voice that the model cannot take, or numbers that are none in every try.
            MemoryError: the device's memory is used up.
        """
        numbered = list(enumerate(batch))
        spoken: dict[int, Result] = {}
        for (number, _), result in self.flow(Chunks(numbered), lambda each: each[1]):
            if isinstance(result, BarkError):
                raise result
            spoken[number] = result
        return [spoken[number] for number, _ in numbered]

    def flow(
        self, source: Source[Asked], request_of: Callable[[Asked], Request]
    ) -> Iterator[tuple[Asked, Result | BarkError]]:
        """Speak what comes from the source, as rows become free; each chunk leaves as soon as it is done.

        A chunk that sounds wrong is tried again with the next attempt number; the try with the fewest faults counts.
        A text or a voice that the model cannot take, or numbers that are none in every try, are that chunk's error.

        Raises:
            MemoryError: the device's memory is used up.
        """
        checkpoint, stages = self._ready()
        retry = self.config.quality == "retry" or (self.config.quality == "auto" and not checkpoint.random)
        tries = 1 + (self.config.retries if retry else 0)
        inside: dict[int, _Chunk[Asked]] = {}
        again: deque[int] = deque()
        refused: list[tuple[Asked, BarkError]] = []
        numbers = itertools.count()

        def take(room: int, wait: bool) -> Sequence[Work] | None:
            entering = [again.popleft() for _ in range(min(room, len(again)))]
            fresh = source.take(room - len(entering), wait=wait and not entering)
            if wait and not entering and not fresh:
                return None
            for asked in fresh:
                try:
                    chunk = self._chunk(asked, request_of(asked))
                except BarkError as error:
                    refused.append((asked, error))
                    continue
                entering.append(next(numbers))
                inside[entering[-1]] = chunk
            return [inside[number].work(number) for number in entering]

        steps = pipeline.sketched(checkpoint, stages, self.config, take)
        while True:
            with torch.inference_mode(), _memory_errors():
                sketches = next(steps, None)
                made = self._sounds([(inside[each.number], each) for each in sketches or ()])
            yield from refused
            refused.clear()
            if sketches is None:
                return
            for sketch, result in zip(sketches, made, strict=True):
                chunk = inside[sketch.number]
                chunk.made.append(result)
                if result.facts.faults and len(chunk.made) < tries:
                    again.append(sketch.number)
                else:
                    del inside[sketch.number]
                    yield chunk.asked, _best(chunk.made)

    def shrink(self, rows: int) -> None:
        """Decode in batches of so many rows from here on; the facts of each result say so.

        Raises:
            MemoryError: there is no room for so many either.
        """
        _, stages = self._ready()
        self.config = self.config.model_copy(update={"batch_size": rows})
        with torch.inference_mode(), _memory_errors():
            stages.resize(rows)
        _log.warning("the batch has %d rows now: the same seed may sound different from here on", rows)

    def close(self) -> None:
        """Let go of the model and of its memory on the device."""
        self._loaded = self._words = None
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _ready(self) -> tuple[Checkpoint, Stages]:
        if self._loaded is None:
            raise BarkError("the Bark engine has no model yet: call prepare() first")
        return self._loaded

    def _sounds(self, sketched: Sequence[tuple[_Chunk[Any], Sketch]]) -> list[Result]:
        """Fine stage and codec, one chunk after the other."""
        if not sketched:
            return []
        checkpoint, stages = self._ready()
        requests = [chunk.work(0).request for chunk, _ in sketched]
        roughs = [sketch.rough for _, sketch in sketched]
        layout, temperature = checkpoint.layout.fine, self.config.fine_temperature
        with stages.fine() as gpt:
            complete = [
                fine.speak(
                    gpt, layout, rough.codes, request.voice, pipeline.key_of(request, "fine"), temperature
                )
                for request, rough in zip(requests, roughs, strict=True)
            ]  # fmt: skip
        with stages.codec() as decoder:
            sounds = [codec.decode(decoder, codes) for codes, _ in complete]
        return [
            self._result(request, sketch, finite and sketch.spoken.finite and sketch.rough.finite, sound)
            for request, (_, sketch), (_, finite), sound in zip(requests, sketched, complete, sounds, strict=True)
        ]

    def _result(self, request: Request, sketch: Sketch, finite: bool, sound: Audio) -> Result:
        checkpoint, spoken = self._ready()[0], sketch.spoken
        rate = checkpoint.layout.sample_rate
        heard = self._hear(request, sound, rate)
        found = quality.measure(
            sound,
            rate,
            request.text,
            cap_reached=spoken.cap_reached,
            finite=finite,
            bounds=quality.Bounds(word_errors=self.config.word_errors),
            word_errors=heard.errors,
        )
        facts = Facts(
            text_tokens=self.count_tokens(request.text),
            semantic_tokens=len(spoken.tokens),
            frames=len(sound) // SAMPLES_PER_FRAME,
            seconds=len(sound) / rate,
            attempt=request.attempt,
            attempts=1,
            batch_size=self.config.batch_size,
            cap_reached=spoken.cap_reached,
            silence=found.silence,
            clipping=found.clipping,
            faults=found.faults,
            word_errors=heard.errors,
            words_unchecked=heard.unchecked,
        )
        return Result(request.chunk, sound, rate, facts)

    def _hear(self, request: Request, sound: Audio, rate: int) -> Heard:
        if self._words is None:
            return Heard(None)
        language = getattr(request.voice, "language", None)  # presets know theirs, a bare history does not
        return self._words.hear(sound, rate, request.text, language)

    def _chunk(self, asked: Asked, request: Request) -> _Chunk[Asked]:
        checkpoint, _ = self._ready()
        tokens = checkpoint.tokenizer.encode(request.text, add_special_tokens=False).ids
        most = checkpoint.layout.semantic.window
        if not 0 < len(tokens) <= most:
            raise BarkError(
                f"chunk {request.chunk} has {len(tokens)} text tokens, expected 1 to {most}: split the text anew"
            )
        if request.voice is not None:
            _check_voice(request.chunk, request.voice, checkpoint.layout)
        return _Chunk(asked, request, tokens)


def placed(config: BarkConfig) -> tuple[str, Precision]:
    """Device and precision that the settings mean on this machine.

    Raises:
        BarkError: a GPU is asked for where torch sees none.
    """
    seen = torch.cuda.is_available()
    if config.device == "cuda" and not seen:
        raise BarkError(f"torch sees no GPU, but one was given or asked for: {_why_no_gpu()}, or take --device cpu")
    device = "cuda" if seen and config.device != "cpu" else "cpu"
    if config.precision != "auto":
        return device, config.precision
    return device, "bfloat16" if device == "cuda" else "float32"


def _why_no_gpu() -> str:
    """Messages of torch and the driver on the missing GPU, and the fix."""
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is a build without CUDA; install one with it (`make setup TORCH=cuda`, or "
            "PyPI's own for Linux)"
        )
    try:
        torch.cuda.init()
        complaint = "it could be initialised nevertheless"
    except (RuntimeError, AssertionError) as error:
        complaint = " ".join(str(error).split())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, CUDA_VISIBLE_DEVICES={visible}: {complaint}; "
        "see what nvidia-smi says, install a driver for this CUDA or a torch for this driver"
    )


def _best(made: Sequence[Result]) -> Result | BarkError:
    """The first try with the fewest faults and among these the fewest wrong words; its facts say how many tries."""
    best = min(made, key=lambda result: (len(result.facts.faults), result.facts.word_errors or 0.0))
    if "not finite" in best.facts.faults:
        return BarkError(
            f"chunk {best.chunk} came out as numbers that are none in {len(made)} tries: the weights or the voice are "
            "damaged, or the precision is too low for this model; try float32"
        )
    return replace(best, facts=replace(best.facts, attempts=len(made)))


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Torch's own exception for a full device becomes Python's, which a pool can know without torch."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as full:
        raise MemoryError(str(full)) from full


def _check_voice(chunk: int, voice: Voice, layout: Layout) -> None:
    """Checks that the voice is made of this model's codes."""
    parts: tuple[tuple[str, Any, int], ...] = (
        ("semantic_prompt", voice.semantic_prompt, layout.semantic.vocabulary),
        ("coarse_prompt", voice.coarse_prompt, layout.coarse.codebook),
        ("fine_prompt", voice.fine_prompt, layout.fine.codebook),
    )
    for name, codes, vocabulary in parts:
        if codes.size and not 0 <= int(np.min(codes)) <= int(np.max(codes)) < vocabulary:
            raise BarkError(
                f"chunk {chunk}: the voice's {name} reaches from {np.min(codes)} to {np.max(codes)}, this model has "
                f"the codes 0 to {vocabulary - 1}: the voice belongs to another model"
            )
    rows = voice.coarse_prompt.shape[0], voice.fine_prompt.shape[0]
    if rows != (layout.fine.given, layout.fine.codebooks):
        raise BarkError(
            f"chunk {chunk}: the voice has {rows[0]} coarse and {rows[1]} fine codebooks, expected {layout.fine.given} "
            f"and {layout.fine.codebooks}"
        )
