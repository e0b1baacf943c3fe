"""What GPUs do at a moment: utilization and power, as NVML says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from voxyard.host.errors import HostError


@dataclass(frozen=True, slots=True)
class Usage:
    """One reading of one GPU. A value that the card does not report is None."""

    utilization: float | None  # 0…1: share of the last moments in which a kernel ran
    power_watts: float | None


class UsageReader:
    """Reads some GPUs again and again; a context that holds NVML open."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._uuids = tuple(uuids)

    def __enter__(self) -> Self:
        """Raises HostError where NVML or one of the GPUs does not answer."""
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in self._uuids]
        except pynvml.NVMLError as error:
            raise HostError(f"the GPUs {', '.join(self._uuids)} cannot be watched: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nvml.nvmlShutdown()

    def read(self) -> tuple[Usage, ...]:
        """One reading a GPU, in the order of the UUIDs; None for what cannot be read, a lost GPU's values among it."""
        return tuple(Usage(self._utilization(handle), self._power(handle)) for handle in self._handles)

    def _utilization(self, handle: Any) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        except self._nvml.NVMLError:
            return None

    def _power(self, handle: Any) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetPowerUsage(handle)) / 1000
        except self._nvml.NVMLError:
            return None
