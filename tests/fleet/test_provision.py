"""`fab provision` on a Debian in a container that has neither Docker nor rsync, with its apt, dpkg, sudo and groups.

NVIDIA's repository cannot be reached from there, nor is there systemd: the container toolkit is what stays missing, and
the driver, persistence mode and a reboot are proved by the commands alone (tests/unit/fleet/test_provision.py).
"""

from __future__ import annotations

import pytest
from tests.fleet import operators
from tests.fleet.bed import images
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.operators import Operator

BARE = "voxyard-test/bare:1"


@pytest.fixture(scope="module")
def host(engine: Engine, host_image: str, gpu_host: HostFactory) -> GpuHost:
    """A host with two GPUs and their driver, and nothing that a deployment needs."""
    context = engine.folder / "bare"
    context.mkdir()
    dockerfile = images.HERE / "bare.Dockerfile"
    engine.build(context, BARE, dockerfile=dockerfile, arguments={"HOST": host_image})
    (found,) = gpu_host.several(HostSpec("new-01", toolkit=False, image=BARE))
    found.stop_engine()
    found.run("dpkg --remove --force-depends docker.io rsync; gpasswd --delete voxyard docker; rm -f /run/docker.sock")
    return found


@pytest.fixture(scope="module")
def operator(engine: Engine, host: GpuHost, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator of that host."""
    path = operators.write_fleet(
        tmp_path_factory.mktemp("operator"), {"new-01": operators.entry(host, roles=["trainer"])}
    )
    return Operator(path, operators.environment(engine))


def failures(operator: Operator) -> set[str]:
    """Checks that fail."""
    (found,) = operator.json("check")["hosts"]
    return {each["check"] for each in found["findings"] if each["level"] == "FAIL"}


def test_a_bare_debian_gets_what_a_deployment_needs_and_says_what_it_cannot_get(
    operator: Operator, host: GpuHost
) -> None:
    assert {"docker", "programs"} <= failures(operator)

    printed = operator.good("provision", "--host", "new-01")

    assert "install --yes docker.io" in printed
    assert "install --yes rsync" in printed
    assert operators.audit(host) == []
    assert host.run("command -v docker rsync", check=False).returncode != 0

    done = operator.fab("provision", "--host", "new-01", "--yes")

    said = f"{done.stdout}\n{done.stderr}"
    assert failures(operator) == {"toolkit"}, said
    assert done.returncode == 1
    assert "Unable to locate package nvidia-container-toolkit" in said
    assert "add NVIDIA's apt repository first" in said
    assert host.ssh("docker compose version --short && rsync --version").stdout
    steps = [(each["what"], each["result"], each["note"].split()[-1]) for each in operators.audit(host)]
    assert ("provision", "ok", "docker.io") in steps
    assert ("provision", "ok", "rsync") in steps
    assert ("provision", "ok", "voxyard") in steps, "its group"

    before = len(operators.audit(host))
    operator.fab("provision", "--host", "new-01", "--yes")
    again = [each["note"] for each in operators.audit(host)[before:]]
    assert [each for each in again if "nvidia-container-toolkit" not in each] == ["apt-get update"], "nothing is redone"
    assert host.run("test -e ~voxyard/.voxyard/lock", check=False).returncode != 0
