"""A host with the role monitoring, which watches another: scrapes, alerts, silences, reloads, rollback."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from eventually import PATIENCE, eventually
from fast_clock import sped_up_rules
from tests.fleet import operators
from tests.fleet.bed import watchers
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.bed.registry import Registry

from fleet.inventory.hosts import load
from fleet.monitoring.silence import AlertmanagerSilencer

patiently = partial(eventually, seconds=2 * PATIENCE, every=1.0)

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "relay-Secret-4711"
EXPORTER_PAGE = """voxyard_exporter_collect_success 1
voxyard_configuration_expected_info{workload="bark",config="aaaaaaaaaaaa",release="r1"} 1
"""
SITE_COMPOSE = """services:
  grafana: !reset null  # its image is in no Debian package
"""
Answer = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Operator:
    """Operator: a copy of the repository with faster rules, and a fleet's file with a directory of additions."""

    tree: Path
    folder: Path
    environment: Mapping[str, str]

    @property
    def inventory(self) -> Path:
        return self.folder / "hosts.yaml"

    def fab(self, *arguments: str) -> Answer:
        program = str(Path(sys.executable).with_name("fab"))
        command = [program, "--search-root", str(self.tree / "scripts"), "monitoring"]
        command += ["--inventory", str(self.inventory), *arguments]
        return operators.run_fab(self.tree, command, self.environment)

    def good(self, *arguments: str) -> Answer:
        done = self.fab(*arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    @contextmanager
    def changed(self, name: str, text: str) -> Iterator[None]:
        """A file beside the inventory is another for a while."""
        path = self.folder / name
        before = path.read_text() if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        try:
            yield
        finally:
            path.unlink() if before is None else path.write_text(before)


@dataclass(frozen=True)
class Fleet:
    """A host that watches, and one that is watched."""

    monitoring_host: GpuHost
    watched: GpuHost
    operator: Operator

    def ask(self, port: int, path: str) -> Any:
        """Response of Prometheus or Alertmanager on the loopback of its host."""
        program = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}{path}').read().decode())"
        return json.loads(self.monitoring_host.run(f'python3 -c "{program}"').stdout)

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(9090, f"/api/v1/query?query={quote(expression)}")["data"]["result"]
        return found

    def alerts(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self.ask(9093, "/api/v2/alerts") if each["labels"]["alertname"] == name]

    def traces(self) -> tuple[str, dict[str, str]]:
        """All that a deploy leaves: files with times and modes, and when each container was started."""
        found = "find releases config secrets current audit.jsonl lock* -printf '%p %T@ %m %l\\n' 2>/dev/null; true"
        return self.monitoring_host.run(f"cd ~voxyard/.voxyard && {found}", check=False).stdout, self.started()

    def started(self) -> dict[str, str]:
        ids = "$(docker ps -q --filter label=com.docker.compose.project=voxyard)"
        shape = '{{index .Config.Labels "voxyard.role"}} {{.State.StartedAt}}'
        lines = self.monitoring_host.run(f"docker inspect --format '{shape}' {ids}", check=False).stdout.splitlines()
        return dict(line.split() for line in lines)

    def current(self) -> str:
        return operators.current(self.monitoring_host)

    def read(self) -> str:
        """Version of the files that Prometheus reads."""
        return self.monitoring_host.run("readlink ~voxyard/.voxyard/config/prometheus/current").stdout.strip()

    def audit(self) -> list[dict[str, str]]:
        return [
            json.loads(line)
            for line in self.monitoring_host.run("cat ~voxyard/.voxyard/audit.jsonl").stdout.splitlines()
        ]


def unwrapped(done: Answer) -> str:
    """Output without the line breaks of a table."""
    return " ".join(f"{done.stdout} {done.stderr}".split())


