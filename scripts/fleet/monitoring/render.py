"""Renders monitoring configuration from the inventory: Alertmanager configuration, Prometheus targets."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from fleet.errors import FleetError
from fleet.inventory.hosts import Host, Inventory
from fleet.inventory.monitoring_settings import AlertReceiver
from fleet.inventory.ray_clusters import HEAD, WORKER
from fleet.inventory.types import bracketed
from voxyard.speech.cluster.ports import node_ports

ALERTMANAGER_FILE = "alertmanager/alertmanager.yml"
TARGETS = "prometheus/targets"
NODES = ("cluster-head", "cluster-worker")
"""Jobs for nodes of Ray clusters."""
PLAIN = (*NODES, "custom")
"""Jobs of services that speak plain HTTP, whatever certificate their host has."""
JOBS = ("exporter", "trainer", "bark", "gateway", "node", *PLAIN)
"""Jobs of Prometheus for the services of hosts, each with a file of targets."""
CA_FILE = "host-ca.pem"
"""Beside Prometheus's configuration: the roots of the hosts' certificates."""
SECRETS = PurePosixPath("/etc/voxyard")
"""Mount point of secrets in Alertmanager's container, one file each."""
MAIL_RELAY, MAIL_PASSWORD = "alert-mail-relay", "alert-mail-password"
"""Secret with the mail relay URL (smtp://…), and the password file extracted from it."""

_SWITCHES = {"yes": True, "true": True, "no": False, "false": False}
_RUNBOOK = b"runbook_url: deploy/prometheus/runbook.md#"

WATCHDOG = "watchdog"
"""Receiver of the Watchdog alert only; without it all receivers get the alert, once a day."""
DAILY = "24h"
SENDER = "voxyard@localhost"


OWN_RELAY: Mapping[str, object] = {
    "smtp_smarthost": "host.docker.internal:25", "smtp_from": SENDER, "smtp_require_tls": True,
}  # fmt: skip
"""Alertmanager's settings of a mail relay on the monitoring host itself."""


def mail_relay(secrets: Mapping[str, bytes]) -> tuple[Mapping[str, object], Mapping[str, bytes]]:
    """Alertmanager's settings for the secret MAIL_RELAY, and its password secret; the host's own relay without it.

    smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS&tls=no; only HOST is required, special characters are percent-encoded.
    Raises FleetError, without content of the secret.
    """
    if MAIL_RELAY not in secrets:
        return OWN_RELAY, {}
    wanted = "expected smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS&tls=no, special characters as %40"
    try:
        found = urlsplit(secrets[MAIL_RELAY].decode().strip())
        query = found.query.replace("+", "%2B")  # of an address, which is no blank
        host, port, more = found.hostname, found.port, parse_qs(query, strict_parsing=bool(query))
    except ValueError:
        raise FleetError(f"the secret {MAIL_RELAY} is not a mail relay URL: {wanted}") from None
    tls = _SWITCHES.get(more.get("tls", ["yes"])[0])
    good = found.scheme == "smtp" and found.path in ("", "/") and {"from", "tls"} >= more.keys()
    if not good or not host or tls is None or found.fragment or (found.password and not found.username):
        raise FleetError(f"the secret {MAIL_RELAY} is not a mail relay URL: {wanted}")
    settings: dict[str, object] = {
        "smtp_smarthost": _at(host, port or 587),
        "smtp_from": more.get("from", [SENDER])[0],
        "smtp_require_tls": tls,
    }
    if found.username:
        settings["smtp_auth_username"] = unquote(found.username)
    if not found.password:
        return settings, {}
    settings["smtp_auth_password_file"] = str(SECRETS / MAIL_PASSWORD)
    return settings, {MAIL_PASSWORD: unquote(found.password).encode()}


