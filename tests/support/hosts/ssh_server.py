"""Real sshd on loopback with its own keys."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from free_ports import free_port
from programs import program

from fleet.inventory.hosts import Host

_START_SECONDS = 100


@dataclass(frozen=True)
class SshServer:
    """An sshd that lets `folder`/user in."""

    folder: Path
    port: int

    @property
    def name(self) -> str:
        """Name in known_hosts."""
        return f"[127.0.0.1]:{self.port}"

    @property
    def host_key(self) -> str:
        """Its public key."""
        return (self.folder / "host.pub").read_text()

    @property
    def line(self) -> str:
        """Its line of known_hosts."""
        return f"{self.name} {self.host_key}"

    def let_in(self, public_key: str) -> None:
        """A key more that may log in."""
        with (self.folder / "authorized_keys").open("a") as keys:
            keys.write(public_key)

    def host(self, **other: Any) -> Host:
        """It as a host of the fleet."""
        key, known = self.folder / "user", self.folder / "known_hosts"
        host = Host("here", "127.0.0.1", getpass.getuser(), port=self.port, identity_file=key, known_hosts=known)
        return replace(host, **other)


@contextmanager
def ssh_server(folder: Path, *, authority: Path | None = None, **settings: str) -> Iterator[SshServer]:
    """Start one; with `authority`, a CA's key, it shows a certificate of it and no more."""
    sshd = program("sshd")
    port = free_port()
    host_key, user_key = make_key(folder / "host"), make_key(folder / "user")
    (folder / "authorized_keys").write_text(user_key)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    options = {
        "Port": str(port),
        "ListenAddress": "127.0.0.1",
        "HostKey": str(folder / "host"),
        "AuthorizedKeysFile": str(folder / "authorized_keys"),
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        **settings,
    }
    if authority is not None:
        sign = [
            "ssh-keygen",
            "-q",
            "-s",
            str(authority),
            "-h",
            "-I",
            "host",
            "-n",
            "127.0.0.1",
            str(folder / "host.pub"),
        ]
        subprocess.run(sign, check=True)
        options["HostCertificate"] = str(folder / "host-cert.pub")
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + _START_SECONDS
            while not accepts(port):
                assert process.poll() is None, process.stderr and process.stderr.read().decode()
                assert time.monotonic() < until, "sshd does not listen"
                time.sleep(0.02)
            yield SshServer(folder, port)
        finally:
            process.terminate()


@contextmanager
def ssh_agent(folder: Path, key: Path) -> Iterator[Path]:
    """An agent that holds a key; its socket."""
    place = folder / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL) as agent:
        try:
            until = time.monotonic() + _START_SECONDS
            while not listens(place):
                assert time.monotonic() < until, "ssh-agent does not listen"
                time.sleep(0.02)
            environment = os.environ | {"SSH_AUTH_SOCK": str(place)}
            subprocess.run(["ssh-add", "-q", key], env=environment, check=True, stderr=subprocess.DEVNULL)
            yield place
        finally:
            agent.terminate()


def make_key(path: Path, passphrase: str = "") -> str:
    """A key pair at `path`; the public one."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)
    return path.with_name(f"{path.name}.pub").read_text()


def accepts(port: int) -> bool:
    """True where somebody listens there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def listens(place: Path) -> bool:
    """True where somebody listens at a Unix socket; it exists before that."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(place)) == 0
