"""Health checks in the images: requests, exit codes, imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from voxyard.telemetry.server import MetricsServer, serve

CHECKS = {
    "trainer": (
        ["voxyard.telemetry.healthcheck", "trainer"],
        "VOXYARD_TRAIN_METRICS_HOST",
        "VOXYARD_TRAIN_METRICS_PORT",
    ),
    "bark": (["voxyard.service.healthcheck"], "VOXYARD_SERVICE_HOST", "VOXYARD_SERVICE_PORT"),
}
SICK = {"well": True}


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """A service that is well until SICK says otherwise."""
    SICK["well"] = True
    with serve(CollectorRegistry(), "127.0.0.1", 0, health=lambda: (SICK["well"], "it hangs")) as started:
        yield started


def check(role: str, port: int) -> subprocess.CompletedProcess[str]:
    words, host_variable, port_variable = CHECKS[role]
    environment = os.environ | {host_variable: "0.0.0.0", port_variable: str(port)}  # noqa: S104
    return subprocess.run([sys.executable, "-m", *words], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("role", CHECKS)
def test_a_check_says_whether_the_service_is_well(server: MetricsServer, role: str) -> None:
    assert check(role, server.port).returncode == 0
    SICK["well"] = False
    done = check(role, server.port)
    assert done.returncode == 1
    assert "is unhealthy: it hangs" in done.stderr


@pytest.mark.parametrize("role", CHECKS)
def test_no_answer_is_unhealthy(server: MetricsServer, role: str) -> None:
    server.close()
    done = check(role, server.port)
    assert done.returncode == 1
    assert "answers on 127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trainer_whose_metrics_are_off_is_not_called_sick() -> None:
    assert check("trainer", 0).returncode == 0


def test_a_port_that_is_none_is_an_error_message() -> None:
    words, _, port = CHECKS["bark"]
    environment = os.environ | {port: "eighty"}
    done = subprocess.run([sys.executable, "-m", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["voxyard.telemetry.healthcheck", "voxyard.service.healthcheck"])
def test_a_check_loads_next_to_nothing(module: str) -> None:
    program = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)
    assert not {"pydantic", "click", "numpy", "yaml", "prometheus_client", "fastapi", "torch"} & set(loaded)
