"""HAProxy's configuration: TLS, and the way of each request to a speech service.

Requests that name a document go to its host, also while that host is about to stop or restarts. New documents with an
idempotency key go to one host by that key, whatever its state: a repeated request finds the document of the first.
All other requests go to hosts that are ready, and wait for any where none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.errors import FleetError
from fleet.inventory.gateway_settings import Upstream
from fleet.inventory.hosts import Host
from voxyard.service.documents.ids import PREFIX_DIGITS, instance_prefix

CERTIFICATE = "/run/secrets/gateway.pem"
"""Certificate with its chain; the key lies beside it, with the suffix .key."""
STOP_SECONDS = 60
"""Seconds until the container of a gateway is killed; its open requests have less."""
PORT, METRICS_PORT = 8443, 9412
"""Ports inside the container."""
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
    timeout server 1h
    timeout check 4s
    # A new connection for each request: one that a service closes as a request comes would be a failed request.
    http-reuse never
    # One try a second while nothing listens. Nothing was sent then: every request may be tried again.
    retries {wait}
    retry-on conn-failure
    # Faster than a service that is to stop begins to refuse.
    default-server inter 1s fall 1 rise 1
    http-error status 502 content-type application/json string '{unavailable}' hdr Retry-After 10
    http-error status 503 content-type application/json string '{unavailable}' hdr Retry-After 10

frontend https
    bind :{port} ssl crt {certificate} alpn h2,http/1.1
    http-response set-header Strict-Transport-Security max-age=31536000
    http-response replace-header Set-Cookie '^(voxyard_session=.*)$' '\\1; Secure'
    acl documents path /v1/documents
    acl with_api_key req.hdr(Authorization) -m found
    acl with_idempotency_key req.hdr(Idempotency-Key) -m found
{ways}
    use_backend by_key if METH_POST documents with_idempotency_key with_api_key
    use_backend waiting if {{ nbsrv(ready) eq 0 }}
    use_backend list if METH_GET documents with_api_key
    use_backend page if !with_api_key
    default_backend ready

frontend metrics
    bind :{metrics_port}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 200 content-type text/plain string "ok" if {{ path /healthz }}
    http-request return status 404

# New work.
backend ready
    balance leastconn
    option redispatch 1
    option httpchk GET /readyz
    http-check expect status 200
{checked}

# The list of a client's documents: that of one host, always the same while it is ready; ?host=NAME asks another.
backend list
    balance hdr(Authorization)
    hash-type consistent
    option redispatch 1
{tracking}

# Browsers stay with a host.
backend page
    balance leastconn
    cookie voxyard_host insert indirect nocache httponly secure attr SameSite=Strict
    option redispatch 1
{tracking_with_cookies}

# No host is ready: the first that begins to listen.
backend waiting
    balance roundrobin
    option redispatch 1
{plain}

# A repeated request must find its first one's document: the host by the key, also while it is away.
backend by_key
    balance hdr(Idempotency-Key)
    hash-type consistent
    retry-on conn-failure empty-response
{plain}
"""
_OF_ONE = """
# Documents of {name}.
backend of_{name}
    retry-on conn-failure empty-response
    http-request disable-l7-retry if !METH_GET
    server {name} {address}
"""


def configuration(host: Host) -> bytes:
    """Configuration of the gateway on `host`.

    Raises FleetError for two speech services whose documents cannot be told apart.
    """
    found = [(each, prefix, _dialled(each, host)) for each, prefix in _with_prefixes(host.upstreams)]

    def servers(options: str = "") -> str:
        return "\n".join(
            f"    server {each.name} {address} id {int(prefix, 16) % (1 << 30) + 1}{options.format(name=each.name)}"
            for each, prefix, address in found
        )

    ways = (
        f"    use_backend of_{each.name} if {{ path_reg ^/v1/documents/{prefix}{_REST}(/.*)?$ }}\n"
        f"    use_backend of_{each.name} if documents {{ url_param(host) -m str {each.name} }}"
        for each, prefix, _ in found
    )
    text = _HEAD.format(
        stop=STOP_SECONDS - 10,
        wait=host.gateway.wait_seconds,
        unavailable=_UNAVAILABLE,
        port=PORT,
        metrics_port=METRICS_PORT,
        certificate=CERTIFICATE,
        ways="\n".join(ways),
        plain=servers(),
        checked=servers(" check"),
        tracking=servers(" track ready/{name}"),
        tracking_with_cookies=servers(" track ready/{name} cookie {name}"),
    )
    return (text + "".join(_OF_ONE.format(name=each.name, address=address) for each, _, address in found)).encode()


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
    return f"[{upstream.address}]:{upstream.port}" if ":" in upstream.address else f"{upstream.address}:{upstream.port}"
