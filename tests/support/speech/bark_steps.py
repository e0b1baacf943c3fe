"""The Bark engine that tells with each result how much was decoded in its process up to then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from voxyard.bark import engine
from voxyard.bark.engine import BarkEngine
from voxyard.bark.model import codec, fine
from voxyard.bark.model.decode import Decoder
from voxyard.speech.engine import Answer
from voxyard.speech.requests import Result


def create(settings: Mapping[str, Any]) -> BarkEngine:
    """The factory that a pool names; the settings are the fields of BarkConfig."""
    _count(Decoder, "prefill", "prefills", lambda arguments: len(arguments[1]))
    _count(Decoder, "run", "steps", lambda arguments: len(arguments[2]))
    _count(fine, "speak", "fine", lambda _: 1)
    _count(codec, "decode", "codec", lambda _: 1)
    made = engine.create(settings)
    made.speak = lambda source: _telling(BarkEngine.speak(made, source))  # type: ignore[method-assign]
    return made


_COUNTED: Counter[str] = Counter()


def _count(owner: Any, name: str, label: str, of: Any) -> None:
    work = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        _COUNTED[label] += of(arguments)
        return work(*arguments, **named)

    setattr(owner, name, counted)


def _telling(answers: Iterator[Answer]) -> Iterator[Answer]:
    for request, answer in answers:
        if isinstance(answer, Result):
            yield request, replace(answer, facts={**answer.facts, "decoded": dict(_COUNTED)})
        else:
            yield request, answer
