"""Servers that hosts of the bed share: PostgreSQL of this machine and moto's S3; and the speech service for them."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tones_service
from programs import program
from tests.fleet.bed import gateway_images
from tests.fleet.bed.engine import NETWORK, Engine
from tests.fleet.bed.programs import wait_until

S3_PORT = 5000
_LIBRARIES = ("/usr/lib/postgresql", "/usr/share/postgresql", "/usr/lib/x86_64-linux-gnu", "/usr/share/zoneinfo")
_DATABASE = """
set -e
{bin}/initdb --pgdata /data/pg --username voxyard --encoding UTF8 --no-sync --auth scram-sha-256 --pwfile /data/password
rm /data/password
echo 'host all all all scram-sha-256' >> /data/pg/pg_hba.conf
printf '%s\\n' 'CREATE DATABASE voxyard;' | {bin}/postgres --single -D /data/pg postgres
exec {bin}/postgres -D /data/pg -c listen_addresses='*' -c fsync=off -c unix_socket_directories=/data
"""


def build_service(engine: Engine, base: str) -> str:
    """Image of the speech service with tones, and of moto's server; the base has the same Python."""
    folder = gateway_images._empty(engine, "cells")
    site = folder / "site"
    for name in sorted(gateway_images._needed("voxyard", {"service", "postgres", "s3"}) | moto()):
        gateway_images._copy_distribution(name, site)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(gateway_images.ROOT / "runtime/voxyard", site / "voxyard", ignore=ignored)
    for source in Path(tones_service.__file__).parents[1].glob("s*/*.py"):
        shutil.copy(source, site)
    return gateway_images._build(engine, folder, gateway_images._SERVICE.format(base=base), "voxyard-bark:built")


def moto() -> set[str]:
    """Distributions of moto's server."""
    needed = gateway_images._needed("moto", {"s3"}) | gateway_images._needed("flask-cors", set())
    return needed | {"moto", "flask-cors"}


@contextmanager
def run_database(engine: Engine, base: str, password: str) -> Iterator[str]:
    """Address of a PostgreSQL with a database `voxyard` of a user `voxyard`, until the block ends."""
    server = program("postgres")
    mounts = [word for each in _LIBRARIES for word in ("--volume", f"{each}:{each}:ro")]
    script = f"echo '{password}' > /data/password\n{_DATABASE.format(bin=Path(server).parent)}"
    options = ["--user", "65534:65534", "--tmpfs", "/data:mode=1777", "--shm-size", "64m", "--env", "LC_ALL=C"]
    with _running(engine, "database", [*options, *mounts, base, "sh", "-c", script]) as address:
        ready = ["exec", "voxyard-bed-database", f"{Path(server).parent}/pg_isready", "--host", address]
        wait_until(lambda: engine.docker(*ready, check=False).returncode == 0, "PostgreSQL does not answer")
        yield address


@contextmanager
def run_s3(engine: Engine, image: str) -> Iterator[str]:
    """Address of moto's server, until the block ends."""
    words = ["--entrypoint", "python3", image, "-m", "moto.server", "--host", "0.0.0.0", "--port", str(S3_PORT)]  # noqa: S104
    with _running(engine, "s3", ["--tmpfs", "/tmp", *words]) as address:
        wait_until(lambda: _listens(address), "moto's server does not listen", seconds=120)
        yield address


def _listens(address: str) -> bool:
    try:
        socket.create_connection((address, S3_PORT), timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def _running(engine: Engine, name: str, words: list[str]) -> Iterator[str]:
    container = f"voxyard-bed-{name}"
    engine.docker("run", "--detach", "--name", container, "--network", NETWORK, *words)
    shape = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    try:
        yield engine.docker("inspect", "--format", shape, container).stdout.strip()
    finally:
        engine.docker("rm", "--force", container, check=False)
