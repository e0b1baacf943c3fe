"""`nvidia-smi topo` read from every layout seen: links, affinity, peer access, and the refusal of all else."""

from __future__ import annotations

import csv
import os
import stat
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.host.topology import (
    P2P_COMMAND,
    Topology,
    TopologyError,
    decode,
    nvidia_smi,
    parse,
    parse_p2p,
    rank,
)

CAPTURES = Path(__file__).parents[2] / "captures/topo"

HEADER = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
GOOD = HEADER + "GPU0\t X \tPIX\t0-15\t0\t\tN/A\nGPU1\tPIX\t X \t0-15\t0\t\tN/A\n"


def capture(name: str) -> Topology:
    return parse(decode((CAPTURES / f"{name}.txt").read_bytes()))


def refused(text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        parse(text)
    assert caught.value.exit_code == 1
    return str(caught.value)


def numa(topology: Topology) -> list[list[int]]:
    return [sorted(topology.affinity[name].numa) for name in topology.gpus]


def cpus(topology: Topology) -> list[str]:
    return [topology.affinity[name].cpus for name in topology.gpus]


# -- the captures --------------------------------------------------------------------------------------------


def test_every_capture_is_named_in_the_index_and_is_read_as_a_symmetric_matrix() -> None:
    with (CAPTURES / "INDEX.tsv").open(newline="") as file:
        names = {row["file"] for row in csv.DictReader(file, delimiter="\t")}
    assert names == {path.name for path in CAPTURES.glob("*.txt")}
    for name in names:
        found = capture(name.removesuffix(".txt"))
        assert found.gpus == tuple(f"GPU{index}" for index in range(len(found.gpus)))
        for one in found.gpus:
            assert set(found.links[one]) == set(found.gpus) - {one}
            assert all(found.links[other][one] == link for other, link in found.links[one].items())


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("2xa100_nv12_container_blank_affinity_8nic", {"NV12": [(0, 1)]}),
        ("8xa100pcie_nvlink_interleaved_indices", {"NV12": [(0, 2), (1, 3), (4, 5), (6, 7)]}),
        (
            "8xp40_pix_pxb_soc_legacy",
            {"PIX": [*combinations(range(4), 2), *combinations(range(4, 8), 2)]},
        ),
        (
            "dgx1_v100_8gpu_nv1_nv2_mlx5",
            {"NV2": [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]},
        ),
        ("dgx_h100_nv18_12nic_truncated_rows", {"NV18": list(combinations(range(8), 2))}),
        ("dual_3090_node_wrapped_indented", {"NODE": [(0, 1)]}),
        ("dual_nv2_old_two_columns", {"NV2": [(0, 1)]}),
        ("dual_phb_numa_na", {"PHB": [(0, 1)]}),
        ("gb200_4gpu_nv18_gpu_numa_id", {"NV18": list(combinations(range(4), 2))}),
    ],
)
def test_the_best_links_of_a_capture(name: str, best: dict[str, list[tuple[int, int]]]) -> None:
    ranked = capture(name).ranked()
    link = ranked[0][2]
    assert {link: [(one, other) for one, other, each in ranked if each == link]} == best


def test_soc_is_reported_as_sys() -> None:
    text = (CAPTURES / "8xp40_pix_pxb_soc_legacy.txt").read_text().replace("PXB", "SOC")
    assert parse(text).link(0, 4) == "SYS"


def test_affinity_of_the_captures_is_read_where_it_is_reported() -> None:
    a100 = capture("8xa100pcie_nvlink_interleaved_indices")
    assert numa(a100) == [[0]] * 4 + [[1]] * 4
    assert cpus(a100) == ["0-31"] * 4 + ["32-63"] * 4
    gb200 = capture("gb200_4gpu_nv18_gpu_numa_id")
    assert numa(gb200)[0] == [0, *range(3, 10), *range(11, 18)]
    assert gb200.same_numa(0, 1)
    assert not gb200.same_numa(1, 2)
    for blank in ("2xa100_nv12_container_blank_affinity_8nic", "wsl2_single_blank_affinity"):
        assert set(cpus(capture(blank))) == {""}
        assert numa(capture(blank))[0] == []
    assert cpus(capture("dual_3090_node_wrapped_indented")) == ["0-15", "0-15"]
    assert numa(capture("dual_3090_node_wrapped_indented")) == [[0], [0]]
    assert numa(capture("dual_phb_numa_na")) == [[], []]


