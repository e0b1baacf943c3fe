"""JSON logging: one object per line, whatever is logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime

import pytest

from voxyard.service.http.errors import ConnectionCut
from voxyard.service.http.observability import configure_json_logging, request_id, request_line


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("voxyard", "uvicorn")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    written = capsys.readouterr()
    assert written.out == ""
    return [json.loads(line) for line in written.err.splitlines()]


def test_a_line_has_its_time_its_level_and_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    logging.getLogger("voxyard.service").warning("the disk of %s is full", "audio")
    (line,) = lines(capsys)
    assert (line["level"], line["message"], line["logger"]) == (
        "warning",
        "the disk of audio is full",
        "voxyard.service",
    )
    assert datetime.fromisoformat(str(line["time"])).tzinfo is not None


def test_a_line_break_in_a_message_makes_no_second_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    logging.getLogger("voxyard.service").warning('a\n{"level": "forged"}\r\u2028\x00 \ud800')
    assert len(lines(capsys)) == 1


def test_a_line_bears_the_id_of_the_request_that_it_belongs_to(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    token = request_id.set("abc")
    try:
        logging.getLogger("voxyard.service").info("inside")
    finally:
        request_id.reset(token)
    logging.getLogger("voxyard.service").info("outside")
    inside, outside = lines(capsys)
    assert inside["request_id"] == "abc"
    assert "request_id" not in outside


def test_a_requests_line_has_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    fields = {
        "request_id": "r",
        "client": "me",
        "method": "GET",
        "path": "/x",
        "status": 200,
        "seconds": 0.5,
        "bytes": 3,
    }
    request_line("request", logging.INFO, fields)
    (line,) = lines(capsys)
    assert fields.items() <= line.items()


def test_a_trace_is_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    try:
        raise ValueError("planted")
    except ValueError:
        logging.getLogger("voxyard.service").exception("it failed")
    (line,) = lines(capsys)
    assert "ValueError: planted" in str(line["trace"])


def test_uvicorns_lines_come_the_same_way_once(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler())
    configure_json_logging()
    logging.getLogger("uvicorn.error").error("a word")
    (line,) = lines(capsys)
    assert line["message"] == "a word"


def test_uvicorn_does_not_repeat_what_the_access_log_has(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    for error in (ConnectionCut("told already"), ValueError("new")):
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=error)
    (line,) = lines(capsys)
    assert "new" in str(line["trace"])


def test_a_record_that_cannot_be_formatted_is_logged_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure_json_logging()
    logging.getLogger("voxyard.service").warning("%d chunks", "many")
    (line,) = lines(capsys)
    assert "cannot be formatted" in str(line["message"])


def test_debugging_lines_come_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose in (False, True):
        configure_json_logging(verbose=verbose)
        logging.getLogger("voxyard.service").debug("a detail")
        logging.getLogger("uvicorn.error").info("a detail")
    assert len(lines(capsys)) == 2
