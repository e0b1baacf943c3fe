"""Alert routing and inhibition in a real Alertmanager on loopback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from alert_rules import ROOT, alerts, labels_of, run
from eventually import PATIENCE
from monitoring_programs import Alertmanager
from monitoring_programs import alertmanager as running_alertmanager

from fleet.errors import FleetError
from fleet.inventory.hosts import Bark, Host, Inventory, Trainer, load
from fleet.inventory.monitoring_settings import AlertReceiver
from fleet.monitoring.render import OWN_RELAY, base_configuration, mail_relay, render_configuration

CONFIGURATION = ROOT / "deploy/alertmanager/alertmanager.yml"
INHIBITIONS = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["inhibit_rules"]

Labels = dict[str, str]


@pytest.fixture(scope="module")
def alertmanager(alertmanager_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """An Alertmanager with the project's configuration."""
    with running_alertmanager(alertmanager_program, CONFIGURATION, tmp_path_factory.mktemp("alertmanager")) as started:
        yield started


def matches(labels: Mapping[str, str], matchers: list[str]) -> bool:
    """True where an alert fulfils the matchers."""
    for matcher in matchers:
        name, operator, value = re.fullmatch(r'(\w+)(=~?|!=)"(.+)"', matcher).groups()  # type: ignore[union-attr]
        pattern = value if operator == "=~" else re.escape(value)
        if bool(re.fullmatch(pattern, labels.get(name, ""))) == (operator == "!="):
            return False
    return True


def pairs(inhibition: Mapping[str, Any]) -> list[tuple[Labels, Labels]]:
    """Source and target with the labels that the rules give them, as one event of one host, GPU and run."""
    known = [labels_of(name) for name in alerts()]
    sources = [each for each in known if matches(each, inhibition["source_matchers"])]
    targets = [each for each in known if matches(each, inhibition["target_matchers"])]
    found = []
    for source in sources:
        for target in targets:
            shared = [name for name in inhibition["equal"] if name != "family"]  # that is the alert's own
            where = {name: source[name] for name in shared if name in source and name in target}
            if all(({**target, **where}).get(name) == source.get(name) for name in inhibition["equal"]):
                found.append((source, {**target, **where}))
    return found


@pytest.mark.parametrize("number", range(len(INHIBITIONS)))
def test_the_worse_alert_silences_the_other_here_and_not_elsewhere(alertmanager: Alertmanager, number: int) -> None:
    inhibition = INHIBITIONS[number]
    cases = pairs(inhibition)
    assert cases, "no alert of ours is meant by this rule"
    posted, silenced, heard = [], [], []
    for case, (source, target) in enumerate(cases):
        here = {"instance": f"rule-{number}-case-{case}"}
        posted += [{**source, **here}, {**target, **here}]
        silenced.append({**target, **here})
        for label in inhibition["equal"]:
            if label == "family" or (label not in target and label != "cluster"):
                continue
            there = {"instance": f"rule-{number}-case-{case}-{label}"}
            posted += [{**source, **there}, {**target, **there, label: f"another-{number}-{case}"}]
            heard.append({**target, **there, label: f"another-{number}-{case}"})

    alertmanager.post(posted)

    deadline = time.monotonic() + PATIENCE  # what silences others hears of an alert a moment after it was taken
    while True:
        format_value = {json.dumps(each["labels"], sort_keys=True): each["status"] for each in alertmanager.alerts()}
        status = [format_value[json.dumps(labels, sort_keys=True)] for labels in silenced]
        if all(each["inhibitedBy"] and each["state"] == "suppressed" for each in status):
            break
        heard_still = [labels for labels, each in zip(silenced, status, strict=True) if not each["inhibitedBy"]]
        assert time.monotonic() < deadline, heard_still
        time.sleep(0.1)
    for labels in heard:
        assert format_value[json.dumps(labels, sort_keys=True)]["inhibitedBy"] == [], labels


