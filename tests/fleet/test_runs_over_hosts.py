"""`fab train --hosts`: one run on two hosts, which loses one, goes on by itself, is stopped and fetched."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs import write_tones
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.bed.voxyard_images import Images
from tests.fleet.operators import Operator
from tests.fleet.test_runs import BED, PLENTY, SETTINGS

NAMES = ("gpu-01", "gpu-02")
PATIENCE = 600.0  # seconds, beside other tests


@dataclass(frozen=True)
class Pair:
    """An operator with a corpus, and two hosts of one release."""

    operator: Operator
    hosts: list[GpuHost]
    folder: Path

    def runs(self) -> dict[str, dict[str, Any]]:
        """The run, as `fab runs` shows it, by host; hosts without it are left out."""
        listed = self.operator.json("runs")["hosts"]
        return {each["name"]: run for each in listed for run in each.get("runs", ()) if run["run"] == "pair"}

    def until(self, good: Callable[[dict[str, dict[str, Any]]], bool]) -> Any:
        """The run once it is so on its hosts."""
        end = time.monotonic() + PATIENCE
        while not good(found := self.runs()):
            assert time.monotonic() < end, found
            time.sleep(2)
        return found


@pytest.fixture(scope="module")
def pair(
    gpu_host: HostFactory,
    engine: Engine,
    base_image: str,
    images: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Pair:
    """Two hosts with the trainer's image; the exporter's is a stand-in."""
    folder = tmp_path_factory.mktemp("pair")
    hosts = gpu_host.several(*(HostSpec(name, mount_driver=True) for name in NAMES))
    operators.fake_image(engine, base_image, "exporter")
    engine.docker("tag", images["trainer"].id, "voxyard-trainer:built")
    entries = {
        host.name: operators.entry(host, roles=["trainer"], gpus=2, trainer={"stop_seconds": 60}) for host in hosts
    }
    operator = Operator(operators.write_fleet(folder, entries), operators.environment(engine))
    operator.good("deploy")
    write_tones(folder / "tones", 24)
    (folder / "bed.yaml").write_text(BED)
    (folder / "small.yaml").write_text(yaml.safe_dump(SETTINGS))
    return Pair(operator, hosts, folder)


@dataclass(frozen=True)
class Story:
    """Record of the run, from its start to a fetched checkpoint."""

    running: dict[str, dict[str, Any]]
    log: str
    again: dict[str, dict[str, Any]]
    stop: str
    stopped: dict[str, dict[str, Any]]
    said: str
    told: str
    fetch: str
    out: Path


def each_at(step: int) -> Callable[[dict[str, dict[str, Any]]], bool]:
    """True where all hosts are at this step."""
    return lambda found: (
        list(found) == list(NAMES)
        and all(run["state"] == "running" and (run["step"] or 0) >= step for run in found.values())
    )


@pytest.fixture(scope="module")
def story(pair: Pair) -> Story:
    """One run: started on both hosts, a host's trainer killed, again on both by itself, stopped, fetched."""
    files = ("--config", str(pair.folder / "small.yaml"), "--override", str(pair.folder / "bed.yaml"))
    typed = pair.operator.fab(
        "train", "--hosts", ",".join(NAMES), *files, "--corpus", str(pair.folder / "tones"), "--run", "pair",
        "--set", f"training.max_steps={PLENTY}",
    )  # fmt: skip
    assert typed.returncode == 0, typed.stderr
    running = pair.until(each_at(7))
    log = pair.operator.good("logs", "--host", "gpu-02", "--run", "pair", "--lines", "200")
    ids = "docker ps -q --filter label=voxyard.run=pair"
    pair.hosts[1].run(f"kill -KILL $(docker inspect --format '{{{{.State.Pid}}}}' $({ids}))")
    lost = max(run["step"] for run in pair.runs().values())
    again = pair.until(each_at(lost + 7))
    stop = pair.operator.good("stop", "--host", "gpu-02", "--run", "pair")
    stopped = pair.runs()
    out = pair.folder / "out"
    fetch = pair.operator.good("fetch", "--host", "gpu-02", "--run", "pair", "--out", str(out))
    return Story(running, log, again, stop, stopped, typed.stdout, typed.stderr, fetch, out)


def test_one_run_trains_on_both_hosts_and_each_shows_it(story: Story) -> None:
    for name in NAMES:
        assert story.running[name]["hosts"] == list(NAMES)
    assert {line.partition(":")[0] for line in story.log.splitlines()} >= set(NAMES)
    assert "trains on all hosts" in story.told


def test_a_host_whose_trainer_is_killed_ends_the_other_and_both_go_on_by_themselves(story: Story) -> None:
    (log,) = [path.read_text() for path in (story.out / "logs").glob("trainer-*.log")]
    assert "is gone, frozen or cut off, and the run has ended" in log
    assert "Resuming from" in log.partition("Starting again: 1 of 3 times an hour")[2]
    assert story.again["gpu-01"]["checkpoint"] > story.running["gpu-01"]["checkpoint"]


def test_a_stop_by_any_host_ends_both_at_one_step_with_a_checkpoint(story: Story) -> None:
    step = story.stopped["gpu-01"]["checkpoint"]
    assert [story.stopped[name]["state"] for name in NAMES] == ["stopped", "stopped"]
    assert [story.stopped[name]["step"] for name in NAMES] == [step, step]
    assert f"pair on gpu-01: stopped, checkpoint at step {step}" in story.stop


def test_a_fetch_by_any_host_brings_the_checkpoint_and_what_the_others_wrote(story: Story) -> None:
    step = story.stopped["gpu-01"]["checkpoint"]
    assert f"{step}, verified" in story.fetch
    reports = [story.out / "checkpoints/report.json", *(story.out / "gpu-02").rglob("report.json")]
    ended = [json.loads(path.read_text())["ended"] for path in reports]
    assert ["saved and stopped" in each for each in ended] == [True, True], ended
    assert len(list((story.out / "gpu-02/logs").glob("trainer-*.log"))) == 1
