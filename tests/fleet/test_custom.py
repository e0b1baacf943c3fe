"""A stranger's own service, role `custom`, on a host in a container: deployed, gated, rolled back, removed.

Each time with another login shell of the host's user, none of which is a POSIX shell with the usual programs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.operators import Operator, containers, current, fake_image

SERVE = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8200, bind='0.0.0.0')"
PART = {"entrypoint": ["python3", "-c", SERVE], "ports": ["127.0.0.1:8200:8200"], "working_dir": "/srv"}


@pytest.fixture(scope="module")
def host(gpu_host: HostFactory) -> GpuHost:
    """A host without GPUs."""
    return gpu_host.several(HostSpec("cpu-01", gpus=[], toolkit=False))[0]


@pytest.fixture(scope="module")
def operator(engine: Engine, base_image: str, host: GpuHost, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator with a program of their own, in an image that has no health check."""
    fake_image(engine, base_image, "exporter")
    engine.docker("tag", base_image, "files:1")
    own = {"image": "files:1", "compose": "files.yaml", "health": "http://127.0.0.1:8200/", "start_seconds": 60}
    folder = tmp_path_factory.mktemp("custom")
    path = operators.write_fleet(folder, {"cpu-01": operators.entry(host, roles=["custom"], custom={"files": own})})
    (folder / "files.yaml").write_text(yaml.safe_dump({"services": {"files": PART}}))
    return Operator(path, operators.environment(engine))


def change(inventory: Path, **keys: object) -> None:
    document = yaml.safe_load(inventory.read_text())
    document["hosts"]["cpu-01"]["custom"]["files"] |= keys
    inventory.write_text(yaml.safe_dump(document))


def log_in_with(host: GpuHost, shell: str) -> None:
    host.run(f"usermod --shell {shell} {host.user}")
    assert host.ssh("echo works").stdout == "works\n"


def test_it_is_deployed_gated_rolled_back_and_removed(operator: Operator, host: GpuHost) -> None:
    log_in_with(host, "/bin/csh")
    assert operator.results("deploy") == {"cpu-01": "deployed"}
    first, before = current(host), containers(host)
    assert set(before) == {"exporter", "files"}
    (status,) = operator.json("status")["hosts"]
    assert {each["name"]: each["well"] for each in status["services"]} == {"exporter": True, "files": True}
    assert operator.results("deploy") == {"cpu-01": "unchanged"}

    log_in_with(host, "/usr/bin/fish")
    change(operator.inventory, health="http://127.0.0.1:8200/no-such-page", start_seconds=5, stop_seconds=2)
    assert operator.results("deploy") == {"cpu-01": "failed"}
    assert current(host) == first
    assert set(containers(host)) == {"exporter", "files"}

    log_in_with(host, "/bin/ash")
    change(operator.inventory, health="http://127.0.0.1:8200/", stop_seconds=3, start_seconds=60)
    assert operator.results("deploy") == {"cpu-01": "deployed"}
    assert operator.results("rollback") == {"cpu-01": "rolled back"}
    assert current(host) == first

    document = yaml.safe_load(operator.inventory.read_text())
    document["hosts"]["cpu-01"]["roles"] = []
    operator.inventory.write_text(yaml.safe_dump(document))
    assert operator.results("deploy") == {"cpu-01": "deployed"}
    assert set(containers(host)) == {"exporter"}
