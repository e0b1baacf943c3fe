"""GPU topology: the output of `nvidia-smi topo`, parsed into links, CPU affinity and peer access."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from voxyard.host.affinity import Affinity, read_affinity
from voxyard.host.matrix import GPU_NAME, SELF, Matrix, TopologyError, gpu_index, read_matrix

__all__ = ["Affinity", "PeerAccess", "Topology", "TopologyError", "decode", "nvidia_smi", "parse", "parse_p2p", "rank"]

MATRIX_COMMAND: tuple[str, ...] = ("nvidia-smi", "topo", "-m")
P2P_COMMAND: tuple[str, ...] = ("nvidia-smi", "topo", "-p2p", "r")

_RANKS = {"SYS": 1, "NODE": 2, "PHB": 3, "PXB": 4, "PIX": 5, "PSB": 6}
_NVLINK_RANK = 10
_NVLINK = re.compile(r"NV([1-9]\d{0,2})")
_OLD_NAMES = {"SOC": "SYS"}
# OK, chipset, GPU or topology not supported, not supported, disabled by a registry key, unknown.
_P2P_WORDS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
_TIMEOUT_SECONDS = 60
EXPECTED_LINKS = f"X, NV#, {', '.join(sorted(_RANKS, key=lambda name: -_RANKS[name]))}"


def rank(link: str) -> int:
    """Rank of a link, higher is faster: SYS 1, NODE 2, PHB 3, PXB 4, PIX 5, PSB 6 (same board), NV# 10 + #.

    Raises TopologyError for a name that is no link.
    """
    link = _OLD_NAMES.get(link, link)
    nvlink = _NVLINK.fullmatch(link)
    if nvlink:
        return _NVLINK_RANK + int(nvlink[1])
    if link not in _RANKS:
        raise TopologyError(f"{link!r} is no link between GPUs: expected {EXPECTED_LINKS}")
    return _RANKS[link]


@dataclass(frozen=True, slots=True)
class Topology:
    """The GPUs as `nvidia-smi topo -m` names them, and the link of each two: symmetric, GPUs only, no self."""

    gpus: tuple[str, ...]
    links: Mapping[str, Mapping[str, str]]
    affinity: Mapping[str, Affinity]

    @property
    def indices(self) -> tuple[int, ...]:
        """nvidia-smi's indices of the GPUs."""
        return tuple(gpu_index(name) for name in self.gpus)

    def link(self, one: int, other: int) -> str:
        """The link between two GPUs, by index. Raises TopologyError where the text had none of them."""
        try:
            return self.links[f"GPU{one}"][f"GPU{other}"]
        except KeyError:
            raise TopologyError(
                f"GPU{one} and GPU{other} have no link here: the topology has {', '.join(self.gpus)}"
            ) from None

    def ranked(self) -> tuple[tuple[int, int, str], ...]:
        """Each two GPUs, lower index first, with their link: the best links first, then by index."""
        every = [(one, other, self.link(one, other)) for one, other in combinations(self.indices, 2)]
        return tuple(sorted(every, key=lambda each: (-rank(each[2]), each[0], each[1])))

    def same_numa(self, one: int, other: int) -> bool:
        """True where both GPUs are known to be near one NUMA node; by their CPUs where the nodes are not told."""
        near, far = (self.affinity.get(f"GPU{index}", Affinity()) for index in (one, other))
        if near.numa and far.numa:
            return bool(near.numa & far.numa)
        return bool(near.cpus) and near.cpus == far.cpus


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """Peer access between GPUs, as `nvidia-smi topo -p2p r` reports it: OK, or the reason why not."""

    gpus: tuple[str, ...]
    status: Mapping[str, Mapping[str, str]]

    def ok(self, one: int, other: int) -> bool | None:
        """True where peer access works both ways; None where it is unknown."""
        names = f"GPU{one}", f"GPU{other}"
        ways = [self.status.get(a, {}).get(b, "U") for a, b in (names, names[::-1])]
        if "U" in ways:
            return None
        return all(way == "OK" for way in ways)


