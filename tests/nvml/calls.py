"""A process that makes NVML calls through nvidia-ml-py, one line of standard input each: [function, argument, …]."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from typing import Any

import pynvml

_kept: dict[str, Any] = {}  # handles, by the name that the test gave


def plain(value: Any) -> Any:
    """JSON form of an answer."""
    if isinstance(value, ctypes.c_void_p):
        return value.value
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    if isinstance(value, ctypes.Union):
        return bytes(value)[:8].hex()
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, list | tuple | ctypes.Array):
        return [plain(each) for each in value]
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return {name: plain(each) for name, each in vars(value).items()}
    return value.decode() if isinstance(value, bytes) else value


def argument(value: Any) -> Any:
    """A handle that was kept ("@name"), a structure to be filled ("new TYPE"), or the value itself."""
    if isinstance(value, str) and value.startswith("@"):
        return _kept[value[1:]]
    if isinstance(value, str) and value.startswith("new "):
        return getattr(pynvml, value[4:])()
    if isinstance(value, list):  # of fields, some with a scope
        return [tuple(each) if isinstance(each, list) else each for each in value]
    return value


def call(function: str, *arguments: Any) -> Any:
    """The answer, or the code of a refusal; "NAME:function" keeps the answer, a handle, under this name."""
    keep, _, name = function.rpartition(":")
    values = [argument(each) for each in arguments]
    filled = [each for each in values if isinstance(each, ctypes.Structure)]
    try:
        answer = getattr(pynvml, name)(*[ctypes.byref(each) if each in filled else each for each in values])
    except pynvml.NVMLError as error:
        return {"code": error.value, "text": str(error)}
    answer = filled[0] if filled else answer
    if keep:
        _kept[keep] = answer
    return {"answer": plain(answer)}


def together(*calls: list[Any]) -> Any:
    """Calls in threads of their own, and the seconds that passed until the last came back."""
    answers: list[Any] = [None] * len(calls)

    def run(position: int) -> None:
        answers[position] = call(*calls[position])

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(calls))]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"answers": answers, "seconds": time.monotonic() - begun}


def main() -> None:
    """Answers until standard input ends."""
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        before, begun = time.time(), time.monotonic()
        answer = together(*arguments) if function == "together" else call(function, *arguments)
        print(
            json.dumps({"seconds": time.monotonic() - begun, "before": before, "now": time.time()} | answer), flush=True
        )


if __name__ == "__main__":
    main()
