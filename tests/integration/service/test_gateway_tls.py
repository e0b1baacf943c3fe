"""A real HAProxy before small services: what it sends by their certificates, how requests wait, TLS of its metrics."""

from __future__ import annotations

import re
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from free_ports import free_port
from gateway_certificate import new_authority
from running_gateway import SERVER_NAME, running_gateway
from tls_server import running_server

from fleet.gateway import configuration
from fleet.inventory.gateway_settings import Gateway
from fleet.inventory.hosts import Bark, Host, with_upstreams


@pytest.mark.parametrize("served", ["with its own", "of another host", "of another authority", "plain"])
def test_a_service_gets_requests_only_with_its_own_certificate(tmp_path: Path, served: str) -> None:
    authority = new_authority(tmp_path / "authority", SERVER_NAME)
    other = new_authority(tmp_path / "other", SERVER_NAME)
    signer = other if served == "of another authority" else authority
    name = "gpu-02" if served == "of another host" else "gpu-01"
    certificate = None
    if served != "plain":
        certificate = signer.write_of_host(tmp_path / "served.pem", name, "127.0.0.1")
    spoken = served == "with its own"
    settings = Gateway(wait_seconds=60 if spoken else 1)
    with running_server(certificate) as service:
        gateway = Host("gw", "127.0.0.1", "voxyard", roles=("gateway",), gateway=settings)
        bark = Host("gpu-01", "127.0.0.1", "voxyard", roles=("bark",), bark=Bark(port=service.port))
        on, https, metrics = with_upstreams([gateway, bark])[0], free_port(), free_port()
        trust = ssl.create_default_context(cafile=str(authority.root))
        here = tmp_path / "haproxy"
        with running_gateway(on, here, https, metrics, encrypted=["gpu-01"], authority=authority) as running:
            until_checked(metrics, active=int(spoken))
            with httpx.Client(base_url=running.url, verify=trust, timeout=60) as client:
                answers = [
                    client.get("/v1/voices").status_code,
                    client.get("/v1/documents?host=gpu-01").status_code,
                    client.post("/v1/documents", headers={"Authorization": "x", "Idempotency-Key": "k"}).status_code,
                ]
    assert answers == [200 if spoken else 503] * 3
    assert ({path for path in service.asked if path != "/readyz"} != set()) == spoken


def until_checked(metrics: int, *, active: int) -> None:
    """Wait until the server was checked, and found well or not."""

    def they_were() -> bool:
        text = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
        checked = re.findall(r'^haproxy_server_check_status\{proxy="ready",.*state="L\w+"\} 1$', text, re.MULTILINE)
        return len(checked) == 1 and f'haproxy_backend_active_servers{{proxy="ready"}} {active}\n' in text

    eventually(they_were, f"the server is checked and {active} are well")


def test_requests_wait_for_the_first_service_that_is_ready(tmp_path: Path) -> None:
    """Of two; neither listens as the requests come, and the one that was ready before is gone again later."""
    authority = new_authority(tmp_path / "authority", SERVER_NAME)
    certificate = authority.write_of_host(tmp_path / "served.pem", "gpu-02", "127.0.0.1")
    ports = {"gpu-01": free_port(), "gpu-02": free_port()}
    barks = [Host(name, "127.0.0.1", "voxyard", roles=("bark",), bark=Bark(port=port)) for name, port in ports.items()]
    on = with_upstreams([Host("gw", "127.0.0.1", "voxyard", roles=("gateway",)), *barks])[0]
    trust = ssl.create_default_context(cafile=str(authority.root))
    here, https, metrics = tmp_path / "haproxy", free_port(), free_port()
    with running_gateway(on, here, https, metrics, encrypted=list(ports), authority=authority) as running:

        def answers() -> list[int]:
            """Of a page, a client's list, other work, and of a body that is sent when somebody takes it."""
            with httpx.Client(base_url=running.url, verify=trust, timeout=60) as client:
                key = {"Authorization": "Bearer key"}
                return [
                    client.get("/").status_code,
                    client.get("/v1/documents", headers=key).status_code,
                    client.get("/v1/voices", headers=key).status_code,
                    client.post("/v1/audio/speech", headers=key, content=b"x" * 100_000).status_code,
                ]

        seen_away = 'haproxy_backend_active_servers{proxy="ready"} 0\n'
        with ThreadPoolExecutor(1) as clients:
            eventually(lambda: seen_away in httpx.get(f"http://127.0.0.1:{metrics}/metrics").text)
            for _ in range(2):
                waiting = clients.submit(answers)
                time.sleep(3)
                assert not waiting.done()
                with running_server(certificate, ports["gpu-02"]):
                    assert waiting.result() == [200] * 4


def test_a_key_whose_host_is_away_waits_longer_than_an_answer_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "ANSWER_SECONDS", 1)
    authority = new_authority(tmp_path / "authority", SERVER_NAME)
    certificate = authority.write_of_host(tmp_path / "served.pem", "gpu-01", "127.0.0.1")
    bark = Host("gpu-01", "127.0.0.1", "voxyard", roles=("bark",), bark=Bark(port=free_port()))
    on = with_upstreams([Host("gw", "127.0.0.1", "voxyard", roles=("gateway",)), bark])[0]
    trust = ssl.create_default_context(cafile=str(authority.root))
    here, https, metrics = tmp_path / "haproxy", free_port(), free_port()
    with running_gateway(on, here, https, metrics, encrypted=["gpu-01"], authority=authority) as running:

        def submit() -> int:
            headers = {"Authorization": "Bearer key", "Idempotency-Key": "k"}
            with httpx.Client(base_url=running.url, verify=trust, timeout=120) as client:
                return client.post("/v1/documents", headers=headers, json={"text": "A."}).status_code

        until_checked(metrics, active=0)
        with ThreadPoolExecutor(1) as clients:
            waiting = clients.submit(submit)
            time.sleep(4)
            assert not waiting.done()
            with running_server(certificate, bark.bark.port):
                assert waiting.result() == 200


def test_the_gateways_metrics_speak_tls_where_its_host_has_a_certificate(tmp_path: Path) -> None:
    authority = new_authority(tmp_path / "authority", SERVER_NAME)
    own = authority.write_of_host(tmp_path / "host.pem", "gw", "127.0.0.1")
    bark = Host("gpu-01", "127.0.0.1", "voxyard", roles=("bark",), bark=Bark(port=free_port()))
    on = with_upstreams([Host("gw", "127.0.0.1", "voxyard", roles=("gateway",)), bark])[0]
    https, metrics = free_port(), free_port()
    trust = ssl.create_default_context(cafile=str(authority.root))
    with running_gateway(on, tmp_path / "haproxy", https, metrics, authority=authority, own=own) as running:
        url = f"https://127.0.0.1:{metrics}/metrics"
        assert "haproxy_server_status" in httpx.get(url, verify=trust).text
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"))
        assert httpx.get(f"http://127.0.0.1:{running.health_port}/healthz").status_code == 200
