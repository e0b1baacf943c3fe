"""Continuous batching of the causal stages: each is a batch of rows, refilled as rows become free.

```
                   semantic rows               coarse rows
 take ───────────► [■] [■] [■] [■] ──────────► [■] [■] [■] [■] ──► fine, codec, quality check ──────► answer
  ▲                refilled before a step      refilled before a step │
  │                                                                   │ sounds wrong
  └──────────────────────────── the next attempt ─────────────────────┘
```

A device does one thing at a time. While every coarse row has a chunk, the coarse stage steps; where one is free, the
semantic stage does, its own rows filled first, until it has a chunk for it. So both decode full batches as long as
there are chunks, and fewer than twice the rows are in flight when the next is requested. Each stage keeps its own
cache.

First sound: while an urgent chunk is in flight, its stage steps and no other chunk enters a row of either. It takes the
steps that it would take alone: it waits neither for full batches nor for the prefills of chunks that come after it.

A chunk that nobody wants any more leaves its row before the next step.

With one stage at a time on the device (`offload`), a batch of chunks goes through all stages together.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from voxyard.bark.config import BarkConfig
from voxyard.bark.model import coarse, semantic
from voxyard.bark.model.coarse import CoarseOutcome, CoarseRows, CoarseWork
from voxyard.bark.model.decode import Batch, Restriction
from voxyard.bark.model.noise import Stage, key
from voxyard.bark.model.progress import OnProgress, unwatched
from voxyard.bark.model.semantic import SemanticOptions, SemanticOutcome, SemanticRows, SemanticWork
from voxyard.bark.stages import Stages
from voxyard.bark.voices import VoicePrompt
from voxyard.bark.weights.checkpoint import BarkCheckpoint
from voxyard.speech.requests import Request

ARRIVAL_SECONDS = 0.05  # within which chunks that were asked for together arrive

Entering = TypeVar("Entering")
Leaving = TypeVar("Leaving")
Onward = TypeVar("Onward")
Done = TypeVar("Done")


Take = Callable[[int, bool], Sequence[Entering] | None]  # room, whether to wait → chunks; None: no more will come


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


Each = TypeVar("Each", bound=_Numbered)


@dataclass(frozen=True)
class ChunkWork:
    """One attempt at a chunk, before the causal stages."""

    number: int  # the caller's, for the answer
    request: Request
    voice: VoicePrompt | None
    text: Sequence[int]  # tokens of the tokenizer


@dataclass(frozen=True)
class CausalOutcome:
    """A chunk after the causal stages."""

    number: int
    semantic: SemanticOutcome
    coarse: CoarseOutcome


def step_refilled(
    first: Batch[Entering, Leaving],
    second: Batch[Onward, Done],
    take: Take[Entering],
    onward: Callable[[Leaving], Onward],
    urgent: Callable[[Entering | Onward | Done], bool] = lambda _: False,
    cancelled: Callable[[], Callable[[Entering | Onward], bool] | None] = lambda: None,
) -> Iterator[list[Done]]:
    """Step the two stages until no more chunks come; yields after each step the chunks that are done in both.

    `cancelled` is asked before each step; it gives a test of the chunks that nobody wants any more, if there are any.
    """
    ready: deque[Onward] = deque()
    hurried = urgent_first = 0  # urgent chunks in flight; those of them in the first stage
    while True:
        if (unwanted := cancelled()) is not None:
            removed = sum(map(urgent, first.remove(unwanted)))
            urgent_first -= removed
            hurried -= removed + sum(map(urgent, second.remove(unwanted))) + sum(map(urgent, filter(unwanted, ready)))
            ready = deque(each for each in ready if not unwanted(each))
            yield []  # they are answered before the next chunks are waited for
        while ready and second.free and (urgent(ready[0]) or not hurried):
            second.enter(ready.popleft())
        if second.free and first.free and not hurried:
            idle = not first and not second
            entering = take(first.free, idle)
            if entering is None and idle:
                return
            for work in entering or ():
                first.enter(work)
                hurried += urgent(work)
            urgent_first = hurried
        if urgent_first or (first and second.free and not hurried):
            for each in first.step():
                left = onward(each)
                if urgent(left):
                    urgent_first -= 1
                    ready.appendleft(left)
                else:
                    ready.append(left)
            yield []
        else:
            done = second.step()
            hurried -= sum(map(urgent, done))
            yield sorted(done, key=urgent, reverse=True)


def run_causal_stages(
    checkpoint: BarkCheckpoint,
    stages: Stages,
    config: BarkConfig,
    take: Take[ChunkWork],
    report: OnProgress = unwatched,
    take_cancelled: Callable[[], Collection[int]] = tuple,
) -> Iterator[list[CausalOutcome]]:
    """Run chunks through the causal stages; yields after each step those that are done.

    `take_cancelled` gives the numbers of chunks that nobody wants any more, each once. `report` is called by the
    decode loops: before each token of the batch, and each layer of a prefill.
    """
    layout = checkpoint.layout
    options = SemanticOptions(
        temperature=config.semantic_temperature,
        end_share=config.min_eos_p,
        check_every=config.check_every,
        likely=Restriction(config.semantic_top_k, config.semantic_top_p),
    )
    likely = Restriction(config.coarse_top_k, config.coarse_top_p)
    in_flight: dict[int, ChunkWork] = {}
    semantic_outcomes: dict[int, SemanticOutcome] = {}
    gone: set[int] = set()  # their rows are free once the next are asked for

    def cancelled() -> Callable[[_Numbered], bool] | None:
        for number in gone:
            in_flight.pop(number, None)
            semantic_outcomes.pop(number, None)
        gone.clear()
        gone.update(take_cancelled())
        return (lambda each: each.number in gone) if gone else None

    def entering(room: int, wait: bool) -> list[SemanticWork] | None:
        works = take(room, wait)
        if works is None:
            return None
        in_flight.update({work.number: work for work in works})
        return [_semantic_work(work) for work in works]

    def onward(outcome: SemanticOutcome) -> CoarseWork:
        work = in_flight[outcome.number]
        semantic_outcomes[outcome.number] = outcome
        return CoarseWork(outcome.number, outcome.tokens, work.voice, noise_key(work.request, "coarse"))

    def urgent(each: SemanticWork | CoarseWork | CoarseOutcome) -> bool:
        return in_flight[each.number].request.urgent

    def complete(outcome: CoarseOutcome) -> CausalOutcome:
        del in_flight[outcome.number]
        return CausalOutcome(outcome.number, semantic_outcomes.pop(outcome.number), outcome)

    if not config.offload:
        with stages.semantic() as first, stages.coarse() as second:
            first.report = second.report = report
            first_rows = SemanticRows(first, layout.semantic, options)
            second_rows = CoarseRows(
                second, layout.coarse, config.coarse_temperature, skip=config.skip_prefill, likely=likely
            )
            for done in step_refilled(first_rows, second_rows, entering, onward, urgent, cancelled):
                yield [complete(each) for each in done]
        return
    while (works := entering(config.rows, True)) is not None:
        if 0 < len(works) < config.rows:
            time.sleep(ARRIVAL_SECONDS)
            works += entering(config.rows - len(works), False) or []
        outcomes: list[SemanticOutcome] = []
        coarse_outcomes: list[CoarseOutcome] = []
        with stages.semantic() as decoder:
            decoder.report = report
            semantic.speak(decoder, layout.semantic, works, options, outcomes.append)
        with stages.coarse() as decoder:
            decoder.report = report
            coarse.speak(
                decoder,
                layout.coarse,
                [onward(each) for each in _without(cancelled(), outcomes)],
                config.coarse_temperature,
                coarse_outcomes.append,
                skip=config.skip_prefill,
                likely=likely,
            )
        yield [complete(each) for each in _without(cancelled(), coarse_outcomes)]


def _without(unwanted: Callable[[_Numbered], bool] | None, chunks: Sequence[Each]) -> list[Each]:
    return [each for each in chunks if unwanted is None or not unwanted(each)]


def noise_key(request: Request, stage: Stage) -> tuple[int, int]:
    """Random key of a request's noise in a stage."""
    return key(request.seed, request.chunk, request.attempt, stage)


def _semantic_work(work: ChunkWork) -> SemanticWork:
    voice = work.voice
    history = None if voice is None else voice.semantic_prompt if voice.manner is None else voice.manner
    return SemanticWork(work.number, work.text, history, noise_key(work.request, "semantic"))
