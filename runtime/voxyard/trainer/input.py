"""Input: reads clips ahead of the training and pads them into batches. Threads and NumPy, no TensorFlow.

Why no tf.data here: the order of the batches follows from (seed, epoch) alone, so that a resumed run continues with the
very next batch without reading what came before; `pipeline_buffer_size` bounds exactly what is held; and how full the
buffer is can be seen. Decoding (libsndfile, soxr) and copying (NumPy) release the interpreter lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus import CorpusError, Example, ExampleSource, allowed_bad
from voxyard.trainer.sampler import BatchPlan, BatchSampler, Bucket

log = logging.getLogger("voxyard.trainer")

Arrays = Mapping[str, NDArray[Any]]
MEMORY_SHARE = 0.25  # of the available memory, that the host-side buffer may take


@dataclass(frozen=True)
class HostBatch:
    """A padded batch in host memory (see Trainable for its arrays)."""

    plan: BatchPlan
    arrays: Arrays


def batch_bytes(bucket: Bucket, rows: int, hop_length: int, mels: int | None) -> int:
    """Bytes of a host batch; `mels` where precomputed features are read instead of PCM."""
    per_frame = 2 * hop_length if mels is None else 4 * (mels + 2)
    return rows * (bucket.frames * per_frame + bucket.tokens * 4 + 24)


def buffer_that_fits(requested: int, bytes_per_batch: int, available: int) -> int:
    """Batches of host-side prefetch: what was requested, capped so that they take a quarter of what is available."""
    return max(1, min(requested, int(available * MEMORY_SHARE) // bytes_per_batch))


class BatchAssembler:
    """Makes the arrays of a planned batch. A clip that turns out broken is replaced by its neighbour in the bucket."""

    def __init__(
        self,
        source: ExampleSource,
        sampler: BatchSampler,
        *,
        hop_length: int,
        seed: int,
        max_bad_share: float,
        part: slice = slice(None),
    ) -> None:
        """`part` is the share of each batch's rows that is made here, of a run over hosts."""
        self._source, self._sampler = source, sampler
        self._hop, self._seed, self._part = hop_length, seed, part
        self._allowed_bad = allowed_bad(len(source), max_bad_share)
        self._lock = threading.Lock()
        self.bad: dict[int, str] = {}

    def __call__(self, plan: BatchPlan) -> HostBatch:
        """Raises CorpusError when more clips are broken than allowed."""
        examples = [self._read(clip) for clip in plan.clips[self._part]]
        arrays = pad(examples, plan.bucket, self._hop)
        arrays["clip_seed"] = _clip_seeds(self._seed, plan.step, len(plan.clips))[self._part]
        return HostBatch(plan, arrays)

    def _read(self, clip: int) -> Example:
        for candidate in self._candidates(clip):
            if candidate in self.bad:
                continue
            try:
                return self._source.read(candidate)
            except CorpusError as error:
                self._note_bad(candidate, str(error))
        raise CorpusError(self._list_bad("no readable clip is left in a length bucket"))

    def _candidates(self, clip: int) -> Iterator[int]:
        yield clip
        others = self._sampler.bucket_members(clip)
        after = int(np.searchsorted(others, clip, side="right"))
        yield from (int(other) for other in np.roll(others, -after) if other != clip)

    def _note_bad(self, clip: int, reason: str) -> None:
        with self._lock:
            if clip in self.bad:
                return
            self.bad[clip] = reason
            log.warning("clip %s cannot be read and is replaced by another: %s", self._source.ids[clip], reason)
            if len(self.bad) > self._allowed_bad:
                raise CorpusError(
                    self._list_bad(
                        "more clips cannot be read than --max-bad-share allows "
                        f"({self._allowed_bad} of {len(self._source)})"
                    )
                )

    def _list_bad(self, what: str) -> str:
        lines = [f"  {self._source.ids[clip]}: {reason}" for clip, reason in sorted(self.bad.items())]
        return "\n".join([f"{what}:", *lines[:20], *([f"  … and {len(lines) - 20} more"] if len(lines) > 20 else [])])


def pad(examples: list[Example], bucket: Bucket, hop_length: int) -> dict[str, NDArray[Any]]:
    """Arrays of one batch, zero-padded to `bucket`; PCM and features too; the mel with its floor, log(1e-5)."""
    rows = len(examples)
    tokens = np.zeros((rows, bucket.tokens), np.int32)
    for row, example in enumerate(examples):
        tokens[row, : len(example.tokens)] = example.tokens
    arrays: dict[str, NDArray[Any]] = {
        "tokens": tokens,
        "token_length": np.array([len(example.tokens) for example in examples], np.int32),
        "speaker": np.array([example.speaker for example in examples], np.int32),
    }
    if examples[0].features is None:
        arrays |= _pad_pcm(examples, bucket.frames * hop_length)
    else:
        arrays |= _pad_features(examples, bucket.frames)
    return arrays


def _pad_pcm(examples: list[Example], samples: int) -> dict[str, NDArray[Any]]:
    pcm = np.zeros((len(examples), samples), np.int16)
    lengths = np.array([min(len(example.pcm), samples) for example in examples], np.int32)
    for row, (example, length) in enumerate(zip(examples, lengths, strict=True)):
        pcm[row, :length] = example.pcm[:length]
    return {"pcm": pcm, "pcm_length": lengths}


def _pad_features(examples: list[Example], frames: int) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name in sorted(examples[0].features or ()):
        parts = [(example.features or {})[name] for example in examples]
        out = np.zeros((len(parts), frames, *parts[0].shape[1:]), np.float32)
        if name == "mel":
            out[:] = np.float32(np.log(1e-5))
        for row, part in enumerate(parts):
            out[row, : len(part)] = part
        arrays[name] = out
        arrays["mel_length"] = np.array([len(part) for part in parts], np.int32)
    return arrays


def _clip_seeds(seed: int, step: int, rows: int) -> NDArray[np.int32]:
    return np.random.default_rng((seed, step, 1)).integers(2**31 - 1, size=(rows, 2), dtype=np.int32)