def write_tree(folder: Path) -> Path:
    """The repository's own files, with rules and scrapes that are in a hurry.

    Five seconds are for a machine that does much else: a scrape has as long to be answered, and 300 rules to be found.
    """
    shutil.copy(ROOT / "fabfile.py", folder)
    for name in ("scripts", "deploy", "grafana", "images"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "hosts.yaml"))
    for path in (folder / "deploy/prometheus/rules").glob("*.yaml"):
        path.write_text(yaml.safe_dump(sped_up_rules(path)), encoding="utf-8")
    for name in (
        "prometheus/prometheus.yml",
        "compose/monitoring.yaml",
        "compose/exporter.yaml",
        "compose/node-exporter.yaml",
    ):
        path = folder / "deploy" / name
        path.write_text(re.sub(r"(interval|timeout): .*", r"\1: 5s", path.read_text("utf-8")), "utf-8")
    return folder


def write_inventory(folder: Path, monitoring_host: GpuHost, watched: GpuHost, **more: Any) -> None:
    def entry(host: GpuHost, **own: Any) -> dict[str, Any]:
        login = {"address": host.address, "port": host.port, "user": host.user}
        return login | {"known_hosts": str(host.known_hosts)} | own

    document = {
        "hosts": {
            "gpu-01": entry(watched, **{"roles": ["trainer"], **more}),
            "watch-01": entry(monitoring_host, roles=["monitoring"], gpus=0, secrets="secrets.yaml"),
        },
        "alert_receivers": [{"name": "on-call", "email": "on-call@lab.example"}],
        "rollout": {"min_healthy_seconds": 1},
    }
    (folder / "hosts.yaml").write_text(yaml.safe_dump(document))


@pytest.fixture(scope="module")
def fleet(
    engine: Engine, base_image: str, registry: Registry, gpu_host: HostFactory, tmp_path_factory: pytest.TempPathFactory
) -> Fleet:
    """Two hosts, one of which tells metrics where its exporter would."""
    names = watchers.build(engine)
    pinned = f"{registry.address}/alertmanager@{registry.push(names['ALERTMANAGER'], 'alertmanager')}"
    operators.fake_image(engine, base_image, "exporter")
    monitoring_host, watched = gpu_host.several(
        HostSpec("watch-01", gpus=[], toolkit=False), HostSpec("gpu-01", mount_driver=True)
    )
    folder, tree = tmp_path_factory.mktemp("operator"), write_tree(tmp_path_factory.mktemp("tree"))
    (folder / "site").mkdir()
    (folder / "site/compose.yaml").write_text(SITE_COMPOSE)
    (folder / "site/monitoring.env").write_text(f"VOXYARD_ALERTMANAGER_IMAGE={pinned}\n")
    secrets = folder / "secrets.yaml"
    secrets.touch(0o600)
    secrets.write_text(f"alert-mail-relay: smtp://voxyard:{PASSWORD}@127.0.0.1:2525?from=v@lab.example&tls=no\n")
    write_inventory(folder, monitoring_host, watched)
    operator = Operator(tree, folder, operators.environment(engine))
    found = Fleet(monitoring_host, watched, operator)
    start_exporter(watched)
    return found


def start_exporter(host: GpuHost) -> None:
    """Something that answers where the exporter would."""
    host.write("/srv/metrics", EXPORTER_PAGE)
    server = "python3 -m http.server 9410 --directory /srv"
    host.run(f"cd / && {{ setsid {server} >/dev/null 2>&1 </dev/null & echo $! > /run/exporter.pid; }}")


def stop_exporter(host: GpuHost) -> None:
    host.run("kill $(cat /run/exporter.pid)")


@pytest.fixture(scope="module")
def said(fleet: Fleet) -> dict[str, Answer]:
    """Output of three runs on a host that had nothing: check, deploy, deploy again."""
    before = fleet.traces()
    looked = fleet.operator.fab("--check", "--exit-code")
    assert fleet.traces() == before
    first = fleet.operator.good()
    # a busy machine may be late with an answer to a health check, which another run would mend
    eventually(lambda: fleet.operator.fab("--check", "--exit-code").returncode == 0)
    return {"check": looked, "first": first, "again": fleet.operator.good()}


