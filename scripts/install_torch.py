"""Install the pinned torch: a CPU build where there is one, else what the index gives, its size said first."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
CUDA_PREFIXES = ("nvidia-", "cuda-", "triton", "pytorch-triton")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BUILDS = ("auto", "cpu", "cuda", "none")
RECENT_PIP = (25, 3)  # older ones fetch every wheel in order to say what they would install: 25.1 does, measured
PATIENCE = ("--timeout", "3", "--retries", "0")  # with PyTorch's index
ANSWER_SECONDS = 20.0  # within which it must have answered, whatever keeps it
PROGRESS_SECONDS = 5.0
UNPACKED = 1.75  # installed bytes for a fetched one: 4.7 GB for 2.74 GB of torch 2.13 with CUDA 13
GB = 1e9
MB = 1e6


class TorchError(Exception):
    """Failure to install torch: the reason, and the fix."""


@dataclass(frozen=True)
class Package:
    """A package that pip would fetch."""

    name: str
    version: str
    url: str

    @property
    def is_cuda(self) -> bool:
        """True for a package of CUDA's."""
        return self.name.lower().startswith(CUDA_PREFIXES)


@dataclass(frozen=True)
class Offer:
    """A torch that pip can install, and with which options; `packages` is empty where pip was not asked for them."""

    requirement: str
    options: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()


def main(arguments: list[str] | None = None) -> int:
    """Install torch, unless it is there or was declined; 1 where that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", choices=BUILDS, help="which build is welcome [default: as the last time, else auto]")
    parser.add_argument("--remember", type=Path, required=True, metavar="FILE", help="what was chosen the last time")
    parser.add_argument("--constraints", type=Path, required=True)
    parser.add_argument("--cpu-index", default=CPU_INDEX, metavar="URL", help="an index of CPU builds to ask")
    chosen = parser.parse_args(arguments)
    version = pinned_torch(tomllib.loads(PYPROJECT.read_text(encoding="utf-8")))
    installed = installed_torch()
    try:
        build = remembered(chosen.remember, chosen.build)
    except OSError as error:
        print(f"{chosen.remember}, the choice of torch, cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    if build == "none":
        print(declined(installed))
        return 0
    if fits(installed, version, build):
        return 0
    try:
        recent = recent_pip()
        offer = find(version, build, chosen.constraints, chosen.cpu_index, recent=recent)
        size = announce(offer)
        install(offer, chosen.constraints, size, recent=recent)
    except TorchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def remembered(file: Path, build: str | None) -> str:
    """The build that was asked for now, else the last time; `auto` forgets."""
    if build is None:
        return file.read_text(encoding="utf-8").strip() if file.exists() else "auto"
    if build == "auto":
        file.unlink(missing_ok=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{build}\n", encoding="utf-8")
    return build


def pinned_torch(pyproject: Mapping[str, Any]) -> str:
    """The version of torch that the extra `bark` names."""
    extras: Iterable[str] = pyproject["project"]["optional-dependencies"]["bark"]
    return next(each for each in extras if each.startswith("torch==")).removeprefix("torch==")


def installed_torch() -> str | None:
    """The version of torch in this environment, or None."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def fits(installed: str | None, version: str, build: str) -> bool:
    """True where the installed torch is the pinned version, in an accepted build."""
    if installed is None or installed.partition("+")[0] != version:
        return False
    return build == "auto" or (build == "cuda") == has_cuda()


def has_cuda() -> bool:
    """True where the installed torch is a build with CUDA: by its own files, without being imported."""
    own = importlib.metadata.distribution("torch").locate_file("torch/version.py")
    return re.search(r"^cuda\b.*= None$", Path(str(own)).read_text(encoding="utf-8"), re.MULTILINE) is None


def declined(installed: str | None) -> str:
    """Message for TORCH=none."""
    if installed is not None:
        return f"torch was declined (TORCH=none), and {installed} is still in: {sys.executable} -m pip uninstall torch"
    return (
        "torch was declined (TORCH=none): the tests that need it are left out, and nothing speaks with Bark; "
        "make setup TORCH=auto installs it"
    )


