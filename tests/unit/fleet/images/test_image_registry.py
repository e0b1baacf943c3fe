"""Registry client: digest and configuration without a pull; logins, redirects, errors."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import trustme
from programs import python_program

from fleet.errors import FleetError
from fleet.images import registry
from fleet.images.image import LocalImage
from fleet.images.registry import NoSuchImageError, find_published, parse_name

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG = {
    "architecture": "arm64",
    "rootfs": {"diff_ids": ["sha256:1", "sha256:2"]},
    "config": {"Env": ["CUDA_VERSION=12.8.1"], "Labels": {"voxyard.unpacked-bytes": "900"}},
}


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass
class FakeRegistry:
    """Registry with one repository, site/voxyard-bark; with `password` it wants a token for it."""

    contents: dict[str, bytes] = field(default_factory=dict)  # by tag or digest
    password: str = ""
    elsewhere: str = ""  # address that blobs are redirected to
    basic: bool = False
    asks: str = 'Bearer realm="http://{}/token",service="r"'  # for a token
    code: int = 200
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""

    def push(self, tag: str, config: Mapping[str, Any], *, media: str = DOCKER) -> str:
        """Add an image; its digest."""
        body = json.dumps(config).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": media,
            "config": {"digest": digest(body), "size": len(body)},
            "layers": [{"size": 100, "digest": "sha256:a"}, {"size": 20, "digest": "sha256:b"}],
        }
        whole = json.dumps(manifest).encode()
        self.contents |= {tag: whole, digest(whole): whole, digest(body): body}
        return digest(whole)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        said = handler.headers.get("Authorization")
        self.asked.append((handler.path, said))
        at = urlparse(handler.path)
        if at.path == "/token":
            wanted = f"Basic {base64.b64encode(f'ann:{self.password}'.encode()).decode()}"
            asked = parse_qs(at.query)
            good = said == wanted and asked == {"scope": ["repository:site/voxyard-bark:pull"], "service": ["r"]}
            self._send(handler, 200 if good else 401, b'{"token": "good"}' if good else b"{}")
        elif self.password and not self._allowed(said):
            kind = "Basic" if self.basic else self.asks.format(self.address)
            self._send(handler, 401, b"{}", {"WWW-Authenticate": kind})
        elif self.code != 200:
            self._send(handler, self.code, b"out of order")
        else:
            self._content(handler, at.path.rpartition("/")[2])

    def _allowed(self, said: str | None) -> bool:
        return said == (f"Basic {base64.b64encode(b'ann:secret').decode()}" if self.basic else "Bearer good")

    def _content(self, handler: http.server.BaseHTTPRequestHandler, name: str) -> None:
        if name not in self.contents or not handler.path.startswith("/v2/site/voxyard-bark/"):
            self._send(handler, 404, b"{}")
        elif self.elsewhere and "/blobs/" in handler.path:
            self._send(handler, 307, b"", {"Location": f"http://{self.elsewhere}{handler.path}"})
        else:
            self._send(handler, 200, self.contents[name])

    @staticmethod
    def _send(
        handler: http.server.BaseHTTPRequestHandler, code: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        handler.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


def start(made: FakeRegistry, context: ssl.SSLContext | None = None) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made.address = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """Registry on loopback; docker has no logins, and no engine answers."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    program = tmp_path / "docker"
    program.write_text(python_program("raise SystemExit('Cannot connect to the Docker daemon')\n"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    made = FakeRegistry()
    server = start(made)
    yield made
    server.shutdown()
    server.server_close()


def login(fake: FakeRegistry, password: str) -> None:
    """Docker's configuration after `docker login`."""
    entry = {"auth": base64.b64encode(f"ann:{password}".encode()).decode()}
    path = Path(os.environ["DOCKER_CONFIG"]) / "config.json"
    path.write_text(json.dumps({"auths": {fake.address: entry}}))


def find(fake: FakeRegistry, version: str = ":abc") -> LocalImage:
    return find_published(f"{fake.address}/site/voxyard-bark{version}", "bark")


def test_an_image_is_known_with_its_digest_and_what_checks_read(fake: FakeRegistry) -> None:
    pushed = fake.push("abc", CONFIG)
    found = find(fake)
    assert found.reference == f"{fake.address}/site/voxyard-bark@{pushed}"
    assert found.id == digest(json.dumps(CONFIG).encode())
    assert (found.layers, found.size_bytes) == (("sha256:1", "sha256:2"), 900)
    assert (found.environment, found.machine) == (("CUDA_VERSION=12.8.1",), "aarch64")
    assert find(fake, f"@{pushed}") == found


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("caddy:2.8", "docker.io/library/caddy:2.8"),
        ("prom/node-exporter:v1.9.1", "docker.io/prom/node-exporter:v1.9.1"),
        ("quay.io/prometheus/node-exporter:v1", "quay.io/prometheus/node-exporter:v1"),
        ("localhost/x:1", "localhost/x:1"),
        ("r:5000/x:1", "r:5000/x:1"),
    ],
)
def test_the_digest_of_a_short_name_is_that_of_its_registry(image: str, asked: str) -> None:
    def published(name: str, _: str) -> LocalImage:
        assert name == asked
        return LocalImage("sha256:id", (), 0, "", f"{name.rpartition(':')[0]}@sha256:aa")

    assert registry.digest_of(image, published) == f"{image.rpartition(':')[0]}@sha256:aa"


