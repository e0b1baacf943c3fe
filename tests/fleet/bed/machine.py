"""Network configuration of this machine: Debian mirror, package index, certificates."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.fleet.bed.errors import BedError
from tests.fleet.bed.programs import run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_APT_SETTINGS = re.compile(r"Acquire::(http|https|Check-|Max-|Min-|Retries|ForceIPv)", re.IGNORECASE)
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")


@dataclass(frozen=True)
class Mirror:
    """The Debian archive that this machine's apt uses."""

    site: str
    keyring: Path


def debian_mirror() -> Mirror:
    """The mirror of the machine's own release. Raises BedError when there is none, or no keyring to check it with."""
    about = _os_release()
    if about.get("ID") != "debian":
        raise BedError(f"the test bed takes its packages from Debian's archive, this machine runs {about.get('ID')}")
    targets = run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"]).stdout
    release = about.get("VERSION_CODENAME", "")
    for line in targets.splitlines():
        site, _, name = line.partition(" ")
        if name in (release, "stable"):
            if not KEYRING.exists():
                raise BedError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
            return Mirror(site, KEYRING)
    raise BedError(
        f"apt knows no mirror of Debian {release or '(of which release?)'}: add one under /etc/apt, apt-get update"
    )


def apt_settings() -> str:
    """Mirror settings of this machine's apt, as an apt.conf."""
    lines = run(["apt-config", "dump", "Acquire"]).stdout.splitlines()
    return "".join(f"{line}\n" for line in lines if _APT_SETTINGS.match(line) and '"' in line)


def proxies() -> Mapping[str, str]:
    """The proxies that apt uses, as variables for debootstrap, which asks for nothing but these."""
    found = {}
    for scheme in ("http", "https"):
        said = run(["apt-config", "shell", "proxy", f"Acquire::{scheme}::Proxy"]).stdout.strip()
        value = said.removeprefix("proxy=").strip("'")
        if value and value != "DIRECT":
            found[f"{scheme}_proxy"] = value
    return found


@cache
def pip_settings() -> str:
    """Index settings of this machine's pip, as a pip.conf; options that name files of this machine are left out."""
    listed = run([sys.executable, "-m", "pip", "config", "list", "--quiet"], check=False).stdout
    found: dict[str, str] = {}
    for line in listed.splitlines():
        key, _, quoted = line.partition("=")
        name = key.rpartition(".")[2]
        words = [
            word for word in quoted.strip("'\"").replace("\\n", " ").split() if not word.startswith(("file:", "/"))
        ]
        if name in _PIP_SETTINGS and words:
            found[name.removeprefix("default-")] = " ".join(words)
    return "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in found.items())])


def ca_bundle() -> bytes:
    """The certificates that this machine trusts; empty when it has none."""
    path = Path(os.environ.get("SSL_CERT_FILE") or BUNDLE)
    return path.read_bytes() if path.is_file() else b""


def build_secrets(folder: Path) -> Mapping[str, Path]:
    """Files for `docker build --secret`, by id, written into the folder's `secrets`."""
    place = folder / "secrets"
    place.mkdir(mode=0o700, exist_ok=True)
    contents = {"pip_config": pip_settings().encode(), "apt_config": apt_settings().encode(), "ca_bundle": ca_bundle()}
    for name, content in contents.items():
        (place / name).write_bytes(content)
    return {name: place / name for name in contents}


def _os_release() -> Mapping[str, str]:
    pairs = (line.partition("=") for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines())
    return {key: json.loads(value) if value.startswith('"') else value for key, _, value in pairs if key}
