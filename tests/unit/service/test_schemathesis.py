"""The OpenAPI description holds for whatever schemathesis makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from service_app import running, whole_app

from voxyard.service.auth.api_keys import add_key
from voxyard.service.documents.submission import DocumentRequest, new_document
from voxyard.service.errors import NotFoundError
from voxyard.service.state import AppState
from voxyard.service.voice_names import open_voices

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppState]:
    folder = tmp_path_factory.mktemp("schemathesis")
    (folder / "key").write_text(add_key(folder / "keys.yaml", "schemathesis"))
    with running(folder, engine={"samples": 24}, keys=folder / "keys.yaml", rate_limit=0) as state:
        yield state


@pytest.fixture(scope="module")
def interface(state: AppState) -> Any:
    found = schemathesis.openapi.from_asgi("/openapi.json", whole_app(state))
    key = (state.section.data_dir / "key").read_text()
    found.config.update(headers={"Authorization": f"Bearer {key}"})
    return found


@pytest.fixture(scope="module")
def document(state: AppState) -> Callable[[], str]:
    """The id of a document that there is: the last one, or another where that was deleted."""
    known = [""]

    def one() -> str:
        try:
            state.store.document(known[0])
        except NotFoundError:
            request = DocumentRequest("A text that is spoken. It has two sentences.")
            new = new_document(
                request, state.frontend, open_voices(state.frontend, None),
                owner="schemathesis", now=time.time(), section=state.section,
            )  # fmt: skip
            known[0] = state.queue.accept(new)[0].id
        return known[0]

    return one


OPERATIONS = [
    "POST /v1/audio/speech",
    "POST /v1/documents",
    "GET /v1/documents",
    "GET /v1/documents/{id}",
    "DELETE /v1/documents/{id}",
    "GET /v1/documents/{id}/events",
    "GET /v1/documents/{id}/audio",
    "POST /v1/documents/{id}/retry",
    "GET /v1/models",
    "GET /v1/models/{model}",
    "GET /v1/audio/voices",
    "GET /v1/workers",
    "GET /session",
    "POST /session",
    "DELETE /session",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
]


def test_every_operation_is_tried(interface: Any) -> None:
    found = [result.ok() for result in interface.get_all_operations()]
    assert sorted(f"{each.method.upper()} {each.path}" for each in found) == sorted(OPERATIONS)


NOTHING_TO_GET_WRONG = {name for name in OPERATIONS if name.split("/")[1] != "v1" and name != "POST /session"} | {
    "GET /v1/models",
    "GET /v1/models/{model}",
    "GET /v1/audio/voices",
    "GET /v1/workers",
}


def check(interface: Any, name: str, mode: schemathesis.GenerationMode, document: Callable[[], str]) -> None:
    """Ask for an operation in many ways; half of the questions about documents are about one that there is."""
    method, path = name.split(" ")
    operation = interface[path][method]

    @hypothesis.seed(5)
    @hypothesis.settings(
        max_examples=20, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    def holds(case: schemathesis.Case[Any], real: bool) -> None:
        if real and "{id}" in path:
            case.path_parameters["id"] = document()
        excluded: list[Any] = [negative_data_rejection] if real else []
        case.call_and_validate(checks=CHECKS, excluded_checks=excluded)

    holds()


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_is_one_that_is_described(interface: Any, document: Callable[[], str], name: str) -> None:
    check(interface, name, schemathesis.GenerationMode.POSITIVE, document)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NOTHING_TO_GET_WRONG])
def test_what_is_wrong_is_refused_as_described(interface: Any, document: Callable[[], str], name: str) -> None:
    check(interface, name, schemathesis.GenerationMode.NEGATIVE, document)
