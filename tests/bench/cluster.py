"""make bench-cluster: what a Ray pool costs beside a local one, what two hosts bring, and what faults lose.

Hosts are namespaces of one machine, on a bridge; the engine computes nothing: it sleeps where a GPU would work, and its
audio follows from text and seed. Local pool and cluster take turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import secrets
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paths

paths.add()

from cluster_driver import requests
from cluster_hosts import ClusterHosts
from engines import sound
from running_cluster import ONE, SERVICE, TWO, Cluster

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "cluster.json"
ENGINE = "voxyard.speech.pool.worker"
LONG = 1300  # characters of a chunk of 13 s
CHUNKS, ROUNDS = 100, 5
SLEEP = 1.0  # seconds of four chunks in their four rows
BOTH = ("host1/cpu0", "host2/cpu0")


class Timed:
    """A driver whose jobs are timed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._seed = 10_000

    def job(self, count: int, characters: int, *, listening: bool = False) -> tuple[float, float]:
        """Seconds until the first chunk of a job is there, and until all are."""
        self._seed += 1
        seed = self._seed
        self.cluster.submit(count, seed, characters, listening=listening, digest=False)
        self.cluster.until(lambda: len(self.cluster.chunks(seed)) >= count, "a job does not end")
        seconds = [each["seconds"] for each in self.cluster.chunks(seed)]
        return min(seconds), max(seconds)


def cost(near: Timed, far: Timed) -> dict[str, float]:
    """Milliseconds that a pool costs a chunk of 13 s, local and over the cluster, with two workers each."""
    local, remote = [], []
    for timed in (near, far):
        timed.job(CHUNKS, LONG)  # warm
    for _ in range(ROUNDS):
        local.append(near.job(CHUNKS, LONG)[1] / CHUNKS * 1000)
        remote.append(far.job(CHUNKS, LONG)[1] / CHUNKS * 1000)
    return {"local_ms": statistics.median(local), "cluster_ms": statistics.median(remote)}


def first_audio(near: Timed, far: Timed) -> dict[str, float]:
    """Seconds to the first chunk of a job with a listener, whose engine takes a second for four."""
    local, remote = [], []
    for _ in range(ROUNDS):
        local.append(near.job(8, LONG, listening=True)[0])
        remote.append(far.job(8, LONG, listening=True)[0])
    return {"local_s": statistics.median(local), "cluster_s": statistics.median(remote)}


def two_hosts(far: Timed) -> dict[str, float]:
    """Seconds of one job on one host and on two."""
    cluster, one, two = far.cluster, [], []
    for _ in range(3):
        two.append(far.job(48, LONG)[1])
        cluster.hosts.kill(cluster.nodes[TWO])
        cluster.until_ready(BOTH[0])
        one.append(far.job(48, LONG)[1])
        cluster.join(TWO)
        cluster.until_ready(*BOTH)
    return {"one_s": statistics.median(one), "two_s": statistics.median(two)}


def strike(cluster: Cluster, *parts: str) -> None:
    """Kill the processes of the first host whose command lines hold these parts."""
    for pid in cluster.pids(ONE, *parts):
        os.kill(pid, signal.SIGKILL)


def faults(cluster: Cluster, jobs: int) -> dict[str, float]:
    """Chunks lost, doubled and changed in jobs during which workers and hosts are killed, cut off and joined again."""
    count, counted, changed = 60, Counter[tuple[int, int]](), 0
    strikes: list[Callable[[], object]] = [
        lambda: strike(cluster, ENGINE),
        lambda: cluster.hosts.kill(cluster.nodes[TWO]),
        lambda: cluster.join(TWO),
        lambda: cluster.hosts.cut(TWO),
        lambda: cluster.hosts.mend(TWO),
        lambda: strike(cluster, "ray::", "Relay"),
    ]
    for seed in range(jobs):
        cluster.submit(count, seed)
        cluster.until(lambda seed=seed: len(cluster.chunks(seed)) > 8, "nothing is spoken")  # type: ignore[misc]
        strikes[seed % len(strikes)]()
        cluster.until(lambda seed=seed: len(cluster.chunks(seed)) >= count, "a job does not end")  # type: ignore[misc]
    time.sleep(2)  # a chunk that came twice would come now
    for seed in range(jobs):
        expected = [hashlib.sha256(sound(each).tobytes()).hexdigest() for each in requests(count, seed)]
        for each in cluster.chunks(seed):
            counted[seed, each["chunk"]] += 1
            changed += each["audio"] != expected[each["chunk"]]
    return {
        "chunks": jobs * count,
        "lost": jobs * count - len(counted),
        "doubled": sum(times - 1 for times in counted.values()),
        "changed": changed,
    }


def main() -> None:
    """Measure, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=6, help="jobs of the faults, of 60 chunks each")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("make bench-cluster makes network namespaces: run it as root")
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, ClusterHosts(4) as hosts:
        cluster, local = Cluster(hosts, Path(folder) / "cluster"), Cluster(hosts, Path(folder) / "local")
        cluster.head()
        cluster.join(ONE, TWO)
        for name, seconds in (("cost", 0.0), ("first_audio", SLEEP)):
            cluster.drive(seconds=seconds)
            local.drive(local=True, seconds=seconds)
            near, far = Timed(local), Timed(cluster)
            found[name] = cost(near, far) if name == "cost" else first_audio(near, far)
            if name == "first_audio":
                found["two_hosts"] = two_hosts(far)
                found["faults"] = faults(cluster, chosen.jobs)
            cluster.stop_driver()
            local.stop_driver()
            print(name, found[name], flush=True)
    ratios = {
        "lost": found["faults"]["lost"],
        "doubled": found["faults"]["doubled"],
        "bytes_equal": float(found["faults"]["changed"] == 0),
        "overhead_vs_local": found["cost"]["cluster_ms"] / found["cost"]["local_ms"],
        "two_hosts_vs_one": found["two_hosts"]["two_s"] / found["two_hosts"]["one_s"],
        "first_audio_vs_local": found["first_audio"]["cluster_s"] / found["first_audio"]["local_s"],
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps({"machine": _machine(), "ratios": ratios, "measured": found}, indent=2) + "\n")
    for name, figures in found.items():
        print(f"{name:14}", ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    for name, value in ratios.items():
        print(f"{name:22} {value:.3g}")


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"), "run": secrets.token_hex(4), "service_host": SERVICE,
    }  # fmt: skip


if __name__ == "__main__":
    main()
