"""OpenAPI description and the API reference page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from fastapi.params import Depends
from service_app import Served, serving

from voxyard.service.routes import inputs

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
            assert (path in OPEN) == ("security" not in operation)
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


def test_the_reference_loads_swagger_ui_from_here_alone(served: Served) -> None:
    answer = httpx.get(f"{served.url}/docs")
    loaded: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            loaded.extend(value for name, value in attrs if name in ("href", "src") and value)

    Reader().feed(answer.text)
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src" not in answer.headers["content-security-policy"]  # so that of default-src counts
    assert "default-src 'self';" in answer.headers["content-security-policy"]
    assert set(loaded) == {
        "data:,", "page/swagger-ui.css", "page/swagger-ui-bundle.js", "page/reference.js", "openapi.json",
    }  # fmt: skip
    for path, kind in (("swagger-ui.css", "text/css"), ("swagger-ui-bundle.js", "text/javascript"),
                       ("reference.js", "text/javascript")):  # fmt: skip
        file = httpx.get(f"{served.url}/page/{path}")
        assert (file.status_code, file.headers["content-type"].partition(";")[0]) == (200, kind)
    assert httpx.get(f"{served.url}/page/swagger-ui/../main.py").status_code == 404


def test_the_page_of_the_service_is_served_at_its_root(served: Served) -> None:
    home = httpx.get(served.url)
    assert home.status_code == 200
    assert home.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in home.headers["content-security-policy"]
    assert httpx.get(f"{served.url}/page/page.js").status_code == 200
    assert httpx.get(f"{served.url}/page/../config.py").status_code == 404
    assert httpx.get(f"{served.url}/page/%2e%2e/config.py").status_code == 404


def test_dependencies_of_the_endpoints_take_no_thread() -> None:
    found = [
        metadata.dependency
        for annotated in vars(inputs).values()
        for metadata in getattr(annotated, "__metadata__", ())
        if isinstance(metadata, Depends)
    ]
    assert len(found) == 3
    assert [each for each in found if not inspect.iscoroutinefunction(each)] == []
