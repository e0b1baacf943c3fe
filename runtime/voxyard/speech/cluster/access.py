"""Access to a cluster: its address, which must be private, and its token, without which only loopback may be used."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from voxyard.speech.cluster.ports import HEAD_PORT
from voxyard.speech.errors import SpeechError

SHORTEST_TOKEN = 32  # characters
_REDIS_SECONDS = 10.0
_REACH_SECONDS = 5.0
RECONNECT_SECONDS = 600  # that nodes and services wait for a head that is away
_SHARED_NETWORK = ipaddress.ip_network("100.64.0.0/10")  # RFC 6598, which VPNs use
NEW_TOKEN = "(umask 077; openssl rand -hex 32 > FILE)"  # noqa: S105 — the command that makes one


@dataclass(frozen=True)
class ClusterAccess:
    """Address of a cluster's head, and the file of its token; None where it is on loopback without one."""

    host: str  # an IP address
    port: int
    token: Path | None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Environment variables of Ray's processes. Ray reads them as it is imported."""
        common = {
            "RAY_BACKEND_LOG_LEVEL": "error",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(RECONNECT_SECONDS),
            "RAY_raylet_liveness_self_check_interval_ms": "1000",  # a node that another head does not know joins that
        }
        if self.token is None:
            return common | {"RAY_AUTH_MODE": "disabled"}
        return common | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token.resolve())}

    def reach(self) -> None:
        """Connect to the head's port, and close. Raises SpeechError: nothing listens there, or the way is cut."""
        try:
            socket.create_connection((self.host, self.port), timeout=_REACH_SECONDS).close()
        except OSError as error:
            raise SpeechError(
                f"the cluster's head {self.address} does not answer ({error.strerror or error}): expected "
                f"`voxyard cluster head` to run there, and port {self.port} to be open to this host"
            ) from error

    def own_address(self) -> str:
        """Address of this host that the head sees. Raises SpeechError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((self.host, self.port))  # sends nothing: it asks for the route
            except OSError as error:
                raise SpeechError(
                    f"there is no way from this host to the cluster's head {self.address} ({error.strerror})"
                ) from error
            return str(probe.getsockname()[0])


def refusal(text: str) -> str | None:
    """Sentence for what Ray says where a head takes no token or another one; None for anything else."""
    if not any(sign in text for sign in ("InvalidAuthToken", "Unauthenticated", "ray get-auth-token")):
        return None
    return "the cluster's head takes another token: --cluster-token must name the same token on every host"


def open_access(cluster: str | None, token: Path | None) -> ClusterAccess:
    """Checked access from the settings `cluster` (HOST or HOST:PORT) and `cluster_token`.

    Raises:
        SpeechError: no address, a public one, no token for an address beyond loopback, or its file is no token.
    """
    if not cluster:
        raise SpeechError(
            "--pool ray needs the address of the cluster's head: --cluster HOST:PORT, such as 10.0.0.1:6379"
        )
    host, port = _split(cluster, "cluster")
    address = private_address(host)
    if token is not None:
        check_token(token)
    elif not ipaddress.ip_address(address).is_loopback:
        raise SpeechError(
            f"cluster {cluster}: whoever reaches a Ray cluster can run code on its hosts, so one beyond loopback needs "
            f"a token: make a file with `{NEW_TOKEN}`, the same on every host, and name it with --cluster-token"
        )
    return ClusterAccess(address, port, token)


def open_redis(address: str | None) -> str | None:
    """Checked HOST:PORT of a Redis that answers; None where none is named.

    Raises:
        SpeechError: no private address, or nothing listens there.
    """
    if address is None:
        return None
    host, port = _split(address, "redis")
    host = private_address(host)
    try:
        socket.create_connection((host, port), timeout=_REDIS_SECONDS).close()
    except OSError as error:
        raise SpeechError(
            f"the Redis {address} does not answer ({error.strerror or error}): start it first, such as "
            f"`redis-server --bind 127.0.0.1 --port {port} --appendonly yes`"
        ) from error
    return f"{host}:{port}"


def private_address(host: str) -> str:
    """IP address of a host name or address, which must be private or loopback. Raises SpeechError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SpeechError(f"{host}: no such host ({error.strerror}): expected an address such as 10.0.0.1") from error
    text = str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])
    address = ipaddress.ip_address(text.partition("%")[0])
    if address.is_unspecified or not (address.is_private or address.is_loopback or address in _SHARED_NETWORK):
        raise SpeechError(
            f"{host} is {text}, no private address: a cluster's traffic is not encrypted, and needs a private network "
            "or a VPN (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7)"
        )
    return text


def check_token(file: Path) -> None:
    """Check that a file is a token that nobody else can read. Raises SpeechError."""
    try:
        state, token = file.stat(), file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpeechError(
            f"the cluster's token {file} cannot be read ({error}): make one with `{NEW_TOKEN}`"
        ) from error
    mode = stat.S_IMODE(state.st_mode)
    if mode & 0o077 and state.st_uid == os.geteuid():
        raise SpeechError(f"the cluster's token {file} can be read by others (mode {mode:04o}): `chmod 600 {file}`")
    if len(token) < SHORTEST_TOKEN or len(token.split()) != 1:
        raise SpeechError(
            f"the cluster's token {file} has {len(token)} characters: expected one word of at least {SHORTEST_TOKEN}, "
            f"as `{NEW_TOKEN}` makes it"
        )


def _split(address: str, what: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = address, str(HEAD_PORT)
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise SpeechError(f"{what} {address!r}: {port!r} is no port: expected HOST:PORT, such as 10.0.0.1:6379")
    return host.strip("[]"), int(port)
