"""Error envelope of every response, as OpenAI's clients read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from voxyard.service.errors import ServiceError
from voxyard.service.http.rate_limit import whole_seconds

_LONGEST_MESSAGE = 1000
_MOST_MISTAKES = 5


class TooSlowError(ServiceError):
    """The request's body comes too slowly."""

    status, code = 408, "request_timeout"


class LargeHeadersError(ServiceError):
    """More bytes of headers than the service takes."""

    status, code = 431, "headers_too_large"


class CrowdedError(ServiceError):
    """Too many connections that have shown no valid key; the connection ends with this answer."""

    status, code, kind = 503, "unavailable", "server_error"


def answer(error: ServiceError) -> JSONResponse:
    """The error as a response: status, envelope, and the headers that belong to its status."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(whole_seconds(error.retry_after))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="voxyard"'
    if isinstance(error, CrowdedError):
        headers["Connection"] = "close"
    return envelope(error.status, str(error), error.kind, error.code, parameter=error.parameter, headers=headers)


def failure(request_id: str) -> JSONResponse:
    """Response for an internal error: the request id, and nothing else."""
    message = f"the service failed at this request; its log tells more under the request id {request_id}"
    return envelope(500, message, "server_error", "internal_error")


def envelope(
    status: int,
    message: str,
    kind: str,
    code: str,
    *,
    parameter: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """`{"error": {"message", "type", "param", "code"}}` with a status."""
    readable = message[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode()  # half a surrogate pair is no UTF-8
    error = {"message": readable, "type": kind, "param": parameter, "code": code}
    return JSONResponse({"error": error}, status_code=status, headers=dict(headers or {}))


def install_envelope(app: FastAPI) -> None:
    """Every error that a route raises, and every path and method that there is not, comes in the envelope."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)


async def _service_error(_request: Request, error: Exception) -> Response:
    return answer(cast("ServiceError", error))


async def _http_exception(request: Request, error: Exception) -> Response:
    error = cast("HTTPException", error)
    status, detail = error.status_code, str(error.detail)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    code, message = {
        404: ("not_found", "there is nothing at this path: /docs lists what there is" if _plain(error) else detail),
        405: ("method_not_allowed", f"this path does not take {request.method[:20]}"),
        413: ("too_large", detail),
    }.get(status, ("invalid_request" if status < 500 else "internal_error", detail))
    if status < 200 or status in (204, 205, 304):
        return Response(status_code=status, headers=error.headers)
    return envelope(status, message, kind, code, headers=error.headers)


async def _validation_error(_request: Request, error: Exception) -> Response:
    mistakes = cast("RequestValidationError", error).errors()
    told = [f"{_field(mistake['loc']) or 'the request'}: {_sentence(mistake)}" for mistake in mistakes[:_MOST_MISTAKES]]
    if len(mistakes) > _MOST_MISTAKES:
        told.append(f"and {len(mistakes) - _MOST_MISTAKES} more")
    parameter = _field(mistakes[0]["loc"]) if mistakes else None
    return envelope(400, "; ".join(told), "invalid_request_error", "invalid_request", parameter=parameter)


def _field(place: Sequence[object]) -> str | None:
    """The name of a field as a client knows it: `voice` of ("body", "voice"), `texts.2` of ("body", "texts", 2)."""
    names = [str(part) for part in place[1:]]
    return ".".join(names) if names and not (len(names) == 1 and names[0].isdigit()) else None


def _sentence(mistake: Mapping[str, Any]) -> str:
    if mistake.get("type") == "json_invalid":
        return f"the body is no JSON: {mistake.get('ctx', {}).get('error', 'it cannot be read')}"
    return str(mistake.get("msg", "is wrong"))


def _plain(error: HTTPException) -> bool:
    return error.detail in ("Not Found", "")
