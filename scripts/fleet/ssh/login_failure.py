"""Diagnosis of a failed SSH login: OpenSSH's message, and the fix."""

from __future__ import annotations

import re
import shlex

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.types import bracketed
from fleet.ssh import host_keys
from fleet.ssh.command_batch import decoded
from fleet.ssh.exchange import StalledError, exchange
from fleet.ssh.route import CONNECT_SECONDS, Hop, Route

_LONGEST = 400  # characters
_NOT_THERE = "stdio forwarding failed"  # the jump host works, the next hop does not answer

_CUT = "kex_exchange_identification"
_REMEDIES = (  # words of ssh → what helps, where sshd answers
    (
        "no matching",
        "its sshd is too old for this ssh: update it, or allow what it offers in ~/.ssh/config (such as "
        "HostKeyAlgorithms +ssh-rsa), with ssh_config: true in the inventory",
    ),
    (
        _CUT,
        "something there closes connections at once: MaxStartups of its sshd, fail2ban, a firewall, or what listens on "
        "port {port} is no sshd",
    ),
    ("banner exchange", "what listens on port {port} does not answer as sshd: an overloaded host, or another service"),
    ("not permitted to log in", "the host is starting or going down, or has /etc/nologin: try again when it is up"),
    ("account has expired", "its administrator must extend the account: chage --list shows the dates"),
    ("", "check that the host is up and sshd runs on port {port}, or give its port in the inventory"),
)
_KERBEROS = (
    "it takes Kerberos tickets: kinit, with ssh_config: true in the inventory and GSSAPIAuthentication yes in "
    "~/.ssh/config"
)


def login_failure(route: Route) -> FleetError:
    """Error for the hop that failed, after ssh has exited."""
    hop, words = _failed_hop(route)
    words = words or _verbose_login(route, hop, "-o", "LogLevel=INFO").strip().rpartition("\n")[2]
    said = on_one_line(words)
    if _NOT_THERE in words and hop.number > 0 and _forbidden(route, route.hops[hop.number - 1], hop):
        before = route.hops[hop.number - 1]
        return HostFailedError(
            f"{before.target} (jump host of {route.host.name}) forbids forwarding to {hop.target}: allow it in its "
            "sshd_config (AllowTcpForwarding, PermitOpen) and in the key's line of its authorized_keys"
        )
    via = "" if hop is route.hops[-1] else f" (jump host of {route.host.name})"
    if "bad configuration option" in words.lower() or "Bad owner or permissions" in words:
        return FleetError(f"ssh cannot read its configuration ({said}): correct that file")
    if "REVOKED HOST KEY" in words:
        return host_keys.revoked(hop, said)
    if "HOST IDENTIFICATION HAS CHANGED" in words:
        return host_keys.changed(route.host, hop, words)
    if "host key is known for" in words or "Host key verification failed" in words:
        return host_keys.unknown(route.host, hop, _verbose_login(route, hop), said)
    if "Permission denied" in words or "Too many authentication failures" in words:
        return HostFailedError(f"{hop.target} rejects the login{via} ({said}): {_fix(route, hop, words)}")
    if "Could not resolve hostname" in words:
        alias = "" if route.host.ssh_config else ", or set ssh_config: true where ~/.ssh/config names it"
        return HostFailedError(
            f"the address {hop.address} cannot be resolved ({said}){via}: correct it in the inventory{alias}"
        )
    found, remedy = next((found, each.format(port=hop.port)) for found, each in _REMEDIES if found in words)
    if found in ("", _CUT) and _has_proxy(route, hop):
        remedy = f"the ProxyCommand or ProxyJump of ~/.ssh/config fails: see what {hop.login_command} says"
    return HostFailedError(f"{hop.target} cannot be reached{via} ({said}): {remedy}")


def on_one_line(words: str) -> str:
    """Message of ssh on one line."""
    said = " ".join(re.sub(r"@{3,}|\s@\s", " ", words).split())
    return said[-_LONGEST:] or "no message from ssh"


