"""Commands `gpus`, `topology` and `limits`: the hardware of this host."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from voxyard.cli.base import CONTEXT, JSON, WRONG_USE, answering, refuse
from voxyard.settings import path_of
from voxyard.trainer.reporting.figures import columns

if TYPE_CHECKING:
    from voxyard.host.nvml import Gpu
    from voxyard.host.out_of_work import Mark
    from voxyard.host.pairing import Pair
    from voxyard.host.plan import TrainerPlan
    from voxyard.host.topology import Topology

log = logging.getLogger("voxyard.cli")

_EXTRA = "exporter"
_LARGEST_FILE = 4_000_000  # bytes; the reader itself refuses what is too long for a topology


@click.command(context_settings=CONTEXT)
@click.option("--take-out", metavar="GPU", help="Take this GPU out of work: an index, or a UUID.")
@click.option("--return", "give_back", metavar="GPU", help="Let this GPU, which is out of work, work again.")
@JSON
def gpus(take_out: str | None, give_back: str | None, as_json: bool) -> None:
    """List this host's GPUs as NVIDIA's library numbers them, and their MIG instances, as `--gpus` takes them.

    Work is taken from a sick GPU on a host whose deployment names the file of its sick GPUs (VOXYARD_OUT_OF_WORK):
    workers and runs there end, and begin no more.

    With --json: {"gpus": [{"index", "uuid", "name", "pci_bus_id", "memory_total_mib", "memory_free_mib",
    "compute_capability", "mig", "display_active", "numa_node", "state", "mig_instances": [{"number", "uuid", "name",
    "memory_total_mib", "memory_free_mib", "state"}, …]}, …]}. What a card does not report is left out. The state is
    `ok`, `MIG`, or what is wrong with the card or the instance. Without a GPU the list is empty; without --json the
    command ends with 2 then.
    """
    with answering("gpus", extra=_EXTRA):
        from voxyard.host.out_of_work import OutOfWork, give_back_by_hand, take_out_by_hand

        for named, change in ((take_out, take_out_by_hand), (give_back, give_back_by_hand)):
            if named is not None:
                print(change(named))
        if take_out is not None or give_back is not None:
            return
        from voxyard.host.nvml import every_device, every_gpu
        from voxyard.host.plan import NO_GPU

        found = every_gpu()
        instances: dict[int, list[Gpu]] = {}
        for device in every_device() if any(gpu.mig for gpu in found) else ():
            if device.mig_instance is not None:
                instances.setdefault(device.index, []).append(device)
        sick = OutOfWork.of_host()
        marks = {} if sick is None else sick.marks()
        found = tuple(replace(gpu, problem=gpu.problem or _out(marks.get(gpu.uuid))) for gpu in found)
        if as_json:
            print(json.dumps({"gpus": [_facts(gpu, instances.get(gpu.index, ())) for gpu in found]}, indent=2))
            return
        if not found:
            refuse("gpus", NO_GPU, WRONG_USE)
        headings = ("index", "name", "memory", "free", "state", "UUID")
        rows = [headings, *(_row(each) for gpu in found for each in (gpu, *instances.get(gpu.index, ())))]
        print(*columns(rows), sep="\n")


@click.command(context_settings=CONTEXT)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="Read what `nvidia-smi topo -m` printed from FILE, or - for standard input.",
)
@JSON
def topology(source: str | None, as_json: bool) -> None:
    """Show the links between the GPUs, and the best pair.

    With --json: {"gpus": ["GPU0", …], "links": {"GPU0": {"GPU1": "PIX"}, …}, "pair": {"data_gpu": 0, "model_gpu": 1,
    "link": "PIX", "reason": "…"} or null}.
    """
    with answering("topology"):
        from voxyard.host.pairing import choose_pair, link_warning, why_none
        from voxyard.host.topology import decode, nvidia_smi, parse

        found = parse(nvidia_smi() if source is None else decode(_read(source)))
        pair = choose_pair(found)
        warning = pair and link_warning(found, pair.data_gpu, pair.model_gpu)
        if as_json:
            links = {name: dict(found.links[name]) for name in found.gpus}
            chosen = None if pair is None else dataclasses.asdict(pair)
            print(json.dumps({"gpus": found.gpus, "links": links, "pair": chosen}, indent=2))
        else:
            _show_topology(found, pair, why_none(found))
        if warning:
            log.warning("%s", warning)


@click.command(context_settings=CONTEXT)
@click.option(
    "--policy",
    type=click.Choice(["recommended", "full"]),
    metavar="recommended|full",
    default="recommended",
    show_default=True,
    help="By the size of the card, or all that is free but 1 GiB.",
)
@click.option(
    "--profile",
    type=click.Choice(["conservative", "source"]),
    metavar="conservative|source",
    default="conservative",
    show_default=True,
    help="Where the published tables differ: batch and buffer of the memory matrix, or the quick start's larger ones.",
)
@click.option("--data-gpu", metavar="ID", help="GPU that prepares the batches: nvidia-smi's index, or a UUID.")
@click.option("--model-gpu", metavar="ID", help="GPU that trains: nvidia-smi's index, or a UUID.")
@click.option(
    "--share-with-bark",
    metavar="MIB",
    help="Leave as much for a Bark worker on each GPU: MiB, or large, small, large-offload, small-offload.",
)
@JSON
def limits(
    policy: Literal["recommended", "full"],
    profile: Literal["conservative", "source"],
    data_gpu: str | None,
    model_gpu: str | None,
    share_with_bark: str | None,
    as_json: bool,
) -> None:
    """Recommend memory limits, batch and buffers for this host.

    With --json: {"policy", "mode": "split" or "single", "data": GPU or null, "model": GPU, "batch_size",
    "ring_slots", "buffer_size", "link": "PIX", "unknown" or null, "reason", "choices": [{"setting", "taken",
    "memory_matrix", "quick_start", "why"}], "notes": […]}, where a GPU is {"index", "uuid", "name",
    "memory_total_mib", "memory_free_mib", "limit_mib", "bark_mib"}.
    """
    with answering("limits", extra=_EXTRA):
        from voxyard.host.limits import bark_worker_mib, choices
        from voxyard.host.nvml import every_gpu
        from voxyard.host.plan import Links, plan_trainer, read_links

        beside = bark_worker_mib(share_with_bark) if share_with_bark is not None else 0
        found = every_gpu()
        links = read_links() if len(found) > 1 else Links()
        plan = plan_trainer(
            found,
            links,
            policy=policy,
            profile=profile,
            data_gpu=data_gpu,
            model_gpu=model_gpu,
            shared_with_bark_mib=beside,
        )
        notes = [*links.notes, *plan.warnings]
        chosen = choices(plan.limits.model.memory_total_mib, profile)
        other = any(choice.taken != choice.memory_matrix for choice in chosen)
        if profile == "source" and not other:
            notes.append("--profile source changes nothing here: it is for cards from 24 GB, up to the largest batch")
        if as_json:
            made = [dataclasses.asdict(choice) for choice in chosen]
            print(json.dumps(_plan(plan, notes) | {"choices": made}, indent=2))
        else:
            _show_plan(plan)
            for choice in chosen:
                print(f"choice      {choice}")
            if other:
                flags = f"--batch-size {plan.limits.batch_size} --buffer-size {plan.limits.buffer_size}"
                print(f"train with  voxyard train --auto {flags}")
        for note in notes:
            log.warning("%s", note)


# -- reading and showing -------------------------------------------------------------------------------------


def _read(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read(_LARGEST_FILE)
    try:
        with path_of(source).open("rb") as file:
            return file.read(_LARGEST_FILE)
    except OSError as error:
        refuse("topology", f"--from {source}: {error.strerror}, expected a file", WRONG_USE)


def _facts(gpu: Gpu, instances: Sequence[Gpu]) -> dict[str, Any]:
    facts = {name: value for name, value in dataclasses.asdict(gpu).items() if name != "problem"}
    capability = gpu.compute_capability
    facts["compute_capability"] = None if capability is None else "{}.{}".format(*capability)
    facts = {name: value for name, value in facts.items() if value not in (None, "")} | {"state": _state(gpu)}
    return facts | ({"mig_instances": [_instance_facts(each) for each in instances]} if gpu.mig else {})


def _instance_facts(instance: Gpu) -> dict[str, Any]:
    """Facts of a MIG instance that are its own."""
    own = ("number", "uuid", "name", "memory_total_mib", "memory_free_mib")
    facts = {name: getattr(instance, name) for name in own}
    return {name: value for name, value in facts.items() if value not in (None, "")} | {"state": _state(instance)}


def _out(mark: Mark | None) -> str | None:
    words = {"out": "out of work", "reset": "out of work until its self-test", "kept": "sick, and kept at work"}
    return None if mark is None else f"{words[mark.state]}: {mark.cause}"


def _state(gpu: Gpu) -> str:
    return gpu.problem or ("MIG" if gpu.mig else "ok")


def _row(gpu: Gpu) -> tuple[str, ...]:
    total, free = ("unknown" if mib is None else f"{mib} MiB" for mib in (gpu.memory_total_mib, gpu.memory_free_mib))
    return gpu.number, gpu.name, total, free, _state(gpu), gpu.uuid or "unknown"


def _plan(plan: TrainerPlan, notes: list[str]) -> dict[str, Any]:
    limits = dataclasses.asdict(plan.limits)
    mode = "single" if plan.limits.data is None else "split"
    return {"mode": mode, **limits, "link": plan.link, "reason": plan.reason, "notes": notes}


def _show_plan(plan: TrainerPlan) -> None:
    limits = plan.limits
    cards = [("data", limits.data)] if limits.data is not None else []
    rows = [
        (role, str(card.index), card.name, f"{card.memory_free_mib} of {card.memory_total_mib} MiB",
         f"{card.limit_mib} MiB", card.uuid)
        for role, card in [*cards, ("model", limits.model)]
    ]  # fmt: skip
    print(*columns([("role", "GPU", "name", "free", "limit", "UUID"), *rows]), sep="\n")
    print(f"policy      {limits.policy}")
    print(f"batch       {limits.batch_size} clips")
    print(f"ring        {limits.ring_slots} slots")
    print(f"buffer      {limits.buffer_size} batches")
    if limits.model.bark_mib:
        print(f"for Bark    {limits.model.bark_mib} MiB on each GPU")
    if plan.link is not None:
        print(f"link        {plan.link}")
    print(f"why         {plan.reason}")


def _show_topology(found: Topology, pair: Pair | None, why_none: str | None) -> None:
    rows = [
        (name, *("X" if other == name else found.links[name][other] for other in found.gpus),
         found.affinity[name].cpus or "-", _nodes(found, name))
        for name in found.gpus
    ]  # fmt: skip
    print(*columns([("", *found.gpus, "CPUs", "NUMA"), *rows]), sep="\n")
    if found.ranked():
        print("\nLinks, the best first:")
    for one, other, link in found.ranked():
        print(f"  {link:<5} GPU{one} GPU{other}")
    if pair is None:
        print(f"\nNo pair: {why_none}.")
    else:
        print(f"\nPair: data GPU {pair.data_gpu}, model GPU {pair.model_gpu}, {pair.link}.\nWhy: {pair.reason}.")


def _nodes(found: Topology, name: str) -> str:
    """0,3-9 for the nodes 0, 3, 4 … 9."""
    runs: list[list[int]] = []
    for node in sorted(found.affinity[name].numa):
        if runs and node == runs[-1][-1] + 1:
            runs[-1].append(node)
        else:
            runs.append([node])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "-"