def test_without_numa_nodes_the_cpus_decide_which_gpus_are_near() -> None:
    dgx1 = capture("dgx1_v100_8gpu_nv1_nv2_mlx5")
    assert dgx1.same_numa(0, 3)
    assert not dgx1.same_numa(0, 4)
    assert not capture("2xa100_nv12_container_blank_affinity_8nic").same_numa(0, 1)


# -- ranks ---------------------------------------------------------------------------------------------------


def test_links_are_ranked() -> None:
    """The exporter publishes these numbers."""
    ascending = ["SYS", "NODE", "PHB", "PXB", "PIX", "PSB"]
    assert [rank(link) for link in ascending] == [1, 2, 3, 4, 5, 6]
    assert (rank("NV1"), rank("NV4"), rank("NV18")) == (11, 14, 28)
    assert rank("SOC") == rank("SYS")
    for wrong in ("X", "NV", "NV0", "OK", "", "nv4"):
        with pytest.raises(TopologyError, match="is no link between GPUs"):
            rank(wrong)


def test_a_link_that_is_not_there_is_an_error_that_names_what_is() -> None:
    with pytest.raises(TopologyError, match="the topology has GPU0, GPU1"):
        parse(GOOD).link(0, 2)


# -- layouts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("residue", ["\x1b[4m", "[4m", "^[[4m", "\\033[4m", "␛[4m", "\x1b[1;4m"])
def test_underlines_and_what_copying_left_of_them_are_dropped(residue: str) -> None:
    end = residue.replace("4m", "0m")
    assert parse(GOOD.replace("\tGPU0", f"\t{residue}GPU0").replace("ID\n", f"ID{end}\n")) == parse(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        GOOD.replace("\n", "\n\n"),
        "\ufeff" + GOOD,
        GOOD.replace("\t", "\xa0\t"),
        "\n$ nvidia-smi topo -m\n" + GOOD + "\n$ exit\n",
        GOOD + "NIC0\tPIX\tSYS\t X \t\n",
        GOOD + "\nLegend:\n\n  X = Self\nGPU7 is not read any more\n",
    ],
)
def test_line_ends_blank_lines_and_what_stands_around_do_not_matter(text: str) -> None:
    assert parse(text) == parse(GOOD)


@pytest.mark.parametrize(
    "before",
    [
        "gpu-a: ",  # pdsh, clush
        "0: ",  # srun --label
        "> ",  # a quotation
        "     {number}\t",  # cat -n
        "2026-02-03T04:05:{number}6.0017Z ",  # kubectl logs --timestamps
        "Feb 03 04:05:{number}6 gpu-7 check[101{number}]: ",  # the journal
    ],
)
def test_what_another_program_put_before_each_line_is_dropped(before: str) -> None:
    lines = f"{GOOD}\nNIC Legend:\n\n  NIC0: mlx5_0\nGPU7 is not read any more\n".splitlines(keepends=True)
    text = "".join(before.format(number=number) + line for number, line in enumerate(lines))
    assert parse(f"$ collect\n{text}") == parse(GOOD)


def test_lines_of_two_hosts_are_no_topology_of_one() -> None:
    text = "".join(f"gpu-{host}: {line}" for host in "12" for line in GOOD.splitlines(keepends=True))
    assert "line 4 is a second row of GPU0" in refused(text)


def test_a_table_of_a_web_page_is_read() -> None:
    text = (
        "|      | GPU0 | GPU1 | CPU Affinity |\n|---|---|---|---|\n| GPU0 | X | PHB | 0-3 |\n| GPU1 | PHB | X | 0-3 |\n"
    )
    assert parse(text).links == {"GPU0": {"GPU1": "PHB"}, "GPU1": {"GPU0": "PHB"}}


def test_a_list_of_cpus_may_have_blanks() -> None:
    found = parse("    GPU0  CPU Affinity  NUMA Affinity\nGPU0   X    0-15, 32-47   0\n")
    assert (cpus(found), numa(found)) == (["0-15,32-47"], [[0]])


