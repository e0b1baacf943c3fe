"""Webhook sender: signed notifications of completed and failed documents, retried with backoff; signatures."""

from __future__ import annotations

import hmac
import http.client
import json
import logging
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from urllib.parse import SplitResult

from standardwebhooks.webhooks import Webhook

from voxyard import __version__
from voxyard.service.documents.records import Document
from voxyard.service.documents.store import Store
from voxyard.service.errors import NotFoundError, ServiceError, without_paths
from voxyard.service.webhooks.pending import DueWebhook
from voxyard.service.webhooks.rules import PORTS, WebhookRules, check_webhook, refused_address, target_of
from voxyard.speech.remote.client import told_wait

SIGNATURE = "X-Voxyard-Signature"
TOLERANCE = 300.0
"""Seconds by which a signature's time may differ from the receiver's clock, in `verify`."""


def sign(secret: bytes, body: bytes, when: int) -> str:
    """Signature header: `t=<Unix seconds>,v1=<HMAC-SHA256 of "<t>.<body>">`."""
    return f"t={when},v1={hmac.new(secret, b'%d.' % when + body, 'sha256').hexdigest()}"


def standard_headers(secret: bytes, id: str, body: bytes, when: int) -> dict[str, str]:
    """Headers of the specification Standard Webhooks; `id` is the same at every delivery, `when` in Unix seconds."""
    signed = Webhook(secret).sign(id, datetime.fromtimestamp(when, UTC), body.decode())
    return {"webhook-id": id, "webhook-timestamp": str(when), "webhook-signature": signed}


def verify(secret: bytes, header: str, body: bytes, *, now: float, tolerance: float = TOLERANCE) -> bool:
    """Verification at the receiver: True where the header signs the body and is not older than `tolerance` seconds."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    when = parts.get("t", "")
    if not (when.isascii() and when.isdecimal() and len(when) < 15) or abs(now - int(when)) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, body, int(when)).encode(), header.encode())


log = logging.getLogger("voxyard.service")

DELAYS = (10.0, 30.0, 120.0, 600.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0)
"""Backoff: seconds from each failed attempt to the next; after the last, the webhook is given up."""
_DELIVERY_SECONDS = 10.0  # for a whole delivery
_PLACES, _OF_A_KEY, _TO_A_RECEIVER, _OF_ONE_TO_ONE = 32, 8, 8, 4
"""Most deliveries at a time: in all, of a key, to a receiver, and of a key to a receiver."""
_LEAST_SECONDS, _POLL_SECONDS = 0.1, 1.0  # between two queries for due webhooks: of many, one takes half of the least
_GONE = 410


class WebhookSender:
    """Thread that delivers the store's pending webhooks, which survive a restart.

    Where webhooks are disabled, it gives up those that are due at the start, and ends.

    A receiver may get a webhook twice (its response was lost, or the service stopped meanwhile); the header
    `X-Voxyard-Delivery` is the same then.
    """

    def __init__(
        self,
        rules: WebhookRules | None,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        timeout: float = _DELIVERY_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout` in seconds for one delivery; `tls` for receivers whose certificate has a private CA."""
        self._rules, self._store, self._clock, self._timeout = rules, store, clock, timeout
        self._tls = tls
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._under_way: dict[DueWebhook, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="voxyard-webhooks", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Checks for due webhooks now instead of within a second."""
        self._wake.set()

    def close(self) -> None:
        """Ends after the deliveries in progress; a second call does nothing."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        for thread in list(self._under_way.values()):
            thread.join()

    def deliver_due(self) -> list[threading.Thread]:
        """Begins to deliver the webhooks whose turn it is, and for which there is a place; returns the threads."""
        under_way, begun = list(self._under_way), list[threading.Thread]()
        taken = {hook.id for hook in under_way}  # before the query: what ends after this is not due any more
        busy = Counter(line for hook in under_way for line in _lines(hook))
        for hook in self._store.webhooks.pending(self._clock()):
            lines = _lines(hook)
            if hook.id in taken or any(busy[line] >= most for line, most in lines.items()):
                continue
            busy.update(lines.keys())
            thread = threading.Thread(target=self._attempt, args=[hook], name=f"voxyard-webhook {hook.id}", daemon=True)
            self._under_way[hook] = thread
            thread.start()
            begun.append(thread)
        return begun

    def _run(self) -> None:
        while not self._stop.is_set():
            with _survived():
                if not self.deliver_due() and not self._under_way and self._rules is None:
                    return
            self._stop.wait(_LEAST_SECONDS)
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()

    def _attempt(self, hook: DueWebhook) -> None:
        with _survived():
            if not self._stop.is_set() and self._store.webhooks.take(hook):
                self._deliver(hook)
            del self._under_way[hook]
            self._wake.set()  # the next may have waited for this place
        self._under_way.pop(hook, None)

    def _deliver(self, hook: DueWebhook) -> None:
        try:
            document = self._store.document(hook.document)
        except NotFoundError:
            self._store.webhooks.done(hook.id)
            return
        try:
            rules = check_webhook(self._rules, hook.url)
            answer = self._post(hook, rules.secret, _body(hook, document))
        except ServiceError as error:  # the settings have changed since it was accepted
            self._give_up(hook, str(error))
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # UnicodeError: no name of a host
            self._try_later(hook, _describe_error(error))
        else:
            status = answer.status
            if 200 <= status < 300:
                self._store.webhooks.done(hook.id)
                log.info("webhook %d of document %s delivered", hook.id, hook.document)
            elif status == _GONE:
                self._give_up(hook, "the receiver responded 410")
            else:
                said = f"the receiver responded {status}" + (_REDIRECT if 300 <= status < 400 else "")
                self._try_later(hook, said, told_wait(answer.headers.get("Retry-After", ""), self._clock()))

    def _post(self, hook: DueWebhook, secret: bytes, body: bytes) -> http.client.HTTPResponse:
        """The response; its body is not read, and redirects are not followed."""
        until = time.monotonic() + self._timeout
        target, port = target_of(hook.url)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"voxyard/{__version__}",
            "X-Voxyard-Event": hook.event,
            "X-Voxyard-Delivery": str(hook.id),
            SIGNATURE: sign(secret, body, int(self._clock())),
            **standard_headers(secret, f"{hook.document}.{hook.id}", body, int(self._clock())),
        }
        name = target.hostname or ""
        connection = http.client.HTTPConnection(name, port)
        connection.default_port = PORTS[target.scheme]  # which is not in the Host header
        with closing(connection):
            connection.sock = _connect(name, port, until)
            connection.sock.settimeout(_left(until))
            if target.scheme == "https":
                connection.sock = (self._tls or _trusted()).wrap_socket(connection.sock, server_hostname=name)
            # A timer, for slow bytes would reset the socket's timeout.
            deadline = threading.Timer(_left(until), _abort, [connection.sock])
            deadline.daemon = True
            deadline.start()
            try:
                connection.request("POST", _path(target), body=body, headers=headers)
                answer = connection.getresponse()
                while answer.status < 200:  # an interim one, such as 103, after which http.client does not read on
                    answer.headers = None  # type: ignore[assignment]
                    answer.begin()
                return answer
            except (OSError, http.client.HTTPException):
                _left(until)  # it was cut off
                raise
            finally:
                deadline.cancel()

    def _try_later(self, hook: DueWebhook, error: str, told: float | None = None) -> None:
        if hook.tries >= len(DELAYS):
            self._give_up(hook, error)
            return
        now = self._clock()
        wait = max(DELAYS[hook.tries] * random.uniform(0.9, 1.1), min(told or 0.0, DELAYS[-1]))
        self._store.webhooks.tried(hook.id, now, now + wait, error)
        log.warning("webhook %d of document %s: %s; retry in %.0f s", hook.id, hook.document, error, wait)

    def _give_up(self, hook: DueWebhook, error: str) -> None:
        self._store.webhooks.tried(hook.id, self._clock(), None, error)
        log.error("webhook %d of document %s given up: %s", hook.id, hook.document, error)


