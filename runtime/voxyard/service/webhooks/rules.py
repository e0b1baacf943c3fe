"""Webhook rules: the hosts that may be called, and the secret that signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from voxyard.service.auth.sessions import read_shared_secret
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ForbiddenError, ServiceError

PORTS = {"http": 80, "https": 443}
METADATA = frozenset({"100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"})
"""Addresses at which clouds tell an instance its secrets, beside those of its link."""
_SHORTEST_SECRET = 16


@dataclass(frozen=True)
class WebhookRules:
    """Allowed webhook hosts and the signing secret; a host without a port allows ports 80 and 443."""

    hosts: tuple[str, ...]
    secret: bytes = field(repr=False)

    def check(self, url: str) -> None:
        """Checks a webhook's URL.

        Raises:
            ServiceError: it is not a valid URL.
            ForbiddenError: its host is not allowed.
        """
        target, port = target_of(url)
        name = (target.hostname or "").rstrip(".")
        if ":" in name:
            name = f"[{name}]"
        plain = port == PORTS[target.scheme] and name in self.hosts
        if not plain and f"{name}:{port}" not in self.hosts:
            raise ForbiddenError(
                f"webhooks to {name}:{port} are not allowed: add the host to --webhook-hosts",
                parameter="webhook",
            )


def read_rules(section: ServiceSection) -> WebhookRules | None:
    """Webhook rules of the settings; None where webhooks are disabled.

    Raises:
        ServiceError: the secret file cannot be read, or the secret is too short.
    """
    if section.webhook_secret is None:
        return None
    return WebhookRules(section.hooks(), read_shared_secret(section.webhook_secret, "webhook_secret", _SHORTEST_SECRET))


def check_webhook(rules: WebhookRules | None, url: str) -> WebhookRules:
    """Checks a new document's webhook; returns the rules. Raises ServiceError or ForbiddenError."""
    if rules is None:
        raise ForbiddenError(
            "webhooks are disabled: poll the document's state, or set --webhook-secret", parameter="webhook"
        )
    rules.check(url)
    return rules


def target_of(url: str) -> tuple[SplitResult, int]:
    """Parts of a webhook's URL, and its port. Raises ServiceError."""
    wrong = "expected an ASCII URL such as https://example.org/path (xn--… for other letters), without credentials"
    try:
        target = urlsplit(url)
        port = target.port or PORTS.get(target.scheme, 0)
    except ValueError as error:
        raise ServiceError(f"invalid webhook URL ({error}): {wrong}", parameter="webhook") from error
    clean = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not (clean and target.hostname and port and target.scheme in PORTS) or "@" in target.netloc:
        raise ServiceError(f"invalid webhook URL: {wrong}", parameter="webhook")
    return target, port


def refused_address(name: str, address: str) -> str | None:
    """Reason for not calling a host at this address; None where it may be called.

    A name that is allowed may still lead anywhere its resolver likes. This host and its link's services are not for
    webhooks, unless the setting names them: `localhost`, or the address itself. A company's private networks are.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or found
    if name in (address, "localhost") or not (
        str(found) in METADATA
        or found.is_loopback
        or found.is_link_local
        or found.is_unspecified
        or found.is_multicast
        or found.is_reserved
    ):
        return None
    return f"{name} has the address {address}, which is not for webhooks: name the address in --webhook-hosts"
