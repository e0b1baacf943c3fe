"""SBOM of an image (CycloneDX JSON), from the packages installed in it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import FleetError
from fleet.images.image import LocalImage, docker

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License
    from packageurl import PackageURL

PROGRAM = Path(__file__).with_name("contents.py")
FOLDER = Path("build/sbom")


def write_sbom(image: LocalImage, folder: Path) -> Path:
    """Write the SBOM of `image` to folder/NAME.json, reproducibly. Raises FleetError."""
    created = json.loads(docker("image", "inspect", "--format", "{{json .Created}}", image.id))
    path = folder / f"{image.repository}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(render(image, created, read_contents(image)), encoding="utf-8")
    return path


def read_contents(image: LocalImage) -> dict[str, Any]:
    """Installed packages, listed by a confined container of the image. Raises FleetError."""
    confined = ("--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--entrypoint", "python")
    said = docker("run", *confined, image.id, "-I", "-c", PROGRAM.read_text(encoding="utf-8"))
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError as error:
        raise FleetError(f"{image.release_tag} did not list its packages as JSON: {said[:200]!r}") from error
    return found


def render(image: LocalImage, created: str, found: dict[str, Any]) -> str:
    """SBOM text of an image; `created` is RFC 3339 or empty, `found` the output of `read_contents`."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    system = found["system"]
    parts = [_python(each) for each in found["python_packages"]]
    parts += [_debian(each, system) for each in found["debian_packages"]]
    parts += [
        Component(
            name=system["id"],
            version=system["version"] or None,
            type=ComponentType.OPERATING_SYSTEM,
            bom_ref=f"os:{system['id']}",
        ),
        Component(name="python", version=found["python"], type=ComponentType.PLATFORM, bom_ref="platform:python"),
    ]
    purl = PackageURL("oci", name=image.repository, version=image.id)
    whole = Component(
        name=image.repository, version=image.id, type=ComponentType.CONTAINER, purl=purl, bom_ref=str(purl)
    )
    bom = Bom(components=parts, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(purl)))
    bom.metadata.component = whole
    bom.metadata.timestamp = datetime.fromisoformat(created or "1970-01-01T00:00:00+00:00")
    bom.register_dependency(whole, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _python(each: dict[str, str]) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from packageurl import PackageURL

    purl = PackageURL("pypi", name=re.sub(r"[-_.]+", "-", each["name"]).lower(), version=each["version"])
    return _library(each, purl, [LicenseFactory().make_from_string(each["license"])] if each["license"] else [])


def _debian(each: dict[str, str], system: dict[str, str]) -> Component:
    from packageurl import PackageURL

    qualifiers = {"arch": each["architecture"], "distro": f"{system['id']}-{system['version']}"}
    return _library(each, PackageURL("deb", system["id"], each["name"], each["version"], qualifiers))


def _library(each: dict[str, str], purl: PackageURL, licenses: Sequence[License] = ()) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    name, version = each["name"], each["version"]
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl), licenses=licenses
    )
