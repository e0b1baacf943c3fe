"""`voxyard …` on CPU devices that reports GPUs in its metrics.

python gpu_claiming_cli.py CLAIMS ARGUMENTS…: CLAIMS is JSON, a list of role, index, uuid, limit_mib (or null).
Everything but the claim is the program's own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from prometheus_client import CollectorRegistry

from voxyard.cli import main
from voxyard.host.nvml import Gpu
from voxyard.telemetry.workloads import WorkloadGpus


def claim(claims: list[dict[str, Any]]) -> None:
    """From here on every workload of this process holds these GPUs."""
    begin = WorkloadGpus.__init__

    def begin_and_assign(
        self: WorkloadGpus, registry: CollectorRegistry, workload: str, *more: Any, **named: Any
    ) -> None:
        begin(self, registry, workload, *more, **named)
        for each in claims:
            gpu = Gpu(each["index"], each["uuid"], "", "", None, None, None)
            self.assign(each["role"], gpu, each["limit_mib"])

    WorkloadGpus.__init__ = begin_and_assign  # type: ignore[method-assign]


if __name__ == "__main__":
    claim(json.loads(sys.argv[1]))
    sys.argv = ["voxyard", *sys.argv[2:]]
    main()
