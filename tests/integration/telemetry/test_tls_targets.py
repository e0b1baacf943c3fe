"""A real Prometheus with a release's targets asks real exporters over TLS, which have a release's web configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from exporters import BIN
from fake_driver import FakeDriver
from free_ports import free_port
from gateway_certificate import new_authority
from monitoring_programs import prometheus
from programs import program
from scenario import GpuState, Scenario

from fleet.inventory.hosts import Host, Inventory
from fleet.monitoring.render import CA_FILE, base_configuration, render_configuration, with_authorities
from fleet.release import tls

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running(*command: str, environment: dict[str, str] | None = None) -> Iterator[None]:
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("signed_by", ["its authority", "another"])
def test_exporter_and_node_exporter_are_asked_over_tls_and_their_certificates_verified(
    driver: FakeDriver, prometheus_program: str, tmp_path: Path, signed_by: str
) -> None:
    node_exporter = program("node_exporter")
    ours, other = new_authority(tmp_path / "ours", "localhost"), new_authority(tmp_path / "other", "localhost")
    own = (ours if signed_by == "its authority" else other).of_host("gpu-01", "127.0.0.1")
    web = yaml.safe_load(tls.files(own)[tls.WEB_FILE])["tls_server_config"]
    for key, content in (("cert_file", own.certificate), ("key_file", own.key)):
        (tmp_path / key).write_bytes(content)
        assert web[key].startswith("/run/secrets/host-")
        web[key] = str(tmp_path / key)
    (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": web}))
    ports = free_port(), free_port()
    on = Host("gpu-01", "127.0.0.1", "voxyard", exporter_port=ports[0], node_exporter_port=ports[1])
    there = Host("gpu-02", "127.0.0.1", "voxyard", node_exporter=False, gpus=0, node_exporter_port=free_port())
    files = render_configuration(
        Inventory(Path("hosts.yaml"), (on, there)),
        base_configuration(ROOT / "deploy/alertmanager/alertmanager.yml"),
        encrypted=("gpu-01", "gpu-02"),
    )
    folder = tmp_path / "prometheus"
    (folder / "targets").mkdir(parents=True)
    for name, content in files.items():
        if name.startswith("prometheus/targets"):
            (tmp_path / name).write_bytes(content)
    text = with_authorities((ROOT / "deploy/prometheus/prometheus.yml").read_bytes()).decode()
    configuration = folder / "prometheus.yml"
    configuration.write_text(text.replace("scrape_interval: 15s", "scrape_interval: 1s").replace(": 10s", ": 1s"))
    (folder / CA_FILE).write_bytes(ours.root.read_bytes())
    checked = subprocess.run([program("promtool"), "check", "config", configuration], capture_output=True)
    assert checked.returncode == 0, checked.stderr
    environment = driver.environment_of(Scenario([GpuState.default(0)]), path=tmp_path / "scenario")
    asked = [str(BIN / "voxyard"), "exporter", "--host", "127.0.0.1", "--port", str(ports[0])]
    with (
        running(*asked, "--web-config", str(tmp_path / "web.yaml"), environment=environment),
        running(
            node_exporter, f"--web.listen-address=127.0.0.1:{ports[1]}", f"--web.config.file={tmp_path / 'web.yaml'}"
        ),
        prometheus(prometheus_program, configuration) as server,
    ):
        both = 'count(up{job=~"exporter|node",instance="gpu-01"} == %d) == 2'
        server.until(both % (signed_by == "its authority"), 60, say=f"both are {signed_by}'s")
        targets = {
            (each["labels"]["job"], each["labels"]["instance"]): each
            for each in server.ask("targets", state="active")["activeTargets"]
        }
        assert targets["node", "gpu-02"]["scrapeUrl"].startswith("http://")  # a node_exporter of its own
        for job in ("exporter", "node"):
            found = targets[job, "gpu-01"]
            assert found["scrapeUrl"].startswith("https://127.0.0.1:")
            assert ("unknown authority" in found["lastError"]) == (signed_by == "another"), found["lastError"]
