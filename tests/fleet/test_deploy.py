"""`fab check`, `fab deploy`, `fab status` as typed, on a host with sshd, a Docker engine of its own and GPUs to see."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from scenario import GpuState
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory
from tests.fleet.bed.machine import build_secrets
from tests.fleet.bed.programs import SEARCH

from fleet.image import Build, LocalImage, build_image

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "voxyard-exporter:built"
Said = dict[str, str]


@dataclass(frozen=True)
class Operator:
    """Who types the commands: a fleet's file, and the environment in which docker is the outer engine."""

    inventory: Path
    environment: dict[str, str]

    def fab(self, task: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("fab"))
        command = [program, "--search-root", str(ROOT / "scripts"), task, "--inventory", str(self.inventory)]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT, env=self.environment)

    def good(self, task: str, *arguments: str) -> str:
        done = self.fab(task, *arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, task: str, *arguments: str) -> Any:
        return json.loads(self.fab(task, "--json", *arguments).stdout)


def write_inventory(folder: Path, host: GpuHost, **more: Any) -> Path:
    """A fleet of one trainer's host."""
    entry = {
        "address": host.address,
        "port": host.port,
        "user": host.user,
        "identity_file": str(host.key_path),
        "known_hosts": str(host.known_hosts),
        "roles": ["trainer"],
        "gpus": 2,
    } | more
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump({"hosts": {"gpu-01": entry}}))
    return path


def operators_environment(engine: Engine) -> dict[str, str]:
    """An operator whose docker is the bed's engine."""
    return os.environ | dict(engine.environment) | {"PATH": SEARCH}


@pytest.fixture(scope="module")
def host(gpu_host: HostFactory) -> GpuHost:
    """One host with two GPUs, whose container toolkit brings the driver's library into containers."""
    return gpu_host("gpu-01", mount_driver=True)


@pytest.fixture(scope="module")
def image(engine: Engine, base_image: str) -> LocalImage:
    """The exporter's image, built by the task's own code on the base of the tests."""
    secrets = build_secrets(engine.folder)
    how = Build(base_image, secrets["pip_config"], secrets["ca_bundle"], network="host")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in operators_environment(engine).items():
            patch.setenv(name, value)
        return build_image(ROOT, how)


