"""A release is made of a clean, tagged commit whose changes are listed, and holds all of the package."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from tracked_files import ROOT

import release
from voxyard import __version__


def git(folder: Path, *arguments: str) -> None:
    who = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.com",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    )
    subprocess.run(["git", *who, "-C", folder, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose last commit lists the changes of 1.2.3 and has its tag."""
    folder = tmp_path / "a project"
    (folder / "runtime").mkdir(parents=True)
    (folder / "runtime/CHANGES.md").write_text("# Changes\n\n## 1.2.3\n\nFirst.\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "First")
    git(folder, "tag", "v1.2.3")
    return folder


def test_a_tagged_commit_is_taken(project: Path) -> None:
    release.tagged(project, "1.2.3")


@pytest.mark.parametrize(
    ("version", "write", "said"),
    [
        ("1.2.3", {"new.txt": "x"}, "found changes that are not committed, expected none:\n?? new.txt"),
        ("1.2.4", {}, "found v1.2.3 at HEAD, expected v1.2.4, the version of the code: git tag -s v1.2.4"),
    ],
)
def test_what_is_no_release_is_refused(project: Path, version: str, write: dict[str, str], said: str) -> None:
    for name, text in write.items():
        (project / name).write_text(text)
    with pytest.raises(release.ReleaseError) as refused:
        release.tagged(project, version)
    assert str(refused.value) == said


def test_a_version_without_a_list_of_its_changes_is_refused(project: Path) -> None:
    (project / "runtime/CHANGES.md").write_text("# Changes\n\n## 1.2.3, not released yet\n")
    git(project, "commit", "--all", "--message", "Second")
    with pytest.raises(release.ReleaseError, match="found no tag at HEAD"):
        release.tagged(project, "1.2.3")
    git(project, "tag", "--force", "v1.2.3")
    with pytest.raises(release.ReleaseError, match=r"has no section '## 1\.2\.3'"):
        release.tagged(project, "1.2.3")


FILES = {"voxyard/__init__.py", "voxyard/service/page/index.html"}


def packages(folder: Path, archived: set[str], zipped: set[str]) -> tuple[Path, Path]:
    """A source archive and a wheel with these files of the package."""
    archive, wheel = folder / "a.tar.gz", folder / "a.whl"
    with tarfile.open(archive, "w:gz") as opened:
        for name in archived:
            opened.addfile(tarfile.TarInfo(f"voxyard-1.2.3/runtime/{name}"), io.BytesIO())
    with zipfile.ZipFile(wheel, "w") as written:
        for name in (*zipped, "voxyard-1.2.3.dist-info/METADATA"):
            written.writestr(name, "")
    return archive, wheel


def test_whole_packages_are_taken(tmp_path: Path) -> None:
    release.complete(*packages(tmp_path, FILES | {"voxyard/README.md"}, FILES), FILES)


@pytest.mark.parametrize(
    ("archived", "zipped", "said"),
    [
        (FILES - {"voxyard/__init__.py"}, FILES, "a.tar.gz lacks voxyard/__init__.py"),
        (
            FILES,
            FILES - {"voxyard/service/page/index.html"},
            "a.whl lacks voxyard/service/page/index.html: see tool.",
        ),
        (FILES, FILES | {"voxyard/old.py"}, "a.whl holds voxyard/old.py, which the repository does not"),
    ],
)
def test_packages_that_are_not_the_repositorys_are_refused(
    tmp_path: Path, archived: set[str], zipped: set[str], said: str
) -> None:
    with pytest.raises(release.ReleaseError) as refused:
        release.complete(*packages(tmp_path, archived, zipped), FILES)
    assert str(refused.value).startswith(said)


@pytest.mark.slow
def test_this_commit_makes_packages_that_install(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "--quiet", ROOT, clone], check=True)
    listed = clone / "runtime/CHANGES.md"
    listed.write_text(listed.read_text(encoding="utf-8") + f"\n## {__version__}\n", encoding="utf-8")
    git(clone, "commit", "--all", "--message", "A release")
    git(clone, "tag", f"v{__version__}")

    assert release.main(["--out", str(tmp_path / "out")], clone) == 0, capfd.readouterr().err

    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {f"voxyard-{__version__}.tar.gz", f"voxyard-{__version__}-py3-none-any.whl"}
    assert subprocess.run(["git", "-C", clone, "status", "--porcelain"], capture_output=True).stdout == b""
