"""Deploys to a fleet of which one host, one service or one GPU is bad: the others are deployed, and all is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed import faults
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, three
from tests.fleet.operators import Operator, audit, containers, current, fake_image

POOL = """#!/bin/sh
echo "$VOXYARD_HOOK $VOXYARD_HOOK_TASK $VOXYARD_HOOK_HOST $VOXYARD_HOOK_ADDRESS $VOXYARD_HOOK_RESULT" >> pool.log
[ ! -e "$VOXYARD_HOOK-$VOXYARD_HOOK_HOST" ] || . "./$VOXYARD_HOOK-$VOXYARD_HOOK_HOST"
"""


@dataclass
class Fleet:
    """Three hosts with the role bark, whose load balancer is a script of their operator."""

    operator: Operator
    pix: GpuHost
    sys: GpuHost
    one: GpuHost

    @property
    def folder(self) -> Path:
        return self.operator.inventory.parent

    def set(self, **rollout: Any) -> None:
        """Change settings of the rollout."""
        document = yaml.safe_load(self.operator.inventory.read_text())
        document["rollout"] |= rollout
        self.operator.inventory.write_text(yaml.safe_dump(document, sort_keys=False))

    def change(self, seconds: int) -> None:
        """Change a setting of Bark on all hosts."""
        document = yaml.safe_load(self.operator.inventory.read_text())
        for each in document["hosts"].values():
            each["bark"]["stop_seconds"] = seconds
        self.operator.inventory.write_text(yaml.safe_dump(document, sort_keys=False))

    def hooks(self) -> list[str]:
        """Hooks since the last look, without the addresses."""
        log = self.folder / "pool.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [" ".join(word for word in line.split() if not word[0].isdigit()) for line in lines]


@pytest.fixture(scope="module")
def fleet(engine: Engine, base_image: str, gpu_host: HostFactory, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The three hosts, in two groups, with nothing deployed."""
    hosts = gpu_host.several(*three())
    for role in ("exporter", "bark"):
        fake_image(engine, base_image, role)
    groups = {"gpu-pix": "east", "gpu-sys": "west", "gpu-one": "east"}
    entries = {host.name: operators.entry(host, roles=["bark"], groups=[groups[host.name]]) for host in hosts}
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "pool").write_text(POOL)
    (folder / "pool").chmod(0o755)
    hooks = {"before": [["./pool"]], "after": [["./pool"]], "seconds": 30}
    path = operators.write_fleet(folder, entries, rollout={"min_healthy_seconds": 1, "batch": 1, "hooks": hooks})
    return Fleet(Operator(path, operators.environment(engine)), *hosts)


def test_a_group_is_deployed_alone_and_the_load_balancer_is_told_of_each_host(fleet: Fleet) -> None:
    assert fleet.operator.results("deploy", "--group", "east") == {"gpu-pix": "deployed", "gpu-one": "deployed"}
    assert [sorted(containers(host)) for host in (fleet.pix, fleet.sys, fleet.one)] == [
        ["bark", "exporter"], [], ["bark", "exporter"],
    ]  # fmt: skip
    assert fleet.hooks() == [
        line for name in ("gpu-pix", "gpu-one") for line in (f"before deploy {name}", f"after deploy {name} deployed")
    ]
    wrong = fleet.operator.fab("deploy", "--group", "south")
    assert (wrong.returncode, "no group south in" in wrong.stderr) == (2, True)
    assert "expected one of east, west" in wrong.stderr


def test_a_taken_port_keeps_its_service_from_the_host_and_the_exporter_is_deployed(fleet: Fleet) -> None:
    with faults.taken_port(fleet.sys, 8080):
        done = fleet.operator.fab("deploy", "--group", "west")
        said = " ".join(done.stdout.split())
        assert done.returncode == 1
        assert "gpu-sys bark port: port 8080, for the speech service, is used by a foreign process" in said
        assert "bark is left as it is: the preflight blocks it" in said
        assert sorted(containers(fleet.sys)) == ["exporter"]
        assert "voxyard-bark" not in fleet.sys.run("docker images --format '{{.Repository}}'").stdout
        assert fleet.operator.results("deploy", "--host", "gpu-sys") == {"gpu-sys": "unchanged"}
        (status,) = fleet.operator.json("status", "--host", "gpu-sys")["hosts"]
        assert (status["ok"], [each["name"] for each in status["services"]]) == (False, ["exporter", "bark"])
    exporter = containers(fleet.sys)["exporter"]
    fleet.operator.good("deploy", "--host", "gpu-sys")
    assert (sorted(containers(fleet.sys)), containers(fleet.sys)["exporter"]) == (["bark", "exporter"], exporter)
    assert "bark is left as it is" in audit(fleet.sys)[0]["note"]


def test_a_service_that_runs_is_not_stopped_by_a_failure_that_keeps_it_from_a_release(
    fleet: Fleet, engine: Engine, base_image: str
) -> None:
    before = containers(fleet.sys)
    newer = fake_image(engine, base_image, "exporter", extra="newer")
    with faults.mig_on(fleet.sys):
        done = fleet.operator.fab("deploy", "--host", "gpu-sys", "--image", f"exporter={newer}")
    assert done.returncode == 1
    after = containers(fleet.sys)
    assert (after["bark"], after["exporter"] != before["exporter"]) == (before["bark"], True)
    fleet.operator.good("deploy", "--host", "gpu-sys")
    assert containers(fleet.sys)["bark"] == before["bark"]
    fleet.hooks()


