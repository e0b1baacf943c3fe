"""Scenario of the proof: hosts with real programs, with faults, without an exporter, with a small run."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faulty_metrics
from exporters import exporter, parse
from fake_driver import FakeDriver
from fast_clock import FACTOR, prometheus
from free_ports import free_port
from monitoring_programs import Prometheus
from running_gateway import running_gateway
from scenario import GIB, GpuState, MigInstance, Process, Scenario, counter

from fleet.inventory.gateway_settings import Upstream
from fleet.inventory.hosts import Host
from voxyard.bark.weights import tiny
from voxyard.host.out_of_work import VARIABLE

BARE, GONE = faulty_metrics.UNSTABLE, faulty_metrics.GONE  # without a node_exporter
GATEWAY, LONELY_GATEWAY, DEAD_GATEWAY = "gw-01", "gw-02", "gw-03"  # of two services, of none that answers, not there
HOST, SICK, SILENT, SMALL, RUN = "gpu-01", faulty_metrics.HOST, "gpu-03", faulty_metrics.SMALL, "proof"
DATA, MODEL, BARK, HOT, BROKEN, LOST, LOCKED = 0, 1, 2, 3, 4, 5, 6
PLAN = "gpus: 8\nworkloads:\n" + "".join(
    f"  - {{workload: {workload}, role: {role}}}\n"
    for workload, role in [("trainer", "data"), ("trainer", "model"), ("bark", "bark")]
)
GPUS = (
    GpuState.default(DATA, utilization=10, nvlinks=(), memory_used=8 * GIB),
    GpuState.default(MODEL, utilization=27, nvlinks=(), memory_used=30 * GIB, power=300_000, energy="1000+300000/s"),
    GpuState.default(
        BARK,
        utilization=55,
        pcie_generation=3,
        power_limit=500_000,
        clock_events=0x4,
        processes=(Process(4242, 3 * GIB, "/opt/voxyard/bin/python"), Process(4343, None, "/usr/bin/stranger")),
    ),
    GpuState.default(
        HOT,
        utilization=99,
        temperature=91,
        temperature_slowdown=93,
        clock_events=0x40 | 0x80,
        pcie_width=8,
        clock_sm=990,
        pcie_replays=counter(100, 3),
        nvlink_dl_crc=counter(0, 60),
    ),
    GpuState.default(
        BROKEN,
        utilization=0,
        ecc_corrected_volatile=11,
        ecc_uncorrected_volatile=3,
        remapped_correctable=2,
        remapped_pending=1,
        remapped_failure=1,
        retired_double_bit=2,
        retired_pending=1,
        recovery_action=1,
        mig=1,
        mig_instances={0: MigInstance("MIG-one"), 1: MigInstance("MIG-two")},
    ),
    GpuState.default(LOST, utilization=0),
    GpuState.consumer(LOCKED, utilization=45, energy="1000+100000/s", clock_sm=900),
)
CLAIMS: dict[str, list[dict[str, Any]]] = {
    "trainer": [
        {"role": "data", "index": DATA, "uuid": GPUS[DATA].uuid, "limit_mib": 40_960},
        {"role": "model", "index": MODEL, "uuid": GPUS[MODEL].uuid, "limit_mib": 20_480},
    ],
    "bark": [{"role": "bark", "index": BARK, "uuid": GPUS[BARK].uuid, "limit_mib": None}],
}
SENTENCES = ("The old sailor opens the heavy door.", "Nobody is there, and the lamp is lit.")
BATCH_SIZE, SLOTS, LEARNING_RATE = 4, 3, 1e-3
TOGETHER_SECONDS = 20 * 60 / FACTOR  # longer than every window that an alert about a steady state needs
AFTERWARDS_SECONDS = 12 * 60 / FACTOR


READY_SECONDS = 300  # for a worker and a run to begin beside the other proofs


@dataclass(frozen=True)
class Proof:
    """Record of Prometheus's data and of the events; times are Unix time."""

    server: Prometheus
    start: float
    steady: float  # everything still ran
    killed: float  # the trainer was
    end: float
    spoken_seconds: tuple[float, ...]  # sound that the service sent, each answer
    trainer: dict[str, float]  # the last scrape of ours before the end: values by name, of this run
    bark: dict[str, float]


