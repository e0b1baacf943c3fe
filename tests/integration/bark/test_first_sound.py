"""First sound of a long text, counted in what the real engine decodes before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE

from voxyard.bark.config import BarkConfig
from voxyard.bark.frontend import BarkFrontend
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Result
from voxyard.speech.script import prepare_script

FIRST = "The lighthouse keeper counted the steps every evening, and there were two hundred and nine."
PARAGRAPH = (
    "One night there were two hundred and ten. He stood still on the last one for a while, and the sea was quiet. "
    "In the morning he counted again, downwards this time, slowly, with a hand on the wall, and then he laughed. "
)
TEN_PAGES = f"{FIRST} " + "\n\n".join([PARAGRAPH * 5] * 28)  # 30,000 characters
VOICE = "v2/en_speaker_6"


@pytest.fixture(scope="module")
def frontend(tiny_model: Path) -> BarkFrontend:
    return BarkFrontend(BarkConfig(model=tiny_model, device="cpu", batch_size=4, threads=1))


@pytest.fixture(scope="module")
def pool(frontend: BarkFrontend) -> Iterator[Pool]:
    with Pool(EngineSpec("bark_steps:create", frontend.engine.settings), [Device("cpu0")]) as made:
        yield made


def first_result(pool: Pool, frontend: BarkFrontend, text: str, *, listening: bool, whole: bool = True) -> Result:
    """Result of the text's first chunk; `whole` waits for the others, too."""
    script = prepare_script(text, frontend, voice=VOICE, seed=7)
    job = pool.submit(script.requests, listening=listening)
    outcome = next(job.outcomes())
    assert not whole or job.wait(PATIENCE)
    job.cancel()
    assert outcome.result is not None
    return outcome.result


def decoded(result: Result) -> Counter[str]:
    """Steps and prefills that the worker had done when the result left it."""
    found: Any = result.facts["decoded"]
    return Counter(found)


def test_the_first_chunk_is_the_same_sound_whether_somebody_listens_or_not(frontend: BarkFrontend, pool: Pool) -> None:
    text = f"{FIRST} {PARAGRAPH}"
    heard, unheard = (first_result(pool, frontend, text, listening=listening) for listening in (True, False))
    assert heard.audio.tobytes() == unheard.audio.tobytes()


def test_ten_pages_are_heard_as_soon_as_their_first_sentence_alone(frontend: BarkFrontend, pool: Pool) -> None:
    before, alone = (first_result(pool, frontend, FIRST, listening=True) for _ in range(2))
    first = first_result(pool, frontend, TEN_PAGES, listening=True, whole=False)

    assert len(TEN_PAGES) > 30_000
    assert decoded(first) - decoded(alone) == decoded(alone) - decoded(before)
    assert first.audio.tobytes() == alone.audio.tobytes()
