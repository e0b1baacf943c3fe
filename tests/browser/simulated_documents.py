"""Documents whose chunks are spoken by the clock, in tones, and out of order as on two workers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np

RATE = 24_000
PAUSE = 0.25  # seconds after a chunk
UNSPEAKABLE = "unspeakable"  # a chunk with this word fails


@dataclass
class Growing:
    """A document as the contract shows it, worked out from how long ago it was accepted."""

    id: str
    body: dict[str, Any]
    created: float
    pace: float
    retried: bool = False
    parts: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        text = self.body["text"].strip()
        self.parts = tuple(part for part in re.split(r"(?<=[.!?])\s+", text) if part)

    @property
    def title(self) -> str:
        return str(self.body.get("title") or self.body.get("stem") or self.parts[0][:60])

    @property
    def reason(self) -> str | None:
        bad = [index for index in range(len(self.parts)) if self.chunk_state(index) == "failed"]
        return f"part {bad[0] + 1} could not be spoken: it was tried 3 times" if bad else None

    @property
    def state(self) -> str:
        ended = [self.chunk_state(index) != "waiting" for index in range(len(self.parts))]
        if not any(ended):
            return "pending" if time.time() < self.created + self.pace / 2 else "processing"
        if not all(ended):
            return "processing"
        return "failed" if self.reason else "completed"

    def retry(self) -> None:
        """What failed is spoken this time."""
        self.retried = True

    def chunk_state(self, index: int) -> str:
        early = 0.6 if index % 2 else -0.6  # the second of two is done first
        if time.time() < self.created + self.pace * (index + 1 - early):
            return "waiting"
        if UNSPEAKABLE not in self.parts[index] or self.retried:
            return "spoken"
        return "silenced" if self.body.get("on_failure") == "silence" else "failed"

    def spoken(self, index: int) -> bool:
        return self.chunk_state(index) in ("spoken", "silenced")

    def seconds(self, index: int) -> float:
        return round(0.03 * len(self.parts[index]) + 0.3, 2)

    def audio(self, index: int) -> bytes:
        """s16le at 24 kHz: a tone that differs from chunk to chunk, then the pause."""
        when = np.arange(round(self.seconds(index) * RATE)) / RATE
        tone = 0.2 * np.sin(2 * np.pi * (220 + 40 * (index % 8)) * when)
        silence = np.zeros(round(PAUSE * RATE))
        return bytes(np.rint(np.concatenate([tone, silence]) * 32767).astype("<i2").tobytes())

    def chunk_rows(self) -> list[dict[str, Any]]:
        """Times are known where all chunks before are done."""
        rows, clock, known = [], 0.0, True
        for index, text in enumerate(self.parts):
            state = self.chunk_state(index)
            known = known and state in ("spoken", "silenced")
            start, end = (clock, clock + self.seconds(index)) if known else (None, None)
            clock += self.seconds(index) + PAUSE
            reason = "it was tried 3 times" if state in ("failed", "silenced") else None
            rows.append({
                "index": index, "text": text, "state": state, "start_seconds": start, "end_seconds": end,
                "reason": reason,
            })  # fmt: skip
        return rows

    def described(self) -> dict[str, Any]:
        """The document's JSON."""
        rows, state = self.chunk_rows(), self.state
        done = sum(row["state"] != "waiting" for row in rows)
        ready = max((row["end_seconds"] for row in rows if row["end_seconds"] is not None), default=0.0)
        return {
            "id": self.id, "title": self.title, "state": state, "created": self.created,
            "started": self.created, "finished": time.time() if state in ("completed", "failed") else None,
            "progress": {
                "chunks": len(rows), "done": done, "failed": sum(row["state"] == "failed" for row in rows),
                "ratio": done / len(rows),
                "audio_seconds": sum(self.seconds(row["index"]) for row in rows if row["state"] == "spoken"),
                "estimated_seconds": sum(self.seconds(index) for index in range(len(rows))),
                "eta_seconds": (len(rows) - done) * self.pace,
            },
            "voice": self.body.get("voice"), "seed": self.body.get("seed", 0), "language": "en",
            "on_failure": self.body.get("on_failure", "fail"),
            "reason": self.reason if state == "failed" else None, "parked": None, "reduced": False,
            "audio": {
                "url": f"/v1/documents/{self.id}/audio", "ready_seconds": ready, "complete": state == "completed",
            },
        }  # fmt: skip


class _Outbox:
    """A file that an encoder writes into, emptied as it fills."""

    def __init__(self) -> None:
        self.pending = bytearray()

    def write(self, data: bytes) -> int:
        self.pending += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self.pending)
        self.pending.clear()
        return data


def encoded(samples: Iterator[bytes], kind: str) -> Iterator[bytes]:
    """The samples as a stream of this kind, each piece as soon as the codec gives it."""
    if kind == "pcm":
        yield from samples
        return
    codec, container = {
        "mp3": ("mp3", "mp3"), "opus": ("libopus", "ogg"), "aac": ("aac", "adts"), "flac": ("flac", "flac"),
        "wav": ("pcm_s16le", "wav"),
    }[kind]  # fmt: skip
    outbox = _Outbox()
    output = av.open(outbox, "w", format=container, options={"write_xing": "0"} if kind == "mp3" else {})
    stream = output.add_stream(codec, rate=RATE, layout="mono")
    assert isinstance(stream, av.AudioStream)
    resampler = av.AudioResampler(format=stream.format, layout="mono", rate=RATE)
    for piece in samples:
        frame = av.AudioFrame.from_ndarray(np.frombuffer(piece, "<i2")[None], format="s16", layout="mono")
        frame.sample_rate = RATE
        for fitting in resampler.resample(frame):
            output.mux(stream.encode(fitting))
        yield outbox.take()
    output.mux(stream.encode(None))
    output.close()
    yield outbox.take()
