"""Runs over hosts, each in namespaces of its own on a bridge: what they compute, and what ends them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import ClusterHosts
from runs import command, environment

from voxyard.trainer import checkpoint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("ip", "tc", "unshare"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.timeout(1200),
]
PATIENCE = 240.0
MEGABITS = 200
HOST_LOST = 75


@pytest.fixture(scope="module")
def network() -> Iterator[ClusterHosts]:
    with ClusterHosts(3) as hosts:
        yield hosts


@dataclass
class Party:
    """The processes of one run, a host each."""

    hosts: ClusterHosts
    processes: list[subprocess.Popen[bytes]]
    logs: list[Path]
    directory: Path
    commands: list[list[str]] = field(default_factory=list)

    def start_again(self, place: int) -> None:
        """Starts the trainer of a host as before, as what keeps containers running does."""
        self.logs[place] = self.logs[place].with_suffix(".again")
        self.processes[place] = self.hosts.start(place, self.commands[place], self.logs[place], environment())

    def pid(self, place: int) -> int:
        """Process id of the trainer of a host."""
        return self.hosts.inside(self.processes[place])[-1]

    def wait_for_step(self, step: int) -> None:
        end = time.monotonic() + PATIENCE
        while (checkpoint.newest(self.directory) or Path("step-0")).name < f"step-{step:08d}":
            assert time.monotonic() < end, self.said()
            assert all(each.poll() is None for each in self.processes), self.said()
            time.sleep(0.05)

    def ended(self, *places: int) -> list[int]:
        """Exit codes of these hosts, of all without any."""
        return [self.processes[place].wait(PATIENCE) for place in places or range(len(self.processes))]

    def said(self, place: int | None = None) -> str:
        logs = self.logs if place is None else [self.logs[place]]
        return "\n".join(path.read_text() for path in logs)

    def report(self, place: int = 0) -> dict[str, object]:
        folder = self.directory if place == 0 else self.directory / f"host-{place}"
        found: dict[str, object] = json.loads((folder / "report.json").read_text())
        return found


class Trainer:
    """Starts runs over so many hosts."""

    def __init__(self, network: ClusterHosts, tones: Path, folder: Path) -> None:
        self.network, self.folder = network, folder
        self._words = [
            "train", "--device", "cpu", "--train-data", tones, "--batch-size", 6, "--num-workers", 1, "--seed", 3,
            "--model-start-delay", 0.1, "--no-tensorboard", "--sample-text", "", "--device-threads", 1,
            "--log-every", 1,
        ]  # fmt: skip

    def start(self, name: str, count: int, *more: object, inside: Sequence[Sequence[object]] = ()) -> Party:
        """A run in the directory `name`; `inside` are further flags of each host."""
        addresses = ",".join(f"{self.network.address(place)}:2222" for place in range(count))
        directory = self.folder / name
        over = ["--strategy", "multiworker", "--hosts", addresses, "--hosts-wait", PATIENCE] if count > 1 else []
        party = Party(self.network, [], [], directory)
        for place in range(count):
            words = [*self._words, *more, *over, *(inside[place] if inside else ()), "--checkpoint-dir", directory]
            words += ["--host-index", place] if count > 1 else []
            party.logs.append(self.folder / f"{name}-{time.monotonic_ns()}.log")
            party.commands.append(command(*words))
            party.processes.append(self.network.start(place, party.commands[-1], party.logs[-1], environment()))
        return party

    def run(self, name: str, count: int, *more: object, inside: Sequence[Sequence[object]] = ()) -> Party:
        """The same, to its end."""
        party = self.start(name, count, *more, inside=inside)
        assert party.ended() == [0] * count, party.said()
        return party


@pytest.fixture
def trainer(network: ClusterHosts, tones: Path, tmp_path: Path) -> Trainer:
    return Trainer(network, tones, tmp_path)


def state(party: Party, step: int) -> dict[str, np.ndarray]:
    return dict(checkpoint.load(party.directory / f"step-{step:08d}").state)


def different(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if one[name].tobytes() != other[name].tobytes()]


def gradient_difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Norm of the difference ÷ norm, of the optimizer's first moments: after one step the gradients themselves."""
    names = [name for name in one if name.startswith("optimizer/") and one[name].ndim]
    difference = sum(float(np.sum((one[name].astype(np.float64) - other[name]) ** 2)) for name in names)
    return float(np.sqrt(difference / sum(float(np.sum(one[name].astype(np.float64) ** 2)) for name in names)))