@contextmanager
def proof_run(driver: FakeDriver, programs: dict[str, str], corpus: Path, directory: Path) -> Iterator[Proof]:
    """Plays the scenario (seven minutes) and gives what can be asked of it."""
    plan = directory / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    path = directory / "scenario"
    host = Scenario(GPUS, epoch=time.time()).raising(BROKEN, 94)
    ports = {job: free_port() for job in ("trainer", "bark", "node", "silent")}
    with ExitStack() as stack:
        environment = driver.environment_of(host.with_gpu(HOT, pcie_width=16), path=path)  # it loses lanes later
        environment[VARIABLE] = str(directory / "out_of_work.json")
        exporting = stack.enter_context(exporter(environment, "--processes", "--plan", str(plan)))
        faulty_host, ill_ports = stack.enter_context(faulty_metrics.faulty_host(plan, directory / "state"))
        small_ports = stack.enter_context(faulty_metrics.served(faulty_metrics.SmallRunHost(directory / "small.yaml")))
        targets = {job: [(SICK, port)] for job, port in ill_ports.items()}
        gone = stack.enter_context(ExitStack())
        gone_ports = gone.enter_context(faulty_metrics.served(faulty_metrics.GoneHost(directory / "gone.yaml")))
        for name, ports_of_host in ((SMALL, small_ports), (GONE, gone_ports)):
            for job, port in ports_of_host.items():
                targets[job].append((name, port))
        targets["exporter"] += [(HOST, exporting.port), (SILENT, ports["silent"])]
        for job in ("trainer", "bark", "node"):
            targets[job].append((HOST, ports[job]))
        targets["node"].append((BARE, ports["silent"]))
        targets["cluster-head"] = [(SILENT, ports["silent"])]
        # The exporter's /readyz stands for that of a service: it answers from the first scrape to the last.
        services = {HOST: exporting.port, SILENT: ports["silent"]}
        targets["gateway"] = [
            (GATEWAY, stack.enter_context(_gateway(GATEWAY, services, directory))),
            (LONELY_GATEWAY, stack.enter_context(_gateway(LONELY_GATEWAY, {SILENT: ports["silent"]}, directory))),
            (DEAD_GATEWAY, ports["silent"]),
        ]
        node = [programs["node_exporter"], f"--web.listen-address=127.0.0.1:{ports['node']}"]
        stack.enter_context(_running(node, directory / "node.log"))
        (directory / "prometheus").mkdir()
        server = stack.enter_context(prometheus(programs, directory / "prometheus", targets))
        start = time.time()
        service = stack.enter_context(_service(directory, ports["bark"]))
        trainer = stack.enter_context(_trainer(directory, corpus, ports["trainer"]))
        server.until(f'voxyard_train_loss{{run="{RUN}"}}', READY_SECONDS, say="the run trains")
        server.until(f'voxyard_bark_workers{{instance="{HOST}"}} > 0', READY_SECONDS, say="the service has a worker")
        faulty_host.give_chunks_up()
        host.losing(LOST).raising(LOST, 79).write(path)
        began = time.monotonic()
        spoken = tuple(_speak(ports["bark"], sentence) for sentence in SENTENCES)
        _document(ports["bark"])
        time.sleep(max(0.0, began + TOGETHER_SECONDS - time.monotonic()))
        values, read = {job: _values(ports[job]) for job in ("trainer", "bark")}, time.time()
        for metric in (f'voxyard_train_steps_total{{run="{RUN}"}}', f'voxyard_bark_workers{{instance="{HOST}"}}'):
            server.until(f"timestamp({metric}) > {read}", READY_SECONDS, say="it was scraped again")
        steady = time.time()
        faulty_host.stall()
        gone.close()
        trainer.send_signal(signal.SIGKILL)
        time.sleep(AFTERWARDS_SECONDS)
        assert service.poll() is None, (directory / "service.log").read_text(encoding="utf-8")
        yield Proof(server, start, steady, steady, time.time(), spoken, values["trainer"], values["bark"])


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    here = os.pathsep.join(map(str, Path(__file__).parents[1].glob("*/")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    with (
        log.open("wb") as file,
        subprocess.Popen(command, env=environment | {"TF_CPP_MIN_LOG_LEVEL": "2"}, stdout=file, stderr=file) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _gateway(name: str, services: Mapping[str, int], directory: Path) -> Iterator[int]:
    """HAProxy before speech services, by the names of their hosts; the port of its metrics."""
    upstreams = tuple(Upstream(each, "127.0.0.1", port) for each, port in services.items())
    host = Host(name, "127.0.0.1", "voxyard", roles=("gateway",), upstreams=upstreams)
    with running_gateway(host, directory / name, free_port(), free_port()) as running:
        yield running.metrics_port


@contextmanager
def _service(directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`voxyard serve` on a tiny model of random weights."""
    tiny.write(directory / "model", tiny.TinyShape(spare_coarse_outputs=0, end_after=60))
    arguments: list[object] = [
        "serve", "--model", directory / "model", "--device", "cpu", "--workers", 1,
        "--data-dir", directory / "service", "--port", port,
    ]  # fmt: skip
    with _running(_claiming("bark", arguments), directory / "service.log") as process:
        yield process


@contextmanager
def _trainer(directory: Path, corpus: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`voxyard train` of the toy model, until it is killed."""
    arguments: list[object] = [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", corpus,
        "--model-module", "toy:make", "--batch-size", BATCH_SIZE, "--model-start-delay", 0.5, "--num-workers", 1,
        "--prefetch-buffer-size", SLOTS, "--learning-rate", LEARNING_RATE, "--warmup-steps", 1,
        "--checkpoint-dir", directory / "run", "--no-tensorboard", "--metrics-port", port, "--run", RUN,
        "--max-minutes", 20, "--max-steps", 10_000_000, "--log-every", 20, "--validation-share", 0.2,
        "--validate-every", 200, "--checkpoint-every", 1000,
    ]  # fmt: skip
    with _running(_claiming("trainer", arguments), directory / "trainer.log") as process:
        yield process


def _claiming(workload: str, arguments: Sequence[object]) -> list[str]:
    program = str(Path(__file__).with_name("gpu_claiming_cli.py"))
    return [sys.executable, program, json.dumps(CLAIMS[workload]), *map(str, arguments)]


def _speak(port: int, sentence: str) -> float:
    """Seconds of sound that the service sends for a sentence."""
    body = {"model": "tts-1", "input": sentence, "voice": "alloy", "response_format": "wav"}
    with wave.open(io.BytesIO(_post(port, "/v1/audio/speech", body))) as sound:
        frames = len(sound.readframes(1 << 30)) // (sound.getsampwidth() * sound.getnchannels())
        return float(frames / sound.getframerate())


def _document(port: int) -> None:
    """Leaves a document with the service."""
    _post(port, "/v1/documents", {"text": "Chapter one.\n\nThe harbour lay still.", "title": "The harbour"})


def _post(port: int, path: str, body: dict[str, Any]) -> bytes:
    return _fetch(port, "POST", path, json.dumps(body).encode())


def _values(port: int) -> dict[str, float]:
    """All values that a program tells now; series of one name are summed."""
    series = parse(_fetch(port, "GET", "/metrics").decode())
    found: dict[str, float] = {}
    for (name, _), value in series.items():
        found[name] = found.get(name, 0.0) + value
    return found


def _fetch(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        found = answer.read()
        assert answer.status < 300, f"{method} {path}: {answer.status} {found[:500]!r}"
        return found
    finally:
        connection.close()
