"""Browser sessions: validity, expiry and revocation of cookies."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from service_app import running
from starlette.datastructures import Headers

from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import Client, Keys, StoredKey, add_key, hashed, revoke_key, write_keys
from voxyard.service.auth.sessions import Sessions, read_secret, read_shared_secret, session_cookie
from voxyard.service.errors import ServiceError, StoreError, UnauthorizedError

SECRET = b"s" * 32


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


@pytest.fixture
def key(path: Path) -> str:
    return add_key(path, "reader.one")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(path: Path, key: str, clock: Clock) -> Sessions:
    return Sessions(Keys(path), SECRET, lifetime=100, clock=clock)


def test_a_cookie_identifies_the_client_of_its_key(sessions: Sessions, key: str) -> None:
    assert sessions.client(sessions.open(key)) == Client("reader.one")


def test_the_cookie_does_not_hold_the_key(sessions: Sessions, key: str) -> None:
    cookie = sessions.open(key)
    assert key not in cookie
    assert hashed(key) not in cookie


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("voxyard_session=a~1~b~c", "a~1~b~c"),
        ("other=1;  voxyard_session = a ; last=2", "a"),
        ("voxyard_session=a; voxyard_session=b", "b"),
        ("xvoxyard_session=a; voxyard_session2=b; voxyard_session", ""),
        ("other=voxyard_session", None),
        ("", None),
    ],
)
def test_the_cookie_is_found_among_others(header: str, found: str | None) -> None:
    assert session_cookie(Headers({"cookie": header})) == found


def test_no_quoted_cookie_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes seconds for a header of 30 KB, on the event loop and for clients without a key."""

    def unquote(value: str) -> str:
        assert '"' not in value
        return value

    monkeypatch.setattr("http.cookies._unquote", unquote)
    monkeypatch.setattr("starlette.requests.http_cookies._unquote", unquote)
    keys = tmp_path / "keys.yaml"
    key, quoted = add_key(keys, "reader"), {"Cookie": 'a="' + "\\" * 20 + '"'}
    with (
        running(tmp_path / "data", keys=keys) as state,
        TestClient(create_app(state), base_url="http://127.0.0.1") as client,
    ):
        given = client.post("/session", json={"key": key}).headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        assert client.get("/session", headers=quoted).json()["client"] is None
        assert client.get("/v1/documents", headers=quoted).status_code == 401
        both = {"Cookie": f"{quoted['Cookie']}; {given}"}
        assert client.get("/session", headers=both).json()["client"] == "reader"
        assert client.get("/v1/documents", headers=both).status_code == 200
        assert client.get("/v1/documents", headers=quoted | {"Authorization": f"Bearer {key}"}).status_code == 200


def test_an_unknown_key_opens_nothing(sessions: Sessions) -> None:
    with pytest.raises(UnauthorizedError, match="unknown API key"):
        sessions.open("vox_other")


def test_a_session_survives_a_restart(sessions: Sessions, path: Path, key: str, clock: Clock) -> None:
    cookie = sessions.open(key)
    assert Sessions(Keys(path), SECRET, clock=clock).client(cookie) == Client("reader.one")


def test_a_session_does_not_outlive_its_key(sessions: Sessions, path: Path, key: str) -> None:
    cookie = sessions.open(key)
    revoke_key(path, "reader.one")
    sessions._keys.refresh()
    assert sessions.client(cookie) is None
    add_key(path, "reader.one", take_over=True)
    sessions._keys.refresh()
    assert sessions.client(cookie) is None


def test_a_session_ends_with_its_time(sessions: Sessions, key: str, clock: Clock) -> None:
    cookie = sessions.open(key)
    clock.now += 99
    assert sessions.client(cookie) is not None
    clock.now += 2
    assert sessions.client(cookie) is None


def test_a_session_that_was_ended_stays_ended_and_others_go_on(sessions: Sessions, key: str) -> None:
    cookie, other = sessions.open(key), sessions.open(key)
    sessions.close(cookie)
    assert sessions.client(cookie) is None
    assert sessions.client(other) is not None


def test_closed_sessions_are_forgotten_once_they_would_have_expired(sessions: Sessions, key: str, clock: Clock) -> None:
    for _ in range(50):
        sessions.close(sessions.open(key))
        clock.now += 10
    assert len(sessions._closed) <= 11


def test_no_part_of_a_cookie_can_be_changed(sessions: Sessions, path: Path, key: str) -> None:
    add_key(path, "reader.two")
    sessions._keys.refresh()
    name, end, number, signature = sessions.open(key).split("~")
    forged = [
        ("reader.two", end, number, signature),
        (name, str(int(end) + 1), number, signature),
        (name, end, "0" * 32, signature),
        (name, end, number, "0" * 64),
        (name, end, number, signature[:-1]),
        (name, end, number, ""),
    ]
    assert [sessions.client("~".join(parts)) for parts in forged] == [None] * len(forged)


@pytest.mark.parametrize("cookie", ["", "~~~", "a~1~b~c", "x" * 10_000, "reader.one~٣~" + "0" * 32 + "~" + "0" * 64])
def test_an_invalid_cookie_has_no_client(sessions: Sessions, cookie: str) -> None:
    assert sessions.client(cookie) is None
    sessions.close(cookie)


def test_the_file_of_the_keys_alone_makes_no_cookie(sessions: Sessions, path: Path, key: str, clock: Clock) -> None:
    thief = Sessions(Keys(path), b"t" * 32, clock=clock)
    assert sessions.client(thief.open(key)) is None


def test_the_secret_alone_makes_no_cookie(sessions: Sessions, tmp_path: Path, clock: Clock) -> None:
    other = tmp_path / "other.yaml"
    write_keys(other, {"reader.one": StoredKey(hashed("mine"))})
    assert sessions.client(Sessions(Keys(other), SECRET, clock=clock).open("mine")) is None


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret"
    secret = read_secret(path)
    assert len(secret) == 32
    assert read_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_that_is_cut_off_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(StoreError, match="delete the file"):
        read_secret(tmp_path / "secret")


def test_a_full_disk_leaves_no_secret_and_the_next_start_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            read_secret(tmp_path / "secret")
    assert list(tmp_path.iterdir()) == []
    assert len(read_secret(tmp_path / "secret")) == 32


def test_a_secret_that_cannot_be_written_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreError, match="cannot be read or written"):
        read_secret(tmp_path / "data" / "secret")


def test_services_with_one_shared_secret_accept_each_others_cookies(path: Path, key: str, tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("s" * 32 + "\n")
    one, other = (Sessions(Keys(path), read_shared_secret(tmp_path / "shared")) for _ in range(2))
    assert other.client(one.open(key)) == Client("reader.one")


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("short", "5 bytes, expected at least 32")])
def test_a_shared_secret_that_is_missing_or_short_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "shared"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ServiceError, match=reason):
        read_shared_secret(path)
