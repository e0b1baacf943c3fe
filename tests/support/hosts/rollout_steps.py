"""Steps of a rollout on one host in a directory, as the tasks take them: deploy, rollback, and releases for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leaping_clock import LeapingCancellation
from release_doubles import artefact, image, release, saved
from shell_host import ShellHost

from fleet.images.archive import ImageCache
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import versioned
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.change_plan import plan_change, plan_rollback
from fleet.rollout.context import Cancellation, Outcome, RolloutContext
from fleet.rollout.fleet import RolloutTask, run_rollout
from fleet.rollout.host_state import read_state
from fleet.ssh.connection_pool import Connections

HOST = Host("gpu-01", "192.0.2.11", "voxyard", roles=("bark",))
GPU = "GPU-00000000-aaaa-bbbb-cccc-000000000000"
ALICE = versioned("bark-api-keys", b"alice: 0123456789\n")


def rollout_context(folder: Path, cancellation: Cancellation | None = None, **other: Any) -> RolloutContext:
    """Site where waiting takes no time, and a gate two looks; half a minute of it is what the gate's own tests wait."""
    cache = ImageCache(folder / "cache", saved)
    return RolloutContext(
        **{"cancellation": cancellation or LeapingCancellation(), "cache": cache, "min_healthy_seconds": 1, **other}
    )


def state(host: ShellHost, wanted: Release) -> Any:
    return read_state(host, "gpu-01", manifest_of(wanted))


def deploy(host: ShellHost, wanted: Release, context: RolloutContext) -> Outcome:
    """As `fab deploy` does it, the lock included."""
    with Connections(host.connect) as connections:
        task = RolloutTask(
            "deploy",
            lambda _, session: plan_change(wanted, read_state(session, "gpu-01", manifest_of(wanted))),
        )
        (outcome,) = run_rollout([HOST], connections, task, context)
    return outcome


def roll_back(host: ShellHost, context: RolloutContext, name: str | None = None) -> Outcome:
    with Connections(host.connect) as connections:
        task = RolloutTask("rollback", lambda each, session: plan_rollback(session, each.name, name))
        (outcome,) = run_rollout([HOST], connections, task, context)
    return outcome


def everything(folder: Path, port: int, **other: Any) -> Release:
    """Two services, weights, a secret."""
    return release(port, artefacts=[artefact(folder)], secrets={"bark-api-keys": b"alice: 0123456789\n"}, **other)


def second(folder: Path, port: int) -> Release:
    """Everything is another."""
    return release(
        port,
        configs={"exporter": "e-2", "bark": "b-2"},
        images={role: image(role, "2") for role in ("exporter", "bark")},
        artefacts=[artefact(folder, content="others")],
        secrets={"bark-api-keys": b"bob: abcdefghij\n"},
    )
