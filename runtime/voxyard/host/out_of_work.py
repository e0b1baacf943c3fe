"""Sick GPUs that are out of work: one file of the host, which the exporter writes and each program with work obeys.

It outlives containers and reboots. A GPU works again once its operator returns it, or once it was reset and has passed
the self-test (`voxyard validate --gpu`).
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from voxyard.host import nvml
from voxyard.host.durable_files import locked, write_file
from voxyard.host.errors import HostError
from voxyard.host.file_watcher import WatchedFile
from voxyard.host.nvml import Gpu
from voxyard.host.xid_catalog import CATALOG

log = logging.getLogger("voxyard.host")

VARIABLE = "VOXYARD_OUT_OF_WORK"
"""Names the file to the programs of a host; without it no GPU is taken out of work."""

SELF_TEST = (sys.executable, "-P", "-m", "voxyard", "validate", "--gpu")
"""Command that tests the GPU whose UUID follows; it says in its last line what it found."""

LEAST_SHARE = 4
"""One of so many GPUs may be out of work where no plan says how many, and one at least."""

NO_ACTION = "none"
"""What a driver that can ask for a recovery says of a healthy GPU."""
_OF_THE_FABRIC = "recover_imex_domain"  # of memory that hosts share: the GPU itself works

MEND = "remove the file, and look at the GPUs"
"""What to do where the file cannot be used."""

_EXPECTED = f"expected the marks of sick GPUs: {MEND}"
_BOOT = Path("/proc/sys/kernel/random/boot_id")

State = Literal["out", "reset", "kept"]
"""Out of work; reset, and out until a self-test passes; sick, and kept at work as too many are out already."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A sick GPU, and why it is."""

    uuid: str
    gpu: int  # nvidia-smi's index, when it was marked
    cause: str
    cure: str
    state: State = "out"
    since: float = field(default_factory=time.time)  # Unix time
    boot: str = ""  # of the host, when it was marked
    action: str | None = None  # that the driver asked for; it asks for none after a reset

    @property
    def works(self) -> bool:
        """True where it may have work all the same."""
        return self.state == "kept"

    def __str__(self) -> str:
        what = {"out": "is out of work", "reset": "was reset and waits for its self-test", "kept": "is sick"}
        return f"GPU {self.gpu} ({self.uuid}) {what[self.state]}: {self.cause}; {self.cure}"


def sickness(xids: Collection[int], recovery_action: str | None) -> tuple[str, str] | None:
    """(cause, cure) of what ends the work on a GPU: critical Xids of the catalogue, or a recovery that it needs."""
    for number in sorted(xids):
        found = CATALOG.get(number)
        if found is not None and found.severity == "critical":
            return f"Xid {number}: {found.meaning}", found.action
    if recovery_action in (None, NO_ACTION, _OF_THE_FABRIC):
        return None
    return f"the driver asks for its recovery: {recovery_action}", f"do what it asks for ({recovery_action})"


def parse_marks(text: str, place: str) -> dict[str, Mark]:
    """The marks of a file's text, by UUID. Raises HostError, which names the place and what is wrong there."""
    try:
        marks = [Mark(**each) for each in json.loads(text)["gpus"]]
        if all(map(_is_whole, marks)):
            return {mark.uuid: mark for mark in marks}
        wrong = "it has something else"
    except json.JSONDecodeError as error:
        wrong = f"it is not JSON ({error})"
    except (ValueError, LookupError, TypeError):
        wrong = "it has something else"
    raise HostError(f"{place}: {wrong}: {_EXPECTED}")


def _is_whole(mark: Any) -> bool:
    """True where a mark that was read has values of its kinds."""
    texts = all(isinstance(each, str) for each in (mark.uuid, mark.cause, mark.cure))
    return texts and isinstance(mark.gpu, int) and mark.state in get_args(State)