@pytest.mark.parametrize(
    ("source", "target", "label"),
    [
        ("ExporterDown", "GpuLost", "instance"),
        ("ExporterCollectFailing", "GpuLost", "instance"),
        ("GpuLost", "GpuUtilizationLow", "uuid"),
        ("GpuThermalSlowdown", "GpuUtilizationLow", "uuid"),
        ("GpuXidCritical", "GpuXidWarning", "uuid"),
        ("GpuRowRemapFailure", "GpuThermalSlowdown", None),  # of another family
        ("TrainingStalled", "TrainingInputBound", "run"),
        ("WorkloadDown", "GpuLost", None),
        ("HostMaintenance", "GpuLost", "cluster"),  # a host of the same name in another cluster
    ],
)
def test_another_host_gpu_run_or_family_is_heard(
    alertmanager: Alertmanager, source: str, target: str, label: str | None
) -> None:
    shared = {"instance": f"apart-{source}-{target}-{label}", "cluster": "north"}
    for name in ("uuid", "run"):
        if name in labels_of(source) and name in labels_of(target):
            shared[name] = labels_of(source)[name]
    heard = {**labels_of(target), **shared} | ({label: f"not-{shared[label]}"} if label else {})

    alertmanager.post([{**labels_of(source), **shared}, heard])

    (format_value,) = [each for each in alertmanager.alerts() if each["labels"] == heard]
    assert format_value["status"]["inhibitedBy"] == []


def test_alerts_of_others_silence_none_of_theirs(alertmanager: Alertmanager) -> None:
    heard = {"alertname": "CertificateExpires", "severity": "warning"}

    alertmanager.post([{"alertname": "DatabaseGone", "severity": "critical"}, heard])

    (format_value,) = [each for each in alertmanager.alerts() if each["labels"] == heard]
    assert format_value["status"]["inhibitedBy"] == []


@pytest.mark.parametrize("source", ["ExporterDown", "ExporterCollectFailing"])
def test_what_another_exporter_of_the_host_tells_is_heard(alertmanager: Alertmanager, source: str) -> None:
    there = {"instance": f"two-exporters-{source}"}
    heard = {**labels_of("GpuLost"), **there, "job": "dcgm"}

    alertmanager.post([{**labels_of(source), **there, "job": "exporter", "gpus": "known"}, heard])

    (format_value,) = [each for each in alertmanager.alerts() if each["labels"] == heard]
    assert format_value["status"]["inhibitedBy"] == []


def test_what_must_be_silenced_is() -> None:
    """By name: a rule that means no alert of ours any more would pass otherwise."""
    meant = {(source["alertname"], target["alertname"]) for rule in INHIBITIONS for source, target in pairs(rule)}
    gpu = {name for name, rule in alerts().items() if rule["labels"]["family"].startswith("gpu-")}
    assert {("ExporterDown", name) for name in gpu} <= meant
    assert {("ExporterCollectFailing", name) for name in gpu} <= meant
    assert {
        (worse, low)
        for worse in ("GpuLost", "GpuXidCritical", "GpuThermalSlowdown", "GpuPowerBrake")
        for low in ("GpuUtilizationLow", "DataGpuUtilizationLow")
    } <= meant
    assert {
        ("GpuRowRemapFailure", "GpuRowRemapPending"),
        ("GpuXidCritical", "GpuXidWarning"),
        ("TrainingStalled", "TrainingInputBound"),
        ("TrainingStalled", "TrainingStepTimeUnstable"),
        ("BarkWorkersDown", "BarkQueueGrowing"),
        ("HostGone", "ServiceRestarting"),
        ("HostRebooting", "ServiceRestarting"),
        ("HostRebooting", "TrainingCrashLoop"),
        ("GpuFlapping", "GpuLost"),
        ("ServiceRestarting", "BarkWorkersDown"),
        ("WorkloadDown", "ServiceRestarting"),
        ("ExporterDown", "ServiceRestarting"),
    } <= meant
    assert ("GpuLost", "GpuFlapping") not in meant  # each would silence the other
    sent = {name for name, rule in alerts().items() if rule["labels"]["severity"] != "none"}
    assert {target for source, target in meant if source == "HostMaintenance"} == sent
    others = {pair for pair in meant if pair[0] not in ("HostGone", "HostMaintenance")}
    assert not [pair for pair in others if pair[1] in ("WorkloadDown", "Watchdog", "ExporterDown")]
    assert {("HostGone", name) for name in ("ExporterDown", "NodeExporterDown", "WorkloadDown")} <= meant


@pytest.mark.parametrize(
    ("alert", "receiver"),
    [
        ("Watchdog", "watchdog"),
        ("DataGpuUtilizationLow", "nobody"),
        ("GpuUtilizationLow", "operators"),
        ("GpuLost", "operators"),
        ("WorkloadDown", "operators"),
    ],
)
def test_an_alert_goes_to(amtool: str, alert: str, receiver: str) -> None:
    labels = [f"{name}={value}" for name, value in labels_of(alert).items()]
    done = run(amtool, "config", "routes", "test", f"--config.file={CONFIGURATION}", *labels)
    assert done.stdout.split()[-1] == receiver


