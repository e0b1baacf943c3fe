"""Images on a real engine: what is in them and what not, digests and SBOMs. What they do: test_deploy and test_runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx_schema import problems
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.machine import build_secrets
from tests.fleet.bed.programs import SEARCH
from tests.fleet.bed.registry import Registry
from tests.fleet.bed.voxyard_images import FRAMEWORKS, Images, torch_wheel

from fleet.errors import FleetError
from fleet.images import pins as image_lock
from fleet.images.build import Build, build_image
from fleet.images.image import ROLES, built_tag, cache_tag, find_image
from fleet.images.revision import SOURCES
from fleet.images.sbom import write_sbom

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def environment(engine: Engine) -> Iterator[None]:
    """The code under test calls `docker`: here it is the bed's."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**engine.environment, "PATH": SEARCH}.items():
            patch.setenv(name, value)
        yield


@pytest.mark.parametrize("role", ROLES)
def test_an_image_promises_to_be_confined_and_to_say_how_it_is(engine: Engine, images: Images, role: str) -> None:
    config = json.loads(engine.docker("inspect", "--format", "{{json .Config}}", images[role].id).stdout)

    assert config["User"] == "65532:65532"
    assert config["Healthcheck"]["Test"][:3] == ["CMD", "python", "-m"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Labels"]["org.opencontainers.image.title"] == f"voxyard {role}"
    assert re.match(r"\d+\.\d+\.\d+", config["Labels"]["org.opencontainers.image.version"])


@pytest.mark.parametrize("role", ROLES)
def test_nothing_of_the_build_is_left_in_an_image(engine: Engine, images: Images, role: str) -> None:
    command = ("run", "--rm", "--network", "none", "--user", "0:0", "--entrypoint", "sh", images[role].id, "-c")
    listed = "ls -A /run/secrets /source /wheels /wheel /opt/tools /root/.cache /tmp 2>/dev/null | grep -v : || true"
    assert engine.docker(*command, listed).stdout.strip() == ""
    left_alone = " ".join(f"! -path '{path}'" for path in ("/proc/*", "/dev*", "/tmp", "/var/tmp", "/run/lock"))
    look = f"find / -xdev -user root -perm -o+w ! -type l {left_alone}"
    assert engine.docker(*command, look).stdout.strip() == ""


@pytest.mark.parametrize(
    ("role", "absent"),
    [("exporter", "tensorflow torch numpy pip setuptools"), ("bark", "tensorflow pip"), ("trainer", "torch pip")],
)
def test_an_image_has_no_foreign_parts(engine: Engine, images: Images, role: str, absent: str) -> None:
    program = f"import importlib.util as u; print([n for n in {absent.split()!r} if u.find_spec(n)])"
    command = ("run", "--rm", "--network", "none", "--entrypoint", "python", images[role].id, "-c", program)
    assert engine.docker(*command).stdout.strip() == "[]"


@pytest.mark.parametrize("role", ROLES)
def test_a_bill_lists_what_is_in_the_image(engine: Engine, images: Images, role: str, tmp_path: Path) -> None:
    path = write_sbom(images[role], tmp_path)

    bill = json.loads(path.read_text(encoding="utf-8"))
    versions = {each["name"]: each["version"] for each in bill["components"]}
    program = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    command = ("run", "--rm", "--network", "none", "--entrypoint", "python", images[role].id, "-c", program)
    assert json.loads(engine.docker(*command).stdout).items() <= versions.items()
    assert {"libc6", "python3", "PyYAML", "debian"} <= set(versions)
    assert ("tensorflow_cpu" in versions, "torch" in versions) == (role == "trainer", role == "bark")
    assert problems(bill) == []
    assert write_sbom(images[role], tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_change_of_code_ships_one_small_layer(
    engine: Engine, images: Images, base_image: str, tmp_path: Path
) -> None:
    root = copied_sources(tmp_path)
    with (root / "runtime/voxyard/__init__.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    secrets = build_secrets(engine.folder)
    how = Build(
        *(base_image, secrets["pip_config"], secrets["ca_bundle"], "host", "bark"),
        wheels=torch_wheel().parent,
        framework=FRAMEWORKS["bark"],
        cache_from=cache_tag("bark"),
    )

    try:
        changed = build_image(root, how)
    finally:
        engine.docker("tag", images["bark"].id, built_tag("bark"))

    assert changed.layers[:-1] == images["bark"].layers[:-1]
    assert changed.layers[-1] != images["bark"].layers[-1]
    sizes = engine.docker("history", "--human=false", "--format", "{{.Size}}", changed.id).stdout.split()
    code = next(int(size) for size in sizes if size != "0")
    print(f"\nlayer of the code: {code / 1e6:.1f} MB of {changed.size_bytes / 1e6:.0f} MB")
    assert code < changed.size_bytes / 100


def copied_sources(folder: Path) -> Path:
    """Copy of the sources that go into images."""
    for name in (*SOURCES, ".dockerignore"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, folder / name)
    return folder


def fab(*words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("fab"))
    return subprocess.run([program, "--search-root", str(ROOT / "scripts"), *words], capture_output=True, text=True)


def test_fab_images_builds_and_pushes_and_says_the_digest(
    engine: Engine, images: Images, base_image: str, registry: Registry
) -> None:
    secrets = build_secrets(engine.folder)
    place = f"{registry.address}/site"

    done = fab(
        *("images", "--image", "exporter", "--base", base_image, "--unpinned", "--build-network", "host"),
        *("--pip-config", str(secrets["pip_config"]), "--ca-bundle", str(secrets["ca_bundle"])),
        *("--wheels", str(torch_wheel().parent), "--cache-from", f"exporter={cache_tag('exporter')}"),
        *("--push", place, "--json"),
    )

    assert done.returncode == 0, done.stderr
    (image,) = json.loads(done.stdout)["images"]
    assert re.fullmatch(rf"{place}/voxyard-exporter@sha256:[0-9a-f]{{64}}", image["reference"])
    assert (ROOT / image["sbom"]).is_file()
    assert find_image(image["id"], "exporter", registry=place).reference == image["reference"]
    record = json.loads((ROOT / "build/images.json").read_text())["exporter"]
    assert (record["id"], record["digest"]) == (image["id"], image["reference"])
    assert "Digest: " + image["reference"].partition("@")[2] in engine.docker("pull", image["reference"]).stdout


def test_a_tag_is_locked_to_its_digest_and_built_on_by_it(
    engine: Engine, base_image: str, registry: Registry, tmp_path: Path
) -> None:
    digest = registry.push(base_image, "library/python")
    image = f"{registry.address}/library/python:pushed"
    absent = f"{registry.address}/library/nothing:1"

    result = image_lock.resolve_all({"exporter": image, "grafana": absent}, {})

    lock = tmp_path / "digests.lock"
    lock.write_text(image_lock.text(result.pins))
    pins = image_lock.read(lock)
    assert pins["exporter"] == image_lock.Pin(image, digest)
    assert pins["grafana"] == image_lock.Pin(absent)
    assert "has no image" in result.failures["grafana"]
    with pytest.raises(FleetError, match=r"grafana.*has no digest"):
        image_lock.base_of("grafana", pins, None, unpinned=False)

    base = image_lock.base_of("exporter", pins, None, unpinned=False)
    found = built_on(engine, base, tmp_path)
    assert found[: len(find_image(base_image).layers)] == find_image(base_image).layers


def built_on(engine: Engine, base: str, folder: Path) -> tuple[str, ...]:
    """The layers of a small image on that base."""
    engine.docker("pull", base)  # the builder of this engine asks no registry over HTTP but one on loopback
    engine.docker("build", "--tag", "voxyard-test/on-a-digest", "-", text_in=f"FROM {base}\nLABEL some=thing\n")
    return find_image("voxyard-test/on-a-digest").layers
