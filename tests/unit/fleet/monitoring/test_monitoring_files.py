"""The role monitoring as a part of a release: repository, inventory and the operator's additions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fleet_doubles import facts, host

from fleet.certificates import make
from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.host_tls import with_tls
from fleet.inventory.hosts import Host, Inventory
from fleet.inventory.monitoring_settings import AlertReceiver, MonitoringSettings
from fleet.inventory.ray_clusters import RayNode
from fleet.inventory.secrets import Secrets, read, versioned
from fleet.monitoring.export import write
from fleet.monitoring.role import monitoring_part, read_inputs
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.inputs import ReleaseInputs
from fleet.release.manifest import Manifest, manifest_of
from fleet.release.release import Release, render
from fleet.release.service import RolePart
from fleet.render.monitors import base_files

ROOT = Path(__file__).resolve().parents[4]
SECRETS = {"grafana-admin-password": b"a-long-password", "alert-chat": b"https://chat.lab.example/secret-hook"}
FLEET = Inventory(
    Path("hosts.yaml"),
    (host(gpus=2), host(name="watch-01", roles=("monitoring",), gpus=0, node_exporter=True)),
    (AlertReceiver("chat", webhook_url_file="/etc/voxyard/alert-chat"),),
)


def image(number: int) -> LocalImage:
    return LocalImage(f"sha256:{number:064x}", ("sha256:a", f"sha256:{number}"), 1 << 20, "voxyard-prometheus")


IMAGES = {name: image(number) for number, name in enumerate(("prometheus", "alertmanager", "grafana"), 1)}
EXPORTERS = {"exporter": image(8), "node-exporter": image(9)}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The directory of the operator's additions, empty."""
    path = tmp_path / "site"
    path.mkdir()
    return path


def made(
    site: Path,
    fleet: Inventory = FLEET,
    secrets: dict[str, bytes] = SECRETS,
    images: dict[str, LocalImage] = IMAGES,
) -> Release:
    """Release of the monitoring host."""
    watcher = fleet.hosts[1]
    names = ("exporter.yaml", "node-exporter.yaml", "cpu.yaml")
    inputs = ReleaseInputs(
        EXPORTERS,
        {name: (ROOT / "deploy/compose" / name).read_bytes() for name in names},
        parts=(part(site, fleet, secrets, images),),
    )
    return render(watcher, assign(facts(gpus=()), watcher), LoginInfo("192.0.2.9", gpus=False), inputs)


def part(
    site: Path,
    fleet: Inventory = FLEET,
    secrets: dict[str, bytes] = SECRETS,
    images: dict[str, LocalImage] = IMAGES,
) -> RolePart:
    encrypted = with_tls((each.name, each.secrets) for each in fleet.hosts)
    return monitoring_part(fleet, read_inputs(ROOT, site), Secrets(secrets), images, encrypted=encrypted)


def manifest(release: Release) -> Manifest:
    return manifest_of(release)


def configs(release: Release) -> dict[str, str]:
    return {each.name: each.config for each in release.services}


def read_anew(release: Release) -> dict[str, str]:
    return {each.name: each.files.digest for each in release.services if each.files is not None}


def shown(release: Release) -> str:
    """Answers that Prometheus must give before it counts as healthy."""
    (files,) = [each.files for each in manifest(release).services if each.name == "prometheus"]
    assert files is not None
    return str(dict(files.shown))


def test_the_same_gives_the_same_and_all_services_are_in_one_release(site: Path) -> None:
    first, second = made(site), made(site)
    assert first == second
    names = ["exporter", "node-exporter", "prometheus", "alertmanager", "grafana"]
    assert [each.name for each in manifest(first).services] == names
    assert set(manifest(first).secrets or ()) == {versioned(name, value) for name, value in SECRETS.items()}


def test_other_targets_are_another_release_whose_containers_stay(site: Path) -> None:
    first = made(site)
    second = made(site, replace(FLEET, hosts=(*FLEET.hosts, host(name="gpu-02", address="192.0.2.12"))))
    assert second.id != first.id
    assert configs(second) == configs(first)
    assert [name for name, files in read_anew(first).items() if files != read_anew(second)[name]] == ["prometheus"]
    for job in ("exporter", "trainer", "node"):
        text = f'"labels":{{"instance":"gpu-02","job":"{job}"}}'
        assert (text in shown(first), text in shown(second)) == (False, True)


def test_dashboards_are_read_anew_and_provisioning_only_at_a_start(site: Path) -> None:
    inputs, first = read_inputs(ROOT, site), part(site)

    def with_more(name: str) -> Release:
        more = replace(inputs, files={**inputs.files, name: b"{}"})
        other = monitoring_part(FLEET, more, Secrets(SECRETS), IMAGES)
        watcher = FLEET.hosts[1]
        found = ReleaseInputs(EXPORTERS, {}, parts=(other,))
        return render(watcher, assign(facts(gpus=()), watcher), LoginInfo("192.0.2.9", gpus=False), found)

    board, source = with_more("grafana/dashboards/x.json"), with_more("grafana/provisioning/x.yaml")
    assert read_anew(board)["grafana"] != next(each.files.digest for each in first.services[2:] if each.files)
    assert configs(board)["grafana"] != configs(source)["grafana"]
    assert configs(board)["grafana"] == configs(with_more("grafana/dashboards/y.json"))["grafana"]


