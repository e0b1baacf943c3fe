"""Throw-away container that logs in to the store and writes to the shelf, as the speech service of this host would."""

from __future__ import annotations

import json

from fleet.facts.fact import Fact, Unknown
from fleet.facts.shared_documents import SharedDocuments, parse
from fleet.images.image import repository_of
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import Secrets
from fleet.inventory.shared_documents import FILE_VARIABLES, SHELF, is_bucket, other_variables
from fleet.inventory.types import is_loopback
from fleet.ssh.command_batch import verb
from fleet.ssh.connection_pool import Session

SECONDS = 90  # a bucket that is away is asked three times
MODULE = "voxyard.service.probe"


def look(session: Session, host: Host, secrets: Secrets) -> SharedDocuments | Unknown | None:
    """Run the container; None for a host whose documents are its own. Passwords travel on standard input."""
    if "bark" not in host.roles or host.bark.store is None or host.bark.shelf is None:
        return None
    words = verb("fact_in_container", repository_of("bark"), str(SECONDS), MODULE, *options(host))
    fact = Fact("shared-documents", words, parse, SECONDS + 30)
    return fact.read(session.send(fact.command, [request(host, secrets)]))


def request(host: Host, secrets: Secrets) -> bytes:
    """Standard input of the probe."""
    shelf = host.bark.shelf or ""
    files = {
        variable: secrets.values[name].decode() for variable, name in FILE_VARIABLES.items() if name in secrets.values
    }
    document = {
        "store": host.bark.store,
        "shelf": shelf if is_bucket(shelf) else SHELF,
        "files": files,
        "variables": dict(other_variables(secrets.values)),
    }
    return json.dumps(document).encode()


def options(host: Host) -> list[str]:
    """Options of `docker run`: the rights, the network and the mount of the speech service."""
    shelf = host.bark.shelf or ""
    words = ["--rm", "--interactive", "--pull", "never", "--read-only", "--tmpfs", "/tmp:mode=1777"]  # noqa: S108
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65532:65532"]
    words += ["--network", "host"] if host.bark.address is not None and is_loopback(host.bark.address) else []
    words += [] if is_bucket(shelf) else ["--mount", f"type=bind,source={shelf},target={SHELF}"]
    return [*words, "--entrypoint", "python"]