def test_without_the_label_the_size_is_that_of_the_compressed_layers(fake: FakeRegistry) -> None:
    fake.push("abc", {"rootfs": CONFIG["rootfs"]})
    assert find(fake).size_bytes == 120


def test_an_index_is_followed_to_the_image_for_linux(fake: FakeRegistry) -> None:
    inner = fake.push("inner", CONFIG)
    unknown = {"digest": "sha256:none", "platform": {"os": "unknown", "architecture": "unknown"}}
    image = {"digest": inner, "platform": {"os": "linux", "architecture": "amd64"}}
    index = json.dumps({"mediaType": LIST, "manifests": [unknown, image]}).encode()
    fake.contents["abc"] = index
    found = find(fake)
    assert found.layers == ("sha256:1", "sha256:2")
    assert found.reference.endswith(digest(index))
    arm = {**image, "platform": {"os": "linux", "architecture": "arm64"}}
    fake.contents["abc"] = json.dumps({"mediaType": LIST, "manifests": [arm]}).encode()
    assert find(fake).layers == ("sha256:1", "sha256:2")
    fake.contents["abc"] = json.dumps({"mediaType": LIST, "manifests": [unknown]}).encode()
    with pytest.raises(FleetError, match="has no image for linux/amd64"):
        find(fake)


@pytest.mark.parametrize("basic", [False, True])
def test_the_login_of_docker_is_used_where_the_registry_asks_for_one(fake: FakeRegistry, basic: bool) -> None:
    fake.push("abc", CONFIG)
    fake.password, fake.basic = "secret", basic
    login(fake, "secret")
    assert find(fake).layers == ("sha256:1", "sha256:2")


@pytest.mark.parametrize(
    "asks",
    [  # after Azure's and Nexus's registries, which take either
        'Basic realm="site", Bearer realm="http://{}/token",service="r"',
        'Bearer realm="http://{}/token",service="r",scope="", Basic realm="site"',
        "bearer realm=http://{}/token,service=r",
        'BASIC, Bearer service="r",error="invalid_token",realm="http://{}/token"',
    ],
)
def test_a_token_is_fetched_however_the_registry_asks_for_it(fake: FakeRegistry, asks: str) -> None:
    fake.push("abc", CONFIG)
    fake.password, fake.asks = "secret", asks
    login(fake, "secret")
    assert find(fake).layers == ("sha256:1", "sha256:2")


@pytest.mark.parametrize(
    "config",
    [
        "[]",
        '{"auths": ["r:5000"]}',
        '{"auths": {"ADDRESS": {"auth": "%%%"}}}',
        '{"auths": {"ADDRESS": {"auth": "bm8gY29sb24="}}}',
        '{"auths": {"ADDRESS": "secret"}}',
        '{"credHelpers": {"ADDRESS": "absent"}}',  # docker/docker-credential-helpers#182
        '{"credHelpers": {"ADDRESS": "talks"}}',
    ],
)
@pytest.mark.filterwarnings("ignore:docker-credential-absent")
def test_a_login_that_cannot_be_read_is_named_with_its_file(fake: FakeRegistry, tmp_path: Path, config: str) -> None:
    fake.push("abc", CONFIG)
    helper = tmp_path / "docker-credential-talks"
    helper.write_text("#!/bin/sh\necho Please unlock the keyring\n")
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text(config.replace("ADDRESS", fake.address))
    with pytest.raises(
        FleetError, match=rf"login for {fake.address} cannot be read \(.*correct {tmp_path}/config.json"
    ):
        find(fake)


@pytest.mark.parametrize(
    ("password", "said"), [("", "a request without a login"), ("old", "the login that docker has for it")]
)
def test_a_refused_login_names_the_command(fake: FakeRegistry, password: str, said: str) -> None:
    fake.push("abc", CONFIG)
    fake.password = "secret"
    if password:
        login(fake, password)
    with pytest.raises(FleetError, match=rf"refuses {said} \(HTTP 401.*docker login {fake.address}"):
        find(fake)


