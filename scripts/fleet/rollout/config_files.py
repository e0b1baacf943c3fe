"""Shell commands for files that a service reads anew: config/SERVICE on the host, with a directory a version.

`current` leads to the version that the service reads, and `loaded` names the one that it was seen to work with.
"""

from __future__ import annotations

import shlex

from fleet.release.manifest import ServiceEntry
from fleet.release.service import ConfigFiles
from fleet.rollout.commands import HOME, http
from fleet.ssh.command_batch import Command

INSIDE = "/etc/voxyard/config"
"""Mount point of config/SERVICE in its container."""
CHECK_SECONDS = 120


def publish(release: str, service: str, files: ConfigFiles) -> Command:
    """Copies the files of a release for its service, readable by any user inside, and points `current` to them.

    Older versions go: a rollback copies from its own release.
    """
    name, version, source = shlex.quote(service), shlex.quote(files.digest), f"../../releases/{shlex.quote(release)}"
    lines = [
        "set -eu",
        "umask 022",
        f"mkdir -p {HOME}/config/{name}",
        f"cd {HOME}/config/{name}",
        "rm -rf .partial",
        f"cp -r {source}/{name} .partial",
        "chmod -R u+w,a+rX .partial",
        f"sed -n 's|^\\([0-9a-f]*  \\){service}/|\\1|p' {source}/.sha256 > .partial/.sha256",
        "(cd .partial && sha256sum --check --quiet --strict .sha256 >&2)",
        "rm -f loaded",
        f"if [ -e {version} ]; then mv -T {version} .replaced; fi",  # same name, changed on the host
        f"mv -T .partial {version}",
        f"ln -sfn {version} .current.next",
        "mv -T .current.next current",
        f'for each in ???????????? .replaced; do [ "$each" = {version} ] || rm -rf "$each"; done',
    ]
    return Command("publish-config", "\n".join(lines), 60)


def confirm(service: str, files: ConfigFiles) -> Command:
    """Notes that the service works with these files."""
    text = f"cd {HOME}/config/{shlex.quote(service)} && printf %s {shlex.quote(files.digest)} > loaded"
    return Command("confirm-config", text)


def loaded() -> Command:
    """Prints service and version of the files that each service works with, unless they were changed on the host."""
    text = (
        f"cd {HOME}/config 2>/dev/null || exit 0; for name in *; do "
        'if [ -e "$name/loaded" ] && [ "$(readlink "$name/current")" = "$(cat "$name/loaded")" ] && '
        '(cd "$name/current" && sha256sum --check --quiet --strict .sha256) >/dev/null 2>&1; '
        'then echo "$name $(cat "$name/loaded")"; fi; done'
    )
    return Command("loaded", text)


def reload(service: ServiceEntry) -> Command | None:
    """Makes the service read its files; None where it watches them itself."""
    if service.files is None or not service.files.reload:
        return None
    return http(f"reload-{service.name}", service.address, service.port, service.files.reload, "POST")


def check(release: str, service: ServiceEntry) -> Command | None:
    """Checks the files of a release with the program in the service's image; None where it has none."""
    if service.files is None or not service.files.check:
        return None
    program, *words = service.files.check
    text = (
        'docker run --rm --pull never --network none --user "$(id -u):$(id -g)" --read-only --cap-drop ALL '
        f"--volume {HOME}/releases/{shlex.quote(release)}/{shlex.quote(service.name)}:{INSIDE}/current:ro "
        f"--entrypoint {shlex.quote(program)} {shlex.quote(service.image)} {' '.join(map(shlex.quote, words))}"
    )
    return Command(f"check-{service.name}", text, CHECK_SECONDS)


def refusal(text: str) -> str:
    """Error lines of a check, without the paths inside."""
    lines = [line.strip() for line in text.replace(f"{INSIDE}/current/", "").splitlines() if line.strip()]
    bad = [line for line in lines if "FAILED" not in line and "SUCCESS" not in line and not line.startswith("Checking")]
    return " ".join(bad or lines)[-1500:]
