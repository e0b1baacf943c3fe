"""A service behind a gateway that strips a prefix: the URLs that it tells, and whom it believes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from live_service import live
from pydantic import ValidationError
from service_app import running

from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key
from voxyard.service.config import ServiceSection
from voxyard.service.routes.home import PAGE

Ask = Callable[..., httpx.Response]


@contextmanager
def asking(folder: Path, **settings: Any) -> Iterator[Ask]:
    """Asks a service over data in `folder` on its own server."""
    with running(folder, **settings) as state, live(create_app(state), state.section) as address:
        yield lambda path, method="GET", **more: httpx.request(method, address + path, **more)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks one service without settings: a service and its worker take a CPU second to start."""
    with asking(tmp_path_factory.mktemp("service")) as ask:
        yield ask


def urls(ask: Ask, **headers: str) -> set[str]:
    """What stands before `/v1/documents/ID` wherever a document's URL is told."""
    sent = ask("/v1/documents", "POST", json={"text": "A bell rang."}, headers=headers)
    id, path = sent.json()["id"], sent.headers["Location"]
    listed = next(each for each in ask("/v1/documents", headers=headers).json()["documents"] if each["id"] == id)
    found = [path, sent.json()["audio"]["url"], listed["audio"]["url"]]
    answers = [ask(f"/v1/documents/{id}{more}", headers=headers) for more in ("", "?chunks=true")]
    found += [each.json()["audio"]["url"] for each in answers]
    events = ask(f"/v1/documents/{id}/events", headers=headers).text
    found += [part.partition('"')[0] for part in events.split('"url":"')[1:]]
    assert len(found) > 5
    return {each.partition(f"/v1/documents/{id}")[0] for each in found}


@pytest.mark.slow
def test_the_prefix_that_a_gateway_strips_is_before_every_url(ask: Ask) -> None:
    assert urls(ask, **{"X-Forwarded-Prefix": "/speech/one/"}) == {"/speech/one"}
    assert urls(ask) == {""}
    described = ask("/openapi.json", headers={"X-Forwarded-Prefix": "/speech"}).json()
    assert described["servers"] == [{"url": "/speech"}]
    assert "servers" not in ask("/openapi.json").json()


def test_the_setting_says_the_prefix_where_the_gateway_does_not(tmp_path: Path) -> None:
    with asking(tmp_path, root_path="/speech") as ask:
        assert urls(ask) == {"/speech"}
        assert urls(ask, **{"X-Forwarded-Prefix": "/other"}) == {"/other"}


@pytest.mark.parametrize(
    "prefix", ["//evil.example", "/..", "/a/../b", "evil", "/a b", "/a?b", "http://evil.example", "/" + "a" * 300, "/é"]
)
def test_what_is_no_path_is_not_believed(ask: Ask, prefix: str) -> None:
    sent = ask(
        "/v1/documents", "POST", json={"text": "A bell rang."},
        headers={b"X-Forwarded-Prefix": prefix.encode("latin-1")},
    )  # fmt: skip
    assert sent.headers["Location"] == f"/v1/documents/{sent.json()['id']}"
    with pytest.raises(ValidationError):
        ServiceSection(root_path=prefix + "//")


def test_a_stranger_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    with asking(tmp_path) as ask:
        assert urls(ask, **{"X-Forwarded-Prefix": "/speech"}) == {""}


def test_the_page_asks_below_where_it_lies() -> None:
    files = [each for each in PAGE.rglob("*") if each.suffix in (".html", ".js", ".css")]
    assert files
    for each in files:
        assert not re.search(r"""["'`(]/(v1|page|session|docs|openapi)\b""", each.read_text()), each.name


@pytest.mark.parametrize("prefix", ["/speech", "/speech/one"])
@pytest.mark.parametrize("page", ["", "/", "/docs", "/?lang=fa"])
def test_links_of_a_page_lead_below_the_prefix_also_without_a_slash_at_its_end(
    ask: Ask, prefix: str, page: str
) -> None:
    answer = ask(page or "/", headers={"X-Forwarded-Prefix": prefix})
    base = re.search(r'<base href="([^"]*)">', answer.text)
    assert ("base-uri 'self'" in answer.headers["Content-Security-Policy"]) == (base is not None)
    lies = urljoin(f"http://gateway{prefix}{page}", base[1] if base else "")
    links = [urljoin(lies, each) for each in re.findall(r'(?:href|src)="((?!data:|#)[^"]+)"', answer.text)]
    assert len(links) > 3
    for link in links:
        assert link.startswith(f"http://gateway{prefix}/")
        assert ask(link.removeprefix(f"http://gateway{prefix}")).status_code == 200


def test_a_session_is_the_prefix_s_alone(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.yaml", "anna")
    with asking(tmp_path, keys=tmp_path / "keys.yaml") as ask:
        for prefix, path in (("/speech", "/speech"), ("", "/")):
            opened = ask("/session", "POST", json={"key": key}, headers={"X-Forwarded-Prefix": prefix})
            assert f"; Path={path};" in opened.headers["Set-Cookie"]
