"""Probe of `fab check`: what it finds of a real PostgreSQL, of a directory and of a bucket, and what it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from voxyard.service.audio.files import MARKER, AudioFolder
from voxyard.service.audio.shelf import check_shelf
from voxyard.service.documents.schema import MIGRATIONS
from voxyard.service.documents.store import Store
from voxyard.service.probe import look_at_shelf, look_at_store


def test_an_empty_database_has_no_schema_and_a_used_one_its_version(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.url()
    found = look_at_store(url)
    assert {key: found[key] for key in ("problem", "version", "shelf", "standby", "encoding", "may_create")} == {
        "problem": None, "version": None, "shelf": None, "standby": False, "encoding": "UTF8", "may_create": True,
    }  # fmt: skip
    assert abs(found["ahead"]) < 60
    store = Store(url)
    check_shelf(AudioFolder(tmp_path, shared=True), store, mark=True)
    found = look_at_store(url)
    assert (found["version"], found["shelf"]) == (len(MIGRATIONS), look_at_shelf(str(tmp_path))["token"])
    store.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("/voxyard?", "/none?", 'database "none" does not exist'), ("voxyard@", "nobody@", 'role "nobody" does not')],
)
def test_a_login_that_is_refused_is_the_servers_words(postgres: PostgresServer, old: str, new: str, said: str) -> None:
    assert said in look_at_store(postgres.url(host="127.0.0.1").replace(old, new))["problem"]


def test_a_file_is_written_read_and_deleted_and_an_empty_place_gets_its_token(tmp_path: Path) -> None:
    first, again = look_at_shelf(str(tmp_path)), look_at_shelf(str(tmp_path))
    assert first == again == {"problem": None, "token": (tmp_path / MARKER).read_text().strip()}
    assert [each.name for each in tmp_path.iterdir()] == [MARKER]


def test_audio_without_a_token_gets_none(tmp_path: Path) -> None:
    (tmp_path / ("0" * 32)).mkdir()
    assert look_at_shelf(str(tmp_path)) == {"problem": None, "token": None}


def test_a_place_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "Not a directory" in look_at_shelf(str(tmp_path / "file"))["problem"]


@pytest.mark.slow
def test_secrets_come_as_files_that_variables_name(postgres: PostgresServer, tmp_path: Path) -> None:
    """As the container runs it: a database that wants a password, on standard input alone."""
    url = f"postgresql://guarded@127.0.0.1:{postgres.port}/voxyard"
    given: dict[str, Any] = {"store": url, "shelf": str(tmp_path), "variables": {}}

    def probed(files: dict[str, str]) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "voxyard.service.probe"],
            input=json.dumps({**given, "files": files}), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)["store"]
        return found

    with postgres.guarded("hush:hush"):
        assert probed({"PGPASSFILE": "*:*:*:*:hush\\:hush\n"})["problem"] is None
        assert "password authentication failed" in probed({"PGPASSFILE": "*:*:*:*:wrong\n"})["problem"]
        assert "no password supplied" in probed({})["problem"]
