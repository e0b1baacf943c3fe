"""Timeline of readers, data device and model device while they overlapped, and their idle times.

Times are seconds of one clock. No TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voxyard.diagnose.profile.stages import Figures, figures

Span = tuple[float, float]  # begin, end

GAP_SECONDS = 0.001
"""A wait for data shorter than this is the handing over of a batch, and no gap."""


@dataclass(frozen=True)
class StepSpan:
    """One step of the model device: asks for a batch, has it, has trained on it."""

    asked: float
    got: float
    done: float
    traced: bool = False  # traced or compiled in this step: it counts nowhere

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.done - self.asked

    @property
    def wait(self) -> float:
        """Of it, the wait for data."""
        return self.got - self.asked


@dataclass(frozen=True)
class Timeline:
    """The measured part of an overlapped run. `reads` are batches made by the reading threads, in any order."""

    reads: tuple[Span, ...]
    data: tuple[Span, ...]  # features and transfer of a batch, by the thread that drives the data device
    steps: tuple[StepSpan, ...]

    @property
    def begin(self) -> float:
        """Time at which the first measured step asked for its batch."""
        return self.steps[0].asked

    @property
    def end(self) -> float:
        """Time at which the last measured step was done."""
        return self.steps[-1].done

    def document(self) -> dict[str, Any]:
        """Everything as plain data, in microseconds' precision, counted from the first measured step."""
        zero = self.begin

        def shown(spans: Iterable[Span]) -> list[list[float]]:
            return [[round(begin - zero, 6), round(end - zero, 6)] for begin, end in spans]

        return {
            "reads": shown(self.reads),
            "data": shown(self.data),
            "steps": [[round(each - zero, 6) for each in (step.asked, step.got, step.done)] for step in self.steps],
        }


@dataclass(frozen=True)
class Gaps:
    """Idle time of the devices. Shares are of the measured time."""

    model_waits: Figures  # the model device's waits for data that are longer than GAP_SECONDS
    model_share: float  # all waits for data
    longest_at_step: int | None  # number of the measured step (from 0) with the longest wait
    data_busy_share: float
    data_starved_share: float  # the data device waits for a batch from the host
    data_blocked_share: float  # the data device waits for a free slot of the ring: the model is slower
    readers_busy: float  # mean number of reading threads at work

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        waits = self.model_waits
        figures = {name: getattr(waits, name) for name in ("count", "mean", "p95", "max")}
        return asdict(self) | {"model_waits": figures | {"sum": waits.mean * waits.count}}


@dataclass(frozen=True)
class Recorded:
    """All that happened in an overlapped run, in order, its beginning included, before anything was left out."""

    reads: Sequence[Span]
    data: Sequence[Span]
    steps: Sequence[StepSpan]
    slots: int  # of the ring


def measured_part(recorded: Recorded, skip: int) -> Timeline:
    """The timeline without the first `skip` steps, in which the buffers settle."""
    steps = tuple(recorded.steps[skip:])
    begin, end = steps[0].asked, steps[-1].done
    return Timeline(_within(recorded.reads, begin, end), _within(recorded.data, begin, end), steps)


def gaps(recorded: Recorded, timeline: Timeline) -> Gaps:
    """Idle time of the devices within `timeline`, a part of what was `recorded`.

    The ring of S slots lets batch i (from 0) be begun when the batch i − S is given back, which the model device does
    as it asks for the next one: at ask number i − S + 1. What the data device idles after both that moment and the end
    of its batch before is a wait for the host; what it idles before it, a wait for a slot.
    """
    begin, end = timeline.begin, timeline.end
    whole = max(end - begin, 1e-9)
    waits = [(step.wait, number) for number, step in enumerate(timeline.steps) if not step.traced]
    long = [wait for wait, _ in waits if wait > GAP_SECONDS]
    counted = math.fsum(step.seconds for step in timeline.steps if not step.traced)
    starved, blocked = [], []
    for number in range(1, len(recorded.data) + 1):
        idle_from = recorded.data[number - 1][1]
        starts = recorded.data[number][0] if number < len(recorded.data) else max(end, idle_from)
        ask = number - recorded.slots + 1
        asked = recorded.steps[ask].asked if ask < len(recorded.steps) else starts
        free = min(max(asked if ask > 0 else idle_from, idle_from), starts)
        blocked.append((idle_from, free))
        starved.append((free, starts))
    return Gaps(
        model_waits=figures(long),
        model_share=math.fsum(wait for wait, _ in waits) / counted if counted else 0.0,
        longest_at_step=max(waits)[1] if long else None,
        data_busy_share=overlap(timeline.data, begin, end) / whole,
        data_starved_share=overlap(starved, begin, end) / whole,
        data_blocked_share=overlap(blocked, begin, end) / whole,
        readers_busy=overlap(timeline.reads, begin, end) / whole,
    )


def overlap(spans: Iterable[Span], begin: float, end: float) -> float:
    """Seconds of the spans that lie between `begin` and `end`, summed."""
    return math.fsum(max(0.0, min(one[1], end) - max(one[0], begin)) for one in spans)


def _within(spans: Iterable[Span], begin: float, end: float) -> tuple[Span, ...]:
    return tuple(sorted((one for one in spans if one[1] > begin and one[0] < end), key=lambda one: one[0]))