@pytest.mark.slow
def test_a_program_is_recreated_for_its_image_its_secret_its_variable_and_no_other_is(site: Path) -> None:
    first = configs(made(site))

    def changed(release: Release) -> set[str]:
        return {name for name, config in configs(release).items() if config != first[name]}

    assert changed(made(site, images=IMAGES | {"grafana": image(7)})) == {"grafana"}
    assert changed(made(site, secrets=SECRETS | {"alert-chat": b"https://elsewhere"})) == {"alertmanager"}
    assert changed(made(site, secrets=SECRETS | {"grafana-admin-password": b"another-one"})) == {"grafana"}
    (site / "monitoring.env").write_text("# how long\nVOXYARD_METRICS_RETENTION=30d\n")
    assert changed(made(site)) == {"prometheus"}


def test_the_operators_additions_are_in_it(site: Path) -> None:
    (site / "rules").mkdir()
    (site / "rules/dcgm.yaml").write_bytes((ROOT / "deploy/prometheus/dcgm.yaml").read_bytes())
    (site / "targets").mkdir()
    (site / "targets/dcgm.yaml").write_text("- {targets: ['192.0.2.11:9400'], labels: {host: gpu-01}}\n")
    (site / "compose.yaml").write_text("services: {grafana: !reset null, prometheus: {mem_limit: 8g}}\n")
    release = made(site, secrets={"alert-chat": b"https://chat"})
    files = dict(release.files)
    assert {"prometheus/site/dcgm.yaml", "prometheus/targets/dcgm.yaml", "monitoring-site.yaml"} <= set(files)
    assert '"name":"voxyard-layer-dcgm","file":"/etc/voxyard/config/current/site/dcgm.yaml"' in shown(release)
    assert release.service("grafana") is None
    assert not any(name.startswith("grafana/") for name in files)
    assert release.compose_files[-3:] == ("monitoring.yaml", "monitoring-site.yaml", "monitoring-secrets.yaml")
    assert configs(release)["prometheus"] != configs(made(site / "none"))["prometheus"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("compose.yaml", "services: {proxy: {image: nginx}}", r"proxy: expected changes of prometheus"),
        ("monitoring.env", "VOXYARD_METRIC_RETENTION=1d", r"monitoring\.env:1: expected NAME=VALUE"),
        ("monitoring.env", "\nVOXYARD_UID=0", r"monitoring\.env:2: expected NAME=VALUE"),
        ("rules/mine.yaml", "groups: [", r"prometheus/site/mine\.yaml: not a Prometheus rule file"),
        ("targets/trainer.yaml", "[]", r"targets/trainer\.yaml: this name is used by a generated file"),
    ],
)
def test_errors_in_the_operators_files_are_named(site: Path, name: str, text: str, said: str) -> None:
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text(text)
    with pytest.raises(FleetError, match=said):
        made(site)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_missing_is_named(site: Path, name: str) -> None:
    with pytest.raises(FleetError, match=f"needs the secret {name}"):
        made(site, secrets={each: value for each, value in SECRETS.items() if each != name})


@pytest.mark.parametrize("said", [b"chat.lab.example/hook", b"token", b"ftp://chat", b"https://"])
def test_a_webhook_that_is_no_url_is_named_without_its_words(site: Path, said: bytes) -> None:
    with pytest.raises(FleetError, match=r"the secret alert-chat is no webhook: expected its whole URL") as caught:
        made(site, secrets=SECRETS | {"alert-chat": said})
    assert said not in str(caught.value).replace("https://…", "").encode()


def test_secrets_are_in_no_file_and_no_representation(site: Path) -> None:
    release = made(site)
    assert release.secrets == {versioned(name, value): value for name, value in SECRETS.items()}
    for value in SECRETS.values():
        assert not any(value in content for _, content in release.files)
        assert value.decode() not in repr(release)
    document = yaml.safe_load(dict(release.files)["monitoring-secrets.yaml"])
    assert document["services"]["alertmanager"]["secrets"] == [
        {"source": "alert-chat", "target": "/etc/voxyard/alert-chat"}
    ]
    assert document["services"]["grafana"]["secrets"] == ["grafana-admin-password"]
    files = {name: f"../../secrets/{versioned(name, value)}" for name, value in SECRETS.items()}
    assert document["secrets"] == {name: {"file": file} for name, file in files.items()}


def test_a_job_without_a_host_has_a_group_without_targets(site: Path) -> None:
    files = dict(made(site).files)
    assert yaml.safe_load(files["prometheus/targets/bark.yaml"]) == [{"targets": []}]


