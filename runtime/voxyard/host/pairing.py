"""Pair selection: the two usable GPUs with the best link, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from voxyard.host.limits import HEADROOM_MIB, Role, nominal_gb, recommended_mib
from voxyard.host.nvml import Gpu
from voxyard.host.topology import PeerAccess, Topology, rank

UNKNOWN_LINK = "unknown"

_WORDS = {
    "SYS": "between NUMA nodes",
    "NODE": "between host bridges of one NUMA node",
    "PHB": "through a PCIe host bridge",
    "PXB": "over several PCIe bridges",
    "PIX": "over one PCIe bridge",
    "PSB": "on one board",
}
# Without peer access every copy goes through the host, whatever lies between the cards: just worse than PHB.
_THROUGH_THE_HOST = rank("PHB") - 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """The data GPU and the model GPU by nvidia-smi's indices, their link, and why these two, in one sentence."""

    data_gpu: int
    model_gpu: int
    link: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    data: int
    model: int
    link: str
    worth: float  # the link's rank, less where there is no peer access
    peer_access: bool | None
    same_numa: bool
    left: tuple[tuple[int, ...], ...]  # size and generation of the GPUs that remain, best first
    trains_better: tuple[int, ...]  # the model GPU's size, generation, freedom from a display

    @property
    def two(self) -> tuple[int, int]:
        return min(self.data, self.model), max(self.data, self.model)


def choose_pair(
    topology: Topology | None,
    gpus: Sequence[Gpu] = (),
    *,
    needed_mib: int | None = None,
    p2p: PeerAccess | None = None,
    data_gpu: int | None = None,
    model_gpu: int | None = None,
    beside_mib: int = 0,
) -> Pair | None:
    """The best pair; None where there is none (`why_none` says why).

    From the topology alone: the best link, on one NUMA node, with the lowest indices; the lower one is the data
    GPU. With `gpus` only those that are healthy, not in MIG mode, and have `needed_mib` (else the recommended
    limit of their role) free beside 1 GiB of headroom and `beside_mib`; among equals the pair that leaves the best
    GPUs over; the model GPU is the larger one, the newer one, the one without a display. Without a topology every
    link is `unknown`. A GPU that is given by its index keeps its role.
    """
    asked = _Question(topology, tuple(gpus), p2p, needed_mib, beside_mib, data_gpu, model_gpu)
    found = _decide(asked)
    return None if isinstance(found, str) else found


def why_none(
    topology: Topology | None,
    gpus: Sequence[Gpu] = (),
    *,
    needed_mib: int | None = None,
    data_gpu: int | None = None,
    model_gpu: int | None = None,
    beside_mib: int = 0,
) -> str | None:
    """Reason why `choose_pair` finds no pair, in one sentence; None where it finds one."""
    found = _decide(_Question(topology, tuple(gpus), None, needed_mib, beside_mib, data_gpu, model_gpu))
    return found if isinstance(found, str) else None


def unusable(gpu: Gpu) -> str | None:
    """Reason why nothing can train on this GPU; None where it can."""
    if gpu.problem is not None:
        return f"it cannot be used: {gpu.problem}"
    if gpu.mig:
        return f"MIG is on, `nvidia-smi -i {gpu.index} -mig 0` turns it off"
    if gpu.memory_total_mib is None or gpu.memory_free_mib is None:
        return "the driver does not report its memory"
    return None