def test_a_gpu_with_memory_errors_is_left_out_and_comes_back_when_it_is_well(fleet: Fleet) -> None:
    good, bad = (state.uuid for state in fleet.pix.began.scenario.gpus)
    with faults.uncorrectable_errors(fleet.pix, 1):
        (found,) = fleet.operator.json("check", "--host", "gpu-pix")["hosts"]
        (finding,) = [each for each in found["findings"] if each["check"] == "ecc"]
        assert (found["ok"], finding["level"]) == (True, "WARN")
        assert f"({bad}); left out: the services use the other 1" in finding["found"]
        fleet.operator.good("deploy", "--host", "gpu-pix")
        assert limits(fleet.pix) == {good}
    fleet.operator.good("deploy", "--host", "gpu-pix")
    assert limits(fleet.pix) == {good, bad}
    fleet.hooks()


def limits(host: GpuHost) -> set[str]:
    """GPUs of the speech service, from its release."""
    lines = host.run("cat ~voxyard/.voxyard/current/voxyard.env").stdout.splitlines()
    (found,) = [line for line in lines if line.startswith("VOXYARD_BARK_GPU_MEMORY=")]
    return {pair.partition("=")[0] for pair in found.partition("=")[2].split(",")}


def test_an_image_that_crashes_again_and_again_stops_at_the_canary_though_other_hosts_may_fail(
    fleet: Fleet, engine: Engine, base_image: str
) -> None:
    dies = fake_image(engine, base_image, "bark", "dies")
    fleet.set(max_failed=2, min_healthy_seconds=40)
    release, others = current(fleet.pix), [containers(host) for host in (fleet.sys, fleet.one)]
    found = fleet.operator.json("deploy", "--image", f"bark={dies}")["hosts"]
    assert {each["name"]: each["result"] for each in found} == {
        "gpu-pix": "failed", "gpu-sys": "not touched", "gpu-one": "not touched",
    }  # fmt: skip
    notes = {each["name"]: each["note"] for each in found}
    assert "exit code 7" in notes["gpu-pix"]
    assert f"rolled back to release {release}" in notes["gpu-pix"]
    assert notes["gpu-one"] == "the canary gpu-pix failed"
    assert (current(fleet.pix), [containers(host) for host in (fleet.sys, fleet.one)]) == (release, others)
    assert fleet.hooks() == ["before deploy gpu-pix", "after deploy gpu-pix failed"]
    fleet.set(max_failed=0, min_healthy_seconds=1)
    fleet.operator.good("status")


def test_a_hook_after_that_fails_is_named_and_a_drain_tells_the_load_balancer_too(fleet: Fleet) -> None:
    (fleet.folder / "after-gpu-one").write_text("exit 4\n")
    (found,) = fleet.operator.json("deploy", "--host", "gpu-one")["hosts"]
    assert (found["result"], found["ok"], "exit code 4" in found["note"]) == ("deployed", False, True)
    assert "exit code 4" in audit(fleet.one)[-1]["note"]
    (fleet.folder / "after-gpu-one").unlink()
    fleet.hooks()
    assert fleet.operator.results("drain", "--group", "east") == {"gpu-pix": "drained", "gpu-one": "drained"}
    assert sorted(line for line in fleet.hooks() if line.startswith("after")) == [
        "after drain gpu-one drained", "after drain gpu-pix drained",
    ]  # fmt: skip
    fleet.operator.good("deploy", "--drain")
    fleet.hooks()


def test_a_host_that_dies_in_a_rollout_does_not_stop_the_batches_where_one_may_fail(
    fleet: Fleet, engine: Engine
) -> None:
    words = f"{engine.environment['DOCKER_HOST']}"
    kill = f'docker --host "{words}" kill {fleet.sys.container}\n'
    (fleet.folder / "before-gpu-sys").write_text(kill)
    fleet.set(max_failed=1)
    fleet.change(8)
    found = fleet.operator.results("deploy")
    assert found == {"gpu-pix": "deployed", "gpu-sys": "failed", "gpu-one": "deployed"}
    assert [line for line in fleet.hooks() if "gpu-sys" in line] == [
        "before deploy gpu-sys", "after deploy gpu-sys failed",
    ]  # fmt: skip


def test_a_fleet_with_a_dead_host_deploys_the_rest_and_says_so(fleet: Fleet) -> None:
    fleet.change(9)
    before = [containers(host) for host in (fleet.pix, fleet.one)]
    done = fleet.operator.fab("deploy")
    assert done.returncode == 1
    assert "nothing was changed; not ready: gpu-sys (--skip-unfit leaves them out" in done.stderr
    assert [containers(host) for host in (fleet.pix, fleet.one)] == before

    planned = fleet.operator.json("plan", "--skip-unfit")
    assert [each["skipped"] for each in planned["hosts"]] == [False, True, False]
    done = fleet.operator.fab("deploy", "--skip-unfit")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "going on without gpu-sys" in done.stderr
    assert "gpu-sys unfit" in said
    assert said.count("deployed") >= 2
    after = [containers(host) for host in (fleet.pix, fleet.one)]
    assert [new["bark"] != old["bark"] for old, new in zip(before, after, strict=True)] == [True, True]
    assert fleet.hooks() == [
        line for name in ("gpu-pix", "gpu-one") for line in (f"before deploy {name}", f"after deploy {name} deployed")
    ]
    assert fleet.operator.results("rollback", "--skip-unfit") == {
        "gpu-pix": "rolled back", "gpu-sys": "unfit", "gpu-one": "rolled back",
    }  # fmt: skip
    assert fleet.operator.fab("status", "--group", "east").returncode == 0
