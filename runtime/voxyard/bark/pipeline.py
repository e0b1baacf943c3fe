"""Chunks on their way through the causal stages: each a batch of rows of its own, refilled as rows become free.

```
                   semantic rows               coarse rows
 take ───────────► [■] [■] [■] [■] ──────────► [■] [■] [■] [■] ──► fine, codec, a look at the sound ──► answer
  ▲                refilled before a step      refilled before a step │
  │                                                                   │ sounds wrong
  └──────────────────────────── the next attempt ─────────────────────┘
```

A device does one thing at a time. While every coarse row has a chunk, the coarse stage steps; where one is free, the
semantic stage does, its own rows filled first, until it has a chunk for it. So both decode full batches as long as
there are chunks, and fewer than twice the rows are on their way when the next is asked for. Each stage keeps its own
cache.

With the stages in turn on the device (`offload`), so many chunks as there are rows go through all of them together.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from voxyard.bark.config import BarkConfig
from voxyard.bark.model import coarse, semantic
from voxyard.bark.model.coarse import CoarseOutcome, CoarseRows, CoarseWork
from voxyard.bark.model.noise import key
from voxyard.bark.model.semantic import SemanticOptions, SemanticOutcome, SemanticRows, SemanticWork
from voxyard.bark.requests import Request, Stage
from voxyard.bark.stages import Stages
from voxyard.bark.weights.checkpoint import Checkpoint

ON_THE_WAY = 0.05  # seconds in which chunks that were asked for together arrive

Entering = TypeVar("Entering")
Leaving = TypeVar("Leaving")
Onward = TypeVar("Onward")
Done = TypeVar("Done")
In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")


class Batch(Protocol[In_contra, Out]):
    """A stage's rows."""

    def __len__(self) -> int:
        """Chunks that are not through."""

    @property
    def free(self) -> int:
        """Rows without a chunk."""

    def enter(self, work: In_contra, /) -> None:
        """Give a chunk a free row."""

    def step(self) -> list[Out]:
        """Some tokens for every row; the chunks that are through."""


Take = Callable[[int, bool], Sequence[Entering] | None]  # room, whether to wait → chunks; None: no more will come


@dataclass(frozen=True)
class Work:
    """One try at a chunk."""

    number: int  # the caller's, for the answer
    request: Request
    text: Sequence[int]  # tokens of the tokenizer


@dataclass(frozen=True)
class Sketch:
    """A chunk after the causal stages."""

    number: int
    spoken: SemanticOutcome
    rough: CoarseOutcome


def refilled(
    first: Batch[Entering, Leaving],
    second: Batch[Onward, Done],
    take: Take[Entering],
    onward: Callable[[Leaving], Onward],
) -> Iterator[list[Done]]:
    """Step the two stages until no more chunks come; after each step, the chunks that are through both."""
    ready: deque[Onward] = deque()
    while True:
        while ready and second.free:
            second.enter(ready.popleft())
        if second.free and first.free:
            idle = not first and not second
            entering = take(first.free, idle)
            if entering is None and idle:
                return
            for work in entering or ():
                first.enter(work)
        if first and second.free:
            ready.extend(onward(each) for each in first.step())
            yield []
        else:
            yield second.step()


def sketched(checkpoint: Checkpoint, stages: Stages, config: BarkConfig, take: Take[Work]) -> Iterator[list[Sketch]]:
    """Run chunks through the causal stages; after each step, those that are through."""
    layout = checkpoint.layout
    options = SemanticOptions(
        temperature=config.semantic_temperature, end_share=config.min_eos_p, check_every=config.check_every
    )
    inside: dict[int, Work] = {}
    spoken: dict[int, SemanticOutcome] = {}

    def entering(room: int, wait: bool) -> list[SemanticWork] | None:
        works = take(room, wait)
        if works is None:
            return None
        inside.update({work.number: work for work in works})
        return [_semantic_work(work) for work in works]

    def onward(outcome: SemanticOutcome) -> CoarseWork:
        request = inside[outcome.number].request
        spoken[outcome.number] = outcome
        return CoarseWork(outcome.number, outcome.tokens, request.voice, key_of(request, "coarse"))

    def sketch(rough: CoarseOutcome) -> Sketch:
        del inside[rough.number]
        return Sketch(rough.number, spoken.pop(rough.number), rough)

    if not config.offload:
        with stages.semantic() as first, stages.coarse() as second:
            first_rows = SemanticRows(first, layout.semantic, options)
            second_rows = CoarseRows(second, layout.coarse, config.coarse_temperature, skip=config.skip_prefill)
            for roughs in refilled(first_rows, second_rows, entering, onward):
                yield [sketch(each) for each in roughs]
        return
    while (works := entering(config.batch_size, True)) is not None:
        if 0 < len(works) < config.batch_size:
            time.sleep(ON_THE_WAY)
            works += entering(config.batch_size - len(works), False) or []
        outcomes: list[SemanticOutcome] = []
        roughs = []
        with stages.semantic() as decoder:
            semantic.speak(decoder, layout.semantic, works, options, outcomes.append)
        with stages.coarse() as decoder:
            coarse.speak(
                decoder,
                layout.coarse,
                [onward(each) for each in outcomes],
                config.coarse_temperature,
                roughs.append,
                skip=config.skip_prefill,
            )
        yield [sketch(each) for each in roughs]


def key_of(request: Request, stage: Stage) -> tuple[int, int]:
    """Random key of a request's noise in a stage."""
    return key(request.seed, request.chunk, request.attempt, stage)


def _semantic_work(work: Work) -> SemanticWork:
    voice = work.request.voice
    history = None if voice is None else voice.semantic_prompt
    return SemanticWork(work.number, work.text, history, key_of(work.request, "semantic"))
