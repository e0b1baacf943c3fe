"""The command lines with which monitoring is set up on a host; built here, run elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from fleet.monitoring.release import ENVIRONMENT_FILE, MANIFEST_FILE
from fleet.rollout.commands import HOME, UP_SECONDS, sums
from fleet.ssh.command_batch import Command

PROJECT = "voxyard-monitoring"
FOLDER = f"{HOME}/monitoring"
INSIDE = "/etc/voxyard/monitoring"
"""Where the programs see that folder."""
DATA = ("prometheus", "alertmanager", "grafana")
_LABEL = f"--filter label=com.docker.compose.project={PROJECT}"


def identity() -> Command:
    """Prints user and group id of the login."""
    return Command("identity", "id -u && id -g")


def link(name: str) -> Command:
    """Prints the release that `live` or `current` names, nothing where there is none."""
    return Command(name, f"readlink {FOLDER}/{name} || true")


def manifest(name: str) -> Command:
    """Prints the manifest of a release, of `live` or of `current`, nothing where there is none."""
    return Command(f"manifest-{name}", f"cat {FOLDER}/{shlex.quote(name)}/{MANIFEST_FILE} 2>/dev/null || true")


def changed(release: str) -> Command:
    """Prints the names of a release's files that are not as they were written; `missing` where there is no such."""
    text = (
        f"cd {FOLDER}/{shlex.quote(release)} 2>/dev/null || {{ echo missing; exit 0; }}; "
        "sha256sum --check --quiet .sha256 2>/dev/null | sed -n 's/: FAILED.*//p'"
    )
    return Command("changed", text)


def checksums(release: str) -> Command:
    """Prints SHA-256 and name of each file of a release, as it was written; nothing where there is none."""
    return Command("checksums", f"cat {FOLDER}/{shlex.quote(release)}/.sha256 2>/dev/null || true")


def programs() -> Command:
    """Prints the containers of monitoring as `docker inspect` has them."""
    text = (
        f"ids=$(docker ps --all --quiet --no-trunc {_LABEL}) && "
        "if [ -n \"$ids\" ]; then docker inspect $ids; else echo '[]'; fi"
    )
    return Command("programs", text)


def write(release: str, checksums: Mapping[str, str]) -> Command:
    """Takes a release's files as a tar archive from standard input; they are there as a whole, or not at all.

    Also makes the directories in which the programs keep what they write.
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
        # Of the same name, but with other content: somebody changed it there. A program that reads it now goes on.
        f"if [ -e {there} ]; then rm -rf .replaced; mv -T {there} .replaced; fi",
        f"mv -T {partial} {there}",
        "rm -rf .replaced",
    ]
    return Command("write-monitoring", "\n".join(lines), 60)


def check(program: str, tool: str, image: str, arguments: Sequence[str]) -> Command:
    """Runs a program's own tool, in its own image, on files that it does not read yet."""
    words = " ".join(map(shlex.quote, arguments))
    text = (
        f'docker run --rm --network none --user "$(id -u):$(id -g)" --read-only --cap-drop ALL '
        f"--volume {FOLDER}:{INSIDE}:ro --entrypoint {tool} {shlex.quote(image)} {words}"
    )
    return Command(f"check-{program}", text, 120)


def point(name: str, release: str) -> Command:
    """Makes `live` or `current` name a release, in one step."""
    text = f"cd {FOLDER} && ln -sfn {shlex.quote(release)} .{name}.next && mv -T .{name}.next {name}"
    return Command(f"point-{name}", text)


def start(release: str, compose_files: Sequence[str], program: str) -> Command:
    """Makes a program run as its release says, in a new container."""
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    text = (
        f"cd {FOLDER}/{shlex.quote(release)} && docker compose --project-name {PROJECT} --env-file {ENVIRONMENT_FILE} "
        f"{files} up --detach --force-recreate --no-build --no-deps --quiet-pull {shlex.quote(program)}"
    )
    return Command(f"start-{program}", text, UP_SECONDS)


def remove(program: str) -> Command:
    """Ends the containers of a program and removes them."""
    label = shlex.quote(f"label=com.docker.compose.service={program}")
    text = (
        f"ids=$(docker ps --all --quiet {_LABEL} --filter {label}) && "
        'if [ -n "$ids" ]; then docker stop -t 60 $ids >/dev/null && docker rm $ids >/dev/null; fi'
    )
    return Command(f"remove-{program}", text, 120)


def restore_secrets(names: Iterable[str]) -> Command:
    """Puts back these secrets as they were before they were written."""
    words = " ".join(map(shlex.quote, names)) or "''"
    text = (
        f"cd {HOME}/secrets 2>/dev/null || exit 0; for name in {words}; do "
        'if [ -n "$name" ] && [ -e ".before/$name" ]; then mv -f ".before/$name" "$name" || exit 1; fi; done'
    )
    return Command("restore-secrets", text)


def forget_secrets(names: Iterable[str]) -> Command:
    """Removes what these secrets were before."""
    words = " ".join(shlex.quote(f".before/{name}") for name in names)
    return Command("forget-secrets", f"cd {HOME}/secrets 2>/dev/null && rm -f {words} || true")


def releases_there() -> Command:
    """Prints the releases of the host, newest first."""
    return Command("releases", f"cd {FOLDER} 2>/dev/null && ls -1t | grep -xE '[0-9a-f]{{12}}' || true")


def named_images(releases: Iterable[str]) -> Command:
    """Prints the images that these releases name."""
    files = " ".join(f"{shlex.quote(each)}/{ENVIRONMENT_FILE}" for each in releases)
    return Command(
        "named-images", f"cd {FOLDER} && sed -n \"s/^VOXYARD_[A-Z_]*_IMAGE='\\(.*\\)'$/\\1/p\" {files} | sort -u"
    )


def prune(releases: Iterable[str], images: Iterable[str]) -> Command:
    """Removes releases and images that nobody needs; an image that a container uses is refused by the engine."""
    lines = [f"cd {FOLDER} || exit 1", "failed=0"]
    lines += [f"rm -rf {shlex.quote(name)} || failed=1" for name in releases]
    lines += [f"docker rmi {shlex.quote(name)} >/dev/null || failed=1" for name in images]
    return Command("prune", "\n".join([*lines, "exit $failed"]), 120)