def test_lines_that_a_narrow_screen_wrapped_are_joined() -> None:
    wrapped = (
        "      GPU0  GPU1\n      GPU2  NIC0  CPU Affinity  NUMA\nAffinity  GPU NUMA ID\n"
        "GPU0   X    NV4\n      SYS   SYS   0-15\n 0  N/A\n"
        "GPU1  NV4    X\n      SYS   SYS   0-15  0  N/A\n"
        "GPU2  SYS   SYS\n       X    PHB   16-31  1  N/A\n"
        "NIC0  SYS\n"
    )
    found = parse(wrapped)
    assert found.ranked() == ((0, 1, "NV4"), (0, 2, "SYS"), (1, 2, "SYS"))
    assert numa(found) == [[0], [0], [1]]


def test_nics_may_have_any_name_and_stand_anywhere() -> None:
    text = (
        "  GPU0 mlx5_bond_0 GPU1 rocep1s0f0 CPU Affinity\n"
        "rocep1s0f0 SYS ?? SYS X\n"
        "GPU1 PSB SYS X SYS 0-3\nGPU0 X SYS PSB SYS 0-3\n"
    )
    assert parse(text).links == {"GPU0": {"GPU1": "PSB"}, "GPU1": {"GPU0": "PSB"}}


def test_gpus_keep_their_numbers_where_some_are_missing() -> None:
    found = parse("\tGPU1\tGPU10\tGPU3\nGPU1\tX\tPIX\tSYS\nGPU10\tPIX\tX\tNODE\nGPU3\tSYS\tNODE\tX\n")
    assert found.indices == (1, 3, 10)
    assert found.ranked() == ((1, 10, "PIX"), (3, 10, "NODE"), (1, 3, "SYS"))


@pytest.mark.parametrize(
    ("rests", "wanted"),
    [
        (("0-45,92-1370  N/A", "46-91,138-1831  N/A"), [("0-45,92-137", [0]), ("46-91,138-183", [1])]),
        (("0-310 N/A", "32-631 N/A"), [("0-31", [0]), ("32-63", [1])]),
        (("0-710,3-9    2", "72-1431,19-25  10"), [("0-71", [0, *range(3, 10)]), ("72-143", [1, *range(19, 26)])]),
        (("0-45,92-1370N/A", "46-91,138-1831N/A"), [("0-45,92-137", [0]), ("46-91,138-183", [1])]),
        # Nothing tells whether these are 311 CPUs, or 32 and node 0: the node stays unknown.
        (("0-310 N/A", "0-310 N/A"), [("0-310", []), ("0-310", [])]),
        (("0-310 N/A", "32-630 N/A"), [("0-310", []), ("32-630", [])]),
        (("0-45,96-200 N/A", "0-45,96-200 N/A"), [("0-45,96-200", []), ("0-45,96-200", [])]),
        (("0-23 N/A", "24-47 N/A"), [("0-23", []), ("24-47", [])]),
        (("N/A", "N/A"), [("", []), ("", [])]),
        (("", ""), [("", []), ("", [])]),
        (("0-15  0", "16-31  1"), [("0-15", [0]), ("16-31", [1])]),
        (("0-15  0-1,4  N/A", "16-31  1  N/A"), [("0-15", [0, 1, 4]), ("16-31", [1])]),
        (("0  0  N/A", "1  1  N/A"), [("0", [0]), ("1", [1])]),
        (("somewhere  else  N/A", "9-3  5-4  N/A"), [("", []), ("", [])]),
    ],
)
def test_affinity_cells_that_are_glued_blank_or_lists(
    rests: tuple[str, str], wanted: list[tuple[str, list[int]]]
) -> None:
    """deploy.md: `0-45,92-1370` is `0-45,92-137` and `0`."""
    header = "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    found = parse(f"{header}GPU0     X      NV18    {rests[0]}\nGPU1    NV18     X      {rests[1]}\n")
    assert list(zip(cpus(found), numa(found), strict=True)) == wanted
    assert found.link(0, 1) == "NV18"


