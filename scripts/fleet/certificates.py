"""Certificates of a fleet: an authority of its own, and what it signs for the hosts and the gateway."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.errors import FleetError
from fleet.inventory import types
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import (
    GATEWAY_CERTIFICATE,
    GATEWAY_KEY,
    HOST_CA,
    HOST_CERTIFICATE,
    HOST_KEY,
    read,
    refuse_tracked,
)

AUTHORITY_FILE, AUTHORITY_KEY_FILE, SECRETS_FILE = "host-ca.pem", "host-ca-key.pem", "certificates.yaml"
"""Files beside the inventory."""
AUTHORITY_DAYS, DAYS = 3650, 397
WRITTEN = (HOST_CERTIFICATE, HOST_KEY, HOST_CA, GATEWAY_CERTIFICATE, GATEWAY_KEY)
_NAME = r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
_EARLIER = dt.timedelta(hours=1)  # for clocks that are behind


@dataclass(frozen=True, slots=True)
class Authority:
    """Root certificate and its key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes
    made: bool  # just now


@dataclass(frozen=True, slots=True)
class Made:
    """What was written, and where."""

    path: Path
    authority: Path
    new_authority: bool
    until: dt.datetime
    host_names: tuple[str, ...]
    gateway_names: tuple[str, ...]  # empty: no certificate of a gateway


def make(folder: Path, hosts: Sequence[Host], names: Sequence[str], now: dt.datetime | None = None) -> Made:
    """Write SECRETS_FILE in `folder`, signed by the authority there, which is made where there is none.

    `names` are those of the gateway; without them it keeps those of its certificate in that file, where it has one.
    Raises FleetError where a file cannot be used, is tracked by git, or holds other secrets.
    """
    moment = now or dt.datetime.now(dt.UTC)
    path = folder / SECRETS_FILE
    before = _before(path)
    gateways = [host for host in hosts if "gateway" in host.roles]
    wanted = tuple(map(checked_name, names))
    if wanted and not gateways:
        raise FleetError("--name is for the gateway's certificate, and no host has the role gateway")
    wanted = wanted or _gateway_names(before, path)
    authority = open_authority(folder, moment)
    hosts_names = tuple(dict.fromkeys(name for host in hosts for name in names_of(host)))
    certificate, key = issue(authority, hosts_names, moment)
    values = {
        HOST_CA: authority.certificate.public_bytes(serialization.Encoding.PEM),
        HOST_CERTIFICATE: certificate,
        HOST_KEY: key,
    }
    of_gateway: tuple[str, ...] = ()
    if wanted and gateways:
        addresses = (name for host in gateways for name in (host.gateway.address or host.address,) if _reachable(name))
        of_gateway = tuple(dict.fromkeys((*wanted, *addresses)))
        values |= dict(zip((GATEWAY_CERTIFICATE, GATEWAY_KEY), issue(authority, of_gateway, moment), strict=True))
    write_secrets(path, values)
    until = _end(authority, moment)
    return Made(path, folder / AUTHORITY_FILE, authority.made, until, hosts_names, of_gateway)


def checked_name(name: str) -> str:
    """A DNS name, which may begin with `*.`, or an IP address. Raises FleetError."""
    if types.is_ip(name) or (re.fullmatch(_NAME, name) and not name.rstrip(".").rpartition(".")[2].isdecimal()):
        return name
    raise FleetError(f"--name {name}: expected a DNS name such as speech.lab.example, or an IP address")


def names_of(host: Host) -> tuple[str, ...]:
    """What the host's certificate has to name: the host as in the inventory, and the addresses it is asked at."""
    addresses = [host.address, host.exporter_address]
    addresses += [host.bark.address] if "bark" in host.roles else []
    return tuple(dict.fromkeys((host.name, *(each for each in addresses if each is not None and _reachable(each)))))


