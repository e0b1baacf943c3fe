"""Shell commands of a monitoring deployment; this module builds them and runs none."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from fleet.monitoring.release import ENVIRONMENT_FILE, MANIFEST_FILE
from fleet.rollout.commands import HOME, UP_SECONDS, sums
from fleet.ssh.command_batch import Command

PROJECT = "voxyard-monitoring"
FOLDER = f"{HOME}/monitoring"
INSIDE = "/etc/voxyard/monitoring"
"""Mount point of the folder in the containers."""
DATA = ("prometheus", "alertmanager", "grafana")
_LABEL = f"--filter label=com.docker.compose.project={PROJECT}"


def identity() -> Command:
    """Prints user and group id of the login."""
    return Command("identity", "id -u && id -g")


def link(name: str) -> Command:
    """Prints the target of the link `live` or `current`; no output where there is none."""
    return Command(name, f"readlink {FOLDER}/{name} || true")


def manifest(name: str) -> Command:
    """Prints the manifest of a release, of `live` or of `current`; no output where there is none."""
    return Command(f"manifest-{name}", f"cat {FOLDER}/{shlex.quote(name)}/{MANIFEST_FILE} 2>/dev/null || true")


def changed(release: str) -> Command:
    """Prints the changed files of a release; `missing` where it does not exist."""
    text = (
        f"cd {FOLDER}/{shlex.quote(release)} 2>/dev/null || {{ echo missing; exit 0; }}; "
        "sha256sum --check --quiet .sha256 2>/dev/null | sed -n 's/: FAILED.*//p'"
    )
    return Command("changed", text)


def checksums(release: str) -> Command:
    """Prints SHA-256 and name of each file of a release; no output where there is none."""
    return Command("checksums", f"cat {FOLDER}/{shlex.quote(release)}/.sha256 2>/dev/null || true")


def programs() -> Command:
    """Prints `docker inspect` of the monitoring containers."""
    text = (
        f"ids=$(docker ps --all --quiet --no-trunc {_LABEL}) && "
        "if [ -n \"$ids\" ]; then docker inspect $ids; else echo '[]'; fi"
    )
    return Command("programs", text)


def write(release: str, checksums: Mapping[str, str]) -> Command:
    """Unpacks a release's files, a tar archive on standard input, atomically.

    Also creates the data directories of the programs.
    """
    partial, there = shlex.quote(f".{release}.partial"), shlex.quote(release)
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {FOLDER} {' '.join(f'{HOME}/data/{name}' for name in DATA)} {HOME}/secrets",
        f"cd {FOLDER}",
        f"rm -rf {partial}",
        f"mkdir {partial}",
        f"tar -xpf - -C {partial}",
        f"printf %s {shlex.quote(sums(checksums))} > {partial}/.sha256",
        f"(cd {partial} && sha256sum --check --quiet --strict .sha256)",
        # Same id with changed content; a program that reads it continues.
        f"if [ -e {there} ]; then rm -rf .replaced; mv -T {there} .replaced; fi",
        f"mv -T {partial} {there}",
        "rm -rf .replaced",
    ]
    return Command("write-monitoring", "\n".join(lines), 60)


def check(program: str, tool: str, image: str, arguments: Sequence[str]) -> Command:
    """Checks new configuration files with the tool in the program's image."""
    words = " ".join(map(shlex.quote, arguments))
    text = (
        f'docker run --rm --network none --user "$(id -u):$(id -g)" --read-only --cap-drop ALL '
        f"--volume {FOLDER}:{INSIDE}:ro --entrypoint {tool} {shlex.quote(image)} {words}"
    )
    return Command(f"check-{program}", text, 120)


def point(name: str, release: str) -> Command:
    """Points `live` or `current` to a release, atomically."""
    text = f"cd {FOLDER} && ln -sfn {shlex.quote(release)} .{name}.next && mv -T .{name}.next {name}"
    return Command(f"point-{name}", text)


def start(release: str, compose_files: Sequence[str], program: str) -> Command:
    """Starts a program of a release in a new container."""
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    text = (
        f"cd {FOLDER}/{shlex.quote(release)} && docker compose --project-name {PROJECT} --env-file {ENVIRONMENT_FILE} "
        f"{files} up --detach --force-recreate --no-build --no-deps --quiet-pull {shlex.quote(program)}"
    )
    return Command(f"start-{program}", text, UP_SECONDS)


def remove(program: str) -> Command:
    """Stops and removes the containers of a program."""
    label = shlex.quote(f"label=com.docker.compose.service={program}")
    text = (
        f"ids=$(docker ps --all --quiet {_LABEL} --filter {label}) && "
        'if [ -n "$ids" ]; then docker stop -t 60 $ids >/dev/null && docker rm $ids >/dev/null; fi'
    )
    return Command(f"remove-{program}", text, 120)


def releases_there() -> Command:
    """Prints the release ids, newest first."""
    return Command("releases", f"cd {FOLDER} 2>/dev/null && ls -1t | grep -xE '[0-9a-f]{{12}}' || true")


def named_secrets(releases: Iterable[str]) -> Command:
    """Prints the file names of these releases' secrets."""
    files = " ".join(f"{shlex.quote(each)}/*.yaml" for each in releases)
    return Command("named-secrets", f"cd {FOLDER} && sed -n 's|^ *file: ../../secrets/||p' {files} | sort -u")


def named_images(releases: Iterable[str]) -> Command:
    """Prints the images of these releases."""
    files = " ".join(f"{shlex.quote(each)}/{ENVIRONMENT_FILE}" for each in releases)
    return Command(
        "named-images", f"cd {FOLDER} && sed -n \"s/^VOXYARD_[A-Z_]*_IMAGE='\\(.*\\)'$/\\1/p\" {files} | sort -u"
    )


def prune(releases: Iterable[str], images: Iterable[str], secrets: Iterable[str]) -> Command:
    """Removes releases, images and secrets; the engine keeps images in use."""
    lines = [f"cd {FOLDER} || exit 1", "failed=0", f"rm -rf {HOME}/secrets/.partial {HOME}/secrets/.before"]
    lines += [f"rm -f {HOME}/secrets/{shlex.quote(name)} || failed=1" for name in secrets]
    lines += [f"rm -rf {shlex.quote(name)} || failed=1" for name in releases]
    lines += [f"docker rmi {shlex.quote(name)} >/dev/null || failed=1" for name in images]
    return Command("prune", "\n".join([*lines, "exit $failed"]), 120)
