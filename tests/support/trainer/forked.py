"""`voxyard …` and pieces of Python in forks of one process that has imported TensorFlow and used nothing of it.

An import of TensorFlow takes seconds of CPU, and a toy run hardly more: a suite of runs is twice as fast this way. What
a run does is the same. Variables that TensorFlow reads while it is imported are the server's, not the run's. The
loader reads LD_LIBRARY_PATH when a process starts: each value has a server of its own.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

_SERVER = r"""
import json, os, signal, sys, traceback
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
import_tensorflow()
import voxyard.trainer.loop, voxyard.trainer.model.trainable_tts, voxyard.trainer.synthesis, voxyard.cli.train
from voxyard.cli import main
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(asked["cwd"])
        for number, name in enumerate((os.devnull, asked["out"], asked["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
        os.environ.clear()
        os.environ.update(asked["environment"])
        folders = asked["environment"].get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [asked["cwd"], *filter(None, folders)]
        sys.argv = ["voxyard" if asked["source"] is None else "-c", *asked["arguments"]]
        code = 1
        try:
            if asked["source"] is None:
                code = main()
            else:
                exec(asked["source"], {"__name__": "__main__"})
                code = 0
        except SystemExit as ended:
            code = ended.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1 if code else 0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class _Server:
    """The process that forks; one run at a time."""

    def __init__(self, libraries: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            env=os.environ | ({"LD_LIBRARY_PATH": libraries} if libraries else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._folder = tempfile.TemporaryDirectory()
        self._numbers = itertools.count()
        atexit.register(self.close)
        assert self._line() == "ready"

    def run(
        self, source: str | None, arguments: list[str], environment: Mapping[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; after `timeout` seconds the run and its children are killed, and TimeoutExpired is raised."""
        assert self.process.stdin is not None
        number = next(self._numbers)
        out, err = (Path(self._folder.name, f"{number}.{kind}") for kind in ("out", "err"))
        asked = {"source": source, "arguments": arguments, "environment": dict(environment), "cwd": str(cwd)}
        self.process.stdin.write(json.dumps(asked | {"out": str(out), "err": str(err)}) + "\n")
        self.process.stdin.flush()
        child = int(self._line())
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.killpg(child, 9)

        watch = threading.Timer(timeout, kill)
        watch.start()
        try:
            code = int(self._line())
        except BaseException:  # the test's own deadline: the next run must not find this one's answer
            kill()
            self._line()
            raise
        finally:
            watch.cancel()
        said = [path.read_text(encoding="utf-8") for path in (out, err)]
        if late.is_set():
            raise subprocess.TimeoutExpired(arguments, timeout, *said)
        return subprocess.CompletedProcess(["voxyard", *arguments], code, *said)

    def close(self) -> None:
        """End the process; a run that is still going on is killed with it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=120)
        self._folder.cleanup()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


ALONE = """
from voxyard.cli import main
from voxyard.diagnose import other_load
other_load.NOTABLE = 2.0
raise SystemExit(main())
"""
"""A `source` for `run_forked`: voxyard as if nobody else were on the machine, since other tests are."""

_servers: dict[str, _Server] = {}  # by their LD_LIBRARY_PATH


def server_of(libraries: str = "") -> _Server:
    """The server of runs with this LD_LIBRARY_PATH, started where there is none."""
    server = _servers[libraries] = _servers.get(libraries) or _Server(libraries)
    return server


def run_forked(
    *arguments: object,
    environment: Mapping[str, str],
    cwd: Path | None = None,
    timeout: float = 280,
    source: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """`voxyard ARGUMENTS`, or `python -c SOURCE ARGUMENTS`, to its end, with its output as text."""
    server = server_of(environment.get("LD_LIBRARY_PATH", ""))
    return server.run(source, [str(each) for each in arguments], environment, cwd or Path.cwd(), timeout)
