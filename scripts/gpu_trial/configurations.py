"""Configurations of a trial's runs: those that are compared with a CPU's, and those that are timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Config = dict[str, Any]
STEPS = 6  # of a run whose losses are compared
TOTAL, HALF = 0.02, 0.05  # relative difference of the losses' sum; in half precision
TRIALS = "--xla_gpu_autotune_level=4"  # XLA's own default
SHARED = {"tensorboard": False, "sample_text": "", "log_every": 1}


@dataclass(frozen=True)
class Case:
    """A run whose losses are compared; `tolerance` is of their sum, relative."""

    name: str
    config: Config
    tolerance: float = TOTAL


@dataclass(frozen=True)
class Place:
    """Where a trial runs: a card of `free_mib`, or logical CPU devices in its stead (None), with fewer clips a step."""

    shards: Path
    free_mib: int | None
    most_rows: int = 2  # of a step on CPU devices

    def config(self, rows: int, *, shares: Mapping[str, float], parts: int = 1, **more: Any) -> Config:
        """A configuration with `rows` clips a step; `shares` are of the card's memory, by role."""
        model = {"size": more.pop("size", "tiny"), "networks": more.pop("networks", "acoustic")}
        split = {"data_gpu": 0, "model_gpu": 1} if "data" in shares else {}
        if self.free_mib is None:
            training = {"device": "cpu", "precision": "float32", "xla": False}
            more = {key: value for key, value in more.items() if key not in training}
            rows = min(rows, self.most_rows)
        else:
            training = {"device": "gpu", "gpu_parts": parts, "enable_memory_isolation": True}
            training |= {f"{role}_gpu_memory": int(share * self.free_mib) for role, share in shares.items()}
        return {
            "model": model,
            "data": {"train_data": str(self.shards), "buckets": 1, "num_workers": 4, **split},
            "telemetry": SHARED,
            "training": {"batch_size": rows, "seed": 1, "resume": False, **training, **more},
        }

    def reference(self) -> Case:
        """The run on one CPU device with which the others are compared."""
        on_cpu = Place(self.shards, None, most_rows=2 if self.free_mib is None else 4)
        return Case("one CPU device", on_cpu.config(4, shares={}, strategy="single", max_steps=STEPS))

    def on_one_device(self) -> list[Case]:
        """Runs on one device: without and with XLA, and in half precision."""

        def single(name: str, precision: str, xla: bool, tolerance: float = TOTAL) -> Case:
            kind: Config = {"strategy": "single", "precision": precision, "xla": xla, "max_steps": STEPS}
            return Case(name, self.config(4, shares={"model": 0.05}, **kind), tolerance)

        return [
            single("single, float32", "float32", False),
            single("single, float32, XLA", "float32", True),
            single("single, bfloat16, XLA", "bfloat16", True, HALF),
            single("single, float16, XLA", "float16", True, HALF),
        ]

    def on_two_devices(self) -> list[Case]:
        """Runs on two parts of one card, as a split and mirrored."""
        both = {"model": 0.05, "data": 0.05}
        kind: Config = {"parts": 2, "precision": "float32", "max_steps": STEPS}
        return [
            Case("split, float32, XLA", self.config(4, shares=both, xla=True, **kind)),
            Case("split, float32", self.config(4, shares=both, xla=False, **kind)),
            Case("mirrored, float32", self.config(2, shares={"model": 0.05}, strategy="mirrored", xla=False, **kind)),
        ]

    def timed(self, *, longer: bool) -> dict[str, Config]:
        """Runs that are timed, the most telling ones first; `longer` adds sizes and precisions."""
        both = {"model": 0.07, "data": 0.07}
        bfloat16: Config = {"precision": "bfloat16", "xla": True}

        def single(size: str, rows: int, share: float, **kind: Any) -> Config:
            return self.config(rows, size=size, shares={"model": share}, strategy="single", **(bfloat16 | kind))

        found = {
            "two networks, split": self.config(
                32, networks="acoustic,vocoder", shares=both, parts=2, discriminators_after=10**6, **bfloat16
            ),
        }
        if self.free_mib is not None:
            found |= {
                "tiny": single("tiny", 32, 0.07),
                "tiny, XLA tries ways": {**single("tiny", 32, 0.07), "xla_flags": TRIALS},
                "tiny without XLA": single("tiny", 32, 0.07, xla=False),
                "normal": single("normal", 16, 0.12),
            }
        if self.free_mib is not None and longer:
            found |= {
                "tiny, float32": single("tiny", 32, 0.08, precision="float32"),
                "small": single("small", 32, 0.1),
                "big": single("big", 8, 0.14),
            }
        return found
