"""HAProxy's configuration: TLS, and the way of each request to a speech service.

Requests that name a document go to its host, also while that host is about to stop or restarts. New documents with an
idempotency key go to one host by that key, whatever its state: a repeated request finds the document of the first.
All other requests go to hosts that are ready. Where none is they wait: at a server of the gateway itself, which refuses
them until one is ready again. (HAProxy waits a second before it tries the same server again, and not at all before it
tries another: left to services that are all away it has used up its tries in milliseconds.)

Where all services share their documents (bark.store), any of them serves any request: then none is bound to a host.

A service that speaks TLS is reached by it alone, and has to prove its host's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fleet.errors import FleetError
from fleet.inventory.gateway_settings import Upstream
from fleet.inventory.hosts import Host
from fleet.inventory.shared_documents import store_address
from fleet.inventory.types import bracketed
from voxyard.service.documents.records import PREFIX_DIGITS, instance_prefix

CERTIFICATE = "/run/secrets/gateway.pem"
"""Certificate with its chain; the key lies beside it, with the suffix .key."""
HOST_CERTIFICATE = "/run/secrets/host.pem"
"""Likewise of the host, for the metrics."""
AUTHORITIES = "/etc/voxyard/host-ca.pem"
LUA = "/etc/voxyard/frozen.lua"
STOP_SECONDS = 60
"""Seconds until the container of a gateway is killed; its open requests have less."""
PORT, METRICS_PORT, HEALTH_PORT = 8443, 9412, 9413
"""Ports inside the container; the last is there with TLS of the metrics, for the container's own health check."""
_WAITING = "abns@voxyard_:waiting"  # no host is named so
EVENTS_SECONDS, ANSWER_SECONDS, IDLE_SECONDS = 45, 20, 600
"""Silence of a service after which its request is given up: three heartbeats of an event stream; others; audio."""
FROZEN_SECONDS = 30
"""From the first check that a service does not answer until all is given up that it holds, audio too."""
_REST = f"[0-9a-f]{{{32 - PREFIX_DIGITS}}}"
_UNAVAILABLE = (
    '{"error": {"message": "no speech service answers: retry in 10 s", "type": "server_error", '
    '"code": "unavailable", "param": null}}'
)
_HEAD = """\
# Gateway of the fleet; written by fab deploy.
global
    log stdout format raw daemon notice
    fd-hard-limit 50000
    hard-stop-after {stop}s
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
    ssl-load-extra-files key
    setenv FROZEN_SECONDS {frozen}
    lua-load {lua}  # ends what a service holds that answers no check for so long

# Names in the network of the host's own services. A service that restarts has no name meanwhile, and keeps its place.
resolvers docker
    nameserver engine 127.0.0.11:53
    hold valid 1s
    hold nx 1h
    hold other 1h
    hold timeout 1h
    hold refused 1h

defaults
    mode http
    log global
    option dontlognull
    timeout connect 3s
    timeout http-request 30s
    timeout http-keep-alive 75s
    timeout client 1h  # a paused player
    timeout server {idle}s  # audio whose next chunk waits for a worker
    # A host that is cut off acknowledges nothing.
    option srvtcpka
    srvtcpka-idle 5s
    srvtcpka-intvl 2s
    srvtcpka-cnt 3
    timeout check 4s
    # A new connection for each request: one that a service closes as a request comes would be a failed request.
    http-reuse never
    # One try a second while nothing listens. Nothing was sent then: every request may be tried again.
    retries {wait}
    retry-on conn-failure
    # Faster than a service that is to stop begins to refuse; one that refuses a request gets no other before its next
    # check.
    default-server inter 1s fall 1 rise 1
    http-error status 502 content-type application/json string '{unavailable}' hdr Retry-After 10
    http-error status 504 content-type application/json string '{unavailable}' hdr Retry-After 10
    http-error status 503 content-type application/json string '{unavailable}' hdr Retry-After 10

frontend https
    bind :{port} ssl crt {certificate} alpn h2,http/1.1
    http-response set-header Strict-Transport-Security max-age=31536000
    http-response replace-header Set-Cookie '^(voxyard_session=.*)$' '\\1; Secure'
    acl documents path /v1/documents
    acl with_api_key req.hdr(Authorization) -m found
    acl with_idempotency_key req.hdr(Idempotency-Key) -m found
{ways}
    use_backend list if METH_GET documents with_api_key
    use_backend page if !with_api_key
    default_backend ready

# What waited goes on here; until a service is ready its handshake fails, and it is tried again a second later.
frontend waiting
    bind {waiting} ssl crt {certificate}
    tcp-request connection reject if {{ nbsrv(services) eq 0 }}
    acl documents path /v1/documents
    acl with_api_key req.hdr(Authorization) -m found
    use_backend list if METH_GET documents with_api_key
    use_backend page if !with_api_key
    default_backend ready

backend services
{tracking}

frontend metrics
    bind :{metrics_port}{metrics_tls}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 200 content-type text/plain string "ok" if {{ path /healthz }}
    http-request return status 404

# {work}
backend ready
    balance leastconn
    option redispatch 1{deadlines}{again}
    option httpchk GET /readyz
    http-check expect status 200
{checked}
{backup}

# The list of a client's documents: that of one host, always the same while it is ready; ?host=NAME asks another.
backend list
    balance hdr(Authorization)
    hash-type consistent
    option redispatch 1{deadlines}{again}
{tracking}
{backup}

# Browsers stay with a host.
backend page
    balance leastconn
    cookie voxyard_host insert indirect nocache httponly secure attr SameSite=Strict
    option redispatch 1{deadlines}{again}
{tracking_with_cookies}
{backup}
"""
_DEADLINES = """
    acl short method GET
    acl short req.hdr_val(Content-Length) lt 16384
    http-request set-timeout server {events}s if {{ path_end /events }}
    http-request set-timeout server {answer}s if short !{{ path_end /events /audio /speech }}"""
