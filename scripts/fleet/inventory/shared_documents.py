"""Store and shelf of speech services that share their documents: `bark.store` and `bark.shelf` of the inventory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import PlainValidator

from fleet.inventory.secrets import BARK_SHELF, BARK_STORE, BARK_STORE_CA
from fleet.inventory.types import DIRECTORY, WITHOUT_SLASH, expected, is_loopback, refusal, text

SHELF = "/var/lib/voxyard/shelf"
"""Mount point of a directory in the container."""
FILE_VARIABLES = {
    "PGPASSFILE": BARK_STORE,
    "PGSSLROOTCERT": BARK_STORE_CA,
    "AWS_CONFIG_FILE": BARK_SHELF,
    "AWS_SHARED_CREDENTIALS_FILE": BARK_SHELF,
}
"""Secret of each variable that names a file."""
_PORT = 5432
_STORE = "postgresql://USER@HOST/DATABASE"
_NOT_IN_A_URL = ("password", "passfile", "sslpassword")
_CLAIM = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_BUCKET = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9_.@+=-]+)*"


class BarkSettings(Protocol):
    """Of a speech service, what is read here."""

    @property
    def address(self) -> str | None:
        """Listen address."""

    @property
    def store(self) -> str | None:
        """URL of the database."""

    @property
    def shelf(self) -> str | None:
        """Directory or bucket."""


class HostSettings(Protocol):
    """Of a host of the inventory, what is read here."""

    @property
    def name(self) -> str:
        """Name."""

    @property
    def roles(self) -> Sequence[str]:
        """Roles."""

    @property
    def bark(self) -> BarkSettings:
        """Its speech service."""


H = TypeVar("H", bound=HostSettings)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Database as its hosts and name; two URLs of one database have the same."""

    hosts: tuple[tuple[str, int], ...]
    database: str

    def __str__(self) -> str:
        return f"{self.database} on {', '.join(f'{host}:{port}' for host, port in self.hosts)}"


def store_address(url: str) -> StoreAddress:
    """Address of a URL that was validated."""
    parts = urlsplit(url)
    return StoreAddress(tuple(sorted(_hosts(parts.netloc.rpartition("@")[2]))), unquote(parts.path.strip("/")))


def store_problems(hosts: Iterable[HostSettings], section: str = "hosts") -> Iterator[tuple[str, str]]:
    """Reasons why services cannot share their documents: host (or cluster) and key, and a sentence."""
    first: dict[StoreAddress, HostSettings] = {}
    for host in (each for each in hosts if "bark" in each.roles):
        store, shelf, where = host.bark.store, host.bark.shelf, f"{section}.{host.name}.bark"
        if (store is None) != (shelf is None):
            given, missing = ("store", "shelf") if shelf is None else ("shelf", "store")
            why = "the documents of all services are in the one, their audio in the other"
            yield f"{where}.{given}", f"there is no bark.{missing}: {why}"
        if store is None or shelf is None:
            continue
        if host.bark.address is None or not is_loopback(host.bark.address):
            for name, _ in store_address(store).hosts:
                if is_loopback(name):
                    said = f"{name} is the container of the service itself: name the database's host as others reach it"
                    yield f"{where}.store", said
        other = first.setdefault(store_address(store), host)
        if (is_bucket(shelf) or is_bucket(other.bark.shelf or "")) and shelf != other.bark.shelf:
            said = f"{shelf}, and {other.name} has {other.bark.shelf}: one shelf for the documents of one store"
            yield f"{where}.shelf", said


def is_bucket(shelf: str) -> bool:
    """True for a bucket, false for a directory."""
    return shelf.startswith("s3://")


def sharing(hosts: Iterable[H]) -> tuple[tuple[H, ...], ...]:
    """Hosts whose speech services share their documents, by store; those of one host alone too."""
    found: dict[StoreAddress, list[H]] = {}
    for host in hosts:
        if "bark" in host.roles and host.bark.store is not None:
            found.setdefault(store_address(host.bark.store), []).append(host)
    return tuple(tuple(each) for each in found.values())


def idle_secrets(store: str | None, shelf: str | None) -> frozenset[str]:
    """Secrets of store and shelf that a service has no use for: they stay out of its release."""
    if store is None:
        return frozenset(FILE_VARIABLES.values())
    return frozenset() if shelf is not None and is_bucket(shelf) else frozenset({BARK_SHELF})


def variables(secrets: Collection[str]) -> Mapping[str, str]:
    """Variables of the service that name its files of secrets, as libpq and AWS's libraries read them."""
    files = {variable: f"/run/secrets/{name}" for variable, name in FILE_VARIABLES.items() if name in secrets}
    return {**files, **other_variables(secrets)}


def other_variables(secrets: Collection[str]) -> Mapping[str, str]:
    """Variables that name no file: with roots of its certificate, the database has to prove its name."""
    return {"PGSSLMODE": "verify-full"} if BARK_STORE_CA in secrets else {}


def _hosts(places: str) -> Sequence[tuple[str, int]]:
    """Hosts and ports of a URL. Raises ValueError."""
    found = []
    for place in places.split(","):
        parts = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][\w.-]*)(?::([0-9]{1,5}))?", place)
        if parts is None:
            raise ValueError("not a host")
        found.append((parts[1].strip("[]").lower(), int(parts[2] or _PORT)))
    return found


def _store(value: object) -> str:
    """URL of a database. Its errors do not show it: it may have a password."""
    url = text(value)
    try:
        parts = urlsplit(url)
        user, _, places = parts.netloc.rpartition("@")
        query = {name for name, _ in parse_qsl(parts.query, strict_parsing=bool(parts.query))}
        if parts.password is not None or ":" in user or query & set(_NOT_IN_A_URL):
            raise refusal(
                f"the URL has a password, which logs and command lines would show: leave it out, and add "
                f"{BARK_STORE} to the secrets file"
            )
        _hosts(places)
    except ValueError:
        user = ""
        parts = urlsplit("")
    if parts.scheme not in ("postgresql", "postgres") or not user or not re.fullmatch(r"/[^/]+", parts.path):
        raise refusal(f"expected {_STORE}; its password is the secret {BARK_STORE}")
    return url


def _shelf(value: object) -> str:
    """Directory on the host, or bucket."""
    place = text(value)
    if not re.fullmatch(DIRECTORY, place) and not re.fullmatch(_BUCKET, place):
        raise expected("the whole path of a directory that all hosts mount, or s3://BUCKET/PREFIX", place)
    return place


def _cluster_shelf(value: object) -> str:
    """Claim of a cluster's volume, or bucket."""
    place = text(value)
    if not re.fullmatch(_CLAIM, place) and not re.fullmatch(_BUCKET, place):
        raise expected("s3://BUCKET/PREFIX, or the name of a PersistentVolumeClaim that many nodes mount", place)
    return place


Store = Annotated[str, PlainValidator(_store)]
Shelf = Annotated[str, PlainValidator(_shelf), WITHOUT_SLASH]
ClusterShelf = Annotated[str, PlainValidator(_cluster_shelf), WITHOUT_SLASH]
