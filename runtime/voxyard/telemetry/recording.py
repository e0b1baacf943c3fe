"""Recording of the driver's answers: a JSON line for each NVML call, for tests on cards that are not at hand.

The first line says what made it. Each other one has the call's begin (seconds of the recording), its duration,
function, arguments, and the answer or the code of its refusal (nvmlReturn_t). A call that hung at the end has
neither. Where the exporter was killed, the last line may be cut off, and of `.gz` the end is missing: what was flushed
can be read all the same. Handles are numbers in the order in which they came. Names of processes are left out.
"""

from __future__ import annotations

import ctypes
import gzip
import importlib.metadata
import json
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TextIO

import pynvml

from voxyard import __version__
from voxyard.host.nvml import Session
from voxyard.telemetry.errors import TelemetryError

log = logging.getLogger("voxyard.telemetry")

FORMAT = 1
_FLUSH_SECONDS = 1.0  # of the recording that a kill may cost
_HANGS_SECONDS = 1.0  # of a call under way at the end; a shorter one is left out
_HANDLES = (pynvml.c_nvmlDevice_t, pynvml.c_nvmlEventSet_t, pynvml.c_nvmlGpmSample_t)
_PRIVATE = {"nvmlSystemGetProcessName": "process"}  # what is written in place of an answer


class Recording:
    """File of a recording; `.gz` at the end of its name compresses it. A context: the file is complete at its end.

    `problem` is why it could not be written to its end; calls go on all the same. `answered`: the driver has said
    anything at all.
    """

    def __init__(self, path: Path, *, interval: float) -> None:
        """Makes the folder too, and says so. Raises TelemetryError where the file exists or cannot be made."""
        self.path, self.calls, self.answered = path, 0, False
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._handles: dict[int, int] = {}
        self._pending: dict[int, dict[str, Any]] = {}  # by thread
        self._begun = self._flushed = time.monotonic()
        self._folders: list[Path] = []  # made for it, the deepest first
        try:
            self._make_folder()
            self._file: TextIO | None = _created(path)
        except FileExistsError:
            raise TelemetryError(f"--record {path}: it is there already: choose another name, or remove it") from None
        except OSError as error:
            self._remove_folders()
            raise TelemetryError(
                f"--record {path}: it cannot be made ({error.strerror}): choose a folder that can be written"
            ) from error
        self._write(
            {
                "recording": FORMAT,
                "voxyard": __version__,
                "nvidia-ml-py": importlib.metadata.version("nvidia-ml-py"),
                "begun": round(time.time(), 3),
                "interval": interval,
            }
        )

    @property
    def seconds(self) -> float:
        """Time since it began."""
        return time.monotonic() - self._begun

    def session(self) -> Session:
        """A new session whose calls are recorded."""
        return RecordedSession(self)

    def begin(self, function: str, arguments: tuple[Any, ...]) -> None:
        """A call of this thread begins."""
        with self._lock:
            self._pending[threading.get_ident()] = {
                "at": round(self.seconds, 6),
                "call": function,
                "arguments": [self._plain(each) for each in arguments],
            }

    def end(self, *, code: int = 0, answer: Any = None) -> None:
        """The call of this thread has returned."""
        with self._lock:
            line = self._pending.pop(threading.get_ident())
            line["seconds"] = round(self.seconds - line["at"], 6)
            if code:
                line["code"] = code
            else:
                self.answered |= line["call"] != "nvmlShutdown"
                line["answer"] = _PRIVATE.get(line["call"]) or self._plain(answer)
            self._write(line)
            self.calls += 1

    def remove(self) -> None:
        """Leaves no file, and no folder that was made for it: there is nothing in it."""
        self.path.unlink(missing_ok=True)
        self._remove_folders()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for line in self._pending.values():
                if (seconds := round(self.seconds - line["at"], 6)) >= _HANGS_SECONDS:
                    self._write(line | {"seconds": seconds})
            if self._file is not None:
                try:
                    self._file.close()
                except OSError as error:
                    self._fail(error)
            self._file = None

    def _make_folder(self) -> None:
        for folder in reversed((self.path.parent, *self.path.parent.parents)):
            if not folder.exists():
                folder.mkdir()
                self._folders.insert(0, folder)
        if self._folders:
            log.info("the folder %s was not there, and was made", self.path.parent)

    def _remove_folders(self) -> None:
        for folder in self._folders:
            with suppress(OSError):  # somebody put something into it meanwhile
                folder.rmdir()

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            if (now := time.monotonic()) - self._flushed > _FLUSH_SECONDS:
                self._file.flush()
                self._flushed = now
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what it still held has no room either
                file.close()

    def _plain(self, value: Any) -> Any:
        """JSON form of an argument or an answer; tests/nvml/replay.py reads it."""
        if isinstance(value, _HANDLES):
            address = ctypes.cast(value, ctypes.c_void_p).value or 0
            return {"handle": self._handles.setdefault(address, len(self._handles))}
        if isinstance(value, ctypes.Union):
            return {"union": bytes(value).hex()}
        if isinstance(value, ctypes.Structure):
            return {"struct": {field[0]: self._plain(getattr(value, field[0])) for field in value._fields_}}
        if isinstance(value, tuple):
            return {"tuple": [self._plain(each) for each in value]}
        if isinstance(value, list | ctypes.Array):
            return [self._plain(each) for each in value]
        if isinstance(value, bytes):
            return {"bytes": value.decode("latin-1")}
        if value is None or isinstance(value, str | int | float):
            return value
        return {"struct": {name: self._plain(each) for name, each in vars(value).items()}}  # nvmlFriendlyObject


class RecordedSession(Session):
    """A session whose calls are recorded."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    def _call(self, name: str, *arguments: Any) -> Any:
        self._recording.begin(name, arguments)
        try:
            answer = super()._call(name, *arguments)
        except self._nvml.NVMLError as error:
            self._recording.end(code=error.value)
            raise
        self._recording.end(answer=answer)
        return answer


def _created(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "xt", encoding="utf-8")
    return path.open("x", encoding="utf-8")