@pytest.mark.long  # in `make prove` one network over three hosts
def test_two_networks_learn_over_two_hosts_what_they_learn_on_one(trainer: Trainer) -> None:
    """Each network's gradients are averaged by themselves, and its weights over the steps (--ema)."""
    steps = ("--max-steps", 3, "--checkpoint-every", 1, "--model-module", "toy:make_still_adversarial", "--ema", 0.9)
    split = ("--data-gpu", 1, "--model-gpu", 0)
    one, two = trainer.run("alone", 1, *steps, *split), trainer.run("both", 2, *steps, inside=[split, split])
    assert gradient_difference(state(one, 3), state(two, 3)) <= 1e-5
    before, after = state(two, 2), state(two, 3)
    averages = [name for name in after if name.startswith("ema/model/")]
    assert averages
    for name in averages:
        expected = before[name] + (1 - 4 / 13) * (after[name.removeprefix("ema/")] - before[name])
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.long
def test_a_network_in_turns_learns_over_two_hosts_what_it_learns_on_one(trainer: Trainer) -> None:
    steps = ("--max-steps", 3, "--checkpoint-every", 1, "--model-module", "toy:make_in_turns")
    split = ("--data-gpu", 1, "--model-gpu", 0)
    one, two = trainer.run("alone", 1, *steps, *split), trainer.run("both", 2, *steps, inside=[split, split])
    assert gradient_difference(state(one, 3), state(two, 3)) <= 1e-5
    assert int(state(two, 3)["optimizer/second/0000_iteration"]) == 7


@pytest.mark.long
def test_two_hosts_compute_what_one_does_and_a_resumed_run_what_an_undisturbed_one_does(trainer: Trainer) -> None:
    """Gradients to 1e-6, over a slow network; bitwise after a resume, to a host without a checkpoint, unsplit."""
    steps = ("--max-steps", 3, "--checkpoint-every", 1, "--keep-checkpoints", 9, "--ema", 0.9)
    split = ("--data-gpu", 1, "--model-gpu", 0)  # also alone: without TensorFlow's graph optimizer, as hosts are
    whole = trainer.run("whole", 1, *steps, *split)
    slow = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{MEGABITS}mbit", "burst", "1mb"]
    for place in range(2):
        limited = trainer.network.run(place, [*slow, "latency", "200ms"])
        assert limited.returncode == 0, limited.stderr
    two = trainer.run("two", 2, *steps, inside=[split, split])
    for place in range(2):
        trainer.network.run(place, ["tc", "qdisc", "del", "dev", "eth0", "root"])
    assert gradient_difference(state(whole, 1), state(two, 1)) <= 1e-6
    assert gradient_difference(state(whole, 3), state(two, 3)) <= 1e-5
    report = two.report()
    least = float(str(report["gradient_bytes"])) * 8 / (MEGABITS * 1e6)  # each sends half of it, twice
    assert float(str(report["all_reduce_seconds"])) > 0.8 * least
    assert not (two.directory / "host-1" / "step-00000001").exists()

    shutil.copytree(two.directory / "step-00000001", trainer.folder / "again" / "step-00000001")
    again = trainer.run("again", 2, *steps, inside=[(), ("--data-gpu", 0, "--model-gpu", 1)])
    assert "Resuming from" in again.said(0)
    assert "Starting at step 1 with the state of host 0" in again.said(1)
    assert different(state(again, 3), state(two, 3)) == []


def test_three_hosts_compute_what_one_does(trainer: Trainer) -> None:
    """Gradients, and the losses of the clips that are held out, of which each host has its share."""
    still = ("--model-module", "toy:make_still", "--max-steps", 3, "--checkpoint-every", 1, "--validation-share", 0.3)
    one, three = trainer.run("one", 1, *still), trainer.run("n", 3, *still)
    assert gradient_difference(state(one, 1), state(three, 1)) <= 1e-6
    losses = [three.report(place)["validation"] for place in range(3)]
    assert losses == [losses[0]] * 3
    assert losses[0] == pytest.approx(one.report()["validation"], rel=1e-5)


TOY = ("--model-module", "toy:make", "--max-steps", 100_000, "--checkpoint-every", 5)


