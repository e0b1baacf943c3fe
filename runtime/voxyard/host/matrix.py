"""The square tables that `nvidia-smi topo` prints: names across, the same names down, a cell for each two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from voxyard.host.errors import HostError

GPU_NAME = re.compile(r"GPU(\d+)")
SELF = "X"

# ESC[4m underlines the header; copies of a screen keep it as text: ^[[4m, \033[4m, [4m.
_COLOUR = re.compile(r"(?:\x1b|\u241b|\^\[|\\033|\\e|\\x1b|\\u001b)?\[\d*(?:;\d+)*m|\x1b\[[0-?]*[ -/]*[@-~]")
_AFFINITY = re.compile(r"(?<!\S)(?:\S+\s+Affinity|GPU\s+NUMA\s+ID)(?!\S)", re.IGNORECASE)
_AFFINITY_WORDS = frozenset({"cpu", "numa", "gpu", "mem", "memory", "affinity", "id"})
_AFFINITY_CELL = re.compile(r"N/A|\d[\d,-]*")
_DEVICE_NAME = re.compile(r"(?=\D*\d)[A-Za-z][\w.-]*")
_BLANKS = {0xA0: " ", ord("|"): " "}  # of web pages, and of their tables
_BINARY = re.compile(r"[\x00-\x06\x0e-\x1a\ufffd]")
_LARGEST = 1_000_000  # characters; a host of 16 GPUs and 40 NICs prints 30,000
_BEFORE = re.compile(r"(.*?\S)[ \t]+(?=GPU\d+(?:\s|$))")  # a host's name, a time, a number, a mark of a quotation


class TopologyError(HostError):
    """Text that is not a topology: the line that is wrong, and what was expected there."""

    exit_code: int = 1


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One device's row: a cell for each column, then what follows them, as it was written."""

    name: str
    line: int
    cells: tuple[str, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table as read: `names` are its columns, `rest` what the header says after them."""

    names: tuple[str, ...]
    rest: str
    rows: Mapping[str, MatrixRow]

    @property
    def gpus(self) -> tuple[str, ...]:
        """The columns that are GPUs, by index."""
        return tuple(sorted((name for name in self.names if GPU_NAME.fullmatch(name)), key=gpu_index))


def gpu_index(name: str) -> int:
    """7 for GPU7."""
    return int(name.removeprefix("GPU"))


def read_matrix(text: str, command: str) -> Matrix:
    """The table in what `command` printed; the GPUs' rows are all there and complete.

    Rows of other devices may be missing or cut. Raises TopologyError.
    """
    lines = _lines(text, command)
    header = _header(lines)
    if header is None and (header := _header(bare := _without_prefix(lines))) is not None:
        lines = bare
    if header is None:
        raise TopologyError(_no_header(lines, command))
    words, rows = _spans([(number, line) for number, line in lines if number >= header])
    names, rest = _columns(words)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TopologyError(f"line {header} names {twice} twice: expected the output of `{command}` of one host")
    matrix = Matrix(names, rest, {row.name: row for row in _cut(rows, len(names))})
    _refuse_incomplete(matrix, header, command)
    return matrix


def _lines(text: str, command: str) -> list[tuple[int, str]]:
    """Numbered lines that are not blank, up to the legend."""
    if len(text) > _LARGEST:
        raise TopologyError(f"{len(text):,} characters are no output of `{command}`, which is a few lines")
    if _BINARY.search(text.replace("\x1b", "")):
        raise TopologyError(f"this is binary data: expected the text that `{command}` prints")
    plain = _COLOUR.sub("", text.removeprefix("\ufeff")).translate(_BLANKS)
    plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    found = _up_to_legend(enumerate(plain.split("\n"), start=1))
    if "ROCm System Management" in plain:
        raise TopologyError(f"this is what rocm-smi prints: expected the output of `{command}`, of NVIDIA's driver")
    if not found:
        raise TopologyError(f"nothing to read: expected what `{command}` prints")
    return found


def _up_to_legend(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    table = takewhile(lambda each: not re.match(r"\s*(?:NIC\s+)?Legend\b", each[1]), lines)
    return [(number, line) for number, line in table if line.strip()]


def _header(lines: list[tuple[int, str]]) -> int | None:
    return next((number for number, line in lines if _is_header(line)), None)


def _without_prefix(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines without what pdsh, srun, a log or a quotation puts before each; numbers in it may differ.

    A line without it was not printed by the command.
    """
    before = next(
        (found[1] for _, line in lines if (found := _BEFORE.match(line)) and _is_header(line[found.end() :])), None
    )
    if before is None:
        return lines
    wanted = re.compile(r"\s*" + re.sub(r"\d+", r"\\d+", re.escape(before.strip())) + r"(?=\s|$)")
    return _up_to_legend((number, line[found.end() :]) for number, line in lines if (found := wanted.match(line)))


def _is_header(line: str) -> bool:
    names, _ = _columns(line)
    return any(GPU_NAME.fullmatch(name) for name in names) and all(_DEVICE_NAME.fullmatch(name) for name in names)


def _columns(words: str) -> tuple[tuple[str, ...], str]:
    affinity = _AFFINITY.search(words)
    end = affinity.start() if affinity else len(words)
    return tuple(words[:end].split()), words[end:]


def _no_header(lines: list[tuple[int, str]], command: str) -> str:
    number, first = lines[0]
    shown = first.strip()[:60]
    if GPU_NAME.fullmatch(first.split()[0]) and SELF in first.split():
        return f"line {number} is the row of {first.split()[0]}, and the header above it (GPU0 GPU1 …) is missing"
    return (
        f"no header with GPU0 was found, the text begins {shown!r}: expected what `{command}` prints "
        "on a host with GPUs"
    )


def _spans(lines: list[tuple[int, str]]) -> tuple[str, list[tuple[str, int, str]]]:
    """The header's words, and each row as name, line and text: lines that a narrow screen wrapped are joined."""
    words = lines[0][1]
    rows: list[tuple[str, int, str]] = []
    for number, line in lines[1:]:
        names, _ = _columns(words)
        first = line.split()[0]
        if not rows and first not in names and _continues_header(line):
            words += " " + line
        elif first in names or GPU_NAME.fullmatch(first):
            rows.append((first, number, line[line.index(first) + len(first) :]))
        elif rows and (len(rows[-1][2].split()) < len(names) or _continues_affinity(line)):
            name, start, row = rows[-1]
            rows[-1] = name, start, f"{row} {line}"
    return words, rows


def _continues_header(line: str) -> bool:
    return all(word.lower() in _AFFINITY_WORDS or _DEVICE_NAME.fullmatch(word) for word in line.split())


def _continues_affinity(line: str) -> bool:
    return all(_AFFINITY_CELL.fullmatch(word) for word in line.split())


def _cut(rows: list[tuple[str, int, str]], count: int) -> Iterator[MatrixRow]:
    seen: set[str] = set()
    for name, number, text in rows:
        if name in seen:
            raise TopologyError(f"line {number} is a second row of {name}: expected the output of one host, once")
        seen.add(name)
        words = list(re.finditer(r"\S+", text))[:count]
        end = words[-1].end() if words else len(text)
        yield MatrixRow(name, number, tuple(word.group() for word in words), text[end:])


def _refuse_incomplete(matrix: Matrix, header: int, command: str) -> None:
    again = f"the output was cut, run `{command}` again"
    for row in matrix.rows.values():
        if GPU_NAME.fullmatch(row.name) and row.name not in matrix.names:
            raise TopologyError(f"line {row.line} is a row of {row.name}, which the header in line {header} lacks")
    for name in matrix.gpus:
        row_of = matrix.rows.get(name)
        if row_of is None:
            raise TopologyError(f"the row of {name} is missing, which the header in line {header} names: {again}")
        if len(row_of.cells) < len(matrix.names):
            raise TopologyError(
                f"the row of {name} (line {row_of.line}) has {len(row_of.cells)} cells where the header names "
                f"{len(matrix.names)} devices: {again}"
            )