"""How long a service may be silent, by request: one that is frozen is found out, and one that works is not."""
_AGAIN = """
    option http-buffer-request
    retry-on conn-failure empty-response response-timeout
    http-request disable-l7-retry unless METH_GET or { req.hdr(Idempotency-Key) -m found }"""
"""Requests that may be sent twice, of a buffer's size, go to another service where one dies before its answer."""
_BY_KEY = """
# A repeated request must find its first one's document: the host by the key, also while it is away.
backend by_key
    balance hdr(Idempotency-Key)
    hash-type consistent
    retry-on conn-failure empty-response{deadlines}
{servers}
"""
_OF_ONE = """
# Documents of {name}.
backend of_{name}
    retry-on conn-failure empty-response{deadlines}
    http-request disable-l7-retry if !METH_GET
{servers}
"""


@dataclass(frozen=True, slots=True)
class _Service:
    """One speech service as a server of HAProxy."""

    name: str
    prefix: str  # of its documents' ids
    address: str
    tls: str  # options

    def pooled(self, options: str = "") -> str:
        """Line in a pool of several; `{name}` is its host."""
        number = int(self.prefix, 16) % (1 << 30) + 1  # its place among keys does not depend on the others
        return f"    server {self.name} {self.address} id {number}{options.format(name=self.name)}{self.tls}"

    def alone(self) -> str:
        """Line in a backend of its own."""
        return f"    server {self.name} {self.address}{self.tls}"


def configuration(host: Host, encrypted: Collection[str] = (), *, metrics_tls: bool = False) -> bytes:
    """Configuration of the gateway on `host`; the services of the hosts `encrypted` speak TLS.

    Raises FleetError for two speech services whose documents cannot be told apart.
    """
    services = [
        _Service(
            each.name,
            prefix,
            _dialled(each, host),
            f" ssl ssl-min-ver TLSv1.2 verify required ca-file {AUTHORITIES} verifyhost {each.name}"
            if each.name in encrypted
            else "",
        )
        for each, prefix in _with_prefixes(host.upstreams)
    ]

    def servers(options: str = "") -> str:
        return "\n".join(each.pooled(options) for each in services)

    ways = [
        f"    use_backend of_{each.name} if {{ path_reg ^/v1/documents/{each.prefix}{_REST}(/.*)?$ }}\n"
        f"    use_backend of_{each.name} if documents {{ url_param(host) -m str {each.name} }}"
        for each in services
    ]
    ways += ["    use_backend by_key if METH_POST documents with_idempotency_key with_api_key"]
    shared = _share_documents(host.upstreams)
    deadlines = _DEADLINES.format(events=EVENTS_SECONDS, answer=ANSWER_SECONDS)
    tls = f" ssl crt {HOST_CERTIFICATE}\n    bind 127.0.0.1:{HEALTH_PORT}" if metrics_tls else ""
    text = _HEAD.format(
        stop=STOP_SECONDS - 10,
        lua=LUA,
        frozen=FROZEN_SECONDS,
        wait=host.gateway.wait_seconds,
        unavailable=_UNAVAILABLE,
        port=PORT,
        metrics_port=METRICS_PORT,
        metrics_tls=tls,
        certificate=CERTIFICATE,
        ways="" if shared else "\n".join(ways),
        work="All work." if shared else "New work.",
        again=_AGAIN if shared else "",
        idle=IDLE_SECONDS,
        deadlines=deadlines,
        waiting=_WAITING,
        backup=f"    server :waiting {_WAITING} ssl verify none backup",
        checked=servers(" check observe layer4 error-limit 1 on-error mark-down"),
        tracking=servers(" track ready/{name}"),
        tracking_with_cookies=servers(" track ready/{name} cookie {name}"),
    )
    if shared:
        return text.encode()
    text += _BY_KEY.format(deadlines=deadlines, servers=servers())
    for each in services:
        text += _OF_ONE.format(name=each.name, deadlines=deadlines, servers=each.alone())
    return text.encode()


def _share_documents(upstreams: Sequence[Upstream]) -> bool:
    """True where every service finds every document."""
    stores = {None if each.store is None else store_address(each.store) for each in upstreams}
    return len(stores) == 1 and None not in stores


def _with_prefixes(upstreams: Sequence[Upstream]) -> Iterable[tuple[Upstream, str]]:
    found: dict[str, str] = {}
    for each in upstreams:
        prefix = instance_prefix(each.name)
        other = found.setdefault(prefix, each.name)
        if other != each.name:
            raise FleetError(f"ids of documents of {other} and {each.name} begin alike: rename one of them")
        yield each, prefix


def _dialled(upstream: Upstream, host: Host) -> str:
    """Address of a speech service; of the gateway's own host its name in their network, which refuses at once."""
    if upstream.name == host.name:
        return "bark:8080 resolvers docker init-addr none"
    return f"{bracketed(upstream.address)}:{upstream.port}"
