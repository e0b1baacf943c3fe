"""Interrupted deploys: cut in the middle of a step, met by a second one, or cancelled by Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed.cuts import Moment, Rest, cut_at
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, three
from tests.fleet.bed.programs import wait_until
from tests.fleet.bed.snapshot import snapshot
from tests.fleet.bed.stand_ins import replaced_program
from tests.fleet.operators import Operator, audit, containers, current, fake_image

LOCKED = "[ -e ~voxyard/.voxyard/lock ]"
STARTING = "/tmp/starting"


@dataclass
class Fleet:
    """A host for Bark with one GPU; `renew` changes all that a release is made of."""

    operator: Operator
    host: GpuHost
    engine: Engine
    base: str
    generation: int = 0

    def renew(self) -> str:
        """Another image, other weights, other secrets; the option that names the image."""
        self.generation += 1
        folder = self.operator.inventory.parent
        (folder / "weights/vocab.txt").write_text(f"[UNK]\n{self.generation}\n")
        keys = f"tester: {hashlib.sha256(str(self.generation).encode()).hexdigest()}\n"
        secrets = {"bark-api-keys": keys, "bark-webhook-secret": f"webhook-secret-{self.generation:04}"}
        (folder / "secrets.yaml").write_text(yaml.safe_dump(secrets))
        tag = fake_image(self.engine, self.base, "bark", extra="x" * self.generation)
        return f"bark={tag}"

    def secret(self) -> str:
        """The one that the service has."""
        return str(self.host.run("docker exec voxyard-bark-1 cat /run/secrets/bark-webhook-secret").stdout)


@pytest.fixture(scope="module")
def fleet(engine: Engine, base_image: str, gpu_host: HostFactory, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A host on which a first release runs."""
    (host,) = gpu_host.several(three()[2])
    for role in ("exporter", "bark"):
        fake_image(engine, base_image, role)
    entries = {"gpu-one": operators.entry(host, roles=["bark"])}
    operator = Operator(operators.write_fleet(tmp_path_factory.mktemp("fleet"), entries), operators.environment(engine))
    operator.good("deploy")
    return Fleet(operator, host, engine, base_image)


@pytest.mark.parametrize(
    ("program", "arguments", "moment", "rest"),
    [
        pytest.param("docker", "load*", "before", "dies", id="image"),
        pytest.param("tar", "*weights*", "before", "dies", id="weights"),
        pytest.param("mv", "-T .weights*", "after", "goes on", id="weights renamed"),
        pytest.param("mv", "-T .[0-9a-f]*.partial *", "before", "dies", id="release"),
        pytest.param("mv", "-f .partial/*", "after", "dies", id="secrets"),
        pytest.param("docker", "stop*", "after", "dies", id="stop"),
        pytest.param("docker", "compose*up*", "before", "dies", id="start"),
        pytest.param("docker", "compose*up*", "after", "goes on", id="started"),
        pytest.param("mv", "-T .current.next current", "before", "dies", id="current"),
    ],
)
def test_a_cut_in_the_middle_of_a_step_is_healed_by_the_next_deploy(
    fleet: Fleet, program: str, arguments: str, moment: Moment, rest: Rest
) -> None:
    image, host = fleet.renew(), fleet.host
    before = current(host)
    with cut_at(host, program, arguments, moment=moment, rest=rest) as cut:
        broken = fleet.operator.fab("deploy", "--image", image)
        assert cut.happened(), broken.stderr
    assert broken.returncode == 1
    assert "was lost" in broken.stdout + broken.stderr
    assert "could not release the lock" in broken.stderr
    assert current(host) == before
    refused = fleet.operator.fab("deploy", "--image", image)
    assert refused.returncode == 1
    assert "is locked by" in refused.stderr
    assert "fab unlock --host gpu-one" in refused.stderr
    assert fleet.operator.results("unlock", "--host", "gpu-one") == {"gpu-one": "unlocked"}
    assert audit(host)[-1]["what"] == "unlock"
    assert fleet.operator.results("deploy", "--image", image) == {"gpu-one": "deployed"}
    assert fleet.operator.fab("status").returncode == 0
    assert fleet.secret() == f"webhook-secret-{fleet.generation:04}"
    left = [name for name in snapshot(host).files if "partial" in name or ".next" in name or ".before" in name]
    assert left == []
    vocabulary = "docker exec voxyard-bark-1 cat /var/lib/voxyard/weights/vocab.txt /extra"
    assert host.run(vocabulary).stdout.split() == ["[UNK]", str(fleet.generation), "x" * fleet.generation]