@pytest.mark.long  # in `make prove` a killed host is lost in words, and the run goes on, in the next test
def test_a_killed_host_ends_the_run_in_words_and_a_resume_continues_bitwise(trainer: Trainer) -> None:
    party = trainer.start("run", 3, *TOY)
    party.wait_for_step(5)
    os.kill(party.pid(1), signal.SIGKILL)
    assert party.ended(0, 2) == [HOST_LOST, HOST_LOST], party.said()
    for place in (0, 2):
        assert "is gone, frozen or cut off" in party.said(place)
        assert "host 1 (10.77.0.11:2222)" in party.said(place)
        assert "Traceback" not in party.said(place)
    newest = checkpoint.newest(party.directory)
    assert newest is not None
    step = int(newest.name.removeprefix("step-"))
    end = ("--model-module", "toy:make", "--max-steps", step + 4)
    trainer.run("run", 3, *end)
    undisturbed = trainer.run("undisturbed", 3, *end)
    resumed = Party(trainer.network, [], [], trainer.folder / "run")
    assert different(state(resumed, step + 4), state(undisturbed, step + 4)) == []


def test_a_run_that_lost_a_host_starts_again_by_itself_so_many_times_an_hour(trainer: Trainer) -> None:
    party = trainer.start("run", 2, *TOY, "--restarts", 1)
    for losses in (1, 2):
        newest = checkpoint.newest(party.directory)
        party.wait_for_step(5 + int(newest.name.removeprefix("step-") if newest else 0))
        os.kill(party.pid(1), signal.SIGKILL)
        party.ended(1)
        if losses == 1:
            party.start_again(1)
    assert party.ended(0) == [HOST_LOST], party.said()
    said = party.said(0)
    assert "Starting again: 1 of 1 times an hour" in said
    assert "Resuming from" in said
    assert said.count("is gone, frozen or cut off") >= 2
    assert "Traceback" not in said


def test_a_frozen_host_ends_the_run_in_words(trainer: Trainer) -> None:
    """The first one, which TensorFlow's coordination service runs on."""
    party = trainer.start("run", 2, *TOY)
    party.wait_for_step(5)
    party.hosts.freeze(party.processes[0])
    try:
        assert party.ended(1) == [HOST_LOST], party.said()
    finally:
        party.hosts.kill(party.processes[0])
    assert "host 0 (10.77.0.10:2222) of this run is gone, frozen or cut off" in party.said(1)


@pytest.mark.long  # in `make prove` the silence of a frozen host
def test_a_cut_cable_ends_the_run_in_words_on_both_ends(trainer: Trainer) -> None:
    party = trainer.start("run", 2, *TOY)
    party.wait_for_step(5)
    party.hosts.cut(1)
    try:
        assert party.ended() == [HOST_LOST, HOST_LOST], party.said()
    finally:
        party.hosts.mend(1)
    for place in (0, 1):
        assert f"host {1 - place} (" in party.said(place)


def test_sigterm_on_one_host_ends_all_at_the_same_step_saved(trainer: Trainer) -> None:
    party = trainer.start("run", 2, *TOY)
    party.wait_for_step(5)
    os.kill(party.pid(1), signal.SIGTERM)
    assert party.ended() == [0, 0], party.said()
    reports = [party.report(place) for place in range(2)]
    assert reports[0]["last_step"] == reports[1]["last_step"]
    assert str(reports[1]["ended"]) == "SIGTERM: saved and stopped"
    assert str(reports[0]["ended"]) == "host 1 (10.77.0.11:2222) was asked to stop: saved and stopped"
    newest = checkpoint.newest(party.directory)
    assert newest is not None
    assert newest.name == f"step-{int(str(reports[0]['last_step'])):08d}"


@pytest.mark.long
def test_strategy_auto_times_the_hosts_and_prints_the_networks_bound(trainer: Trainer) -> None:
    auto = ("--strategy", "auto", "--strategy-steps", 8, "--cpu-devices", 1, "--buckets", 1)
    party = trainer.run("run", 2, "--model-module", "toy:make", "--max-steps", 2, inside=[auto, auto])
    for place in range(2):
        assert "--strategy auto: timing 8 steps on all 2 hosts" in party.said(place)
        assert "MiB of gradients in" in party.said(place)
        assert "--strategy auto: 2 hosts" in party.said(place)
    assert party.report()["last_step"] == 2
