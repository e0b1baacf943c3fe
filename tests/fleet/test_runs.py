"""`fab train`, `runs`, `logs`, `stop`, `fetch`: from local recordings to a checkpoint trained on a host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs import write_tones
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory
from tests.fleet.bed.voxyard_images import Images
from tests.fleet.operators import Operator

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Jump, load
from fleet.ssh import rsync

UUIDS = ("GPU-00000000-aaaa-bbbb-cccc-000000000000", "GPU-00000001-aaaa-bbbb-cccc-000000000000")
# What the bed has not: the right to raise limits, and CUDA. Nothing else of the GPU's compose file is changed.
BED = "services:\n  train:\n    ulimits: !reset null\n    environment: {VOXYARD_TRAIN_DEVICE: cpu}\n"
SETTINGS: dict[str, Any] = {
    "model": {"size": "tiny"},
    "data": {"buckets": 1, "model_start_delay": 0.2, "num_workers": 2},
    "training": {"batch_size": 4, "checkpoint_every": 5, "validate_every": 100_000, "warmup_steps": 10},
    "telemetry": {"log_every": 1, "tensorboard": False},
}
PLENTY = "100000"  # steps: more than any test waits for


@dataclass(frozen=True)
class Lab:
    """An operator with a corpus, and the host on which the runs are."""

    operator: Operator
    host: GpuHost
    folder: Path

    def fab(self, task: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.operator.fab(task, "--host", "gpu-01", *arguments)

    def good(self, task: str, *arguments: str) -> str:
        done = self.fab(task, *arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def train(self, run: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        files = ("--config", str(self.folder / "small.yaml"), "--override", str(self.folder / "bed.yaml"))
        return self.fab("train", *files, "--corpus", str(self.folder / "tones"), "--run", run, *arguments)

    def run(self, name: str) -> dict[str, Any]:
        (host,) = self.operator.json("runs", "--host", "gpu-01")["hosts"]
        return next(each for each in host["runs"] if each["run"] == name)

    def wait(self, name: str, *states: str, step: int = 0, seconds: float = 300) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            found = self.run(name)
            if found["state"] in states and (found["step"] or 0) >= step:
                return found
            assert time.monotonic() < end, found
            time.sleep(1)

    def told(self, command: str) -> str:
        return str(self.host.run(command).stdout)

    def container(self, run: str, role: str = "trainer") -> dict[str, Any]:
        labels = f"--filter label=voxyard.run={run} --filter label=voxyard.role={role}"
        return dict(json.loads(self.told(f"docker inspect $(docker ps -aq {labels})"))[0])


@pytest.fixture(scope="module")
def host(gpu_host: HostFactory) -> GpuHost:
    """A host with two GPUs that are replayed."""
    return gpu_host("gpu-01", mount_driver=True)


@pytest.fixture(scope="module")
def lab(
    host: GpuHost,
    engine: Engine,
    base_image: str,
    images: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Lab:
    """The host has a release with the trainer's image; the exporter's is a stand-in."""
    folder = tmp_path_factory.mktemp("lab")
    operators.fake_image(engine, base_image, "exporter")
    engine.docker("tag", images["trainer"].id, "voxyard-trainer:built")
    entries = {"gpu-01": operators.entry(host, roles=["trainer"], gpus=2, trainer={"stop_seconds": 60})}
    operator = Operator(operators.write_fleet(folder, entries), operators.environment(engine))
    operator.good("deploy")
    write_tones(folder / "tones", 24)
    (folder / "bed.yaml").write_text(BED)
    (folder / "small.yaml").write_text(yaml.safe_dump(SETTINGS))
    return Lab(operator, host, folder)


@dataclass(frozen=True)
class Story:
    """Record of a run from a corpus to a fetched checkpoint: output and findings."""

    train: str
    running: dict[str, Any]
    metrics: str
    stop: str
    stopped: dict[str, Any]
    resume: str
    finished: dict[str, Any]
    fetch: str
    out: Path


@pytest.fixture(scope="module")
def story(lab: Lab) -> Story:
    """One run: started, refused a second time, stopped, gone on with to its end, fetched."""
    began = lab.train("proof", "--set", f"training.max_steps={PLENTY}")
    assert began.returncode == 0, f"{began.stdout}\n{began.stderr}"
    running = lab.wait("proof", "running", step=3)
    with urllib.request.urlopen(f"http://{lab.host.address}:9411/metrics", timeout=60) as answer:
        metrics = answer.read().decode()
    stop = lab.good("stop", "--run", "proof")
    stopped = lab.run("proof")
    end = stopped["checkpoint"] + 4
    resume = lab.good("train", "--resume", "proof", "--max-steps", str(end))
    finished = lab.wait("proof", "finished")
    out = lab.folder / "out"
    fetch = lab.good("fetch", "--run", "proof", "--out", str(out))
    return Story(began.stdout, running, metrics, stop, stopped, resume, finished, fetch, out)


def test_the_start_says_run_gpus_limits_and_where_metrics_are(story: Story, lab: Lab) -> None:
    for words in (
        "proof on gpu-01",
        *UUIDS,
        "limit 16384 MiB",
        "limit 8192 MiB",
        f"http://{lab.host.address}:9411/metrics",
    ):
        assert words in story.train
    assert "not enforceable on the CPU" in story.train


def test_the_metrics_are_the_runs(story: Story) -> None:
    found = re.search(r'^voxyard_train_steps_total\{run="proof"\} (\S+)$', story.metrics, re.MULTILINE)
    assert found is not None
    assert float(found[1]) >= 1


def test_a_stopped_run_has_a_checkpoint_of_its_last_step(story: Story) -> None:
    step = story.stopped["checkpoint"]
    assert story.stopped["state"] == "stopped"
    assert story.stopped["step"] == step >= story.running["step"]
    assert f"stopped, checkpoint at step {step}" in story.stop


def test_a_run_resumes_at_the_step_where_it_was_stopped(story: Story) -> None:
    logs = [path.read_text() for path in sorted((story.out / "logs").glob("trainer-*.log"))]
    assert len(logs) == 2
    assert "Resuming from" not in logs[0]
    assert f"at step {story.stopped['checkpoint']}" in logs[1]
    assert story.finished["step"] == story.finished["checkpoint"] == story.stopped["checkpoint"] + 4
    report = json.loads((story.out / "checkpoints/report.json").read_text())
    assert (report["first_step"], report["ended"]) == (story.stopped["checkpoint"], "the end is reached")


def test_the_uuids_and_limits_are_where_they_belong(story: Story, lab: Lab) -> None:
    container = lab.container("proof")
    asked = [each.visible_devices for each in lab.host.hook_calls() if each.container == container["Id"]]
    assert asked == [f"{UUIDS[1]},{UUIDS[0]}"]
    (request,) = container["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == [UUIDS[1], UUIDS[0]]
    (mount,) = [each for each in container["Mounts"] if each["Destination"] == "/etc/voxyard/plan.yaml"]
    plan = yaml.safe_load(lab.told(f"cat {mount['Source']}"))
    assert (plan["data"]["data_gpu"], plan["data"]["model_gpu"]) == UUIDS
    assert (plan["training"]["data_gpu_memory"], plan["training"]["model_gpu_memory"]) == (8192, 16384)
    assert "VOXYARD_HOST_PLAN=/etc/voxyard/plan.yaml" in container["Config"]["Env"]
    log = lab.good("logs", "--run", "proof", "--lines", "200")
    assert f"The host's plan names {UUIDS[0]} and {UUIDS[1]}" in log
    assert "Memory limits are not enforceable on a CPU device" in log


def test_the_container_has_no_rights_and_writes_only_its_own_directory(story: Story, lab: Lab) -> None:
    container = lab.container("proof")
    config = container["HostConfig"]
    assert config["ReadonlyRootfs"] is True
    assert (config["CapDrop"], config["Privileged"], config["IpcMode"]) == (["ALL"], False, "private")
    assert container["Config"]["User"] == "65532:65532"
    assert config["ShmSize"] == 1 << 30
    assert config["Memory"] > 1 << 30
    assert config["LogConfig"]["Config"]["max-size"]
    assert container["Config"]["StopTimeout"] == 60
    writable = [each["Destination"] for each in container["Mounts"] if each["RW"]]
    assert writable == ["/var/lib/voxyard/run"]
    labels = container["Config"]["Labels"]
    assert (labels["voxyard.role"], labels["voxyard.run"]) == ("trainer", "proof")
    assert labels["voxyard.release"] == operators.current(lab.host)
    others = lab.told("cd ~voxyard/.voxyard && find . ! -user voxyard -printf '%P %U\n'").splitlines()
    assert {line.split()[1] for line in others} == {"65532"}
    assert {re.sub(r"^(runs/proof/checkpoints|corpora/tones/\w+/shards-\w+)\b.*", r"\1", line) for line in others} == {
        "runs/proof/checkpoints",
        *re.findall(r"^corpora/tones/\w+/shards-\w+", "\n".join(others), re.MULTILINE),
    }
    assert lab.told("stat -c %a ~voxyard/.voxyard/runs/proof").strip() == "700"


def test_a_fetched_run_is_whole_and_speaks(story: Story, tmp_path: Path) -> None:
    last = story.finished["checkpoint"]
    assert f"{last}, verified" in story.fetch
    assert (story.out / "checkpoints/report.txt").is_file()
    assert (story.out / f"checkpoints/samples/step-{last:08d}.wav").stat().st_size > 44
    words = ["synthesize", "--checkpoint", str(story.out / "checkpoints"), "--text", "one two", "--out"]
    command = [sys.executable, "-m", "voxyard", *words, str(tmp_path / "spoken.wav"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == last


def test_the_actions_are_in_the_audit_log(story: Story, lab: Lab) -> None:
    actions = [(each["what"], each["result"]) for each in operators.audit(lab.host)]
    for action in ("train", "stop run", "resume", "fetch"):
        assert (action, "ok") in actions
    (begun,) = [each for each in operators.audit(lab.host) if each["what"] == "train"][:1]
    assert "run proof" in begun["note"]


def test_the_corpus_is_there_once_prepared_once_and_read_only(story: Story, lab: Lab) -> None:
    again = lab.train("shared", "--max-steps", "1")
    assert again.returncode == 0, again.stderr
    assert "is already on the host" in again.stderr
    assert "sending corpus" not in again.stderr
    assert lab.told("docker ps -aq --filter label=voxyard.run=shared --filter label=voxyard.role=prepare") == ""
    mounts = {each["Destination"]: each for each in lab.container("shared")["Mounts"]}
    assert mounts["/corpus"]["RW"] is False
    lab.wait("shared", "finished")


def test_a_corpus_goes_through_a_jump_host_whose_key_is_checked(
    story: Story, lab: Lab, gpu_host: HostFactory, tmp_path: Path
) -> None:
    bastion = gpu_host("bastion")
    (host,) = load(lab.operator.inventory).hosts
    behind = replace(host, jump=(Jump(bastion.address), Jump(lab.host.address)))
    log = rsync.pull_command(behind, ".voxyard/runs/proof/logs", tmp_path / "out")
    rsync.run(behind, log)
    assert list((tmp_path / "out").glob("trainer-*.log"))
    lines = bastion.known_hosts.read_text().splitlines()
    (tmp_path / "known").write_text("\n".join(line for line in lines if not line.startswith(f"{bastion.address} ")))
    stranger = replace(behind, known_hosts=tmp_path / "known")
    with pytest.raises(HostFailedError, match="host key is unknown or has changed"):
        rsync.run(stranger, rsync.pull_command(stranger, ".voxyard/runs/proof/logs", tmp_path / "out"))


def test_logs_are_followed_to_the_end_of_a_run(story: Story, lab: Lab) -> None:
    lab.good("train", "--resume", "shared", "--max-steps", "6")
    done = lab.fab("logs", "--run", "shared", "--follow")
    assert done.returncode == 0, done.stderr
    assert "step 6/6" in done.stdout
    assert "the end is reached" in done.stdout
    assert done.stdout.count("step 6/6") == 1
    service = lab.good("logs", "--service", "exporter", "--lines", "5")
    assert "GET /healthz" in service
    assert len(service.splitlines()) == 5


def test_a_host_that_trains_is_skipped_by_a_deploy_and_drained_when_asked(story: Story, lab: Lab) -> None:
    began = lab.train("drained", "--max-steps", PLENTY)
    assert began.returncode == 0, began.stderr
    before = operators.current(lab.host)
    lab.operator.change(memory_policy="full")
    try:
        assert lab.operator.results("deploy") == {"gpu-01": "skipped"}
        assert operators.current(lab.host) == before
        lab.wait("drained", "running", step=2)
        assert lab.operator.results("deploy", "--drain") == {"gpu-01": "deployed"}
        now = lab.wait("drained", "running", step=2)
        assert operators.current(lab.host) != before
        assert now["checkpoint"] is not None
        what = [each["what"] for each in operators.audit(lab.host)]
        assert what.index("drain run") < what.index("resume", what.index("drain run"))
        assert now["release"] == operators.current(lab.host)
    finally:
        lab.good("stop", "--run", "drained")
        lab.operator.change(memory_policy="recommended")
        lab.operator.good("deploy")


def test_a_connection_that_is_cut_while_a_run_starts_does_not_end_the_start(story: Story, lab: Lab) -> None:
    typed = lab.operator.begin(
        "train", "--host", "gpu-01", "--resume", "shared", "--max-steps", PLENTY,
    )  # fmt: skip
    try:
        lab.wait("shared", "starting", "running")
    finally:
        typed.kill()
        typed.communicate()
    lab.wait("shared", "running")
    lab.good("stop", "--run", "shared")


def test_a_proof_runs_in_the_runs_container_and_leaves_nothing_on_the_host(lab: Lab, story: Story) -> None:
    """A stand-in: the way is the real one, and the figures measure nothing."""
    out = lab.folder / "proof"
    said = lab.good("prove", "--stand-in", "--override", str(lab.folder / "bed.yaml"), "--out", str(out))
    assert "3 of 3 steps done" in said
    assert "stand-in" in said
    report = json.loads((out / "report.json").read_text())
    assert (report["ok"], report["stand_in"], report["host"]["name"]) == (True, True, "gpu-01")
    assert [each["name"] for each in report["steps"]] == ["tests-trainer", "bench-trainer", "profile-trace"]
    assert report["environments"][0]["name"].startswith("voxyard-trainer:")
    assert "stand-in" in (out / "index.html").read_text()
    assert lab.told("docker ps -aq --filter name=voxyard-proof").strip() == ""
    assert lab.told("ls ~voxyard/.voxyard/proofs").strip() == ""
    assert lab.told("tail -n 1 ~voxyard/.voxyard/audit.jsonl").count('"prove"') == 1