def recent_pip() -> bool:
    """True where pip is recent enough to be asked what it would fetch; a newer one is installed where it is not."""
    old = importlib.metadata.version("pip")
    if tuple(map(int, old.split(".")[:2])) >= RECENT_PIP:
        return True
    wanted = f"pip>={'.'.join(map(str, RECENT_PIP))},<27"
    return _pip("install", "--progress-bar", "off", "-qqq", wanted).returncode == 0


def find(version: str, build: str, constraints: Path, cpu_index: str, *, recent: bool) -> Offer:
    """A CPU build by the user's own configuration, one of PyTorch's index, or what the index of the user gives.

    Raises:
        TorchError: pip finds none that is welcome.
    """
    on_cpu = f"{version}+cpu"
    if build != "cuda" and on_cpu in versions():
        return Offer(f"torch=={on_cpu}")
    if not recent:
        raise TorchError(
            f"pip {importlib.metadata.version('pip')} cannot say what it would fetch for torch, and it finds no newer "
            "pip: install one (python -m pip install --upgrade pip), or TORCH=none leaves torch out"
        )
    plain = f"torch=={version}"
    if build == "cuda":
        plain += f",!={on_cpu}"  # which pip would prefer
    packages = ask_pip(plain, constraints)
    if packages and (build == "cuda" or not any(each.is_cuda for each in packages)):
        return Offer(plain, packages=packages)
    options = ("--extra-index-url", cpu_index)
    if build != "cuda" and on_cpu in versions(*options, *PATIENCE, seconds=ANSWER_SECONDS):
        return Offer(f"torch=={on_cpu}", options)
    if build == "auto" and packages:
        return Offer(plain, packages=packages)
    found = f"the index gives only the build with CUDA, and {cpu_index} did not answer with another"
    raise TorchError(
        f"there is no torch {version} for this machine: {found if packages else 'pip finds none'}.\n"
        "  PIP_FIND_LINKS=FOLDER make setup         takes a CPU build from a folder of wheels;\n"
        "  PIP_EXTRA_INDEX_URL=INDEX make setup     takes one from an index that has it;\n"
        + ("  make setup TORCH=auto                    takes the build with CUDA;\n" if packages else "")
        + "  make setup TORCH=none                    leaves torch out: only the Bark workers need it."
    )


def versions(*options: str, seconds: float | None = None) -> list[str]:
    """The versions of torch that pip finds for this machine; none where there is no answer within `seconds`."""
    try:
        said = _pip("index", "versions", "torch", *options, quiet=True, seconds=seconds).stdout
    except subprocess.TimeoutExpired:
        return []
    line = next((each for each in said.splitlines() if each.startswith("Available versions:")), "")
    return [each.strip() for each in line.partition(":")[2].split(",")]


