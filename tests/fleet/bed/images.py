"""The two images of the test bed, built from Debian packages and cached on disk."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fleet.bed.engine import Engine
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.machine import BUNDLE, apt_settings, debian_mirror, proxies
from tests.fleet.bed.programs import find, run

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / "build" / "fleet"
RELEASE, NEXT_RELEASE = "bookworm", "trixie"
ROOT_PACKAGES = ("ca-certificates", "python3", "python3-venv")
PLUGINS = {"docker-compose": "usr/libexec/docker/cli-plugins/docker-compose"}
BASE, HOST = f"voxyard-test/base:{RELEASE}", f"voxyard-test/host:{RELEASE}"
"""A slim Python base as images/ builds on one, and a host of the fleet on top of it."""
# What a container never reads: indexes and documents.
_LEFT_OUT = ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")


def key(today: dt.date | None = None) -> str:
    """Changes with everything that goes into the images, and every month: Debian's packages get updates."""
    month = f"{today or dt.datetime.now(tz=dt.UTC):%Y-%m}"
    architecture = run(["dpkg", "--print-architecture"]).stdout
    recipe = repr((month, RELEASE, NEXT_RELEASE, ROOT_PACKAGES, PLUGINS, _LEFT_OUT, architecture))
    parts = [recipe, *(((HERE / name).read_text(encoding="utf-8")) for name in ("host.Dockerfile", "sshd.conf"))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def load(engine: Engine, say: Callable[[str], None]) -> None:
    """Put BASE and HOST into the engine: from the last run's file, else made anew, which takes some minutes.

    Raises BedError when a package cannot be fetched or checked.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone():
        kept = CACHE / f"images-{key()}.tar"
        if not kept.exists():
            _make(engine, say, kept)
            return
        say(f"loading the test bed's images from {kept.name}")
        if engine.docker("load", "--input", kept, check=False).returncode != 0 or not engine.has(HOST):
            say(f"{kept.name} is damaged: making it anew")
            _make(engine, say, kept)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One run at a time makes images; the others wait for them."""
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(engine: Engine, say: Callable[[str], None], kept: Path) -> None:
    root = engine.folder / "root"
    try:
        say(f"making a Debian {RELEASE} of {len(ROOT_PACKAGES)} packages and what they need: once, a minute or two")
        _bootstrap(root)
        _import(engine, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    say("making a host of it: sshd, Docker and Compose: once, about a minute")
    context = engine.folder / "host"
    context.mkdir(exist_ok=True)
    _fetch_plugins(engine.folder / "apt", context)
    shutil.copy(HERE / "sshd.conf", context)
    engine.build(context, HOST, dockerfile=HERE / "host.Dockerfile", arguments={"BASE": BASE})
    for old in CACHE.glob("images-*"):
        old.unlink()
    part = kept.with_suffix(".part")
    engine.docker("save", "--output", part, BASE, HOST)
    part.replace(kept)


def _bootstrap(root: Path) -> None:
    mirror = debian_mirror()
    options = [
        "--variant=minbase",
        "--force-check-gpg",
        f"--keyring={mirror.keyring}",
        f"--include={','.join(ROOT_PACKAGES)}",
    ]
    certificates = [f"--certificate={BUNDLE}"] if mirror.site.startswith("https:") and BUNDLE.exists() else []
    done = run(
        ["debootstrap", *options, *certificates, RELEASE, root, mirror.site],
        seconds=1200,
        check=False,
        environment=proxies(),
    )
    if done.returncode != 0:
        log = root / "debootstrap" / "debootstrap.log"
        end = log.read_text(encoding="utf-8", errors="replace")[-800:] if log.exists() else ""
        raise BedError(f"debootstrap of Debian {RELEASE} failed:\n{done.stdout[-800:]}{done.stderr[-800:]}{end}")


def _import(engine: Engine, root: Path) -> None:
    left_out = [f"--exclude=./{pattern}" for pattern in _LEFT_OUT]
    packed = engine.folder / "root.tar"
    try:
        run(
            ["tar", "--create", "--numeric-owner", "--wildcards", *left_out, "--directory", root, "--file", packed, "."]
        )
        engine.docker("import", "--change", 'CMD ["/bin/sh"]', packed, BASE)
    finally:
        packed.unlink(missing_ok=True)


def _fetch_plugins(state: Path, into: Path) -> None:
    """Packages of the next Debian release, signatures checked, without making apt's own lists know that release."""
    mirror = debian_mirror()
    for folder in ("lists/partial", "cache/archives/partial", "parts", "packages"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    source = state / "next.list"
    source.write_text(f"deb [signed-by={mirror.keyring}] {mirror.site} {NEXT_RELEASE} main\n", encoding="utf-8")
    (state / "apt.conf").write_text(apt_settings(), encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": source,
        "Dir::Etc::SourceParts": state / "parts",
        "Dir::Etc::PreferencesParts": state / "parts",
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "root",
        "APT::Update::Error-Mode": "any",
        "APT::Get::List-Cleanup": "false",
    }
    words = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    run(["apt-get", *words, "--quiet", "update"])
    for package, file in PLUGINS.items():
        _download(words, package, state / "packages")
        (archive,) = (state / "packages").glob(f"{package}_*.deb")
        unpacked = state / package
        run(["dpkg", "--extract", archive, unpacked])
        shutil.move(unpacked / file, into / package)


def _download(options: list[str], package: str, into: Path) -> None:
    """`apt-get download` writes where it stands, and checks the file against the signed list."""
    done = subprocess.run(
        [find("apt-get"), *options, "--quiet", "download", package],
        cwd=into,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0:
        raise BedError(f"{package} of Debian {NEXT_RELEASE} cannot be fetched:\n{done.stderr[-1500:]}")
