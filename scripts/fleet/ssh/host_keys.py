"""Refused host keys: their fingerprints, and the command that adds one after comparing it."""

from __future__ import annotations

import re
import shlex

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh.route import Hop

_USERS = "~/.ssh/known_hosts"


def unknown(host: Host, hop: Hop, at_length: str, said: str) -> HostFailedError:
    """The refusal of a host that no known_hosts file names; `at_length` is what `ssh -v` says of it."""
    offered = re.search(r"Server host (?:key|certificate): (\S+?)(?:-cert-\S+)? (SHA256:[^\s,]+)", at_length)
    key = f"{offered[1]} {offered[2]}" if offered else "a key"
    console = _fingerprint_command(offered[1] if offered else "ssh-ed25519")
    return HostFailedError(
        f"the host key of {_name(hop)} is not known; it offers {key} ({said}). "
        f"Compare that with what the host itself says ({console}), then add it: {add_command(host, hop)}"
    )


def changed(host: Host, hop: Hop, words: str) -> HostFailedError:
    """The refusal of a host whose key is not the known one."""
    offered = re.search(r"fingerprint for the (\S+) key sent by the remote host is\s+(\S+?)\.?\s", words)
    known = re.search(r"Offending (?:\S+ )?key in (.+):(\d+)", words)
    path = known[1].strip() if known else str(host.known_hosts or _USERS)
    before = f"line {known[2]} of {path}" if known else f"another one in {path}"
    key = f"{offered[1]} {offered[2]}" if offered else "another key"
    console = _fingerprint_command(offered[1] if offered else "ssh-ed25519")
    return HostFailedError(
        f"the host key of {_name(hop)} has changed: known is {before}, it offers {key}. "
        f"Somebody may stand in between. If the host was installed anew, compare with what it says ({console}), then: "
        f"ssh-keygen -f {_word(path)} -R {shlex.quote(_name(hop))} && {add_command(host, hop)}"
    )


def revoked(hop: Hop, said: str) -> HostFailedError:
    """The refusal of a host that offers a key which known_hosts calls @revoked."""
    return HostFailedError(
        f"the host key of {_name(hop)} is revoked ({said}): nobody may use it any more. "
        "Give the host a new key (ssh-keygen -A there), or find out who answers in its place"
    )


def add_command(host: Host, hop: Hop) -> str:
    """The shell command that puts the keys of a hop into the known_hosts file in force."""
    path = _word(str(host.known_hosts or _USERS))
    option = "" if hop.port == 22 else f"-p {hop.port} "
    scan = f"ssh-keyscan {option}{shlex.quote(hop.address)}"
    if hop.number > 0:  # only the one before may reach it
        last = host.jump[hop.number - 1]
        scan = f"ssh -p {last.port} {last.user or host.user}@{last.address} {scan}"
    return f"{scan} >> {path}"


def _name(hop: Hop) -> str:
    """As known_hosts has it."""
    return hop.address if hop.port == 22 else f"[{hop.address}]:{hop.port}"


def _word(path: str) -> str:
    """The user's own file stays as people write it."""
    return path if path == _USERS else shlex.quote(path)


def _fingerprint_command(key: str) -> str:
    kind = key.lower().removeprefix("ssh-").partition("-")[0]
    return f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub on its console"