def boot() -> str:
    """Id of the host's boot; empty where the kernel tells none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class OutOfWork:
    """The file of sick GPUs; it is read anew when it was replaced, and written under a lock of its directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = WatchedFile(path)
        self._problem = ""
        self.known: Mapping[str, Mark] = {}  # by UUID, when the file could last be used

    @classmethod
    def of_host(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """That of this host, as its deployment names it; None where it has none."""
        path = environment.get(VARIABLE)
        return cls(Path(path)) if path else None

    def marks(self) -> Mapping[str, Mark]:
        """The sick GPUs by UUID. Raises HostError where the file cannot be used."""
        if self._file.replaced():
            try:
                self.known, self._problem = self._read(), ""
            except HostError as error:
                self._problem = str(error)
        if self._problem:
            raise HostError(self._problem)
        return self.known

    def of(self, gpu: Gpu) -> Mark | None:
        """Why a GPU, or the one that a MIG instance is part of, is to have no work; None where it may.

        Raises HostError.
        """
        self.marks()
        return self.last_of(gpu)

    def last_of(self, gpu: Gpu) -> Mark | None:
        """What `of` says, by the marks that are known, whatever the file is now."""
        mark = self.known.get(gpu.mig_gpu or gpu.uuid)
        return None if mark is None or mark.works else mark

    def put(self, mark: Mark) -> None:
        """Marks a GPU, in place of its mark before. Raises HostError."""
        self._change(lambda marks: marks | {mark.uuid: mark})

    def give_back(self, uuid: str) -> Mark | None:
        """Lets a GPU work again; its mark, None where it had none. Raises HostError."""
        before = self.marks().get(uuid)
        self._change(lambda marks: {name: mark for name, mark in marks.items() if name != uuid})
        return before

    def tested(self, mark: Mark, problem: str | None) -> None:
        """The self-test after a reset has passed, or found a problem, and the GPU stays out. Raises HostError."""
        if problem is None:
            self.give_back(mark.uuid)
        else:
            cure = "look at its card, or return it by hand"
            cause = f"its self-test after a reset failed: {problem}"
            self.put(replace(mark, state="out", cause=cause, cure=cure, boot=boot(), action=None))

    def _read(self) -> dict[str, Mark]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HostError(f"{self.path}: {error.strerror}: {_EXPECTED}") from error
        return parse_marks(text, str(self.path))

    def _change(self, function: Callable[[dict[str, Mark]], dict[str, Mark]]) -> None:
        try:
            with locked(self.path.parent, wait=True):
                marks = function(self._read())
                document = json.dumps({"gpus": [asdict(mark) for mark in marks.values()]}, indent=1)
                write_file(self.path, document, mode=0o644)
        except OSError as error:
            raise HostError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self.known, self._problem = marks, ""


def take_out_by_hand(named: str) -> str:
    """Takes a GPU, an index or a UUID, out of work on this host; what was done. Raises HostError."""
    gpu = next((gpu for gpu in nvml.every_gpu() if named in (gpu.uuid, str(gpu.index))), None)
    if gpu is None:
        raise HostError(f"there is no GPU {named}: expected an index or a UUID of `voxyard gpus`")
    mark = Mark(gpu.uuid, gpu.index, "its operator took it out", "return it: voxyard gpus --return", boot=boot())
    _of_this_host().put(mark)
    return str(mark)


def give_back_by_hand(named: str) -> str:
    """Lets a GPU, an index or a UUID, work again on this host; what was done. Raises HostError."""
    file = _of_this_host()
    mark = next((each for each in file.marks().values() if named in (each.uuid, str(each.gpu))), None)
    if mark is None:
        marked = ", ".join(f"{each.gpu} ({each.uuid})" for each in file.marks().values()) or "none"
        raise HostError(f"GPU {named} is not marked as sick: {marked} on this host")
    file.give_back(mark.uuid)
    return f"GPU {mark.gpu} ({mark.uuid}) may work again"


def _of_this_host() -> OutOfWork:
    file = OutOfWork.of_host()
    if file is None:
        raise HostError(f"this host has no file of sick GPUs: name it with {VARIABLE}")
    return file


class SickDevices:
    """What a program with work asks: whether a GPU may have it. One that was reset is tested first, apart."""

    def __init__(self, file: OutOfWork) -> None:
        self._file = file
        self._tests: dict[str, subprocess.Popen[str]] = {}
        self._problem = ""

    def why(self, gpu: Gpu, *, test: bool = False, wait: bool = False) -> str | None:
        """Why this GPU is to have no work; None where it may.

        With `test` one that was reset is tested: this returns at once, or with `wait` after the test.
        """
        try:
            mark = self._file.of(gpu)
            if mark is not None and mark.state == "reset" and test and self._end_of_test(mark, wait=wait):
                mark = self._file.of(gpu)
        except HostError as error:
            if str(error) != self._problem:
                log.error("which GPUs are out of work is not known: %s", error)
            self._problem = str(error)
            mark = self._file.last_of(gpu)
        return None if mark is None else str(mark)

    def _end_of_test(self, mark: Mark, *, wait: bool) -> bool:
        """Begins the self-test where none is under way; True where it has ended."""
        running = self._tests.get(mark.uuid)
        if running is None:
            log.info("GPU %d (%s): testing it after its reset", mark.gpu, mark.uuid)
            running = self._tests[mark.uuid] = subprocess.Popen(
                [*SELF_TEST, mark.uuid], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True,
            )  # fmt: skip
        if not wait and running.poll() is None:
            return False
        said, _ = running.communicate()
        del self._tests[mark.uuid]
        lines = said.strip().splitlines() or [f"exit code {running.returncode}"]
        problem = None if running.returncode == 0 else lines[-1]
        log.log(logging.INFO if problem is None else logging.ERROR, "GPU %d (%s): %s", mark.gpu, mark.uuid, lines[-1])
        self._file.tested(mark, problem)
        return True
