"""Service errors, each with its HTTP status, error code and exit code."""

from __future__ import annotations

import re

_PATH = re.compile(r"""(?<![\w/:.~<*])/[^\s'"<>|;,()]*[^\s'"<>|;,().:]""")
_OWN = {"v1", "docs", "session", "healthz", "readyz", "metrics", "openapi.json", "page"}  # of the API, no files


def without_paths(message: str) -> str:
    """The message with each absolute path cut to its last part; paths of the API stay."""
    return _PATH.sub(_name, message)


def _name(found: re.Match[str]) -> str:
    parts = [part for part in found[0].split("/") if part]
    return found[0] if not parts or parts[0] in _OWN else parts[-1]


class ServiceError(Exception):
    """A message for the user: what was found, what was expected, what to do.

    `status` is the HTTP status, `code` the machine-readable code, `kind` OpenAI's error type, `retry_after` the seconds
    until a retry makes sense, `parameter` the field of the request at fault. `exit_code` is the command's where the
    error ends `voxyard serve`.
    """

    exit_code: int = 2
    status: int = 400
    code: str = "invalid_request"
    kind: str = "invalid_request_error"

    def __init__(self, message: str, *, parameter: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.parameter, self.retry_after = parameter, retry_after


class UnreadableDocumentError(ServiceError):
    """A file without readable text: broken, encrypted, empty, or of another type than its name says."""

    code = "unreadable_document"


class UnspeakableTextError(ServiceError):
    """A text that the engine cannot speak, on any worker: its model does not know the characters, for example."""

    code = "unspeakable_text"


class UnsupportedDocumentError(ServiceError):
    """An unsupported file type."""

    status, code = 415, "unsupported_document"


class TooLargeError(ServiceError):
    """More bytes or characters than the limit."""

    status, code = 413, "too_large"


class UnauthorizedError(ServiceError):
    """No API key, or an unknown one."""

    status, code, kind = 401, "invalid_api_key", "authentication_error"


class ForbiddenError(ServiceError):
    """The client has no permission for the request."""

    status, code, kind = 403, "forbidden", "permission_error"


class NotFoundError(ServiceError):
    """No such document, voice or model."""

    status, code = 404, "not_found"


class ConflictError(ServiceError):
    """Conflict with the current state: another request with the same idempotency key, audio of a failed document."""

    status, code = 409, "conflict"


class BusyError(ServiceError):
    """The queue is full, or the client exceeds its rate limit; `retry_after` gives the seconds to wait."""

    status, code, kind = 429, "rate_limit_exceeded", "rate_limit_error"


class NotSupportedError(ServiceError):
    """The engine cannot do this."""

    status, code = 501, "not_supported"


class UnavailableError(ServiceError):
    """No worker is available, or the service is shutting down."""

    status, code, kind = 503, "unavailable", "server_error"


class NoRoomError(ServiceError):
    """The disk, or the service's quota of it, is full."""

    status, code, kind = 507, "insufficient_storage", "server_error"


class StoreError(ServiceError):
    """The service's own data cannot be read or written."""

    status, code, kind, exit_code = 500, "storage_error", "server_error", 1


class StoreUnavailableError(StoreError):
    """What holds the service's data does not answer now, and probably will again."""

    status, code = 503, "unavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after=5.0)


class LostAudioError(StoreError):
    """The joined audio of a completed document is not there, or not whole: nothing can be made of it."""


class ClaimLostError(StoreError):
    """Another service has taken the document over: this one's progress is not stored any more."""
