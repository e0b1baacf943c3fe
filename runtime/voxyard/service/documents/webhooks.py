"""Webhooks: signed notices that a document is completed or has failed, retried with backoff until accepted."""

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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from voxyard import __version__
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Document
from voxyard.service.documents.store import Hook
from voxyard.service.errors import ForbiddenError, NotFoundError, ServiceError

log = logging.getLogger("voxyard.service")

SIGNATURE = "X-Voxyard-Signature"
DELAYS = (10.0, 30.0, 120.0, 600.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0)
"""Seconds from a failed try to the next; after the last, in a day or so, the webhook is given up."""
TOLERANCE = 300.0
"""Seconds by which a signature's time may differ from the receiver's clock, as `verify` reads it."""
_PATIENCE = 10.0  # seconds for a whole delivery
_AT_ONCE = 8
_PAUSE = 1.0  # seconds between looks into the outbox
_SHORTEST_SECRET = 16
_GONE = 410
_PORTS = {"http": 80, "https": 443}


class Outbox(Protocol):
    """Store interface of the webhook sender."""

    def document(self, id: str, owner: str | None = None) -> Document:
        """The document as it stands."""

    def pending_hooks(self, now: float, limit: int = 100) -> tuple[Hook, ...]:
        """Hooks that are due."""

    def hook_tried(self, id: int, when: float, next_try: float | None, error: str | None) -> None:
        """Records a failed delivery."""

    def hook_done(self, id: int) -> None:
        """It has been heard."""


@dataclass(frozen=True)
class WebhookRules:
    """Allowed targets of webhooks, and their secret; an entry without a port stands for the ports 80 and 443."""

    hosts: tuple[str, ...]
    secret: bytes = field(repr=False)

    def check(self, url: str) -> None:
        """Checks that a webhook may go there.

        Raises:
            ServiceError: it is no URL.
            ForbiddenError: its host is not among those that are allowed.
        """
        target, port = _target(url)
        name = (target.hostname or "").rstrip(".")
        plain = port == _PORTS[target.scheme] and name in self.hosts
        if not plain and f"{name}:{port}" not in self.hosts:
            raise ForbiddenError(
                f"webhooks to {name}:{port} are not allowed: the setting webhook_hosts names those that are",
                parameter="webhook",
            )


def read_rules(section: ServiceSection) -> WebhookRules | None:
    """The rules by the settings; None where webhooks are refused.

    Raises:
        ServiceError: the file of the secret cannot be read, or is too short to keep a secret.
    """
    if section.webhook_secret is None:
        return None
    return WebhookRules(section.hooks(), _read_secret(section.webhook_secret))


def check_webhook(rules: WebhookRules | None, url: str) -> WebhookRules:
    """The rules, if a new document's webhook stands up to them. Raises ServiceError, or ForbiddenError."""
    if rules is None:
        raise ForbiddenError(
            "this service sends no webhooks: ask for the document's state instead", parameter="webhook"
        )
    rules.check(url)
    return rules


def sign(secret: bytes, body: bytes, when: int) -> str:
    """The signature's header: `t=<Unix seconds>,v1=<HMAC-SHA256 of "<t>.<body>">`."""
    return f"t={when},v1={hmac.new(secret, b'%d.' % when + body, 'sha256').hexdigest()}"


