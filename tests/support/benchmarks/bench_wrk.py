"""Load by wrk, a client in C: its processor time is a fraction of the service's, and no part of what is measured."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DONE = """
function done(summary, latency, requests)
  local failed = summary.errors
  io.write(string.format('{"requests":%d,"seconds":%.6f,"refused":%d,"broken":%d,"p50":%.3f,"p99":%.3f}\\n',
    summary.requests, summary.duration / 1e6, failed.status,
    failed.connect + failed.read + failed.write + failed.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


class WrkError(RuntimeError):
    """wrk is missing, or has not measured."""


@dataclass(frozen=True)
class Load:
    """Result of a load: `refused` answers are those with 400 or more, `broken` requests had none.

    Latencies in seconds; where nothing was answered, the length of the load, which they exceed.
    """

    requests: int
    seconds: float
    refused: int
    broken: int
    p50: float
    p99: float

    @property
    def answered(self) -> int:
        """Requests with an answer below 400."""
        return self.requests - self.refused

    @property
    def per_second(self) -> float:
        """Answers below 400 a second."""
        return self.answered / self.seconds


def check_wrk() -> None:
    """Checks that wrk can be called. Raises WrkError."""
    if shutil.which("wrk") is None:
        raise WrkError("wrk is not installed: this benchmark needs it as its client; `apt-get install wrk` (Debian)")


def script(headers: Mapping[str, str], body: Mapping[str, object] | None = None) -> str:
    """Lua for wrk: GET, or POST of a body as JSON; its last line of output is the result as JSON."""
    lines = [f"wrk.headers[{_quoted(name)}] = {_quoted(value)}" for name, value in headers.items()]
    if body is not None:
        lines += [
            'wrk.method = "POST"',
            'wrk.headers["Content-Type"] = "application/json"',
            f"wrk.body = {_quoted(json.dumps(body))}",
        ]
    return "\n".join(lines) + _DONE


def start(url: str, lua: str, folder: Path, *, connections: int, seconds: float) -> subprocess.Popen[str]:
    """wrk in a process of its own, with one thread; `finish` waits for it. Raises WrkError."""
    check_wrk()
    file = folder / f"{abs(hash((url, lua))):x}.lua"
    file.write_text(lua, encoding="utf-8")
    options = ["-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "--timeout", "60s", "-s", str(file)]
    return subprocess.Popen(["wrk", *options, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> Load:
    """Its result. Raises WrkError."""
    output, _ = process.communicate(timeout=180)
    return parsed(output)


def load(url: str, lua: str, folder: Path, *, connections: int, seconds: float) -> Load:
    """As `start` and `finish`."""
    return finish(start(url, lua, folder, connections=connections, seconds=seconds))


def parsed(output: str) -> Load:
    """The result that the script has printed. Raises WrkError."""
    lines = output.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise WrkError(f"wrk has not measured: {output.strip()[-500:] or 'it printed nothing'}") from None
    silent = not found["requests"]
    latencies = {name: found["seconds"] if silent else found[name] / 1e6 for name in ("p50", "p99")}
    return Load(**{**found, **latencies})


def _quoted(text: str) -> str:
    """A string of Lua."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
