"""Secrets file: permissions, content, and no secret in any message."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleet.errors import FleetError
from fleet.inventory.secrets import Secrets, read, read_all, versioned
from voxyard.cli.keys import keys as commands
from voxyard.service.auth.api_keys import StoredKey, read_keys, write_keys

README = Path(__file__).resolve().parents[4] / "README.md"
HASH = "0123456789abcdef" * 4
PLANTED = "hunter2-hunter2-hunter2"
GOOD = f"""
bark-api-keys: |
  # API keys of voxyard
  alice: {HASH}
  "bob.b": '{HASH}'
bark-webhook-secret: {PLANTED}
grafana-admin-password: 'correct: horse'
alert-chat: https://chat.example/hook
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a text as a secrets file of the owner's."""

    def text_to_file(text: str) -> Path:
        path = tmp_path / "secrets.yaml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return text_to_file


def test_each_service_gets_its_own(write: Write) -> None:
    secrets = read(write(GOOD))
    assert set(secrets.of("bark")) == {"bark-api-keys", "bark-webhook-secret"}
    assert secrets.of("grafana") == {"grafana-admin-password": b"correct: horse"}
    assert secrets.of("alertmanager") == {"alert-chat": b"https://chat.example/hook"}
    assert secrets.of("exporter") == {}
    assert secrets.values["bark-webhook-secret"] == PLANTED.encode()
    assert f"alice: {HASH}\n".encode() in secrets.values["bark-api-keys"]


def test_no_value_shows_in_a_representation(write: Write) -> None:
    secrets = read(write(GOOD))
    assert PLANTED not in f"{secrets!r} {secrets}"
    assert repr(Secrets({"bark-webhook-secret": b"x"})) == "Secrets()"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o601])
def test_a_file_that_others_reach_is_refused(write: Write, mode: int) -> None:
    path = write(GOOD)
    path.chmod(mode)
    with pytest.raises(FleetError, match=rf"other users can read or write it \(mode {mode:04o}\): chmod 600"):
        read(path)


def test_a_link_is_checked_by_the_file_behind_it(write: Write, tmp_path: Path) -> None:
    path = write(GOOD)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read(link).values
    path.chmod(0o644)
    with pytest.raises(FleetError, match="other users can read"):
        read(link)


def test_a_file_that_git_tracks_is_refused(write: Write, tmp_path: Path) -> None:
    path = write(GOOD)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert read(path).values
    subprocess.run(["git", "-C", tmp_path, "add", "secrets.yaml"], check=True)
    with pytest.raises(FleetError, match=r"tracked by git: run git rm --cached"):
        read(path)