def choose_single(gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU for single mode: of those with enough free memory (else of all that can be used) the larger, the
    newer, the one without a display, the one with more free memory, the lower index. None where none can be used.
    """
    asked = _Question(None, tuple(gpus))
    fit = [gpu for gpu in gpus if unusable(gpu) is None]
    enough = [gpu for gpu in fit if asked.short(gpu, "model") is None]
    if not enough:
        return max(fit, key=lambda gpu: (gpu.memory_free_mib or 0, -gpu.index), default=None)
    return max(
        enough,
        key=lambda gpu: (_ability(gpu), not gpu.display_active, gpu.memory_free_mib or 0, -gpu.index),
    )


def link_warning(topology: Topology, data_gpu: int, model_gpu: int, gpus: Sequence[Gpu] = ()) -> str | None:
    """A sentence where two GPUs have a link worse than PHB, with the better pair or that none exists; else None."""
    link = topology.link(data_gpu, model_gpu)
    if rank(link) >= rank("PHB"):
        return None
    said = f"the link between GPU{data_gpu} and GPU{model_gpu} is {link} ({_words(link)}), worse than PHB: "
    better = [each for each in topology.ranked() if rank(each[2]) > rank(link)]
    faults = {gpu.index: fault for gpu in gpus if (fault := unusable(gpu))}
    for one, other, their_link in better:
        if not {one, other} & faults.keys():
            return f"{said}GPU{one} and GPU{other} are a better pair, with {their_link}"
    for one, other, their_link in better[:1]:
        which = one if one in faults else other
        return f"{said}GPU{one} and GPU{other} have {their_link}, but GPU{which} cannot train ({faults[which]})"
    return f"{said}no better pair exists on this host"


# -- deciding ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Question:
    """All that a choice depends on; without `gpus` nothing is known of the cards."""

    topology: Topology | None
    gpus: tuple[Gpu, ...] = ()
    p2p: PeerAccess | None = None
    needed_mib: int | None = None
    beside_mib: int = 0
    data_gpu: int | None = None
    model_gpu: int | None = None

    def fault(self, gpu: Gpu) -> str | None:
        """Reason why this card can be in no pair; None where it can."""
        if self.topology is not None and gpu.index not in self.topology.indices:
            return "the topology does not list it"
        return unusable(gpu)

    def short(self, gpu: Gpu, role: Role) -> str | None:
        """Reason why this card, which has no fault, does not fit this role; None where it fits."""
        needed = (recommended_mib(gpu, role) if self.needed_mib is None else self.needed_mib) + HEADROOM_MIB
        needed += self.beside_mib
        free = gpu.memory_free_mib or 0
        if free >= needed:
            return None
        return f"{free} of {gpu.memory_total_mib} MiB are free where the {role} GPU needs {needed}"

    def may_be(self, data: int, model: int) -> bool:
        """True where these roles agree with the ones the caller fixed."""
        return self.data_gpu in (None, data) and self.model_gpu in (None, model)


def _decide(asked: _Question) -> Pair | str:
    known = {gpu.index: gpu for gpu in asked.gpus}
    indices = tuple(known) if known or asked.topology is None else asked.topology.indices
    if len(indices) < 2:
        return f"a pair needs two GPUs, and this host has {'one' if indices else 'none'}"
    usable = [index for index in sorted(indices) if not known or asked.fault(known[index]) is None]
    found = [
        _candidate(asked, known, usable, data, model)
        for data, model in permutations(usable, 2)
        if asked.may_be(data, model)
        and not (known and (asked.short(known[data], "data") or asked.short(known[model], "model")))
    ]
    return _pair(asked, found) if found else _no_pair(asked)


def _candidate(asked: _Question, known: dict[int, Gpu], usable: list[int], data: int, model: int) -> _Candidate:
    topology = asked.topology
    link = UNKNOWN_LINK if topology is None else topology.link(data, model)
    worth: float = 0 if topology is None else rank(link)
    access = None if asked.p2p is None else asked.p2p.ok(data, model)
    left = [_ability(known[index]) for index in usable if index not in (data, model)] if known else []
    return _Candidate(
        data=data,
        model=model,
        link=link,
        worth=min(worth, _THROUGH_THE_HOST) if access is False else worth,
        peer_access=access,
        same_numa=topology is not None and topology.same_numa(data, model),
        left=tuple(sorted(left, reverse=True)),
        trains_better=(*_ability(known[model]), not known[model].display_active) if known else (),
    )


def _ability(gpu: Gpu) -> tuple[int, int, int]:
    """Size and generation: nominal GB, compute capability."""
    return (nominal_gb(gpu.memory_total_mib or 0), *(gpu.compute_capability or (0, 0)))


def _order(candidate: _Candidate) -> tuple[object, ...]:
    """Sorts the best candidate first."""
    return (
        -candidate.worth,
        not candidate.same_numa,
        tuple(tuple(-part for part in card) for card in candidate.left),
        candidate.two,
        tuple(-part for part in candidate.trains_better),
        candidate.data,
    )


# -- the reason ----------------------------------------------------------------------------------------------


def _pair(asked: _Question, found: list[_Candidate]) -> Pair:
    best = min(found, key=_order)
    parts = [_why_the_link(asked, best, {each.two: each for each in found}), *_why_the_roles(asked, best)]
    if best.peer_access is False:
        parts.append("they have no peer access, so copies go through the host")
    out = _left_out(asked)
    if out:
        parts.append(f"without {_sentence(out)}")
    return Pair(best.data, best.model, best.link, "; ".join(parts))


def _why_the_link(asked: _Question, best: _Candidate, pairs: dict[tuple[int, int], _Candidate]) -> str:
    names = "GPU{} and GPU{}".format(*best.two)
    link = f"{best.link} ({_words(best.link)})"
    if asked.topology is None:
        return f"{names} are taken without knowing the links between the GPUs"
    if len(pairs) == 1:
        which = "given" if asked.data_gpu is not None and asked.model_gpu is not None else "only"
        return f"{names} are the {which} pair, linked by {link}"
    equal = [each for each in pairs.values() if each.worth == best.worth]
    if len(equal) == 1:
        return f"{names} have the best link of {len(pairs)} pairs, {link}"
    others = f"{len(equal) - 1} other pair{'s' if len(equal) > 2 else ''}"
    return f"{names} have the best link, {link}, like {others}: taken because they {_tie_break(best, equal)}"


def _tie_break(best: _Candidate, equal: list[_Candidate]) -> str:
    rules = []
    for rule, said in (
        ([each for each in equal if each.same_numa == best.same_numa], "are on one NUMA node"),
        ([each for each in equal if each.left == best.left], "leave the best GPUs over"),
    ):
        if len(rule) < len(equal):
            rules.append(said)
            equal = [each for each in equal if each in rule]
    if len(equal) > 1:
        rules.append("have the lowest indices")
    return " and ".join(rules)


def _why_the_roles(asked: _Question, best: _Candidate) -> list[str]:
    known = {gpu.index: gpu for gpu in asked.gpus}
    if not known or asked.data_gpu is not None or asked.model_gpu is not None:
        return []
    data, model = known[best.data], known[best.model]
    of_data, of_model = _ability(data), _ability(model)
    ahead = (of_model, not model.display_active), (of_data, not data.display_active)
    if ahead[0] < ahead[1] or (ahead[0] == ahead[1] and best.data > best.model):
        why = f"GPU{data.index} has too little memory free for it"
    elif of_model[0] != of_data[0]:
        why = "it has more memory"
    elif of_model != of_data:
        why = "it is the newer card"
    elif ahead[0] != ahead[1]:
        why = "it drives no display"
    else:
        return []
    return [f"GPU{model.index} trains because {why}"]


def _left_out(asked: _Question) -> dict[int, str]:
    """The cards that can have neither role, with the reason."""
    out = {}
    for gpu in asked.gpus:
        why = asked.fault(gpu) or (asked.short(gpu, "model") and asked.short(gpu, "data"))
        if why:
            out[gpu.index] = why
    return out


def _no_pair(asked: _Question) -> str:
    """Reason why there is no pair, card by card; asked only where there are two or more."""
    out = _left_out(asked)
    known = {gpu.index: gpu for gpu in asked.gpus}
    given: tuple[tuple[Role, int | None], ...] = ("data", asked.data_gpu), ("model", asked.model_gpu)
    for role, index in given:
        if index is None or index in out:
            continue
        if known and index not in known:
            out[index] = "this host does not have it"
        elif index in known and (said := asked.short(known[index], role)):
            out[index] = said
    if not out:
        out = {index: said for index, gpu in known.items() if (said := asked.short(gpu, "model"))}
    return f"no two GPUs of this host can be paired: {_sentence(out) or 'the GPUs given are not two of its GPUs'}"


def _sentence(out: dict[int, str]) -> str:
    return ", ".join(f"GPU{index} ({why})" for index, why in sorted(out.items()))


def _words(link: str) -> str:
    return _WORDS.get(link) or f"{link.removeprefix('NV')} NVLink{'' if link == 'NV1' else 's'}"
