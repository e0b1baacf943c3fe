"""A session that answers from a recording of `voxyard exporter --record`, in place of the driver.

Each call gets the answers of its function and arguments in their order, the last one for ever. What was never asked is
not supported.
"""

from __future__ import annotations

import ctypes
import json
import threading
import zlib
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

from voxyard.host.nvml import Session
from voxyard.telemetry.recording import FORMAT

_SAMPLES = "nvmlDeviceGetSamples"


class ReplayedSession(Session):
    """The driver of a recording. A call that had not returned when it ended never returns."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        head, *lines = read(path)
        assert head["recording"] == FORMAT
        self._answers: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._last: dict[str, dict[str, Any]] = {}
        for line in lines:
            self._answers[_key(line["call"], line["arguments"])].append(line)
            self._last[_key(line["call"], line["arguments"][:1])] = line
        self._lock = threading.Lock()

    def _call(self, name: str, *arguments: Any) -> Any:
        self.calling[threading.get_ident()] = name, 0.0
        plain = [_plain(each) for each in arguments]
        with self._lock:
            answers = self._answers[_key(name, plain)]
            if answers:
                line = answers[0] if len(answers) == 1 else answers.popleft()
            elif name == _SAMPLES:  # since a time at which the recording ended
                line = self._last[_key(name, plain[:1])]
            else:
                line = {"code": pynvml.NVML_ERROR_NOT_SUPPORTED}  # it was never asked
        if "code" in line:
            raise pynvml.NVMLError(line["code"])
        if "answer" not in line:
            threading.Event().wait()
        return _value(line["answer"])


def read(path: Path) -> list[dict[str, Any]]:
    """Lines of a recording; of one that was cut off, those that are whole."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = zlib.decompressobj(wbits=31).decompress(data)  # 31: gzip; as far as it goes, its end may be missing
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _key(name: str, arguments: list[Any]) -> str:
    return json.dumps([name, *arguments])


def _plain(value: Any) -> Any:
    if isinstance(value, ctypes._Pointer):
        return {"handle": (ctypes.cast(value, ctypes.c_void_p).value or 0) - 1}
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    match kind:
        case "handle":
            return ctypes.cast(ctypes.c_void_p(content + 1), pynvml.c_nvmlDevice_t)
        case "union":
            return pynvml.c_nvmlValue_t.from_buffer_copy(bytes.fromhex(content))
        case "struct":
            return SimpleNamespace(**{name: _value(each) for name, each in content.items()})
        case "tuple":
            return tuple(_value(each) for each in content)
        case _:
            return content.encode("latin-1")
