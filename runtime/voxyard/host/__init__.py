"""What one machine has: its GPUs, their memory limits, and how CUDA numbers them."""

from __future__ import annotations

from voxyard.host.cuda import cuda_bus_ids
from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu, gpus, same_bus

__all__ = ["Gpu", "HostError", "cuda_bus_ids", "gpus", "same_bus"]
