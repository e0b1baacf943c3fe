"""API keys: files, hashes, changes while the service runs."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syncs import watch_syncs

from voxyard.service.auth.api_keys import (
    Client,
    Keys,
    StoredKey,
    add_key,
    give_lexicon,
    hashed,
    limit_key,
    new_key,
    read_keys,
    revoke_key,
    write_keys,
)
from voxyard.service.errors import ServiceError
from voxyard.service.fairness import KeyLimits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def test_a_new_key_is_known_by_its_name(path: Path) -> None:
    key = add_key(path, "reader")
    assert Keys(path).client(key) == Client("reader")


def test_the_file_holds_the_hash_and_not_the_key(path: Path) -> None:
    key = add_key(path, "reader")
    text = path.read_text()
    assert key not in text
    assert hashlib.sha256(key.encode()).hexdigest() in text


def test_keys_are_long_and_never_the_same() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("vox_") and len(key) >= 47 for key in keys)


@pytest.mark.parametrize("change", [str.upper, lambda key: key[:-1], lambda key: key + "a", lambda _: "", str.swapcase])
def test_an_almost_correct_key_is_unknown(path: Path, change) -> None:
    key = add_key(path, "reader")
    assert Keys(path).client(change(key)) is None


def test_a_hash_is_no_key(path: Path) -> None:
    add_key(path, "reader")
    assert Keys(path).client(read_keys(path)["reader"].sha256) is None


@given(st.text(max_size=600))
def test_any_text_can_be_asked_about(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys.yaml"
    write_keys(path, {"reader": StoredKey("0" * 64)})
    assert Keys(path).client(text) is None


def test_every_key_is_compared_whichever_fits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [add_key(path, f"client{number}") for number in range(5)]
    known, compared = Keys(path), []

    def compare(one: str, other: str) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("voxyard.service.auth.api_keys.hmac.compare_digest", compare)
    counts = []
    for key in [*keys, "unknown"]:
        compared.clear()
        known.client(key)
        counts.append(len(compared))
    assert counts == [5] * 6


def test_a_key_that_is_added_while_the_service_runs_is_known(path: Path) -> None:
    add_key(path, "first")
    keys = Keys(path)
    second = add_key(path, "second")
    keys.refresh()
    assert keys.client(second) == Client("second")
    assert keys.names() == ("first", "second")


def test_a_key_that_is_revoked_while_the_service_runs_is_not_known_any_more(path: Path) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    assert keys.client(key) is not None
    client = keys.client(key)
    revoke_key(path, "reader")
    keys.refresh()
    assert keys.client(key) is None
    assert client is not None
    assert not keys.valid(client)
    assert keys.hash_of("reader") is None


@pytest.mark.parametrize(
    "content", ["", "# API keys\n", "a: [", "reader: short\n", "- list\n", '"a b": ' + "0" * 64 + "\n", b"\xff\xfe\x00"]
)
def test_a_broken_file_changes_nothing_while_the_service_runs(
    path: Path, content: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for _ in range(3):
        keys.refresh()
        assert keys.client(key) == Client("reader")
    assert len([record for record in caplog.records if "keeping the previous API keys" in record.message]) == 1


def test_a_file_that_goes_away_changes_nothing_until_it_comes_back(path: Path) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    path.unlink()
    keys.refresh()
    assert keys.client(key) == Client("reader")
    other = add_key(path, "other")
    keys.refresh()
    assert keys.client(other) == Client("other")
    assert keys.client(key) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a: [", "cannot be read"),
        ("- a\n", "expected lines"),
        ("../x: " + "0" * 64, "expected up to 64 letters"),
        (f"reader: {'a' * 64}\nreader: {'b' * 64}", ":2: reader stands here a second time, first on line 1"),
        ("reader: vox_plain-key", "64 hexadecimal digits"),
        ("reader: " + "0" * 63, "voxyard keys new reader"),
        ("reader: " + "G" * 64, "64 hexadecimal digits"),
        ("reader: {limits: {share: 2}}", "64 hexadecimal digits"),
        ("reader: {sha256: " + "0" * 64 + ", limit: {}}", "unknown field 'limit'"),
        ("reader: {sha256: " + "0" * 64 + ", limits: {shares: 2}}", "limits.shares"),
        ("reader: {sha256: " + "0" * 64 + ", limits: {share: 0}}", "limits.share"),
        ("reader: {sha256: " + "0" * 64 + ", limits: {documents: 1.5}}", "limits.documents"),
        ("reader: {sha256: " + "0" * 64 + ", limits: [1]}", "the limits are"),
    ],
)
def test_a_broken_file_is_refused_at_the_start_with_its_name(path: Path, content: str, reason: str) -> None:
    path.write_text(content)
    with pytest.raises(ServiceError) as caught:
        Keys(path)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)
    assert "vox_plain-key" not in str(caught.value)


def test_a_missing_file_is_refused_at_the_start_with_the_way_to_make_one(path: Path) -> None:
    with pytest.raises(ServiceError, match="voxyard keys new"):
        Keys(path)


def test_an_empty_file_admits_no_client_and_logs_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_keys(path, {})
    assert Keys(path).client(new_key()) is None
    assert "every request is refused" in caplog.text


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    before = os.umask(0)
    try:
        add_key(path, "reader")
        add_key(path, "other")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_keeps_its_owner_when_root_adds_a_key(path: Path) -> None:
    add_key(path, "reader")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 1234, 1235)
    add_key(path, "other")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = add_key(path, "reader")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("voxyard.service.auth.api_keys.os.fsync", full)
    with pytest.raises(ServiceError, match="No space left"):
        add_key(path, "other")
    assert Keys(path).client(key) == Client("reader")
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.yaml"]


def test_the_file_is_on_the_disk_before_it_has_its_name_and_its_name_afterwards(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_key(path, "reader")
    synced = watch_syncs(monkeypatch)
    revoke_key(path, "reader")
    file, folder = synced
    assert (file.parent, file.name.startswith(".keys.yaml."), folder) == (path.parent, True, path.parent)


def test_keys_that_are_added_at_the_same_time_are_all_there(path: Path) -> None:
    threads = [threading.Thread(target=add_key, args=(path, f"client{number}")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_keys(path)) == 12


@pytest.mark.parametrize("name", ["", "a b", "-x", "a/b", "ä", "a" * 65, "a\nb"])
def test_a_name_that_cannot_be_one_is_refused(path: Path, name: str) -> None:
    with pytest.raises(ServiceError, match="invalid key name"):
        add_key(path, name)
    assert not path.exists()


@pytest.mark.parametrize("name", ["on", "null", "123", "1e5", "0x1", "2026-01-01", "a.b-c_d"])
def test_a_name_that_means_something_else_in_yaml_stays_a_name(path: Path, name: str) -> None:
    key = add_key(path, name)
    assert Keys(path).client(key) == Client(name)


def test_a_name_is_not_given_twice(path: Path) -> None:
    key = add_key(path, "reader")
    with pytest.raises(ServiceError, match="revoke it first"):
        add_key(path, "reader")
    assert Keys(path).client(key) == Client("reader")


def test_a_new_key_of_a_revoked_name_sees_its_documents_only_where_they_are_handed_over(path: Path) -> None:
    old = add_key(path, "reader")
    revoke_key(path, "reader")
    with pytest.raises(
        ServiceError, match=r"would see its documents and voices: choose another name, or .*--take-over"
    ):
        add_key(path, "reader")
    with pytest.raises(ServiceError, match="has no key reader: it has no keys"):
        revoke_key(path, "reader")
    new = add_key(path, "reader", take_over=True)
    keys = Keys(path)
    assert (keys.client(old), keys.client(new), keys.client("revoked")) == (None, Client("reader"), None)


def test_the_last_key_can_be_revoked_while_the_service_runs(path: Path) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    revoke_key(path, "reader")
    keys.refresh()
    assert (keys.client(key), keys.names()) == (None, ())


def test_nothing_but_refresh_reads_the_file(path: Path) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    revoke_key(path, "reader")
    assert (keys.client(key), keys.changed) == (Client("reader"), True)
    keys.refresh()
    assert (keys.client(key), keys.changed) == (None, False)


def test_revoking_an_unknown_name_tells_those_that_are_known(path: Path) -> None:
    add_key(path, "reader")
    with pytest.raises(ServiceError, match="the keys are reader"):
        revoke_key(path, "writer")


def test_a_link_to_the_file_stays_a_link(path: Path) -> None:
    real = path.with_name("real.yaml")
    write_keys(real, {"reader": StoredKey(hashed("x"))})
    path.symlink_to(real)
    add_key(path, "other")
    assert path.is_symlink()
    assert set(read_keys(real)) == {"reader", "other"}


def test_limits_of_a_key_are_kept_when_others_come_and_go(path: Path) -> None:
    key = add_key(path, "reader")
    limit_key(path, "reader", KeyLimits(documents=3, share=2.5))
    keys = Keys(path)
    add_key(path, "other")
    revoke_key(path, "other")
    keys.refresh()

    assert keys.client(key) == Client("reader")
    assert keys.limits("reader") == KeyLimits(documents=3, share=2.5)
    assert keys.limits("nobody") == KeyLimits()


def test_limits_that_an_operator_writes_take_effect_while_the_service_runs(path: Path) -> None:
    key = add_key(path, "reader")
    keys = Keys(path)
    assert keys.limits("reader").speech_requests is None

    path.write_text(f"reader:\n  sha256: {hashed(key)}\n  limits: {{speech_requests: 4}}\n")
    keys.refresh()

    assert keys.client(key) == Client("reader")
    assert keys.limits("reader").speech_requests == 4


HASH = "a" * 64


@pytest.mark.parametrize(
    ("lexicon", "line", "reason"),
    [
        ("  lexicon:\n    nginx: 7\n", 4, "found 7, expected words: put it into quotes"),
        ("  lexicon:\n    nginx: ''\n", 4, "has 0 characters"),
        ("  lexicon: [a]\n", 4, "expected the path of a file"),
        ("  lexicon: nowhere.yaml\n", 4, "nowhere.yaml: no such file"),
        ("  lexicon: words.yaml\n", 4, "words.yaml:2: nginx: found nothing"),
        ("  lexicons: words.yaml\n", 4, "unknown field 'lexicons'"),
    ],
)
def test_a_wrong_lexicon_is_refused_at_the_start_with_file_line_and_key(
    path: Path, lexicon: str, line: int, reason: str
) -> None:
    (path.parent / "words.yaml").write_text("SQL: sequel\nnginx:\n")
    path.write_text(f"other: {HASH}\nreader:\n  sha256: {HASH}\n{lexicon}")
    with pytest.raises(ServiceError) as caught:
        Keys(path)
    assert str(caught.value).startswith(f"{path}:{line}: reader: ")
    assert reason in str(caught.value)


def spoken_of(keys: Keys, name: str, word: str) -> list[str]:
    lexicon = keys.lexicon(name)
    return [] if lexicon is None else [each.text for each in lexicon.edits(word, "en")]


def test_a_lexicon_is_read_again_when_the_key_file_or_its_own_file_changes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = path.parent / "words.yaml"
    words.write_text("nginx: engine x\n")
    write_keys(path, {"a": StoredKey(HASH, lexicon="words.yaml"), "b": StoredKey(HASH, lexicon={"nginx": "en gee"})})
    keys = Keys(path)
    assert [spoken_of(keys, name, "nginx") for name in ("a", "b", "nobody")] == [["engine x"], ["en gee"], []]

    words.write_text("nginx: engine ex\nSQL: sequel\n")
    assert spoken_of(keys, "a", "nginx") == ["engine ex"]
    words.write_text("nginx:\n")
    for _ in range(3):
        assert spoken_of(keys, "a", "nginx") == ["engine ex"]
    assert len([each for each in caplog.records if "keeping the previous lexicon of key a" in each.message]) == 1

    write_keys(path, {"a": StoredKey(HASH, lexicon={"SQL": "squirrel"}), "b": StoredKey(HASH)})
    keys.refresh()
    assert [spoken_of(keys, "a", word) for word in ("nginx", "SQL")] == [[], ["squirrel"]]
    assert spoken_of(keys, "b", "nginx") == []


def test_a_wrong_lexicon_keeps_no_revoked_key_alive(path: Path) -> None:
    key, other = add_key(path, "reader"), add_key(path, "other")
    keys = Keys(path)
    stored = read_keys(path)
    write_keys(path, {"other": StoredKey(stored["other"].sha256, lexicon="nowhere.yaml")})
    keys.refresh()
    assert (keys.client(key), keys.client(other)) == (None, Client("other"))
    assert keys.lexicon("other") is None


def test_a_lexicon_is_kept_when_the_limits_change_and_the_limits_when_the_lexicon_does(path: Path) -> None:
    add_key(path, "reader")
    give_lexicon(path, "reader", {"nginx": "engine x"})
    limit_key(path, "reader", KeyLimits(documents=3))
    assert read_keys(path)["reader"].lexicon == {"nginx": "engine x"}
    give_lexicon(path, "reader", None)
    assert (read_keys(path)["reader"].lexicon, read_keys(path)["reader"].limits.documents) == (None, 3)
    with pytest.raises(ServiceError, match="no such file"):
        give_lexicon(path, "reader", "nowhere.yaml")
