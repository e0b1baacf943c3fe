"""The Bark engine with faults in its stages: its own code runs, and is disturbed where a test has ordered it.

An order is a file `WHAT STAGE` in a folder that all workers know. Whichever worker comes to the middle of that stage
first takes the file away and does what it says: so every order is carried out once.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from voxyard.bark.attempts import Attempt, ChunkInFlight
from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.model import codec, fine
from voxyard.bark.model.coarse import CoarseRows
from voxyard.bark.model.semantic import SemanticRows
from voxyard.bark.quality import Fault

RESTLESS = 99  # with this seed, a chunk's first tries count as silent: as many as its number's remainder by three
STAGES = ("semantic", "coarse", "fine", "codec")
What = Literal["kill", "stop", "full", "memory"]


def order(folder: Path, what: What, stage: str) -> None:
    """Ask for a fault; once."""
    (folder / f"{what} {stage}").touch()


def open_orders(folder: Path) -> list[str]:
    """Orders that nobody has come to."""
    return sorted(each.name for each in folder.iterdir())


def create(settings: Mapping[str, Any]) -> BarkEngine:
    """The factory that a pool names: BarkConfig's fields, and `orders`, the folder."""
    _disturb(Path(settings["orders"]))
    BarkEngine._attempt = _judged(BarkEngine._attempt)  # type: ignore[method-assign]
    config = BarkConfig.model_validate({name: value for name, value in settings.items() if name != "orders"})
    return BarkEngine(config)


def _disturb(folder: Path) -> None:
    """Put the faults into this process: behind the first chunk of a stage, when its work is not handed on yet."""

    def after_first_chunk(stage: str, step: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        def disturbed(rows: Any) -> list[Any]:
            done = step(rows)
            if done:
                _carry_out(folder, stage)
            return done

        return disturbed

    def after(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def disturbed(*arguments: Any) -> Any:
            made = work(*arguments)
            _carry_out(folder, stage)
            return made

        return disturbed

    SemanticRows.step = after_first_chunk("semantic", SemanticRows.step)  # type: ignore[assignment, method-assign]
    CoarseRows.step = after_first_chunk("coarse", CoarseRows.step)  # type: ignore[assignment, method-assign]
    fine.speak = after("fine", fine.speak)
    codec.decode = after("codec", codec.decode)


def _carry_out(folder: Path, stage: str) -> None:
    for path in sorted(folder.glob(f"* {stage}")):
        try:
            path.unlink()
        except FileNotFoundError:
            continue  # another worker was faster
        match path.name.split()[0]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "full":
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 MiB")
            case "memory":
                raise MemoryError("no room on this machine")


def _judged(attempt: Callable[..., Attempt]) -> Callable[..., Attempt]:
    """The quality gate finds fault with what it is told to, and with what is no sound."""

    def judged(bark: BarkEngine, chunk: ChunkInFlight, *about: Any) -> Attempt:
        made, request = attempt(bark, chunk, *about), chunk.request
        silent = request.seed == RESTLESS and made.facts.attempt < request.chunk % 3
        faults: tuple[Fault, ...] = ("silent",) if silent else ()
        faults += ("not finite",) if "not finite" in made.facts.faults else ()
        return dataclasses.replace(made, facts=dataclasses.replace(made.facts, faults=faults))

    return judged
