"""Build of an image: the engine's build, saved, rewritten and loaded under its tag."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from built_images import layer, saved
from programs import python_program

from fleet.errors import FleetError
from fleet.images.build import Build, build_image

ENGINE = """
import json, os, shutil, sys
folder = {folder!r}
words = sys.argv[1:]
with open(folder + "/asked", "a") as file:
    print(*words, file=file)
if words[0] == "image":
    layers = json.loads(os.environ["LAYERS"])
    print(json.dumps([{{"Id": "sha256:" + words[2], "RootFS": {{"Layers": layers}}, "Size": 7}}]))
elif words[0] == "run":
    print(os.environ["FRAMEWORKS"])
elif words[0] == "info":
    print(os.environ.get("STORE", "[]"))
elif words[0] == "save":
    with open(folder + "/image/saved.tar", "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
elif words[0] == "load":
    with open(folder + "/loaded.tar", "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of an engine that builds, saves and loads one image; its docker notes what it is asked."""
    saved(tmp_path / "image", [layer([("etc", None)], 1), layer((), 0), layer([("opt", None), ("opt/a", b"1")], 2)])
    program = tmp_path / "docker"
    program.write_text(python_program(ENGINE.format(folder=str(tmp_path))))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("LAYERS", "[]")
    monkeypatch.setenv("FRAMEWORKS", '{"torch": "12.8"}')
    return tmp_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Clone with one commit, of 2023-11-14T22:13:20Z."""
    root = tmp_path / "repository"
    (root / "runtime/voxyard").mkdir(parents=True)
    (root / "runtime/voxyard/__init__.py").write_text('__version__ = "1.0"\n')
    about = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "-m", "one")):
        environment = os.environ | {"GIT_COMMITTER_DATE": "1700000000 +0000"}
        subprocess.run(["git", "-C", str(root), *about, *words], check=True, capture_output=True, env=environment)
    return root


def loaded(engine: Path) -> tuple[dict[str, str], str, int]:
    """Labels and time of the loaded image, and the number of its layers in the archive."""
    with tarfile.open(engine / "loaded.tar") as archive:
        (document,) = json.load(archive.extractfile("manifest.json") or io.BytesIO())
        config = json.load(archive.extractfile(document["Config"]) or io.BytesIO())
        assert document["RepoTags"] == ["voxyard-bark:built"]
        return config["config"]["Labels"], config["created"], len([n for n in archive.getnames() if n.endswith(".tar")])


def test_a_build_is_rewritten_with_its_commit_and_its_framework(engine: Path, root: Path) -> None:
    found = build_image(root, Build(role="bark"))

    assert found.id == "sha256:voxyard-bark:built"
    commit = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    asked = (engine / "asked").read_text()
    assert f"--tag voxyard-bark:build-cache --build-arg VERSION=1.0 --build-arg REVISION={commit} " in asked
    labels, created, layers = loaded(engine)
    assert labels["voxyard.frameworks"] == '{"torch":"12.8"}'
    assert (created, layers) == ("2023-11-14T22:13:20Z", 2)
    assert list((root / "build").iterdir()) == []


def test_an_engine_with_containerds_store_gets_the_bases_layers_too(
    engine: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE", '[["driver-type","io.containerd.snapshotter.v1"]]')
    build_image(root, Build(role="bark"))
    assert loaded(engine)[2] == 3


def test_an_image_whose_framework_cannot_be_read_is_an_error(
    engine: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEWORKS", "Segmentation fault")
    with pytest.raises(FleetError, match="did not list its frameworks as JSON"):
        build_image(root, Build(role="bark"))
    assert not (engine / "loaded.tar").exists()
