"""What `fab monitoring` leaves for Prometheus and Alertmanager."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fleet.errors import FleetError
from fleet.inventory import load
from fleet.monitoring import base, render, write

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_inventory_becomes_whole_files(tmp_path: Path) -> None:
    files = render(load(ROOT / "deploy/hosts.example.yaml"), base(ROOT / "deploy/alertmanager/alertmanager.yml"))
    for _ in range(2):  # a second time changes nothing
        write(files, tmp_path / "out")

    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == set(files)
    assert (tmp_path / "out/site").is_dir()
    assert yaml.safe_load((tmp_path / "out/targets/exporter.yaml").read_text())


def test_a_directory_that_cannot_be_written_is_said_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")

    with pytest.raises(FleetError, match="name another directory with --out"):
        write({"alertmanager.yml": b""}, tmp_path / "taken")
