"""Install the pinned torch, unless that would bring CUDA packages nobody asked for."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
CUDA_PREFIXES = ("nvidia-", "cuda-", "triton", "pytorch-triton")


def main(arguments: list[str] | None = None) -> int:
    """Install torch or say why not; 1 where pip fails, 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", choices=["cpu", "cuda"], default="cpu", help="which build is welcome")
    parser.add_argument("--constraints", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    requirement = pinned_torch(tomllib.loads(PYPROJECT.read_text(encoding="utf-8")))
    installed = installed_torch()
    if installed is not None and f"torch=={installed.partition('+')[0]}" == requirement:
        return 0
    wanted = [requirement, "-c", str(chosen.constraints)]
    report = ask_pip(wanted)
    if report is None:
        return 1
    cuda = cuda_packages(report)
    if cuda and chosen.build == "cpu":
        print(declined(requirement, cuda), file=sys.stderr)
        return 0
    print(f"→ installing {requirement}" + (" with CUDA, several GB" if cuda else ""), flush=True)
    return _pip("install", "--progress-bar", "off", "--quiet", *wanted).returncode and 1


def pinned_torch(pyproject: Mapping[str, Any]) -> str:
    """The requirement `torch==…` of the extra `bark`."""
    extras: Iterable[str] = pyproject["project"]["optional-dependencies"]["bark"]
    return next(each for each in extras if each.startswith("torch=="))


def installed_torch() -> str | None:
    """The version of torch in this environment, or None."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def ask_pip(wanted: list[str]) -> dict[str, Any] | None:
    """What pip would install, as its report; None where it cannot tell, and has said why."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        done = _pip("install", "--dry-run", "--quiet", "--report", str(file), *wanted)
        if done.returncode != 0 or not file.exists():
            print(f"pip does not find {wanted[0]} for this machine", file=sys.stderr)
            return None
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return report


def cuda_packages(report: Mapping[str, Any]) -> list[str]:
    """The packages in pip's report that are there for CUDA, as `name version`."""
    named = ((each["metadata"]["name"], each["metadata"]["version"]) for each in report["install"])
    return sorted(f"{name} {version}" for name, version in named if name.lower().startswith(CUDA_PREFIXES))


def declined(requirement: str, cuda: list[str]) -> str:
    """Why torch was left out, and what to do about it."""
    return (
        f"torch was not installed: what pip finds for {requirement} is the build for CUDA, with "
        f"{len(cuda)} more packages, several GB together:\n  {', '.join(cuda)}.\n"
        "  make setup TORCH=cuda                        takes it all the same;\n"
        "  PIP_FIND_LINKS=FOLDER make setup             takes a CPU build from a folder of wheels;\n"
        "  PIP_EXTRA_INDEX_URL=INDEX make setup         takes a CPU build from an index that has one.\n"
        "Only the Bark workers need torch."
    )


def _pip(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "pip", *arguments], check=False)


if __name__ == "__main__":
    sys.exit(main())
