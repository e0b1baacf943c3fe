"""make soak: services with everything on, disturbed for hours; what is lost, and whether memory and files level out.

Two services on one PostgreSQL and one small disk, with clients of every kind. The first is never ended: its curves show
what grows. The second is killed, stopped and frozen by turns with the first one's worker and the database; clocks jump,
and once the disk is full. The engine speaks tones and waits, as a GPU has its host wait.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import paths

ROOT = Path(__file__).resolve().parents[2]
paths.add()

import psutil
from cells import PATIENCE, Cells, running_cells
from postgres_server import PostgresServer, running_server
from soak_clients import Clients

from demo.chart import ticks
from demo.style import STYLE

OUTPUT = ROOT / "build" / "soak"
DISK_MIB = 256
_INSIDE = "VOXYARD_SOAK_DISK"
GROWTH = {  # of the last fifth of a run over its middle: more than a tenth, and more than this, grows without bound
    "memory of the service, MiB": 16.0, "memory of its children, MiB": 32.0, "open files": 12.0, "threads": 8.0,
    "database, MiB": 8.0, "audio on the disk, MiB": 24.0,
}  # fmt: skip


@dataclass
class Soak:
    """A run: its services, clients, and what was read and done so far."""

    cells: Cells
    clients: Clients
    seconds: float
    disk: Path
    began: float = field(default_factory=time.monotonic)
    readings: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _database: threading.Lock = field(default_factory=threading.Lock)  # held while it is away

    @property
    def at(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def run(self) -> None:
        """Disturb until the time is over, then wait until the clients have what they asked for."""
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        every = min(180.0, max(6.0, self.seconds / 16))
        full_at, full = self.seconds / 2, False
        turns = [self._kill, self._kill_worker, self._jump, self._restart_database, self._stop, self._freeze]
        place = 0
        with self.clients.at_work():
            while self.at < self.seconds and len(self.clients.failures) < 20:
                time.sleep(min(every, max(0.1, self.seconds - self.at)))
                if not full and self.at >= full_at:
                    self._disturb("the disk is full", self._fill)
                    full = True
                else:
                    turn = turns[place % len(turns)]
                    self._disturb((turn.__doc__ or "").rstrip("."), turn)
                    place += 1
        reading.join(30)
        self.failures += self.clients.failures
        left = self.cells.count("TRUE")
        if left:
            self.failures.append(f"{left} documents are left, which their clients have deleted")
        for each in self.cells.services:
            if each.process is None or each.process.poll() is not None:
                self.failures.append(f"{each.name} has ended by itself")
            if "Traceback" in (log := each.log.read_text(errors="replace")):
                self.failures.append(f"a traceback in the log of {each.name}: {log[log.index('Traceback') :][:2000]}")
        self.failures += grown(self.readings)

    def _disturb(self, what: str, do: Callable[[], None]) -> None:
        self.events.append((self.at, what))
        print(f"soak: {self.at:.0f} s: {what}", file=sys.stderr, flush=True)
        do()

    def _kill(self) -> None:
        """The second service is killed."""
        second = self.cells.services[1]
        second.end()
        time.sleep(2.0)
        second.start()

    def _stop(self) -> None:
        """The second service is stopped in order."""
        second = self.cells.services[1]
        second.signal(signal.SIGTERM)
        assert second.process is not None
        if (status := second.process.wait(PATIENCE)) != 0:
            self.failures.append(f"{second.name} ends with status {status} where it is told to stop")
        second.start()

    def _kill_worker(self) -> None:
        """The first service's worker is killed."""
        process = self.cells.services[0].process
        assert process is not None
        for each in psutil.Process(process.pid).children():
            if any("speech.pool.worker" in word for word in each.cmdline()):
                each.kill()

    def _jump(self) -> None:
        """The clocks jump: the first an hour on, or back; the second ten minutes the other way."""
        first, second = self.cells.services[:2]
        ahead = first.clock <= 0
        first.jump(3600.0 if ahead else 0.0)
        second.jump(-600.0 if ahead else 0.0)

    def _freeze(self) -> None:
        """The second service stands still for twice the life of a claim."""
        second = self.cells.services[1]
        second.signal(signal.SIGSTOP)
        time.sleep(2 * self.cells.claim_seconds)
        second.signal(signal.SIGCONT)

    def _restart_database(self) -> None:
        """PostgreSQL crashes and comes back."""
        with self._database:
            self.cells.server.stop()
            time.sleep(2.0)
            self.cells.server.start()

    def _fill(self) -> None:
        ballast = self.disk / "ballast"
        try:
            with ballast.open("wb") as out:
                while True:
                    out.write(bytes(2**18))
                    out.flush()
        except OSError:
            pass  # no space left
        time.sleep(min(20.0, self.seconds / 10))
        ballast.unlink()

    def _read(self) -> None:
        every = min(30.0, max(0.5, self.seconds / 240))
        while self.at < self.seconds and not self.clients.stop.wait(every):
            with self._database:
                found = self._reading()
            if found is not None:
                self.readings.append((self.at, found))

    def _reading(self) -> dict[str, float] | None:
        """What the first service holds now; None while one of its processes ends."""
        first = self.cells.services[0].process
        size = self.cells.query(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relkind = 'r' AND relname <> 'written' "
            "AND relnamespace = '{schema}'::regnamespace"
        )
        if first is None or not size:
            return None
        try:
            process = psutil.Process(first.pid)
            children = sum(each.memory_info().rss for each in process.children(recursive=True))
            memory, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
        except psutil.NoSuchProcess:  # a child has just ended, or the service, which is told at the end
            return None
        audio = sum(each.stat().st_size for each in _files(self.cells.shelf))
        values = (memory / 2**20, children / 2**20, files, threads, float(str(size[0][0])) / 2**20, audio / 2**20)
        return dict(zip(GROWTH, map(float, values), strict=True))


