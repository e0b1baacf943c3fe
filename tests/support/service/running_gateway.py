"""A real HAProxy with the configuration that a release has for its host, on free ports of loopback."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway_certificate import Authority, new_authority
from monitoring_programs import program

from fleet.gateway.configuration import CERTIFICATE, METRICS_PORT, PORT, configuration
from fleet.inventory.hosts import Host

SERVER_NAME = "localhost"


@dataclass(frozen=True)
class RunningGateway:
    """Address for clients, port of its metrics, and who signed its certificate."""

    url: str
    metrics_port: int
    authority: Authority
    log: Path


def haproxy_program() -> str:
    """Path of HAProxy."""
    return program("haproxy", "haproxy")


@contextmanager
def running_gateway(host: Host, folder: Path, https: int, metrics: int) -> Iterator[RunningGateway]:
    """The gateway of `host`, whose upstreams it has, until the block ends; `folder` is emptied then."""
    folder.mkdir(exist_ok=True)
    authority = new_authority(folder, SERVER_NAME)
    certificate = folder / "served.pem"
    certificate.write_text(authority.certificate)
    Path(f"{certificate}.key").write_text(authority.key)
    text = configuration(host).decode()
    for place, here in {
        f":{PORT} ": f":{https} ", f":{METRICS_PORT}\n": f":{metrics}\n", CERTIFICATE: str(certificate)
    }.items():  # fmt: skip
        assert place in text
        text = text.replace(place, here)
    (folder / "haproxy.cfg").write_text(text)
    log = folder / "haproxy.log"
    with log.open("w") as output:
        command = [haproxy_program(), "-W", "-db", "-f", str(folder / "haproxy.cfg")]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        time.sleep(1)
        assert process.poll() is None, log.read_text()
        yield RunningGateway(f"https://{SERVER_NAME}:{https}", metrics, authority, log)
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