def slow_start(seconds: int) -> str:
    """A docker that starts services slowly."""
    return f'case "$*" in compose*" up "*) touch {STARTING}; sleep {seconds};; esac; exec "$REAL" "$@"'


def deploying(fleet: Fleet, image: str) -> subprocess.Popen[str]:
    """A deploy that is starting a service."""
    fleet.host.run(f"rm -f {STARTING}")
    begun = fleet.operator.begin("deploy", "--image", image)
    there = f"[ -e {STARTING} ]"
    wait_until(lambda: begun.poll() is not None or fleet.host.run(there, check=False).returncode == 0, "no start")
    return begun


def test_of_two_deploys_at_once_one_is_refused_and_told_the_owner(fleet: Fleet) -> None:
    image = fleet.renew()
    with replaced_program(fleet.host, "docker", slow_start(8)), deploying(fleet, image) as first:
        second = fleet.operator.fab("deploy", "--image", image)
        said = first.communicate(timeout=300)
    assert second.returncode == 1
    assert "gpu-one is locked by" in second.stderr
    assert "(deploy)" in second.stderr
    assert "nothing was changed" in second.stderr
    assert first.returncode == 0, said
    assert fleet.operator.fab("deploy", "--image", image).returncode == 0
    assert audit(fleet.host)[-1]["result"] == "ok"


def test_ctrl_c_rolls_the_host_back_and_gives_back_the_lock_and_the_next_deploy_continues(fleet: Fleet) -> None:
    image, before = fleet.renew(), current(fleet.host)
    with replaced_program(fleet.host, "docker", slow_start(5)), deploying(fleet, image) as first:
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=300)
    assert first.returncode == 1, err
    assert "stopping after the current steps" in err
    assert "interrupted" in out
    assert f"rolled back to release {before}" in " ".join(out.split())
    assert current(fleet.host) == before
    assert fleet.operator.fab("status").returncode == 0, "what ran before runs again"
    assert fleet.host.run(LOCKED, check=False).returncode == 1
    assert audit(fleet.host)[-1]["result"] == "interrupted"
    undone = fleet.operator.fab("rollback", "--json")
    assert (json.loads(undone.stdout)["hosts"][0]["result"], undone.returncode) == ("unchanged", 0), undone.stderr
    assert f"did not become current: going back to {before}" in undone.stderr
    assert fleet.operator.results("deploy", "--image", image) == {"gpu-one": "deployed"}
    assert set(containers(fleet.host)) == {"bark", "exporter"}


def test_a_host_that_hangs_does_not_hold_up_the_tasks(fleet: Fleet, tmp_path: Path) -> None:
    inventory = yaml.safe_load(fleet.operator.inventory.read_text())
    inventory["hosts"]["gpu-two"] = inventory["hosts"]["gpu-one"] | {"port": 9}
    path = fleet.operator.inventory.with_name("two.yaml")
    path.write_text(yaml.safe_dump(inventory, sort_keys=False))
    two = Operator(path, fleet.operator.environment)
    answer = two.json("status")
    assert [each["ok"] for each in answer["hosts"]] == [True, False]
    done = two.fab("deploy")
    assert done.returncode == 1
    assert "nothing was changed; not ready: gpu-two" in done.stderr
