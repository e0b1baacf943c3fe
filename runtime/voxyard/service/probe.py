"""Probe of a store and a shelf as `fab check` runs it in a container: logs in, writes, reads, leaves no document.

Standard input has JSON: `store` and `shelf` as in the settings, `variables`, and `files`, which gives the content of
files of secrets by the variables that name them. Standard output gets JSON with what was found of both.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from typing import Any

from voxyard.service.audio.files import AudioFiles
from voxyard.service.audio.shelf import open_shelf
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError

_CONNECT_SECONDS = 5
_LOOK = """
    SELECT to_regclass('voxyard') IS NOT NULL AS there, pg_is_in_recovery() AS standby,
        current_setting('server_encoding') AS encoding, extract(epoch FROM clock_timestamp())::float8 AS now,
        coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create
"""


def main() -> None:
    """Reads what to look at, and prints what was found."""
    given = json.load(sys.stdin)
    os.environ.update(given["variables"])
    for variable, content in given["files"].items():
        descriptor, path = tempfile.mkstemp()  # mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.environ[variable] = path
    json.dump({"store": look_at_store(given["store"]), "shelf": look_at_shelf(given["shelf"])}, sys.stdout)


def look_at_store(url: str) -> dict[str, Any]:
    """Findings of a login: `problem`, or schema `version` and `shelf` token, both null in an empty database, and more.

    `ahead` is by how many seconds this machine's clock is ahead of the server's.
    """
    import psycopg
    from psycopg.rows import dict_row

    from voxyard.service.documents.postgres_start import first_line

    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS, row_factory=dict_row) as connection:
            before = time.time()
            row = connection.execute(_LOOK).fetchone()
            after = time.time()
            if row is None:
                return {"problem": "the server gives no answer"}
            found = {"version": None, "shelf": None}
            if row["there"]:
                found = connection.execute("SELECT version, shelf FROM voxyard").fetchone() or found
    except psycopg.Error as error:
        return {"problem": first_line(error)}
    ahead = min(0.0, after - row["now"]) or max(0.0, before - row["now"])
    return {
        "problem": None,
        "ahead": ahead,
        **found,
        **{key: row[key] for key in ("standby", "encoding", "may_create")},
    }


def look_at_shelf(place: str) -> dict[str, Any]:
    """Findings of writing, reading and deleting: `problem`, or the `token` of the place.

    An empty place gets one, as at the first start of a service: other hosts then find the same.
    """
    try:
        files = open_shelf(ServiceSection(shelf=place).shelf_place(), shared=True)
        problem = _written_and_read(files)
        token = files.marker()
        if token is None and not files.ids():
            token = files.mark(uuid.uuid4().hex[:8])
    except (ServiceError, OSError) as error:
        return {"problem": str(error), "token": None}
    return {"problem": problem, "token": token}


def _written_and_read(files: AudioFiles) -> str | None:
    """Problem of a file that is written, read and deleted; None without."""
    id, content = uuid.uuid4().hex, uuid.uuid4().bytes
    try:
        with files.write(id, "check") as file:
            file.write(content)
        return None if files.read(id, "check") == content else "what was written is read otherwise"
    finally:
        files.remove(id)


if __name__ == "__main__":
    main()
