"""Facts about one machine: its GPUs and their links, memory limits, CUDA device numbering, page cache."""

from __future__ import annotations

from voxyard.host.cuda import cuda_bus_ids
from voxyard.host.errors import HostError
from voxyard.host.limits import LimitsError, TrainerLimits, limits_for
from voxyard.host.nvml import Gpu, gpus, same_bus
from voxyard.host.pairing import Pair, choose_pair, why_none
from voxyard.host.plan import TrainerPlan, plan_trainer, read_links
from voxyard.host.topology import Topology, TopologyError

__all__ = [
    "Gpu",
    "HostError",
    "LimitsError",
    "Pair",
    "Topology",
    "TopologyError",
    "TrainerLimits",
    "TrainerPlan",
    "choose_pair",
    "cuda_bus_ids",
    "gpus",
    "limits_for",
    "plan_trainer",
    "read_links",
    "same_bus",
    "why_none",
]
