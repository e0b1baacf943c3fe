"""Shell commands for files that a service reads anew: config/SERVICE on the host, with a directory a version.

`current` leads to the version that the service reads, and `loaded` names the one that it was seen to work with.
"""

from __future__ import annotations

from fleet.release.manifest import ServiceEntry
from fleet.release.service import ConfigFiles
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.verbs import http

INSIDE = "/etc/voxyard/config"
"""Mount point of config/SERVICE in its container."""
CHECK_SECONDS = 120


def publish(release: str, service: str, files: ConfigFiles) -> Command:
    """Copies the files of a release for its service, readable by any user inside, and points `current` to them."""
    return Command("publish-config", verb("config_publish", release, service, files.digest), 60)


def confirm(service: str, files: ConfigFiles) -> Command:
    """Notes that the service works with these files."""
    return Command("confirm-config", verb("config_confirm", service, files.digest))


def loaded() -> Command:
    """Prints service and version of the files that each service works with, unless they were changed on the host."""
    return Command("loaded", verb("config_list"))


def reload(service: ServiceEntry) -> Command | None:
    """Makes the service read its files; None where it watches them itself."""
    if service.files is None or not service.files.reload:
        return None
    return http(f"reload-{service.name}", service.address, service.port, service.files.reload, "POST")


def check(release: str, service: ServiceEntry) -> Command | None:
    """Checks the files of a release with the program in the service's image; None where it has none."""
    if service.files is None or not service.files.check:
        return None
    inside = f"{INSIDE}/current"
    words = (release, service.name, service.image, inside, *service.files.check)
    return Command(f"check-{service.name}", verb("config_check", *words), CHECK_SECONDS)


def refusal(text: str) -> str:
    """Error lines of a check, without the paths inside."""
    lines = [line.strip() for line in text.replace(f"{INSIDE}/current/", "").splitlines() if line.strip()]
    bad = [line for line in lines if "FAILED" not in line and "SUCCESS" not in line and not line.startswith("Checking")]
    return " ".join(bad or lines)[-1500:]
