"""Reason of a failed login: OpenSSH's own words, and the fix."""

from __future__ import annotations

import re
import shlex

from fleet.errors import FleetError, HostFailedError
from fleet.ssh import host_keys
from fleet.ssh.exchange import StalledError, exchange
from fleet.ssh.route import CONNECT_SECONDS, Hop, Route

_LONGEST = 400  # characters
_NOT_THERE = "stdio forwarding failed"  # a jump host's login is good, what lies behind it does not answer


def login_failure(route: Route) -> FleetError:
    """The failure of the hop that is to blame, after ssh has ended."""
    hop, words = _failed_hop(route)
    said = on_one_line(words)
    via = "" if hop is route.hops[-1] else f" (the way to {route.host.name} leads over it)"
    if "bad configuration option" in words.lower() or "Bad owner or permissions" in words:
        return FleetError(f"ssh does not read its configuration ({said}): correct that file")
    if "REVOKED HOST KEY" in words:
        return host_keys.revoked(hop, said)
    if "HOST IDENTIFICATION HAS CHANGED" in words:
        return host_keys.changed(route.host, hop, words)
    if "host key is known for" in words or "Host key verification failed" in words:
        return host_keys.unknown(route.host, hop, _verbose_login(route, hop), said)
    if "Permission denied" in words or "Too many authentication failures" in words:
        return HostFailedError(f"{hop.target} refuses the login{via} ({said}): {_fix(route, hop, words)}")
    if "Could not resolve hostname" in words:
        return HostFailedError(
            f"the address {hop.address} is not known here ({said}){via}: correct it in the inventory"
        )
    return HostFailedError(f"{hop.target} cannot be reached{via} ({said}): is the host up, and sshd there?")


def on_one_line(words: str) -> str:
    """Message of ssh, on one line."""
    said = " ".join(re.sub(r"@{3,}|\s@\s", " ", words).split())
    return said[-_LONGEST:] or "ssh said nothing"


def _failed_hop(route: Route) -> tuple[Hop, str]:
    """The first hop that has something to say: those behind it only lost their connection."""
    for hop in route.hops:
        if words := route.error_of(hop):
            return (route.hops[hop.number + 1] if _NOT_THERE in words and hop is not route.hops[-1] else hop), words
    return route.hops[-1], ""


def _fix(route: Route, hop: Hop, words: str) -> str:
    if "Too many authentication failures" in words:
        return "the SSH agent offers more keys than it tries: name the right one as identity_file in the inventory"
    if unprotected := re.search(r"Permissions (\d+) for '(.+)' are too open", words):
        mode, key = unprotected.groups()
        return f"ssh does not use {key}, which others may read (mode {mode}): chmod 600 {shlex.quote(key)}"
    taken = re.search(r"Server accepts key: (.+) (\S+ SHA256:.*)", _verbose_login(route, hop))
    if taken is not None and "agent" not in taken[2].split():
        return f"it would take the key {taken[1]}, which needs its passphrase here: ssh-add {shlex.quote(taken[1])}"
    if taken is not None:
        return f"it would take the key {taken[1]}, with which the SSH agent does not sign: unlock the agent"
    return (
        f"put your public key into ~{hop.user}/.ssh/authorized_keys there, "
        "and have the key in your SSH agent or in identity_file"
    )


def _verbose_login(route: Route, hop: Hop) -> str:
    """Verbose output of ssh for a login that fails; a fingerprint or a key's name is given in no other way."""
    limit = CONNECT_SECONDS * (hop.number + 2)
    words = [*route.login(hop), "-v", hop.address, "true"]
    try:
        return exchange(words, (), stall_seconds=limit, seconds=limit).err.decode(errors="replace")
    except StalledError:
        return ""