def _files(folder: Path) -> Iterator[Path]:
    for path, _, names in os.walk(folder):
        for name in names:
            file = Path(path, name)
            if file.exists():
                yield file


def grown(readings: Sequence[tuple[float, dict[str, float]]]) -> list[str]:
    """What has not levelled out, in words: the median of the last fifth above that of the middle one."""
    if len(readings) < 10:
        return [f"{len(readings)} readings are too few to say what grows"]
    fifth = len(readings) // 5
    found = []
    for name, allowed in GROWTH.items():
        values = [reading[name] for _, reading in readings]
        middle, last = statistics.median(values[2 * fifth : 3 * fifth]), statistics.median(values[-fifth:])
        if last > middle * 1.1 and last > middle + allowed:
            found.append(f"{name}: {middle:.1f} in the middle of the run, {last:.1f} at its end: it grows")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run, write the report; 1 where something was lost or grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder of the report")
    chosen = parser.parse_args(arguments)
    if _INSIDE not in os.environ:
        return _on_small_disk(["--hours", str(chosen.hours), "--out", str(chosen.out.resolve())])
    folder = Path(os.environ[_INSIDE])
    shelf = folder / "shelf"
    shelf.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(shelf)], check=True)
    with running_server(autovacuum="on", autovacuum_naptime="5s") as server, _services(folder, server) as cells:
        soak = Soak(cells, Clients(cells.entrances), chosen.hours * 3600.0, shelf)
        try:
            soak.run()
        finally:
            chosen.out.mkdir(parents=True, exist_ok=True)
            for each in cells.services:
                shutil.copy(each.log, chosen.out / f"{each.name}.log")
    (chosen.out / "soak.html").write_text(page(soak), encoding="utf-8")
    print("\n".join([summary(soak), *soak.failures, f"report: {chosen.out / 'soak.html'}"]))
    return 1 if soak.failures else 0


