"""Messages for clients: no absolute path of the server, in errors, reasons and events."""

from __future__ import annotations

import json
import time

import pytest

from voxyard.service.documents.records import Document, StoredChunk
from voxyard.service.errors import StoreError, without_paths
from voxyard.service.http.errors import answer
from voxyard.service.routes import serializers


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/srv/data/voxyard.db is not a voxyard database", "voxyard.db is not a voxyard database"),
        ("No such file or directory: '/srv/my voices/ann.npz'", "No such file or directory: 'my voices/ann.npz'"),
        ("the disk of /data is full: free space on it", "the disk of data is full: free space on it"),
        ("/etc/voxyard/keys.yaml:4: reader: wrong", "keys.yaml:4: reader: wrong"),
        ("POST /v1/documents/ab/retry retries it; /docs lists the endpoints", None),
        ("expected a URL such as https://example.org/path", None),
        ("about 5 km/h, and/or <break/> and </speak>, s3://bucket/prefix, */*", None),
        ("/ and //", None),
    ],
)  # fmt: skip
def test_a_path_is_cut_to_its_name_and_nothing_else_changes(said: str, shown: str | None) -> None:
    assert without_paths(said) == (said if shown is None else shown)


def test_errors_and_reasons_of_the_api_name_no_folder() -> None:
    reason = "the voice file /srv/voices/ann.npz cannot be read"
    record = Document(
        *("0" * 32, "", "A title", "failed", 0.0, None, None, None, 0, None, "fail", 9, 1, 0, 1, 0.0, 1.0),
        reason=reason,
        parked="/srv/data is full",
    )
    chunk = StoredChunk(0, 0, 9, "sentence", 1.0, "failed", None, reason)
    at = serializers.ChunkTimes((chunk,), ())
    out = (serializers.document(record, time.time(), at), serializers.chunk(chunk, at, "Some text"))
    body = answer(StoreError(reason)).body
    for said in (*(each.model_dump_json() for each in out), json.dumps(json.loads(bytes(body)))):
        assert "ann.npz" in said
        assert "/srv" not in said
