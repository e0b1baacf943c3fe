"""Puts what an image of voxyard imports into an environment; it runs inside the build, on the base's own Python.

A base may bring a framework that is made for it: NVIDIA's TensorFlow, NVIDIA's torch. Then the environment sees the
base's packages, and what belongs to the compiled side of that framework stays at the base's versions; voxyard's own
pins decide the rest. Nothing but the standard library is imported, since nothing else is there yet.
"""

# ruff: noqa: T201 - what it prints is the log of the build
from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTHONS = ((3, 11), (3, 13))  # from, below: what pyproject.toml says
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "exporter": ("exporter",),
    "trainer": ("trainer",),
    "bark": ("bark", "cluster", "postgres", "s3", "service", "words"),
}
FRAMEWORK = {"trainer": "tensorflow", "bark": "torch"}
ENVIRONMENT, TOOLS = Path("/opt/voxyard"), Path("/opt/tools")
SECRETS = Path("/run/secrets")
INSTALL = ("install", "--no-warn-script-location", "--no-compile", "--progress-bar", "off")
# By the content of a source, not its time, so that one build is like another; unchecked, as nobody changes sources.
COMPILE = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")


class InstallError(Exception):
    """Error of the base or the arguments, and the fix."""


@dataclass(frozen=True)
class Installed:
    """A package that the base brings."""

    name: str  # normalised
    version: str
    requires: tuple[str, ...]  # normalised names
    compiled: bool


@dataclass(frozen=True)
class Wanted:
    """Requirements for pip."""

    requirements: tuple[str, ...]
    constraints: tuple[str, ...]


