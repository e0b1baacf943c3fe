"""CUDA requirements of an image: its framework's build, its base's version, and what the container toolkit demands."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import FRAMEWORK_ARGUMENTS, LocalImage, docker
from voxyard.trainer.devices.cuda_kernels import UNKNOWN_KERNELS, CudaKernels

log = logging.getLogger("fleet")

FRAMEWORKS_LABEL = "voxyard.frameworks"
"""Label of an image with the CUDA builds of its frameworks, as JSON: what `read_frameworks` reads, for registries."""

Version = tuple[int, int]  # major, minor

# NVIDIA's table "CUDA Toolkit and Corresponding Driver Versions": driver branch → the newest CUDA that it supports.
DRIVER_CUDA: Mapping[int, Version] = {
    450: (11, 0), 455: (11, 1), 460: (11, 2), 465: (11, 3), 470: (11, 4), 495: (11, 5), 510: (11, 6), 515: (11, 7),
    520: (11, 8), 525: (12, 0), 530: (12, 1), 535: (12, 2), 545: (12, 3), 550: (12, 4), 555: (12, 5), 560: (12, 6),
    565: (12, 7), 570: (12, 8), 575: (12, 9), 580: (13, 0), 590: (13, 1),
}  # fmt: skip
# Reads the files in which torch and TensorFlow record their build, without importing them.
_PROGRAM = """
import importlib.metadata, importlib.util, json, pathlib, re
found = {}
for name, file, pattern in (
    ("torch", "version.py", r"^cuda\\b[^=]*= *'([\\d.]+)'"),
    ("tensorflow", "python/platform/build_info.py", r"'cuda_version', *'([\\d.]+)'|'cuda_version': *'([\\d.]+)'"),
):
    spec = importlib.util.find_spec(name)
    path = spec and spec.origin and pathlib.Path(spec.origin).parent / file
    if path and path.exists():
        said = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        found[name] = next(filter(None, said.groups())) if said else None
        listed = re.search(r"'cuda_compute_capabilities'[^\\[]*\\[([^\\]]*)", path.read_text(encoding="utf-8"))
        if listed:
            of = importlib.metadata.packages_distributions().get(name) or [name]
            version = importlib.metadata.version(of[0])
            found["kernels"] = {"version": version, "for": re.findall(r"(?:sm|compute)_\\w+", listed[1])}
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class CudaNeed:
    """CUDA that an image needs."""

    version: Version | None  # None: computes on CPUs only
    source: str  # where the version is from, for messages
    require: str = ""  # NVIDIA_REQUIRE_CUDA: the container toolkit refuses the start where it does not hold
    base: Version | None = None  # CUDA of the base, which brings libraries for older drivers
    kernels: CudaKernels = UNKNOWN_KERNELS  # of its TensorFlow

    def refusal(self, driver: int, card: str) -> str | None:
        """Reason why the image does not work with a driver of this branch on a card of this name; None where it does.

        NVIDIA_REQUIRE_CUDA may accept branches by name whose own CUDA is older: the base brings libraries for those.
        """
        accepted = require_holds(self.require, driver, card)
        if not accepted:
            return f"its NVIDIA_REQUIRE_CUDA does not hold ({_shortened(self.require)})"
        if self.version is None or supported(driver) >= self.version:
            return None
        by_name = not require_holds(_without_drivers(self.require), driver, card)
        if self.base is not None and self.version <= self.base and "driver" in self.require and by_name:
            return None
        return f"{self.source} needs CUDA {text(self.version)}"

    def relies_on_base(self, driver: int, card: str) -> bool:
        """True where the driver is older than the version, and the base's own CUDA driver library has to make up."""
        return self.version is not None and supported(driver) < self.version and self.refusal(driver, card) is None

    @property
    def least_driver(self) -> int:
        """Oldest driver branch that supports the version; of NVIDIA_REQUIRE_CUDA where that is newer."""
        named = re.match(r"cuda>=?(\d+)\.(\d+)", self.require)
        wanted = max(self.version or (0, 0), (int(named[1]), int(named[2])) if named else (0, 0))
        return next((branch for branch, cuda in DRIVER_CUDA.items() if cuda >= wanted), max(DRIVER_CUDA))


DEFAULTS: Mapping[str, CudaNeed] = {
    "trainer": CudaNeed((12, 8), "NVIDIA's TensorFlow 25.02, the default,"),
    "bark": CudaNeed((13, 0), "PyPI's torch 2.13, the default,"),
}
"""CUDA of the images as they are built by default, for roles whose image is not there."""


def cuda_needs(images: Mapping[str, LocalImage]) -> Mapping[str, CudaNeed]:
    """CUDA requirements of images by role; the defaults for roles without an image. Raises FleetError."""
    return {**DEFAULTS, **{role: found for role, image in images.items() if (found := cuda_need(image, role))}}