def _on_small_disk(arguments: Sequence[str]) -> int:
    """This script in a mount namespace of its own, where a disk can be filled."""
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    with tempfile.TemporaryDirectory(prefix="voxyard-soak-") as folder:
        return subprocess.run(
            [*own, sys.executable, __file__, *arguments], env={**os.environ, _INSIDE: folder}, check=False
        ).returncode


@contextmanager
def _services(folder: Path, server: PostgresServer) -> Iterator[Cells]:
    shelf = folder / "shelf" / "audio"
    with running_cells(
        folder / "services", server, ("one", "two"), claim_seconds=3.0, seconds=0.1, shelf=str(shelf),
        disk_reserve_mib=8, disk_quota_mib=DISK_MIB - 64,
    ) as cells:  # fmt: skip
        cells.shelf = shelf
        yield cells


def summary(soak: Soak) -> str:
    """The run in a line."""
    done = ", ".join(f"{count} × {name}" for name, count in sorted(soak.clients.done.items()))
    verdict = f"{len(soak.failures)} failures" if soak.failures else "nothing lost, all curves level out"
    return f"{soak.seconds / 3600:.2f} h, {len(soak.events)} disturbances: {verdict}; {done}"


def page(soak: Soak) -> str:
    """The report: the run, its failures, a curve for each reading with the disturbances, and their list."""
    machine = f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}"
    again = ", ".join(f"{count} × {status or 'no answer'}" for status, count in sorted(soak.clients.again.items()))
    told = "".join(f"<li>{escape(each)}</li>" for each in soak.failures)
    curves = "".join(
        f"<figure>{_curve(name, [(at, each[name]) for at, each in soak.readings], soak.events)}</figure>"
        for name in GROWTH
    )
    rows = "".join(f"<tr><td>{at:.0f} s</td><td>{escape(what)}</td></tr>" for at, what in soak.events)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Soak</title><style>{STYLE}</style><main>'
        f"<h1>Soak of {soak.seconds / 3600:.2f} hours</h1><p>{time.strftime('%Y-%m-%d')}; {escape(machine)}, "
        f"load average {os.getloadavg()[2]:.1f}. {escape(summary(soak))}. Asked again: {escape(again) or 'never'}.</p>"
        f"<p>{escape(' '.join((__doc__ or '').split()))}</p>{f'<ul>{told}</ul>' if told else ''}"
        f'<div class="charts">{curves}</div><h2>Disturbances</h2><table>{rows}</table></main></html>\n'
    )


def _curve(name: str, points: Sequence[tuple[float, float]], events: Sequence[tuple[float, str]]) -> str:
    """A curve over the minutes of the run, with a line at each disturbance."""
    if not points:
        return f"<h3>{escape(name)}</h3><p>No reading.</p>"
    width, height, left, bottom = 640, 220, 52, 24
    marks, times = ticks(max(value for _, value in points)), ticks(points[-1][0] / 60)
    x, y = (width - left - 8) / (max(points[-1][0], 60 * times[-1])), (height - bottom - 10) / marks[-1]
    parts = [
        f'<line class="grid" x1="{left + at * x:.1f}" y1="10" x2="{left + at * x:.1f}" y2="{height - bottom}">'
        f"<title>{escape(what)}</title></line>"
        for at, what in events
    ]
    parts += [
        f'<text class="tick" x="{left - 6}" y="{height - bottom - mark * y + 4:.1f}" text-anchor="end">{mark:g}</text>'
        for mark in marks
    ]
    parts += [
        f'<text class="tick" x="{left + 60 * mark * x:.1f}" y="{height - 6}" text-anchor="middle">{mark:g} min</text>'
        for mark in times
    ]
    line = " ".join(f"{left + at * x:.1f},{height - bottom - value * y:.1f}" for at, value in points)
    return (
        f'<h3>{escape(name)}</h3><svg viewBox="0 0 {width} {height}" role="img"><title>{escape(name)}</title>'
        f'{"".join(parts)}<polyline class="curve c0" points="{line}"/></svg>'
    )


if __name__ == "__main__":
    sys.exit(main())
