"""Registry client: digest and configuration of an image, read over the registry's HTTP API without pulling it.

Logins are those of `docker login`, certificates those of the system and of Docker's certs.d; plain HTTP is spoken with
registries that the local engine calls insecure, and with this machine.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException

from fleet.errors import FleetError
from fleet.images.image import LocalImage, docker, machine, repository_of, settings
from fleet.images.reproducible import SIZE_LABEL

SECONDS = 30.0
_CERTIFICATES = (Path("/etc/docker/certs.d"), Path("~/.config/docker/certs.d"))  # of the engine, of a rootless one
_HUB = {"docker.io": "registry-1.docker.io"}
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_SCHEME = re.compile(r"(?:^|,)\s*(basic|bearer)(?=[\s,]|$)", re.IGNORECASE)
_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s",]+))')


class NoSuchImageError(FleetError):
    """The registry answers, and has no such image."""


@dataclass(frozen=True, slots=True)
class Name:
    """Name of an image in a registry."""

    host: str  # with port
    path: str
    version: str  # tag or digest

    @property
    def repository(self) -> str:
        """Name without its version."""
        return f"{self.host}/{self.path}"


def parse_name(reference: str) -> Name:
    """HOST/PATH:TAG or HOST/PATH@DIGEST. Raises FleetError."""
    found = re.fullmatch(r"([^/]+)/([^:@]+)(?::([^:@/]+))?(?:@(sha256:[0-9a-f]{64}))?", reference)
    version = found and (found[4] or found[3])
    if not found or not version:
        raise FleetError(f"{reference}: expected an image of a registry as HOST/PATH:TAG or HOST/PATH@sha256:…")
    return Name(found[1], found[2], version)


def digest_of(image: str, find: Callable[[str, str], LocalImage] | None = None) -> str:
    """NAME@DIGEST of an image in the short form of Docker (NAME:TAG), as its registry has it. Raises FleetError."""
    first, slash, _ = image.partition("/")
    with_host = slash and (first == "localhost" or "." in first or ":" in first)
    whole = image if with_host else f"docker.io/{image if slash else f'library/{image}'}"
    found = (find or find_published)(whole, "")
    return f"{image.rpartition(':')[0]}@{(found.digest or '').rpartition('@')[2]}"


def published_name(registry: str, role: str, commit: str) -> str:
    """Name in a registry of a role's image built from a commit."""
    return f"{registry}/{repository_of(role)}:{commit}"


def find_published(reference: str, role: str) -> LocalImage:
    """Image `reference` of a registry, as the image of `role`, with its digest there; nothing is pulled.

    Raises NoSuchImageError, FleetError.
    """
    name = parse_name(reference)
    try:
        with requests.Session() as session:
            return _found(_Registry(name, session), name, reference, role)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FleetError(
            f"{name.host} answers for {reference} with something that is no image ({error}): check that `registry` in "
            "the inventory names a registry, and that no proxy or login page answers in its place"
        ) from error


def _found(registry: _Registry, name: Name, reference: str, role: str) -> LocalImage:
    body, digest = registry.manifest(name.version)
    manifest = json.loads(body)
    if _type(manifest) in _INDEXES:
        manifest = json.loads(registry.manifest(_platform(manifest, reference))[0])
    if _type(manifest) not in _MANIFESTS:
        found = _type(manifest) or "a manifest without a media type"
        raise FleetError(f"{reference} is no image: expected one of OCI or of Docker's schema 2, found {found}")
    config = json.loads(registry.blob(manifest["config"]["digest"]))
    environment, labels = settings(config.get("config") or {})
    unpacked = dict(labels).get(SIZE_LABEL)
    return LocalImage(
        manifest["config"]["digest"],
        tuple(config["rootfs"]["diff_ids"]),
        int(unpacked) if unpacked else sum(each["size"] for each in manifest["layers"]),
        repository_of(role),
        f"{name.repository}@{digest}",
        environment,
        labels,
        machine(config.get("architecture", "")),
    )


