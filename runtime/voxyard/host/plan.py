"""Host plan for a trainer: reads GPUs and links, chooses the pair, computes the memory limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from voxyard.host.errors import HostError
from voxyard.host.limits import Policy, Profile, TrainerLimits, limits_for
from voxyard.host.nvml import Gpu
from voxyard.host.pairing import choose_pair, choose_single, link_warning, unusable, why_none
from voxyard.host.topology import P2P_COMMAND, PeerAccess, Topology, TopologyError, nvidia_smi, parse, parse_p2p

GpuId = int | str  # nvidia-smi's index, or a UUID

NO_GPU = "no NVIDIA GPU was found (is the driver installed and, in a container, passed through?)"


@dataclass(frozen=True, slots=True)
class Links:
    """Links as nvidia-smi reports them; None where it could not be asked, which `notes` explains."""

    topology: Topology | None = None
    p2p: PeerAccess | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainerPlan:
    """Limits for the chosen GPUs, the link between them (None in single mode), and why these GPUs."""

    limits: TrainerLimits
    link: str | None
    reason: str
    warnings: tuple[str, ...] = ()


def read_links() -> Links:
    """Links and peer access as this host's nvidia-smi reports them; a note where it reports nothing."""
    try:
        topology = parse(nvidia_smi())
    except TopologyError as error:
        return Links(notes=(f"the links between the GPUs were not used: {error}",))
    if len(topology.gpus) < 2:
        return Links(topology)
    try:
        return Links(topology, parse_p2p(nvidia_smi(P2P_COMMAND)))
    except TopologyError as error:
        return Links(topology, notes=(f"peer access between the GPUs is not known: {error}",))


def plan_trainer(
    gpus: Sequence[Gpu],
    links: Links,
    *,
    policy: Policy = "recommended",
    profile: Profile = "conservative",
    data_gpu: GpuId | None = None,
    model_gpu: GpuId | None = None,
    single: bool = False,
    shared_with_bark_mib: int = 0,
) -> TrainerPlan:
    """The best pair, or the pair with the GPUs that are given, and its limits; one GPU where no pair exists.

    A GPU that is given is never exchanged for another: raises HostError where it is not there, cannot train, or no
    pair with it exists. `single` asks for one GPU. Raises HostError too where no GPU can train at all.
    """
    if not gpus:
        raise HostError(NO_GPU)
    limited = partial(limits_for, policy=policy, profile=profile, shared_with_bark_mib=shared_with_bark_mib)
    data, model = _named(gpus, data_gpu), _named(gpus, model_gpu)
    if data is not None and model is not None:
        return _given(gpus, links, data, model, limited)
    if single and data is None:
        return _single(gpus, model, "one GPU is asked for", limited)
    roles = {"data_gpu": None if data is None else data.index, "model_gpu": None if model is None else model.index}
    pair = choose_pair(links.topology, gpus, p2p=links.p2p, beside_mib=shared_with_bark_mib, **roles)
    if pair is None:
        why = why_none(links.topology, gpus, beside_mib=shared_with_bark_mib, **roles) or ""
        if data is not None or model is not None:
            raise HostError(f"{why}\n{listing(gpus)}")
        return _single(gpus, None, why, limited)
    by_index = {gpu.index: gpu for gpu in gpus}
    limits = limited(by_index[pair.data_gpu], by_index[pair.model_gpu])
    return TrainerPlan(limits, pair.link, pair.reason, _warnings(links, pair.data_gpu, pair.model_gpu, gpus))


def listing(gpus: Sequence[Gpu]) -> str:
    """The GPUs of the host, a line each."""
    return "\n".join(["GPUs of this host:" if gpus else "GPUs of this host: none", *(f"  {gpu}" for gpu in gpus)])


def _given(
    gpus: Sequence[Gpu], links: Links, data: Gpu, model: Gpu, limited: Callable[[Gpu | None, Gpu], TrainerLimits]
) -> TrainerPlan:
    if data == model:
        raise HostError(f"GPU {data.index} is given as data GPU and as model GPU: a pair needs two\n{listing(gpus)}")
    for gpu in (data, model):
        _refuse_unusable(gpu, gpus)
    limits = limited(data, model)
    warnings: tuple[str, ...] = ()
    link = "unknown"
    if links.topology is not None and {data.index, model.index} <= set(links.topology.indices):
        link = links.topology.link(data.index, model.index)
        warnings = _warnings(links, data.index, model.index, gpus)
    return TrainerPlan(limits, link, f"GPU{data.index} and GPU{model.index} are given", warnings)


def _single(
    gpus: Sequence[Gpu], given: Gpu | None, why: str, limited: Callable[[Gpu | None, Gpu], TrainerLimits]
) -> TrainerPlan:
    gpu = given or choose_single(gpus)
    if gpu is None:
        faults = ", ".join(f"GPU{each.index} ({unusable(each)})" for each in gpus)
        raise HostError(f"no GPU of this host can train: {faults}")
    _refuse_unusable(gpu, gpus)
    limits = limited(None, gpu)
    return TrainerPlan(limits, None, f"GPU{gpu.index} trains alone: {why}")


def _named(gpus: Sequence[Gpu], asked: GpuId | None) -> Gpu | None:
    if asked is None:
        return None
    text = str(asked).strip().lower()
    found = next((gpu for gpu in gpus if text in (str(gpu.index), gpu.uuid.lower())), None)
    if found is None:
        raise HostError(f"GPU {asked} is not on this host: expected an index or a UUID\n{listing(gpus)}")
    return found


def _refuse_unusable(gpu: Gpu, gpus: Sequence[Gpu]) -> None:
    fault = unusable(gpu)
    if fault:
        raise HostError(f"GPU {gpu.index} cannot train: {fault}\n{listing(gpus)}")


def _warnings(links: Links, data: int, model: int, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    said = None if links.topology is None else link_warning(links.topology, data, model, gpus)
    return () if said is None else (said,)
