"""The Bark engine: chunks of text in, sound out, in batches of one fixed shape."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from voxyard.bark import coarse, codec, fine, noise, quality, semantic
from voxyard.bark.cap import put_into_force
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.layout import SAMPLES_PER_FRAME, Layout
from voxyard.bark.requests import Audio, Codes, Facts, Request, Result, Stage, Voice
from voxyard.bark.stages import Stages
from voxyard.bark.weights import Checkpoint, Precision, load
from voxyard.speech.words import Heard, WordCheck, open_recogniser

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ready:
    """What an engine found when it loaded its model."""

    device: str
    precision: str
    batch_size: int
    sample_rate: int
    random_weights: bool  # what it speaks is noise


class BarkEngine:
    """Speaks batches of chunks. One engine a process: torch's number of threads belongs to the process."""

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
        """Speak chunks, in the order of the requests; as many at a time as the batch has rows.

        Chunks that sound wrong are tried again with the next attempt number; the try with the fewest faults counts.

        Raises:
            BarkError: a text or a voice that the model cannot take, or numbers that are none in every try.
            MemoryError: the device's memory is used up.
        """
        checkpoint, _ = self._ready()
        for request in batch:
            self._check(request, checkpoint.layout)
        retry = self.config.quality == "retry" or (self.config.quality == "auto" and not checkpoint.random)
        tries: dict[int, list[Result]] = {index: [] for index in range(len(batch))}
        for number in range(self.config.retries + 1 if retry else 1):
            open_ = [index for index, made in tries.items() if not made or made[-1].facts.faults]
            if not open_:
                break
            again = [replace(batch[index], attempt=batch[index].attempt + number) for index in open_]
            for index, result in zip(open_, self._once(again), strict=True):
                tries[index].append(result)
        return [_best(made) for made in tries.values()]

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

    def _once(self, batch: Sequence[Request]) -> list[Result]:
        """One try at every chunk."""
        with torch.inference_mode(), _memory_errors():
            meant = self._semantic(batch)
            sketched = self._coarse(batch, meant)
            complete = self._fine(batch, sketched)
            with self._ready()[1].codec() as decoder:
                sounds = [codec.decode(decoder, codes) for codes, _ in complete]
        ends = zip(batch, meant, sketched, complete, sounds, strict=True)
        return [
            self._result(request, spoken, all((spoken.finite, rough.finite, finite)), sound)
            for request, spoken, rough, (_, finite), sound in ends
        ]

    def _semantic(self, batch: Sequence[Request]) -> list[semantic.SemanticOutcome]:
        checkpoint, stages = self._ready()
        work = [
            semantic.SemanticWork(
                number,
                checkpoint.tokenizer.encode(request.text, add_special_tokens=False).ids,
                None if request.voice is None else request.voice.semantic_prompt,
                _key(request, "semantic"),
            )
            for number, request in enumerate(batch)
        ]
        config, outcomes = self.config, list[semantic.SemanticOutcome]()
        options = semantic.SemanticOptions(
            temperature=config.semantic_temperature, end_share=config.min_eos_p, check_every=config.check_every
        )
        with stages.semantic() as decoder:
            semantic.speak(decoder, checkpoint.layout.semantic, work, options, outcomes.append)
        return sorted(outcomes, key=lambda each: each.number)

    def _coarse(
        self, batch: Sequence[Request], meant: Sequence[semantic.SemanticOutcome]
    ) -> list[coarse.CoarseOutcome]:
        checkpoint, stages = self._ready()
        work = [
            coarse.CoarseWork(number, outcome.tokens, request.voice, _key(request, "coarse"))
            for number, (request, outcome) in enumerate(zip(batch, meant, strict=True))
        ]
        config, outcomes = self.config, list[coarse.CoarseOutcome]()
        with stages.coarse() as decoder:
            coarse.speak(
                decoder,
                checkpoint.layout.coarse,
                work,
                config.coarse_temperature,
                outcomes.append,
                skip=config.skip_prefill,
            )
        return sorted(outcomes, key=lambda each: each.number)

    def _fine(self, batch: Sequence[Request], sketched: Sequence[coarse.CoarseOutcome]) -> list[tuple[Codes, bool]]:
        checkpoint, stages = self._ready()
        layout, temperature = checkpoint.layout.fine, self.config.fine_temperature
        with stages.fine() as gpt:
            return [
                fine.speak(gpt, layout, outcome.codes, request.voice, _key(request, "fine"), temperature)
                for request, outcome in zip(batch, sketched, strict=True)
            ]

    def _result(self, request: Request, spoken: semantic.SemanticOutcome, finite: bool, sound: Audio) -> Result:
        checkpoint, _ = self._ready()
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

    def _check(self, request: Request, layout: Layout) -> None:
        tokens, most = self.count_tokens(request.text), layout.semantic.window
        if not 0 < tokens <= most:
            raise BarkError(
                f"chunk {request.chunk} has {tokens} text tokens, expected 1 to {most}: split the text anew"
            )
        if request.voice is not None:
            _check_voice(request.chunk, request.voice, layout)


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
    """What torch and the driver say of it, and what to do."""
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


def _key(request: Request, stage: Stage) -> tuple[int, int]:
    return noise.key(request.seed, request.chunk, request.attempt, stage)


def _best(made: Sequence[Result]) -> Result:
    """The first try with the fewest faults and among these the fewest wrong words; its facts say how many tries."""
    best = min(made, key=lambda result: (len(result.facts.faults), result.facts.word_errors or 0.0))
    if "not finite" in best.facts.faults:
        raise BarkError(
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
    """Whether the voice is made of this model's codes."""
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