def main(arguments: list[str] | None = None) -> int:
    """Make the tools, or the packages of a role; 1 with a sentence where that cannot be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tools", "compile", *EXTRAS], help="what to install: the tools come first")
    parser.add_argument("--framework", default="none", help="whose TensorFlow or torch, as the Dockerfile says it")
    parser.add_argument("--no-deps", default="", help="a requirement of which nothing else is wanted")
    parser.add_argument("--wheels", type=Path, default=Path("/wheels"))
    parser.add_argument("--folder", type=Path, default=ENVIRONMENT, help="where to compile what is installed")
    chosen = parser.parse_args(arguments)
    find = ("--find-links", str(chosen.wheels)) if any(chosen.wheels.glob("*.whl")) else ()
    try:
        if chosen.what == "tools":
            install_tools(find)
        elif chosen.what == "compile":
            compile_all(chosen.folder)
        else:
            install_packages(chosen.what, chosen.framework, chosen.no_deps, find)
    except InstallError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    return 0


def install_tools(find: Sequence[str]) -> None:
    """Make TOOLS, from which everything is installed, and an empty ENVIRONMENT. Raises InstallError."""
    if not PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]:
        found = ".".join(map(str, sys.version_info[:2]))
        raise InstallError(f"the base has Python {found}, voxyard needs 3.11 or 3.12: take another BASE")
    run(sys.executable, "-m", "venv", str(TOOLS))
    run(sys.executable, "-m", "venv", "--without-pip", str(ENVIRONMENT))
    run(str(TOOLS / "bin/pip"), *INSTALL, *find, "--constraint", "constraints.txt", "setuptools")


def install_packages(role: str, framework: str, no_deps: str, find: Sequence[str]) -> None:
    """Put into ENVIRONMENT what `role` imports. Raises InstallError."""
    base = installed() if framework == "base" else {}
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    wanted = choose(role, framework, project, base, pins_for(base))
    if base:
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", "--system-site-packages", str(ENVIRONMENT))
    into = [str(TOOLS / "bin/pip"), "--python", str(ENVIRONMENT / "bin/python"), *INSTALL, *find]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("".join(f"{line}\n" for line in wanted.constraints), encoding="utf-8")
        print("\n".join(["under these constraints:", *wanted.constraints]), flush=True)
        run(*into, "--constraint", str(constraints), *wanted.requirements)
    if no_deps:
        run(*into, "--no-deps", no_deps)
    check_kept({FRAMEWORK[role], "numpy"} & set(base) if base else set(), ENVIRONMENT)
    compile_all(ENVIRONMENT)


def compile_all(folder: Path) -> None:
    """Compile the modules below `folder`, the same way in every build. Raises InstallError for a folder without any.

    Files that are no Python of this version, such as templates and tests of packages, are left as they are.
    """
    command = [str(ENVIRONMENT / "bin/python"), *COMPILE, str(folder / "lib")]
    print("+", *command, flush=True)
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    if not any(folder.glob("lib/python*/site-packages/**/*.pyc")):
        raise InstallError(f"nothing was compiled below {folder}; its words stand above")


def choose(
    role: str, framework: str, project: Mapping[str, Any], base: Mapping[str, Installed], pins: Mapping[str, str]
) -> Wanted:
    """Chooses the requirements for pip. Raises InstallError where the base lacks the framework that it should bring."""
    name, pinned, extras = FRAMEWORK.get(role, ""), dict(pins), EXTRAS[role]
    if role == "trainer" and framework != "base":
        if framework not in ("cpu", "gpu"):
            raise InstallError(f"TENSORFLOW={framework}: it is base, cpu or gpu")
        extras = (*extras, framework)
        pinned["tensorflow"] = pinned["tensorflow-cpu"]
    elif role == "bark" and framework not in ("base", "index"):
        pinned["torch"] += f"+{framework}"  # a build of its own, such as cpu or cu128
    requirements = requirements_of(project, extras)
    if framework == "base":
        if name not in base:
            raise InstallError(f"the base brings no {name}: give another BASE, or another way (see the Dockerfile)")
        requirements = [each for each in requirements if normal(each) != name] + [name]
        pinned = {**pinned, **kept(name, base)}
    return Wanted(tuple(requirements), tuple(f"{package}=={version}" for package, version in sorted(pinned.items())))


def requirements_of(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """The requirements of voxyard with these extras, those that name further extras taken apart."""
    table = project["project"]
    found, waiting, seen = list(table["dependencies"]), list(extras), set[str]()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for each in table["optional-dependencies"][extra]:
            if again := re.fullmatch(r"voxyard\[([\w,-]+)\]", each.replace(" ", "")):
                waiting += again.group(1).split(",")
            else:
                found.append(each)
    return list(dict.fromkeys(found))


def kept(framework: str, base: Mapping[str, Installed]) -> dict[str, str]:
    """The versions that stay as the base has them: the framework, and what is compiled of all that it needs.

    numpy is among them though torch does not name it: a torch that was compiled against its first version cannot use
    the second. So is tensorboard, whose versions follow TensorFlow's.
    """
    stays = {framework, "numpy", "tensorboard"}
    reached, waiting = set[str](), sorted(stays)
    while waiting:
        name = waiting.pop()
        if name in base and name not in reached:
            reached.add(name)
            waiting += base[name].requires
    return {
        name: base[name].version
        for name in sorted(reached)
        if name in stays or name.startswith(f"{framework}-") or base[name].compiled
    }


def pins_for(base: Mapping[str, Installed]) -> dict[str, str]:
    """voxyard's pins, by package: those that were tested with the base's TensorFlow, where there are such."""
    file = Path("constraints.txt")
    if tensorflow := base.get("tensorflow"):
        major, minor = tensorflow.version.split(".")[:2]
        tested = Path(f"constraints-tf{major}{minor}.txt")
        file = tested if tested.exists() else file
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==") for line in lines if line)


def installed() -> dict[str, Installed]:
    """Packages that the base's own Python imports, by name."""
    found: dict[str, Installed] = {}
    for each in importlib.metadata.distributions():
        if each.metadata["Name"] and (name := normal(each.metadata["Name"])) not in found:
            requires = tuple(normal(line) for line in each.requires or () if "extra ==" not in line)
            # Without a list of its files nobody knows: leave it alone.
            compiled = each.files is None or any(".so" in file.suffixes for file in each.files)
            found[name] = Installed(name, each.version, requires, compiled)
    return found


def check_kept(names: Iterable[str], environment: Path) -> None:
    """Raises InstallError where the environment got one of these beside the base's."""
    for name in names:
        if found := next(environment.glob(f"lib/python*/site-packages/{name}"), None):
            raise InstallError(f"pip put {found} over the base's {name}: what both need does not go together")


def normal(requirement: str) -> str:
    """The package's name of a requirement, in its normal form."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]).lower()


def run(*command: str) -> None:
    """Run a program with pip's configuration of this step. Raises InstallError where it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(command, env=os.environ | secrets(SECRETS), check=False)
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command[:4])} … answered {done.returncode}; its words stand above")


def secrets(folder: Path) -> dict[str, str]:
    """Variables for pip: a configuration and certificates that are there for this step alone, where they are."""
    config, bundle = (folder / name for name in ("pip_config", "ca_bundle"))
    named = {"PIP_CONFIG_FILE": str(config)} if _filled(config) else {}
    if _filled(bundle):
        named |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(bundle))
    return named


def _filled(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


if __name__ == "__main__":
    sys.exit(main())
