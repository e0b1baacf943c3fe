"""TLS of the service: HTTPS alone, renewed certificates, wrong files, silent clients."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from eventually import PATIENCE, eventually
from fastapi import FastAPI
from live_service import live
from service_app import quiet

from voxyard.service import server
from voxyard.service.app import install
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError
from voxyard.service.http import tls
from voxyard.service.http.tls import open_certificate
from voxyard.telemetry.healthcheck import probe


@dataclass(frozen=True)
class Files:
    """Certificate and key of 127.0.0.1, and a client's view of their authority."""

    authority: trustme.CA
    certificate: Path
    key: Path

    def issue(self) -> bytes:
        """Writes a new certificate with its key; returns it as DER."""
        issued = self.authority.issue_cert("127.0.0.1")
        self.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())
        return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())

    @property
    def section(self) -> ServiceSection:
        return ServiceSection(host="127.0.0.1", port=0, tls_certificate=self.certificate, tls_key=self.key)

    def client(self) -> ssl.SSLContext:
        """A context that trusts the authority alone."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(trustme.CA(), tmp_path / "certificate.pem", tmp_path / "key.pem")
    found.issue()
    return found


@contextmanager
def serving(section: ServiceSection) -> Iterator[str]:
    app = FastAPI()
    app.get("/healthz")(lambda: {"scheme": "well"})
    with TemporaryDirectory() as data, quiet(section.model_copy(update={"data_dir": Path(data)})) as state:
        install(app, state)
        with live(app, section) as address:
            yield address


def port_of(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def served(files: Files, address: str) -> bytes:
    """Certificate that the service shows to a new connection, as DER; verified."""
    with (
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as plain,
        files.client().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def test_it_speaks_https_and_nothing_else(files: Files) -> None:
    with serving(files.section) as address:
        assert address.startswith("https://127.0.0.1:")
        assert httpx.get(f"{address}/healthz", verify=files.client()).status_code == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{address}/healthz", verify=ssl.create_default_context())
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{address.replace('https', 'http')}/healthz")
        probe("127.0.0.1", port_of(address))


def test_without_a_certificate_it_speaks_http(tmp_path: Path) -> None:
    with serving(ServiceSection(host="127.0.0.1", port=0)) as address:
        assert address.startswith("http://")
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_old_versions_of_tls_are_refused(files: Files) -> None:
    context = files.client()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        serving(files.section) as address,
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_renewed_certificate_is_shown_without_a_restart(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_TICKS_PER_RENEWAL", 1)
    with serving(files.section) as address:
        renewed = files.issue()
        eventually(lambda: served(files, address) == renewed)
        files.key.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_pem.bytes())  # of another certificate
        time.sleep(0.5)  # several looks at it
        assert served(files, address) == renewed
        files.key.unlink()
        time.sleep(0.5)
        assert served(files, address) == renewed
        renewed = files.issue()
        eventually(lambda: served(files, address) == renewed)


def test_a_client_that_never_shakes_hands_is_cut_off(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.3)
    with (
        serving(files.section) as address,
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as silent,
    ):
        assert silent.recv(1) == b""


def test_a_shutdown_does_not_wait_for_clients_that_keep_their_connection(files: Files) -> None:
    with (
        serving(files.section.model_copy(update={"stop_seconds": 60.0})) as address,
        socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as plain,
        files.client().wrap_socket(plain, server_hostname="127.0.0.1") as idle,
    ):
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
    assert time.monotonic() - begun < PATIENCE  # `live` waits for the server's end as long


@pytest.mark.parametrize("left_out", ["tls_certificate", "tls_key"])
def test_one_file_of_the_two_is_an_error(files: Files, left_out: str) -> None:
    option = f"--{left_out.replace('_', '-')}"
    with pytest.raises(ServiceError, match=f"^{option} is not set: TLS needs both --tls-certificate and --tls-key, "):
        open_certificate(files.section.model_copy(update={left_out: None}))


def no_key(files: Files) -> None:
    files.key.unlink()


def no_certificate(files: Files) -> None:
    files.certificate.unlink()


def a_directory(files: Files) -> None:
    files.certificate.unlink()
    files.certificate.mkdir()


def not_pem(files: Files) -> None:
    files.certificate.write_text("certificate\n")


def exchanged(files: Files) -> None:
    shutil.move(files.certificate, files.certificate.with_suffix(".tmp"))
    shutil.move(files.key, files.certificate)
    shutil.move(files.certificate.with_suffix(".tmp"), files.key)


def of_another(files: Files) -> None:
    files.key.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_pem.bytes())


def with_a_password(files: Files) -> None:
    key = load_pem_private_key(files.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(os.urandom(8).hex().encode()))
    files.key.write_bytes(locked)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_key, r"^tls_key \S+key.pem: No such file or directory: expected a readable PEM file$"),
        (no_certificate, r"^tls_certificate \S+certificate.pem: No such file"),
        (a_directory, r"^tls_certificate \S+certificate.pem: Is a directory"),
        (not_pem, "cannot be used .* expected PEM, a certificate with its chain, and its key without a password$"),
        (exchanged, "cannot be used"),
        (of_another, "KEY_VALUES_MISMATCH"),
        (with_a_password, "its key without a password$"),
    ],
)
def test_wrong_files_are_named(files: Files, spoil: Callable[[Files], None], words: str) -> None:
    spoil(files)
    with pytest.raises(ServiceError, match=words):
        open_certificate(files.section)