def verify(secret: bytes, header: str, body: bytes, *, now: float, tolerance: float = TOLERANCE) -> bool:
    """Verification at the receiver: True where the header signs the body, and is not an old one sent again."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    when = parts.get("t", "")
    if not (when.isascii() and when.isdecimal() and len(when) < 15) or abs(now - int(when)) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, body, int(when)).encode(), header.encode())


class Webhooks:
    """Sender thread of the store's outbox; undelivered hooks survive a restart.

    A receiver may hear the same thing twice (its answer was lost, or the service ended between the two): the header
    `X-Voxyard-Delivery` is the same then.
    """

    def __init__(
        self,
        rules: WebhookRules | None,
        outbox: Outbox,
        *,
        clock: Callable[[], float] = time.time,
        patience: float = _PATIENCE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`patience` in seconds for one delivery; `tls` for receivers with a certificate of their own."""
        self._rules, self._outbox, self._clock, self._patience = rules, outbox, clock, patience
        self._tls = tls or ssl.create_default_context()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="voxyard-webhooks", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Something may be due; without it, it is found a second later."""
        self._wake.set()

    def close(self) -> None:
        """Ends, when what is under way has been heard or has failed; a second call does nothing."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def deliver_due(self) -> int:
        """One pass over the outbox: tries all due hooks; their number."""
        due = self._outbox.pending_hooks(self._clock())
        if due:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="voxyard-webhook") as crew:
                for done in [crew.submit(self._deliver, hook) for hook in due]:
                    done.result()
        return len(due)

    def _run(self) -> None:
        while not self._stop.is_set():
            found = 0
            try:
                found = self.deliver_due()
            except ServiceError as error:
                log.error("webhooks wait, for the store cannot be used: %s", error)
            except Exception:
                log.exception("a look into the outbox of the webhooks failed")
            if not found:
                self._wake.wait(_PAUSE)
                self._wake.clear()

    def _deliver(self, hook: Hook) -> None:
        if self._stop.is_set():
            return
        try:
            document = self._outbox.document(hook.document)
        except NotFoundError:
            self._outbox.hook_done(hook.id)
            return
        try:
            rules = check_webhook(self._rules, hook.url)
            status = self._post(hook, rules.secret, _body(hook, document))
        except ServiceError as error:  # the settings are others than when it was accepted
            self._give_up(hook, str(error))
        except (OSError, http.client.HTTPException) as error:
            self._try_later(hook, _in_words(error))
        else:
            if 200 <= status < 300:
                self._outbox.hook_done(hook.id)
                log.info("webhook %d of document %s was heard", hook.id, hook.document)
            elif status == _GONE:
                self._give_up(hook, "the receiver answered 410")
            else:
                self._try_later(hook, f"the receiver answered {status}" + (_REDIRECT if 300 <= status < 400 else ""))

    def _post(self, hook: Hook, secret: bytes, body: bytes) -> int:
        """The status of the answer; nothing else of it is read, and a redirect is an answer like others."""
        target, port = _target(hook.url)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"voxyard/{__version__}",
            "X-Voxyard-Event": hook.event,
            "X-Voxyard-Delivery": str(hook.id),
            SIGNATURE: sign(secret, body, int(self._clock())),
        }
        name = target.hostname or ""
        connection = (
            http.client.HTTPSConnection(name, port, timeout=self._patience, context=self._tls)
            if target.scheme == "https"
            else http.client.HTTPConnection(name, port, timeout=self._patience)
        )
        with closing(connection):
            connection.connect()
            ender = threading.Timer(self._patience, _hang_up, [connection.sock])  # a drip of bytes resets a timeout
            ender.daemon = True
            ender.start()
            try:
                connection.request("POST", _path(target), body=body, headers=headers)
                return connection.getresponse().status
            finally:
                ender.cancel()

    def _try_later(self, hook: Hook, error: str) -> None:
        if hook.tries >= len(DELAYS):
            self._give_up(hook, error)
            return
        now = self._clock()
        wait = DELAYS[hook.tries] * random.uniform(0.9, 1.1)
        self._outbox.hook_tried(hook.id, now, now + wait, error)
        log.warning("webhook %d of document %s: %s; next try in %.0f s", hook.id, hook.document, error, wait)

    def _give_up(self, hook: Hook, error: str) -> None:
        self._outbox.hook_tried(hook.id, self._clock(), None, error)
        log.error("webhook %d of document %s is given up: %s", hook.id, hook.document, error)


_REDIRECT = ", and redirects are not followed"


def _body(hook: Hook, document: Document) -> bytes:
    facts: Mapping[str, object] = {
        "id": document.id,
        "title": document.title,
        "state": document.state,
        "created": document.created,
        "finished": document.finished,
        "chunks": document.chunks,
        "chunks_failed": document.chunks_failed,
        "audio_seconds": document.audio_seconds,
        "reason": document.reason,
        "url": f"/v1/documents/{document.id}",
    }
    return json.dumps({"type": hook.event, "document": facts}, separators=(",", ":")).encode()


def _target(url: str) -> tuple[SplitResult, int]:
    """The parts of a URL, and its port."""
    wrong = "expected a URL as https://example.org/path, without a name or password in it"
    try:
        target = urlsplit(url)
        port = target.port or _PORTS.get(target.scheme, 0)
    except ValueError as error:
        raise ServiceError(f"the webhook is no URL ({error}): {wrong}", parameter="webhook") from error
    clean = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not (clean and target.hostname and port and target.scheme in _PORTS) or "@" in target.netloc:
        raise ServiceError(f"the webhook is no URL that can be called: {wrong}", parameter="webhook")
    return target, port


def _path(target: SplitResult) -> str:
    return (target.path or "/") + (f"?{target.query}" if target.query else "")


def _hang_up(taken: socket.socket) -> None:
    with suppress(OSError):  # it may have ended by itself
        taken.shutdown(socket.SHUT_RDWR)


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the receiver did not answer in time"
    said = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return f"the receiver could not be reached or did not answer: {said[:300]}"


def _read_secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ServiceError(f"webhook_secret {path}: {error.strerror}: expected a file with a secret") from error
    if len(secret) < _SHORTEST_SECRET:
        raise ServiceError(
            f"webhook_secret {path}: {len(secret)} bytes are too few for a secret: "
            "`openssl rand -hex 32` prints one that will do"
        )
    return secret
