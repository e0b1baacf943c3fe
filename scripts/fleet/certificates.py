"""Certificates of a fleet: an authority of its own, and what it signs for the hosts and the gateway."""

from __future__ import annotations

import datetime as dt
import ipaddress
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
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
    refuse_readable,
    refuse_tracked,
)

AUTHORITY_FILE, AUTHORITY_KEY_FILE, SECRETS_FILE = "host-ca.pem", "host-ca-key.pem", "certificates.yaml"
"""Files beside the inventory."""
AUTHORITY_DAYS, DAYS = 3650, 397
WRITTEN = (HOST_CERTIFICATE, HOST_KEY, HOST_CA, GATEWAY_CERTIFICATE, GATEWAY_KEY)
_NAME = r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
_AUTHORITY = (AUTHORITY_FILE, AUTHORITY_KEY_FILE)
_WITHOUT_HASH = (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)  # they hash by themselves
_LONGEST_LABEL = 63  # characters between two dots, RFC 1035
_EARLIER = dt.timedelta(hours=1)  # for clocks that are behind


@dataclass(frozen=True, slots=True)
class Authority:
    """Root certificate and its key."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes
    made: bool  # just now


@dataclass(frozen=True, slots=True)
class Made:
    """Result of a run: the files that were written, and what they are for."""

    path: Path
    authority: Path
    new_authority: bool
    until: dt.datetime
    host_names: tuple[str, ...]
    gateway_names: tuple[str, ...]  # empty: no certificate of a gateway
    authority_until: dt.datetime
    roots: int  # in host-ca
    own: tuple[str, ...]  # hosts with a certificate of their own


def make(
    folder: Path,
    hosts: Sequence[Host],
    names: Sequence[str],
    now: dt.datetime | None = None,
    *,
    new_authority: bool = False,
    drop: bool = False,
) -> Made:
    """Write SECRETS_FILE in `folder`, signed by the authority there, which is made where there is none.

    `names` are those of the gateway; without them it keeps those of its certificate in that file, where it has one.
    Other roots that `host-ca` has stay there until they end. `new_authority` makes another authority and keeps the
    files of the one before beside it, with a number. `drop`: names of the earlier certificates may be gone.
    Raises FleetError where a file cannot be used, is tracked by git, or holds other secrets, and for lost names.
    """
    moment = now or dt.datetime.now(dt.UTC)
    path = (folder / SECRETS_FILE).resolve()  # a link stays one
    before = _before(path)
    gateways = [host for host in hosts if "gateway" in host.roles]
    wanted = tuple(map(checked_name, names))
    if wanted and not gateways:
        raise FleetError("--name is for the gateway's certificate, and no host has the role gateway")
    own = tuple(host.name for host in hosts if _has_its_own(host, path))
    sharing = [host for host in hosts if host.name not in own]
    hosts_names = tuple(dict.fromkeys(name for host in sharing for name in names_of(host)))
    if not hosts_names:
        raise FleetError("every host has a host-certificate of its own: there is none to make")
    if not drop:
        _refuse_lost(before, path, {general_name(name) for name in hosts_names}, gateway=bool(gateways))
    wanted = wanted or _names(before, GATEWAY_CERTIFICATE, path)
    if HOST_CA in before and not new_authority and not any((folder / each).exists() for each in _AUTHORITY):
        raise FleetError(
            f"{folder / AUTHORITY_FILE} and {AUTHORITY_KEY_FILE} are gone, and {path.name} has certificates of that "
            "authority: restore both, or make another with --new-authority; its root then joins the old one in host-ca"
        )
    if new_authority:
        _set_aside(folder)
    authority = open_authority(folder, moment)
    roots = _roots(authority, before, path, moment)
    certificate, key = issue(authority, hosts_names, moment)
    values = {
        HOST_CA: b"".join(each.public_bytes(serialization.Encoding.PEM) for each in roots),
        HOST_CERTIFICATE: certificate,
        HOST_KEY: key,
    }
    of_gateway: tuple[str, ...] = ()
    if wanted and gateways:
        addresses = (name for host in gateways for name in (host.gateway.address or host.address,) if _reachable(name))
        of_gateway = tuple(dict.fromkeys((*wanted, *addresses)))
        values |= dict(zip((GATEWAY_CERTIFICATE, GATEWAY_KEY), issue(authority, of_gateway, moment), strict=True))
    write_secrets(path, values)
    until, authority_until = _end(authority, moment), authority.certificate.not_valid_after_utc
    return Made(
        path, folder / AUTHORITY_FILE, authority.made, until, hosts_names, of_gateway, authority_until, len(roots), own
    )


def checked_name(name: str) -> str:
    """A DNS name, which may begin with `*.`, or an IP address. Raises FleetError."""
    labels = name.rstrip(".").split(".")
    fits = re.fullmatch(_NAME, name) and all(len(label) <= _LONGEST_LABEL for label in labels)
    if types.is_ip(name) or (fits and not labels[-1].isdecimal()):
        return name
    raise FleetError(f"--name {name}: expected a DNS name such as speech.lab.example, or an IP address")


def names_of(host: Host) -> tuple[str, ...]:
    """Names in the host's certificate: the host as in the inventory, and the addresses it is asked at.

    Raises FleetError for a host whose name is none that a client verifies.
    """
    labels = host.name.split(".")
    if types.is_ip(host.name) or not all(0 < len(label) <= _LONGEST_LABEL for label in labels):
        raise FleetError(
            f"host {host.name}: gateway and deploy verify a host's certificate by this name, so it must be a DNS name, "
            f"not an address, without a dot at its end, and of at most {_LONGEST_LABEL} characters between dots"
        )
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
            f"{there[0]} is there without {missing.name}: restore that, or make another authority with "
            "--new-authority; gateway, hosts and clients then need its root"
        )
    refuse_readable(paths[1])
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
        raise FleetError(
            f"{paths[0]} is not the certificate of an authority (CA:TRUE, keyCertSign): it may sign no others"
        )
    if certificate.not_valid_before_utc > now:
        raise FleetError(
            f"{paths[0]} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}: is the clock right?"
        )
    if certificate.not_valid_after_utc <= now:
        raise FleetError(
            f"{paths[0]} ended on {certificate.not_valid_after_utc:%Y-%m-%d}: make another authority with "
            "--new-authority; gateway, hosts and clients then need its root"
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
        .sign(authority.key, None if isinstance(authority.key, _WITHOUT_HASH) else hashes.SHA256())
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


def _set_aside(folder: Path) -> None:
    """Gives the files of the authority, where they are there, names with the next free number."""
    stems = [Path(each).stem for each in _AUTHORITY]
    free = next(n for n in itertools.count(1) if not any((folder / f"{each}.{n}.pem").exists() for each in stems))
    try:
        for each in stems:
            if (folder / f"{each}.pem").exists():
                (folder / f"{each}.pem").replace(folder / f"{each}.{free}.pem")
    except OSError as error:
        raise FleetError(f"{folder}: the authority's files cannot be renamed: {error.strerror}") from None


def _create(path: Path, content: bytes) -> None:
    """Creates a file that is not there, readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise FleetError(f"{path}: somebody else has just made it: run the command again") from None
    except OSError as error:
        path.unlink(missing_ok=True)
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


