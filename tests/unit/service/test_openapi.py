"""OpenAPI description and the API reference page."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from service_app import Served, serving

OPEN = {"/healthz", "/readyz", "/metrics", "/session"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("description")) as served:
        yield served


def described(served: Served) -> Any:
    return httpx.get(f"{served.url}/openapi.json").json()


def test_every_operation_has_a_summary_and_a_security_scheme(served: Served) -> None:
    for path, operations in described(served)["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            if path not in OPEN:
                assert operation["description"]
                assert {name for each in operation["security"] for name in each} == {"key", "session"}
                assert {"401", "403", "429", "500", "503"} <= set(operation["responses"])


def test_every_error_is_described_as_the_envelope_with_an_example(served: Served) -> None:
    for path, operations in described(served)["paths"].items():
        for operation in operations.values():
            assert "422" not in operation["responses"]
            for status, answer in operation["responses"].items():
                if status >= "400" and path not in OPEN:
                    content = answer["content"]["application/json"]
                    assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
                    assert content["example"]["error"]["message"]


def test_every_name_that_is_referred_to_is_there(served: Served) -> None:
    whole = described(served)

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (node["$ref"],) if isinstance(node.get("$ref"), str) else ()
            yield from (each for child in node.values() for each in references(child))
        elif isinstance(node, list):
            yield from (each for child in node for each in references(child))

    known = {f"#/components/schemas/{name}" for name in whole["components"]["schemas"]}
    assert set(references(whole)) <= known


def test_the_longest_input_is_the_settings(served: Served) -> None:
    assert described(served)["components"]["schemas"]["SpeechBody"]["properties"]["input"]["maxLength"] == 4096


def test_the_page_lists_every_operation_and_loads_nothing_from_elsewhere(served: Served) -> None:
    answer = httpx.get(f"{served.url}/docs")
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "style", "img", "iframe")
            seen.extend(value for name, value in attrs if name in ("href", "src", "style", "id") and value)

    Reader().feed(answer.text)
    ids = {operation["operationId"] for each in described(served)["paths"].values() for operation in each.values()}
    assert answer.headers["content-type"].startswith("text/html")
    assert ids <= set(seen)
    links = [each for each in seen if "/" in each]
    assert set(links) == {"/page/reference.css", "/openapi.json"}
    assert httpx.get(f"{served.url}/page/reference.css").status_code == 200


def test_the_page_of_the_service_is_served_at_its_root(served: Served) -> None:
    home = httpx.get(served.url)
    assert home.status_code == 200
    assert home.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in home.headers["content-security-policy"]
    assert httpx.get(f"{served.url}/page/page.js").status_code == 200
    assert httpx.get(f"{served.url}/page/../config.py").status_code == 404
    assert httpx.get(f"{served.url}/page/%2e%2e/config.py").status_code == 404