def _failed_hop(route: Route) -> tuple[Hop, str]:
    """First hop with an error: later hops only lost their connection."""
    for hop in route.hops:
        if words := route.error_of(hop):
            return (route.hops[hop.number + 1] if _NOT_THERE in words and hop is not route.hops[-1] else hop), words
    return route.hops[-1], ""


def _forbidden(route: Route, jump: Hop, hop: Hop) -> bool:
    """True where the jump host refuses to forward; only with more words does ssh tell that from a hop that is down."""
    limit = CONNECT_SECONDS * (jump.number + 2)
    words = [*route.login(jump), "-o", "LogLevel=INFO", "-W", f"{bracketed(hop.address)}:{hop.port}", jump.address]
    try:
        return b"prohibited" in exchange(words, (), stall_seconds=limit, seconds=limit).err
    except StalledError:
        return False


def _has_proxy(route: Route, hop: Hop) -> bool:
    """True where ~/.ssh/config has a proxy on the way to the first hop."""
    if not route.host.ssh_config or hop.number > 0:
        return False
    return re.search(r"(?m)^proxy(command|jump) (?!none$)", _verbose_login(route, hop, "-G")) is not None


def _fix(route: Route, hop: Hop, words: str) -> str:
    methods = set(re.findall(r"[\w-]+", "".join(re.findall(r"Permission denied \(([\w,-]+)\)", words))))
    if methods and "publickey" not in methods:
        return (
            _KERBEROS
            if "gssapi-with-mic" in methods
            else f"it asks for {' or '.join(sorted(methods))}, which nobody types during a deploy: let keys in there "
            "without it (PubkeyAuthentication and AuthenticationMethods in its sshd_config)"
        )
    if "Too many authentication failures" in words:
        return "the SSH agent offers too many keys: name the right one as identity_file in the inventory"
    if unprotected := re.search(r"Permissions (\d+) for '(.+)' are too open", words):
        mode, key = unprotected.groups()
        return f"ssh ignores {key}, which others can read (mode {mode}): chmod 600 {shlex.quote(key)}"
    if unread := re.search(r'Load key "(.+?)": (.+)', words):
        return f"ssh cannot read {unread[1]} ({unread[2].strip()}): name the private key, as ssh-keygen has written it"
    at_length = _verbose_login(route, hop)
    if "no mutual signature" in at_length:
        return "host and ssh agree on no signature for an RSA key: use another one (ssh-keygen -t ed25519)"
    taken = re.search(r"Server accepts key: (.+) (\S+ SHA256:.*)\s+(debug1: Authentications that can)?", at_length)
    if taken is not None and taken[3]:
        return (
            f"it knows the key {taken[1]} and forbids the login: see PermitRootLogin, AllowUsers and AllowGroups in "
            "its sshd_config, and from= before the key in authorized_keys there"
        )
    if taken is not None and "agent" not in taken[2].split():
        return f"it accepts the key {taken[1]}, which needs its passphrase: ssh-add {shlex.quote(taken[1])}"
    if taken is not None:
        return f"it accepts the key {taken[1]}, but the SSH agent does not sign with it: unlock the agent"
    return (
        f"add your public key to ~{hop.user}/.ssh/authorized_keys there, "
        "and load the key into your SSH agent or name it as identity_file"
        f"{f'; or {_KERBEROS}' if 'gssapi-with-mic' in methods else ''}"
    )


def _verbose_login(route: Route, hop: Hop, *options: str) -> str:
    """Output of a second login attempt, as -v says more: fingerprints, names of keys, some reasons, the settings."""
    limit = CONNECT_SECONDS * (hop.number + 2)
    words = [*route.login(hop), *(options or ("-v",)), hop.address, "true"]
    try:
        done = exchange(words, (), stall_seconds=limit, seconds=limit)
    except StalledError:
        return ""
    return decoded(done.out + done.err)
