"""Progress that the engine reports from its loops: in every stage, at every step and layer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from spoken import ListSource

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import WORD_CHECK_SECONDS, BarkEngine
from voxyard.bark.model import codec, fine
from voxyard.bark.model.coarse import CoarseRows
from voxyard.bark.model.semantic import SemanticRows
from voxyard.speech.requests import Request

LAYERS, CODEBOOKS = 2, 6  # of the tiny model; codebooks that the fine stage makes


class Watched(ListSource[Request]):
    """A source that remembers every report."""

    def __init__(self, *chunks: Request) -> None:
        super().__init__(chunks)
        self.pauses: list[float] = []

    def progress(self, pause: float = 0.0) -> None:
        self.pauses.append(pause)


def reports_by_call(monkeypatch: pytest.MonkeyPatch, source: Watched) -> dict[str, list[int]]:
    """Filled while an engine speaks: the reports in each call of a stage's work."""
    found: dict[str, list[int]] = {}

    def watch(owner: Any, name: str, label: str) -> None:
        work = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            before = len(source.pauses)
            made = work(*arguments, **named)
            found.setdefault(label, []).append(len(source.pauses) - before)
            return made

        monkeypatch.setattr(owner, name, watched)

    watch(SemanticRows, "enter", "semantic entry")
    watch(SemanticRows, "step", "semantic")
    watch(CoarseRows, "step", "coarse")
    watch(fine, "speak", "fine")
    watch(codec, "decode", "codec")
    return found


@pytest.mark.parametrize("offload", [False, True])
def test_every_step_and_every_layer_is_reported(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, offload: bool
) -> None:
    engine = BarkEngine(BarkConfig(model=tiny_model, device="cpu", batch_size=2, check_every=16, offload=offload))
    engine.prepare()
    source = Watched(Request(0, "Hello world.", seed=7))
    found = reports_by_call(monkeypatch, source)

    list(engine.speak(source))

    assert set(found) == {"semantic entry", "semantic", "coarse", "fine", "codec"}
    assert found["semantic entry"][0] + found["semantic"][0] == LAYERS + 16
    assert set(found["semantic"][1:]) == {16}
    assert found["coarse"][0] == LAYERS + 60  # the first window is prefilled
    assert found["fine"] == [LAYERS * CODEBOOKS]
    assert found["codec"][0] > 10
    assert Counter(source.pauses).keys() == {0.0}


def test_the_check_of_words_announces_how_long_it_may_take(tiny_model: Path) -> None:
    config = BarkConfig(model=tiny_model, device="cpu", recogniser="recognisers:hello", quality="report")
    engine = BarkEngine(config)
    engine.prepare()
    source = Watched(Request(0, "Hello world.", seed=7))

    list(engine.speak(source))

    assert source.pauses[-1] == WORD_CHECK_SECONDS
    assert Counter(source.pauses)[WORD_CHECK_SECONDS] == 1
