"""Shell commands of a rollout; this module builds them and runs none.

Files that a service reads anew lie in config/SERVICE on the host, with a directory a version: `current` leads to the
one that the service reads, and `loaded` names the one that it was seen to work with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.release.manifest import ServiceEntry
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.verbs import http

EXPORTER = "exporter"  # runs on every host
EXPORTERS = ("exporter", "node-exporter")  # they use no GPU, and a drain leaves them


def sums(checksums: Mapping[str, str]) -> str:
    """Checksums in the format of `sha256sum --check`."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())


def compose_options(compose_files: Sequence[str]) -> list[str]:
    """Options of Compose that name its files."""
    return [word for name in compose_files for word in ("--file", name)]


INSIDE = "/etc/voxyard/config"
"""Mount point of config/SERVICE in its container."""
CHECK_SECONDS = 120


def reload_config(service: ServiceEntry) -> Command | None:
    """Makes the service read its files; None where it watches them itself."""
    if service.files is None or not service.files.reload:
        return None
    return http(f"reload-{service.name}", service.address, service.port, service.files.reload, "POST")


def check_config(release: str, service: ServiceEntry) -> Command | None:
    """Checks the files of a release with the program in the service's image; None where it has none."""
    if service.files is None or not service.files.check:
        return None
    inside = f"{INSIDE}/current"
    words = (release, service.name, service.image, inside, *service.files.check)
    return Command(f"check-{service.name}", verb("config_check", *words), CHECK_SECONDS)


def config_refusal(text: str) -> str:
    """Error lines of a check_config, without the paths inside."""
    lines = [line.strip() for line in text.replace(f"{INSIDE}/current/", "").splitlines() if line.strip()]
    bad = [line for line in lines if "FAILED" not in line and "SUCCESS" not in line and not line.startswith("Checking")]
    return " ".join(bad or lines)[-1500:]
