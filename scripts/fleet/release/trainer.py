"""Part of a release that the role trainer brings: what its training runs are started with."""

from __future__ import annotations

from fleet.inventory.hosts import Host
from fleet.release.environment import LoginInfo, exporter_address
from fleet.release.gpu_assignment import Assignment
from fleet.release.inputs import ReleaseInputs
from fleet.release.memory import memory_limits
from fleet.release.plan import plan_variables
from fleet.release.service import RolePart

TRAINER = "trainer"
COMPOSE_FILE = "trainer.yaml"


def trainer_part(host: Host, assignment: Assignment, login_info: LoginInfo, inputs: ReleaseInputs) -> RolePart:
    """Compose file and variables of the training runs of `host`; no service runs without one."""
    memory = memory_limits(host, login_info.memory_mib).get(TRAINER)
    variables = {
        "VOXYARD_TRAINER_METRICS_ADDRESS": exporter_address(host, login_info),
        "VOXYARD_TRAINER_METRICS_PORT": str(host.trainer.metrics_port),
        "VOXYARD_TRAINER_STOP_SECONDS": str(host.trainer.stop_seconds),
        **({"VOXYARD_TRAINER_MEMORY": str(memory)} if memory else {}),
        **plan_variables(assignment),
    }
    return RolePart((), {}, files=inputs.trainer, variables=variables)
