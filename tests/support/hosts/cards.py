"""GPUs of a host as its driver describes them, and an `nvidia-smi` that prints their links."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from voxyard.host.nvml import Gpu


def card(index: int, total: int | None = 24564, free: int | Literal["most"] | None = "most", **facts: Any) -> Gpu:
    """A GPU with this memory in MiB, of which 564 are taken where nothing else is said; None: it does not tell."""
    left = total and total - 564 if free == "most" else free
    known = {
        "uuid": f"GPU-{index}",
        "name": "NVIDIA A10",
        "pci_bus_id": f"00000000:{index + 1:02X}:00.0",
        "compute_capability": (8, 6),
    }
    return Gpu(index=index, memory_total_mib=total, memory_free_mib=left, **known | facts)


def nvidia_smi(directory: Path, *, matrix: str, p2p: str) -> None:
    """A program that prints these tables, with the shell's own commands alone; an empty one is a failure."""
    (directory / "matrix").write_text(matrix)
    (directory / "p2p").write_text(p2p)
    script = directory / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in "topo -m") file={directory}/matrix;; "topo -p2p r") file={directory}/p2p;; esac\n'
        'test -s "$file" || { echo "No devices were found"; exit 6; }\n'
        'while IFS= read -r line; do printf "%s\\n" "$line"; done < "$file"\n'
    )
    script.chmod(0o755)
