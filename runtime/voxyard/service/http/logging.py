"""The service's log: one JSON object a line on standard error, uvicorn's lines among them."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

FIELDS = ("client", "address", "method", "path", "status", "seconds", "bytes")
"""Fields that a request's line adds to `time`, `level`, `logger`, `message` and `request_id`."""

request_id: ContextVar[str | None] = ContextVar("voxyard_request_id", default=None)
"""The id of the request that this code runs for; threads that a request starts inherit it."""

_LONGEST = 20_000


class ConnectionCut(Exception):  # noqa: N818 (an outcome, not a mistake)
    """A response that had begun cannot be finished: the connection is closed so that its end does not look whole.

    Raise it from a stream with the reason, which is logged without a trace; the frame raises it itself for every
    other error that comes too late for an answer.
    """


class JsonFormatter(logging.Formatter):
    """Writes a record as a line of JSON; what a client sent cannot break a line or forge another."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST],
        }
        if (found := getattr(record, "request_id", None) or request_id.get()) is not None:
            line["request_id"] = found
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-_LONGEST:]
        return json.dumps(line, ensure_ascii=True, default=str)


class _Stderr(logging.Handler):
    """Writes to whatever standard error is now."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, one line, in one write: lines of several threads do not mix."""
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 (a wrong log call must not take a request down)
            line = json.dumps({"level": "error", "message": f"a log line cannot be written: {error!r}"})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def write_json_logs(*, verbose: bool = False) -> None:
    """Makes JSON on standard error the one way of logging in this process; `verbose` adds debugging lines."""
    handler = _Stderr()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(_worth_a_line)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn").setLevel(logging.INFO if verbose else logging.WARNING)


def request_line(message: str, level: int, fields: Mapping[str, object]) -> None:
    """Logs the end of a request; `fields` are `request_id` and some of FIELDS."""
    logging.getLogger("voxyard.service.requests").log(level, "%s", message, extra=dict(fields))


def _worth_a_line(record: logging.LogRecord) -> bool:
    """Log filter: drops uvicorn's trace of a cut connection or a cancellation, which frame.py has logged already."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name == "uvicorn.error" and isinstance(error, ConnectionCut | asyncio.CancelledError))
