"""Rollout benchmark (make bench-rollout): a release to 200 simulated hosts → build/bench/rollout.json."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import paths
import yaml

ROOT = Path(__file__).resolve().parents[2]
paths.add()

from simulated_fleet import LeapingClock, SimulatedFleet
from tiny_model import write_model

from fleet.images.archive import ImageCache
from fleet.images.image import LocalImage, repository_of
from fleet.inventory.hosts import Host, Inventory, load
from fleet.release.artefact import ChecksumCache
from fleet.release.manifest import manifest_of
from fleet.rollout.change_plan import plan_change
from fleet.rollout.context import Cancellation, Outcome, RolloutContext
from fleet.rollout.fitness import unfit_hosts
from fleet.rollout.fleet import RolloutTask, inspect_hosts, plan_hosts, run_rollout, waves
from fleet.rollout.host_state import read_state
from fleet.ssh.connection_pool import PARALLEL, Connections, Session

OUTPUT = ROOT / "build" / "bench" / "rollout.json"
COMPOSE = ROOT / "deploy" / "compose"
SEED = 7
FACTOR = 1000  # bytes of an image for which one byte of its archive here stands
IMAGE_BYTES = {"exporter": 180_000_000, "bark": 7_000_000_000, "trainer": 9_000_000_000}
ROLES = (["trainer"], ["bark"], ["trainer", "bark"])


class OnTheirClock(Cancellation):
    """Waits on the hosts' clock."""

    def __init__(self, clock: LeapingClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, seconds: float, *, rolling_back: bool = False) -> None:
        """So many seconds of the hosts' time."""
        self._clock.sleep(seconds)

    def now(self) -> float:
        """The hosts' time."""
        return self._clock.now()


@dataclass(frozen=True)
class Phase:
    """One pass over the fleet, in seconds of the hosts' time."""

    looked: float  # to know every host and what would change there
    computed: float  # CPU seconds of this machine for that, beside it
    rolled: float
    changed: int  # hosts
    waves: int
    slowest_by_wave: float  # the sum of each wave's slowest host
    outcomes: Mapping[str, Outcome]


def write_inventory(folder: Path, count: int) -> Path:
    """A fleet of `count` hosts of all roles, as an operator writes it."""
    write_model(folder / "weights")
    secrets = folder / "secrets.yaml"
    secrets.touch(mode=0o600)
    key = hashlib.sha256(b"a key").hexdigest()
    secrets.write_text(yaml.safe_dump({"bark-api-keys": f"bench: {key}\n"}), encoding="utf-8")
    hosts = {
        f"gpu-{number:03}": {
            "address": f"192.0.{2 + number // 250}.{1 + number % 250}",
            "roles": ROLES[number % len(ROLES)],
            "gpus": 2,
        }
        for number in range(count)
    }
    defaults = {"user": "voxyard", "node_exporter": False, "bark": {"weights": "weights"}, "secrets": "secrets.yaml"}
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump({"defaults": defaults, "hosts": hosts}, sort_keys=False), encoding="utf-8")
    return path


class Bench:
    """A fleet of simulated hosts, and an operator who deploys to them."""

    def __init__(self, folder: Path, fleet: Inventory, clock: LeapingClock) -> None:
        self.clock = clock
        self.images = {role: _image(role) for role in IMAGE_BYTES}
        listed = {
            each.size_bytes // FACTOR: {
                "id": each.id, "tags": [each.release_tag], "digests": [], "layers": each.layers
            }
            for each in self.images.values()
        }  # fmt: skip
        self.simulated = SimulatedFleet(fleet.hosts, self.clock, listed, FACTOR, SEED)
        self._cache = ImageCache(folder / "images", _save)
        self._checksums = ChecksumCache(folder / "checksums.json")

    def deploy(self, hosts: Sequence[Host], batch: int) -> Phase:
        """Measured phase of `fab deploy`, by the code that it runs."""
        with Connections(self.simulated.connect) as connections:
            began, worked = self.clock.now(), time.process_time()
            needed = {host.name: {role: self.images[role] for role in ("exporter", *host.roles)} for host in hosts}
            snapshots = inspect_hosts(hosts, connections, needed)
            if unfit := unfit_hosts(hosts, snapshots):
                raise SystemExit(f"hosts are not fit: {unfit}")
            planned = plan_hosts(hosts, connections, snapshots.succeeded, needed, COMPOSE, self._checksums)
            if planned.failed:
                raise SystemExit(f"the plan failed: {next(iter(planned.failed.values()))}")
            looked, computed = self.clock.now() - began, time.process_time() - worked
            concerned = [host for host in hosts if not planned.succeeded[host.name].change.nothing]

            def replan(host: Host, session: Session) -> Any:
                release = planned.succeeded[host.name].release
                return plan_change(release, read_state(session, host.name, manifest_of(release)))

            context = RolloutContext(cancellation=OnTheirClock(self.clock), cache=self._cache)
            began = self.clock.now()
            task = RolloutTask("deploy", replan, batch)
            done = run_rollout(concerned, connections, task, context) if concerned else ()
            outcomes = {each.host: each for each in done}
            rolled = self.clock.now() - began
        if bad := [each for each in outcomes.values() if each.result != "deployed"]:
            raise SystemExit(f"{bad[0].host}: {bad[0].result}: {bad[0].note}")
        order = waves(concerned, batch)
        slowest = sum(max(outcomes[host.name].seconds for host in wave) for wave in order)
        return Phase(looked, computed, rolled, len(concerned), len(order), slowest, outcomes)


