"""Advice: what to change, as flags to copy, each with the gain that the measured stage times predict. No TensorFlow."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from voxyard.diagnose.profile.facts import AdviceFacts
from voxyard.diagnose.profile.remedies import WORTH, Change, Option, options
from voxyard.diagnose.profile.verdict import WAIT_SHARE


@dataclass(frozen=True)
class Recommendation:
    """One piece of advice.

    `gain` is clips a second after ÷ before; where `bound` is true, it is the most that is possible, since what the
    change does to a stage was not measured; None where nothing can be said. `command` is what to type, a line each.
    """

    title: str
    flags: tuple[str, ...]
    command: tuple[str, ...]
    gain: float | None
    bound: bool
    seconds_per_step: float | None
    then: str  # what the run is bound by afterwards
    why: str

    def gain_text(self) -> str:
        """The gain in words."""
        if self.gain is None:
            return "gain not predicted"
        if self.bound:
            return f"at most {self.gain:.2f}×"
        return f"{self.gain:.2f}× predicted"

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)


def advise(facts: AdviceFacts) -> tuple[Recommendation, ...]:
    """Advice whose gain is worth it, predicted gains before bounds, the greatest first.

    The gain of a change is gain = (t₀ ÷ n₀) ÷ (t₁ ÷ n₁): t is the ideal step of `Costs.step`, from the stages measured
    alone, before and after; n are its clips. The run is taken to stay as far from its ideal as it is now, so that a
    step is expected to take `overlapped` · (n₁ ÷ n₀) ÷ gain seconds.

    Where other programs took the cores or GPUs that a change is about, no gain is predicted; and while the model hardly
    waits, nothing is known then that such a change would cure: it is left out.
    """
    found = []
    for option in options(facts):
        disturbed = _disturbed(facts, option)
        if disturbed and facts.data_wait_share < WAIT_SHARE:
            continue
        gain = option.after.gain_over(facts.costs) if option.most is None else option.most
        if gain >= WORTH or option.always:
            found.append(_recommendation(facts, option, None if disturbed or math.isinf(gain) else gain))
    return tuple(sorted(found, key=lambda each: (each.gain is None, each.bound, -(each.gain or 0.0))))


def _disturbed(facts: AdviceFacts, option: Option) -> bool:
    """True where others had a part in the times that the gain follows from.

    CPU devices compute on the cores, and so do reading threads: with GPU devices a gain depends on free cores where
    loading is the longest lane before or after.
    """
    before, after, on_gpus = facts.costs, option.after, facts.host.kind == "gpu"
    reading = any(each.load >= each.step for each in (before, after))
    return facts.others.spoils(cores=reading or not on_gpus, gpus=on_gpus)


def _recommendation(facts: AdviceFacts, option: Option, gain: float | None) -> Recommendation:
    samples = option.after.samples / facts.costs.samples
    return Recommendation(
        title=option.title,
        flags=tuple(_words(option.change.set)),
        command=(*option.change.before, shlex.join(["voxyard", *_changed(facts.words, option.change)])),
        gain=gain,
        bound=option.bound,
        seconds_per_step=None if option.bound or gain is None else facts.overlapped * samples / gain,
        then=option.after.bound_by,
        why=option.why,
    )


def _words(flags: Mapping[str, str | None]) -> Iterator[str]:
    for flag, value in flags.items():
        yield from (flag,) if value is None else (flag, value)


def _changed(words: tuple[str, ...], change: Change) -> list[str]:
    """The command line with the change applied."""
    gone = {*change.set, *change.drop}
    kept: list[str] = []
    position = 0
    while position < len(words):
        has_value = position + 1 < len(words) and not words[position + 1].startswith("--")
        step = 2 if words[position].startswith("--") and has_value else 1
        if words[position] not in gone:
            kept += words[position : position + step]
        position += step
    return [*kept, *_words(change.set)]