@functools.cache
def cuda_need(image: LocalImage, role: str) -> CudaNeed | None:
    """CUDA requirements of an image: from its environment, and from the record of its framework.

    A local image without the record, which builds add as a label, is read in a confined container. None for an image
    that records neither, and for roles without a framework. Raises FleetError.
    """
    if role not in FRAMEWORK_ARGUMENTS:
        return None
    said = image.label(FRAMEWORKS_LABEL)
    try:
        frameworks = read_frameworks(image) if said is None else json.loads(said)
    except (FleetError, ValueError) as error:
        log.warning("the framework in %s cannot be read, only its base counts: %s", image.release_tag, error)
        frameworks = {}
    return need(role, dict(each.partition("=")[::2] for each in image.environment), frameworks)


def read_frameworks(image: LocalImage) -> dict[str, Any]:
    """CUDA builds of the frameworks in a local image, listed by a confined container of it.

    Raises FleetError.
    """
    confined = ("--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL")
    said = docker("run", *confined, "--entrypoint", "python", image.id, "-I", "-c", _PROGRAM)
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError as error:
        raise FleetError(f"{image.release_tag} did not list its frameworks as JSON: {said[:200]!r}") from error
    return found


def need(role: str, environment: Mapping[str, str], frameworks: Mapping[str, Any]) -> CudaNeed | None:
    """CUDA requirements from an image's environment and the CUDA of its frameworks; None where nothing is recorded."""
    require = "" if environment.get("NVIDIA_DISABLE_REQUIRE") else environment.get("NVIDIA_REQUIRE_CUDA", "")
    base = _version(environment.get("CUDA_VERSION"))
    framework = {"bark": "torch", "trainer": "tensorflow"}[role]
    if framework in frameworks:
        version = _version(frameworks[framework])
        built = f"its {framework}, built for CUDA {text(version)}," if version else f"its {framework}, built for CPUs,"
        return CudaNeed(version, built, require, base, _kernels(frameworks.get("kernels")))
    return CudaNeed(base, "its base", require, base) if base or require else None


def _kernels(said: Mapping[str, Any] | None) -> CudaKernels:
    if not said:
        return UNKNOWN_KERNELS
    return CudaKernels.of_build(str(said["version"]), {"cuda_compute_capabilities": said["for"]})


def supported(driver: int) -> Version:
    """Newest CUDA version of a driver branch; (0, 0) for one that is older than the table."""
    return max((cuda for branch, cuda in DRIVER_CUDA.items() if branch <= driver), default=(0, 0))


def require_holds(require: str, driver: int, card: str) -> bool:
    """Value of NVIDIA_REQUIRE_CUDA: alternatives separated by spaces, of conditions separated by commas."""
    alternatives = require.split()
    return not alternatives or any(
        all(_holds(condition, driver, card) for condition in alternative.split(",")) for alternative in alternatives
    )


def text(version: Version | None) -> str:
    """Version as text."""
    return "none" if version is None else f"{version[0]}.{version[1]}"


_COMPARE: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
}


def _holds(condition: str, driver: int, card: str) -> bool:
    found = re.fullmatch(r"(\w+)(>=|<=|!=|>|<|=)([\w.]+)", condition)
    if found is None:
        return False
    name, sign, wanted = found.groups()
    if name == "brand":
        return (wanted in _brands(card)) == (sign == "=")
    if name not in ("cuda", "driver"):
        return True  # arch: the cards' own software decides
    have: tuple[int, ...] = supported(driver) if name == "cuda" else (driver,)
    numbers = tuple(int(each) for each in re.findall(r"\d+", wanted))[: len(have)]
    return _COMPARE[sign](have, numbers)


def _brands(card: str) -> frozenset[str]:
    """Brands, in the toolkit's words, that a card of this name may be of."""
    for word, brands in (
        ("GeForce", {"geforce", "geforcertx"}),
        ("TITAN", {"titan", "titanrtx"}),
        ("Quadro", {"quadro", "quadrortx"}),
        ("RTX", {"nvidiartx", "quadrortx"}),
    ):
        if word.lower() in card.lower():
            return frozenset(brands)
    return frozenset({"tesla", "nvidia"})


def _without_drivers(require: str) -> str:
    """The alternatives that name no driver branch; never true where all do."""
    return " ".join(each for each in require.split() if "driver" not in each) or "cuda<0"


def _shortened(require: str) -> str:
    words = require.split()
    return words[0] if len(words) == 1 else f"{words[0]}, or one of {len(words) - 1} driver branches"


def _version(said: str | None) -> Version | None:
    found = re.match(r"(\d+)\.(\d+)", said or "")
    return (int(found[1]), int(found[2])) if found else None