def test_check_shows_what_would_change_and_changes_nothing(said: dict[str, Answer]) -> None:
    assert said["check"].returncode == 1
    for step in (
        "send image voxyard-prometheus:",
        "pull image",
        "/alertmanager@sha256:",
        "write release",
        "alert-mail-password",
        "start prometheus",
    ):
        assert step in said["check"].stdout
    assert "grafana" not in said["check"].stdout


def test_prometheus_knows_the_targets_of_the_inventory_and_scrapes_them(said: dict[str, Answer], fleet: Fleet) -> None:
    def known() -> set[tuple[str, str]]:
        return {(each["metric"]["job"], each["metric"]["instance"]) for each in fleet.query("up")}

    ours = {("exporter", "gpu-01"), ("trainer", "gpu-01"), ("node", "gpu-01"), ("node", "watch-01")}
    patiently(lambda: ours <= known(), "all targets are scraped")
    up = ('up{job="exporter",instance="gpu-01"} == 1', 'up{job="node",instance="watch-01"} == 1')
    for expression in up:
        patiently(lambda: fleet.query(expression), expression)  # noqa: B023 - called at once
    assert fleet.query('voxyard_configuration_expected_info{instance="gpu-01",workload="bark"}')


def test_a_host_with_gpus_gets_a_node_exporter_that_alerts_on_disks_and_memory_can_use(
    said: dict[str, Answer], fleet: Fleet, engine: Engine, base_image: str, tmp_path: Path
) -> None:
    for role in ("exporter", "trainer"):
        operators.fake_image(engine, base_image, role)
    own = {"roles": ["trainer"], "gpus": 2, "node_exporter": True, "exporter_port": 9500}
    path = operators.write_fleet(tmp_path, {"gpu-01": operators.entry(fleet.watched, **own)})
    operator = operators.Operator(path, operators.environment(engine))
    assert "start node-exporter: no container" in operator.good("deploy")
    assert operator.good("status").count("running, healthy") == 2
    for ratio in ("voxyard:host_disk_available:ratio", "voxyard:host_memory_available:ratio"):
        patiently(lambda: fleet.query(f'{ratio}{{instance="gpu-01"}}'), ratio)  # noqa: B023 - called at once
    assert fleet.query('node_network_receive_bytes_total{instance="gpu-01",device="eth0"}'), "the host's own network"
    process = fleet.watched.run("docker exec voxyard-node-exporter-1 grep -E '^(Uid|CapEff)' /proc/self/status").stdout
    assert process.split()[:2] + process.split()[-2:] == ["Uid:", "65534", "CapEff:", "0000000000000000"]


def test_a_second_time_there_is_nothing_to_do_and_nothing_is_done(said: dict[str, Answer], fleet: Fleet) -> None:
    assert "nothing to do" in said["again"].stdout
    before = fleet.traces()
    assert "nothing to do on any host" in fleet.operator.good().stderr
    assert fleet.operator.fab("--check", "--exit-code").returncode == 0
    assert fleet.traces() == before


def test_an_exporter_that_stops_reaches_alertmanager_and_is_silenced_for_a_while(
    said: dict[str, Answer], fleet: Fleet
) -> None:
    silencer = AlertmanagerSilencer(load(fleet.operator.inventory).hosts)
    stop_exporter(fleet.watched)
    try:
        patiently(lambda: fleet.alerts("ExporterDown"), "ExporterDown in Alertmanager")
        (alert,) = fleet.alerts("ExporterDown")
        assert alert["labels"]["instance"] == "gpu-01"
        with silencer.silenced(["gpu-01"], "a deploy") as made:
            assert fleet.alerts("ExporterDown")[0]["status"]["silencedBy"] == [each.id for each in made]
        assert fleet.alerts("ExporterDown")[0]["status"]["silencedBy"] == []
    finally:
        start_exporter(fleet.watched)


