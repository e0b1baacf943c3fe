"""A real PostgreSQL of Debian: a cluster of the tests' own, on loopback and a socket, as an unprivileged user."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
from eventually import PATIENCE
from programs import found, program

_SETTINGS = {"fsync": "off", "autovacuum": "off", "shared_buffers": "16MB", "max_connections": "80"}
_LOGINS = """\
local all all trust
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""


class PostgresServer:
    """A cluster in a temporary folder; a schema of its database `voxyard` for each test."""

    def __init__(self, **settings: str) -> None:
        """`settings` are PostgreSQL's, beside or in place of the tests' own."""
        self._settings = {**_SETTINGS, **settings}
        self.folder = Path(tempfile.mkdtemp(prefix="voxyard-postgres-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        # initdb and postgres refuse to run as root.
        self._user = None if os.getuid() else "nobody"
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self._schemas = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None

    def create(self, encoding: str = "UTF8") -> None:
        """Makes the cluster and starts it."""
        self._run(
            "initdb", "--username", "voxyard", "--encoding", encoding, "--locale", "C", "--no-sync", "--auth", "trust",
            self.data,
        )  # fmt: skip
        (self.data / "pg_hba.conf").write_text(_LOGINS)
        self.start()
        self.execute("CREATE DATABASE voxyard", database="postgres")

    @property
    def data(self) -> Path:
        """Folder of the cluster."""
        return self.folder / "data"

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        settings = {
            **self._settings, "port": self.port, "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
        }  # fmt: skip
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [found("postgres") or "postgres", "-D", str(self.data), *arguments],
                stdout=log, stderr=log, cwd=self.folder, user=self._user,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.05)

    @property
    def runs(self) -> bool:
        """True while the server runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Ends the server at once, as a crash would: connections are cut, and the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """All its processes stand still until the block ends: the kernel still takes connections, nobody answers."""
        assert self._process is not None
        main = psutil.Process(self._process.pid)
        main.suspend()  # first: it starts no others then
        stopped = [main, *main.children()]
        try:
            for each in stopped[1:]:
                with suppress(psutil.NoSuchProcess):
                    each.suspend()
            yield
        finally:
            for each in reversed(stopped):
                with suppress(psutil.NoSuchProcess):
                    each.resume()

    def close(self) -> None:
        """Ends the server and deletes the cluster."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema: str | None = None, *, database: str = "voxyard", host: str | None = None) -> str:
        """URL of a schema, by default of a new one."""
        if schema is None:
            schema = f"s{next(self._schemas)}"
            self.execute(f"CREATE SCHEMA {schema}")
        options = quote(f"-c search_path={schema}")
        host = quote(str(self.folder), safe="") if host is None else host
        return f"postgresql://voxyard@{host}:{self.port}/{database}?options={options}"

    def execute(self, statement: str, *, database: str = "voxyard") -> list[tuple[Any, ...]]:
        """Rows of a statement, run outside of a transaction."""
        if self._process is not None and (code := self._process.poll()) is not None:
            last = (self.folder / "log").read_text(errors="replace").splitlines()[-30:]
            raise AssertionError("\n".join([f"PostgreSQL has ended with {code}; its last words:", *last]))
        with psycopg.connect(
            host=str(self.folder), port=self.port, user="voxyard", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def guarded(self, password: str) -> Iterator[None]:
        """The role `guarded`, which alone needs a password, and whose things go with it."""
        self.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{password}'")
        try:
            yield
        finally:
            self.execute("DROP OWNED BY guarded CASCADE")
            self.execute("DROP ROLE guarded")

    def owned(self, name: str) -> None:
        """Gives a folder of this server to its user."""
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder / name, entry.pw_uid, entry.pw_gid)

    def standby(self) -> PostgresServer:
        """A read-only standby of this server, started; to be closed by the caller."""
        copy = PostgresServer()
        self._run(
            "pg_basebackup", "-h", "127.0.0.1", "-p", str(self.port), "-U", "voxyard", "-D", copy.data, "-R",
            "--no-sync", "-c", "fast",
        )  # fmt: skip
        copy.start()
        return copy

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1", database="postgres")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, name: str, *arguments: object) -> None:
        done = subprocess.run(
            [found(name) or name, *map(str, arguments)], cwd=self.folder, user=self._user, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@contextmanager
def running_server(**settings: str) -> Iterator[PostgresServer]:
    """A server until the block ends; without PostgreSQL the test is left out."""
    program("initdb")
    server = PostgresServer(**settings)
    try:
        server.create()
        yield server
    finally:
        server.close()
