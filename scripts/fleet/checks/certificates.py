"""Preflight checks of certificates, by the operator's clock, and of services that should have one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterable, Iterator, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from fleet.certificates import general_name, names_of
from fleet.checks.finding import ALL_SERVICES, BARK, Finding, package
from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.facts.fact import Unknown
from fleet.facts.host import HostFacts
from fleet.facts.machine import TLS_TOOL
from fleet.images.third_party import GATEWAY
from fleet.inventory.host_tls import HostTls, host_tls
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import (
    GATEWAY_CERTIFICATE,
    GATEWAY_KEY,
    HOST_CA,
    HOST_CERTIFICATE,
    Secrets,
    place,
    read_all,
)
from fleet.inventory.types import is_loopback

SOON_DAYS = 30


def check_all(facts: HostFacts, host: Host, now: dt.datetime | None = None) -> Iterator[Finding]:
    """All findings on certificates, and on secrets files that cannot be read."""
    moment = now or dt.datetime.now(dt.UTC)
    try:
        secrets = read_all(host.secrets)
    except FleetError as error:
        yield Finding("FAIL", "secrets", str(error), "correct the file; certificates are checked then")
        return
    try:
        tls = host_tls(host.name, host.secrets, secrets)
    except FleetError as error:
        yield Finding("FAIL", "certificate", str(error), "complete them, or remove all three")
        return
    if tls is None:
        yield from _without(host)
    else:
        yield from _of_host(facts, host, tls, moment)
    yield from _of_gateway(host, secrets, moment)


def _without(host: Host) -> Iterator[Finding]:
    """Check: no speech service is asked with API keys in plain HTTP over a network."""
    address = host.bark.address or host.address
    if "bark" in host.roles and not is_loopback(address):
        found = f"the speech service listens on {address} in plain HTTP, with API keys in it"
        remedy = (
            f"make certificates ({fab()} certificates) and name their file under secrets; {place(host.secrets)} has "
            "none. Or acknowledge it where the network is the services' own"
        )
        yield Finding("WARN", "tls", found, remedy, services=(BARK,))


def _of_host(facts: HostFacts, host: Host, tls: HostTls, now: dt.datetime) -> Iterator[Finding]:
    if not isinstance(facts.programs, Unknown) and TLS_TOOL not in facts.programs:
        found = f"{TLS_TOOL} is not installed, which verifies the certificates of services there"
        remedy = f"install the package that contains {TLS_TOOL}"
        yield Finding("FAIL", "programs", found, remedy, steps=(package(TLS_TOOL),))
    chain = yield from _chain(HOST_CERTIFICATE, tls.certificate, tls.key, now)
    if not chain:
        return
    if missing := _missing(chain[0], names_of(host)):
        found = f"{HOST_CERTIFICATE} does not name {', '.join(missing)}, by which gateway and Prometheus verify it"
        yield Finding("FAIL", "certificate", found, f"make it anew with these names: {fab()} certificates; then deploy")
    if not _signed(chain, tls.authorities):
        found = f"{HOST_CERTIFICATE} is not signed by an authority of {HOST_CA}, with the chain that it has"
        remedy = f"add the root to {HOST_CA}, and certificates between them to {HOST_CERTIFICATE}"
        yield Finding("FAIL", "certificate", found, remedy)


def _of_gateway(host: Host, secrets: Secrets, now: dt.datetime) -> Iterator[Finding]:
    if "gateway" not in host.roles:
        return
    pair = {name: secrets.values.get(name, b"") for name in (GATEWAY_CERTIFICATE, GATEWAY_KEY)}
    if missing := [name for name, value in pair.items() if not value]:
        found = f"the gateway has no {' and no '.join(missing)} in {place(host.secrets)}"
        yield Finding("FAIL", "certificate", found, f"{fab()} certificates --name NAME makes them", services=(GATEWAY,))
        return
    yield from _chain(GATEWAY_CERTIFICATE, pair[GATEWAY_CERTIFICATE], pair[GATEWAY_KEY], now, services=(GATEWAY,))


def _chain(
    name: str, certificate: bytes, key: bytes, now: dt.datetime, services: tuple[str, ...] = ALL_SERVICES
) -> Generator[Finding, None, list[x509.Certificate]]:
    """Check: the certificate is valid, for some time yet, and belongs to its key. Returns the chain."""
    try:
        chain = x509.load_pem_x509_certificates(certificate)
        public = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError):
        found = f"{name} or its key is not readable as PEM, or the key has a password"
        yield Finding("FAIL", "certificate", found, "replace both in the secrets file", services=services)
        return []
    leaf = chain[0]
    if leaf.public_key() != public:
        found = f"{name} does not belong to its key"
        remedy = f"take both from one run of {fab()} certificates, or openssl"
        places = [number for number, each in enumerate(chain, 1) if each.public_key() == public]
        if places:
            found = f"{name} has the certificate of its key in place {places[0]}, where servers expect it first"
            remedy = "put it first, and after it those that signed it, each before its own signer"
        yield Finding("FAIL", "certificate", found, remedy, services=services)
        if places:
            return []
    renew = f"renew it: {fab()} certificates, or your own authority; then deploy"
    first, last = max(each.not_valid_before_utc for each in chain), min(each.not_valid_after_utc for each in chain)
    if last <= now:
        yield Finding("FAIL", "certificate", f"{name} ended on {last:%Y-%m-%d}", renew, services=services)
    elif first > now:
        found = f"{name} is valid from {first:%Y-%m-%d %H:%M} UTC only"
        yield Finding("FAIL", "certificate", found, "check the clock of this machine, or wait", services=services)
    elif last - now < dt.timedelta(days=SOON_DAYS):
        found = f"{name} ends on {last:%Y-%m-%d}, in {(last - now).days} days"
        yield Finding("WARN", "certificate", found, renew, services=services)
    return chain


def _missing(leaf: x509.Certificate, names: Iterable[str]) -> list[str]:
    try:
        given = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return list(names)
    patterns = [str(each).lower() for each in given.get_values_for_type(x509.DNSName)]
    return [name for name in names if general_name(name) not in list(given) and not _matches(name, patterns)]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """True where a DNS name, in any case, is among the patterns, of which one may begin with `*.`."""
    own = name.rstrip(".").lower()
    return own in patterns or f"*.{own.partition('.')[2]}" in patterns


def _signed(chain: Sequence[x509.Certificate], authorities: bytes) -> bool:
    """True where each certificate is signed by the next, and the last by a root."""
    try:
        roots = x509.load_pem_x509_certificates(authorities)
    except ValueError:
        return False
    above = [[each] for each in chain[1:]] + [roots]
    return all(
        each in issuers or any(_issued(each, by) for by in issuers) for each, issuers in zip(chain, above, strict=True)
    )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
