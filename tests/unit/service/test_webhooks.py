"""Webhooks to a real HTTP server: signatures, allowed hosts, retries."""

from __future__ import annotations

import base64
import json
import math
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from documents import OwningStore
from eventually import PATIENCE, eventually
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import NewChunk, NewDocument
from voxyard.service.documents.store import Store
from voxyard.service.errors import ForbiddenError, ServiceError
from voxyard.service.webhooks.rules import WebhookRules, check_webhook, read_rules, refused_address
from voxyard.service.webhooks.sender import DELAYS, SIGNATURE, WebhookSender, sign, verify

SECRET = b"a secret of some length"
DOCUMENT = "0" * 32


@dataclass
class Heard:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Receiver of webhooks: its answers, and the requests that it got."""

    port: int = 0
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    drip: threading.Event | None = None  # set: it sends a byte now and then until this is set
    first: bytes = b""  # sent before the answer
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook?to=me"

    def server(self) -> ThreadingHTTPServer:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append(Heard(self.path, dict(self.headers), body))
                self.wfile.write(receiver.first)
                if receiver.drip is not None:
                    with suppress(OSError):
                        while not receiver.drip.wait(0.05):
                            self.wfile.write(b"H")
                    return
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.port = server.server_port
        return server


class Clock:
    def __init__(self) -> None:
        self.now = time.time() + 60  # after whatever a test has finished

    def __call__(self) -> float:
        return self.now


def running(receiver: Receiver, context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    server = receiver.server()
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        receiver.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    yield from running(Receiver())


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_receiver(authority: trustme.CA) -> Iterator[Receiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    yield from running(Receiver(), context)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = OwningStore(tmp_path / "store.sqlite3")
    yield store
    store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rules_for(receiver: Receiver) -> WebhookRules:
    return WebhookRules((f"127.0.0.1:{receiver.port}",), SECRET)


def finish(store: Store, url: str, number: int = 0, *, failed: bool = False, owner: str = "") -> str:
    """A document with a webhook that has come to its end."""
    name, now = f"{number:032x}", time.time()
    chunk = NewChunk(0, 0, 5, "paragraph", 1.0)
    store.accept(NewDocument(name, owner, "A title", "Words", (chunk,), now, webhook=url))
    if failed:
        store.failed(name, now, "chunk 0 could not be synthesized")
    else:
        store.chunk_spoken(name, 0, 24000, reduced=False)
        store.completed(name, now)
    return name


def deliver(webhooks: WebhookSender) -> int:
    """Attempts the webhooks whose turn it is; their number."""
    threads = webhooks.deliver_due()
    for thread in threads:
        thread.join(PATIENCE)
    return len(threads)


def due(store: Store, clock: Clock, after: float = 0.0) -> int:
    return len(store.webhooks.pending(clock.now + after))


# -- delivery ------------------------------------------------------------------------------------------------


def test_a_completed_document_sends_one_webhook(store: Store, receiver: Receiver, clock: Clock) -> None:
    finish(store, receiver.url)
    webhooks = WebhookSender(rules_for(receiver), store, clock=clock)
    assert (deliver(webhooks), deliver(webhooks)) == (1, 0)
    (heard,) = receiver.heard
    told = json.loads(heard.body)
    assert heard.path == "/hook?to=me"
    assert heard.headers["X-Voxyard-Event"] == told["type"] == "document.completed"
    assert (told["document"]["id"], told["document"]["state"]) == (DOCUMENT, "completed")
    assert told["document"]["audio_seconds"] == 1.0
    assert "Words" not in heard.body.decode()


def test_a_failed_document_sends_its_reason(store: Store, receiver: Receiver, clock: Clock) -> None:
    finish(store, receiver.url, failed=True)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    told = json.loads(receiver.heard[0].body)
    assert (told["type"], told["document"]["reason"]) == ("document.failed", "chunk 0 could not be synthesized")


def test_the_receiver_can_verify_a_webhook(store: Store, receiver: Receiver, clock: Clock) -> None:
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    heard = receiver.heard[0]
    assert verify(SECRET, heard.headers[SIGNATURE], heard.body, now=clock.now)
    assert not verify(b"another secret", heard.headers[SIGNATURE], heard.body, now=clock.now)
    secret = f"whsec_{base64.b64encode(SECRET).decode()}"  # as a receiver's library of any language takes it
    assert Webhook(secret).verify(heard.body, heard.headers) == json.loads(heard.body)
    with pytest.raises(WebhookVerificationError):
        Webhook(b"another secret").verify(heard.body, heard.headers)
    assert not verify(SECRET, heard.headers[SIGNATURE], heard.body + b" ", now=clock.now)


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.mark.parametrize(
    ("status", "first"), [(200, b""), (201, b""), (299, b""), (200, b"HTTP/1.1 100 Continue\r\n\r\n"), (204, 2 * EARLY)]
)
def test_any_success_is_success(store: Store, receiver: Receiver, clock: Clock, status: int, first: bytes) -> None:
    receiver.status, receiver.first = status, first
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    assert due(store, clock, 1e9) == 0


@pytest.mark.parametrize("status", [302, 307, 400, 404, 500, 503])
def test_another_status_is_retried_later(store: Store, receiver: Receiver, clock: Clock, status: int) -> None:
    receiver.status = status
    finish(store, receiver.url)
    webhooks = WebhookSender(rules_for(receiver), store, clock=clock)
    deliver(webhooks)
    assert due(store, clock) == 0
    clock.now += DELAYS[0] * 1.2
    (hook,) = store.webhooks.pending(clock.now)
    assert (hook.tries, str(status) in str(hook.error)) == (1, True)
    receiver.status = 204
    deliver(webhooks)
    assert due(store, clock, 1e9) == 0
    first, second = receiver.heard
    assert first.headers["X-Voxyard-Delivery"] == second.headers["X-Voxyard-Delivery"]
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers[SIGNATURE] != second.headers[SIGNATURE]


@pytest.mark.parametrize(
    ("status", "said", "wait"),
    [
        (429, "120", 120.0),
        (503, "120", 120.0),
        (503, "date", 120.0),
        (429, "0", DELAYS[0]),
        (429, "-5", DELAYS[0]),
        (429, "soon", DELAYS[0]),
        (429, "9" * 400, DELAYS[0]),
        (503, "Wed, 21 Oct 2015 07:28:00 GMT", DELAYS[0]),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", DELAYS[-1]),
        (429, "999999999", DELAYS[-1]),
    ],
)
def test_a_receiver_says_before_when_it_is_not_asked_again(
    store: Store, receiver: Receiver, clock: Clock, status: int, said: str, wait: float
) -> None:
    said = format_datetime(datetime.fromtimestamp(clock.now + 120, UTC), usegmt=True) if said == "date" else said
    receiver.status, receiver.headers = status, {"Retry-After": said}
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    assert store.webhooks.pending(1e12)[0].next_try - clock.now == pytest.approx(wait, rel=0.11)


def test_a_redirect_is_not_followed(store: Store, receiver: Receiver, clock: Clock) -> None:
    for other in running(Receiver()):
        receiver.status, receiver.headers = 307, {"Location": other.url}
        finish(store, receiver.url)
        deliver(WebhookSender(rules_for(receiver), store, clock=clock))
        assert other.heard == []
    assert "redirects are not followed" in str(store.webhooks.pending(clock.now + 1e6)[0].error)


def test_backoff_grows_and_ends(store: Store, receiver: Receiver, clock: Clock) -> None:
    receiver.status = 500
    finish(store, receiver.url)
    webhooks, waits = WebhookSender(rules_for(receiver), store, clock=clock), []
    while pending := store.webhooks.pending(clock.now + 1e9):
        waits.append(pending[0].next_try - clock.now)
        clock.now = max(clock.now, pending[0].next_try)
        deliver(webhooks)
        assert len(waits) < 50
    assert len(receiver.heard) == len(DELAYS) + 1
    assert waits[1:] == sorted(waits[1:])
    assert sum(waits) == pytest.approx(sum(DELAYS), rel=0.2)


def test_a_receiver_that_is_gone_for_good_is_not_asked_again(store: Store, receiver: Receiver, clock: Clock) -> None:
    receiver.status = 410
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    assert due(store, clock, 1e9) == 0


def test_an_unreachable_receiver_is_retried(store: Store, clock: Clock) -> None:
    gone = Receiver()
    gone.server().server_close()
    finish(store, gone.url)
    deliver(WebhookSender(rules_for(gone), store, clock=clock))
    assert "could not be reached" in str(store.webhooks.pending(clock.now + 1e6)[0].error)


def test_a_slow_receiver_is_cut_off(store: Store, receiver: Receiver, clock: Clock) -> None:
    receiver.drip = threading.Event()
    finish(store, receiver.url)
    began = time.monotonic()
    deliver(WebhookSender(rules_for(receiver), store, clock=clock, timeout=0.5))
    assert time.monotonic() - began < PATIENCE
    receiver.drip.set()
    assert store.webhooks.pending(clock.now + 1e6)[0].tries == 1


def test_all_addresses_of_a_receiver_have_the_time_of_one(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, given = list[float](), [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 9))] * 100

    def silent(address: tuple[str, int], timeout: float) -> socket.socket:
        asked.append(timeout)
        time.sleep(min(timeout, 0.1))
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: given)
    monkeypatch.setattr(socket, "create_connection", silent)
    finish(store, "http://127.0.0.1:9/")
    deliver(WebhookSender(WebhookRules(("127.0.0.1:9",), SECRET), store, clock=clock, timeout=0.35))
    assert sum(asked) < 0.7
    assert asked[0] < 0.35 / 50, "the others have their part"
    assert store.webhooks.pending(clock.now + 1e6)[0].tries == 1


def test_a_handshake_has_the_time_that_connecting_left(
    store: Store, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, left = socket.create_connection, list[float]()

    def slowly(address: tuple[str, int], timeout: float) -> socket.socket:
        time.sleep(timeout / 2)
        return connect(address, timeout)

    class Context(ssl.SSLContext):
        def wrap_socket(self, sock: socket.socket, *_: object, **__: object) -> ssl.SSLSocket:
            left.append(sock.gettimeout() or math.inf)
            raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", slowly)
    finish(store, receiver.url.replace("http:", "https:"))
    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock, timeout=4.0, tls=context))
    assert left[0] <= 2.0
    assert store.webhooks.pending(1e12)[0].error == "the receiver did not respond in time"


def test_one_receiver_that_is_down_does_not_delay_another(store: Store, receiver: Receiver, clock: Clock) -> None:
    finish(store, "http://127.0.0.1:1/", 1)
    finish(store, receiver.url, 2)
    rules = WebhookRules(("127.0.0.1:1", f"127.0.0.1:{receiver.port}"), SECRET)
    assert deliver(WebhookSender(rules, store, clock=clock)) == 2
    assert len(receiver.heard) == 1
    assert due(store, clock, 1e6) == 1


def test_a_webhook_that_is_no_longer_allowed_is_given_up_unsent(store: Store, receiver: Receiver, clock: Clock) -> None:
    for number, rules in enumerate((WebhookRules(("example.org",), SECRET), None)):
        finish(store, receiver.url, number)
        deliver(WebhookSender(rules, store, clock=clock))
        assert due(store, clock, 1e9) == 0
    assert receiver.heard == []


def test_a_deleted_document_sends_no_webhook(
    store: Store, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = finish(store, receiver.url)
    hooks = store.webhooks.pending(clock.now + 1)
    store.delete(name)

    monkeypatch.setattr(store.webhooks, "pending", lambda *_: hooks)  # deleted between query and delivery
    assert deliver(WebhookSender(rules_for(receiver), store, clock=clock)) == 1
    assert receiver.heard == []


def test_an_untrusted_certificate_is_refused(
    store: Store, tls_receiver: Receiver, authority: trustme.CA, clock: Clock
) -> None:
    finish(store, tls_receiver.url)
    deliver(WebhookSender(rules_for(tls_receiver), store, clock=clock))
    assert tls_receiver.heard == []
    (hook,) = store.webhooks.pending(clock.now + 1e6)
    assert "certificate" in str(hook.error)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    clock.now = hook.next_try
    deliver(WebhookSender(rules_for(tls_receiver), store, clock=clock, tls=context))
    assert len(tls_receiver.heard) == 1


def test_a_proxy_of_the_environment_is_not_asked(
    store: Store, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name)
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    assert len(receiver.heard) == 1


@pytest.mark.parametrize(
    ("first", "reason"), [(b"hello\r\n", "not HTTP: 'hello"), (b"HTTP/1.1 2OO OK\r\n", "not HTTP: 'HTTP/1.1 2OO OK")]
)
def test_what_is_not_http_is_shown(store: Store, receiver: Receiver, clock: Clock, first: bytes, reason: str) -> None:
    receiver.first = first
    finish(store, receiver.url)
    deliver(WebhookSender(rules_for(receiver), store, clock=clock))
    assert reason in str(store.webhooks.pending(1e12)[0].error)


MANY = range(40)


@pytest.mark.parametrize(
    ("due", "begun"),
    [
        ([("ann", "a")] * 20, {"a": 4}),
        ([*[("ann", "a")] * 20, ("ann", "b")], {"a": 4, "b": 1}),
        ([*[("ann", "a")] * 20, ("bob", "a"), ("bob", "b")], {"a": 5, "b": 1}),
        (
            [*[("ann", f"host-{each}") for each in MANY], ("bob", "b")],
            {**{f"host-{each}": 1 for each in range(8)}, "b": 1},
        ),
        ([*[(f"key-{each}", "a") for each in MANY], ("bob", "b")], {"a": 8, "b": 1}),
        ([(f"key-{each}", f"host-{each}") for each in MANY], {f"host-{each}": 1 for each in range(32)}),
    ],
    ids=["one receiver", "another receiver", "another key", "many receivers", "many keys", "all places"],
)
def test_who_hangs_holds_up_nobody_else(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, due: list[tuple[str, str]], begun: dict[str, int]
) -> None:
    asked, answered = list[str](), threading.Event()

    def slow(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        answered.wait(PATIENCE)
        raise OSError("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    for number, (owner, host) in enumerate(due):
        finish(store, f"http://{host}/{number}", number, owner=owner)
    webhooks = WebhookSender(WebhookRules(tuple({host for _, host in due}), SECRET), store, clock=clock)
    threads = webhooks.deliver_due()
    eventually(lambda: len(asked) == len(threads), "all deliveries have begun")
    assert Counter(asked) == begun
    assert webhooks.deliver_due() == []
    answered.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert {hook.tries for hook in store.webhooks.pending(1e12)} <= {0, 1}
    assert sum(hook.tries for hook in store.webhooks.pending(1e12)) == len(threads)


# -- the thread ----------------------------------------------------------------------------------------------


def wait_until(store: Store, count: int) -> None:
    eventually(lambda: len(store.webhooks.pending(time.time() + 1e6)) == count, f"{count} webhooks are pending")


def test_the_thread_tells_by_itself_and_ends_when_it_is_closed(store: Store, receiver: Receiver) -> None:
    webhooks = WebhookSender(rules_for(receiver), store)
    webhooks.start()
    finish(store, receiver.url)
    webhooks.wake()
    wait_until(store, 0)
    webhooks.close()
    webhooks.close()
    assert len(receiver.heard) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("voxyard-webhook")]


def test_the_thread_delivers_while_another_receiver_hangs(store: Store, receiver: Receiver) -> None:
    slow = Receiver(drip=(drip := threading.Event()))
    for _ in running(slow):
        for number in range(20):
            finish(store, slow.url, number, owner="ann")
        rules = WebhookRules(tuple(f"127.0.0.1:{each.port}" for each in (receiver, slow)), SECRET)
        webhooks = WebhookSender(rules, store, timeout=PATIENCE)
        webhooks.start()
        eventually(lambda: len(slow.heard) >= 4, "the slow receiver is asked")
        finish(store, receiver.url, 20, owner="bob")
        eventually(lambda: len(receiver.heard) == 1, "the other one is asked meanwhile")
        drip.set()
        webhooks.close()


def test_where_webhooks_are_disabled_the_thread_gives_up_what_is_due_and_ends(store: Store) -> None:
    """It asks the database no more: nothing that is accepted from then on has a webhook."""
    finish(store, "http://127.0.0.1:1/")
    WebhookSender(None, store).start()
    names = lambda: [thread.name for thread in threading.enumerate()]  # noqa: E731
    eventually(lambda: "voxyard-webhooks" not in names(), "the thread has ended")
    assert not store.webhooks.pending(1e12)


def test_an_undelivered_webhook_is_sent_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    first = OwningStore(tmp_path / "again.sqlite3")
    finish(first, receiver.url)
    first.close()
    second = OwningStore(tmp_path / "again.sqlite3")
    webhooks = WebhookSender(rules_for(receiver), second)
    webhooks.start()
    wait_until(second, 0)
    webhooks.close()
    second.close()
    assert len(receiver.heard) == 1


def test_a_store_that_fails_for_a_while_does_not_end_the_thread(
    store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, failures = store.webhooks.pending, [ServiceError("the store is locked"), RuntimeError("a bug")]

    def sometimes(now: float, limit: int = 100):
        if failures and threading.current_thread().name == "voxyard-webhooks":
            raise failures.pop()
        return real(now, limit)

    monkeypatch.setattr(store.webhooks, "pending", sometimes)
    finish(store, receiver.url)
    webhooks = WebhookSender(rules_for(receiver), store)
    webhooks.start()

    def woken() -> bool:
        webhooks.wake()
        return bool(receiver.heard)

    eventually(woken, "the receiver has heard of it")
    webhooks.close()
    assert len(receiver.heard) == 1
    assert "the store is locked" in caplog.text


def test_a_sender_that_was_never_started_closes_and_sends_nothing(
    store: Store, receiver: Receiver, clock: Clock
) -> None:
    finish(store, receiver.url)
    webhooks = WebhookSender(rules_for(receiver), store, clock=clock)
    webhooks.close()
    webhooks.close()
    assert (receiver.heard, due(store, clock)) == ([], 1)


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["169.254.169.254", "::ffff:127.0.0.1"]])
def test_a_resolver_that_answers_with_an_address_of_this_host_is_not_followed(
    store: Store, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, **named: [
            found for each in addresses for found in resolve(each if host == "hooks.test" else host, port, **named)
        ],
    )
    finish(store, f"http://hooks.test:{receiver.port}/hook")
    deliver(WebhookSender(WebhookRules((f"hooks.test:{receiver.port}",), SECRET), store, clock=clock))
    assert receiver.heard == []
    assert "which is not for webhooks" in str(store.webhooks.pending(clock.now + 1e6)[0].error)


@pytest.mark.parametrize(
    ("name", "address", "allowed"),
    [
        ("hooks.example.org", "192.0.2.1", True),
        ("hooks.internal", "10.1.2.3", True),
        ("localhost", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("hooks.example.org", "127.0.0.1", False),
        ("hooks.example.org", "::1", False),
        ("hooks.example.org", "::ffff:127.0.0.1", False),
        ("hooks.example.org", "169.254.169.254", False),
        ("hooks.example.org", "fe80::1%eth0", False),
        ("hooks.example.org", "fd00:ec2::254", False),
        ("hooks.example.org", "100.100.100.200", False),
        ("hooks.example.org", "2002:a9fe:a9fe::1", False),
        ("hooks.example.org", "64:ff9b::a9fe:a9fe", False),
        ("hooks.internal", "fd00::1", True),
        ("hooks.example.org", "0.0.0.0", False),  # noqa: S104
        ("hooks.example.org", "224.0.0.1", False),
    ],
)
def test_an_allowed_name_may_not_lead_to_this_host_or_its_links_services(
    name: str, address: str, allowed: bool
) -> None:
    assert (refused_address(name, address) is None) is allowed


# -- rules ---------------------------------------------------------------------------------------------------

RULES = WebhookRules(("hooks.example.org", "internal:8443", "192.0.2.1", "[::2]:8080", "[2001:db8::1]"), SECRET)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/",
        "http://hooks.example.org",
        "https://HOOKS.example.ORG/a?b=c",
        "https://hooks.example.org./a",
        "https://hooks.example.org:443/a",
        "http://internal:8443/x",
        "http://192.0.2.1/x",
        "http://[::2]:8080/x",
        "https://[2001:DB8::1]/x",
    ],
)
def test_allowed_hosts_are_allowed(url: str) -> None:
    RULES.check(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://hooks.example.org.evil.example/",
        "https://evil.example/hooks.example.org",
        "https://evil.example#hooks.example.org",
        "https://evil.example?hooks.example.org",
        "https://hooks.example.org:8080/",
        "http://hooks.example.org:22/",
        "http://internal/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::2]/",
        "http://[2001:db8::1]:8080/",
        "http://localhost/",
        "http://3221225985/",
    ],
)
def test_other_hosts_and_ports_are_refused_and_the_setting_is_named(url: str) -> None:
    with pytest.raises(ForbiddenError, match="--webhook-hosts") as caught:
        RULES.check(url)
    assert caught.value.parameter == "webhook"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.org",
        "//hooks.example.org/",
        "ftp://hooks.example.org/",
        "file:///etc/passwd",
        "https://user:password@hooks.example.org/",
        "https://evil.example@hooks.example.org/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org:x/",
        "https://hooks.example.org/a b",
        "https://hooks.example.org/\r\nHost: evil",
        "https://hooks.example.org\\@evil.example/",
        "https://hooks.exämple.org/",
        "https://[hooks.example.org/",
        "https:///path",
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ServiceError, match="invalid webhook URL") as caught:
        RULES.check(url)
    assert caught.value.parameter == "webhook"


def test_without_a_secret_webhooks_are_refused(tmp_path: Path) -> None:
    rules = read_rules(ServiceSection(data_dir=tmp_path, webhook_hosts="hooks.example.org"))
    assert rules is None
    with pytest.raises(ForbiddenError, match="webhooks are disabled"):
        check_webhook(rules, "https://hooks.example.org/")


def test_the_secret_comes_from_its_file_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    rules = read_rules(
        ServiceSection(data_dir=tmp_path, webhook_hosts="Hooks.example.org, b:1", webhook_secret=tmp_path / "secret")
    )
    assert rules == WebhookRules(("hooks.example.org", "b:1"), SECRET)
    assert SECRET.decode() not in repr(rules)


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"short\n", "expected at least 16")])
def test_an_unusable_secret_is_refused_at_the_start(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ServiceError, match=reason):
        read_rules(ServiceSection(data_dir=tmp_path, webhook_secret=path))


@pytest.mark.parametrize("late", [-299, 0, 299])
def test_a_signature_holds_for_some_minutes(late: int) -> None:
    assert verify(SECRET, sign(SECRET, b"body", 1000), b"body", now=1000 + late)


@pytest.mark.parametrize("late", [-301, 301])
def test_an_old_signature_is_invalid(late: int) -> None:
    assert not verify(SECRET, sign(SECRET, b"body", 1000), b"body", now=1000 + late)


@pytest.mark.parametrize(
    "header", ["", "t=,v1=", "t=x,v1=y", "v1=" + "0" * 64, "t=1000", "t=1000,v1=" + "0" * 64, "ä=ö"]
)
def test_a_signature_that_is_none_is_refused(header: str) -> None:
    assert not verify(SECRET, header, b"body", now=1000)