def base_configuration(path: Path) -> Mapping[str, Any]:
    """Alertmanager configuration of the repository, without receivers. Raises FleetError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FleetError(f"{path}: cannot be read: {error}") from None
    if not isinstance(document, dict) or not {"route", "receivers"} <= document.keys():
        raise FleetError(f"{path}: expected an Alertmanager configuration with route and receivers")
    return document


def render_configuration(
    inventory: Inventory,
    alertmanager: Mapping[str, Any],
    relay: Mapping[str, object] = OWN_RELAY,
    encrypted: Collection[str] = (),
) -> dict[str, bytes]:
    """Files rendered from the inventory, by path on the monitoring host.

    `alertmanager` is the result of `base_configuration`; the relay is used for mail receivers only. The services of
    the hosts `encrypted` speak TLS.
    Raises FleetError for a receiver whose secret is outside of the secrets mount.
    """
    # Prometheus keeps old targets for a file without groups: write a group without targets.
    files = {
        f"{TARGETS}/{job}.yaml": _yaml(groups or [{"targets": []}])
        for job, groups in _targets(inventory.hosts, encrypted).items()
    }
    files[ALERTMANAGER_FILE] = _yaml(_alertmanager(inventory.alert_receivers, alertmanager, relay))
    return files


def webhook_secrets(inventory: Inventory) -> tuple[str, ...]:
    """Names of the secrets that the receivers of the inventory need. Raises FleetError as render_configuration does."""
    files = [_secret(each.webhook_url_file, each.name) for each in inventory.alert_receivers if each.webhook_url_file]
    return tuple(dict.fromkeys(PurePosixPath(file).name for file in files))


def with_runbook(rules: bytes, url: str | None) -> bytes:
    """A file of rules whose alerts lead to the runbook at `url`, which a mail can open; None: to its path here."""
    return rules if url is None else rules.replace(_RUNBOOK, f"runbook_url: {url}#".encode())


def with_authorities(prometheus: bytes) -> bytes:
    """Prometheus's configuration, with the roots of the hosts' certificates in the jobs of their services."""
    document = yaml.safe_load(prometheus)
    for job in document["scrape_configs"]:
        if job["job_name"] in JOBS and job["job_name"] not in PLAIN:
            job["tls_config"] = {"ca_file": CA_FILE}
    return _yaml(document)


def _targets(hosts: Iterable[Host], encrypted: Collection[str]) -> dict[str, list[dict[str, object]]]:
    hosts = tuple(hosts)

    def target(host: Host, address: str, *, ours: bool = True) -> dict[str, object]:
        scheme = {"__scheme__": "https"} if ours and host.name in encrypted else {}
        return {"targets": [address], "labels": {"host": host.name, **scheme}}

    def node(host: Host, role: Literal["head", "worker"]) -> dict[str, object]:
        return target(host, _at(host.ray_address, node_ports(role).own_metrics), ours=False)

    return {
        # Without GPUs the exporter would always report a missing driver.
        "exporter": [target(host, _at(_exporter(host), host.exporter_port)) for host in hosts if host.gpus != 0],
        "trainer": [
            target(host, _at(host.address, host.trainer.metrics_port)) for host in hosts if "trainer" in host.roles
        ],
        "bark": [
            target(host, _at(host.bark.address or host.address, host.bark.port))
            for host in hosts
            if "bark" in host.roles
        ],
        "gateway": [
            target(host, _at(_exporter(host), host.gateway.metrics_port)) for host in hosts if "gateway" in host.roles
        ],
        "node": [
            target(host, _at(_exporter(host), host.node_exporter_port), ours=host.node_exporter) for host in hosts
        ],
        "custom": [
            {
                "targets": [_at(each.metrics.address, each.metrics.port)],
                "labels": {"host": host.name, "workload": name, "__metrics_path__": each.metrics.path},
            }
            for host in hosts
            for name, each in host.own_services.items()
            if each.metrics is not None
        ],
        **{f"cluster-{role}": [node(host, role) for host in hosts if role in host.roles] for role in (HEAD, WORKER)},
    }


def _exporter(host: Host) -> str:
    return host.exporter_address or host.address


def _at(address: str, port: int) -> str:
    return f"{bracketed(address)}:{port}"


def _alertmanager(
    receivers: Iterable[AlertReceiver], document: Mapping[str, Any], relay: Mapping[str, object]
) -> Mapping[str, Any]:
    receivers = tuple(receivers)
    all_receivers = [each for each in receivers if each.name != WATCHDOG]
    monitoring_hosts = [each for each in receivers if each.name == WATCHDOG]
    result: dict[str, Any] = copy.deepcopy(dict(document))
    if not monitoring_hosts:
        for route in result["route"]["routes"]:
            if route["receiver"] == WATCHDOG:
                route["repeat_interval"] = DAILY
    if any(each.email for each in receivers):
        result = {"global": dict(relay), **result}
    receivers_by_name = {"operators": all_receivers, WATCHDOG: monitoring_hosts or all_receivers}
    result["receivers"] = [
        {**receiver, **_channels(receivers_by_name.get(receiver["name"], ()), resolved=receiver["name"] != WATCHDOG)}
        for receiver in result["receivers"]
    ]
    return result


def _channels(receivers: Iterable[AlertReceiver], *, resolved: bool) -> dict[str, object]:
    mails = [{"to": each.email, "send_resolved": resolved} for each in receivers if each.email]
    hooks = [
        {"url_file": _secret(each.webhook_url_file, each.name), "send_resolved": resolved}
        for each in receivers
        if each.webhook_url_file
    ]
    return {name: configs for name, configs in (("email_configs", mails), ("webhook_configs", hooks)) if configs}


def _secret(path: str, whose: str) -> str:
    """Path of a secret file, which Alertmanager reads; validated."""
    there = PurePosixPath(path)
    if there.parent != SECRETS or there.name in ("", "..") or not there.name.startswith("alert-"):
        raise FleetError(
            f"{whose}: the file {path}: expected {SECRETS}/alert-…: add the secret to the secrets file under that "
            "name, and use this path"
        )
    return str(there)


def _yaml(document: object) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()
