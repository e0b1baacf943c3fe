"""What would change on a host: its state beside the release that it should have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fleet import commands
from fleet.fact import Fact, Unknown
from fleet.machine_facts import CONTAINERS, Container
from fleet.release import Release
from fleet.remote import Session

ROLE = "exporter"


@dataclass(frozen=True, slots=True)
class HostState:
    """What a host has of a release."""

    current: str | None  # the release that was last found good
    checksums: Mapping[str, str]  # of the wanted release's files, by name
    layers: tuple[str, ...] | None  # of the wanted image; None: it is not there
    container: Container | None
    metrics: bool  # whether /metrics answers as an exporter of ours does


@dataclass(frozen=True, slots=True)
class Change:
    """What a deploy does on one host; nothing, where nothing is true."""

    release: Release
    current: str | None
    send_image: bool
    write_files: bool
    start: bool
    set_current: bool

    @property
    def nothing(self) -> bool:
        """Whether the host is as it should be."""
        return not (self.send_image or self.write_files or self.start or self.set_current)

    def lines(self) -> tuple[str, ...]:
        """The change in words, a line a step."""
        if self.nothing:
            return (f"nothing to do: release {self.release.id} runs",)
        size = f"{self.release.image.size_bytes / 1e6:.0f} MB"
        steps = (
            (self.send_image, f"send image {self.release.image.release_tag} ({size})"),
            (self.write_files, f"write release {self.release.id}: {', '.join(name for name, _ in self.release.files)}"),
            (self.start, f"start {ROLE}, wait until it is healthy"),
            (self.set_current, f"make {self.release.id} the current release, after {self.current or 'none'}"),
        )
        return tuple(text for wanted, text in steps if wanted)


def change(release: Release, state: HostState) -> Change:
    """What makes the host have `release`."""
    container = state.container
    written = dict(state.checksums) == dict(release.checksums)
    runs = container is not None and container.release == release.id and container.healthy and written and state.metrics
    return Change(
        release=release,
        current=state.current,
        send_image=state.layers != release.image.layers,
        write_files=not written,
        start=not runs,
        set_current=state.current != release.id,
    )


def read_state(session: Session, release: Release) -> HostState:
    """Ask the host for its state. Raises HostFailedError when the connection breaks."""
    checksums = Fact("checksums", commands.checksums(release.id).text, _checksums)
    layers = Fact("layers", commands.layers(release.image.release_tag).text, _layers)
    metrics = metrics_fact(release.address, release.port)
    facts = (CURRENT, checksums, layers, CONTAINERS, metrics)
    answers = session.run([fact.command for fact in facts])
    current, sums, there = CURRENT.among(answers), checksums.among(answers), layers.among(answers)
    return HostState(
        current=None if isinstance(current, Unknown) else current,
        checksums={} if isinstance(sums, Unknown) else sums,
        layers=None if isinstance(there, Unknown) else there,
        container=exporter_of(CONTAINERS.among(answers)),
        metrics=not isinstance(metrics.among(answers), Unknown),
    )


def exporter_of(containers: tuple[Container, ...] | Unknown) -> Container | None:
    """The exporter's container, the running one where there are several."""
    found = [] if isinstance(containers, Unknown) else [each for each in containers if each.role == ROLE]
    return min(found, key=lambda each: each.state != "running", default=None)


def metrics_fact(address: str, port: int) -> Fact[bool]:
    """Known where an exporter of ours answers there; true where it can read its GPUs."""
    command = commands.metrics(address, port)
    return Fact("metrics", command.text, _reads_gpus, command.seconds)


def _reads_gpus(text: str) -> bool:
    head, _, body = text.partition("\r\n\r\n")
    status = head.split("\r\n")[0].split()
    if len(status) < 2 or status[1] != "200":
        raise ValueError("expected the answer 200 of an exporter")
    samples = [line.split() for line in body.splitlines() if line.startswith("voxyard_exporter_collect_success ")]
    if not samples:
        raise ValueError("no voxyard_exporter_collect_success in it: something else listens there")
    return float(samples[0][1]) == 1


def _checksums(text: str) -> Mapping[str, str]:
    rows = (line.split(maxsplit=1) for line in text.splitlines())
    return {name.lstrip("*"): checksum for checksum, name in rows}


def _layers(text: str) -> tuple[str, ...] | None:
    found = json.loads(text)
    return None if found is None else tuple(found)


def _current(text: str) -> str | None:
    return text.strip().rpartition("/")[2] or None


CURRENT: Fact[str | None] = Fact("current", commands.current_release().text, _current)