def test_several_files_are_read_as_one_and_a_name_in_two_is_named_with_both(write: Write, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.touch(0o600)
    more.write_text("alert-mail: https://mail.example\n")
    both = read_all([write(GOOD), more])
    assert {"alert-chat", "alert-mail"} <= set(both.values)
    assert read_all([]).values == {}
    more.write_text(f"alert-chat: {PLANTED}\n")
    with pytest.raises(
        FleetError, match=r"alert-chat is given in .*/secrets\.yaml and in .*/more\.yaml: remove"
    ) as caught:
        read_all([write(GOOD), more])
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"bark-api-key: {PLANTED}", ":1: unknown secret name, expected one of bark-api-keys, bark-webhook"),
        (f"{PLANTED}: x", ":1: unknown secret name"),
        (PLANTED, ":1: expected NAME: VALUE"),
        ("", ":1: expected NAME: VALUE"),
        (f"a: b\n{PLANTED}", ":2: not readable as YAML"),
        (f"bark-webhook-secret: *{PLANTED}", ":1: not readable as YAML"),
        (f"bark-webhook-secret: !{PLANTED} x", ":1: not readable as YAML"),
        (f"bark-webhook-secret: '{PLANTED}", "not readable as YAML"),
        (f"\nbark-webhook-secret: [{PLANTED}]", ":2: bark-webhook-secret: expected a non-empty string: quote it"),
        ("bark-webhook-secret: 1234567890123456", ":1: bark-webhook-secret: expected a non-empty string"),
        ("bark-webhook-secret:", ":1: bark-webhook-secret: expected a non-empty string"),
        ("bark-webhook-secret: short", ":1: bark-webhook-secret: expected at least 16 characters"),
        (f"bark-webhook-secret: |\n  {PLANTED}\n  more", ":1: bark-webhook-secret: expected one line"),
        (f'bark-webhook-secret: "{PLANTED}\\a"', ":1: bark-webhook-secret: contains a control character"),
        (
            f"bark-webhook-secret: {PLANTED}\nbark-webhook-secret: {PLANTED}",
            ":2: bark-webhook-secret is given twi",
        ),
        ("bark-api-keys: |\n  # to come\n\n", ":1: bark-api-keys: has comments and no key, so that nobody could use"),
        (f"bark-api-keys: 'alice: {PLANTED}'", ":1: bark-api-keys: expected what `voxyard keys new NAME --file FILE`"),
        (f"bark-api-keys: '{PLANTED}'", ":1: bark-api-keys: expected what `voxyard keys new"),
        (f"bark-api-keys: '{PLANTED}!: {HASH}'", ":1: bark-api-keys: expected what `voxyard keys new"),
        (f"bark-api-keys: 'a: {{sha256: {HASH}, {PLANTED}: 1}}'", ":1: bark-api-keys: expected what `voxyard keys new"),
        (f"bark-api-keys: 'a: {{sha256: {HASH}, limits: {PLANTED}}}'", "expected what `voxyard keys new"),
        (f"bark-api-keys: 'a: [{PLANTED}'", ":1: bark-api-keys: expected what `voxyard keys new"),
        ("bark-webhook-secret: a\x01b", ":1: not readable as YAML"),
        (f"gateway-key: |\n  -----BEGIN CERTIFICATE-----\n  {PLANTED}\n", "a line -----BEGIN PRIVATE KEY-----"),
        (f"gateway-certificate: |\n  -----BEGIN PRIVATE KEY-----\n  {PLANTED}\n", "a line -----BEGIN CERTIFICATE-----"),
        (f'gateway-key: "-----BEGIN PRIVATE KEY-----\\\\n{PLANTED}"', ":1: gateway-key: expected PEM, as a block (|)"),
    ],
)
def test_a_wrong_file_is_named_by_line_and_without_a_piece_of_it(write: Write, text: str, said: str) -> None:
    with pytest.raises(FleetError) as caught:
        read(write(text))
    assert said in str(caught.value)
    assert PLANTED not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_keys_with_limits_and_lexicons_are_deployed_as_the_readme_says(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    for command in (["new", "alice"], ["limit", "alice", "--documents", "20", "--share", "2"], ["new", "bob"]):
        done = CliRunner().invoke(commands, [*command, "--file", str(keys)])
        assert done.exit_code == 0, done.output
    known = read_keys(keys)
    words = {"nginx": "engine x"}
    write_keys(keys, {**known, "carol": StoredKey(HASH, lexicon=words)})
    recipe = next(line for line in README.read_text(encoding="utf-8").splitlines() if "bark-api-keys: |" in line)
    (tmp_path / "deploy").mkdir()
    subprocess.run(["bash", "-euc", recipe], cwd=tmp_path, check=True)
    deployed = tmp_path / "deployed.yaml"
    deployed.write_bytes(read(tmp_path / "deploy/secrets.yaml").values["bark-api-keys"])
    assert read_keys(deployed) == read_keys(keys)
    assert read_keys(deployed)["alice"].limits.documents == 20
    assert read_keys(deployed)["carol"].lexicon == words


def test_a_lexicon_in_a_file_of_this_machine_is_refused_with_what_to_write_instead(write: Write) -> None:
    with pytest.raises(FleetError, match=r":1: bark-api-keys: the lexicon of alice is a file.*write its words"):
        read(write(f"bark-api-keys: 'alice: {{sha256: {HASH}, lexicon: /home/ann/words.yaml}}'"))


def test_a_password_of_eight_characters_is_long_enough(write: Write) -> None:
    assert read(write("grafana-admin-password: eight-ch")).of("grafana") == {"grafana-admin-password": b"eight-ch"}
    with pytest.raises(FleetError, match="grafana-admin-password"):
        read(write("grafana-admin-password: seven-c"))


def test_the_line_that_is_no_text_is_named(write: Write) -> None:
    path = write("")
    path.write_bytes(b"bark-webhook-secret: " + PLANTED.encode() + b"\ngrafana-admin-password: \xff\n")
    with pytest.raises(FleetError, match=r":2: not UTF-8 text: save it as UTF-8$"):
        read(path)


def test_a_missing_file_says_who_names_it(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no such file, named as secrets in the inventory"):
        read(tmp_path / "none")
    with pytest.raises(FleetError, match="expected a regular file"):
        read(tmp_path)


def test_a_file_name_tells_values_and_names_apart_and_holds_neither() -> None:
    one = versioned("bark-webhook-secret", PLANTED.encode())
    assert one == versioned("bark-webhook-secret", PLANTED.encode())
    assert one != versioned("bark-webhook-secret", PLANTED.encode() + b"!")
    assert one != versioned("grafana-admin-password", PLANTED.encode())
    assert PLANTED not in one
