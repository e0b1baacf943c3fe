"""Rollout over three hosts: only changed services restart, failures are rolled back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml
from eventually import eventually
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, three
from tests.fleet.bed.processes import command_lines, watched
from tests.fleet.bed.registry import Registry
from tests.fleet.bed.snapshot import Snapshot, differences, snapshot
from tests.fleet.operators import KEY, Operator, audit, containers, current, fake_image


@dataclass
class Fleet:
    """The hosts, who operates them, and what came of the first commands."""

    operator: Operator
    hosts: list[GpuHost]
    said: dict[str, str] = field(default_factory=dict)
    seen: dict[str, list[Snapshot]] = field(default_factory=dict)

    def look(self, name: str) -> None:
        """Remember how all hosts are now."""
        self.seen[name] = [snapshot(host) for host in self.hosts]

    def between(self, one: str, other: str) -> list[str]:
        """Differences between two moments, on all hosts."""
        pairs = zip(self.seen[one], self.seen[other], strict=True)
        return [line for before, after in pairs for line in differences(before, after)]


@pytest.fixture(scope="module")
def fleet(
    engine: Engine,
    base_image: str,
    gpu_host: HostFactory,
    registry: Registry,
    tmp_path_factory: pytest.TempPathFactory,
) -> Fleet:
    """A PIX pair and a SYS pair for Bark, one GPU for training, whose images come from a registry."""
    hosts = gpu_host.several(*three())
    for role in ("exporter", "bark", "trainer"):
        fake_image(engine, base_image, role)
    for role in ("exporter", "trainer"):
        registry.push(f"voxyard-{role}:built", f"voxyard-{role}")
    pix, sys, one = hosts
    entries = {
        "gpu-pix": operators.entry(pix, roles=["bark"]),
        "gpu-sys": operators.entry(sys, roles=["bark"]),
        "gpu-one": operators.entry(one, roles=["trainer"], registry=registry.address),
    }
    folder = tmp_path_factory.mktemp("fleet")
    path = operators.write_fleet(folder, entries)
    pushed = {role: f"voxyard-{role}:built" for role in ("exporter", "trainer")}
    found = Fleet(Operator(path, operators.environment(engine), images=pushed), hosts)
    begin(found, folder / "processes")
    return found


def begin(fleet: Fleet, watch: Path) -> None:
    """Plan, deploy, plan and deploy again, with a look at the hosts in between."""
    fleet.look("nothing")
    planned = fleet.operator.fab("plan", "--exit-code")
    assert planned.returncode == 1, planned.stderr
    fleet.look("planned")
    with watched(watch):
        done = fleet.operator.fab("deploy")
    fleet.said = {
        "plan": planned.stdout,
        "deploy": done.stdout,
        "progress": done.stderr,
        "processes": command_lines(watch),
    }
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    fleet.look("deployed")
    fleet.said["status"] = fleet.operator.good("status")
    # a busy machine may be late with an answer to a health check, which a plan would mend
    again = eventually(lambda: quiet if (quiet := fleet.operator.fab("plan", "--exit-code")).returncode == 0 else None)
    fleet.said["plan again"] = again.stdout
    fleet.said["again"] = fleet.operator.good("deploy")
    fleet.look("again")


def test_plan_says_all_and_changes_nothing(fleet: Fleet) -> None:
    for words in (
        "send image",
        "pull image",
        "send weights-",
        "write secrets: bark-api-keys",
        "start bark",
        "16384 MiB",
    ):
        assert words in fleet.said["plan"]
    assert fleet.between("nothing", "planned") == []


def test_every_host_runs_its_release_and_status_says_so(fleet: Fleet) -> None:
    for host in fleet.hosts:
        assert current(host) in fleet.said["status"]
    assert fleet.said["status"].count("running, healthy") == 5
    assert [list(containers(host)) for host in fleet.hosts] == [
        ["bark", "exporter"],
        ["bark", "exporter"],
        ["exporter"],
    ]


def test_each_role_has_its_canary_first_and_progress_is_reported_by_host_and_step(fleet: Fleet) -> None:
    lines = fleet.said["progress"].splitlines()
    ends = [line.split(":")[0] for line in lines if line.endswith(": deployed")]
    assert ends == ["gpu-pix", "gpu-one", "gpu-sys"]
    for step in ("writing release", "stopping bark", "starting bark", "waiting until bark is healthy"):
        assert [line for line in lines if line.startswith(f"gpu-sys: {step}")]


def test_a_second_deploy_has_nothing_to_do_and_changes_nothing(fleet: Fleet) -> None:
    assert fleet.said["again"].count("unchanged") == 3
    assert fleet.said["plan again"].count("nothing to do") == 3
    assert fleet.between("deployed", "again") == []


def test_the_gpus_and_limits_are_those_of_the_host(fleet: Fleet) -> None:
    for host, count in zip(fleet.hosts[:2], (2, 2), strict=True):
        uuids = [state.uuid for state in host.began.scenario.gpus]
        asked = {call.visible_devices for call in host.hook_calls()}
        assert ",".join(uuids) in asked
        variables = host.run("cat ~voxyard/.voxyard/current/voxyard.env").stdout
        assert f"VOXYARD_BARK_GPU_MEMORY={','.join(f'{each}=16384' for each in uuids)}" in variables
        assert len(uuids) == count
    assert fleet.said["deploy"].count("no memory in use yet, limit 16384 MiB") == 4


def test_the_images_of_a_host_with_a_registry_are_named_by_digest(fleet: Fleet, registry: Registry) -> None:
    named = fleet.hosts[2].run("docker inspect --format '{{.Config.Image}}' $(docker ps -q)").stdout.split()
    assert len(named) == 1
    assert re.fullmatch(rf"{re.escape(registry.address)}/voxyard-exporter@sha256:[0-9a-f]{{64}}", named[0])
    assert "docker load" not in fleet.hosts[2].run("cat /var/log/dockerd.log").stdout


def test_a_secret_is_in_no_log_audit_line_image_or_process_list(fleet: Fleet) -> None:
    host = fleet.hosts[0]
    there = host.run("cd ~voxyard/.voxyard/secrets && stat -c %a . * && cat bark-webhook-secret.*").stdout
    assert there.split() == ["700", "600", "600", KEY]
    for name, text in fleet.said.items():
        assert KEY not in text, name
    assert "docker compose" in fleet.said["processes"], "the watch saw nothing"
    elsewhere = f"grep -rl {KEY} ~voxyard/.voxyard --exclude-dir=secrets || true"
    assert host.run(elsewhere).stdout == ""
    for command in (
        "docker ps -aq | xargs docker inspect",
        "docker images -q | xargs docker inspect",
        "docker images -q | xargs -n1 docker history --no-trunc",
        "cat /var/log/dockerd.log; docker ps -aq | xargs -n1 docker logs 2>&1",
    ):
        assert KEY not in host.run(command).stdout


def test_one_changed_setting_touches_that_service_alone(fleet: Fleet) -> None:
    pix, sys, one = fleet.hosts
    text = fleet.operator.inventory.read_text()
    before, others = containers(pix), [snapshot(sys), snapshot(one)]
    document = yaml.safe_load(text)
    document["hosts"]["gpu-pix"]["bark"]["stop_seconds"] = 6
    fleet.operator.inventory.write_text(yaml.safe_dump(document, sort_keys=False))
    planned = fleet.operator.fab("plan").stdout
    assert "-VOXYARD_BARK_STOP_SECONDS=5" in planned
    assert "+VOXYARD_BARK_STOP_SECONDS=6" in planned
    assert fleet.operator.results("deploy") == {"gpu-pix": "deployed", "gpu-sys": "unchanged", "gpu-one": "unchanged"}
    after = containers(pix)
    assert after["exporter"] == before["exporter"]
    assert after["bark"] != before["bark"]
    assert [differences(old, snapshot(host)) for old, host in zip(others, (sys, one), strict=True)] == [[], []]


def test_a_canary_that_never_gets_well_is_taken_back_and_the_others_are_never_touched(
    fleet: Fleet, engine: Engine, base_image: str
) -> None:
    pix, sys, one = fleet.hosts
    release, before = current(pix), containers(pix)
    others = [snapshot(sys), snapshot(one)]
    bad = fake_image(engine, base_image, "bark", "ends")
    done = fleet.operator.fab("deploy", "--image", f"bark={bad}")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "no such option: --fly" in said
    assert f"rolled back to release {release}" in said
    assert said.count("not touched") == 1
    differ = [differences(old, snapshot(host)) for old, host in zip(others, (sys, one), strict=True)]
    # The lock was made and removed again: the directory around it tells the time of that.
    assert [line for lines in differ for line in lines if not line.startswith("files: .: 0700 ")] == []
    assert [len(audit(host)) for host in (sys, one)] == [1, 1]
    assert (current(pix), containers(pix)["exporter"]) == (release, before["exporter"])
    assert fleet.operator.fab("status").returncode == 0
    last = audit(pix)[-1]
    assert (last["what"], last["result"], last["from"]) == ("deploy", "failed", release)
    assert "rolled back" in last["note"]


def test_a_canary_that_dies_after_it_was_well_is_taken_back_with_the_seconds_that_are_the_default(
    fleet: Fleet, engine: Engine, base_image: str
) -> None:
    pix, sys, _ = fleet.hosts
    release, other = current(pix), containers(sys)
    document = yaml.safe_load(fleet.operator.inventory.read_text())
    del document["rollout"]
    path = fleet.operator.inventory.with_name("default.yaml")
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    dies = fake_image(engine, base_image, "bark", "dies")
    done = replace(fleet.operator, inventory=path).fab("deploy", "--image", f"bark={dies}")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    # On a slow host it may have died more than once before the gate sees it.
    lines = r"exit code 7\. Last log lines:( bark stands in torch sees no GPU)+ rolled back to release"
    assert re.search(lines, said), said
    assert f"rolled back to release {release}" in said
    assert "gpu-pix: waiting for bark: healthy for " in done.stderr
    assert (current(pix), containers(sys)) == (release, other)
    (status,) = fleet.operator.json("status", "--host", "gpu-pix")["hosts"]
    assert (status["ok"], [each["restarts"] for each in status["services"]]) == (True, [0, 0])


def test_only_the_layers_that_a_host_lacks_are_sent(fleet: Fleet, engine: Engine, base_image: str) -> None:
    fake_image(engine, base_image, "bark", extra="newer")
    engine.docker("tag", "voxyard-bark:works5", "voxyard-bark:newer")
    done = fleet.operator.fab("deploy", "--host", "gpu-sys", "--image", "bark=voxyard-bark:newer")
    assert done.returncode == 0, done.stderr
    (sent,) = re.findall(r"gpu-sys: (\d+) of (\d+) layers present, sending (\d+) MB", done.stderr)
    assert (int(sent[1]) > int(sent[0]) > 0, int(sent[2])) == (True, 0)
    assert "sending all" not in done.stderr


def test_rollback_goes_back_with_what_is_on_the_host_and_a_deploy_forward_again(fleet: Fleet) -> None:
    host = fleet.hosts[1]
    newer = current(host)
    assert fleet.operator.results("rollback", "--host", "gpu-sys") == {"gpu-sys": "rolled back"}
    assert current(host) != newer
    assert fleet.operator.fab("status", "--host", "gpu-sys").returncode == 0
    assert audit(host)[-1]["what"] == "rollback"
    assert fleet.operator.results("rollback", "--host", "gpu-sys", "--release", newer) == {"gpu-sys": "rolled back"}
    assert current(host) == newer
    done = fleet.operator.fab("rollback", "--host", "gpu-sys", "--release", "0123456789ab")
    assert done.returncode == 1
    assert "has no release 0123456789ab" in " ".join(done.stdout.split())
    assert fleet.operator.results("deploy", "--host", "gpu-sys") == {"gpu-sys": "deployed"}


def test_drift_is_seen_and_put_right(fleet: Fleet) -> None:
    host = fleet.hosts[1]
    host.run("echo '# mine' >> ~voxyard/.voxyard/current/exporter.yaml")
    (status,) = fleet.operator.json("status", "--host", "gpu-sys")["hosts"]
    assert status["ok"] is False
    assert f"{current(host)}/exporter.yaml was changed on the host" in status["drift"]
    fleet.operator.good("deploy", "--host", "gpu-sys")
    assert fleet.operator.json("status", "--host", "gpu-sys")["hosts"][0]["drift"] == []


def test_a_drained_host_stops_bark_and_a_deploy_brings_it_back(fleet: Fleet) -> None:
    assert fleet.operator.results("drain", "--host", "gpu-sys") == {"gpu-sys": "drained"}
    assert list(containers(fleet.hosts[1])) == ["exporter"]
    assert audit(fleet.hosts[1])[-1]["what"] == "drain"
    assert fleet.operator.results("deploy", "--drain", "--host", "gpu-sys") == {"gpu-sys": "deployed"}
    assert list(containers(fleet.hosts[1])) == ["bark", "exporter"]
