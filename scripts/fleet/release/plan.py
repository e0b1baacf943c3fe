"""Host plan (plan.yaml): number of GPUs, workloads, their GPUs and memory limits; accepted warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.release.gpu_assignment import Assignment

PLAN_FILE = "plan.yaml"
STATES = ("pair_link", "pcie_width", "throttling")
"""Warnings of the preflight about what lasts, of which alerts tell, too: accepted ones are none (deploy/prometheus)."""


def plan_document(
    assignment: Assignment, acknowledged: Iterable[str] = (), sick_gpus: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Host plan as data: how many GPUs the host should have, the workloads, and the trainer's settings.

    Of the `acknowledged` warnings it has those that an alert would tell again; `sick_gpus` is for the exporter.
    """
    total = assignment.selection.total
    document: dict[str, object] = {} if total is None else {"gpus": total}
    document |= {
        "workloads": [
            {"workload": each.workload, "role": each.role, "gpu": each.gpu}
            for each in assignment.workloads
            if each.role != "custom"  # which tells nothing of itself to the exporter
        ]
    }
    if accepted := sorted(set(acknowledged) & set(STATES)):
        document["acknowledged"] = accepted
    document |= {"sick_gpus": dict(sick_gpus)} if sick_gpus else {}
    limits = assignment.limits
    if limits is None:
        return document
    data: dict[str, object] = {
        "prefetch_buffer_size": limits.ring_slots,
        "pipeline_buffer_size": limits.buffer_size,
    }
    training: dict[str, object] = {
        "batch_size": limits.batch_size,
        "enable_memory_isolation": True,
        "model_gpu_memory": limits.model.limit_mib,
    }
    if limits.data is not None:  # a single GPU is the only one in its container
        data |= {"data_gpu": limits.data.uuid, "model_gpu": limits.model.uuid}
        training |= {"data_gpu_memory": limits.data.limit_mib}
    return document | {"data": data, "training": training}


def plan_variables(assignment: Assignment) -> Mapping[str, str]:
    """GPUs and limits of the trainer as environment variables of its settings."""
    limits = assignment.limits
    if limits is None:
        return {}
    cards = {"MODEL": limits.model} | ({} if limits.data is None else {"DATA": limits.data})
    return {
        name: value
        for role, card in sorted(cards.items())
        for name, value in (
            (f"VOXYARD_TRAIN_{role}_GPU", card.uuid),
            (f"VOXYARD_TRAIN_{role}_GPU_MEMORY", str(card.limit_mib)),
        )
    }
