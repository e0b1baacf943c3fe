"""Benchmark of training over hosts, as namespaces of this machine → build/bench/hosts.json.

Three figures are of numbers: two hosts beside one process, a resumed run beside one that was not cut, split hosts
beside unsplit ones. The others are of time: a step over two hosts beside its parts, computing and the mean of the
gradients, each measured alone in the same processes, by turns. Both hosts compute on the cores of this machine: the
time of computing alone is that of both at once, so that it has the contention of the step. A ratio is taken in each
round, and the median of the rounds is given: `step_vs_bound` to the longer part; `step_vs_least` to what overlap can
reach at best, the longer of computing, and the losses and the mean after each other (no gradient is there before the
losses are); `step_vs_sum` to the parts after each other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paths

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
paths.add()

from cluster_hosts import ClusterHosts
from runs import command, environment, write_tones

OUTPUT = HERE.parents[1] / "build" / "bench" / "hosts.json"
PORT = 2222
PATIENCE = 900.0
ROUNDS, CLIPS = 9, 96  # clips of the corpus


@dataclass(frozen=True)
class Workload:
    """End of its figures' names, clips of both hosts together, rate of each one's network (None: as fast as it is)."""

    name: str
    batch: int
    megabits: int | None = None


PARTS = ("step", "compute", "losses", "all_reduce")
CLIPS_AT_ONCE, SLOW = 64, 40


def main() -> None:
    """Measure, print the table and write the file; as a host of a workload: take the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args().host
    if asked is not None:
        Path(asked["out"]).write_text(json.dumps(times(asked)))
        return
    with tempfile.TemporaryDirectory(prefix="voxyard-hosts-") as folder, ClusterHosts(2) as network:
        place = Path(folder)
        corpus = write_tones(place / "tones", CLIPS)
        ratios = numbers(network, place, corpus)
        more, figures = timings(network, place, corpus)
        ratios |= more
    cores = len(os.sched_getaffinity(0))
    machine = {"cores": cores, "system": platform.platform(), "python": platform.python_version()}
    result = {"name": "hosts", "machine": machine, "ratios": ratios, "figures": figures}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in ratios.items():
        print(f"{name:28} {value:.3g}")


# -- numbers ---------------------------------------------------------------------------------------------------------


def numbers(network: ClusterHosts, place: Path, corpus: Path) -> dict[str, float]:
    """Gradients of two hosts beside those of one, and what is bitwise the same."""
    from voxyard.trainer import checkpoint

    def state(name: str, step: int) -> dict[str, Any]:
        return dict(checkpoint.load(place / name / f"step-{step:08d}").state)

    def same(one: dict[str, Any], other: dict[str, Any]) -> int:
        return int(all(value.tobytes() == other[name].tobytes() for name, value in one.items()))

    split = ("--data-gpu", 1, "--model-gpu", 0)
    train(network, place, corpus, "whole", 1, *split)  # as hosts, without TensorFlow's graph optimizer
    train(network, place, corpus, "two", 2)
    train(network, place, corpus, "split", 2, *split)
    shutil.copytree(place / "two" / "step-00000001", place / "resumed" / "step-00000001")
    train(network, place, corpus, "resumed", 2)
    one, two = state("whole", 1), state("two", 1)
    moments = [name for name in one if name.startswith("optimizer/") and one[name].ndim]
    difference = sum(float(np.sum((one[name].astype(np.float64) - two[name]) ** 2)) for name in moments)
    return {
        "gradient_difference": float(np.sqrt(difference / sum(float(np.sum(one[name] ** 2)) for name in moments))),
        "resume_bitwise": same(state("two", 3), state("resumed", 3)),
        "split_equals_single": same(state("two", 3), state("split", 3)),
    }


def train(network: ClusterHosts, place: Path, corpus: Path, name: str, count: int, *more: object) -> None:
    """Three steps of `voxyard train` over so many hosts, each with a checkpoint."""
    print(f"  training {name}", file=sys.stderr, flush=True)
    over = ["--hosts", addresses(network)] if count > 1 else []
    words = [
        "train", "--device", "cpu", "--device-threads", 1, "--train-data", corpus, "--batch-size", 8, "--max-steps", 3,
        "--checkpoint-every", 1, "--keep-checkpoints", 9, "--no-tensorboard", "--sample-text", "", "--buckets", 1,
        "--model-start-delay", 0.1, "--checkpoint-dir", place / name, *more, *over,
    ]  # fmt: skip
    each = [command(*words, *(["--host-index", host] if count > 1 else [])) for host in range(count)]
    together(network, each, place / f"{name}.log")


def together(network: ClusterHosts, commands: Sequence[Sequence[str]], log: Path) -> None:
    """Run a command on each host, to the end of all."""
    started = [network.start(host, words, log, environment()) for host, words in enumerate(commands)]
    codes = [process.wait(PATIENCE) for process in started]
    if any(codes):
        raise SystemExit(f"exit codes {codes}:\n{log.read_text()[-4000:]}")


def addresses(network: ClusterHosts) -> str:
    """The hosts as --hosts takes them."""
    return ",".join(f"{network.address(host)}:{PORT}" for host in range(2))


# -- times -----------------------------------------------------------------------------------------------------------


