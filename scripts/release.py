"""Build the wheel and the source archive of the tag at HEAD, and check that both hold what the repository has.

The version is `voxyard.__version__`, the tag is `v` and the version, and runtime/CHANGES.md has a section of it. The
source archive is built from the commit, the wheel from the source archive, and the wheel is installed by itself and
asked for its version.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from voxyard import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "runtime/voxyard/"
NOT_PACKED = (".md",)  # the guides, which link into the repository


class ReleaseError(Exception):
    """What keeps a release from being made, in words."""


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """0 with both files under `--out`; 1 with a sentence where something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=root / "build/release", help="default: build/release")
    out = parser.parse_args(arguments).out
    try:
        tagged(root, __version__)
        with tempfile.TemporaryDirectory() as folder:
            commit = Path(folder) / "commit"
            _git(root, "worktree", "add", "--quiet", "--detach", str(commit))
            try:
                files = packed(_git(commit, "ls-files", "-z", PACKAGE).split("\0"))
                command = [sys.executable, "-m", "build", "--outdir", str(out), str(commit)]
                if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode != 0:
                    raise ReleaseError("the build failed: the reason is above")
            finally:
                _git(root, "worktree", "remove", "--force", str(commit))
        archive, wheel = out / f"voxyard-{__version__}.tar.gz", out / f"voxyard-{__version__}-py3-none-any.whl"
        complete(archive, wheel, files)
        answers(wheel, __version__)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"{archive}\n{wheel}")
    return 0


def tagged(root: Path, version: str) -> None:
    """Refuse a HEAD that is not the tag of this version, changes that are not committed, a list without its section."""
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"found changes that are not committed, expected none:\n{changed}")
    tags = _git(root, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        found = ", ".join(tags) or "no tag"
        raise ReleaseError(
            f"found {found} at HEAD, expected v{version}, the version of the code: git tag -s v{version}"
        )
    changes = root / "runtime/CHANGES.md"
    if f"## {version}" not in changes.read_text(encoding="utf-8").splitlines():
        raise ReleaseError(
            f"runtime/CHANGES.md has no section '## {version}'; one that is not released yet says so there"
        )


def packed(files: list[str]) -> set[str]:
    """Paths below runtime/ of what the packages hold: all but the guides."""
    return {file.removeprefix("runtime/") for file in files if file and not file.endswith(NOT_PACKED)}


def complete(archive: Path, wheel: Path, files: set[str]) -> None:
    """Refuse an archive or a wheel that lacks one of `files`, or a wheel that has others."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/runtime/")[2] for name in opened.getnames()}
    if lacking := sorted(files - names):
        raise ReleaseError(f"{archive.name} lacks {', '.join(lacking)}")
    with zipfile.ZipFile(wheel) as zipped:
        held = {name for name in zipped.namelist() if name.startswith("voxyard/")}
    if lacking := sorted(files - held):
        raise ReleaseError(
            f"{wheel.name} lacks {', '.join(lacking)}: see tool.setuptools.package-data in pyproject.toml"
        )
    if more := sorted(held - files):
        raise ReleaseError(f"{wheel.name} holds {', '.join(more)}, which the repository does not")


def answers(wheel: Path, version: str) -> None:
    """Refuse a wheel that does not install, or whose package is of another version."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
        code = "import voxyard; print(voxyard.__version__)"
        said = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    if said != version:
        raise ReleaseError(f"{wheel.name} says that it is {said}, expected {version}")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip("\n")


if __name__ == "__main__":
    sys.exit(main())
