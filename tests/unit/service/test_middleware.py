"""Admission and observability middleware, error responses and session routes, around a small application."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import httpx
import pytest
from eventually import PATIENCE, eventually
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.testclient import TestClient
from live_service import live
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, Field
from service_app import quiet
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from voxyard.service.app import install
from voxyard.service.auth import api_keys
from voxyard.service.auth.api_keys import COOKIE, Client, StoredKey, add_key, hashed, revoke_key
from voxyard.service.config import ServiceSection
from voxyard.service.documents.claims import SharedDocuments
from voxyard.service.errors import BusyError, NotFoundError, StoreError, StoreUnavailableError
from voxyard.service.http.admission import is_loopback
from voxyard.service.http.errors import ConnectionCut
from voxyard.service.http.metrics import DiskUsage, ServiceMetrics
from voxyard.service.http.observability import ObservabilityMiddleware
from voxyard.service.http.rate_limit import RateLimiter
from voxyard.service.routes.inputs import authenticated

LOCAL = "http://127.0.0.1"


class Word(BaseModel):
    word: str
    count: Annotated[int, Field(ge=1, le=3)] = 1


def application() -> FastAPI:
    """Routes that do what the service's do, and what they should not."""
    app = FastAPI()
    router = APIRouter(dependencies=[Depends(authenticated)])

    @router.get("/documents/{id}")
    def document(id: str, client: Annotated[Client, Depends(authenticated)]) -> dict[str, str]:
        return {"id": id, "client": client.name}

    @router.post("/words")
    def words(word: Word) -> Word:
        return word

    @router.delete("/documents/{id}", status_code=204)
    def delete(id: str) -> None:
        pass

    @router.post("/documents")
    async def upload(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @router.get("/fails/{how}")
    def fails(how: str) -> None:
        raise {
            "surrogate": NotFoundError("there is no voice \ud800"),
            "busy": BusyError("come again", retry_after=2.3),
            "missing": NotFoundError("there is no such voice", parameter="voice"),
            "store": StoreError("the store is gone"),
            "bug": ValueError("a secret in a trace"),
        }[how]

    @router.get("/stream")
    async def stream(error: str = "") -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one "
            if error:
                raise {"cut": ConnectionCut("no more"), "service": StoreError("gone"), "bug": ValueError("hm")}[error]
            yield b"two"

        return StreamingResponse(pieces(), media_type="audio/mpeg")

    app.include_router(router, prefix="/v1")
    return app


class Setting:
    """An application with its middleware, and what the tests look at."""

    opened = ExitStack()  # of a test

    def __init__(self, path: Path, *, keys: bool = True, **settings: Any) -> None:
        self.registry = CollectorRegistry()
        self.keys = path / "keys.yaml"
        self.key = add_key(self.keys, "reader") if keys else ""
        self.ready: tuple[bool, str] = (True, "1 worker has its model loaded")
        self.shared = SharedDocuments(True, 1, {"gpu-02": 3})
        self.documents: Callable[[], Mapping[str, int]] = lambda: {"pending": 2}
        self.shelf: Callable[[], bool] = lambda: True
        self.app = application()
        section = ServiceSection(data_dir=path / "data", keys=self.keys if keys else None, **settings)
        self.state = state = self.opened.enter_context(quiet(section))
        self.opened.enter_context(patch("voxyard.service.routes.operations.readiness", lambda *_: self.ready))
        state.registry, state.metrics = self.registry, self.metrics()
        install(self.app, state)

    def metrics(self) -> ServiceMetrics:
        return ServiceMetrics(
            self.registry,
            documents=lambda: self.documents(),  # noqa: PLW0108 (a test sets another)
            disk=lambda: DiskUsage(7, 100, 93),
            shelf=lambda: self.shelf(),  # noqa: PLW0108
            shared=lambda: self.shared,
        )

    def client(self, *, key: bool = True) -> TestClient:
        headers = {"Authorization": f"Bearer {self.key}"} if key and self.key else {}
        return TestClient(self.app, base_url=LOCAL, headers=headers, raise_server_exceptions=False)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with ExitStack() as Setting.opened:
        yield


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


@pytest.fixture
def client(setting: Setting) -> Iterator[TestClient]:
    with setting.client() as client:
        yield client


def error_of(response: Any) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return dict(body["error"])


# -- admission ----------------------------------------------------------------------------------------------


def test_a_known_key_admits_its_client(client: TestClient) -> None:
    assert client.get("/v1/documents/7").json() == {"id": "7", "client": "reader"}


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer vox_other", "Basic cmVhZGVyOng=", "bearer\tx", "Bearer " + "x" * 5000],
)
def test_without_a_known_key_a_request_is_refused(setting: Setting, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = setting.client(key=False).get("/v1/documents/7", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert (error_of(response)["type"], error_of(response)["code"]) == ("authentication_error", "invalid_api_key")


def test_the_scheme_may_be_written_in_any_case(setting: Setting) -> None:
    headers = {"Authorization": f"bearer {setting.key}"}
    assert setting.client(key=False).get("/v1/documents/7", headers=headers).status_code == 200


def test_a_revoked_key_is_refused_at_once(setting: Setting, client: TestClient) -> None:
    assert client.get("/v1/documents/7").status_code == 200
    revoke_key(setting.keys, "reader")
    assert client.get("/v1/documents/7").status_code == 401


def test_a_long_key_file_is_read_beside_the_requests(
    setting: Setting, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key is admitted meanwhile; the new ones count once the file is read."""
    going, read = threading.Event(), api_keys.read_keys

    def slowly(path: Path) -> dict[str, StoredKey]:
        assert threading.current_thread() is not loop[0]
        assert going.wait(PATIENCE)
        return read(path)

    loop: list[threading.Thread] = []

    @setting.app.get("/thread")
    async def thread() -> None:
        loop.append(threading.current_thread())

    client.get("/thread")
    monkeypatch.setattr(api_keys, "read_keys", slowly)
    setting.keys.write_text(f"other: {hashed('x')}\n")
    for _ in range(3):
        assert client.get("/v1/documents/7").status_code == 200
    going.set()
    eventually(lambda: client.get("/v1/documents/7").status_code == 401, "the new keys count")


def test_an_unknown_path_is_401_without_a_key(setting: Setting) -> None:
    assert setting.client(key=False).get("/v1/nothing").status_code == 401
    assert setting.client().get("/v1/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/session"])
def test_public_paths_need_no_key(setting: Setting, path: str) -> None:
    assert setting.client(key=False).get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["//v1/documents/7", "/page/../v1/documents/7", "/healthz/../v1/documents/7", "/Healthz"]
)
def test_paths_similar_to_a_public_path_are_not_public(setting: Setting, path: str) -> None:
    transport = httpx.ASGITransport(setting.app)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
            request = client.build_request("GET", LOCAL)
            request.url = request.url.copy_with(raw_path=path.encode())
            return await client.send(request)

    assert asyncio.run(ask()).status_code in (401, 404)


@pytest.mark.parametrize("path", ["/page", "/pages", "/page-secret", "/healthz/more", "/session/all"])
def test_a_path_with_a_public_prefix_is_not_public(setting: Setting, path: str) -> None:
    assert setting.client(key=False).get(path).status_code == 401


def test_a_route_that_needs_a_client_is_refused_on_a_public_path(tmp_path: Path) -> None:
    setting = Setting(tmp_path)

    @setting.app.get("/page/mistake", dependencies=[Depends(authenticated)])
    def mistake() -> str:
        return "open by mistake"

    assert setting.client(key=False).get("/page/mistake").status_code == 401


# -- sessions ------------------------------------------------------------------------------------------------


def test_the_page_exchanges_a_key_for_a_cookie_and_reads_with_it(setting: Setting) -> None:
    page = setting.client(key=False)
    assert page.get("/session").json() == {"key_needed": True, "client": None}
    response = page.post("/session", json={"key": setting.key})
    assert response.status_code == 204
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert response.headers["cache-control"] == "no-store"
    assert page.get("/v1/documents/7").json()["client"] == "reader"
    assert page.get("/session").json() == {"key_needed": True, "client": "reader"}


def test_over_https_the_cookie_stays_on_https(setting: Setting) -> None:
    page = TestClient(setting.app, base_url="https://127.0.0.1")
    assert "secure" in page.post("/session", json={"key": setting.key}).headers["set-cookie"].lower()


def test_a_change_by_cookie_needs_the_pages_header(setting: Setting) -> None:
    page = setting.client(key=False)
    page.post("/session", json={"key": setting.key})
    assert page.delete("/v1/documents/7").status_code == 403
    assert page.delete("/v1/documents/7", headers={"X-Voxyard-Page": "1"}).status_code == 204


def test_a_session_that_is_ended_is_over_for_copies_of_its_cookie(setting: Setting) -> None:
    page = setting.client(key=False)
    page.post("/session", json={"key": setting.key})
    copy = page.cookies[COOKIE]
    assert page.delete("/session").status_code == 204
    assert COOKIE not in page.cookies
    thief = setting.client(key=False)
    thief.cookies.set(COOKIE, copy)
    assert thief.get("/v1/documents/7").status_code == 401


def test_a_wrong_key_begins_no_session(setting: Setting) -> None:
    response = setting.client(key=False).post("/session", json={"key": "vox_wrong"})
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
    assert error_of(response)["param"] == "key"


def test_without_keys_a_session_is_not_needed(tmp_path: Path) -> None:
    page = Setting(tmp_path, keys=False).client()
    assert page.get("/session").json() == {"key_needed": False, "client": None}
    assert page.post("/session", json={"key": "any"}).status_code == 204
    assert page.delete("/session").status_code == 204
    assert page.get("/v1/documents/7").json() == {"id": "7", "client": ""}


# -- foreign pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "192.0.2.1", "", "[", "a b"]
)
def test_without_keys_a_foreign_name_for_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    client = Setting(tmp_path, keys=False).client()
    for path in ("/v1/documents/7", "/metrics"):
        response = client.get(path, headers={"Host": host})
        assert response.status_code == 403
        assert "voxyard keys new" in error_of(response)["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:8080", "127.0.0.5", "[::1]:8080", "voxyard.localhost"]
)
def test_without_keys_this_machines_own_names_are_taken(tmp_path: Path, host: str) -> None:
    assert Setting(tmp_path, keys=False).client().get("/v1/documents/7", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Origin": LOCAL}, 204),
        ({"Origin": LOCAL, "Sec-Fetch-Site": "same-origin"}, 204),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example", "X-Voxyard-Page": "1"}, 204),
        ({"Origin": "http://friend.example", "Sec-Fetch-Site": "cross-site"}, 204),
    ],
)
def test_without_keys_a_foreign_page_changes_nothing(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    client = Setting(tmp_path, keys=False, allowed_origins="http://friend.example").client()
    assert client.delete("/v1/documents/7", headers=headers).status_code == status


@pytest.mark.parametrize("allowed", ["*", "HTTP://Friend.example/"])
@pytest.mark.parametrize(
    "origin", ["http://friend.example", "app://obsidian.md", "chrome-extension://abc", "null"]
)  # nikdanilov/whisper-obsidian-plugin#49, rsxdalv/TTS-WebUI#591
def test_any_origin_may_be_allowed_also_without_keys(tmp_path: Path, allowed: str, origin: str) -> None:
    client, friend = Setting(tmp_path, keys=False, allowed_origins=allowed).client(), origin.startswith("http:")
    response = client.delete("/v1/documents/7", headers={"Origin": origin, "Sec-Fetch-Site": "cross-site"})
    assert response.status_code == (204 if friend or allowed == "*" else 403)
    assert ("access-control-allow-origin" in response.headers) == (friend or allowed == "*")


def test_any_origin_begins_no_session(tmp_path: Path) -> None:
    setting = Setting(tmp_path, allowed_origins="*")
    client = setting.client(key=False)
    foreign = client.post("/session", json={"key": setting.key}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_a_foreign_page_begins_no_session(setting: Setting) -> None:
    response = setting.client(key=False).post(
        "/session", json={"key": setting.key}, headers={"Origin": "http://evil.example"}
    )
    assert response.status_code == 403


def test_other_origins_may_not_read_unless_they_are_named(setting: Setting, tmp_path: Path) -> None:
    origin = {"Origin": "https://friend.example"}
    assert "access-control-allow-origin" not in setting.client().get("/v1/documents/7", headers=origin).headers
    (tmp_path / "b").mkdir()
    open_setting = Setting(tmp_path / "b", allowed_origins="https://friend.example, https://other.example")
    client = open_setting.client()
    for path in ("/v1/documents/7", "/v1/fails/missing"):
        assert client.get(path, headers=origin).headers["access-control-allow-origin"] == origin["Origin"]
    refused = open_setting.client(key=False).get("/v1/documents/7", headers=origin)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin["Origin"])
    stranger = client.get("/v1/documents/7", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in stranger.headers


@pytest.mark.parametrize(
    "headers",
    [
        "authorization,idempotency-key",
        "authorization,content-type,openai-organization,openai-project,x-stainless-arch,x-stainless-lang,x-stainless-os,"
        "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,"
        "x-stainless-timeout",  # OpenAI's client in a page
    ],
)
def test_a_named_origin_may_ask_what_it_may_send(tmp_path: Path, headers: str) -> None:
    client = Setting(tmp_path, allowed_origins="https://friend.example").client(key=False)
    asked = {
        "Origin": "https://friend.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": headers,
    }
    response = client.options("/v1/documents", headers=asked)
    assert response.status_code == 200
    local = client.options("/v1/documents", headers={**asked, "Access-Control-Request-Private-Network": "true"})
    assert (local.status_code, local.headers["access-control-allow-private-network"]) == (200, "true")
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("example.org", False),
    ],
)
def test_loopback_names_and_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


# -- limits --------------------------------------------------------------------------------------------------


def test_a_client_over_its_rate_limit_gets_retry_after(tmp_path: Path) -> None:
    setting = Setting(tmp_path, rate_limit=2)
    client = setting.client()
    answers = [client.get("/v1/documents/7") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert error_of(answers[2])["type"] == "rate_limit_error"
    assert client.get("/healthz").status_code == 200
    other = add_key(setting.keys, "other")
    assert client.get("/v1/documents/7", headers={"Authorization": f"Bearer {other}"}).status_code == 200


def test_refusals_of_a_key_over_its_rate_are_kept_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting, paused, slept = Setting(tmp_path, rate_limit=1), [], list[float]()

    def pause(limiter: RateLimiter, name: str) -> float:
        paused.append(name)
        return 0.01 * len(paused)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(RateLimiter, "pause", pause)
    monkeypatch.setattr("voxyard.service.http.admission.anyio.sleep", sleep)
    answers = [setting.client().get("/v1/documents/7").status_code for _ in range(3)]
    assert (answers, len(set(paused)), slept) == ([200, 429, 429], 1, [0.01, 0.02])


def test_too_many_requests_at_a_time_are_refused_and_health_is_not(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.http.admission.MAX_IN_FLIGHT", 0)
    response = setting.client().get("/v1/documents/7")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert setting.client().get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_thousand_requests_are_in_flight_at_a_time_and_no_more(tmp_path: Path) -> None:
    setting, waiting, over = Setting(tmp_path, rate_limit=0), [], asyncio.Event()

    @setting.app.get("/v1/long")
    async def long() -> None:
        waiting.append(1)
        await over.wait()

    async def ask() -> tuple[list[int], httpx.Response, int]:
        headers = {"Authorization": f"Bearer {setting.key}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(setting.app), base_url=LOCAL, headers=headers
        ) as client:
            asked = [asyncio.create_task(client.get("/v1/long")) for _ in range(1000)]
            while len(waiting) < 1000 and not any(task.done() for task in asked):
                await asyncio.sleep(0.01)
            refused = await client.get("/v1/documents/7")
            over.set()
            answers = await asyncio.gather(*asked)
            afterwards = await client.get("/v1/documents/7")
        return [answer.status_code for answer in answers], refused, afterwards.status_code

    statuses, refused, afterwards = asyncio.run(ask())
    assert statuses == [200] * 1000
    assert (refused.status_code, afterwards) == (503, 200)
    assert error_of(refused)["message"] == "1000 of 1000 requests in flight: retry in 1 s"


def test_an_upload_may_be_as_large_as_the_setting_says_and_no_larger(tmp_path: Path) -> None:
    client = Setting(tmp_path, max_upload_mib=1).client()
    assert client.post("/v1/documents", content=b"x" * (1 << 20)).json() == {"bytes": 1 << 20}
    response = client.post("/v1/documents", content=b"x" * (2 << 20))
    assert (response.status_code, error_of(response)["code"]) == (413, "too_large")
    assert "1 MiB" in error_of(response)["message"]


def test_other_bodies_are_held_to_less(tmp_path: Path) -> None:
    client = Setting(tmp_path, max_input=1000).client()
    assert client.post("/v1/words", json={"word": "x" * 12_000}).status_code == 200
    assert client.post("/v1/words", json={"word": "x" * 200_000}).status_code == 413


# -- errors --------------------------------------------------------------------------------------------------


def test_a_service_error_has_its_status_code_and_message(client: TestClient) -> None:
    missing = client.get("/v1/fails/missing")
    assert missing.status_code == 404
    assert error_of(missing) == {
        "message": "there is no such voice",
        "type": "invalid_request_error",
        "param": "voice",
        "code": "not_found",
    }
    busy = client.get("/v1/fails/busy")
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "3")
    assert client.get("/v1/fails/store").status_code == 500


def test_half_a_character_in_a_message_does_not_break_the_answer(client: TestClient) -> None:
    response = client.get("/v1/fails/surrogate")
    assert response.status_code == 404
    assert error_of(response)["message"] == "there is no voice ?"


def test_an_internal_error_hides_its_details_from_the_client_and_logs_them(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get("/v1/fails/bug", headers={"X-Request-Id": "look.here"})
    assert response.status_code == 500
    assert error_of(response)["type"] == "server_error"
    assert "look.here" in error_of(response)["message"]
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "a secret in a trace" in str(record.exc_info and record.exc_info[1])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/v1/nothing", 404, "not_found"), ("PUT", "/v1/words", 405, "method_not_allowed"),
     ("BREW", "/v1/words", 405, "method_not_allowed"), ("GET", "/v1/documents/7/8", 404, "not_found")],
)  # fmt: skip
def test_unknown_paths_and_methods_are_answered_in_the_envelope(
    client: TestClient, method: str, path: str, status: int, code: str
) -> None:
    response = client.request(method, path)
    assert (response.status_code, error_of(response)["code"]) == (status, code)
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"count": 1}, "word"),
        ({"word": "a", "count": 9}, "count"),
        ({"word": ["x" * 5000], "count": "y"}, "word"),
        ([], None),
        (None, None),
    ],
)
def test_a_wrong_request_is_400_and_names_the_field(client: TestClient, body: object, param: str | None) -> None:
    response = client.post("/v1/words", json=body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert error_of(response)["type"] == "invalid_request_error"
    assert "xxx" not in response.text


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 50_000, b'{"word": NaN}'])
def test_invalid_json_is_400(client: TestClient, content: bytes) -> None:
    response = client.post("/v1/words", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)["message"]


# -- what every answer has -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/documents/7", "/v1/fails/bug", "/v1/nothing", "/healthz", "/v1/stream"])
def test_every_answer_has_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_responses_to_a_client_are_not_cached_by_proxies(client: TestClient) -> None:
    assert "private" in client.get("/v1/documents/7").headers["cache-control"]


@pytest.mark.parametrize("given", ["abc", "A.b_c-9", "x" * 64])
def test_a_request_id_comes_back(client: TestClient, given: str) -> None:
    assert client.get("/v1/documents/7", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", 'a"b', "a/b", "a{b"])
def test_a_request_id_that_could_do_harm_is_replaced(client: TestClient, given: str) -> None:
    found = client.get("/v1/documents/7", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert found != given
    assert len(found) == 32


def test_every_request_has_one_line_without_its_query(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "voxyard")
    client.get("/v1/documents/7?token=hidden", headers={"X-Request-Id": "r1"})
    client.get("/v1/nothing")
    client.get("/healthz")
    found = [record.__dict__ for record in caplog.records if record.name == "voxyard.service.requests"]
    assert [(line["path"], line["status"]) for line in found] == [
        ("/v1/documents/7", 200),
        ("/v1/nothing", 404),
        ("/healthz", 200),
    ]
    assert (found[0]["request_id"], found[0]["client"], found[0]["method"]) == ("r1", "reader", "GET")
    assert found[0]["bytes"] == len(b'{"id":"7","client":"reader"}')
    assert found[0]["seconds"] > 0
    assert "hidden" not in str(found)
    assert found[2]["levelno"] == logging.DEBUG


# -- health and metrics --------------------------------------------------------------------------------------


def test_readyz_gives_the_reason(setting: Setting, client: TestClient) -> None:
    assert client.get("/readyz").json() == {"status": "1 worker has its model loaded"}
    setting.ready = (False, "no worker has its model loaded yet")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert error_of(response)["message"] == "no worker has its model loaded yet"
    assert client.get("/healthz").status_code == 200


def test_requests_are_counted_by_their_routes_template(setting: Setting, client: TestClient) -> None:
    for path in ("/v1/documents/7", "/v1/documents/8", "/v1/fails/bug", "/v1/nothing/a", "/v1/nothing/b"):
        client.get(path)
    name = "voxyard_service_requests_total"
    assert setting.metric(name, route="/v1/documents/{id}", method="GET", status="200") == 2
    assert setting.metric(name, route="/v1/fails/{how}", method="GET", status="500") == 1
    assert setting.metric(name, route="unmatched", method="GET", status="404") == 2
    assert setting.metric("voxyard_service_request_duration_seconds_count", route="/v1/documents/{id}") == 2


def test_an_invented_method_makes_no_metric_of_its_own(setting: Setting, client: TestClient) -> None:
    for method in ("BREW", "XYZ"):
        client.request(method, "/v1/nothing")
    name = "voxyard_service_requests_total"
    assert setting.metric(name, route="unmatched", method="other", status="404") == 2


def test_nothing_is_in_flight_when_all_is_answered(setting: Setting, client: TestClient) -> None:
    for path in ("/v1/documents/7", "/v1/fails/bug", "/v1/stream", "/v1/stream?error=bug"):
        client.get(path)
    assert setting.metric("voxyard_service_in_flight") == 0


def test_metrics_have_documents_and_disk_usage(setting: Setting, client: TestClient) -> None:
    text = client.get("/metrics").text
    for line in (
        'voxyard_service_documents{state="pending"} 2.0',
        'voxyard_service_documents{state="failed"} 0.0',
        "voxyard_service_audio_bytes 7.0",
        "voxyard_service_audio_quota_bytes 100.0",
        "voxyard_service_audio_free_bytes 93.0",
        "voxyard_service_store_up 1.0",
        "voxyard_service_claims 1.0",
        'voxyard_service_claims_ran_out_total{owner="gpu-02"} 3.0',
        "voxyard_service_in_flight 1.0",
    ):
        assert line in text


def test_a_store_that_cannot_be_read_takes_only_its_own_metric_away(
    setting: Setting, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> dict[str, int]:
        raise StoreError("gone")

    setting.documents = broken
    text = client.get("/metrics").text
    assert "voxyard_service_documents{" not in text
    assert "voxyard_service_audio_bytes" in text
    assert "cannot count the documents" in caplog.text


def test_a_scrape_waits_for_no_table_that_is_locked(setting: Setting, client: TestClient) -> None:
    """The documents are counted once, however often they are asked for, and come back with the lock's end."""
    locked, asked = threading.Event(), list[int]()

    def count() -> dict[str, int]:
        asked.append(1)
        assert locked.wait(PATIENCE)
        return {"pending": 5}

    setting.documents = count
    for _ in range(2):
        text = client.get("/metrics").text
        assert "voxyard_service_documents{" not in text
        assert "voxyard_service_audio_bytes" in text
    assert asked == [1]
    locked.set()
    eventually(lambda: 'voxyard_service_documents{state="pending"} 5.0' in client.get("/metrics").text, "it is there")


def unreachable() -> bool:
    raise StoreUnavailableError("the audio files cannot be reached now: retry in 5 s")


def unmounted() -> bool:
    raise StoreError("audio cannot be read: Stale file handle")


@pytest.mark.parametrize("shelf", [unreachable, unmounted, lambda: False], ids=["away", "broken", "another place"])
def test_a_shelf_that_does_not_answer_is_told(shelf: Callable[[], bool], setting: Setting, client: TestClient) -> None:
    assert "voxyard_service_shelf_up 1.0" in client.get("/metrics").text
    setting.shelf, setting.shared = shelf, SharedDocuments(False, 2, {})  # whatever the database does
    assert "voxyard_service_shelf_up 0.0" in client.get("/metrics").text


def test_a_shelf_that_hangs_is_told_and_asked_once(setting: Setting, client: TestClient) -> None:
    goes_on, asked = threading.Event(), list[int]()

    def hang() -> bool:
        asked.append(1)
        return goes_on.wait(PATIENCE)

    setting.shelf = hang
    for _ in range(2):
        assert "voxyard_service_shelf_up 0.0" in client.get("/metrics").text
    assert asked == [1]
    goes_on.set()
    eventually(lambda: "voxyard_service_shelf_up 1.0" in client.get("/metrics").text, "it is told that it answers")


@pytest.mark.parametrize("path", ["/v1/documents/a%00b", "/v1/documents/7?before=a%00b"])
def test_a_zero_byte_in_a_path_is_refused(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 400
    assert "zero byte" in error_of(response)["message"]


def test_a_database_that_does_not_answer_is_not_asked_by_a_scrape(setting: Setting, client: TestClient) -> None:
    setting.documents = lambda: pytest.fail("asked")
    setting.shared = SharedDocuments(False, 2, {}, transactions=7, seconds=3.5)
    text = client.get("/metrics").text
    assert "voxyard_service_store_up 0.0" in text
    assert "voxyard_service_claims 2.0" in text
    assert "voxyard_service_store_transactions_total 7.0" in text
    assert "voxyard_service_store_seconds_total 3.5" in text
    assert "voxyard_service_audio_bytes" not in text


def test_metrics_come_in_openmetrics_when_asked(client: TestClient) -> None:
    response = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_metrics_come_in_plain_text_where_an_accepted_version_cannot_be_read(client: TestClient) -> None:
    response = client.get("/metrics", headers={"Accept": "text/plain;version=v1"})
    assert (response.status_code, response.headers["content-type"][:10]) == (200, "text/plain")


# -- streams, over a real socket -----------------------------------------------------------------------------


def test_a_stream_ends_where_its_key_is_revoked(setting: Setting) -> None:
    """With what is sent next; a new key of the same name is another one."""
    revoked = threading.Event()

    @setting.app.get("/v1/long")
    def long() -> StreamingResponse:
        def pieces() -> Iterator[bytes]:
            yield b"one"
            assert revoked.wait(PATIENCE)
            yield b"two"

        return StreamingResponse(pieces())

    headers = {"Authorization": f"Bearer {setting.key}"}
    with (
        live(setting.app, setting.state.section) as address,
        httpx.stream("GET", f"{address}/v1/long", headers=headers) as response,
    ):
        received = response.iter_raw()
        assert next(received) == b"one"
        revoke_key(setting.keys, "reader")
        add_key(setting.keys, "reader", take_over=True)
        revoked.set()
        with pytest.raises(httpx.RemoteProtocolError):
            list(received)


def test_a_stream_comes_through_whole(setting: Setting) -> None:
    with live(setting.app, setting.state.section) as address:
        headers = {"Authorization": f"Bearer {setting.key}"}
        assert httpx.get(f"{address}/v1/stream", headers=headers).text == "one two"


@pytest.mark.parametrize(("error", "trace"), [("cut", False), ("service", False), ("bug", True)])
def test_a_stream_that_fails_midway_is_cut_and_does_not_look_whole(
    setting: Setting, caplog: pytest.LogCaptureFixture, error: str, trace: bool
) -> None:
    with (
        live(setting.app, setting.state.section) as address,
        httpx.stream(
            "GET", f"{address}/v1/stream", params={"error": error}, headers={"Authorization": f"Bearer {setting.key}"}
        ) as response,
    ):
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            response.read()
    told = [record for record in caplog.records if record.name.startswith("voxyard")]
    assert any("request cut" in record.message for record in told)
    assert any(record.exc_info for record in told) is trace
    assert setting.metric("voxyard_service_in_flight") == 0
    assert json.dumps([record.message for record in told])


def test_a_long_body_lets_other_requests_have_their_turn_although_its_client_reads_at_once(setting: Setting) -> None:
    blocks, turns = 50, 0

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for at in range(blocks):
            await send({"type": "http.response.body", "body": b"block", "more_body": at + 1 < blocks})

    async def reads_at_once(message: Message) -> None:
        pass

    async def asks_no_more() -> Message:
        await asyncio.Event().wait()
        return {}

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def answered() -> int:
        other = asyncio.create_task(others())
        scope = {"type": "http", "method": "GET", "path": "/v1/long", "headers": [], "state": {}}
        await ObservabilityMiddleware(long, setting.state.metrics)(scope, asks_no_more, reads_at_once)
        other.cancel()
        return turns

    assert asyncio.run(answered()) >= blocks - 1
