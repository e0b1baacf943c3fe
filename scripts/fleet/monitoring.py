"""What the monitoring host reads, made from the inventory: Alertmanager's configuration and Prometheus's targets."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.inventory import AlertReceiver, Host, Inventory

ALERTMANAGER_FILE = "alertmanager.yml"
SECRETS = PurePosixPath("/etc/voxyard")
"""Where files with secrets lie on the monitoring host; the one directory of it that Alertmanager's container sees."""

NODE_PORT = 9100
TRAINER_PORT = 9411  # `voxyard train --metrics-port`
BARK_PORT = 8080  # the speech service tells its metrics beside its API
NODE_BESIDE = f"node-exporter:{NODE_PORT}"  # the monitoring host's own, by its name in compose/monitoring.yaml

WATCHDOG = "watchdog"
"""An inventory's receiver of this name gets the sign of life alone; without it the others get it, once a day."""
DAILY = "24h"


@dataclass(frozen=True, slots=True)
class MailRelay:
    """The mail server that takes Alertmanager's mails; its password, where it wants one, lies in a file."""

    smarthost: str = "host.docker.internal:25"  # the monitoring host's own
    sender: str = "voxyard@localhost"
    username: str | None = None
    password_file: str | None = None  # on the monitoring host
    require_tls: bool = True


def base(path: Path) -> Mapping[str, Any]:
    """The Alertmanager configuration of the repository, without receivers. Raises FleetError where it cannot be."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FleetError(f"{path}: cannot be read: {error}") from None
    if not isinstance(document, dict) or not {"route", "receivers"} <= document.keys():
        raise FleetError(f"{path}: expected an Alertmanager configuration with route and receivers")
    return document


def render(inventory: Inventory, alertmanager: Mapping[str, Any], relay: MailRelay | None = None) -> dict[str, bytes]:
    """The files that the inventory decides, by their paths on the monitoring host.

    `alertmanager` is what `base` gives; the relay is asked for only where somebody is to get mail.
    Raises FleetError for a receiver whose secret lies where Alertmanager's container does not see it.
    """
    files = {f"targets/{job}.yaml": _yaml(groups) for job, groups in _targets(inventory.hosts).items()}
    files[ALERTMANAGER_FILE] = _yaml(_alertmanager(inventory.alert_receivers, alertmanager, relay or MailRelay()))
    return files


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Put the files there, each at once when it is whole: Prometheus reads targets as soon as they change.

    Raises FleetError where that cannot be done.
    """
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(content)
            part.replace(path)
        (folder / "site").mkdir(exist_ok=True)
    except OSError as error:
        raise FleetError(f"{folder}: cannot be written: {error}; name another directory with --out") from None


def _targets(hosts: Iterable[Host]) -> dict[str, list[dict[str, object]]]:
    hosts = tuple(hosts)
    return {
        # An exporter without GPUs says for ever that no driver answers.
        "exporter": [_target(host, _at(_exporter(host), host.exporter_port)) for host in hosts if host.gpus != 0],
        "trainer": [_target(host, _at(host.address, TRAINER_PORT)) for host in hosts if "trainer" in host.roles],
        "bark": [_target(host, _at(host.address, BARK_PORT)) for host in hosts if "bark" in host.roles],
        "node": [
            _target(host, NODE_BESIDE if "monitoring" in host.roles else _at(host.address, NODE_PORT)) for host in hosts
        ],
    }


def _target(host: Host, address: str) -> dict[str, object]:
    return {"targets": [address], "labels": {"host": host.name}}


def _exporter(host: Host) -> str:
    return host.exporter_address or host.address


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _alertmanager(
    receivers: Iterable[AlertReceiver], document: Mapping[str, Any], relay: MailRelay
) -> Mapping[str, Any]:
    receivers = tuple(receivers)
    everyone = [each for each in receivers if each.name != WATCHDOG]
    watchers = [each for each in receivers if each.name == WATCHDOG]
    result: dict[str, Any] = copy.deepcopy(dict(document))
    if not watchers:
        for route in result["route"]["routes"]:
            if route["receiver"] == WATCHDOG:
                route["repeat_interval"] = DAILY
    if any(each.email for each in receivers):
        result = {"global": _relay(relay), **result}
    heard = {"operators": everyone, WATCHDOG: watchers or everyone}
    result["receivers"] = [
        {**receiver, **_channels(heard.get(receiver["name"], ()), resolved=receiver["name"] != WATCHDOG)}
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


def _relay(relay: MailRelay) -> dict[str, object]:
    settings: dict[str, object] = {
        "smtp_smarthost": relay.smarthost,
        "smtp_from": relay.sender,
        "smtp_require_tls": relay.require_tls,
    }
    if relay.username is not None:
        settings["smtp_auth_username"] = relay.username
    if relay.password_file is not None:
        settings["smtp_auth_password_file"] = _secret(relay.password_file, "the mail relay")
    return settings


def _secret(path: str, whose: str) -> str:
    """Only the path: what is in the file is read by Alertmanager alone."""
    there = PurePosixPath(path)
    if SECRETS not in there.parents or ".." in there.parts:
        raise FleetError(f"{whose}: the file {path}: expected one under {SECRETS} on the monitoring host: put it there")
    return str(there)


def _yaml(document: object) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()
