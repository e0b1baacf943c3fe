"""SBOM: package lists of an image, and the CycloneDX document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx_schema import problems

from fleet.errors import FleetError
from fleet.images.contents import debian_packages
from fleet.images.image import LocalImage
from fleet.images.sbom import PROGRAM, read_contents, render, write_sbom

IMAGE = LocalImage("sha256:" + "ab" * 32, (), 7, "voxyard-bark")
FOUND = {
    "python": "3.12.1",
    "system": {"id": "debian", "version": "12"},
    "python_packages": [
        {"name": "torch", "version": "2.13.0+cpu", "license": "BSD-3-Clause"},
        {"name": "odd", "version": "1", "license": "as the author likes"},
        {"name": "bare", "version": "1", "license": ""},
    ],
    "debian_packages": [{"name": "libc6", "version": "2.36-9+deb12u9", "architecture": "amd64"}],
}
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36
Description: shared libraries
 Version: this line belongs to the description

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: all-of-it
Status: install ok installed
Architecture: all
Version: 2
"""


def bill(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render(IMAGE, "2026-01-02T03:04:05.678901234Z", FOUND | changes))
    return document


def test_every_package_has_its_version_and_its_purl() -> None:
    purls = {each["name"]: each.get("purl") for each in bill()["components"]}
    assert purls["torch"] == "pkg:pypi/torch@2.13.0%2Bcpu"
    assert purls["libc6"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64&distro=debian-12"
    assert {"debian", "python"} <= set(purls)


def test_a_license_is_an_identifier_where_it_is_one() -> None:
    licenses = {each["name"]: each.get("licenses") for each in bill()["components"]}
    assert licenses["torch"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert licenses["odd"] == [{"license": {"name": "as the author likes"}}]
    assert licenses["bare"] is None


def test_the_bill_names_its_image_and_is_the_same_for_the_same_image() -> None:
    assert bill() == bill()
    about = bill()["metadata"]
    assert about["component"]["version"] == IMAGE.id
    assert about["timestamp"].startswith("2026-01-02T03:04:05")
    assert len(bill()["dependencies"]) == len(bill()["components"]) + 1


def test_the_bill_is_written_from_what_docker_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"image": '"2026-01-02T03:04:05.678901234Z"', "run": json.dumps(FOUND)}
    monkeypatch.setattr("fleet.images.sbom.docker", lambda command, *_: said[command])
    path = write_sbom(IMAGE, tmp_path / "made")
    assert path == tmp_path / "made" / f"{IMAGE.repository}.json"
    assert json.loads(path.read_text(encoding="utf-8")) == bill()


def test_the_bill_is_valid() -> None:
    assert problems(bill()) == []
    assert problems(bill() | {"specVersion": 5})


def test_an_image_without_a_time_has_a_bill_too() -> None:
    assert "1970" in json.loads(render(IMAGE, "", FOUND))["metadata"]["timestamp"]


def test_the_program_that_looks_needs_nothing_but_python() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM.read_text()], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert {"pytest", "click"} <= {each["name"] for each in found["python_packages"]}
    assert all(each["version"] and len(each["license"]) <= 100 for each in found["python_packages"])


def test_what_dpkg_has_removed_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    assert debian_packages(tmp_path / "status") == [
        {"name": "all-of-it", "version": "2", "architecture": "all"},
        {"name": "libc6", "version": "2.36", "architecture": "amd64"},
    ]


def test_an_image_without_dpkg_has_none_of_its_packages(tmp_path: Path) -> None:
    assert debian_packages(tmp_path / "status") == []


def test_an_image_that_answers_something_else_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho a banner\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(FleetError, match="voxyard-bark:abababababab did not list its packages"):
        read_contents(IMAGE)