def inventory(*receivers: AlertReceiver) -> Inventory:
    hosts = (
        Host("gpu-01", "192.0.2.11", "voxyard", roles=("trainer", "bark"), gpus=4, trainer=Trainer(metrics_port=9511)),
        Host(
            "gpu-02",
            "2001:db8::2",
            "voxyard",
            roles=("bark",),
            exporter_address="192.0.2.12",
            exporter_port=9500,
            bark=Bark(port=8088),
        ),
        Host("watch-01", "192.0.2.20", "voxyard", roles=("monitoring",), gpus=0),
    )
    return Inventory(Path("hosts.yaml"), hosts, receivers)


MAIL = AlertReceiver("on-call", email="on-call@lab.example")
CHAT = AlertReceiver("chat", webhook_url_file="/etc/voxyard/alert-chat")
RELAY = {"alert-mail-relay": b"smtp://v:secret@mail"}
SWITCH = AlertReceiver("watchdog", webhook_url_file="/etc/voxyard/alert-dead-mans-switch")


def rendered(*receivers: AlertReceiver, relay: Mapping[str, object] = OWN_RELAY) -> dict[str, Any]:
    """The Alertmanager configuration of these receivers."""
    document: dict[str, Any] = yaml.safe_load(
        render_configuration(inventory(*receivers), base_configuration(CONFIGURATION), relay)[
            "alertmanager/alertmanager.yml"
        ]
    )
    return document


def receivers_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in document["receivers"]}


def watchdog_route(document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["route"]["routes"] if each["receiver"] == "watchdog")
    return found


@pytest.mark.parametrize("receivers", [(), (MAIL,), (CHAT,), (MAIL, CHAT, SWITCH)])
def test_amtool_finds_no_fault_in_what_is_rendered(
    amtool: str, tmp_path: Path, receivers: tuple[AlertReceiver, ...]
) -> None:
    document = rendered(*receivers, relay=mail_relay(RELAY)[0])
    for receiver in document["receivers"]:
        for hook in receiver.get("webhook_configs", ()):
            # Alertmanager knows url_file from 0.26 on, which is what runs; the amtool of a distribution may be older.
            hook["url"] = f"http://127.0.0.1{hook.pop('url_file')}"
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(document))
    done = run(amtool, "check-config", tmp_path / "alertmanager.yml")
    assert done.returncode == 0, done.stdout
    assert run(amtool, "check-config", CONFIGURATION).returncode == 0


def test_secrets_are_named_by_their_files_alone() -> None:
    document = rendered(MAIL, CHAT, relay=mail_relay(RELAY)[0])
    operators = receivers_of(document)["operators"]
    assert operators["email_configs"] == [{"to": "on-call@lab.example", "send_resolved": True}]
    assert operators["webhook_configs"] == [{"url_file": "/etc/voxyard/alert-chat", "send_resolved": True}]
    assert document["global"]["smtp_auth_password_file"] == "/etc/voxyard/alert-mail-password"
    assert "smtp_auth_password" not in document["global"]


@pytest.mark.parametrize(
    "path", ["/home/me/alert-hook", "alert-hook", "/etc/voxyard/../alert-x", "/etc/voxyard", "/etc/voxyard/hook"]
)
def test_a_secret_that_the_container_does_not_see_is_refused(path: str) -> None:
    with pytest.raises(FleetError, match=r"chat: the file .* expected /etc/voxyard/alert-…: add"):
        rendered(replace(CHAT, webhook_url_file=path))


def test_nobody_is_told_that_a_watchdog_has_resolved_and_who_gets_it_is_the_inventorys() -> None:
    alone = rendered(MAIL)
    assert watchdog_route(alone)["repeat_interval"] == "24h"
    assert receivers_of(alone)["watchdog"]["email_configs"] == [{"to": MAIL.email, "send_resolved": False}]

    with_switch = rendered(MAIL, SWITCH)
    assert watchdog_route(with_switch)["repeat_interval"] == "5m"
    assert "email_configs" not in receivers_of(with_switch)["watchdog"]
    assert "webhook_configs" not in receivers_of(with_switch)["operators"]


