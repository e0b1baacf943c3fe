"""Releases of the fleet: clones of one commit build equal images, and a colleague's deploy of it is unchanged."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.bed.machine import build_secrets
from tests.fleet.bed.programs import find
from tests.fleet.bed.registry import Registry
from tests.fleet.operators import ROOT, Operator, containers, current

from fleet.images.image import built_tag, cache_tag
from fleet.images.revision import read_revision

EXPORTER = built_tag("exporter")


@dataclass(frozen=True)
class Colleague:
    """Somebody with a clone of their own; `built` is what `fab images --push` printed."""

    operator: Operator
    built: dict[str, Any]


def clone(folder: Path, umask: int) -> Path:
    """Clone of the last commit, with files of other times and modes than another one's."""
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)]
    subprocess.run(command, check=True, capture_output=True, umask=umask)
    return folder


def git(root: Path, *words: str) -> None:
    about = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *about, *words], check=True, capture_output=True)


def build(operator: Operator, engine: Engine, base: str, place: str) -> dict[str, Any]:
    """Build and push the exporter's image, with nothing left of earlier builds."""
    engine.docker("builder", "prune", "--all", "--force")
    secrets = build_secrets(engine.folder)
    words = operator.words(
        *("images", "--image", "exporter", "--base", base, "--unpinned", "--build-network", "host"),
        *("--pip-config", str(secrets["pip_config"]), "--ca-bundle", str(secrets["ca_bundle"])),
        *("--push", place, "--json"),
    )
    del words[words.index("--inventory") : words.index("--inventory") + 2]
    done = subprocess.run(words, capture_output=True, text=True, cwd=operator.root, env=operator.environment)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["images"]
    raw = engine.docker("image", "inspect", "--format", "{{.Id}}", cache_tag("exporter")).stdout.strip()
    return {**found, "as the engine built it": raw}


@pytest.fixture(scope="module")
def host(gpu_host: HostFactory) -> GpuHost:
    """A host for the exporter."""
    return gpu_host.several(HostSpec("gpu-01", mount_driver=True))[0]


@pytest.fixture(scope="module")
def place(registry: Registry) -> str:
    """The fleet's part of the registry."""
    return f"{registry.address}/releases"


@pytest.fixture(scope="module")
def colleagues(
    engine: Engine, base_image: str, host: GpuHost, place: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Colleague]]:
    """Two people with a clone each, who both built and pushed the same commit."""
    folder = tmp_path_factory.mktemp("colleagues")
    before = [tag for tag in (EXPORTER, cache_tag("exporter")) if engine.has(tag)]
    for tag in before:
        engine.docker("tag", tag, f"{tag}-before")
    found = []
    for name, umask in (("ann", 0o022), ("bob", 0o002)):
        inventory = operators.write_fleet(folder / f"of-{name}", {"gpu-01": operators.entry(host, registry=place)})
        operator = Operator(inventory, operators.environment(engine), root=clone(folder / name, umask))
        found.append(Colleague(operator, build(operator, engine, base_image, place)))
    yield found
    for tag in before:
        engine.docker("tag", f"{tag}-before", tag)
        engine.docker("rmi", f"{tag}-before")


def test_two_clones_of_one_commit_build_equal_digests(colleagues: list[Colleague], place: str) -> None:
    ann, bob = (each.built for each in colleagues)
    assert ann["as the engine built it"] != bob["as the engine built it"]
    assert ann["id"] == bob["id"]
    assert re.fullmatch(rf"{place}/voxyard-exporter@sha256:[0-9a-f]{{64}}", ann["reference"])
    assert ann["reference"] == bob["reference"]
    bills = [(each.operator.root / each.built["sbom"]).read_bytes() for each in colleagues]
    assert bills[0] == bills[1]


def test_an_image_has_the_time_of_its_commit(colleagues: list[Colleague], engine: Engine) -> None:
    shown = engine.docker("image", "inspect", "--format", "{{.Created}}", colleagues[0].built["id"]).stdout.strip()
    time = read_revision(colleagues[0].operator.root).time
    said = subprocess.run(["date", "-u", "-d", f"@{time}", "+%FT%TZ"], capture_output=True, text=True, check=True)
    assert shown == said.stdout.strip()


@pytest.fixture(scope="module")
def deployed(colleagues: list[Colleague], host: GpuHost) -> dict[str, str]:
    """Ann's deploy; the containers after it."""
    assert colleagues[0].operator.results("deploy") == {"gpu-01": "deployed"}
    return containers(host)


@pytest.fixture
def without_images(colleagues: list[Colleague], tmp_path: Path) -> Operator:
    """Bob on a machine that built nothing: his docker only knows the engine's settings."""
    bob = colleagues[1].operator
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\n[ "$1" = info ] && exec {find("docker")} "$@"\necho "docker $*" >&2\nexit 9\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{bob.environment['PATH']}"
    return Operator(bob.inventory, {**bob.environment, "PATH": path}, root=bob.root)


def test_a_colleagues_deploy_of_the_same_commit_is_unchanged_without_a_local_image(
    deployed: dict[str, str], without_images: Operator, host: GpuHost
) -> None:
    release = current(host)
    planned = without_images.fab("plan", "--exit-code")
    assert (planned.returncode, "nothing to do" in planned.stdout) == (0, True), planned.stderr
    done = without_images.fab("deploy")
    assert (done.returncode, "unchanged" in done.stdout) == (0, True), done.stderr
    assert (current(host), containers(host)) == (release, deployed)
    checked = without_images.fab("check")
    assert "not built or pushed yet" not in checked.stderr


def test_without_a_registry_equal_images_are_unchanged_too(
    deployed: dict[str, str], colleagues: list[Colleague], engine: Engine, host: GpuHost
) -> None:
    for each in colleagues:
        document = yaml.safe_load(each.operator.inventory.read_text())
        document["hosts"]["gpu-01"].pop("registry", None)
        each.operator.inventory.write_text(yaml.safe_dump(document, sort_keys=False))
    ann, bob = (each.operator for each in colleagues)
    engine.docker("tag", colleagues[0].built["id"], EXPORTER)
    assert ann.results("deploy") == {"gpu-01": "deployed"}
    sent = current(host)
    engine.docker("tag", colleagues[1].built["id"], EXPORTER)
    assert bob.results("deploy") == {"gpu-01": "unchanged"}
    assert current(host) == sent