def open_authority(folder: Path, now: dt.datetime) -> Authority:
    """The authority of the files in `folder`, made where neither is there. Raises FleetError."""
    paths = folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE
    there = [path for path in paths if path.exists()]
    if not there:
        return _new_authority(*paths, now)
    if len(there) == 1:
        (missing,) = set(paths) - set(there)
        raise FleetError(
            f"{there[0]} is there without {missing.name}: restore that, or move {there[0].name} away; a new authority "
            "is then made, and gateway, hosts and clients need its root"
        )
    refuse_tracked(paths[1])
    try:
        certificate = x509.load_pem_x509_certificate(paths[0].read_bytes())
        key = serialization.load_pem_private_key(paths[1].read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        said = error.strerror if isinstance(error, OSError) else "expected a certificate and a key without a password"
        raise FleetError(f"{paths[0]}, {paths[1].name}: the authority cannot be read: {said}") from None
    if certificate.public_key() != key.public_key():
        raise FleetError(f"{paths[1]} is not the key of {paths[0].name}: restore both from one backup")
    if not _may_sign(certificate):
        raise FleetError(f"{paths[0]} is not the certificate of an authority (CA:TRUE): it may sign no others")
    if certificate.not_valid_after_utc <= now:
        raise FleetError(
            f"{paths[0]} ended on {certificate.not_valid_after_utc:%Y-%m-%d}: move it and {paths[1].name} away; a new "
            "authority is then made, and gateway, hosts and clients need its root"
        )
    return Authority(certificate, key, made=False)  # type: ignore[arg-type]  # a key that signs: it has a certificate


def issue(authority: Authority, names: Iterable[str], now: dt.datetime) -> tuple[bytes, bytes]:
    """Certificate of a server with these names and addresses, and its new key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    entries = list(names)
    root = authority.certificate
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, entries[0][:64])]))
        .issuer_name(root.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - _EARLIER, root.not_valid_before_utc))
        .not_valid_after(_end(authority, now))
        .add_extension(x509.SubjectAlternativeName([general_name(each) for each in entries]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)  # type: ignore[arg-type]
        .sign(authority.key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM), _pem(key)


def general_name(name: str) -> x509.GeneralName:
    """Subject alternative name of a DNS name or an address."""
    if types.is_ip(name):
        return x509.IPAddress(ipaddress.ip_address(name.partition("%")[0]))
    return x509.DNSName(name.rstrip("."))


def write_secrets(path: Path, values: Mapping[str, bytes]) -> None:
    """Write a secrets file, readable by its owner only, in place of an earlier one. Raises FleetError."""
    blocks = (
        f"{name}: |\n" + "".join(f"  {line}\n" for line in pem.decode().splitlines()) for name, pem in values.items()
    )
    text = "# Certificates of the fleet; written by fab certificates, which renews them.\n" + "".join(blocks)
    partial = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:  # 0600
            partial = Path(file.name)
            file.write(text)
        partial.replace(path)
    except OSError as error:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise FleetError(f"{path}: cannot be written: {error.strerror}") from None


def _new_authority(path: Path, key_path: Path, now: dt.datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"voxyard fleet, {now:%Y-%m-%d}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + dt.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _create(key_path, _pem(key))
    try:
        _create(path, certificate.public_bytes(serialization.Encoding.PEM))
    except FleetError:
        key_path.unlink()
        raise
    return Authority(certificate, key, made=True)


def _create(path: Path, content: bytes) -> None:
    """Creates a file that is not there, readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise FleetError(f"{path}: cannot be written: {error.strerror}") from None


def _before(path: Path) -> Mapping[str, bytes]:
    """Secrets of an earlier run; the file holds no others."""
    if not path.exists():
        return {}
    found = read(path).values
    if others := [name for name in found if name not in WRITTEN]:
        raise FleetError(
            f"{path} holds {', '.join(others)}, too, and would be replaced: move them to another file, and name both "
            "under secrets in the inventory"
        )
    return found


def _gateway_names(before: Mapping[str, bytes], path: Path) -> tuple[str, ...]:
    """Names of the gateway's certificate of an earlier run."""
    if GATEWAY_CERTIFICATE not in before:
        return ()
    try:
        found = x509.load_pem_x509_certificate(before[GATEWAY_CERTIFICATE])
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        raise FleetError(f"{path}: {GATEWAY_CERTIFICATE} names no gateway: give its names with --name") from None
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def _end(authority: Authority, now: dt.datetime) -> dt.datetime:
    """End of what is signed now: never after the authority's own."""
    return min(now + dt.timedelta(days=DAYS), authority.certificate.not_valid_after_utc)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _reachable(address: str) -> bool:
    """False for loopback, which is in no certificate, and for all addresses."""
    return not types.is_loopback(address) and address not in ("0.0.0.0", "::")  # noqa: S104


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