def parse(text: str) -> Topology:
    """The topology in what `nvidia-smi topo -m` printed, as old and new drivers print it.

    Raises TopologyError where the text is something else, or was cut within the GPUs' rows.
    """
    matrix = read_matrix(text, " ".join(MATRIX_COMMAND))
    links = {
        name: {other: link for other, link in _cells(matrix, name, _link_of) if GPU_NAME.fullmatch(other)}
        for name in matrix.gpus
    }
    for one, other in combinations(matrix.gpus, 2):
        if links[one][other] != links[other][one]:
            raise TopologyError(
                f"{one} has {links[one][other]} to {other} (line {matrix.rows[one].line}), and {other} has "
                f"{links[other][one]} to {one} (line {matrix.rows[other].line}): a topology is symmetric"
            )
    rests = {name: matrix.rows[name].rest for name in matrix.gpus}
    return Topology(matrix.gpus, links, read_affinity(matrix.rest, rests))


def parse_p2p(text: str) -> PeerAccess:
    """The peer access in what `nvidia-smi topo -p2p r` printed. Raises TopologyError."""
    matrix = read_matrix(text, " ".join(P2P_COMMAND))
    return PeerAccess(matrix.gpus, {name: dict(_cells(matrix, name, _p2p_word)) for name in matrix.gpus})


def decode(data: bytes) -> str:
    """The text of a file that holds such an output; UTF-16 is what PowerShell's `>` writes. Raises TopologyError."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise TopologyError(
            f"this is binary data, not text: expected what `{' '.join(MATRIX_COMMAND)}` prints"
        ) from None


def nvidia_smi(command: tuple[str, ...] = MATRIX_COMMAND) -> str:
    """Output of this host's nvidia-smi.

    Raises TopologyError: with exit code 2 where there is no such program, else with the program's own words.
    """
    line = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (FileNotFoundError, PermissionError) as error:
        raise _without_program(line) from error
    except subprocess.TimeoutExpired as error:
        raise TopologyError(
            f"`{line}` did not answer within {_TIMEOUT_SECONDS} s: the driver hangs, look at the kernel's log"
        ) from error
    if done.returncode != 0:
        said = decode(done.stdout + done.stderr).strip() or f"nothing, with exit code {done.returncode}"
        raise TopologyError(f"`{line}` failed and said: {said}")
    return decode(done.stdout)


def _without_program(line: str) -> TopologyError:
    return TopologyError(
        f"`{line}` could not be run, there is no such program here: it comes with NVIDIA's driver (in a container, "
        "with the capability `utility`); or read its output with --from FILE",
        exit_code=2,
    )


def _cells(matrix: Matrix, name: str, read: Callable[[str], str | None]) -> Iterator[tuple[str, str]]:
    """The other devices in a GPU's row with what `read` makes of their cells. Raises TopologyError."""
    row = matrix.rows[name]
    for other, cell in zip(matrix.names, row.cells, strict=True):
        word = cell if cell == SELF else read(cell)
        if word is None:
            raise TopologyError(
                f"the row of {name} (line {row.line}) has {cell!r} for its link to {other}: {_expected(cell, read)}"
            )
        if (cell == SELF) != (other == name):
            place = "itself" if other == name else other
            raise TopologyError(
                f"the row of {name} (line {row.line}) has {cell} for {place}: X belongs where a GPU meets itself"
            )
        if cell != SELF:
            yield other, word


def _link_of(cell: str) -> str | None:
    link = _OLD_NAMES.get(cell, cell)
    return link if link in _RANKS or _NVLINK.fullmatch(link) else None


def _p2p_word(cell: str) -> str | None:
    return cell if cell in _P2P_WORDS else None


def _expected(cell: str, read: Callable[[str], str | None]) -> str:
    if read is _link_of:
        other, command, words = _p2p_word, MATRIX_COMMAND, EXPECTED_LINKS
    else:
        other, command, words = _link_of, P2P_COMMAND, ", ".join(sorted(_P2P_WORDS))
    if other(cell):
        return f"this is another table of nvidia-smi's, expected the output of `{' '.join(command)}`"
    return f"expected {words}"