def test_mail_settings_are_there_only_where_somebody_gets_mail() -> None:
    assert "global" not in rendered(CHAT)
    assert rendered(MAIL)["global"]["smtp_smarthost"]


@pytest.mark.parametrize(
    ("address", "relay", "password"),
    [
        (
            "smtp://mail.lab.example",
            {
                "smtp_smarthost": "mail.lab.example:587",
                "smtp_from": "voxyard@localhost",
                "smtp_require_tls": True,
            },
            None,
        ),
        (
            "smtp://voxyard%40lab:p%23ss@mail.lab.example:25?from=v@lab.example&tls=no",
            {
                "smtp_smarthost": "mail.lab.example:25",
                "smtp_from": "v@lab.example",
                "smtp_require_tls": False,
                "smtp_auth_username": "voxyard@lab",
                "smtp_auth_password_file": "/etc/voxyard/alert-mail-password",
            },
            b"p#ss",
        ),
        (
            "smtp://[2001:db8::1]?from=ops+gpu@lab.example&tls=false",
            {"smtp_smarthost": "[2001:db8::1]:587", "smtp_from": "ops+gpu@lab.example", "smtp_require_tls": False},
            None,
        ),
    ],
)
def test_the_mail_relay_is_one_secret_and_its_password_a_file(
    address: str, relay: dict[str, object], password: bytes | None
) -> None:
    found, made = mail_relay({"alert-mail-relay": address.encode()})
    assert found == relay
    assert made.get("alert-mail-password") == password


@pytest.mark.parametrize(
    "address",
    [
        "mail:25",
        "http://mail",
        "smtp://",
        "smtp://mail:port",
        "smtp://mail/x",
        "smtp://:secret@mail",
        "smtp://mail?to=x",
        "smtp://mail?tls=off",
        "smtp://voxyard:12#secret@mail",  # wekan/wekan#1845
    ],
)
def test_a_mail_relay_that_is_none_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(FleetError, match="alert-mail-relay is not a mail relay URL") as error:
        mail_relay({"alert-mail-relay": address.encode()})
    assert "secret@mail" not in str(error.value)


def test_targets_are_named_after_the_hosts_of_the_inventory() -> None:
    files = render_configuration(inventory(), base_configuration(CONFIGURATION))
    found = {
        name: {group["labels"]["host"]: group["targets"] for group in yaml.safe_load(body) if group["targets"]}
        for name, body in files.items()
        if name.startswith("prometheus/targets/")
    }
    assert found == {
        "prometheus/targets/exporter.yaml": {"gpu-01": ["192.0.2.11:9410"], "gpu-02": ["192.0.2.12:9500"]},
        "prometheus/targets/trainer.yaml": {"gpu-01": ["192.0.2.11:9511"]},
        "prometheus/targets/bark.yaml": {"gpu-01": ["192.0.2.11:8080"], "gpu-02": ["[2001:db8::2]:8088"]},
        "prometheus/targets/gateway.yaml": {},
        "prometheus/targets/custom.yaml": {},
        "prometheus/targets/cluster-head.yaml": {},
        "prometheus/targets/cluster-worker.yaml": {},
        "prometheus/targets/node.yaml": {
            "gpu-01": ["192.0.2.11:9100"],
            "gpu-02": ["192.0.2.12:9100"],  # where its exporter listens, too
            "watch-01": ["192.0.2.20:9100"],
        },
    }


def test_the_same_inventory_gives_the_same_files_and_leaves_the_base_alone() -> None:
    document = base_configuration(CONFIGURATION)
    first = render_configuration(inventory(MAIL, CHAT), document)
    assert render_configuration(inventory(MAIL, CHAT), document) == first
    assert document == base_configuration(CONFIGURATION)


def test_the_example_inventory_is_rendered() -> None:
    files = render_configuration(load(ROOT / "deploy/hosts.example.yaml"), base_configuration(CONFIGURATION))
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    read = {file for job in jobs for config in job.get("file_sd_configs", ()) for file in config["files"]}
    made = {name.removeprefix("prometheus/") for name in files if name.startswith("prometheus/targets/")}
    assert made == read - {"targets/dcgm.yaml"}  # which a site writes by hand


@pytest.mark.parametrize("text", ["", "route: [", "- a list", "route: {}"])
def test_a_base_that_is_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text(text)
    with pytest.raises(FleetError, match=r"alertmanager\.yml: "):
        base_configuration(path)