def test_a_file_of_powershells_is_text_and_other_bytes_are_not() -> None:
    assert parse(decode(GOOD.encode("utf-16"))) == parse(decode(GOOD.encode())) == parse(GOOD)
    with pytest.raises(TopologyError, match="binary"):
        decode(b"\x80\x81\x82")
    with pytest.raises(TopologyError, match="binary"):
        decode(b"\xff\xfe\x00")


# -- any matrix in any layout --------------------------------------------------------------------------------

LINKS = ["SYS", "NODE", "PHB", "PXB", "PIX", "PSB", "NV1", "NV2", "NV4", "NV12", "NV18"]


@dataclass(frozen=True)
class Drawn:
    """A matrix, and how it is laid out."""

    links: dict[tuple[int, int], str]
    count: int
    text: str


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    count = draw(st.integers(1, 10))
    links = {two: draw(st.sampled_from(LINKS)) for two in combinations(range(count), 2)}
    nics = draw(st.permutations([f"mlx5_{n}" for n in range(3)] + [f"NIC{n}" for n in range(2)]))
    nics = nics[: draw(st.integers(0, 5))]
    columns = draw(st.integers(0, 4))
    tabs = draw(st.booleans())
    blank = draw(st.booleans())
    gap = "\t" if tabs else draw(st.sampled_from([" ", "    "]))
    old = draw(st.booleans())

    def cell(one: int, other: int) -> str:
        link = "X" if one == other else links[min(one, other), max(one, other)]
        link = "SOC" if old and link == "SYS" else link
        return f" {link} " if tabs and link == "X" else link

    titles = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "Extra Affinity"][:columns]
    values = ["0-15,32-47", "0", "N/A", "N/A"][:columns]
    if blank:
        values = ["" if tabs else " ", "" if tabs else " ", "N/A", "N/A"][:columns]
    gpus = [f"GPU{n}" for n in range(count)]
    header = gap + gap.join([*gpus, *nics, *titles])
    if draw(st.booleans()):
        header = header.replace("GPU0", "\x1b[4mGPU0", 1) + "\x1b[0m"
    rows = [
        gap.join([f"GPU{n}", *(cell(n, m) for m in range(count)), *["SYS"] * len(nics), *values]) for n in range(count)
    ]
    others = [gap.join([nic, *["NODE"] * draw(st.integers(0, count))]) for nic in nics]
    others = others[: draw(st.integers(0, len(others)))]
    legend = draw(st.sampled_from([[], ["", "Legend:", "", "  X    = Self"]]))
    indent = draw(st.sampled_from(["", "   "]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [header, *rows, *others, *legend]
    return Drawn(links, count, end.join(indent + line for line in lines) + end)


@given(drawn())
def test_any_symmetric_matrix_in_any_layout_reads_back_the_same(case: Drawn) -> None:
    found = parse(case.text)
    assert found.gpus == tuple(f"GPU{n}" for n in range(case.count))
    assert {two: found.link(*two) for two in case.links} == case.links
    assert {two: found.link(*reversed(two)) for two in case.links} == case.links


@pytest.mark.slow
@given(drawn(), st.data())
def test_a_matrix_cut_anywhere_within_the_gpus_rows_is_refused(case: Drawn, data: st.DataObject) -> None:
    last = f"GPU{case.count - 1}"
    row = case.text.rindex(last, 0, case.text.rindex("X"))
    end = case.text.index("X", row)  # the last cell of the last row that says anything of GPUs
    cut = data.draw(st.integers(0, end))
    with pytest.raises(TopologyError):
        parse(case.text[:cut])


@given(st.text(max_size=300))
def test_no_text_makes_the_reader_fail_in_any_other_way(text: str) -> None:
    prefixed = (HEADER + text).replace("\n", "\na: ")
    for whole in (text, HEADER + text, GOOD[: len(GOOD) // 2] + text, f"a: {prefixed}"):
        try:
            parse(whole)
        except TopologyError as error:
            assert str(error)


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing to read"),
        ("\n \n", "nothing to read"),
        ("Legend:\n X = Self\n", "nothing to read"),
        ("\x7fELF\x02\x01\x00\x00", "binary data"),
        ("x" * 1_000_001, "1,000,001 characters"),
        ("Mon Nov 21 09:00:00\n| NVIDIA-SMI 550.54 |\n", "the text begins 'Mon Nov 21 09:00:00'"),
        ("GPU 0: NVIDIA A10 (UUID: GPU-1)\n", "no header with GPU0"),
        ("No devices were found\n", "'No devices were found'"),
        ("===== ROCm System Management Interface =====\n      GPU0  GPU1\nGPU0  0  40\n", "what rocm-smi prints"),
        ("\tNIC0\tNIC1\nNIC0\tX\tPIX\nNIC1\tPIX\tX\n", "no header with GPU0"),
        ("GPU0\t X \tPIX\nGPU1\tPIX\t X \n", "the header above it"),
        (HEADER, "the row of GPU0 is missing"),
        (GOOD[: GOOD.index("GPU1\tPIX")], "the row of GPU1 is missing"),
        (GOOD[: GOOD.rindex("\t X ")], "the row of GPU1 (line 3) has 1 cells where the header names 2"),
        (GOOD.replace("GPU1\tPIX", "GPU1\tPHB"), "GPU0 has PIX to GPU1 (line 2), and GPU1 has PHB to GPU0 (line 3)"),
        (GOOD.replace("PIX", "PIE"), "the row of GPU0 (line 2) has 'PIE' for its link to GPU1: expected X, NV#"),
        (GOOD.replace("PIX", "OK"), "another table of nvidia-smi's, expected the output of `nvidia-smi topo -m`"),
        (GOOD.replace("PIX", "40"), "has '40' for its link to GPU1"),
        (GOOD.replace(" X ", "SYS"), "the row of GPU0 (line 2) has SYS for itself"),
        (GOOD.replace("PIX", "X"), "the row of GPU0 (line 2) has X for GPU1"),
        (GOOD + GOOD, "line 4 is a second row of GPU0"),
        (GOOD.replace("GPU1", "GPU0"), "names GPU0 twice"),
        (GOOD + "GPU2\tPIX\tPIX\n", "line 4 is a row of GPU2, which the header in line 1 lacks"),
        (GOOD.replace("\tGPU1\tCPU", "\tGPU1\tNIC0\tCPU"), "has '0-15' for its link to NIC0"),
    ],
)
def test_what_is_no_topology_is_refused_with_the_line_that_is_wrong(text: str, says: str) -> None:
    assert says in refused(text)


# -- peer access ---------------------------------------------------------------------------------------------

P2P = (
    " \t\x1b[4mGPU0\tGPU1\tGPU2\t\x1b[0m\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tU\t\n GPU2\tNS\tU\tX\t\n\n"
    "Legend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
)


def test_peer_access_is_read_for_both_ways() -> None:
    found = parse_p2p(P2P)
    assert found.gpus == ("GPU0", "GPU1", "GPU2")
    assert found.status["GPU2"] == {"GPU0": "NS", "GPU1": "U"}
    assert (found.ok(0, 1), found.ok(0, 2), found.ok(1, 2), found.ok(0, 9)) == (True, False, None, None)
    assert parse_p2p(P2P.replace("GPU1\tOK", "GPU1\tTNS")).ok(0, 1) is False


def test_a_topology_is_no_table_of_peer_access() -> None:
    with pytest.raises(TopologyError, match="expected the output of `nvidia-smi topo -p2p r`"):
        parse_p2p(GOOD)


# -- the program ---------------------------------------------------------------------------------------------


def program(directory: Path, script: str) -> None:
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_nvidia_smi_is_asked_for_the_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'echo "asked $*"')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert nvidia_smi() == "asked topo -m\n"
    assert nvidia_smi(P2P_COMMAND) == "asked topo -p2p r\n"


def test_a_missing_nvidia_smi_is_a_missing_prerequisite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TopologyError, match="there is no such program here") as caught:
        nvidia_smi()
    assert caught.value.exit_code == 2


def test_a_failing_nvidia_smi_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(TopologyError, match="failed and said: Failed to initialize NVML") as caught:
        nvidia_smi()
    assert caught.value.exit_code == 1
