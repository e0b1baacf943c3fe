"""Host keys are checked: a key that is unknown, or not the known one, is refused with how to add it."""

from __future__ import annotations

import shlex
from pathlib import Path

import paramiko

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host

_USERS = Path("~/.ssh/known_hosts")
_MACHINES = Path("/etc/ssh/ssh_known_hosts")


def known_keys(client: paramiko.SSHClient, host: Host) -> None:
    """Let `client` know the keys of the host's known_hosts file, else of the usual two. Raises FleetError."""
    if host.known_hosts is not None and not host.known_hosts.exists():
        raise FleetError(f"{host.known_hosts}: no such file, named as known_hosts of {host.name} in the inventory")
    for path in [host.known_hosts] if host.known_hosts else [_USERS.expanduser(), _MACHINES]:
        try:
            if path.exists():
                client.load_system_host_keys(str(path))
        except (OSError, paramiko.SSHException, paramiko.hostkeys.InvalidHostKey) as error:
            raise FleetError(f"{path}: not readable as known_hosts ({error}): take out the line it names") from error


class RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """Refuses a host that no known_hosts file names, and says how to add it."""

    def __init__(self, host: Host, address: str, port: int) -> None:
        self._host, self._address, self._port = host, address, port

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Raises HostFailedError."""
        raise HostFailedError(
            f"the host key of {hostname} is not known; it offers {key.get_name()} {key.fingerprint}. "
            f"Compare that with what the host itself says ({_on_the_host(key)}), then add it: "
            f"{add_command(self._host, self._address, self._port)}"
        )


def changed_key(host: Host, address: str, port: int, error: paramiko.BadHostKeyException) -> HostFailedError:
    """The refusal of a host whose key is not the known one."""
    path = host.known_hosts or _USERS
    name = address if port == 22 else f"[{address}]:{port}"
    return HostFailedError(
        f"the host key of {name} has changed: known is {error.expected_key.fingerprint}, it offers "
        f"{error.key.get_name()} {error.key.fingerprint}. Somebody may stand in between. "
        f"If the host was installed anew, compare with what it says ({_on_the_host(error.key)}), then: "
        f"ssh-keygen -f {shlex.quote(str(path))} -R {shlex.quote(name)} && {add_command(host, address, port)}"
    )


def add_command(host: Host, address: str, port: int) -> str:
    """The shell command that puts the keys of `address` into the known_hosts file in force."""
    path = shlex.quote(str(host.known_hosts)) if host.known_hosts else str(_USERS)
    option = "" if port == 22 else f"-p {port} "
    scan = f"ssh-keyscan {option}{shlex.quote(address)}"
    if host.jump and (address, port) == (host.address, host.port):  # only its last jump host may reach it
        last = host.jump[-1]
        scan = f"ssh -p {last.port} {last.user or host.user}@{last.address} {scan}"
    return f"{scan} >> {path}"


def _on_the_host(key: paramiko.PKey) -> str:
    kind = key.get_name().removeprefix("ssh-").partition("-")[0]
    return f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub on its console"
