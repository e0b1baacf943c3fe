"""A real HAProxy with the configuration that a release has for its host, on free ports of loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventually import PATIENCE
from free_ports import free_port
from gateway_certificate import Authority, new_authority
from programs import program
from tracked_files import ROOT

from fleet.gateway.configuration import (
    AUTHORITIES,
    CERTIFICATE,
    HEALTH_PORT,
    HOST_CERTIFICATE,
    LUA,
    METRICS_PORT,
    PORT,
    configuration,
)
from fleet.inventory.hosts import Host

SERVER_NAME = "localhost"


@dataclass(frozen=True)
class RunningGateway:
    """Address for clients, port of its metrics, and who signed its certificate."""

    url: str
    metrics_port: int
    authority: Authority
    log: Path
    health_port: int  # of the container's own check, where the metrics speak TLS


def haproxy_program() -> str:
    """Path of HAProxy."""
    return program("haproxy")


@contextmanager
def running_gateway(
    host: Host,
    folder: Path,
    https: int,
    metrics: int,
    *,
    encrypted: Collection[str] = (),
    authority: Authority | None = None,
    own: Path | None = None,
) -> Iterator[RunningGateway]:
    """The gateway of `host`, whose upstreams it has, until the block ends; `folder` is emptied then.

    The hosts `encrypted` speak TLS with certificates of `authority`, a new one unless given. The metrics do with the
    certificate `own`.
    """
    folder.mkdir(exist_ok=True)
    authority = authority or new_authority(folder, SERVER_NAME)
    certificate = folder / "served.pem"
    certificate.write_text(authority.certificate)
    Path(f"{certificate}.key").write_text(authority.key)
    text = configuration(host, encrypted, metrics_tls=own is not None).decode()
    for place, here in {
        f":{PORT} ": f":{https} ", f":{METRICS_PORT}": f":{metrics}", CERTIFICATE: str(certificate),
        LUA: str(ROOT / "deploy/compose/frozen.lua"),
    }.items():  # fmt: skip
        assert place in text
        text = text.replace(place, here)
    health = free_port()
    text = text.replace(HOST_CERTIFICATE, str(own)).replace(f":{HEALTH_PORT}", f":{health}")
    text = text.replace(AUTHORITIES, str(authority.root)).replace("abns@voxyard_", f"abns@{https}_")
    (folder / "haproxy.cfg").write_text(text)
    log = folder / "haproxy.log"
    with log.open("w") as output:
        command = [haproxy_program(), "-W", "-db", "-f", str(folder / "haproxy.cfg")]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for port in (https, metrics):
            _wait_until_listening(port, process, log)
        yield RunningGateway(f"https://{SERVER_NAME}:{https}", metrics, authority, log, health)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            assert time.monotonic() < end, f"HAProxy does not listen on port {port}: {log.read_text()}"
            time.sleep(0.05)
        else:
            return
