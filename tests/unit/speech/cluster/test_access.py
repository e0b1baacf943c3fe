"""Access to a cluster: private addresses, a token beyond loopback, fixed ports; what is wrong is said in words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from voxyard.speech.cluster.access import check_token, open_access, open_redis, private_address, refusal
from voxyard.speech.cluster.cluster_pool import check_settings
from voxyard.speech.cluster.devices import ClusterDevice, cluster_devices, labels, resources
from voxyard.speech.cluster.node import Node, NodeSpec, head_spec
from voxyard.speech.cluster.ports import HEAD_PORT, ROLES, Role, busy_ports, node_ports
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.open_pool import open_pool
from voxyard.speech.pool.worker_process import Device


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A token as the messages say to make one."""
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("5" * 64 + "\n")
    return file


@pytest.mark.parametrize("address", ["10.1.2.3", "172.16.0.9", "192.168.1.1", "100.64.1.1", "127.0.0.1", "fd00::1"])
def test_private_addresses_are_taken(address: str) -> None:
    assert private_address(address) == address


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "0.0.0.0", "2a00::1"])  # noqa: S104 — refused
def test_public_addresses_are_refused(address: str) -> None:
    with pytest.raises(SpeechError, match="no private address"):
        private_address(address)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [("10.0.0.1", ("10.0.0.1", 6379)), ("10.0.0.1:7000", ("10.0.0.1", 7000)), ("[fd00::1]:7000", ("fd00::1", 7000)),
     ("fd00::1", ("fd00::1", 6379))],
)  # fmt: skip
def test_an_address_may_leave_the_port_out(cluster: str, expected: tuple[str, int], token: Path) -> None:
    access = open_access(cluster, token)

    assert (access.host, access.port) == expected
    assert access.environment()["RAY_AUTH_MODE"] == "token"
    assert access.environment()["RAY_AUTH_TOKEN_PATH"] == str(token)


@pytest.mark.parametrize("cluster", ["10.0.0.1:port", "10.0.0.1:0", "10.0.0.1:70000"])
def test_a_port_that_is_none_is_refused(cluster: str, token: Path) -> None:
    with pytest.raises(SpeechError, match="is no port: expected HOST:PORT"):
        open_access(cluster, token)


def test_an_unknown_host_is_refused(token: Path) -> None:
    with pytest.raises(SpeechError, match=r"nowhere\.invalid: no such host"):
        open_access("nowhere.invalid:6379", token)


def test_beyond_loopback_a_token_is_needed() -> None:
    with pytest.raises(SpeechError, match="needs a token"):
        open_access("10.0.0.1:6379", None)
    assert open_access("127.0.0.1", None).environment()["RAY_AUTH_MODE"] == "disabled"


def test_a_token_that_others_can_read_is_refused(token: Path) -> None:
    token.chmod(0o640)
    with pytest.raises(SpeechError, match=r"can be read by others \(mode 0640\): `chmod 600"):
        check_token(token)


@pytest.mark.parametrize("content", ["", "short", "5" * 40 + " " + "6" * 40])
def test_a_token_that_is_none_is_refused(token: Path, content: str) -> None:
    token.write_text(content)
    with pytest.raises(SpeechError, match="expected one word of at least 32"):
        check_token(token)


def test_a_token_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpeechError, match="cannot be read"):
        open_access("10.0.0.1", tmp_path / "none")


def test_a_redis_that_does_not_answer_is_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(SpeechError, match="does not answer"):
            open_redis(f"127.0.0.1:{bound.getsockname()[1]}")
    assert open_redis(None) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs the address of the cluster's head"),
        ({"cluster": "127.0.0.1", "gpus": "0"}, "name the GPUs where their host joins"),
        ({"cluster": "127.0.0.1", "enable_parallel_tts": False}, "one worker needs no cluster"),
    ],
)
def test_settings_of_a_local_pool_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SpeechError, match=message):
        check_settings(SpeechSection.model_validate({"pool": "ray", **settings}))


def test_a_cluster_without_the_pool_is_refused() -> None:
    section = SpeechSection(cluster="127.0.0.1")
    with (
        pytest.raises(SpeechError, match="has no effect with --pool local: add --pool ray"),
        open_pool(EngineSpec("engines:tones"), section, "cpu", workload="bark"),
    ):
        pass


def test_roles_that_share_a_host_share_no_port() -> None:
    taken: list[int] = [HEAD_PORT]
    for role in ROLES:
        ports = node_ports(role)
        taken += [*ports.single, *range(ports.first_worker, ports.last_worker + 1)]
    assert len(taken) == len(set(taken))
    assert node_ports("worker").single == (8076, 8077, 8078, 8079, 8082, 8083, 8084)


@pytest.mark.parametrize("role", ["worker", "head"])
def test_a_port_that_is_taken_is_named_before_anything_starts(role: Role) -> None:
    address, access = "127.0.66.1", open_access("127.0.66.1", None)
    with socket.create_server((address, node_ports(role).metrics)):
        assert busy_ports(address, role) == [node_ports(role).metrics]
        with pytest.raises(SpeechError, match=f"needs port {node_ports(role).metrics} of {address}"):
            Node(NodeSpec(role, access, address, "host")).start()


def test_a_head_that_does_not_answer_is_named_with_what_to_do() -> None:
    with pytest.raises(SpeechError, match=r"head 127\.0\.66\.2:6379 does not answer \(Connection refused\): expected"):
        open_access("127.0.66.2", None).reach()

    with socket.create_server(("127.0.66.2", HEAD_PORT)):
        open_access("127.0.66.2", None).reach()


def test_another_token_is_said_in_a_sentence() -> None:
    said = "RPC error: InvalidAuthToken: Authentication token is missing or incorrect. Ensure that the token for the"

    assert "must name the same token on every host" in (refusal(said) or "")
    assert refusal("Timed out while waiting for GCS to become available.") is None


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(SpeechError, match=r"10\.255\.0\.1 is no address of this host"):
        Node(NodeSpec("worker", open_access("127.0.0.1", None), "10.255.0.1", "host")).start()


def test_a_node_starts_neither_dashboard_nor_client_nor_autoscaler(token: Path, tmp_path: Path) -> None:
    spec = head_spec(open_access("10.0.0.1", token), "a-head", "127.0.0.1:6380")
    command, environment = spec.command(tmp_path), spec.environment()

    assert command[command.index("--include-dashboard") + 1] == "false"
    assert "--no-monitor" in command
    assert environment["RAY_START_HOOK"].endswith("start_hook.prepare")
    assert environment["RAY_REDIS_ADDRESS"] == "127.0.0.1:6380"
    assert not any(token.read_text().strip() in part for part in command)


def test_a_host_publishes_its_devices_as_labels() -> None:
    devices = (Device("0", "GPU-aa"), Device("3", "MIG-bb"))

    assert cluster_devices("node", "gpu-01", labels(devices) | {"other": "label"}) == (
        ClusterDevice("gpu-01/0", "GPU-aa", "node", "voxyard-device-0"),
        ClusterDevice("gpu-01/3", "MIG-bb", "node", "voxyard-device-1"),
    )
    assert resources(devices) == {"voxyard-device-0": 1.0, "voxyard-device-1": 1.0}
    assert cluster_devices("node", "head", {"other": "label"}) == ()


def test_a_worker_without_a_gpu_has_no_visible_device() -> None:
    (device,) = cluster_devices("node", "cpu-01", labels((Device("cpu0"),)))

    assert device == ClusterDevice("cpu-01/cpu0", "", "node", "voxyard-device-0")
    assert device.host == "cpu-01"
