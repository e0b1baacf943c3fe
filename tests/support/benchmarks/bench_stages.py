"""Clock of a benchmark, and the time of a contestant by stage: each call names the stage that runs from there on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

STAGES = ("semantic", "coarse prefill", "coarse decode", "fine", "codec")


@dataclass(frozen=True)
class Timer:
    """Clock of a device: CPU seconds of this thread where it works alone, else wall-clock seconds with the GPU idle.

    On an idle core CPU seconds are wall-clock seconds; the turns of other programs on the core add nothing to them.
    """

    device: str

    def now(self) -> float:
        """Seconds, after the device has done its work."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        elif torch.get_num_threads() == 1:
            return time.thread_time()
        return time.perf_counter()

    def of(self, run: Callable[[], Any]) -> float:
        """Seconds of one run."""
        began = self.now()
        run()
        return self.now() - began


@dataclass
class StageTimes:
    """Seconds by stage, and tokens that were fed in prefills."""

    timer: Timer
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    prefilled: int = 0
    _stage: str | None = None
    _since: float = 0.0

    def enter(self, stage: str | None) -> None:
        """Account time to this stage from here on; None: to no stage."""
        if stage == self._stage:
            return
        now = self.timer.now()
        if self._stage is not None:
            self.seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now

    def feed(self, network: str, rows: int, length: int) -> None:
        """Account a call of a causal network that is fed so many tokens a row: a prefill where it is more than one."""
        if length > 1:
            self.prefilled += rows * length
        self.enter(network if network == "semantic" else "coarse prefill" if length > 1 else "coarse decode")

    @property
    def shares(self) -> dict[str, float]:
        """Share of each stage in the whole time; empty where none was accounted."""
        whole = sum(self.seconds.values())
        return {stage: self.seconds[stage] / whole for stage in STAGES} if whole else {}


@contextmanager
def hooked(
    modules: Mapping[str, Any], times: StageTimes, fed: Callable[[tuple[Any, ...], Any], tuple[int, int]]
) -> Iterator[None]:
    """Account the calls of torch modules, by name of the stage; `fed` is (rows, tokens) of a causal module's call."""

    def hook(stage: str) -> Callable[[Any, tuple[Any, ...], Any], None]:
        def called(_: Any, given: tuple[Any, ...], named: Any) -> None:
            if stage in ("semantic", "coarse"):
                times.feed(stage, *fed(given, named))
            else:
                times.enter(stage)

        return called

    handles = [module.register_forward_pre_hook(hook(name), with_kwargs=True) for name, module in modules.items()]
    times.enter("semantic")
    try:
        yield
    finally:
        times.enter(None)
        for handle in handles:
            handle.remove()
