"""Runs inside an image: prints its installed packages as JSON; standard library only."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from pathlib import Path

STATUS = Path("/var/lib/dpkg/status")


def python_packages() -> list[dict[str, str]]:
    """Python distributions: name, version, license; shadowed ones are left out."""
    found: dict[str, dict[str, str]] = {}
    for each in importlib.metadata.distributions():
        about = each.metadata
        key = re.sub(r"[-_.]+", "-", about["Name"] or "").lower()
        if not key or key in found:
            continue
        classifiers = [line for line in about.get_all("Classifier") or () if line.startswith("License :: OSI")]
        said = about["License-Expression"] or about["License"] or ""
        if not said or len(said) > 100 or "\n" in said:  # some contain the whole text
            said = classifiers[0].rpartition(" :: ")[2] if classifiers else ""
        found[key] = {"name": about["Name"], "version": each.version, "license": said}
    return [found[name] for name in sorted(found)]


def debian_packages(status: Path) -> list[dict[str, str]]:
    """Installed Debian packages: name, version, architecture."""
    files = [status, *sorted(status.with_name("status.d").glob("*"))]  # status.d is the form of distroless images
    found = []
    for file in (each for each in files if each.is_file()):
        for paragraph in file.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            pairs = (line.partition(": ") for line in paragraph.splitlines() if not line.startswith(" "))
            fields = {key: value for key, _, value in pairs}
            if "Package" in fields and fields.get("Status", "install ok installed").endswith(" installed"):
                found.append(
                    {
                        "name": fields["Package"],
                        "version": fields.get("Version", ""),
                        "architecture": fields.get("Architecture", ""),
                    }
                )
    return sorted(found, key=lambda each: (each["name"], each["architecture"]))


def contents() -> dict[str, object]:
    """Python version, system, Python packages and Debian packages."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return {
        "python": platform.python_version(),
        "system": {"id": release.get("ID", "linux"), "version": release.get("VERSION_ID", "")},
        "python_packages": python_packages(),
        "debian_packages": debian_packages(STATUS),
    }


if __name__ == "__main__":
    print(json.dumps(contents()))