@pytest.fixture(scope="module")
def operator(engine: Engine, host: GpuHost, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator whose fleet is that host."""
    folder = tmp_path_factory.mktemp("operator")
    return Operator(write_inventory(folder, host), operators_environment(engine))


@pytest.fixture(scope="module")
def first(operator: Operator, image: LocalImage) -> Said:
    """What each task said of a host that had nothing: check, status, deploy, status, deploy."""
    said = {"check": operator.good("check"), "status before": operator.fab("status").stdout}
    began = time.monotonic()
    said["deploy"] = operator.good("deploy")
    said["seconds"] = str(time.monotonic() - began)
    said["status"] = operator.good("status")
    said["again"] = operator.good("deploy")
    return said


def told(host: GpuHost, command: str) -> str:
    return host.run(command).stdout


def release_of(host: GpuHost) -> str:
    return str(told(host, "basename $(readlink ~voxyard/.voxyard/current)")).strip()


def traces(host: GpuHost) -> tuple[str, ...]:
    """All that a deploy leaves on a host: files with their times and modes, the container and when it was started."""
    files = told(host, "find ~voxyard/.voxyard -printf '%p %T@ %m\\n'")
    return files, container(host)["Id"], container(host)["State"]["StartedAt"]


def container(host: GpuHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(host, "docker inspect voxyard-exporter-1"))[0]
    return found


def test_check_finds_nothing_wrong_and_says_which_pair_and_limits(first: Said) -> None:
    assert "FAIL" not in first["check"]
    assert "limits (recommended)" in first["check"]


def test_a_host_that_has_nothing_yet_is_said_to_have_nothing(first: Said) -> None:
    assert "not deployed" in first["status before"]


def test_deploy_shows_what_will_change_before_it_does_it(first: Said) -> None:
    for step in ("send image", "write release", "start exporter", "make"):
        assert step in first["deploy"]


def test_status_says_that_the_release_runs_well(first: Said, host: GpuHost) -> None:
    assert first["status"].count(release_of(host)) == 2
    assert "running, healthy" in first["status"]


def test_a_second_deploy_has_nothing_to_do_and_changes_nothing(first: Said, operator: Operator, host: GpuHost) -> None:
    assert "nothing to do" in first["again"]
    before = container(host)["State"]["StartedAt"], told(host, "find ~voxyard/.voxyard -printf '%p %T@ %m\\n'")
    assert "nothing to do" in operator.good("deploy")
    assert before == (
        container(host)["State"]["StartedAt"],
        told(host, "find ~voxyard/.voxyard -printf '%p %T@ %m\\n'"),
    )


def test_make_check_deploy_status_do_the_same(first: Said, operator: Operator, host: GpuHost) -> None:
    command = ["make", "--no-print-directory", "check", "deploy", "status", f"ARGS=--inventory {operator.inventory}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=operator.environment)
    assert done.returncode == 0, done.stderr
    for words in ("limits (recommended)", "nothing to do", "running, healthy", release_of(host)):
        assert words in done.stdout


def test_the_exporter_is_scraped_over_the_network_and_tells_of_both_gpus(first: Said, operator: Operator) -> None:
    (status,) = operator.json("status")["hosts"]
    with urllib.request.urlopen(f"http://{status['address']}:{status['port']}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert "voxyard_exporter_collect_success 1.0" in text
    assert len(re.findall(r"^voxyard_gpu_up\{.*\} 1\.0$", text, re.MULTILINE)) == 2
    assert 'voxyard_workload_expected{role="model",workload="trainer"} 1.0' in text


def test_the_container_has_no_rights(first: Said, host: GpuHost) -> None:
    found = container(host)
    assert found["HostConfig"]["ReadonlyRootfs"] is True
    assert found["HostConfig"]["CapDrop"] == ["ALL"]
    assert not found["HostConfig"]["Privileged"]
    assert found["Config"]["User"] == "65532:65532"
    assert found["HostConfig"]["DeviceRequests"][0]["Capabilities"] == [["utility"]]
    status = told(host, "docker exec voxyard-exporter-1 cat /proc/1/status")
    assert re.search(r"CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE)


def test_the_release_is_for_its_owner_alone_and_the_plan_is_in_the_container(first: Said, host: GpuHost) -> None:
    modes = told(host, "cd ~voxyard/.voxyard/current && stat -c '%n %a' . *").split("\n")
    assert {". 700", "voxyard.env 600", "exporter.yaml 600"} <= set(modes)
    plan = yaml.safe_load(told(host, "docker exec voxyard-exporter-1 cat /etc/voxyard/plan.yaml"))
    assert plan["release"] == release_of(host)
    assert [each["role"] for each in plan["workloads"]] == ["data", "model"]
    assert plan["training"]["data_gpu_memory"] > 0


def test_the_image_has_neither_tensorflow_nor_torch_nor_pip(first: Said, host: GpuHost) -> None:
    program = "import importlib.util as u; print([n for n in ('tensorflow', 'torch', 'pip') if u.find_spec(n)])"
    assert told(host, f'docker exec voxyard-exporter-1 python -c "{program}"').strip() == "[]"


def test_nothing_of_the_build_is_left_in_the_image(first: Said, engine: Engine) -> None:
    history = engine.docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", IMAGE).stdout
    assert "pip install" not in history
    command = ("run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE)
    assert engine.docker(*command, "-c", "ls -A /run/secrets /source 2>/dev/null || true").stdout.strip() == ""


def test_the_image_and_its_size_are_said(first: Said, engine: Engine) -> None:
    size = int(engine.docker("image", "inspect", "--format", "{{.Size}}", IMAGE).stdout)
    print(f"\nimage: {size / 1e6:.0f} MB with its base; first deploy: {float(first['seconds']):.0f} s")
    assert f"({size / 1e6:.0f} MB)" in first["deploy"]


def test_one_changed_setting_makes_a_new_release_and_keeps_the_image(
    first: Said, operator: Operator, host: GpuHost
) -> None:
    before, text = release_of(host), operator.inventory.read_text()
    operator.inventory.write_text(text + "defaults: {memory_policy: full}\n")
    try:
        said = operator.good("deploy")
        assert "send image" not in said
        assert "write release" in said
        assert release_of(host) != before
        assert set(told(host, "ls ~voxyard/.voxyard/releases").split()) == {before, release_of(host)}
    finally:
        operator.inventory.write_text(text)
        operator.good("deploy")
    assert release_of(host) == before


def test_a_container_that_was_removed_is_started_again_and_nothing_else_is_done(
    first: Said, operator: Operator, host: GpuHost
) -> None:
    told(host, "docker rm -f voxyard-exporter-1")
    assert operator.fab("status").returncode == 1
    said = operator.good("deploy")
    assert "start exporter" in said
    assert "send image" not in said
    assert "write release" not in said


def test_a_file_that_was_changed_on_the_host_is_put_right(first: Said, operator: Operator, host: GpuHost) -> None:
    told(host, "echo 'workloads: []' > ~voxyard/.voxyard/current/plan.yaml")
    assert "write release" in operator.good("deploy")
    assert "model" in told(host, "docker exec voxyard-exporter-1 cat /etc/voxyard/plan.yaml")


def test_a_release_that_is_never_well_is_said_with_its_last_words_and_is_not_current(
    first: Said, operator: Operator, host: GpuHost, engine: Engine
) -> None:
    before = release_of(host)
    broken = f'FROM {IMAGE}\nCMD ["exporter", "--no-such-option"]\n'
    engine.docker("build", "--tag", "voxyard-exporter:broken", "-", text_in=broken)
    done = operator.fab("deploy", "--image", "voxyard-exporter:broken")
    assert done.returncode == 1
    assert "--no-such-option" in done.stdout
    assert "Traceback" not in done.stderr
    assert release_of(host) == before
    assert operator.fab("status").returncode == 1
    operator.good("deploy")
    assert operator.fab("status").returncode == 0


def test_a_host_that_is_not_ready_stops_the_deploy_before_anything_changes(
    first: Said, operator: Operator, host: GpuHost, tmp_path: Path
) -> None:
    bad = Operator(write_inventory(tmp_path, host, gpus=3, exporter_port=9411), operator.environment)
    before = traces(host)
    done = bad.fab("deploy")
    assert done.returncode == 1
    assert "2 GPUs, the inventory says 3" in " ".join(done.stdout.split())
    assert "nothing was changed" in done.stderr
    assert traces(host) == before


def test_a_taken_port_is_found_and_our_own_is_not(
    first: Said, operator: Operator, host: GpuHost, tmp_path: Path
) -> None:
    assert "taken" not in operator.good("check")
    bad = Operator(write_inventory(tmp_path, host, exporter_port=22), operator.environment)
    done = bad.fab("check", "--json")
    assert done.returncode == 1
    findings = json.loads(done.stdout)["hosts"][0]["findings"]
    assert [each["check"] for each in findings if each["level"] == "FAIL"] == ["port"]


def test_an_unknown_host_key_is_refused(operator: Operator, host: GpuHost, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    stranger = Operator(write_inventory(tmp_path, host, known_hosts="empty"), operator.environment)
    for task in ("check", "status", "deploy"):
        done = stranger.fab(task)
        assert done.returncode in (1, 2)
        assert "ssh-keyscan" in done.stdout + done.stderr
    assert (tmp_path / "empty").read_text() == ""


def test_planted_faults_are_found(operator: Operator, host: GpuHost) -> None:
    healthy = [GpuState.consumer(0), GpuState.consumer(1)]
    host.set_gpus([GpuState.consumer(0), GpuState.consumer(1, mig=1)])
    try:
        (found,) = operator.json("check")["hosts"]
        assert {"mig"} <= {each["check"] for each in found["findings"] if each["level"] == "FAIL"}
        host.set_gpus(healthy, links={(0, 1): "SYS"})
        (found,) = operator.json("check")["hosts"]
        (warning,) = [each for each in found["findings"] if each["level"] == "WARN"]
        assert (found["ok"], warning["check"]) == (True, "pair_link")
        assert "no better pair exists" in warning["found"]
        assert operator.fab("check", "--strict").returncode == 1
        host.break_driver()
        (found,) = operator.json("check")["hosts"]
        assert "couldn't communicate with the NVIDIA driver" in found["findings"][0]["found"]
    finally:
        host.repair_driver()
        host.set_gpus(healthy, links={(0, 1): "PHB"})


def test_the_compose_files_of_a_host_without_gpus_reserve_none(host: GpuHost, first: Said) -> None:
    told(host, "mkdir -p /tmp/compose")
    for name in ("exporter.yaml", "cpu.yaml"):
        text = shlex.quote((ROOT / "deploy/compose" / name).read_text())
        told(host, f"printf %s {text} > /tmp/compose/{name}")
    command = "cd /tmp/compose && docker compose --env-file ~voxyard/.voxyard/current/voxyard.env"
    texts = [told(host, f"{command} -f exporter.yaml {more} config") for more in ("", "-f cpu.yaml")]
    with_gpus, without = (yaml.safe_load(text)["services"]["exporter"] for text in texts)
    assert with_gpus["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    assert "deploy" not in without
    assert without["read_only"] is True