def _type(manifest: Mapping[str, Any]) -> str:
    """Media type; an OCI manifest may lack it."""
    said = manifest.get("mediaType") or (_INDEXES[0] if "manifests" in manifest else _MANIFESTS[0])
    return str(said) if "manifests" in manifest or "config" in manifest else ""


def _platform(index: Mapping[str, Any], reference: str) -> str:
    """Digest of the image for Linux; of several that for amd64. Raises FleetError."""
    found = {
        each["platform"]["architecture"]: each["digest"]
        for each in index["manifests"]
        if (each.get("platform") or {}).get("os") == "linux"
    }
    if len(found) == 1:
        return str(next(iter(found.values())))
    if "amd64" not in found:
        raise FleetError(f"{reference} has no image for linux/amd64 (it has: {', '.join(sorted(found)) or 'none'})")
    return str(found["amd64"])


class _Registry:
    """One repository of a registry."""

    def __init__(self, name: Name, session: requests.Session) -> None:
        self._name, self._session, self._login = name, session, _login(name.host)
        self._base = f"https://{_HUB.get(name.host, name.host)}"
        self._token: str | None = None
        session.mount("https://", _Certificates(_context(name.host)))

    def manifest(self, version: str) -> tuple[bytes, str]:
        """Manifest and its digest. Raises NoSuchImageError, FleetError."""
        answer = self._get(f"manifests/{version}", ", ".join((*_INDEXES, *_MANIFESTS)))
        digest = f"sha256:{hashlib.sha256(answer).hexdigest()}"
        if version.startswith("sha256:") and version != digest:
            raise FleetError(f"{self._name.repository}@{version}: the registry answers with another content, {digest}")
        return answer, digest

    def blob(self, digest: str) -> bytes:
        """Blob, verified. Raises FleetError."""
        answer = self._get(f"blobs/{digest}", "*/*")
        if f"sha256:{hashlib.sha256(answer).hexdigest()}" != digest:
            raise FleetError(f"{self._name.repository}@{digest}: the registry answers with another content")
        return answer

    def _get(self, what: str, accept: str) -> bytes:
        answer = self._ask(what, accept)
        if answer.status_code == requests.codes.unauthorized and self._token is None:
            self._token = self._authorization(answer.headers.get("WWW-Authenticate", ""))
            answer = self._ask(what, accept)
        name, code = f"{self._name.repository}:{self._name.version}", answer.status_code
        if code in (requests.codes.unauthorized, requests.codes.forbidden):
            said = "the login that docker has for it" if self._login else "a request without a login"
            raise FleetError(f"{self._name.host} refuses {said} (HTTP {code}, {name}): docker login {self._name.host}")
        if code == requests.codes.not_found:
            raise NoSuchImageError(f"the registry {self._name.host} has no image {name}")
        if code == requests.codes.too_many_requests:
            raise FleetError(
                f"{self._name.host} has had too many requests (HTTP 429, {name}: {answer.text[:200]}): wait, or docker "
                f"login {self._name.host} with an account that may ask more"
            )
        if code != requests.codes.ok:
            raise FleetError(f"the registry {self._name.host} answers HTTP {code} for {name}: {answer.text[:200]}")
        return bytes(answer.content)

    def _ask(self, what: str, accept: str) -> requests.Response:
        headers = {"Accept": accept} | ({"Authorization": self._token} if self._token else {})
        path = f"/v2/{self._name.path}/{what}"
        try:
            return self._session.get(self._base + path, headers=headers, auth=_as_it_is, timeout=SECONDS)
        except RequestException as error:
            if self._base.startswith("http:") or not _insecure(self._name.host):
                raise self._silent(error) from error
        self._base = f"http://{self._name.host}"
        return self._ask(what, accept)

    def _authorization(self, challenge: str) -> str | None:
        """Value of the header Authorization that the registry asks for, by a token if it can. Raises FleetError."""
        _, *parts = _SCHEME.split(challenge)
        schemes = {
            kind.lower(): {key: quoted or bare for key, quoted, bare in _FIELD.findall(rest)}
            for kind, rest in zip(parts[::2], parts[1::2], strict=True)
        }
        user, password = self._login.get("username", ""), self._login.get("password", "")
        if token := self._of_realm(schemes.get("bearer", {}), user, password):
            return f"Bearer {token}"
        if "basic" not in schemes or not user:
            return None
        return str(requests.Request("GET", self._base, auth=(user, password)).prepare().headers["Authorization"])

    def _of_realm(self, fields: Mapping[str, str], user: str, password: str) -> str | None:
        """Token of the service that the registry names; None without one. Raises FleetError."""
        if "realm" not in fields:
            return None
        wanted = {"service": fields.get("service", ""), "scope": f"repository:{self._name.path}:pull"}
        try:
            if refresh := self._login.get("identitytoken"):
                form = {**wanted, "grant_type": "refresh_token", "client_id": "voxyard", "refresh_token": refresh}
                answer = self._session.post(fields["realm"], data=form, auth=_as_it_is, timeout=SECONDS)
            else:
                auth = (user, password) if user else _as_it_is
                answer = self._session.get(fields["realm"], params=wanted, auth=auth, timeout=SECONDS)
            said = answer.json() if answer.ok else {}
        except RequestException as error:
            raise self._silent(error) from error
        return said.get("token") or said.get("access_token")

    def _silent(self, error: RequestException) -> FleetError:
        """Error of a registry that does not answer."""
        host = self._name.host
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return FleetError(
                f"the certificate of the registry {host} is not trusted: put its CA into the system's, or into "
                f"/etc/docker/certs.d/{host}/ca.crt, as Docker needs it"
            )
        if any(each in str(error) for each in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")):
            return FleetError(
                f"the registry {host} speaks no TLS: give it a certificate, or name it under insecure-registries in "
                "/etc/docker/daemon.json, on this machine and on the hosts"
            )
        return FleetError(
            f"the registry {host} does not answer ({_reason(error)}): check `registry` in the inventory, the network, "
            "and the registry itself"
        )


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No login beside docker's: requests would take one of ~/.netrc."""
    return request


class _Certificates(HTTPAdapter):
    """HTTPS with Docker's certificates."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **options)

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        return super().proxy_manager_for(*arguments, ssl_context=self._context, **options)


def _context(host: str) -> ssl.SSLContext:
    """The system's certificates, and those that Docker has for the registry. Raises FleetError for unreadable ones."""
    context = ssl.create_default_context()
    for folder in (each.expanduser() / host for each in _CERTIFICATES):
        try:
            for path in sorted(folder.glob("*.crt")):
                context.load_verify_locations(path)
            for path in sorted(folder.glob("*.cert")):
                context.load_cert_chain(path, path.with_suffix(".key"))
        except OSError as error:
            raise FleetError(f"{folder}: the certificates of the registry cannot be read: {error}") from error
    return context


def _login(host: str) -> Mapping[str, str]:
    """Login of `docker login`, also from a credential helper; empty without one. Raises FleetError."""
    from docker import auth  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]
    from docker.utils.config import find_config_file  # type: ignore[import-untyped]

    try:
        found = auth.load_config().resolve_authconfig(host) or {}
    except (DockerException, ValueError, TypeError, AttributeError) as error:
        raise FleetError(
            f"docker's login for {host} cannot be read ({error}): correct {find_config_file()}, or the credential "
            f"helper that it names, then docker login {host}"
        ) from error
    return {str(key).lower(): str(value) for key, value in found.items() if value}


def _insecure(host: str) -> bool:
    """True for this machine, and for registries that the local engine calls insecure."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        address = None
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    try:
        said = json.loads(docker("info", "--format", "{{json .RegistryConfig}}")) or {}
    except FleetError:
        return False  # no engine calls it insecure
    if host in said.get("IndexConfigs", {}):
        return not said["IndexConfigs"][host].get("Secure", True)
    ranges = [ipaddress.ip_network(each) for each in said.get("InsecureRegistryCIDRs") or ()]
    return address is not None and any(address in each for each in ranges)


def _reason(error: RequestException) -> str:
    """Innermost reason."""
    cause: BaseException = error
    while nested := cause.__cause__ or cause.__context__:
        cause = nested
    return f"{type(cause).__name__}: {cause}"
