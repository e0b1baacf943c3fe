"""The table of claims of the documents that voxyard implements: its form, its states, the files that it names."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "tests/claims.md"
OPEN = {  # claims that are in part or missing, with the reason
    "N GPUs are about N times as fast (2, 4, 8)": "no two real GPUs have been there",
    "6 to 8 steps/s, twice as fast; tables of utilization (also 2 to 4)": "no training has come to its end on GPUs",
}
_LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


def rows() -> list[list[str]]:
    """The cells of each row, without the heading."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert lines[:2] == ["| source | claim | state | place |", "|---|---|---|---|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_claim_of_each_source_has_a_row_once() -> None:
    found = rows()
    assert all(len(row) == 4 for row in found), [row for row in found if len(row) != 4]
    assert Counter(row[0] for row in found) == {"0": 26, "1": 33, "2": 29, "3": 25, "4": 24}
    assert [claim for claim, count in Counter(row[1] for row in found).items() if count > 1] == []


def test_each_open_claim_has_its_reason_and_no_other_has_one() -> None:
    found = rows()
    assert {row[2] for row in found} <= {"T", "P", "M"}
    assert {row[1] for row in found if row[2] != "T"} == set(OPEN)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[1][:40])
def test_every_row_names_files_that_exist(row: list[str]) -> None:
    targets = _LINK.findall(row[3])
    assert targets
    assert [target for target in targets if not (TABLE.parent / target).is_file()] == []


def test_other_guides_names_lead_to_commands_and_flags_that_exist() -> None:
    """The table of the trainer's guide, by the generated pages."""
    guide = (ROOT / "runtime/voxyard/trainer/README.md").read_text(encoding="utf-8")
    section = guide.partition("## Coming from other guides")[2].partition("\n## ")[0]
    known = "".join((ROOT / "runtime" / page).read_text(encoding="utf-8") for page in ("COMMANDS.md", "SETTINGS.md"))
    named = set(re.findall(r"`(voxyard [a-z]+|--[a-z-]+)`", section))
    assert len(named) > 30
    assert [name for name in sorted(named) if not re.search(rf"{name}(?![\w-])", known)] == []