def timings(network: ClusterHosts, place: Path, corpus: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """Ratios and seconds: where computing is long, where the network is slow, and where both take as long."""
    ratios: dict[str, float] = {}
    figures: dict[str, Any] = {}

    def measure(workload: Workload) -> dict[str, float]:
        rounds = measured(network, place, corpus, workload)
        ratios.update({f"{each}{workload.name}": value for each, value in of_rounds(rounds).items()})
        medians = {each: statistics.median(times) for each, times in rounds.items()}
        figures[workload.name or "computing"] = {**medians, "megabits": workload.megabits}
        print(f"  {workload}: {medians}", file=sys.stderr, flush=True)
        return medians

    computing = measure(Workload("", CLIPS_AT_ONCE))["compute"]
    averaging = measure(Workload("_slow_network", 4, SLOW))["all_reduce"]
    measure(Workload("_balanced", CLIPS_AT_ONCE, round(SLOW * averaging / computing)))
    return ratios, figures


def of_rounds(rounds: dict[str, list[float]]) -> dict[str, float]:
    """Medians of the ratios of all rounds: of the step to its bounds, and to its parts after each other."""
    found: dict[str, list[float]] = {"step_vs_bound": [], "step_vs_least": [], "step_vs_sum": []}
    for step, compute, losses, mean in zip(*(rounds[part] for part in PARTS), strict=True):
        found["step_vs_bound"].append(step / max(compute, mean))
        found["step_vs_least"].append(step / max(compute, losses + mean))
        found["step_vs_sum"].append(step / (compute + mean))
    return {name: statistics.median(ratios) for name, ratios in found.items()}


def measured(network: ClusterHosts, place: Path, corpus: Path, workload: Workload) -> dict[str, list[float]]:
    """Seconds of a step over two hosts and of its parts, the slower host of each round."""
    rate = ["rate", f"{workload.megabits}mbit", "burst", "1mb", "latency", "200ms"]
    if workload.megabits is not None:
        for host in range(2):
            network.run(host, ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *rate]).check_returncode()
    commands, outputs = [], []
    for host in range(2):
        outputs.append(place / f"run{workload.name}-{host}.json")
        asked = {
            "out": str(outputs[-1]), "corpus": str(corpus), "batch": workload.batch, "hosts": addresses(network),
            "index": host, "directory": str(place / f"run{workload.name}"),
        }  # fmt: skip
        commands.append([sys.executable, str(HERE / "hosts.py"), "--host", json.dumps(asked)])
    together(network, commands, place / f"run{workload.name}.log")
    if workload.megabits is not None:
        for host in range(2):
            network.run(host, ["tc", "qdisc", "del", "dev", "eth0", "root"]).check_returncode()
    found = [json.loads(path.read_text()) for path in outputs]
    return {name: [max(pair) for pair in zip(*(one[name] for one in found), strict=True)] for name in PARTS}


def times(asked: dict[str, Any]) -> dict[str, list[float]]:
    """In a host: seconds of the step, of computing, of its losses and of the mean, each alone, by turns."""
    from voxyard.trainer.api import open_run
    from voxyard.trainer.config import TrainConfig
    from voxyard.trainer.hosts.addresses import for_this_host

    training = {
        "device": "cpu", "device_threads": 1, "batch_size": asked["batch"], "hosts": asked["hosts"], "max_steps": 9,
        "host_index": asked["index"], "checkpoint_dir": asked["directory"],
    }  # fmt: skip
    data = {"train_data": asked["corpus"], "buckets": 1}
    run = open_run(for_this_host(TrainConfig.model_validate({"data": data, "training": training})))
    step, hosts = run.step, run.hosts
    if hosts is None:
        raise SystemExit("the run is not over hosts")
    staged = step.stage(run.assemble(next(iter(run.sampler.batches(0, 1)))).arrays)
    import tensorflow as tf

    alone, losses = parts_alone(step)
    mean = tf.function(lambda *tensors: hosts.mean(tensors)[0], autograph=False)
    zeros = [tf.zeros(each.shape, each.dtype) for each in step.model.trainable_variables]
    turns: dict[str, Callable[[], Any]] = {
        "step": lambda: step.train(staged).read(),
        "compute": lambda: alone(staged).numpy(),
        "losses": lambda: losses(staged).numpy(),
        "all_reduce": lambda: np.asarray(mean(*zeros)),
    }
    for turn in turns.values():  # traced, connected
        timed(hosts.meet, turn)
    taken: dict[str, list[float]] = {name: [] for name in PARTS}
    for _ in range(ROUNDS):
        for name in PARTS:
            taken[name].append(timed(hosts.meet, turns[name]))
    hosts.meet()
    return taken


def parts_alone(step: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The update of a host with its own gradients: the step without the mean over the hosts; and its losses alone."""
    from voxyard.trainer.packing import Packed

    over = step.over_hosts

    def update(layout: Any, words: Any) -> Any:
        gradients, means = over.gradients_of[0][0](Packed(layout, words))
        over.apply[0](*gradients)
        return means["total"]

    def losses(layout: Any, words: Any) -> Any:
        return step.trainable.losses(step.model, layout.unpack(words), training=True)["total"]

    compiler = step._compiler
    return compiler.of_layout("alone", update, xla=False), compiler.of_layout("losses", losses, xla=False)


def timed(ready: Callable[[], None], work: Callable[[], Any]) -> float:
    """Seconds of `work`, begun on all hosts at once."""
    ready()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
