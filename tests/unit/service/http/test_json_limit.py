"""JSON limit: names and values are counted in the bytes, however they come, and refused before anything is built."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from service_app import running

from voxyard.service.app import create_app
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError, TooLargeError
from voxyard.service.http.body_limit import MOST_DEPTH, MOST_VALUES, JsonLimit, check_json

JSON = {"Content-Type": "application/json"}
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.text('a\\"[]{},:é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\"]'), inner),
    max_leaves=30,
)


def counted(value: object) -> int:
    """Names and values of a value, but for the value itself; an empty list or object counts as one more."""
    if isinstance(value, dict):
        return max(1, 2 * len(value)) + sum(counted(each) for each in value.values())
    return max(1, len(value)) + sum(map(counted, value)) if isinstance(value, list) else 0


def taken(pieces: list[bytes], values: int) -> bool:
    limit = JsonLimit(values=values, depth=1000)
    try:
        for piece in pieces:
            limit.count(piece)
    except TooLargeError:
        return False
    return True


@given(value=VALUES, step=st.integers(1, 9), escaped=st.booleans())
def test_what_is_counted_is_what_would_be_built_wherever_the_text_is_cut(
    value: object, step: int, escaped: bool
) -> None:
    text = json.dumps(value, ensure_ascii=escaped).encode()
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    assert taken(pieces, counted(value))
    assert not counted(value) or not taken(pieces, counted(value) - 1)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_text_may_be_nested_so_deeply_and_no_deeper(opening: bytes) -> None:
    check_json(opening * MOST_DEPTH)
    with pytest.raises(ServiceError, match=f"nested more than {MOST_DEPTH} deep"):
        check_json(opening * (MOST_DEPTH + 1))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_a_text_that_is_not_in_utf_8_is_refused(encoding: str) -> None:
    with pytest.raises(ServiceError, match="expected UTF-8"):
        check_json('{"text": "x"}'.encode(encoding))


MANY = '{"text": "A night.", "x": [' + '{"":0},' * (MOST_VALUES // 3) + "0]}"
ROUTES = ["/v1/documents", "/v1/audio/voices", "/v1/audio/speech", "/v1/audio/script", "/session"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a service at its shipped limits."""
    with running(tmp_path_factory.mktemp("json")) as state:
        yield TestClient(create_app(state), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *((path, "application/json") for path in ROUTES),
        ("/v1/documents", "Application/JSON; charset=utf-8"),
        ("/v1/audio/speech", "application/vnd.api+json"),
    ],
)
def test_every_route_refuses_many_values_and_deep_ones(client: TestClient, path: str, kind: str) -> None:
    for body in (MANY, "[" * 100_000):
        answer = client.post(path, content=body, headers={"Content-Type": kind})
        error: dict[str, Any] = answer.json()["error"]
        assert answer.status_code in (400, 413), answer.text
        assert error["message"].startswith(("JSON body ", "body larger")), error


def test_the_longest_document_of_the_most_chapters_is_within_the_limit() -> None:
    lexicon = {f"word{number}": "spoken" for number in range(200)}
    chapters = [{"title": "A, night", "text": "[{Still}]"}] * 10_000
    check_json(json.dumps({"chapters": chapters, "lexicon": lexicon, "voice": "alloy", "seed": 1}))


def test_the_lexicon_of_a_form_is_limited_as_a_body_is(client: TestClient) -> None:
    answer = client.post("/v1/documents", data={"lexicon": MANY}, files={"file": ("a.txt", b"A night.")})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_a_text_in_json_is_no_larger_than_its_characters_can_be(client: TestClient) -> None:
    """Not as large as a file may be: each of its characters takes four bytes once it is read."""
    most = ServiceSection().max_characters
    answer = client.post("/v1/documents", content=b" " * (12 * most + (1 << 17)), headers=JSON)
    escaped = client.post("/v1/documents", content=b'{"text": "' + b"\\ud83c\\udf19" * (most + 1) + b'"}', headers=JSON)
    assert (answer.status_code, answer.json()["error"]["message"][:17]) == (413, "body larger than ")
    assert escaped.json()["error"]["message"].startswith(f"the text has {most + 1:,} characters")
