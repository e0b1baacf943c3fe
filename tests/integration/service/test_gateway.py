"""A real HAProxy with a release's configuration before three services, which are stopped and started under load."""

from __future__ import annotations

import hashlib
import re
import shutil
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from free_ports import free_port
from gateway_certificate import new_authority
from gateway_load import Load
from running_gateway import SERVER_NAME, haproxy_program, running_gateway
from tones_process import TonesProcess

from fleet.inventory.hosts import Bark, Host, with_upstreams
from voxyard.service.documents.records import instance_prefix

KEY = "a-key-for-tests-0123456789"
NAMES = ("one", "two", "three")


@dataclass
class Fleet:
    """Three services and a gateway."""

    services: list[TonesProcess]
    url: str
    metrics: str
    trust: ssl.SSLContext
    log: Path
    load: Load = field(init=False)

    def __post_init__(self) -> None:
        self.load = Load(self.url, KEY, self.trust)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    haproxy_program()
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "keys.yaml").write_text(f"tester: {hashlib.sha256(KEY.encode()).hexdigest()}\n")
    (folder / "session").write_text("s" * 32)
    https, metrics, *ports = (free_port() for _ in range(2 + len(NAMES)))
    authority = new_authority(folder / "authority", SERVER_NAME)
    trust = ssl.create_default_context(cafile=str(authority.root))
    services: list[TonesProcess] = []
    for name, port in zip(NAMES, ports, strict=True):
        pem = authority.write_of_host(folder / f"{name}.pem", name, "127.0.0.1")
        section: dict[str, object] = {
            "instance": name, "keys": str(folder / "keys.yaml"), "session_secret": str(folder / "session"),
            "rate_limit": 0, "lame_duck_seconds": 6, "stop_seconds": 30, "drain_seconds": 30,
            "tls_certificate": str(pem), "tls_key": f"{pem}.key",
        }  # fmt: skip
        services.append(TonesProcess(folder / name, name, port, section, trust=trust))
    barks = [Host(each.name, "127.0.0.1", "voxyard", roles=("bark",), bark=Bark(port=each.port)) for each in services]
    host = with_upstreams([Host("gw", "127.0.0.1", "voxyard", roles=("gateway",)), *barks])[0]
    here = folder / "haproxy"
    try:
        with running_gateway(host, here, https, metrics, encrypted=NAMES, authority=authority) as gateway:
            for each in services:
                each.start()
            found = Fleet(services, gateway.url, f"http://127.0.0.1:{metrics}/metrics", trust, gateway.log)
            eventually(lambda: all(each.ready for each in services), "all services are ready")
            yield found
    finally:
        for each in services:
            each.end()
        shutil.rmtree(folder, ignore_errors=True)


def serving(fleet: Fleet) -> set[str]:
    """Services to which the gateway sends requests."""
    text = httpx.get(fleet.metrics).text
    return set(re.findall(r'^haproxy_server_status\{proxy="ready",server="(\w+)",state="UP"\} 1', text, re.MULTILINE))


def test_services_are_stopped_and_started_under_load_and_no_request_fails_and_no_document_is_lost(
    fleet: Fleet,
) -> None:
    load = fleet.load = Load(fleet.url, KEY, fleet.trust)  # a new one where pytest runs this again
    with load.running():
        time.sleep(3)
        for each in fleet.services:
            each.stop()
            each.start()
            eventually(lambda: serving(fleet) == set(NAMES), f"the gateway sees that {each.name} is ready again")
        before = len(load.documents)
        eventually(
            lambda: {id[:8] for id in list(load.documents)[before:]} == {instance_prefix(name) for name in NAMES},
            "each service is given a document after its restart",
        )
        eventually(lambda: len(load.documents) >= 10, "there are some documents")
    assert load.failures == []
    assert set(load.fetched) == set(load.documents)
    with load.client() as client:
        for id in load.documents:
            assert load.state(client, id)["state"] == "completed"
            load.fetch(client, id)


def test_a_document_is_deleted_on_its_host_and_its_list_is_there_by_name(fleet: Fleet) -> None:
    with fleet.load.client() as client:
        answer = client.post("/v1/documents", json={"text": "Short."})
        id = answer.json()["id"]
        (name,) = [each for each in NAMES if id.startswith(instance_prefix(each))]
        assert id in [each["id"] for each in client.get(f"/v1/documents?host={name}").json()["documents"]]
        assert client.delete(f"/v1/documents/{id}").status_code == 204
        assert client.get(f"/v1/documents/{id}").status_code == 404


def test_the_page_stays_with_one_host_and_its_session_counts_on_all(fleet: Fleet) -> None:
    with httpx.Client(base_url=fleet.url, verify=fleet.trust, timeout=60) as browser:
        opened = browser.post("/session", json={"key": KEY})
        assert opened.status_code == 204
        (session,) = [each for each in opened.headers.get_list("set-cookie") if each.startswith("voxyard_session=")]
        assert session.endswith("; Secure")
        headers = {"X-Voxyard-Page": "1"}
        ids = [browser.post("/v1/documents", json={"text": "A."}, headers=headers).json()["id"] for _ in range(4)]
        assert len({id[:8] for id in ids}) == 1
        assert set(ids) <= {each["id"] for each in browser.get("/v1/documents").json()["documents"]}
        others = [id for id in fleet.load.documents if id[:8] != ids[0][:8]]
        assert browser.get(f"/v1/documents/{others[0]}/audio").status_code == 200


def test_a_client_that_does_not_know_the_authority_gets_no_connection(fleet: Fleet) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(fleet.url, verify=ssl.create_default_context())


def test_its_metrics_name_the_services(fleet: Fleet) -> None:
    eventually(lambda: serving(fleet) == set(NAMES), "all are found ready")  # one that was busy may have missed a check
    text = httpx.get(fleet.metrics).text
    assert f'haproxy_backend_active_servers{{proxy="ready"}} {len(NAMES)}' in text  # what alerts read
    for each in fleet.services:
        assert f'haproxy_server_status{{proxy="ready",server="{each.name}",state="UP"}} 1' in text