def ask_pip(requirement: str, constraints: Path) -> tuple[Package, ...]:
    """Packages that pip would fetch for a requirement; empty where it finds nothing, which it has said."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        asked = ["install", "--dry-run", "--use-feature=fast-deps", "-qq", "--report", str(file)]
        done = _pip(*asked, requirement, "-c", str(constraints))
        if done.returncode != 0 or not file.exists():
            return ()
        report: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    found = ((each["metadata"], each["download_info"]["url"]) for each in report["install"])
    return tuple(Package(metadata["name"], metadata["version"], url) for metadata, url in found)


def announce(offer: Offer) -> int | None:
    """Say what comes, and how much where it is known: bytes, or None.

    Raises:
        TorchError: the disk has too little room.
    """
    if not offer.packages:
        print(f"→ installing {offer.requirement}", flush=True)
        return None
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(size_of, (each.url for each in offer.packages)))
    known = [size for size in sizes if size is not None]
    size = sum(known)
    unknown = len(sizes) - len(known)
    amounts = [amount(size)] if known else []
    if unknown:
        amounts.append(f"{counted(unknown, 'file')} whose size the index does not tell")
    cuda = sum(each.is_cuda for each in offer.packages)
    name = offer.requirement.partition(",")[0]
    much = f"{' and '.join(amounts)} to fetch in {counted(len(sizes), 'package')}"
    print(f"→ installing {name}: {much}{f', {cuda} of them for CUDA' if cuda else ''}", flush=True)
    require_room(size)
    return size


def amount(size: int) -> str:
    """Bytes as text: in GB, in MB below 0.1 GB."""
    return f"{size / GB:.2f} GB" if size >= GB / 10 else f"{size / MB:.1f} MB"


def counted(number: int, name: str) -> str:
    """Number with its noun: `1 file`, `2 files`."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def size_of(url: str) -> int | None:
    """Bytes of a file, or None where its server does not tell."""
    if url.startswith("file:"):
        return Path(urllib.request.url2pathname(url.removeprefix("file://"))).stat().st_size
    secure = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    asked = urllib.request.Request(url, method="HEAD")  # noqa: S310 — an address that pip has found
    try:
        with urllib.request.urlopen(asked, timeout=10, context=secure) as answer:  # noqa: S310
            length = answer.headers["Content-Length"]
    except OSError:
        return None
    return int(length) if length else None


def require_room(size: int) -> None:
    """Refuse what does not fit: fetched files, pip's cache of them, and what is unpacked, each on its disk.

    Raises:
        TorchError: a disk has too little room.
    """
    cache = _pip("cache", "dir", quiet=True)
    places = [(Path(sys.prefix), UNPACKED * size), (Path(tempfile.gettempdir()), size)]
    if cache.returncode == 0:  # 1: there is none
        places.append((_existing(Path(cache.stdout.strip())), size))
    for disk in {place.stat().st_dev for place, _ in places}:
        here = [(place, need) for place, need in places if place.stat().st_dev == disk]
        free, need = shutil.disk_usage(here[0][0]).free, sum(need for _, need in here)
        if free < need:
            raise TorchError(
                f"torch needs about {need / GB:.1f} GB of disk for {', '.join(str(place) for place, _ in here)}, "
                f"found {free / GB:.1f} GB free: make room, or leave torch out (make setup TORCH=none)"
            )


def install(offer: Offer, constraints: Path, size: int | None, *, recent: bool) -> None:
    """Let pip install it, with a line of progress every few seconds.

    Raises:
        TorchError: pip fails; it has said why.
    """
    bar = "raw" if recent else "off"
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", bar, *offer.options, offer.requirement]
    variables = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, "-c", str(constraints)], stdout=subprocess.PIPE, text=True, env=variables
    ) as running:
        for line in progress(running.stdout or (), size):
            print(line, flush=True)
    if running.returncode != 0:
        raise TorchError(f"pip could not install {offer.requirement}; make setup TORCH=none leaves torch out")


def progress(lines: Iterable[str], size: int | None, now: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Progress for a person from pip's raw progress (`Progress 1 of 2`): the share of everything that is here."""
    whole = f" of {size / GB:.2f} GB" if size is not None else " GB"
    fetched = current = 0
    said = now()
    for line in lines:
        words = line.split()
        if line.startswith("Progress ") and len(words) == 4:
            current = int(words[1])
            if (moment := now()) - said >= PROGRESS_SECONDS:
                said = moment
                yield f"  {(fetched + current) / GB:.2f}{whole}"
        elif words[:1] == ["Downloading"]:
            fetched, current = fetched + current, 0
        elif line.startswith("Installing collected packages:"):
            arrived = fetched + current
            yield f"  {f'fetched {amount(arrived)}' if arrived else 'nothing to fetch'}; unpacking takes a while"


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _pip(*arguments: str, quiet: bool = False, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Ask pip; `quiet` keeps its complaints to ourselves."""
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        timeout=seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
