"""A process that forks: what takes long to import is imported once, and each run is a fork of it."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_SERVER = r"""
import json, os, sys, traceback
begun = {}
exec(sys.argv[1], begun)
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
        sys.argv = asked["words"]
        code = 1
        try:
            if asked["source"] is None:
                code = begun["main"]()
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


class Forks:
    """The process that forks; one run at a time."""

    def __init__(self, begin: str, environment: Mapping[str, str]) -> None:
        """`begin` is Python that imports and names `main`, which every run calls; it sees this environment."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, begin],
            env=environment,
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
        self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, source: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `main`, or `source`, as the program of this command line, to its end.

        The deadline is the test's own: then the run is killed with its children, and what it had said is printed.
        """
        assert self.process.stdin is not None
        number = next(self._numbers)
        out, err = (Path(self._folder.name, f"{number}.{kind}") for kind in ("out", "err"))
        asked = {"source": source, "words": list(words), "environment": dict(environment), "cwd": str(cwd)}
        self.process.stdin.write(json.dumps(asked | {"out": str(out), "err": str(err)}) + "\n")
        self.process.stdin.flush()
        child = int(self._line())
        try:
            code = int(self._line())
        except BaseException:  # the next run must not find this one's answer
            os.killpg(child, signal.SIGKILL)
            self._line()
            print(out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
            raise
        said = [path.read_text(encoding="utf-8") for path in (out, err)]
        return subprocess.CompletedProcess(words, code, *said)

    def close(self) -> None:
        """End the process; a run that is still going on is killed with it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=120)
        self._folder.cleanup()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()
