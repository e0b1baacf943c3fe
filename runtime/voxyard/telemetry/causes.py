"""Causes of GPUs that wait or are slow: one table, which alerts, the Fleet dashboard and `voxyard profile` read.

The evidence of each cause is a recording rule in deploy/prometheus/rules/causes.yaml, under its name, title and rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A cause: its name in rules and JSON, what it is in words, what to do, and the alert that tells it."""

    name: str
    title: str
    remedy: str
    alert: str


CAUSES: tuple[Cause, ...] = (
    Cause("host_gone", "the host does not answer", "look at its power and console", "HostGone"),
    Cause(
        "gpu_lost", "the driver does not answer for the GPU", "drain the host and reset or replace the GPU", "GpuLost"
    ),
    Cause("thermal", "heat holds its clocks down", "look at fans, filters and inlet air", "GpuThermalSlowdown"),
    Cause("power_brake", "its power supply brakes it", "look at the host's power supplies", "GpuPowerBrake"),
    Cause("power_cap", "its power limit is lowered", "set the default limit again: nvidia-smi -pl", "GpuPowerCapped"),
    Cause("clocks_locked", "its clocks are locked low", "unlock them: nvidia-smi -rgc, -rac", "GpuClocksLow"),
    Cause("link_width", "its PCIe link has lost lanes", "reseat card and riser", "PcieLinkDowngraded"),
    Cause("link_generation", "its PCIe link is slow under load", "look at slot, riser and BIOS", "PcieLinkSlow"),
    Cause("stranger_compute", "another process computes on it", "end it, or give it a GPU of its own", "GpuStranger"),
    Cause(
        "stranger_memory", "more memory is held than its workloads may take", "end what holds it", "GpuMemoryNearLimit"
    ),
    Cause(
        "memory_pressure",
        "the host is short of memory",
        "fewer reading threads, a smaller buffer, or more memory",
        "TrainingInputBound",
    ),
    Cause(
        "cpu_quota",
        "its container may use fewer cores than before",
        "raise its quota again: docker update --cpus",
        "TrainingInputBound",
    ),
    Cause(
        "input_one_core",
        "all reading threads share one core",
        "shards in place of recordings, or more cores for the container",
        "TrainingInputBound",
    ),
    Cause(
        "input_decode", "decoding takes all cores", "prepare shards once: voxyard corpus prepare", "TrainingInputBound"
    ),
    Cause(
        "cpu_pressure",
        "other processes take the cores",
        "move them, or give the run cores of its own",
        "TrainingInputBound",
    ),
    Cause(
        "input_storage",
        "the storage is slow",
        "shards or a cache on a local disk, or more reading threads",
        "TrainingInputBound",
    ),
    Cause("input_workers", "there are too few reading threads", "raise --num-workers", "TrainingInputBound"),
    Cause(
        "transfer",
        "the copy between the GPUs is slow",
        "take a pair that is linked better: voxyard topology",
        "TrainingInputBound",
    ),
    Cause(
        "features",
        "the features are slower than the training",
        "prepare features once, or batch on a faster data GPU",
        "TrainingInputBound",
    ),
    Cause(
        "checkpoint",
        "checkpoints and samples take too much of its time",
        "save less often, or on a faster disk",
        "TrainingCheckpointsLong",
    ),
    Cause("pool_workers", "workers of the pool are missing", "look at the service's log", "BarkWorkersDown"),
    Cause(
        "validation",
        "validations take most of its time",
        "validate less often, or on fewer clips",
        "TrainingValidationLong",
    ),
    Cause("small_work", "its steps are too small to fill it", "a larger batch", "GpuWorkSmall"),
    Cause(
        "second_network",
        "a second network takes most of its steps",
        "the run's own work; --vocoder-on model, or a smaller vocoder",
        "GpuWorkSmall",
    ),
    Cause(
        "small_kernels",
        "it is busy with kernels that fill a part of it",
        "a larger batch, --xla, static shapes",
        "GpuBusyInPart",
    ),
    Cause(
        "memory_bound",
        "its memory's bandwidth is what holds it up",
        "mixed precision, --xla (fewer passes over memory)",
        "GpuBusyInPart",
    ),
    Cause(
        "collectives",
        "it waits for the other GPUs of its run",
        "look for the slowest of them and its links",
        "GpuBusyInPart",
    ),
    Cause("nvlinks", "some of its NVLinks are down", "reset the GPUs and their fabric manager", "GpuNvlinksDown"),
    Cause(
        "slower_clocks",
        "the clocks of its GPU are lower than before",
        "look what holds them: nvidia-smi -q -d CLOCK,PERFORMANCE",
        "TrainingSlowerThanBefore",
    ),
    Cause(
        "slower_traces",
        "functions are compiled again and again",
        "static shapes, or no --xla; the log names the function",
        "TrainingSlowerThanBefore",
    ),
    Cause(
        "slower_driver",
        "the driver is another than before",
        "go back to the driver of before, or report it",
        "TrainingSlowerThanBefore",
    ),
    Cause(
        "slower_code",
        "its release or configuration is another than before",
        "compare it with the one before: make rollback",
        "TrainingSlowerThanBefore",
    ),
    Cause(
        "phase_storage",
        "its storage is slow",
        "look at the disk or share of its held-out clips or checkpoints",
        "TrainingPhaseSlow",
    ),
    Cause(
        "cpu_frequency",
        "its cores run slower than they can",
        "lift what holds their clocks: cpupower frequency-set -g performance, power profile, heat",
        "TrainingInputBound",
    ),
    Cause("store", "the database of the documents is slow", "look at its disk, locks and connections", "StoreSlow"),
)
"""All causes, the one that explains most first: where several hold, the first is told."""

BY_NAME: Mapping[str, Cause] = {cause.name: cause for cause in CAUSES}


def rank(cause: Cause) -> int:
    """Place of a cause in the table, from 1: the value of its series."""
    return CAUSES.index(cause) + 1
