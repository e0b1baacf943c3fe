"""The Bark engine with faults in its stages: its own code runs, and is disturbed where a test has ordered it.

An order is a file `WHAT STAGE` in a folder that all workers know. Whichever worker comes to the middle of that stage
first takes the file away and does what it says: so every order is carried out once.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from voxyard.bark import coarse, codec, engine, fine, semantic, voices
from voxyard.bark.config import BarkConfig
from voxyard.bark.requests import Fault, Request, Result
from voxyard.bark.speaker import Speaker

RESTLESS = 99  # with this seed, a chunk's first tries count as silent: as many as its number's remainder by three
STAGES = ("semantic", "coarse", "fine", "codec")
What = Literal["kill", "stop", "full", "memory"]


def order(folder: Path, what: What, stage: str) -> None:
    """Ask for a fault; once."""
    (folder / f"{what} {stage}").touch()


def open_orders(folder: Path) -> list[str]:
    """What nobody has come to."""
    return sorted(each.name for each in folder.iterdir())


def speaker(settings: Mapping[str, Any]) -> Speaker:
    """The factory that a pool names: BarkConfig's fields, and `orders`, the folder."""
    _disturb(Path(settings["orders"]))
    engine.BarkEngine._once = _judged(engine.BarkEngine._once)  # type: ignore[method-assign]
    config = BarkConfig.model_validate({name: value for name, value in settings.items() if name != "orders"})
    return Speaker(config, voices.load)


def _disturb(folder: Path) -> None:
    """Put the faults into this process: behind the first chunk of a stage, when its work is not handed on yet."""

    def after_first_chunk(stage: str, speak: Callable[..., None], place: int) -> Callable[..., None]:
        def disturbed(*arguments: Any, **named: Any) -> None:
            done = arguments[place]

            def hand_on(outcome: Any) -> None:
                _carry_out(folder, stage)
                done(outcome)

            speak(*arguments[:place], hand_on, *arguments[place + 1 :], **named)

        return disturbed

    def after(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def disturbed(*arguments: Any) -> Any:
            made = work(*arguments)
            _carry_out(folder, stage)
            return made

        return disturbed

    semantic.speak = after_first_chunk("semantic", semantic.speak, 4)
    coarse.speak = after_first_chunk("coarse", coarse.speak, 4)
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


def _judged(once: Callable[..., list[Result]]) -> Callable[..., list[Result]]:
    """The quality gate finds fault with what it is told to, and with what is no sound."""

    def judge(request: Request, result: Result) -> Result:
        facts = result.facts
        silent = request.seed == RESTLESS and facts.attempt < result.chunk % 3
        faults: tuple[Fault, ...] = ("silent",) if silent else ()
        faults += ("not finite",) if "not finite" in facts.faults else ()
        return dataclasses.replace(result, facts=dataclasses.replace(facts, faults=faults))

    def judged(bark: engine.BarkEngine, batch: Sequence[Request]) -> list[Result]:
        return [judge(request, result) for request, result in zip(batch, once(bark, batch), strict=True)]

    return judged
