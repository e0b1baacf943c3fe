"""The command lines with which a host is changed or asked about a release; built here, run elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from fleet.batch import Command

PROJECT = "voxyard"
HOME = '"$HOME/.voxyard"'
LOAD_SECONDS = 1800
UP_SECONDS = 180


def load_image() -> Command:
    """Takes an image as `docker save` writes it from standard input."""
    return Command("load-image", "docker load", LOAD_SECONDS)


def write_release(release: str, checksums: Mapping[str, str]) -> Command:
    """Takes a release's files as a tar archive from standard input; they are there as a whole, or not at all.

    tar is content with an archive that was cut off between two files: the checksums are not.
    """
    partial, there = shlex.quote(f".{release}.partial"), shlex.quote(release)
    sums = "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {HOME}/releases",
        f"cd {HOME}/releases",
        f"rm -rf {partial}",
        f"mkdir {partial}",
        f"tar -xpf - -C {partial}",
        f"printf %s {shlex.quote(sums)} | (cd {partial} && sha256sum --check --quiet --strict -)",
        f"rm -rf {there}",  # of the same name, but with other content: somebody changed it there
        f"mv -T {partial} {there}",
    ]
    return Command("write-release", "\n".join(lines))


def start(release: str, compose_files: Sequence[str], environment_file: str, service: str) -> Command:
    """Makes a service run as its release says, in a new container.

    Compose itself sees neither a changed file under the same name nor a container that is not well.
    """
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    up = f"up --detach --force-recreate --no-build --no-deps --quiet-pull {shlex.quote(service)}"
    text = (
        f"cd {HOME}/releases/{shlex.quote(release)} && "
        f"docker compose --project-name {PROJECT} --env-file {shlex.quote(environment_file)} {files} {up}"
    )
    return Command("start", text, UP_SECONDS)


def set_current(release: str) -> Command:
    """Names the release as the one that is good, in one step."""
    text = f"cd {HOME} && ln -sfn {shlex.quote(f'releases/{release}')} .current.next && mv -T .current.next current"
    return Command("set-current", text)


def current_release() -> Command:
    """Prints the name of the release that was last found good, nothing where there is none."""
    return Command("current", f"readlink {HOME}/current || true")


def checksums(release: str) -> Command:
    """Prints name, mode and SHA-256 of each file of a release, nothing where it is not there."""
    text = f"cd {HOME}/releases/{shlex.quote(release)} 2>/dev/null && sha256sum -- * || true"
    return Command("checksums", text)


def layers(tag: str) -> Command:
    """Prints the layers of an image as JSON, `null` where the host has no image of this name."""
    text = f"docker image inspect --format '{{{{json .RootFS.Layers}}}}' {shlex.quote(tag)} 2>/dev/null || echo null"
    return Command("layers", text)


def metrics(address: str, port: int) -> Command:
    """Prints what the exporter answers, its head and body. bash is on every host, curl is not."""
    target = "127.0.0.1" if address == "0.0.0.0" else "::1" if address == "::" else address  # noqa: S104
    request = f"GET /metrics HTTP/1.0\\r\\nHost: {target}\\r\\n\\r\\n"
    refused = f"{{ echo 'nothing listens on {target}:{port}' >&2; exit 1; }}"
    text = f"{{ exec 3<>/dev/tcp/{target}/{port}; }} 2>/dev/null || {refused}; printf '{request}' >&3 && cat <&3"
    return Command("metrics", f"bash -c {shlex.quote(text)}", 10)


def logs(service: str) -> Command:
    """Prints the last lines that a service wrote."""
    role = shlex.quote(f"voxyard.role={service}")
    text = (
        f"docker ps -aq --filter label=com.docker.compose.project={PROJECT} --filter label={role} | head -n 1 "
        "| xargs -r docker logs --tail 20 2>&1"
    )
    return Command("logs", text)
