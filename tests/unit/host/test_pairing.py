"""The pair: from a topology alone, from the cards' facts, and the sentence that says why."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cards import card
from hypothesis import given
from hypothesis import strategies as st

from voxyard.host.pairing import Pair, choose_pair, choose_single, link_warning, unusable, why_none
from voxyard.host.topology import PeerAccess, Topology, decode, parse, rank

CAPTURES = Path(__file__).parents[2] / "captures/topo"

Links = Mapping[tuple[int, int], str]


def matrix(count: int, links: Links, *, default: str = "SYS", numa: tuple[int, ...] = ()) -> Topology:
    """A topology of `count` GPUs, read from text as the program prints it."""
    lines = ["\t".join(["", *(f"GPU{n}" for n in range(count)), "CPU Affinity", "NUMA Affinity"])]
    for one in range(count):
        cells = [
            "X" if one == other else links.get((min(one, other), max(one, other)), default) for other in range(count)
        ]
        lines.append("\t".join([f"GPU{one}", *cells, "", str(numa[one]) if numa else "N/A"]))
    return parse("\n".join(lines))


def chosen(*args: Any, **more: Any) -> Pair:
    pair = choose_pair(*args, **more)
    assert pair is not None
    return pair


def roles(*args: Any, **more: Any) -> tuple[int, int]:
    pair = chosen(*args, **more)
    return pair.data_gpu, pair.model_gpu


TWO = matrix(2, {(0, 1): "PIX"})
FOUR = matrix(4, {(0, 1): "PHB", (2, 3): "PHB"})


# -- from the text alone -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("2xa100_nv12_container_blank_affinity_8nic", (0, 1, "NV12")),
        ("8xa100pcie_nvlink_interleaved_indices", (0, 2, "NV12")),
        ("8xp40_pix_pxb_soc_legacy", (0, 1, "PIX")),
        ("dgx1_v100_8gpu_nv1_nv2_mlx5", (0, 3, "NV2")),
        ("dgx_h100_nv18_12nic_truncated_rows", (0, 1, "NV18")),
        ("dual_3090_node_wrapped_indented", (0, 1, "NODE")),
        ("dual_nv2_old_two_columns", (0, 1, "NV2")),
        ("dual_phb_numa_na", (0, 1, "PHB")),
        ("gb200_4gpu_nv18_gpu_numa_id", (0, 1, "NV18")),
        ("single_h100_mig_enabled", None),
        ("single_l40s_linux_ansi", None),
        ("single_rtx2080s_windows_blank_affinity", None),
        ("single_rtx4080s_linux_ansi", None),
        ("wsl2_single_blank_affinity", None),
    ],
)
def test_the_pair_of_every_capture(name: str, pair: tuple[int, int, str] | None) -> None:
    topology = parse(decode((CAPTURES / f"{name}.txt").read_bytes()))
    found = choose_pair(topology)
    if pair is None:
        assert found is None
        assert why_none(topology) == "a pair needs two GPUs, and this host has one"
    else:
        assert found is not None
        assert (found.data_gpu, found.model_gpu, found.link) == pair
        assert why_none(topology) is None


def test_every_capture_has_its_pair_tested_here() -> None:
    (parameters,) = [mark for mark in test_the_pair_of_every_capture.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert {name for name, _ in parameters.args[1]} == {path.stem for path in CAPTURES.glob("*.txt")}


def test_a_larger_nvlink_wins_and_any_nvlink_beats_a_board() -> None:
    links = {(0, 1): "PSB", (0, 2): "NV1", (1, 3): "NV2"}
    assert roles(matrix(4, links)) == (1, 3)
    assert roles(matrix(4, {(0, 1): "PIX", (2, 3): "PSB"})) == (2, 3)


def test_equal_links_are_distinguished_by_numa_node_then_by_index() -> None:
    everywhere = matrix(4, {}, default="NV18", numa=(0, 1, 1, 0))
    assert roles(everywhere) == (0, 3)
    assert "on one NUMA node and have the lowest indices" in chosen(everywhere).reason
    assert roles(matrix(4, {}, default="NV18", numa=(0, 1, 2, 3))) == (0, 1)


@given(st.lists(st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "NV4"]), min_size=10, max_size=10))
def test_no_pair_has_a_better_link_than_the_one_chosen(drawn: list[str]) -> None:
    """Among equals none has lower indices, where no NUMA node is told."""
    links = dict(zip(itertools.combinations(range(5), 2), drawn, strict=True))
    pair = chosen(matrix(5, links))
    assert pair.data_gpu < pair.model_gpu
    best = max(map(rank, drawn))
    assert rank(pair.link) == best
    assert (pair.data_gpu, pair.model_gpu) == min(two for two, link in links.items() if rank(link) == best)


# -- with the cards' facts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"problem": "GPU is lost"}, "it cannot be used: GPU is lost"),
        ({"mig": True}, "MIG is on"),
        ({"total": None}, "the driver does not report its memory"),
        ({"free": 3000}, "3000 of 24564 MiB are free where the data GPU needs 9216"),
    ],
)
def test_a_card_that_cannot_train_is_in_no_pair(bad: dict[str, Any], why: str) -> None:
    """deploy.md: healthy, not MIG, with enough memory free."""
    gpus = [card(0), card(1, **bad), card(2)]
    topology = matrix(3, {(0, 1): "NV4", (0, 2): "SYS"})
    assert roles(topology, gpus) == (0, 2)
    assert f"without GPU1 ({why}" in chosen(topology, gpus).reason
    assert choose_pair(TWO, gpus[:2]) is None
    assert (why_none(TWO, gpus[:2]) or "").startswith("no two GPUs of this host can be paired: GPU1 (")
    assert why in (why_none(TWO, gpus[:2]) or "")


def test_mig_and_display_that_are_not_reported_are_no_fault() -> None:
    assert unusable(card(0, mig=None)) is None
    assert unusable(card(0, mig=False)) is None
    assert roles(TWO, [card(0), card(1, display_active=None)]) == (0, 1)


def test_free_memory_is_asked_for_by_role() -> None:
    """8192 + 1024 MiB for the data GPU, 16384 + 1024 for the model GPU of 24 GB."""
    gpus = [card(0), card(1, free=9216)]
    assert roles(TWO, gpus) == (1, 0)
    assert "GPU0 trains because GPU1 has too little memory free for it" in chosen(TWO, gpus).reason
    assert choose_pair(TWO, [card(0), card(1, free=9215)]) is None
    both_small = [card(0, free=10000), card(1, free=10000)]
    assert "GPU0 (10000 of 24564 MiB are free where the model GPU needs 17408" in (why_none(TWO, both_small) or "")


def test_a_limit_of_ones_own_asks_for_as_much_and_the_headroom() -> None:
    gpus = [card(0, free=6024), card(1, free=6024)]
    assert roles(TWO, gpus, needed_mib=5000) == (0, 1)
    assert choose_pair(TWO, gpus, needed_mib=5001) is None
    assert choose_pair(TWO, gpus, needed_mib=4000, beside_mib=1001) is None
    assert choose_pair(TWO, gpus, needed_mib=4000, beside_mib=1000) is not None


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"total": 49140}, {}, "it has more memory"),
        ({"compute_capability": (9, 0)}, {}, "it is the newer card"),
        ({}, {"display_active": True}, "it drives no display"),
        ({"total": 49140, "display_active": True}, {"compute_capability": (9, 0)}, "it has more memory"),
    ],
)
def test_the_model_gpu_is_the_larger_the_newer_the_one_without_a_display(
    first: dict[str, Any], second: dict[str, Any], why: str
) -> None:
    better = [card(0, **first), card(1, **second)]
    pair = chosen(TWO, better)
    assert (pair.data_gpu, pair.model_gpu) == (1, 0)
    assert pair.reason.endswith(f"GPU0 trains because {why}")


def test_cards_that_report_a_little_less_are_of_one_size() -> None:
    """24,564 and 23,028 MiB are both 24 GB."""
    assert roles(TWO, [card(0, 24564), card(1, 23028)]) == (0, 1)


def test_among_equal_links_the_best_gpus_are_left_over() -> None:
    """deploy.md: for Bark."""
    gpus = [card(0, 81559), card(1, 81559), card(2), card(3)]
    pair = chosen(FOUR, gpus)
    assert (pair.data_gpu, pair.model_gpu) == (2, 3)
    assert "leave the best GPUs over" in pair.reason
    assert roles(FOUR, [card(index) for index in range(4)]) == (0, 1)


def test_a_better_link_goes_before_what_is_left_over() -> None:
    gpus = [card(0, 81559), card(1, 81559), card(2), card(3)]
    assert roles(matrix(4, {(0, 1): "NV12", (2, 3): "PHB"}), gpus) == (0, 1)


def access(count: int, *denied: tuple[int, int]) -> PeerAccess:
    names = tuple(f"GPU{n}" for n in range(count))
    no = {frozenset(f"GPU{n}" for n in two) for two in denied}
    return PeerAccess(names, {a: {b: "NS" if {a, b} in no else "OK" for b in names if b != a} for a in names})


def test_a_pair_without_peer_access_counts_for_less_than_phb() -> None:
    """deploy.md: a class of link is not an ability; copies go through the host then."""
    links = matrix(4, {(0, 1): "PIX", (2, 3): "PHB"})
    assert roles(links) == (0, 1)
    assert roles(links, p2p=access(4)) == (0, 1)
    assert roles(links, p2p=access(4, (0, 1))) == (2, 3)
    none = chosen(links, p2p=access(4, *itertools.combinations(range(4), 2)))
    assert "they have no peer access, so copies go through the host" in none.reason
    assert roles(matrix(4, {(0, 1): "PIX", (2, 3): "NODE"}), p2p=access(4, (0, 1))) == (0, 1)


def test_a_gpu_that_is_given_keeps_its_role() -> None:
    topology = matrix(3, {(0, 1): "NV4", (1, 2): "PIX", (0, 2): "SYS"})
    gpus = [card(0), card(1), card(2)]
    assert roles(topology, gpus, model_gpu=0) == (1, 0)
    assert roles(topology, gpus, data_gpu=2) == (2, 1)
    assert roles(topology, gpus, data_gpu=2, model_gpu=0) == (2, 0)
    assert chosen(topology, gpus, data_gpu=2, model_gpu=0).reason.startswith("GPU0 and GPU2 are the given pair")
    busy = [card(0), card(1), card(2, free=10000)]
    assert choose_pair(topology, busy, model_gpu=2) is None
    assert "GPU2 (10000 of 24564 MiB are free where the model GPU needs 17408" in (
        why_none(topology, busy, model_gpu=2) or ""
    )
    assert "GPU7 (this host does not have it)" in (why_none(topology, gpus, model_gpu=7) or "")
    assert (why_none(topology, model_gpu=7) or "").endswith("the GPUs given are not two of its GPUs")


def test_without_a_topology_the_cards_alone_decide() -> None:
    pair = chosen(None, [card(0), card(1, 12288)])
    assert (pair.data_gpu, pair.model_gpu, pair.link) == (1, 0, "unknown")
    assert "without knowing the links" in pair.reason


def test_a_gpu_that_the_topology_lacks_is_in_no_pair() -> None:
    assert roles(matrix(2, {(0, 1): "PIX"}), [card(0), card(1), card(2)]) == (0, 1)
    assert "GPU5 (the topology does not list it)" in (why_none(TWO, [card(0), card(5)]) or "")


@pytest.mark.parametrize(("count", "words"), [(0, "none"), (1, "one")])
def test_fewer_than_two_gpus_make_no_pair(count: int, words: str) -> None:
    gpus = [card(index) for index in range(count)]
    assert choose_pair(None, gpus) is None
    assert why_none(None, gpus) == f"a pair needs two GPUs, and this host has {words}"


memory = st.integers(1000, 100_000)


@given(st.lists(st.tuples(memory, memory, st.booleans(), st.booleans()), min_size=2, max_size=5), st.data())
def test_a_chosen_pair_is_fit_and_its_reason_is_one_sentence(
    cards: list[tuple[int, int, bool, bool]], data: st.DataObject
) -> None:
    gpus = [
        card(index, total, min(total, free), mig=mig, display_active=display)
        for index, (total, free, mig, display) in enumerate(cards)
    ]
    links = {
        two: data.draw(st.sampled_from(["SYS", "PHB", "PIX", "NV4"]))
        for two in itertools.combinations(range(len(gpus)), 2)
    }
    topology = matrix(len(gpus), links)
    pair = choose_pair(topology, gpus, needed_mib=4000)
    assert (pair is None) == (why_none(topology, gpus, needed_mib=4000) is not None)
    fit = {gpu.index for gpu in gpus if not gpu.mig and (gpu.memory_free_mib or 0) >= 5024}
    if pair is None:
        assert len(fit) < 2
    else:
        assert {pair.data_gpu, pair.model_gpu} <= fit
        assert pair.link == topology.link(pair.data_gpu, pair.model_gpu)
        assert rank(pair.link) == max(rank(link) for two, link in links.items() if set(two) <= fit)
        assert "\n" not in pair.reason
        assert ". " not in pair.reason


# -- one GPU -------------------------------------------------------------------------------------------------


def test_single_mode_takes_the_best_card_that_has_room() -> None:
    assert choose_single([]) is None
    assert choose_single([card(0, mig=True), card(1, problem="lost")]) is None
    best = choose_single([card(0), card(1, 49140), card(2, 81559, free=5000), card(3, mig=True)])
    assert best is not None
    assert best.index == 1
    quiet = choose_single([card(0, display_active=True), card(1)])
    assert quiet is not None
    assert quiet.index == 1


def test_where_no_card_has_room_the_one_with_the_most_is_taken() -> None:
    found = choose_single([card(0, 81559, free=4000), card(1, free=6000)])
    assert found is not None
    assert found.index == 1


# -- the warning ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["PHB", "PXB", "PIX", "NV2"])
def test_a_link_of_phb_or_better_is_no_warning(link: str) -> None:
    assert link_warning(matrix(2, {(0, 1): link}), 0, 1) is None


def test_a_link_worse_than_phb_names_the_better_pair_or_that_there_is_none() -> None:
    four = matrix(4, {(0, 2): "NV12", (1, 3): "NV12"})
    assert (link_warning(four, 0, 1) or "").endswith("worse than PHB: GPU0 and GPU2 are a better pair, with NV12")
    alone = link_warning(matrix(2, {(0, 1): "NODE"}), 1, 0) or ""
    assert alone.startswith("the link between GPU1 and GPU0 is NODE (between host bridges of one NUMA node)")
    assert alone.endswith("no better pair exists on this host")


def test_a_better_pair_that_cannot_train_is_named_with_its_fault() -> None:
    three = matrix(3, {(0, 2): "PIX"})
    warning = link_warning(three, 0, 1, [card(0), card(1), card(2, mig=True)]) or ""
    assert "GPU0 and GPU2 have PIX, but GPU2 cannot train (MIG is on" in warning
