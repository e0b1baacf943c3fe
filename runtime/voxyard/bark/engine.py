"""Bark engine: speaks chunks in batches of one fixed shape; a row that is free takes the next chunk."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from voxyard.bark import pipeline, quality, voices
from voxyard.bark.attempts import Attempt, ChunkFacts, ChunkInFlight, ChunksInFlight
from voxyard.bark.config import BarkConfig
from voxyard.bark.device import IdleMemory, choose_device, give_back, memory_errors
from voxyard.bark.errors import BarkError
from voxyard.bark.finishing import Afterwards, Beside, Decoded, OnFinishing
from voxyard.bark.memory_cap import apply_cap
from voxyard.bark.model import codec, fine
from voxyard.bark.model.dimensions import SAMPLES_PER_FRAME, Layout
from voxyard.bark.model.memory import MOST_ROWS
from voxyard.bark.pipeline import CausalOutcome, ChunkWork
from voxyard.bark.rows import choose_rows
from voxyard.bark.stages import Stages, loading_device
from voxyard.bark.voices import VoicePrompt
from voxyard.bark.weights.checkpoint import BarkCheckpoint, Precision, load
from voxyard.bark.weights.identity import identity
from voxyard.speech.engine import Answer, ChunkSource, Ready
from voxyard.speech.pool.worker_process import given_gpu
from voxyard.speech.requests import Request
from voxyard.speech.verification.word_error_rate import WordCheck, WordCheckResult, open_recogniser

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

_log = logging.getLogger(__name__)

WORD_CHECK_SECONDS = 300.0  # that a recogniser may take for a chunk, as it reports no progress


class BarkEngine:
    """The pool's engine protocol on Bark. One engine a process: torch's number of threads belongs to the process."""

    def __init__(self, config: BarkConfig, find_voice: Callable[[str], VoicePrompt] | None = None) -> None:
        """`find_voice` gives the voice of a request's name; without one `voices.load` does, from the settings."""
        self._settings = config
        self.config = config  # with the batch size in rows, once it is chosen
        self._find_voice = functools.cache(find_voice or functools.partial(voices.load, directory=config.voices))
        self._loaded: tuple[BarkCheckpoint, Stages] | None = None
        self._words: WordCheck | None = None
        self._beside = False  # the decoding of other chunks: fine stage and codec

    def prepare(self) -> Ready:
        """Load the model and allocate the cache of its batch.

        Raises:
            BarkError: the model cannot be read, there is no such device, or it has less memory than the cap or one row.
            SpeechError: there is no such recogniser.
            MemoryError: the device has no memory for it.
        """
        torch.set_num_threads(self.config.threads)
        device, precision = choose_device(self.config)
        on_gpu = device == "cuda" and not self.config.offload
        self._beside = self.config.finish == "beside" or (self.config.finish == "auto" and on_gpu)
        self._words = None if self.config.recogniser is None else WordCheck(open_recogniser(self.config.recogniser))
        if device == "cuda" and (cap := apply_cap(self.config.gpu_memory, torch.cuda)) is not None:
            _log.info("GPU memory limit of this worker's tensors: %d MiB", cap)
        checkpoint, stages, meant = self._load(device, precision)
        if checkpoint.random:
            _log.warning("the weights in %s are random: the audio will be noise", self.config.model)
        self._loaded = replace(checkpoint, model=None), stages
        rows = self.config.rows
        sample_rate = checkpoint.layout.sample_rate
        facts = {
            "device": device,
            "precision": precision,
            **({"kv_cache": "int8"} if self.config.kv_cache == "int8" else {}),
            "finish": "beside" if self._beside else "after",
            "batch_size": rows,
            **({"batch_size_reduced_from": meant} if rows < meant else {}),
            "sample_rate": sample_rate,
            "random_weights": checkpoint.random,
            "weights": identity(self.config.model),
        }
        return Ready(rows, sample_rate, facts, meant)

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        """Speak the chunks of the source as rows become free; each is answered as soon as it is done.

        A chunk that sounds wrong is spoken again with the next attempt number; the attempt with the fewest faults
        counts. A chunk that the source cancels is given up before the next step. A text or a voice that the model
        cannot take, or samples that are no numbers in every attempt, make that chunk unspeakable, and no other.

        A chunk leaves as a whole. Fine stage and codec could work window by window, but no sound may leave before the
        quality check has heard all of the chunk: a retry would have to take it back. A first sentence is one window of
        the fine stage in any case (6.8 s with a voice), and the codec's last bits follow the length of its input.

        Raises:
            BarkError: the engine has no model.
            MemoryError: the device's memory is used up.
        """
        checkpoint, stages = self._require_model()
        retry = self.config.quality == "retry" or (self.config.quality == "auto" and not checkpoint.random)
        attempts_each = 1 + (self.config.retries if retry else 0)
        chunks = ChunksInFlight(source, self._accept, attempts_each, IdleMemory(give_back).waiting)
        finishing = self._finishing(chunks, source)
        idle = False

        def take(room: int, wait: bool) -> Sequence[ChunkWork] | None:
            nonlocal idle
            unanswered = finishing.pending > 0  # one of them may have to be spoken again
            works = chunks.take(room, wait and not unanswered)
            idle = wait and unanswered and not works
            return works

        steps = pipeline.run_causal_stages(
            checkpoint, stages, self.config, take, source.progress, chunks.take_cancelled
        )
        with contextlib.closing(finishing):
            while True:
                with torch.inference_mode(), memory_errors():
                    outcomes = next(steps, None)
                yield from chunks.take_refused()
                if outcomes is None:
                    return
                wanted = chunks.wanted(each.number for each in outcomes)
                finishing.give([Decoded(chunks[each.number], each) for each in outcomes if each.number in wanted])
                for decoded, attempt in finishing.take(wait=idle or finishing.pending > self.config.rows):
                    if chunks.holds(number := decoded.outcome.number):
                        answer = chunks.complete(number, attempt, checkpoint.layout.sample_rate)
                        if answer is not None:
                            yield answer
                idle = False
                yield from chunks.take_refused()  # cancelled meanwhile: the next step may wait for new chunks

    def shrink(self, rows: int) -> None:
        """Decode in batches of so many rows from here on; the facts of each result name the number.

        Raises:
            MemoryError: the device has no memory for so many either.
        """
        _, stages = self._require_model()
        self.config = self.config.model_copy(update={"batch_size": rows})
        with torch.inference_mode(), memory_errors():
            stages.resize(rows)
        _log.warning("batch reduced to %d rows: the audio of the same seed may differ from here on", rows)

    def close(self) -> None:
        """Free the model and its memory on the device."""
        self._loaded = self._words = None
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _load(self, device: str, precision: Precision) -> tuple[BarkCheckpoint, Stages, int]:
        """Load the model with as many rows as the device has memory for; also the rows that the settings mean."""
        most = MOST_ROWS
        while True:
            with memory_errors():
                checkpoint = load(self._settings.model, loading_device(self._settings, device), precision)
            rows, meant = choose_rows(checkpoint, self._settings, device, most)
            self.config = self._settings.model_copy(update={"batch_size": rows})
            try:
                with torch.inference_mode(), memory_errors():
                    return checkpoint, Stages(checkpoint, self.config, device), meant
            except MemoryError as full:
                if rows == 1:
                    raise
                _log.warning("no memory for %d rows, loading again with %d: %s", rows, rows // 2, full)
                most = rows // 2
            del checkpoint
            torch.cuda.empty_cache()

    def _require_model(self) -> tuple[BarkCheckpoint, Stages]:
        if self._loaded is None:
            raise BarkError("the Bark engine has no model yet: call prepare() first")
        return self._loaded

    def _accept(self, request: Request) -> ChunkInFlight:
        """Tokenize a chunk and find its voice; BarkError where the model cannot take them."""
        checkpoint, _ = self._require_model()
        voice = self._voice(request)
        tokens = checkpoint.tokenizer.encode(request.text, add_special_tokens=False).ids
        most = checkpoint.layout.semantic.window
        if not 0 < len(tokens) <= most:
            found = f"chunk {request.chunk} has {len(tokens)} text tokens, expected 1 to {most}"
            raise BarkError(f"{found}: split the text into shorter chunks")
        if voice is not None:
            _check_voice(request.chunk, voice, checkpoint.layout)
        return ChunkInFlight(request, voice, tokens)

    def _voice(self, request: Request) -> VoicePrompt | None:
        """The voice of a request, from its file where it brings one. Raises BarkError."""
        if request.voice is None:
            return None
        if request.voice_file is None:
            return self._find_voice(request.voice)
        return _read_voice(request.voice, request.voice_file)

    def _finishing(self, chunks: ChunksInFlight, source: ChunkSource) -> Afterwards | Beside:
        """The way of this engine's settings from the causal stages to audio."""

        def finish(decoded: Sequence[Decoded], report: OnFinishing) -> list[Attempt]:
            with torch.inference_mode(), memory_errors():
                return self._decode_audio(decoded, report)

        if self._beside:
            return Beside(finish, lambda each: chunks.holds(each.outcome.number), source.progress)
        # With offloading a stage is loaded for all of them; otherwise the first leaves before the next is decoded.
        return Afterwards(
            finish,
            lambda each: bool(chunks.wanted([each.outcome.number])),
            source.progress,
            together=self.config.offload,
        )

    def _decode_audio(self, decoded: Sequence[Decoded], report: OnFinishing) -> list[Attempt]:
        """Fine stage and codec, one chunk after the other."""
        checkpoint, stages = self._require_model()
        layout, temperature = checkpoint.layout.fine, self.config.fine_temperature
        with stages.fine() as (gpt, fill):
            complete = [
                fine.speak(
                    gpt,
                    layout,
                    each.outcome.coarse.codes,
                    each.chunk.voice,
                    pipeline.noise_key(each.chunk.next_request(), "fine"),
                    temperature,
                    report,
                    fill,
                )
                for each in decoded
            ]
        with stages.codec() as decoder:
            audios = [codec.decode(decoder, codes, report) for codes, _ in complete]
        attempts = []
        for each, (_, finite), audio in zip(decoded, complete, audios, strict=True):
            report(0.0 if self._words is None else WORD_CHECK_SECONDS)
            all_finite = finite and each.outcome.semantic.finite and each.outcome.coarse.finite
            attempts.append(self._attempt(each.chunk, each.outcome, all_finite, audio))
        return attempts

    def _attempt(self, chunk: ChunkInFlight, outcome: CausalOutcome, finite: bool, audio: Audio) -> Attempt:
        """Check the audio of one attempt."""
        request, semantic = chunk.next_request(), outcome.semantic
        rate = self._require_model()[0].layout.sample_rate
        words = self._check_words(chunk, audio, rate)
        found = quality.measure(
            audio,
            rate,
            request.text,
            cap_reached=semantic.cap_reached,
            finite=finite,
            bounds=quality.Bounds(word_errors=self.config.word_errors),
            word_errors=words.errors,
        )
        facts = ChunkFacts(
            text_tokens=len(chunk.tokens),
            semantic_tokens=len(semantic.tokens),
            frames=len(audio) // SAMPLES_PER_FRAME,
            seconds=len(audio) / rate,
            attempt=request.attempt,
            attempts=1,
            batch_size=self.config.rows,
            cap_reached=semantic.cap_reached,
            silence=found.silence,
            clipping=found.clipping,
            faults=found.faults,
            word_errors=words.errors,
            words_unchecked=words.unchecked,
        )
        return Attempt(audio, facts)

    def _check_words(self, chunk: ChunkInFlight, audio: Audio, rate: int) -> WordCheckResult:
        if self._words is None:
            return WordCheckResult(None)
        language = None if chunk.voice is None else chunk.voice.language
        return self._words.check(audio, rate, chunk.request.text, language)


def create(settings: Mapping[str, object]) -> BarkEngine:
    """Engine factory, named by the pool as `voxyard.bark.engine:create`; its settings are the fields of BarkConfig.

    A worker that was given a GPU never falls back to the CPU: for it, the device `auto` means cuda.
    """
    config = BarkConfig.model_validate(dict(settings))
    if config.device == "auto" and given_gpu():
        config = config.model_copy(update={"device": "cuda"})
    return BarkEngine(config)


_read_voice = functools.lru_cache(maxsize=64)(voices.read)


def _check_voice(chunk: int, voice: VoicePrompt, layout: Layout) -> None:
    """Check that the voice consists of this model's codes."""
    parts: tuple[tuple[str, Any, int], ...] = (
        ("semantic_prompt", voice.semantic_prompt, layout.semantic.vocabulary),
        ("coarse_prompt", voice.coarse_prompt, layout.coarse.codebook),
        ("fine_prompt", voice.fine_prompt, layout.fine.codebook),
        ("manner_prompt", voice.semantic_prompt if voice.manner is None else voice.manner, layout.semantic.vocabulary),
    )
    for name, codes, vocabulary in parts:
        if codes.size and not 0 <= int(np.min(codes)) <= int(np.max(codes)) < vocabulary:
            raise BarkError(
                f"chunk {chunk}: the voice's {name} ranges from {np.min(codes)} to {np.max(codes)}, this model has "
                f"the codes 0 to {vocabulary - 1}: the voice belongs to another model"
            )
    rows = voice.coarse_prompt.shape[0], voice.fine_prompt.shape[0]
    if rows != (layout.fine.given, layout.fine.codebooks):
        raise BarkError(
            f"chunk {chunk}: the voice has {rows[0]} coarse and {rows[1]} fine codebooks, expected {layout.fine.given} "
            f"and {layout.fine.codebooks}"
        )
