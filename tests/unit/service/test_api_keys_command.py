"""`voxyard keys`: the key is shown once, the file keeps its hash."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from voxyard.cli.keys import keys
from voxyard.service.auth.api_keys import Client, Keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(keys, [str(argument) for argument in arguments])


def test_new_prints_a_key_that_the_service_knows_then(path: Path) -> None:
    done = call("new", "reader", "--file", path)
    assert done.exit_code == 0
    assert Keys(path).client(done.stdout.strip()) == Client("reader")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_new_prints_the_key_alone_on_standard_output_and_the_hash_beside(path: Path) -> None:
    done = call("new", "reader", "--file", path)
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.strip() not in done.stderr
    assert path.read_text().splitlines()[-1] in done.stderr


def test_the_key_is_shown_by_no_other_command(path: Path) -> None:
    key = call("new", "reader", "--file", path).stdout.strip()
    for arguments in (("list",), ("list", "--json"), ("revoke", "reader")):
        assert key not in call(*arguments, "--file", path).output


def test_list_prints_the_names_sorted(path: Path) -> None:
    for name in ("zoe", "adam"):
        call("new", name, "--file", path)
    assert call("list", "--file", path).stdout.split() == ["adam", "zoe"]
    listed = json.loads(call("list", "--file", path, "--json").stdout)["keys"]
    assert [entry["name"] for entry in listed] == ["adam", "zoe"]
    assert all(len(entry["sha256"]) == 64 for entry in listed)


def test_revoke_takes_one_key_away_and_leaves_the_others(path: Path) -> None:
    gone = call("new", "gone", "--file", path).stdout.strip()
    here = call("new", "here", "--file", path).stdout.strip()
    assert call("revoke", "gone", "--file", path).exit_code == 0
    assert call("list", "--file", path).stdout.split() == ["here"]
    assert call("new", "gone", "--file", path).exit_code == 2
    assert call("new", "gone", "--file", path, "--take-over").exit_code == 0
    assert Keys(path).client(gone) is None
    assert Keys(path).client(here) == Client("here")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("new", "a b"), "invalid key name"),
        (("new", "reader"), "revoke it first"),
        (("revoke", "nobody"), "has no key nobody"),
    ],
)
def test_wrong_use_prints_an_error_and_exits_with_2(path: Path, arguments: tuple[str, ...], reason: str) -> None:
    call("new", "reader", "--file", path)
    done = call(*arguments, "--file", path)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert done.stdout == ""


def test_list_without_a_file_says_how_to_make_one(path: Path) -> None:
    done = call("list", "--file", path)
    assert done.exit_code == 2
    assert "voxyard keys new NAME" in done.stderr


def test_the_file_may_be_named_by_the_services_own_variable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXYARD_SERVICE_KEYS", str(path))
    assert call("new", "reader").exit_code == 0
    assert path.exists()


def test_limit_sets_the_limits_that_list_shows(path: Path) -> None:
    call("new", "reader", "--file", path)
    done = call("limit", "reader", "--file", path, "--documents", "3", "--share", "0.5")
    assert done.exit_code == 0, done.output
    assert call("list", "--file", path).stdout == "reader  documents 3, share 0.5\n"
    listed = json.loads(call("list", "--file", path, "--json").stdout)["keys"]
    assert listed[0]["limits"] == {"documents": 3, "share": 0.5}
    wrong = call("limit", "reader", "--file", path, "--share", "nan")  # which click takes for a number in the range
    assert (wrong.exit_code, "nan is not in the range" in wrong.stderr) == (2, True)
    assert call("limit", "reader", "--file", path).exit_code == 0
    assert call("list", "--file", path).stdout == "reader\n"
    assert call("limit", "nobody", "--file", path).exit_code != 0


def test_lexicon_gives_a_key_the_words_that_list_shows(path: Path) -> None:
    words = path.parent / "words.yaml"
    words.write_text("nginx: engine x\n")
    call("new", "reader", "--file", str(path))
    assert call("lexicon", "reader", str(words), "--file", str(path)).exit_code == 0
    assert Keys(path).lexicon("reader") is not None
    assert call("list", "--file", str(path)).stdout == f"reader  lexicon {words}\n"
    assert call("lexicon", "reader", "--file", str(path)).exit_code == 0
    assert call("list", "--file", str(path)).stdout == "reader\n"
    words.write_text("- nginx\n")
    refused = call("lexicon", "reader", str(words), "--file", str(path))
    assert (refused.exit_code, "words.yaml:1" in refused.output) == (2, True)
