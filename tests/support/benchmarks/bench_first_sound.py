"""Time to the first audible sample, through the service's own stream: by the length of a text and of its first chunk.

Ten pages take turns with their first sentence alone, and a long first sentence that is cut after its opening clause
with the same one as a whole. The weights are random: an engine of its own ends each chunk at the length that its text
would have.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.engine import create as create_bark
from voxyard.bark.frontend import BarkFrontend
from voxyard.corpus import demo
from voxyard.service.streaming.speech_request import ConcurrencyLimiter, SpeechRequest
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.open_pool import open_pool
from voxyard.speech.pool.pool import Pool
from voxyard.speech.script import Script, prepare_script
from voxyard.speech.text import boundaries

PAGE = 1800  # characters
PAGES = 10
SEMANTIC_PER_TOKEN = 49.9 / 15  # the tiny tokenizer's pieces are letters, of which one speaks 15 a second
LONG_SENTENCE = (
    "When the rain had stopped at last, the children of the village ran out of the old house and played in the garden "
    "until evening came."
)
AUDIBLE = 100  # of 32,767: a sample above is heard


def create(settings: Mapping[str, object]) -> BarkEngine:
    """Engine factory for the pool: Bark, with chunks as long as their text."""
    from voxyard.bark.model import semantic

    row: Any = semantic._Row
    take = row.take

    def as_long_as_the_text(self: Any, tokens: Any, finite: bool, end: int, limit: int) -> Any:
        return take(self, tokens, finite, end, min(limit, max(1, round(len(self.work.text) * SEMANTIC_PER_TOKEN))))

    row.take = as_long_as_the_text
    return create_bark(settings)


def pages(count: int = PAGES) -> tuple[str, str]:
    """A text of so many pages, and its first sentence."""
    sentences = list(demo.sentences())
    text = ""
    while len(text) < count * PAGE:
        text += " ".join(sentences) + "\n\n"
    return text[: count * PAGE].rpartition(".")[0] + ".", sentences[0]


def first_sound(model: Path, device: str, rounds: int, page_count: int = PAGES) -> dict[str, float]:
    """Median seconds to the first audible sample of each text, by turns in one pool, and the ratios of these."""
    front = BarkFrontend(BarkConfig(model=model, device=device))  # type: ignore[arg-type]
    spec = EngineSpec(f"{__name__}:create", front.engine.settings)
    text, sentence = pages(page_count)
    scripts = {"text": _script(text, front), "sentence": _script(sentence, front), "cut": _script(LONG_SENTENCE, front)}
    with patch.object(boundaries, "OPENING_SECONDS", math.inf):
        scripts["whole"] = _script(LONG_SENTENCE, front)
    found: dict[str, list[float]] = {name: [] for name in scripts}
    section = SpeechSection(max_parallel_tts_workers=1)  # as on one GPU; on a CPU a second one would take its core
    with open_pool(spec, section, device, workload="bark", warm=1) as pool:
        _heard(pool, scripts["sentence"])  # the worker has loaded its model
        for _ in range(rounds):
            for name, script in scripts.items():
                _wait_for_idle(pool)
                found[name].append(_heard(pool, script))
    return {
        "first_sound_seconds": statistics.median(found["text"]),
        "first_sentence_seconds": statistics.median(found["sentence"]),
        "opening_clause_seconds": statistics.median(found["cut"]),
        "whole_sentence_seconds": statistics.median(found["whole"]),
        "opening_clause_speech_seconds": scripts["cut"].chunks[0].estimated_seconds,
        "whole_sentence_speech_seconds": scripts["whole"].chunks[0].estimated_seconds,
        "first_sound_vs_first_sentence": _ratio(found["text"], found["sentence"]),
        "opening_clause_vs_whole_sentence": _ratio(found["cut"], found["whole"]),
    }


def _ratio(these: list[float], those: list[float]) -> float:
    """Median of the ratios of the rounds."""
    return statistics.median(one / other for one, other in zip(these, those, strict=True))


def _script(text: str, front: BarkFrontend) -> Script:
    return prepare_script(text, front, voice=None, seed=0)


def _heard(pool: Pool, script: Script) -> float:
    """Seconds from a script to its first audible sample; what was not spoken then is cancelled."""

    async def listen() -> float:
        began = time.perf_counter()
        request = SpeechRequest(pool, ConcurrencyLimiter(1), script, SpeechSection().pauses(), "pcm", 1.0)
        async with aclosing(request.audio()) as audio:
            async for piece in audio:
                samples = np.frombuffer(piece, np.int16)
                if samples.size and int(np.abs(samples.astype(np.int32)).max()) > AUDIBLE:
                    return time.perf_counter() - began
        raise RuntimeError(f"no sample of {script.requests[0].text[:40]!r} is above {AUDIBLE} of 32767")

    return asyncio.run(listen())


def _wait_for_idle(pool: Pool) -> None:
    while any(worker.state == "busy" for worker in pool.workers()):
        time.sleep(0.02)
