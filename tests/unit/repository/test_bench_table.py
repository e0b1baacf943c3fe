"""The Bark table of the benchmarks' README: made from the run that is kept beside it."""

from __future__ import annotations

import json

import bench_table


def kept() -> dict[str, object]:
    found: dict[str, object] = json.loads(bench_table.KEPT.read_text(encoding="utf-8"))
    return found


def test_the_table_shows_the_run_that_is_kept() -> None:
    page = bench_table.README.read_text(encoding="utf-8")
    assert page.count(bench_table.BEGIN) == page.count(bench_table.END) == 1
    assert bench_table.with_table(page, kept()) == page


def test_another_figure_gives_another_table() -> None:
    other = kept()
    ratios = other["ratios"]
    assert isinstance(ratios, dict)
    other["ratios"] = {**ratios, "decode_vs_floor": 0.123}
    assert "| `decode_vs_floor` | 0.12 | ≥ 0.8 |" in bench_table.render(other)
    assert bench_table.render(other) != bench_table.render(kept())


def test_a_run_of_tiny_sizes_is_not_kept() -> None:
    assert not kept()["stand_in"]
    assert "Stand-in" in bench_table.render({**kept(), "stand_in": True})


def test_a_contestant_whose_stages_overlap_has_no_shares() -> None:
    other = kept()
    figures = other["figures"]
    assert isinstance(figures, dict)
    name = next(name for name in figures if name.endswith("_voxyard_bfloat16_share_codec"))
    other["figures"] = {key: value for key, value in figures.items() if not key.startswith(name.removesuffix("codec"))}
    assert "|  |  |  |  |  |" in bench_table.render(other)
