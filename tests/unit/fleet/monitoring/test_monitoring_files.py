"""Files of `fab monitoring`, from repository, inventory and the operator's additions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fleet_doubles import host

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.hosts import AlertReceiver, Inventory
from fleet.inventory.secrets import Secrets, versioned
from fleet.monitoring.check import check_here, refusal
from fleet.monitoring.export import write
from fleet.monitoring.images import find, pinned
from fleet.monitoring.release import MonitoringImage, MonitoringRelease, parse, read_inputs, render

ROOT = Path(__file__).resolve().parents[4]
SECRETS = {"grafana-admin-password": b"a-long-password", "alert-chat": b"https://chat.lab.example/secret-hook"}
FLEET = Inventory(
    Path("hosts.yaml"),
    (host(gpus=2), host(name="watch-01", roles=("monitoring",), gpus=0)),
    (AlertReceiver("chat", webhook_url_file="/etc/voxyard/alert-chat"),),
)


def image(number: int) -> LocalImage:
    return LocalImage(f"sha256:{number:064x}", ("sha256:a", f"sha256:{number}"), 1 << 20, "voxyard-prometheus")


PICTURES = {
    name: MonitoringImage(f"voxyard-{name}:{number:012x}", image(number))
    for number, name in enumerate(("prometheus", "alertmanager", "grafana", "node-exporter"), 1)
}


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
    program_images: dict[str, MonitoringImage] = PICTURES,
) -> MonitoringRelease:
    return render(fleet, read_inputs(ROOT, site), Secrets(secrets), program_images, 1000, 1001)


def configs(release: MonitoringRelease) -> dict[str, str]:
    return {each.name: each.config for each in release.manifest.programs}


def again(release: MonitoringRelease) -> dict[str, str]:
    return {each.name: each.files for each in release.manifest.programs}


def test_the_same_gives_the_same_and_its_manifest_can_be_read_back(site: Path) -> None:
    first, second = made(site), made(site)
    assert first == second
    assert parse(dict(first.files)["release.json"]) == first.manifest


def test_other_targets_are_another_release_whose_containers_stay(site: Path) -> None:
    first = made(site)
    second = made(site, replace(FLEET, hosts=(*FLEET.hosts, host(name="gpu-02", address="192.0.2.12"))))
    assert second.id != first.id
    assert configs(second) == configs(first)
    assert [name for name in again(first) if again(first)[name] != again(second)[name]] == ["prometheus"]
    assert second.manifest.targets - first.manifest.targets == {
        ("exporter", "gpu-02"), ("trainer", "gpu-02"), ("node", "gpu-02"),
    }  # fmt: skip


def test_a_program_is_recreated_for_its_image_its_secret_its_variable_and_no_other_is(site: Path) -> None:
    first = configs(made(site))

    def changed(release: MonitoringRelease) -> set[str]:
        return {name for name, config in configs(release).items() if config != first[name]}

    assert changed(
        made(site, program_images=PICTURES | {"grafana": MonitoringImage("voxyard-grafana:x", image(9))})
    ) == {"grafana"}
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
    assert {"prometheus/site/dcgm.yaml", "prometheus/targets/dcgm.yaml", "site.yaml"} <= set(files)
    assert ("site/dcgm.yaml", "voxyard-layer-dcgm") in release.manifest.groups
    assert release.manifest.program("grafana") is None
    assert release.manifest.compose_files == ("monitoring.yaml", "site.yaml", "host.yaml")
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


def test_secrets_are_in_no_file_and_no_representation(site: Path) -> None:
    release = made(site)
    assert release.secrets == {versioned(name, value): value for name, value in SECRETS.items()}
    for value in SECRETS.values():
        assert not any(value in content for _, content in release.files)
        assert value.decode() not in repr(release)
    document = yaml.safe_load(dict(release.files)["host.yaml"])
    assert document["services"]["alertmanager"]["secrets"] == [
        {"source": "alert-chat", "target": "/etc/voxyard/alert-chat"}
    ]
    assert document["services"]["grafana"]["secrets"] == ["grafana-admin-password"]
    files = {name: f"../../secrets/{versioned(name, value)}" for name, value in SECRETS.items()}
    assert document["secrets"] == {name: {"file": file} for name, file in files.items()}


def test_an_image_is_pinned_or_here_or_named_as_missing() -> None:
    wanted = {"prometheus": "prom/prometheus:v1", "grafana": "grafana/grafana:v1"}

    def local(name: str, program: str) -> LocalImage:
        if program == "grafana":
            raise FleetError(f"no image {name} here")
        return image(5)

    pinned = {"grafana/grafana:v1": "grafana/grafana@sha256:aa"}
    found = find(wanted, pinned, local)
    assert found["grafana"] == MonitoringImage("grafana/grafana@sha256:aa")
    assert found["prometheus"] == MonitoringImage("voxyard-prometheus:000000000000", image(5))
    with pytest.raises(FleetError, match=r"no image grafana/grafana:v1 on this machine: docker pull it"):
        find(wanted, {}, local)


def test_the_lock_says_which_digest_a_name_stands_for(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    digest = f"sha256:{'a' * 64}"
    lock = f"a: {{image: 'prom/prometheus:v1', digest: '{digest}'}}\nb: {{image: 'prom/x:v1', digest: unresolved}}\n"
    (tmp_path / "images/digests.lock").write_text(lock)
    assert pinned(tmp_path) == {"prom/prometheus:v1": f"prom/prometheus@{digest}"}


def test_a_job_without_a_host_has_a_group_without_targets(site: Path) -> None:
    files = dict(made(site).files)
    assert yaml.safe_load(files["prometheus/targets/bark.yaml"]) == [{"targets": []}]


def test_for_this_machine_the_files_are_written_and_secrets_are_not(site: Path, tmp_path: Path) -> None:
    release = made(site)
    write(release, tmp_path / "out")
    command = write(release, tmp_path / "out")  # in the place of those
    live = tmp_path / "out/monitoring/live"
    assert {str(path.relative_to(live)) for path in live.rglob("*") if path.is_file()} == set(dict(release.files))
    assert list((tmp_path / "out/secrets").iterdir()) == []
    assert (tmp_path / "out/data/prometheus").is_dir()
    assert f"--file {live}/monitoring.yaml --file {live}/host.yaml up" in command


def test_a_directory_that_cannot_be_written_is_reported_with_the_fix(site: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FleetError, match="name another directory with --out"):
        write(made(site), tmp_path / "taken")


def test_without_promtool_here_the_host_decides(site: Path) -> None:
    assert check_here(made(site), "no-such-promtool") is False


def test_a_refusal_is_its_reason_alone() -> None:
    said = "Checking prometheus.yml\n SUCCESS: 1 rule files found\n\nChecking a.yaml\n  FAILED:\na.yaml: 1:5: bad\n"
    assert refusal(said) == "a.yaml: 1:5: bad"
    assert refusal("Error response from daemon") == "Error response from daemon"
