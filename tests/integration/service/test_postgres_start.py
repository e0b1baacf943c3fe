"""A start with PostgreSQL that cannot succeed: each reason in words, at once where waiting does not mend it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from gateway_certificate import Authority, new_authority
from postgres_server import PostgresServer, running_server

from voxyard.service.documents.postgres import PostgresDatabase
from voxyard.service.errors import StoreError

pytestmark = pytest.mark.needs("initdb")
CONNECTIONS = 9  # of the server, one of them the superuser's


@pytest.fixture(scope="module")
def small_server() -> Iterator[PostgresServer]:
    """A server of few connections."""
    with running_server(max_connections=str(CONNECTIONS), superuser_reserved_connections="1") as server:
        server.execute("CREATE ROLE guest LOGIN")
        server.execute("GRANT ALL ON DATABASE voxyard TO guest")
        yield server


@pytest.mark.slow
def test_a_server_that_is_full_is_waited_for_and_then_said_to_be(small_server: PostgresServer) -> None:
    url = small_server.url(host="127.0.0.1")
    guest = url.replace("voxyard@", "guest@").partition("?")[0]
    taken = [psycopg.connect(guest) for _ in range(CONNECTIONS - 1)]

    def close() -> None:
        for each in taken:
            each.close()

    try:
        with pytest.raises(
            StoreError, match=r"has had no connection left for \d+ s: .*(slots|too many).*raise its max_connections"
        ):
            PostgresDatabase(guest, start_seconds=1.0)
        later = threading.Timer(1.0, close)
        later.start()
        with pytest.raises(StoreError, match="cannot create tables"):  # it was connected
            PostgresDatabase(guest)
        later.join()
    finally:
        close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Authority of the server's certificate, which names it localhost."""
    return new_authority(tmp_path_factory.mktemp("authority"), "localhost", "192.0.2.1")


@pytest.fixture(scope="module")
def tls_server(authority: Authority) -> Iterator[PostgresServer]:
    """A server with TLS."""
    with running_server() as server:
        for name, content in (("server.crt", authority.certificate), ("server.key", authority.key)):
            path = server.data / name
            path.touch(0o600)
            path.write_text(content)
            server.owned(f"data/{name}")
        server.execute("ALTER SYSTEM SET ssl = on")
        server.stop()
        server.start()
        yield server


@pytest.mark.slow
def test_a_server_is_verified_by_its_authority_and_its_name(
    tls_server: PostgresServer, authority: Authority, tmp_path: Path
) -> None:
    other = new_authority(tmp_path / "other", "localhost")

    def url(host: str, root: Path) -> str:
        return f"{tls_server.url(host=host)}&sslmode=verify-full&sslrootcert={root}"

    PostgresDatabase(url("localhost", authority.root)).close()
    for place, words in (
        (url("localhost", other.root), "certificate verify failed"),
        (url("127.0.0.1", authority.root), 'server certificate for "localhost".* does not match host name'),
        (url("localhost", tmp_path / "none.pem"), 'root certificate file ".*none.pem" does not exist'),
    ):
        began = time.monotonic()
        with pytest.raises(StoreError, match=rf"with TLS: .*{words}.*check sslmode and sslrootcert"):
            PostgresDatabase(place, start_seconds=3600.0)
        assert time.monotonic() - began < 600


def test_a_server_without_tls_is_said_to_have_none(postgres: PostgresServer, authority: Authority) -> None:
    url = f"{postgres.url(host='127.0.0.1')}&sslmode=verify-full&sslrootcert={authority.root}"
    with pytest.raises(StoreError, match="server does not support SSL, but SSL was required; check sslmode"):
        PostgresDatabase(url, start_seconds=3600.0)


def test_a_password_comes_from_its_file_and_a_wrong_one_ends_the_start_at_once(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.guarded("geheim"):
        postgres.execute("CREATE SCHEMA guarded AUTHORIZATION guarded")
        url = postgres.url("guarded", host="127.0.0.1").replace("voxyard@", "guarded@")
        file = tmp_path / "pgpass"
        file.touch(0o600)
        monkeypatch.setenv("PGPASSFILE", str(file))
        for password, words in (("", "no password supplied"), ("wrong", "password authentication failed")):
            file.write_text(f"127.0.0.1:{postgres.port}:voxyard:guarded:{password}\n" if password else "")
            with pytest.raises(StoreError, match=f"{words}.*check the user.*the file that PGPASSFILE names"):
                PostgresDatabase(url)
        file.write_text(f"127.0.0.1:{postgres.port}:voxyard:guarded:geheim\n")
        PostgresDatabase(url).close()
        file.chmod(0o644)
        with pytest.raises(StoreError, match=rf"others may read {file}.*so that it is ignored: chmod 600 {file}"):
            PostgresDatabase(url)
        file.unlink()
        with pytest.raises(StoreError, match=rf"PGPASSFILE names {file}, which cannot be read: No such file"):
            PostgresDatabase(url)


def test_an_option_of_the_url_that_is_wrong_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match='invalid sslmode value: "verify-ful"; check'):
        PostgresDatabase(f"{postgres.url()}&sslmode=verify-ful")