def test_for_this_machine_the_files_are_written_and_secrets_are_not(site: Path, tmp_path: Path) -> None:
    exported = part(site)
    write(exported, {}, tmp_path / "out")
    command = write(exported, {"VOXYARD_GRAFANA_IMAGE": "mine:1"}, tmp_path / "out")  # in the place of those
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    read = {"/current/".join(["config/" + name.partition("/")[0], name.partition("/")[2]]) for name in exported.files}
    release = tmp_path / "out/releases/local"
    assert there == read | {f"releases/local/{name}" for name in (*exported.compose, "voxyard.env")}
    assert "VOXYARD_GRAFANA_IMAGE=mine:1\n" in (release / "voxyard.env").read_text()
    assert list((tmp_path / "out/secrets").iterdir()) == []
    assert (tmp_path / "out/data/prometheus").is_dir()
    assert f"--file {release}/monitoring.yaml --file {release}/monitoring-secrets.yaml up" in command


def test_a_directory_that_cannot_be_written_is_reported_with_the_fix(site: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FleetError, match="name another directory with --out"):
        write(part(site), {}, tmp_path / "taken")


def test_hosts_with_certificates_are_asked_over_tls_and_verified(site: Path, tmp_path: Path) -> None:
    path = make(tmp_path, FLEET.hosts, []).path
    secured = replace(FLEET.hosts[0], secrets=(path,), roles=("bark", "trainer", "gateway"))
    own = replace(
        FLEET.hosts[0], name="gpu-02", address="192.0.2.12", secrets=(path,)
    )  # with a node_exporter of its own
    fleet = replace(FLEET, hosts=(secured, FLEET.hosts[1], own))
    roots = read(path).values["host-ca"]
    files = dict(made(site, fleet, SECRETS | {"host-ca": roots}).files)
    schemes = {
        (job, group["labels"]["host"]): group["labels"].get("__scheme__")
        for job in ("exporter", "trainer", "bark", "gateway", "node")
        for group in yaml.safe_load(files[f"prometheus/targets/{job}.yaml"])
    }
    of_one = {(job, "gpu-01"): "https" for job in ("exporter", "trainer", "bark", "gateway")}
    of_two = {(job, "gpu-02"): "https" for job in ("exporter", "trainer")}
    plain = {("node", name): None for name in ("gpu-01", "watch-01", "gpu-02")}
    assert schemes == of_one | of_two | plain
    jobs = yaml.safe_load(files["prometheus/prometheus.yml"])["scrape_configs"]
    verified = {each["job_name"] for each in jobs if each.get("tls_config") == {"ca_file": "host-ca.pem"}}
    assert verified == {"exporter", "trainer", "bark", "gateway", "node"}
    assert files["prometheus/host-ca.pem"] == roots
    with pytest.raises(FleetError, match="gpu-01, gpu-02 speak TLS, and Prometheus has no host-ca to verify them"):
        made(site, fleet)


def test_nodes_of_a_ray_cluster_are_targets_at_their_addresses_in_it(site: Path) -> None:
    desk = Host("desk", "desk.lab", "voxyard", roles=("head", "worker"), ray=RayNode("lab", "10.0.0.1"))
    gpu = Host("gpu-07", "10.0.0.7", "voxyard", roles=("worker",), ray=RayNode("lab"))
    files = part(site, replace(FLEET, hosts=(desk, gpu))).files
    found = {job: yaml.safe_load(files[f"prometheus/targets/cluster-{job}.yaml"]) for job in ("head", "worker")}
    assert found == {
        "head": [{"targets": ["10.0.0.1:8184"], "labels": {"host": "desk"}}],
        "worker": [
            {"targets": ["10.0.0.1:8084"], "labels": {"host": "desk"}},
            {"targets": ["10.0.0.7:8084"], "labels": {"host": "gpu-07"}},
        ],
    }


def runbook_urls(content: bytes) -> set[str]:
    """Links of the alerts of a file of rules, up to their anchors."""
    rules = [rule for group in yaml.safe_load(content)["groups"] for rule in group["rules"]]
    return {rule["annotations"]["runbook_url"].partition("#")[0] for rule in rules if "alert" in rule}


def test_alerts_lead_to_the_runbook_where_the_inventory_says_that_it_is_read(site: Path) -> None:
    """A mail cannot open a path of the repository."""
    url = "https://git.lab.example/voxyard/runbook.md"
    named = replace(FLEET, monitoring=MonitoringSettings(runbook_url=url))
    for fleet, wanted in ((FLEET, "deploy/prometheus/runbook.md"), (named, url)):
        files = {name: content for name, content in part(site, fleet).files.items() if "/rules/" in name}
        found = [runbook_urls(content) for content in files.values()]
        assert {wanted} in found
        assert all(each in ({wanted}, set()) for each in found)
    (rules,) = [content for name, content in base_files(ROOT, url).items() if name == "rules.yaml"]
    assert rules.count(f"runbook_url: {url}#".encode()) > 10
    assert b"deploy/prometheus/runbook.md" not in rules