def test_other_targets_are_a_reload_and_no_restart(said: dict[str, Answer], fleet: Fleet) -> None:
    before = fleet.started()
    write_inventory(fleet.operator.folder, fleet.monitoring_host, fleet.watched, roles=["trainer", "bark"])
    try:
        done = fleet.operator.good()
    finally:
        write_inventory(fleet.operator.folder, fleet.monitoring_host, fleet.watched)
    assert "reload prometheus" in done.stdout
    assert "reload alertmanager" not in done.stdout
    assert "start" not in done.stdout
    patiently(lambda: fleet.query('up{job="bark",instance="gpu-01"}'), "the new target is scraped")
    fleet.operator.good()
    assert fleet.started() == before
    patiently(lambda: not fleet.query('up{job="bark",instance="gpu-01"}'), "the target is gone")


BROKEN = "groups:\n  - name: mine\n    rules:\n      - {record: 'a:b:c', expr: 'sum(up'}\n"


def test_rules_that_prometheus_would_refuse_never_get_there(said: dict[str, Answer], fleet: Fleet) -> None:
    current, started, read = fleet.current(), fleet.started(), fleet.read()
    with fleet.operator.changed("site/rules/mine.yaml", BROKEN):
        done = fleet.operator.fab()
    assert done.returncode == 1
    assert "unclosed left parenthesis" in unwrapped(done)
    assert (fleet.current(), fleet.started()) == (current, started)
    assert fleet.read() == read
    assert fleet.query("up")
    assert "nothing to do" in fleet.operator.good().stdout


def test_secrets_are_their_containers_alone_and_nowhere_else(said: dict[str, Answer], fleet: Fleet) -> None:
    listed = fleet.monitoring_host.run("cd ~voxyard/.voxyard/secrets && stat -c '%n %a %u' . *").stdout.split("\n")
    uid = fleet.monitoring_host.run("id -u voxyard").stdout.strip()
    assert f". 700 {uid}" in listed
    (password,) = [each for each in listed if each.startswith("alert-mail-password.")]
    assert password.endswith(" 600 65532")
    inside = "docker exec voxyard-alertmanager-1 cat /etc/voxyard/alert-mail-password"
    assert fleet.monitoring_host.run(inside).stdout == PASSWORD
    found = fleet.monitoring_host.run(
        f"cd ~voxyard/.voxyard && grep -rlF {PASSWORD} . || true; "
        f"docker inspect $(docker ps -aq) | grep -cF {PASSWORD} || true; "
        f"for each in $(docker ps -aq); do docker logs $each 2>&1; done | grep -cF {PASSWORD} || true"
    ).stdout.split()
    assert found == [f"./secrets/{password.split()[0]}", "0", "0"]
    assert not any(PASSWORD in each.stdout + each.stderr for each in said.values())


def test_programs_run_as_a_user_of_their_own_and_are_confined(said: dict[str, Answer], fleet: Fleet) -> None:
    assert set(fleet.started()) == {"exporter", "prometheus", "alertmanager", "node-exporter"}
    for program in ("prometheus", "alertmanager"):
        status = fleet.monitoring_host.run(f"docker exec voxyard-{program}-1 cat /proc/1/status").stdout
        assert re.search(r"^Uid:\s+65532\s", status, re.MULTILINE)
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    owners = fleet.monitoring_host.run("stat -c %u ~voxyard/.voxyard/data/prometheus/*").stdout.split()
    assert set(owners) == {"65532"}


def test_old_ones_are_removed_and_three_stay(said: dict[str, Answer], fleet: Fleet) -> None:
    for number in range(3):
        rules = BROKEN.replace("sum(up", f"sum(up) + {number}")
        with fleet.operator.changed("site/rules/mine.yaml", rules):
            assert "+++ b/prometheus/site/mine.yaml" in fleet.operator.good().stdout
    there = fleet.monitoring_host.run("ls ~voxyard/.voxyard/releases").stdout.split()
    assert len(there) == 3
    assert fleet.current() in there
    patiently(lambda: fleet.query("a:b:c"), "the new rule is evaluated")
    fleet.operator.good()
