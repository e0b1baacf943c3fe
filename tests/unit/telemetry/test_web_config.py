"""TLS and passwords of the metrics: a web configuration file, and a real server and client on loopback."""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import bcrypt
import pytest
import trustme
from eventually import PATIENCE
from prometheus_client import CollectorRegistry, Gauge

from voxyard.telemetry import TelemetryError
from voxyard.telemetry.server import MetricsServer, serve
from voxyard.telemetry.web_config import WebConfig, read_web_config

HASH = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode()


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("voxyard_answer", "A number.", registry=made).set(42)
    return made


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "web.yaml"
    path.write_text(text)
    return path


def with_certificate(tmp_path: Path, authority: trustme.CA, more: str = "") -> Path:
    issue(tmp_path, authority)
    return write(tmp_path, f"tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n{more}")


def issue(tmp_path: Path, authority: trustme.CA) -> None:
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def served(registry: CollectorRegistry) -> Iterator[dict[str, MetricsServer]]:
    running: dict[str, MetricsServer] = {}
    yield running
    for server in running.values():
        server.close()


def get(
    server: MetricsServer,
    path: str = "/metrics",
    *,
    context: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str, Mapping[str, str]]:
    scheme = "https" if context else "http"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{server.port}{path}", headers=dict(headers or {}))  # noqa: S310
    try:
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:  # noqa: S310
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_a_password_is_asked_for_the_metrics_and_not_for_the_health(
    tmp_path: Path, registry: CollectorRegistry, served: dict[str, MetricsServer]
) -> None:
    web = read_web_config(write(tmp_path, f"basic_auth_users:\n  prometheus: {HASH}\n"))
    server = served["it"] = serve(registry, "127.0.0.1", 0, web=web)
    status, _, headers = get(server)
    assert (status, headers["WWW-Authenticate"].partition(" ")[0]) == (401, "Basic")
    assert get(server, headers=basic("prometheus", "wrong"))[0] == 401
    assert get(server, headers=basic("nobody", "open sesame"))[0] == 401
    assert get(server, headers={"Authorization": "Basic %%%"})[0] == 401
    for _ in range(2):  # the second time from memory
        status, body, _ = get(server, headers=basic("prometheus", "open sesame"))
        assert (status, "voxyard_answer 42.0" in body) == (200, True)
    assert get(server, headers=basic("prometheus", "wrong"))[0] == 401
    assert get(server, "/healthz")[:2] == (200, "ok\n")


def test_metrics_travel_over_tls(
    tmp_path: Path, registry: CollectorRegistry, authority: trustme.CA, served: dict[str, MetricsServer]
) -> None:
    server = served["it"] = serve(
        registry, "127.0.0.1", 0, web=read_web_config(with_certificate(tmp_path, authority, "  min_version: TLS13\n"))
    )
    status, body, headers = get(server, context=trusting(authority))
    assert status == 200
    assert "voxyard_answer 42.0" in body
    assert headers["X-Content-Type-Options"] == "nosniff"
    with pytest.raises(OSError, match=r"."):
        get(server)  # in the clear
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"."):
        get(server, context=old)
    assert get(server, context=trusting(authority))[0] == 200


def test_a_client_must_show_its_certificate_where_one_is_required(
    tmp_path: Path, registry: CollectorRegistry, authority: trustme.CA, served: dict[str, MetricsServer]
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    more = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
    server = served["it"] = serve(
        registry, "127.0.0.1", 0, web=read_web_config(with_certificate(tmp_path, authority, more))
    )
    with pytest.raises(OSError, match=r"."):
        get(server, context=trusting(authority))
    known = trusting(authority)
    authority.issue_cert("prometheus@example.org").configure_cert(known)
    assert get(server, context=known)[0] == 200


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(
    tmp_path: Path, registry: CollectorRegistry, authority: trustme.CA, served: dict[str, MetricsServer]
) -> None:
    server = served["it"] = serve(registry, "127.0.0.1", 0, web=read_web_config(with_certificate(tmp_path, authority)))
    other = trustme.CA()
    (tmp_path / "server.pem").unlink()
    assert get(server, context=trusting(authority))[0] == 200
    issue(tmp_path, other)
    assert get(server, context=trusting(other))[0] == 200
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        get(server, context=trusting(authority))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls_server_config: {cert_file: a.pem}\n", "tls_server_config.key_file is missing"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: [X]}\n", "cipher_suites is not supported"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}\n", "expected one of TLS12, TLS13"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}\n", "give both or neither"),
        ("basic_auth_users: {prometheus: open sesame}\n", "no bcrypt hash"),
        ("basic_auth_users: [prometheus]\n", "expected keys and texts, found list"),
        ("basic_auth: {}\n", "basic_auth is not supported here"),
        ("- a\n", "expected keys and values, found list"),
        ("a: [\n", "expected the node content"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        read_web_config(write(tmp_path, text))
    assert complaint in str(caught.value)
    assert "web.yaml" in str(caught.value)


def test_a_certificate_that_is_not_there_is_refused_before_anything_is_served(
    tmp_path: Path, registry: CollectorRegistry
) -> None:
    web = read_web_config(write(tmp_path, "tls_server_config:\n  cert_file: no.pem\n  key_file: no.key\n"))
    with pytest.raises(TelemetryError, match=r"no\.pem"):
        serve(registry, "127.0.0.1", 0, web=web)


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    assert read_web_config(write(tmp_path, "")) == WebConfig(headers={"X-Content-Type-Options": "nosniff"})
