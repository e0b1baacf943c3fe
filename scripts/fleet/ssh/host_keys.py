"""Rejected host keys: fingerprints, and the commands that verify and add a key."""

from __future__ import annotations

import re
import shlex

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh.route import Hop

_USERS = "~/.ssh/known_hosts"


def unknown(host: Host, hop: Hop, at_length: str, said: str) -> HostFailedError:
    """Error for a host that is not in known_hosts; `at_length` is the output of `ssh -v`."""
    offered = re.search(r"Server host (?:key|certificate): (\S+?)(?:-cert-\S+)? (SHA256:[^\s,]+)", at_length)
    key = f"{offered[1]} {offered[2]}" if offered else "a key"
    console = _fingerprint_command(offered[1] if offered else "ssh-ed25519")
    return HostFailedError(
        f"the host key of {_name(hop, said)} is not known; it offers {key} ({said}). "
        f"Compare it with the key on the host ({console}), then add it: {add_command(host, hop)}"
    )


def changed(host: Host, hop: Hop, words: str) -> HostFailedError:
    """Error for a host whose key differs from the known one."""
    offered = re.search(r"fingerprint for the (\S+) key sent by the remote host is\s+(\S+?)\.?\s", words)
    known = re.search(r"Offending (?:\S+ )?key in (.+):(\d+)", words)
    path = known[1].strip() if known else str(host.known_hosts or _USERS)
    before = f"line {known[2]} of {path}" if known else f"another key in {path}"
    key = f"{offered[1]} {offered[2]}" if offered else "another key"
    console = _fingerprint_command(offered[1] if offered else "ssh-ed25519")
    return HostFailedError(
        f"the host key of {_name(hop, words)} has changed: known is {before}, it offers {key}. "
        f"This may be a man-in-the-middle attack. If the host was reinstalled, compare with its key ({console}), then: "
        f"ssh-keygen -f {_word(path)} -R {shlex.quote(_name(hop, words))} && {add_command(host, hop)}"
    )


def revoked(hop: Hop, said: str) -> HostFailedError:
    """Error for a host that offers a key marked @revoked in known_hosts."""
    return HostFailedError(
        f"the host key of {_name(hop, said)} is revoked ({said}). "
        "Create a new key on the host (ssh-keygen -A there), or check which machine answers at this address"
    )


def add_command(host: Host, hop: Hop) -> str:
    """Shell command that adds the keys of a hop to the known_hosts file in use."""
    path = _word(str(host.known_hosts or _USERS))
    if host.ssh_config and hop.number == 0:  # ssh-keyscan reads no aliases and takes no proxies
        return (
            f"{hop.login_command} -o StrictHostKeyChecking=ask -o UserKnownHostsFile={path} true "
            "(and name that file as known_hosts in the inventory where ~/.ssh/config names another)"
        )
    option = "" if hop.port == 22 else f"-p {hop.port} "
    scan = f"ssh-keyscan {option}{shlex.quote(hop.address)}"
    if hop.number > 0:  # reachable from the previous hop only
        last = host.jump[hop.number - 1]
        scan = f"ssh -p {last.port} {last.user or host.user}@{last.address} {scan}"
    return f"{scan} >> {path}"


def _name(hop: Hop, words: str) -> str:
    """Host name as in known_hosts: as ssh itself says it, for ~/.ssh/config may change it or name a jump host."""
    if said := re.search(r"(?i)host key (?:is known )?for (\S+)(?= and | has | was )", words):
        return said[1]
    return hop.address if hop.port == 22 else f"[{hop.address}]:{hop.port}"


def _word(path: str) -> str:
    """Quoted path; the user's own known_hosts stays unquoted, for ~."""
    return path if path == _USERS else shlex.quote(path)


def _fingerprint_command(key: str) -> str:
    kind = key.lower().removeprefix("ssh-").partition("-")[0]
    return f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub on its console"
