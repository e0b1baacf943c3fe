"""Preflight checks of speech services that share their documents: login, schema, place of the audio, same secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fleet.checks.documents_probe import look
from fleet.checks.finding import BARK, Finding
from fleet.errors import FleetError
from fleet.facts.fact import Unknown
from fleet.facts.host import HostFacts
from fleet.facts.shared_documents import SharedDocuments
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import BARK_KEYS, BARK_SESSIONS, BARK_SHELF, BARK_STORE, BARK_WEBHOOK, place, read_all
from fleet.inventory.shared_documents import is_bucket, sharing, store_address
from fleet.ssh.connection_pool import Session
from voxyard.service.documents.schema import MIGRATIONS

SKEW_SECONDS = 2.0
_SAME = (BARK_SESSIONS, BARK_KEYS, BARK_WEBHOOK)
"""Secrets by which any service answers for the others: sessions, clients, signatures."""
_REMEDIES = (  # words of libpq → what helps
    ("password", f"correct {BARK_STORE} in the secrets file, or the user's password in the database"),
    ("no pg_hba.conf entry", "let this host in: pg_hba.conf of the database's server; then reload it"),
    ("translate host name", "correct the host of bark.store, or the names that this host knows"),
    ("does not exist", "make both: createuser --pwprompt USER; createdb --owner USER --encoding UTF8 NAME"),
    ("certificate", "correct bark-store-ca in the secrets file, or the server's certificate, which names its host"),
)  # fmt: skip
_REACH = "start PostgreSQL there, have it listen on its network (listen_addresses), and open its port for this host"


def with_shared_documents(session: Session, facts: HostFacts, host: Host) -> HostFacts:
    """Facts with what a container of the host finds of store and shelf."""
    if isinstance(facts.docker, Unknown):
        return facts
    try:
        secrets = read_all(host.secrets)
    except FleetError:  # which the check of certificates reports
        return facts
    return replace(facts, shared_documents=look(session, host, secrets))


def check_all(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the service of this host can use its store and its shelf."""
    found = facts.shared_documents
    if found is None:
        return
    if isinstance(found, Unknown):
        said = f"the store could not be tried: {found.reason}"
        yield Finding("WARN", "store", said, "log in and run a container of the image voxyard-bark", services=(BARK,))
    elif found.store is None or found.shelf is None:
        yield _not_tried(found, host)
    else:
        yield from _of_store(found, host)
        yield from _of_shelf(found, host)


def across(hosts: Sequence[Host], facts: Mapping[str, HostFacts]) -> Mapping[str, tuple[Finding, ...]]:
    """Findings by host where hosts that share documents differ: place of the audio, secrets."""
    found: dict[str, tuple[Finding, ...]] = {}
    for together in sharing(hosts):
        for host in together[1:]:
            if differences := (*_shelves(together[0], host, facts), *_secrets(together[0], host)):
                found[host.name] = differences
    return found


def _not_tried(found: SharedDocuments, host: Host) -> Finding:
    again = "none: check again after the first deploy"
    if not found.image:
        return Finding("INFO", "store", "the store was not tried: the host has no image of Bark yet", again)
    if "No module named" in found.said:
        said = f"the store was not tried: the image {found.image} of the host is older than this check"
        return Finding("INFO", "store", said, again)
    if "bind source path does not exist" in found.said:
        said = f"there is no directory {host.bark.shelf}"
        return Finding("FAIL", "shelf", said, "mount it, as on the other hosts, or correct it", services=(BARK,))
    said = f"a container that tries the store fails: {found.said[-300:] or f'exit code {found.code}'}"
    return Finding("FAIL", "store", said, "correct what it says; then check again", services=(BARK,))


def _of_store(found: SharedDocuments, host: Host) -> Iterator[Finding]:
    store, name = found.store or {}, store_address(host.bark.store or "")
    if (problem := store["problem"]) is not None:
        remedy = next((each for words, each in _REMEDIES if words in problem), _REACH)
        yield Finding("FAIL", "store", f"no login to {name}: {problem}", remedy, services=(BARK,))
        return
    version = store["version"]
    if version is not None and version > len(MIGRATIONS):
        said = f"the schema of {name} has version {version}, this release knows up to {len(MIGRATIONS)}"
        remedy = "deploy a release that is as new as the one that wrote it: an older one does not start on it"
        yield Finding("FAIL", "store", said, remedy, services=(BARK,))
    if store["standby"]:
        remedy = "name the primary in bark.store, or all servers and ?target_session_attrs=read-write"
        yield Finding("FAIL", "store", f"{name} is a read-only standby", remedy, services=(BARK,))
    if store["encoding"] != "UTF8":
        said = f"{name} has the encoding {store['encoding']}, expected UTF8"
        yield Finding("FAIL", "store", said, "createdb --encoding UTF8 --template template0 NAME", services=(BARK,))
    if version is None and not store["may_create"]:
        said = f"the user of {name} may create no tables there"
        yield Finding("FAIL", "store", said, "ALTER DATABASE NAME OWNER TO USER", services=(BARK,))
    if abs(store["ahead"]) > SKEW_SECONDS:
        said = f"the clock is {abs(store['ahead']):.1f} s {'ahead of' if store['ahead'] > 0 else 'behind'} {name}'s"
        yield Finding("WARN", "store", said, "enable time synchronisation on both: timedatectl set-ntp true")
    schema = "no schema yet" if version is None else f"schema version {version}"
    yield Finding("INFO", "store", f"a container of image {found.image} logged in to {name}: {schema}", "none")


def _of_shelf(found: SharedDocuments, host: Host) -> Iterator[Finding]:
    shelf, known = found.shelf or {}, (found.store or {}).get("shelf")
    where = host.bark.shelf or ""
    if (problem := shelf["problem"]) is not None:
        remedy = f"let uid 65532 write there: sudo chown 65532:65532 {where}; a full disk needs room"
        if is_bucket(where):
            remedy = f"correct {BARK_SHELF} in the secrets file (keys, region, endpoint_url), or make the bucket"
        yield Finding("FAIL", "shelf", f"{where} cannot be used: {problem}", remedy, services=(BARK,))
    elif known is not None and shelf["token"] != known:
        said = f"{where} is not the place with the audio of the documents in the store"
        remedy = "mount the directory that the other hosts have; where its files were moved, move .voxyard along"
        yield Finding("FAIL", "shelf", said, remedy, services=(BARK,))
    else:
        yield Finding("INFO", "shelf", f"a file in {where} was written, read and deleted", "none")


def _shelves(first: Host, host: Host, facts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    tokens = [_token(facts[each.name]) for each in (first, host)]
    if None not in tokens and tokens[0] != tokens[1]:
        said = f"{host.bark.shelf} is another place than {first.bark.shelf} of {first.name}"
        yield Finding("FAIL", "shelf", said, "mount the same directory on both", services=(BARK,))


def _token(facts: HostFacts) -> str | None:
    found = facts.shared_documents
    return None if found is None or isinstance(found, Unknown) or not found.shelf else found.shelf["token"]


def _secrets(first: Host, host: Host) -> Iterator[Finding]:
    try:
        values = [read_all(each.secrets).values for each in (first, host)]
    except FleetError:
        return
    for name in _SAME:
        if values[0].get(name) != values[1].get(name):
            said = f"{name} is another than that of {first.name}, with which the service shares its documents"
            remedy = f"give both the same: {place(host.secrets)}"
            yield Finding("FAIL", "secrets", said, remedy, services=(BARK,))
