"""Throw-away container with the GPU request of a release: shows whether containers of this host get their GPUs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass

from fleet.facts.fact import Fact
from fleet.ssh.command_batch import verb

SECONDS = 60  # without persistence mode the driver may initialize every GPU first
_OWN = "voxyard-exporter"
_SMI = "nvidia-smi"  # the container toolkit mounts it for the capability utility
_NOT_MOUNTED = re.compile(rf'exec(utable file)?:? "?{_SMI}"?')


@dataclass(frozen=True, slots=True)
class GpuStart:
    """Result of one container that lists its GPUs."""

    wanted: tuple[str, ...] = ()  # UUIDs that were requested; empty: all
    image: str = ""  # its short id; empty: the host has no image, nothing was started
    own: bool = False  # an exporter's image
    command: str = ""
    code: int = 0
    said: str = ""  # standard output and standard error

    @property
    def seen(self) -> frozenset[str]:
        """UUIDs that the container listed."""
        return frozenset(re.findall(r"UUID: (GPU-[0-9a-f-]+)", self.said))

    @property
    def not_mounted(self) -> bool:
        """True where the container was started and had no nvidia-smi that its image can run."""
        return self.code in (126, 127) and _NOT_MOUNTED.search(self.said) is not None


def gpu_start(uuids: Collection[str]) -> Fact[GpuStart]:
    """Fact: the result of a container with these GPUs, or, for none, with all GPUs, as the exporter requests them.

    The image is the newest exporter of the host, else its smallest image. The container has no network and no rights.
    """
    wanted = tuple(sorted(uuids))
    request = f'"device={",".join(wanted)}","capabilities=compute,utility"' if wanted else "all,capabilities=utility"
    words = ["--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges", "--user", "65532:65532", "--gpus", request, "--entrypoint", _SMI]

    def parse(text: str) -> GpuStart:
        if not text.strip():
            return GpuStart(wanted)
        image, own, code, said = text.split("\n", 3)
        return GpuStart(wanted, image, bool(own), f"docker run {shlex.join(words)} {image} -L", int(code), said.strip())

    return Fact("gpu-start", verb("fact_gpu_start", _OWN, str(SECONDS), *words), parse, SECONDS + 30)
