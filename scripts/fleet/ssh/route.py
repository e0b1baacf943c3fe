"""SSH route to a host: an OpenSSH configuration file per hop, with the same security options for all."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.inventory.types import bracketed

CONNECT_SECONDS = 10
ALIVE_SECONDS = 15  # keep-alive interval; the connection is lost after four without an answer
_LONGEST_FOLDER = 70  # characters: socket paths are limited to about 100


@dataclass(frozen=True, slots=True)
class Hop:
    """One login of a route; the last hop is the host itself."""

    number: int
    address: str
    user: str
    port: int

    @property
    def login_command(self) -> str:
        """Command line for a manual login."""
        option = "" if self.port == 22 else f"-p {self.port} "
        return f"ssh {option}{self.user}@{self.address}"

    @property
    def target(self) -> str:
        """Address in messages: user@host:port."""
        return f"{self.user}@{bracketed(self.address)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """Hops to a host, and a private folder with their configuration files."""

    host: Host
    folder: Path
    hops: tuple[Hop, ...]

    @property
    def command(self) -> list[str]:
        """ssh command line of the host, without address and remote command."""
        return self.login(self.hops[-1])

    def login(self, hop: Hop) -> list[str]:
        """ssh command line of a hop, through the previous hops, without address and remote command."""
        # User and port are not in the file: it also applies to the jump hosts of the operator's own configuration.
        return ["ssh", "-F", str(self._options(hop)), "-p", str(hop.port), "-l", hop.user]

    def log(self, hop: Hop) -> Path:
        """Log file of ssh for a hop."""
        return self.folder / f"hop-{hop.number}.err"

    def error_of(self, hop: Hop) -> str:
        """Error output of ssh for a hop; "" for none."""
        log = self.log(hop)
        return log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""

    def words(self) -> str:
        """Error output of all hops, first hop first."""
        return "".join(f"{words}\n" for hop in self.hops if (words := self.error_of(hop)))

    def write(self) -> None:
        """Write the configuration files."""
        for hop in self.hops:
            self._options(hop).write_text(self._text(hop), encoding="utf-8")

    def _options(self, hop: Hop) -> Path:
        return self.folder / f"hop-{hop.number}.conf"

    def _text(self, hop: Hop) -> str:
        """Configuration of a hop. ssh uses the first of two equal options: the operator's file cannot loosen these."""
        host = self.host
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "VerifyHostKeyDNS": "no",
            "CheckHostIP": "no",
            "UpdateHostKeys": "no",
            "PreferredAuthentications": "gssapi-with-mic,publickey",  # Kerberos where the operator's file says so
            "ConnectTimeout": str(CONNECT_SECONDS * (hop.number + 1)),  # the hanging hop times out first
            "ConnectionAttempts": "1",
            "ServerAliveInterval": str(ALIVE_SECONDS),
            "ServerAliveCountMax": "4",
            "LogLevel": "ERROR",
            "ControlMaster": "no",
            "ControlPath": "none",
            "ControlPersist": "no",
            "ClearAllForwardings": "yes",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "PermitLocalCommand": "no",
            "RemoteCommand": "none",
            "RequestTTY": "no",
        }
        if host.known_hosts is not None:
            options |= {"UserKnownHostsFile": _quoted(host.known_hosts), "GlobalKnownHostsFile": "/dev/null"}
        if host.identity_file is not None:
            options |= {"IdentityFile": _quoted(host.identity_file), "IdentitiesOnly": "yes"}
        if hop.number > 0:
            before = self.hops[hop.number - 1]
            words = [*self.login(before), "-E", str(self.log(before)), before.address]
            options["ProxyCommand"] = f"{shlex.join(words).replace('%', '%%')} -W '[%h]:%p'"
        lines = [f"{name} {value}" for name, value in options.items()]
        if host.ssh_config:
            lines += _foreground()
            lines += ["Include ~/.ssh/config", "Include /etc/ssh/ssh_config"]
        return "\n".join(lines) + "\n"


@cache
def _foreground() -> tuple[str, ...]:
    """What keeps ssh in the foreground where the operator's file sends it away; ssh before 8.7 knows no such option."""
    words = ["ssh", "-F", "none", "-G", "-o", "ForkAfterAuthentication=no", "--", "host"]
    done = subprocess.run(words, capture_output=True, check=False)
    return ("ForkAfterAuthentication no",) if done.returncode == 0 else ()


@contextmanager
def route_to(host: Host) -> Iterator[Route]:
    """Route to `host`; its files are removed at the end. Raises FleetError where a program or a file is missing."""
    if shutil.which("ssh") is None:
        raise FleetError("ssh is not installed on this machine: apt-get install openssh-client")
    if host.known_hosts is not None:
        named = f"named as known_hosts of {host.name} in the inventory"
        if not host.known_hosts.exists():
            raise FleetError(f"{host.known_hosts}: no such file, {named}")
        if host.known_hosts.is_dir():
            raise FleetError(f"{host.known_hosts}: is a directory, {named}: name the file")
    key = host.identity_file  # the public key is enough: the private key may be in the agent only
    if key is not None and not key.exists() and not key.with_name(f"{key.name}.pub").exists():
        raise FleetError(f"{key}: no such file, named as identity_file of {host.name} in the inventory")
    with tempfile.TemporaryDirectory(prefix="voxyard-", ignore_cleanup_errors=True) as folder:
        if len(folder) > _LONGEST_FOLDER:
            raise FleetError(
                f"{folder} is too long for the path of an SSH socket: set TMPDIR to a shorter path, such as /tmp"
            )
        route = Route(host, Path(folder), tuple(_hops(host)))
        route.write()
        yield route


def _hops(host: Host) -> Iterator[Hop]:
    for number, jump in enumerate(host.jump):
        yield Hop(number, jump.address, jump.user or host.user, jump.port)
    yield Hop(len(host.jump), host.address, host.user, host.port)


def _quoted(path: Path) -> str:
    """Path quoted for ssh_config: spaces allowed, percent signs escaped."""
    return '"' + str(path).replace("%", "%%") + '"'