def _has_its_own(host: Host, path: Path) -> bool:
    """True where another of its secrets files has a certificate of the host."""
    others = (each for each in host.secrets if each.resolve() != path and each.exists())
    return any(HOST_CERTIFICATE in read(each).values for each in others)


def _refuse_lost(before: Mapping[str, bytes], path: Path, names: set[x509.GeneralName], *, gateway: bool) -> None:
    """Raises FleetError where names of the earlier certificates would be gone: another inventory's, most likely."""
    lost = [name for name in _names(before, HOST_CERTIFICATE, path) if general_name(name) not in names]
    if GATEWAY_CERTIFICATE in before and not gateway:
        lost += _names(before, GATEWAY_CERTIFICATE, path)
    if lost:
        raise FleetError(
            f"{path} has certificates for {', '.join(lost)}, which are not in this inventory: is it that of another "
            "fleet? Give each fleet a directory of its own; where these names may go, add --drop"
        )


def _roots(
    authority: Authority, before: Mapping[str, bytes], path: Path, now: dt.datetime
) -> tuple[x509.Certificate, ...]:
    """The authority's root, and those that `host-ca` had besides and that have not ended."""
    try:
        others = x509.load_pem_x509_certificates(before[HOST_CA]) if HOST_CA in before else []
    except ValueError:
        raise FleetError(f"{path}: {HOST_CA}: expected certificates as PEM: correct it, or remove it") from None
    kept = (each for each in others if each.not_valid_after_utc > now)
    return tuple(dict.fromkeys((authority.certificate, *kept)))


def _names(before: Mapping[str, bytes], secret: str, path: Path) -> tuple[str, ...]:
    """Names of a certificate of an earlier run; none where there was none."""
    if secret not in before:
        return ()
    try:
        found = x509.load_pem_x509_certificate(before[secret])
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        raise FleetError(f"{path}: {secret} is no certificate with names: remove it, or move the file away") from None
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def _end(authority: Authority, now: dt.datetime) -> dt.datetime:
    """End of what is signed now: never after the authority's own."""
    return min(now + dt.timedelta(days=DAYS), authority.certificate.not_valid_after_utc)


def _may_sign(certificate: x509.Certificate) -> bool:
    """True for an authority; one without a key usage may use its key for everything."""
    try:
        authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    try:
        return authority and certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return authority


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