@contextmanager
def _survived() -> Iterator[None]:
    """Logs what fails in the block; it is due again within `_POLL_SECONDS`."""
    try:
        yield
    except ServiceError as error:
        log.error("webhooks are delayed: the store cannot be used: %s", error)
    except Exception:
        log.exception("internal error in the webhook sender; continuing")


def _lines(hook: DueWebhook) -> dict[Hashable, int]:
    """Lines in which a webhook waits, and how many of each are under way at most: who is slow fills his own alone."""
    receiver = tuple(hook.url.partition("?")[0].split("/")[:3])
    return {
        (): _PLACES,
        ("key", hook.owner): _OF_A_KEY,
        ("receiver", receiver): _TO_A_RECEIVER,
        (hook.owner, receiver): _OF_ONE_TO_ONE,
    }


@cache
def _trusted() -> ssl.SSLContext:
    """The machine's authorities: read at the first delivery, for it takes as long as all else at a service's start."""
    return ssl.create_default_context()


_REDIRECT = ", and redirects are not followed"


def _body(hook: DueWebhook, document: Document) -> bytes:
    facts: Mapping[str, object] = {
        "id": document.id,
        "title": document.title,
        "state": document.state,
        "created": document.created,
        "finished": document.finished,
        "chunks": document.chunks,
        "chunks_failed": document.chunks_failed,
        "audio_seconds": document.audio_seconds,
        "reason": None if document.reason is None else without_paths(document.reason),
        "url": f"/v1/documents/{document.id}",
    }
    return json.dumps({"type": hook.event, "document": facts}, separators=(",", ":")).encode()


def _connect(name: str, port: int, until: float) -> socket.socket:
    """Connection to a host, at an address that was looked at: the name is not resolved again.

    All addresses together have until this time of the monotonic clock, and each its part. Raises OSError.
    """
    failed: OSError | None = None
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    for index, (*_, place) in enumerate(found):
        address = str(place[0])
        reason = refused_address(name, address)
        try:
            if reason is not None:
                raise OSError(reason)
            return socket.create_connection((address, port), _left(until) / (len(found) - index))
        except OSError as error:
            failed = error
    raise failed or OSError(f"{name} has no address")


def _left(until: float) -> float:
    """Seconds until a time of the monotonic clock. Raises TimeoutError once it is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _path(target: SplitResult) -> str:
    return (target.path or "/") + (f"?{target.query}" if target.query else "")


def _abort(taken: socket.socket) -> None:
    with suppress(OSError):  # already closed
        taken.shutdown(socket.SHUT_RDWR)


def _describe_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the receiver did not respond in time"
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return f"the receiver responded with what is not HTTP: {str(error)[:300]!r}"
    reason = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return f"the receiver could not be reached or did not respond: {reason[:300]}"
