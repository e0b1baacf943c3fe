"""Health gate of Prometheus in a real one: what it shows once rules and targets are loaded, and after a reload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from alert_rules import ROOT
from eventually import eventually
from fleet_doubles import host
from local_session import LocalSession
from monitoring_programs import prometheus

from fleet.images.image import LocalImage
from fleet.images.third_party import MONITORING
from fleet.inventory.hosts import Inventory
from fleet.inventory.secrets import Secrets
from fleet.monitoring.role import monitoring_part, read_inputs
from fleet.release.manifest import ServiceEntry
from fleet.release.service import RolePart, below
from fleet.rollout import commands
from fleet.rollout.commands import INSIDE
from fleet.rollout.host_state import http_problem, probes
from fleet.rollout.host_state import problem as problem_of

FLEET = Inventory(Path("hosts.yaml"), (host(gpus=2), host(name="watch-01", roles=("monitoring",), gpus=0)))
MINE = b"groups: [{name: mine, rules: [{record: 'a:b:c', expr: vector(1)}]}]"


@dataclass
class Watched:
    """A Prometheus with the files of a release in its folder."""

    folder: Path
    port: int = 0

    def put(self, part: RolePart) -> ServiceEntry:
        """Write the files of Prometheus, and return its entry in the manifest, as if they lay where it sees them."""
        for name, content in below(part.files, "prometheus").items():
            path = self.folder / name.removeprefix("prometheus/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        files = part.services[0].files
        assert files is not None
        place = str(self.folder)
        shown = {
            path: tuple(text.replace(f"{INSIDE}/current", place) for text in texts)
            for path, texts in files.shown.items()
        }
        files = replace(files, shown=shown)
        service = part.services[0]
        return ServiceEntry(
            service.name, "", "", "127.0.0.1", self.port, service.ready, 60, 60, {}, service.metrics, files
        )

    def problem(self, entry: ServiceEntry) -> str | None:
        """Findings of the gate."""
        return problem_of(entry, LocalSession().run(probes(entry)))

    def until_well(self, entry: ServiceEntry) -> None:
        eventually(lambda: self.problem(entry) is None, lambda: str(self.problem(entry)), every=0.5)


def part(fleet: Inventory = FLEET, more: bytes = b"") -> RolePart:
    inputs = read_inputs(ROOT, ROOT / "no/site")
    if more:
        inputs = replace(inputs, files={**inputs.files, "prometheus/site/mine.yaml": more})
    secrets = Secrets({"grafana-admin-password": b"12345678"})
    return monitoring_part(fleet, inputs, secrets, dict.fromkeys(MONITORING, LocalImage("", (), 0)))


@pytest.fixture(scope="module")
def watched(prometheus_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A Prometheus that has loaded the first files."""
    found = Watched(tmp_path_factory.mktemp("prometheus"))
    found.put(part())
    with prometheus(prometheus_program, found.folder / "prometheus.yml") as started:
        found.port = started.port
        yield found


def test_it_is_well_once_all_rules_and_targets_are_loaded(watched: Watched) -> None:
    watched.until_well(watched.put(part()))


def test_new_rules_and_targets_are_missed_until_the_reload(watched: Watched) -> None:
    more = replace(FLEET, hosts=(*FLEET.hosts, host(name="gpu-02", address="192.0.2.12")))
    entry = watched.put(part(more, MINE))
    said = watched.problem(entry) or ""
    assert said.startswith("/api/v1/rules: does not show ")
    assert '"name":"mine"' in said
    command = commands.reload_config(entry)
    assert command is not None
    assert http_problem(LocalSession().run([command])[command.name]) is None
    watched.until_well(entry)


def test_rules_that_it_refuses_are_refused_with_its_words(watched: Watched) -> None:
    entry = watched.put(part(more=MINE.replace(b"vector(1)", b"vector(")))
    command = commands.reload_config(entry)
    assert command is not None
    assert "failed to reload config" in (http_problem(LocalSession().run([command])[command.name]) or "")
