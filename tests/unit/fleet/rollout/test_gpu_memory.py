"""GPU memory use of processes, compared with limits."""

from __future__ import annotations

import pytest
from fleet_doubles import RecordingSession

from fleet.errors import HostFailedError
from fleet.rollout.health_gate import verify_memory
from fleet.ssh.command_batch import Answer

PIDS = Answer("PID\n11\n12\n")


def verified(apps: str, limits: dict[str, int], pids: Answer = PIDS) -> tuple[str, ...]:
    rows = "".join(f"{row}, python\t\t\n" for row in apps.splitlines())
    session = RecordingSession({"gpu-processes": Answer(rows), "processes": pids})
    return verify_memory(session, "gpu-01: bark", "c0ffee", limits)


@pytest.mark.parametrize(
    ("apps", "said"),
    [
        ("", "A: no memory in use yet, limit 1000 MiB"),
        ("A, 11, 600\nA, 12, 300\n", "A: verified 900 of 1000 MiB"),
        ("A, 11, 2024\n", "A: verified 2024 of 1000 MiB"),
        ("A, 99, 9000\nB, 11, 9000\n", "A: no memory in use yet, limit 1000 MiB"),
        ("A, 11, [N/A]\n", "A: memory use not reported by the driver, limit 1000 MiB"),
    ],
)
def test_only_what_its_own_processes_hold_of_its_own_gpus_counts(apps: str, said: str) -> None:
    assert verified(apps, {"A": 1000}) == (said,)


def test_more_than_the_limit_and_a_gibibyte_is_a_failure() -> None:
    said = r"gpu-01: bark exceeds its memory limits: A: uses 2025 MiB, allowed 1000 \+ 1024 MiB"
    with pytest.raises(HostFailedError, match=said):
        verified("A, 11, 2025\nB, 11, 10\n", {"A": 1000, "B": 1000})


@pytest.mark.parametrize(
    ("apps", "pids"),
    [("NVIDIA-SMI has failed", PIDS), ("", Answer("", "No such container", 1)), ("", Answer("UID PID\n1 2\n"))],
)
def test_what_cannot_be_known_is_a_failure(apps: str, pids: Answer) -> None:
    with pytest.raises(HostFailedError, match="memory limits cannot be verified"):
        verified(apps, {"A": 1000}, pids)


def test_without_gpus_there_is_nothing_to_enforce() -> None:
    assert verified("", {}) == ("limits: not enforceable on CPU",)
