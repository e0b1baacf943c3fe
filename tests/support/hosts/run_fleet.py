"""Two fake hosts that train one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import run_engine
from eventually import eventually
from fleet_doubles import host
from run_requests import REQUEST

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.runs import hosts as run_hosts
from fleet.runs import together
from fleet.runs.config import RunSettings
from fleet.runs.files import RunFiles
from fleet.runs.runs import find_run
from fleet.runs.state import TrainingRun
from fleet.ssh.connection_pool import Session

HOSTS = tuple(host(name=f"gpu-0{number}", address=f"10.0.0.{number}") for number in (1, 2))
RUN = "demo-1"


class TwoHosts:
    """Two fake hosts, with connections to them."""

    def __init__(self, folder: Path) -> None:
        self.hosts = {each.name: run_engine.make(folder / each.name) for each in HOSTS}
        self.away: set[str] = set()

    @contextmanager
    def connect(self, which: Host) -> Iterator[Session]:
        """Replacement of `connected`; a host that is away does not answer."""
        if which.name in self.away:
            raise HostFailedError(f"{which.name} does not answer")
        yield self.hosts[which.name].session()

    def start(self) -> tuple[RunFiles, ...]:
        """Start the run on both."""
        settings = RunSettings(b"training: {batch_size: 8}\n")
        wanted = [
            replace(REQUEST, host=each.name, settings=settings, hosts=place)
            for each, place in zip(HOSTS, run_hosts.places(HOSTS), strict=True)
        ]
        files = together.start_everywhere(HOSTS, self.connect, wanted)
        self.settle()
        return files

    def settle(self) -> None:
        """Wait for the starts that go on in the background."""
        for there in self.hosts.values():
            eventually((there.place / f"runs/{RUN}/start.code").exists, f"{there.place} has begun {RUN}", every=0.05)

    def end(self, codes: Sequence[int], names: Sequence[str] = ("gpu-01", "gpu-02")) -> None:
        """End the trainers with these exit codes."""
        self.settle()
        for name, code in zip(names, codes, strict=True):
            (self.hosts[name].folder / "code").write_text(str(code))
            (self.hosts[name].folder / f"state-{RUN}").write_text("exited")

    def run(self, name: str) -> TrainingRun:
        """State of the run on one host."""
        return find_run(self.hosts[name].session(), name, RUN)

    def starts(self) -> list[int]:
        """Number of starts of the run on each host."""
        return [sum(" up " in line for line in there.asked("docker")) for there in self.hosts.values()]