def _save(image: LocalImage) -> Iterator[bytes]:
    yield bytes(image.size_bytes // FACTOR)


def _image(role: str) -> LocalImage:
    digest = hashlib.sha256(role.encode()).hexdigest()
    return LocalImage(f"sha256:{digest}", (f"sha256:{digest[::-1]}",), IMAGE_BYTES[role], repository_of(role))


def alone(folder: Path, fleet: Inventory, phase: Phase, clock: LeapingClock) -> float:
    """Duration of the slowest host with nobody beside it, in seconds of its time."""
    slowest = sorted(phase.outcomes.values(), key=lambda each: each.seconds)[-3:]
    bench = Bench(folder, fleet, clock)
    return max(
        bench.deploy([host], 1).outcomes[host.name].seconds for host in fleet.select([each.host for each in slowest])
    )


def with_one_more_setting(fleet: Inventory) -> Inventory:
    """The same fleet, in which Bark's settings have changed."""
    hosts = [replace(each, bark=replace(each.bark, stop_seconds=each.bark.stop_seconds + 1)) for each in fleet.hosts]
    return replace(fleet, hosts=tuple(hosts))


@contextmanager
def hosts_time(clock: LeapingClock) -> Iterator[None]:
    """The rollout measures how long a host took on the hosts' clock."""
    with mock.patch("fleet.rollout.fleet.time", SimpleNamespace(monotonic=clock.now)):
        yield


def mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, print the table and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--batch", type=int, default=4, help="hosts at a time, after the canaries")
    arguments = parser.parse_args()
    logging.getLogger("fleet").setLevel(logging.ERROR)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, LeapingClock() as clock, hosts_time(clock):
        folder = Path(name)
        fleet = load(write_inventory(folder, arguments.hosts))
        bench = Bench(folder, fleet, clock)
        before = mib()
        first = bench.deploy(fleet.hosts, arguments.batch)
        after = mib()
        again = bench.deploy(fleet.hosts, arguments.batch)
        changed = bench.deploy(with_one_more_setting(fleet).hosts, arguments.batch)
        slowest = alone(folder / "alone", fleet, first, clock)
        look = alone_look(folder / "look", fleet, clock)
    bound = first.waves * slowest
    look_bound = -(-len(fleet.hosts) // PARALLEL) * look
    ratios = {
        "time_vs_bound": first.rolled / bound,
        "time_vs_waves": first.rolled / first.slowest_by_wave,
        "plan_vs_bound": first.looked / look_bound,
    }
    figures = {
        "hosts": arguments.hosts,
        "batch": arguments.batch,
        "waves": first.waves,
        "rollout_seconds": first.rolled,
        "slowest_host_seconds": slowest,
        "plan_seconds": first.looked,
        "plan_computed_seconds": first.computed,
        "unchanged_plan_seconds": again.looked,
        "unchanged_hosts_touched": again.changed,
        "one_setting_hosts_touched": changed.changed,
        "one_setting_rollout_seconds": changed.rolled,
        "connections_at_once": bench.simulated.most_open,
        "peak_memory_mib": after,
        "memory_grown_mib": after - before,
        "real_seconds": time.monotonic() - began,
    }
    result = {
        "name": "rollout",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "ratios": ratios,
        "figures": figures,
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for key, value in {**figures, **ratios}.items():
        print(f"{key:28} {value:10.2f}" if isinstance(value, float) else f"{key:28} {value:10}")


def alone_look(folder: Path, fleet: Inventory, clock: LeapingClock) -> float:
    """Duration of the slowest survey of some hosts with nobody beside it, in seconds of its time."""
    bench = Bench(folder, fleet, clock)
    return max(bench.deploy([host], 1).looked for host in fleet.hosts[:5])


if __name__ == "__main__":
    main()
