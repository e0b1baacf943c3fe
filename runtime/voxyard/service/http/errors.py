"""Error responses in OpenAI's envelope, and the handlers that produce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Mount

from voxyard.service.errors import ServiceError, without_paths
from voxyard.service.http.rate_limit import whole_seconds

_LONGEST_MESSAGE = 1000
_MAX_SHOWN = 5
_LONGEST_SHOWN = 60  # of a value that is not as expected
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


class ConnectionCut(Exception):  # noqa: N818 (an outcome, not an error)
    """A started response cannot be finished: the connection is closed, so that the response does not look complete.

    Raised by streams with the reason, which is logged without a traceback; the observability middleware raises it for
    every other error after the start of a response.
    """


class TooSlowError(ServiceError):
    """The request's body arrives too slowly."""

    status, code = 408, "request_timeout"


class LargeHeadersError(ServiceError):
    """Headers larger than the limit."""

    status, code = 431, "headers_too_large"


class TooManyConnectionsError(ServiceError):
    """Too many connections without a valid key; the connection is closed after this response."""

    status, code, kind = 503, "unavailable", "server_error"


def answer(error: ServiceError) -> JSONResponse:
    """Response of an error: status, envelope, and the headers of that status."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(whole_seconds(error.retry_after))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="voxyard"'
    if isinstance(error, TooManyConnectionsError):
        headers["Connection"] = "close"
    return envelope(error.status, str(error), error.kind, error.code, parameter=error.parameter, headers=headers)


def failure(request_id: str) -> JSONResponse:
    """Response of an internal error: the request id and no details."""
    message = f"internal error; the service's log has the details under the request id {request_id}"
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
    """`{"error": {"message", "type", "param", "code"}}` with a status; the message without paths of the server."""
    readable = (
        without_paths(message)[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode()
    )  # a lone surrogate cannot be encoded
    error = {"message": readable, "type": kind, "param": parameter, "code": code}
    return JSONResponse({"error": error}, status_code=status, headers=dict(headers or {}))


def install_envelope(app: FastAPI) -> None:
    """Registers the handlers that answer errors, unknown paths and unknown methods in the envelope."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)


async def _service_error(_request: Request, error: Exception) -> Response:
    return answer(cast("ServiceError", error))


async def _http_exception(request: Request, error: Exception) -> Response:
    error = cast("HTTPException", error)
    status, detail = error.status_code, _unreadable(error.__cause__) or str(error.detail)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    code, message = {
        404: ("not_found", "no such path: /docs lists the endpoints" if _has_default_detail(error) else detail),
        405: ("method_not_allowed", f"method {request.method[:20]} is not allowed on this path"),
        413: ("too_large", detail),
    }.get(status, ("invalid_request" if status < 500 else "internal_error", detail))
    if status < 200 or status in (204, 205, 304):
        return Response(status_code=status, headers=error.headers)
    headers = {**(error.headers or {}), **_allowed(request, status)}
    return envelope(status, message, kind, code, headers=headers)


def _unreadable(cause: BaseException | None) -> str | None:
    """What is wrong with a JSON body that FastAPI could not read; None for other causes."""
    if isinstance(cause, UnicodeDecodeError):
        return f"invalid JSON body: byte {cause.start} is no UTF-8: send the body in UTF-8"
    return f"invalid JSON body: {str(cause).partition(':')[0]}" if isinstance(cause, ValueError) else None


def _allowed(request: Request, status: int) -> dict[str, str]:
    """Header `Allow` with the methods of all routes of a path; the router names those of the first alone."""
    if status != 405:
        return {}
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    scope = {"type": "http", "path": request.scope["path"], "headers": [], "path_params": {}}
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return {"Allow": ", ".join(allowed)} if allowed else {}


async def _validation_error(request: Request, error: Exception) -> Response:
    errors = cast("RequestValidationError", error).errors()
    if errors and isinstance(errors[0].get("input"), bytes):  # FastAPI has not read it as JSON
        kind = request.headers.get("content-type", "").partition(";")[0].strip()[:_LONGEST_SHOWN] or "(none)"
        return answer(ServiceError(f"unsupported Content-Type {kind}: send JSON, as `Content-Type: application/json`"))
    return answer(invalid(errors))


def invalid(errors: Sequence[Mapping[str, Any]], *, inside: int = 1) -> ServiceError:
    """Error of what pydantic has found; the first `inside` parts of each place are not the client's."""
    messages = [f"{_field(each['loc'][inside:]) or 'the request'}: {_sentence(each)}" for each in errors[:_MAX_SHOWN]]
    if len(errors) > _MAX_SHOWN:
        messages.append(f"and {len(errors) - _MAX_SHOWN} more")
    return ServiceError("; ".join(messages), parameter=_field(errors[0]["loc"][inside:]) if errors else None)


def _field(place: Sequence[object]) -> str | None:
    """Field name as the client sent it: `voice` of ("voice",), `texts.2` of ("texts", 2)."""
    names = [str(part) for part in place]
    return ".".join(names) if names and not (len(names) == 1 and names[0].isdigit()) else None


def _sentence(error: Mapping[str, Any]) -> str:
    if error.get("type") == "json_invalid":
        why = error.get("ctx", {}).get("error", "it cannot be read")
        form = isinstance(error["loc"][-1], str)
        return f'expected a JSON object such as {{"NAME": "VALUE"}}: {why}' if form else f"invalid JSON body: {why}"
    if error.get("type") == "extra_forbidden":
        return "there is no such field: /docs lists those of this request"
    if error.get("type") == "model_attributes_type":
        return 'expected a JSON object such as {"NAME": "VALUE"}'
    if error.get("type") == "string_unicode":
        return "half a character (a lone surrogate): cut texts between characters"
    found = error.get("input")
    shown = f", found {found!r}" if isinstance(found, str | int | float) and len(repr(found)) <= _LONGEST_SHOWN else ""
    return f"{error.get('msg', 'invalid value')}{shown}"


def _has_default_detail(error: HTTPException) -> bool:
    return error.detail in ("Not Found", "")