@pytest.mark.usefixtures("localhost")
def test_a_login_is_not_sent_to_another_host(fake: FakeRegistry) -> None:
    """Blobs of many registries lie in a store of another name."""
    fake.push("abc", CONFIG)
    store = FakeRegistry(contents=fake.contents)
    server = start(store)
    store.address = store.address.replace("127.0.0.1", "localhost")
    fake.elsewhere, fake.password = store.address, "secret"
    login(fake, "secret")
    assert find(fake).layers == ("sha256:1", "sha256:2")
    assert [said for _, said in store.asked] == [None]
    server.shutdown()
    server.server_close()


def test_an_image_that_is_not_there_is_an_error_of_its_own(fake: FakeRegistry) -> None:
    with pytest.raises(NoSuchImageError, match=f"{fake.address} has no image {fake.address}/site/voxyard-bark:abc"):
        find(fake)


def test_a_registry_that_is_out_of_order_is_named_with_what_it_says(fake: FakeRegistry) -> None:
    fake.code = 503
    with pytest.raises(FleetError, match=r"answers HTTP 503 for .*out of order"):
        find(fake)


def test_a_registry_that_wants_fewer_requests_is_named_with_the_way(fake: FakeRegistry) -> None:
    """docker/hub-feedback#1669."""
    fake.code = 429
    with pytest.raises(
        FleetError, match=rf"too many requests \(HTTP 429, .*out of order\): wait, or docker login {fake.address}"
    ):
        find(fake)


@pytest.mark.parametrize(
    "body",
    ["<html>Sign in</html>", "", "[]", "null", '"x"', '{"config": null, "layers": []}', '{"manifests": [1]}', "{}"],
)
def test_what_is_no_image_is_named_as_that(fake: FakeRegistry, body: str) -> None:
    fake.contents["abc"] = body.encode()
    with pytest.raises(FleetError, match=r"is no image"):
        find(fake)


def test_a_registry_without_tls_is_named_with_the_way(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """regclient/regclient#268."""
    monkeypatch.setattr(registry, "_insecure", lambda _: False)
    with pytest.raises(FleetError, match=rf"{fake.address} speaks no TLS: .* insecure-registries"):
        find(fake)


def test_a_registry_that_does_not_answer_is_named(fake: FakeRegistry) -> None:
    fake.address = "127.0.0.1:1"
    with pytest.raises(FleetError, match=r"127\.0\.0\.1:1 does not answer \(.*refused.*check `registry`"):
        find(fake)


def test_a_changed_content_is_refused(fake: FakeRegistry) -> None:
    pushed = fake.push("abc", CONFIG)
    fake.contents[digest(json.dumps(CONFIG).encode())] = b"{}"
    with pytest.raises(FleetError, match="answers with another content"):
        find(fake)
    fake.contents[pushed] = b"{}"
    with pytest.raises(FleetError, match="answers with another content"):
        find(fake, f"@{pushed}")


def test_a_certificate_counts_that_docker_trusts_for_the_registry(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_insecure", lambda _: False)
    monkeypatch.setattr(registry, "_CERTIFICATES", (tmp_path / "certs.d",))
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    private = FakeRegistry()
    server = start(private, context)
    private.push("abc", CONFIG)
    with pytest.raises(FleetError, match=rf"not trusted: .*/etc/docker/certs\.d/{private.address}/ca\.crt"):
        find(private)
    (tmp_path / "certs.d" / private.address).mkdir(parents=True)
    authority.cert_pem.write_to_path(tmp_path / "certs.d" / private.address / "ca.crt")
    assert find(private).layers == ("sha256:1", "sha256:2")
    server.shutdown()
    server.server_close()


def test_plain_http_is_spoken_only_where_docker_would(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"IndexConfigs": {"r:5000": {"Secure": False}}, "InsecureRegistryCIDRs": ["10.0.0.0/8"]}
    monkeypatch.setattr(registry, "docker", lambda *_: json.dumps(said))
    hosts = ["localhost", "127.0.0.1:5000", "[::1]:5000", "r:5000", "10.1.2.3:5000", "11.1.2.3", "registry.example"]
    assert [host for host in hosts if registry._insecure(host)] == hosts[:5]


@pytest.mark.parametrize("reference", ["voxyard-bark", "r/x", "r:5000/x@sha256:12"])
def test_a_reference_without_registry_or_version_is_refused(reference: str) -> None:
    with pytest.raises(FleetError, match="expected an image of a registry as HOST/PATH:TAG"):
        parse_name(reference)
