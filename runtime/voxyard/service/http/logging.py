"""JSON logging: one object per line on standard error, including uvicorn's records."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

FIELDS = ("client", "address", "method", "path", "status", "seconds", "bytes")
"""Fields of the access log besides `time`, `level`, `logger`, `message` and `request_id`."""

request_id: ContextVar[str | None] = ContextVar("voxyard_request_id", default=None)
"""Id of the current request; threads that a request starts inherit it."""

_LONGEST = 20_000


class ConnectionCut(Exception):  # noqa: N818 (an outcome, not an error)
    """A started response cannot be finished: the connection is closed, so that the response does not look complete.

    Raised by streams with the reason, which is logged without a traceback; the observability middleware raises it for
    every other error after the start of a response.
    """


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON; data from clients cannot forge another line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
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


class _StderrHandler(logging.Handler):
    """Writes to the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record in one call, so that the lines of several threads do not mix."""
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 (a wrong log call must not fail a request)
            line = json.dumps({"level": "error", "message": f"a log record cannot be formatted: {error!r}"})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def configure_json_logging(*, verbose: bool = False) -> None:
    """Sends all logging of this process to standard error as JSON; `verbose` adds debug records."""
    handler = _StderrHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(_not_yet_logged)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn").setLevel(logging.INFO if verbose else logging.WARNING)


def request_line(message: str, level: int, fields: Mapping[str, object]) -> None:
    """Writes a request's access log line; `fields` are `request_id` and some of FIELDS."""
    logging.getLogger("voxyard.service.requests").log(level, "%s", message, extra=dict(fields))


def _not_yet_logged(record: logging.LogRecord) -> bool:
    """Log filter: drops uvicorn's traceback of a cut connection or a cancellation, which the access log has."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name == "uvicorn.error" and isinstance(error, ConnectionCut | asyncio.CancelledError))
