"""SSH route to a host: a file of OpenSSH options for each hop, so that each is checked by the same rules."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.inventory.hosts import Host

CONNECT_SECONDS = 10
ALIVE_SECONDS = 15  # between two signs of life; after four without an answer the connection has broken
_LONGEST_FOLDER = 70  # characters: the path of a socket in it may have about 100


@dataclass(frozen=True, slots=True)
class Hop:
    """One login on the way to a host, whose own is the last."""

    number: int
    address: str
    user: str
    port: int

    @property
    def login_command(self) -> str:
        """Command line by which an operator logs in there."""
        option = "" if self.port == 22 else f"-p {self.port} "
        return f"ssh {option}{self.user}@{self.address}"

    @property
    def target(self) -> str:
        """Address for messages: user@host:port."""
        return f"{self.user}@{bracketed(self.address)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """The hops to a host, and a private folder with their files."""

    host: Host
    folder: Path
    hops: tuple[Hop, ...]

    @property
    def command(self) -> list[str]:
        """The login at the host, but for address and command."""
        return self.login(self.hops[-1])

    def login(self, hop: Hop) -> list[str]:
        """The login at a hop, over those before it, but for address and command."""
        # User and port are no matter of the file: it also holds for the jump hosts of the operator's own configuration.
        return ["ssh", "-F", str(self._options(hop)), "-p", str(hop.port), "-l", hop.user]

    def log(self, hop: Hop) -> Path:
        """Log file of ssh for a hop."""
        return self.folder / f"hop-{hop.number}.err"

    def error_of(self, hop: Hop) -> str:
        """Error of ssh at a hop; "" where there was none."""
        log = self.log(hop)
        return log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""

    def words(self) -> str:
        """The same of all hops, from the first."""
        return "".join(f"{words}\n" for hop in self.hops if (words := self.error_of(hop)))

    def write(self) -> None:
        """Write the files."""
        for hop in self.hops:
            self._options(hop).write_text(self._text(hop), encoding="utf-8")

    def _options(self, hop: Hop) -> Path:
        return self.folder / f"hop-{hop.number}.conf"

    def _text(self, hop: Hop) -> str:
        """Of an option that stands twice, ssh takes the first: the operator's own configuration cannot loosen these."""
        host = self.host
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "VerifyHostKeyDNS": "no",
            "CheckHostIP": "no",
            "UpdateHostKeys": "no",
            "PreferredAuthentications": "publickey",
            "ConnectTimeout": str(CONNECT_SECONDS * (hop.number + 1)),  # the hop that hangs is the first to say so
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
            lines += ["Include ~/.ssh/config", "Include /etc/ssh/ssh_config"]
        return "\n".join(lines) + "\n"


@contextmanager
def route_to(host: Host) -> Iterator[Route]:
    """The way to `host`; its files go at the end. Raises FleetError where a program or a file is missing."""
    if shutil.which("ssh") is None:
        raise FleetError("ssh is not installed here: it logs in to the hosts (apt-get install openssh-client)")
    if host.known_hosts is not None:
        named = f"named as known_hosts of {host.name} in the inventory"
        if not host.known_hosts.exists():
            raise FleetError(f"{host.known_hosts}: no such file, {named}")
        if host.known_hosts.is_dir():
            raise FleetError(f"{host.known_hosts}: is a directory, {named}: name the file")
    key = host.identity_file  # its public half is enough: the private one may be the agent's alone
    if key is not None and not key.exists() and not key.with_name(f"{key.name}.pub").exists():
        raise FleetError(f"{key}: no such file, named as identity_file of {host.name} in the inventory")
    with tempfile.TemporaryDirectory(prefix="voxyard-", ignore_cleanup_errors=True) as folder:
        if len(folder) > _LONGEST_FOLDER:
            raise FleetError(f"{folder} is too long a path for ssh's sockets: set TMPDIR to a shorter one, as /tmp")
        route = Route(host, Path(folder), tuple(_hops(host)))
        route.write()
        yield route


def bracketed(address: str) -> str:
    """An address as it stands before a colon."""
    return f"[{address}]" if ":" in address else address


def _hops(host: Host) -> Iterator[Hop]:
    for number, jump in enumerate(host.jump):
        yield Hop(number, jump.address, jump.user or host.user, jump.port)
    yield Hop(len(host.jump), host.address, host.user, host.port)


def _quoted(path: Path) -> str:
    """A path as ssh reads it: it may hold spaces, and no sign of it is a token."""
    return '"' + str(path).replace("%", "%%") + '"'
