"""The page of `make test-gpu` in a real Chromium: nothing is fetched, stand-ins are labelled, all can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from test_page_accessibility import CONTRAST, picture
from watching import Watch, open_alone

from gpu_report import run
from gpu_report.targets import figures

Open = Callable[..., Page]
CARD = {
    "name": "NVIDIA H200", "uuid": "GPU-1f2e3d4c-aaaa-bbbb-cccc-0123456789ab", "driver_version": "580.95.05",
    "memory.total": "143771 MiB", "compute_cap": "9.0", "mig.mode.current": "Disabled",
}  # fmt: skip
EVIL = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'


def whole(text: str, *, stand_in: bool) -> dict[str, Any]:
    """A made-up report: a step that failed, a target that was missed, a figure that was not judged."""

    def step(name: str, ok: bool = True, **result: Any) -> dict[str, Any]:
        return {
            "name": name, "ok": ok, "exit_code": int(not ok), "seconds": 12.0, "log": f"{name}.log",
            "tail": "" if ok else text, "result": result,
        }  # fmt: skip

    steps = [
        step("tests", ok=False, tests=9, passed=7, failed=[f"trainer.test_gpu_runs::{text}"], not_run=["a::b"]),
        step("bench-trainer", ratios={"overlap": 0.97, "vs_keras_fit": 0.9, "data_vs_model": 1.1, "other": 2.0}),
        step("exporter", ratios={"readings_that_agree": 1.0}),
    ]
    cards = [] if stand_in else [CARD]
    return run.report(steps, cards, stand_in=stand_in) | {"figures": figures(steps, stand_in=stand_in, gpus=len(cards))}


@pytest.fixture
def open_page(page: Page, tmp_path: Path) -> Open:
    """Writes the page of a report and opens it; whatever it asks for beside itself is a failure."""

    def show(
        text: str = "Traceback: out of memory", theme: str = "light", width: int = 1100, stand_in: bool = False
    ) -> Page:
        run.write(whole(text, stand_in=stand_in), tmp_path)
        return open_alone(page, tmp_path / "index.html", theme, width)

    return show


def test_a_report_of_gpus_shows_cards_verdicts_and_the_log_of_what_failed(open_page: Open) -> None:
    page = open_page()
    expect(page.get_by_text("2 of 3 steps done, 2 of 3 targets met; failed: tests.")).to_be_visible()
    row = page.get_by_role("row", name="overlapped rate")
    expect(row).to_contain_text("0.970")
    expect(row).to_contain_text("≥ 0.95")
    expect(row.get_by_text("met")).to_be_visible()
    expect(page.get_by_role("row", name="Keras' fit").get_by_text("missed")).to_be_visible()
    expect(page.get_by_role("row", name="two GPUs ÷ one").get_by_text("needs two GPUs")).to_be_visible()
    expect(page.get_by_role("row", name="580.95.05")).to_contain_text("9.0")
    expect(page.locator("pre")).to_have_text("Traceback: out of memory")
    expect(page.get_by_text("stand-in")).to_have_count(0)


def test_a_stand_in_is_labelled_wherever_a_figure_stands(open_page: Open) -> None:
    page = open_page(stand_in=True)
    expect(page.get_by_text("No GPU was used.")).to_be_visible()
    assert "(stand-in)" in page.title()
    for heading in ("GPU report", "Figures beside their targets", "Other figures"):
        expect(page.get_by_role("heading", name=heading)).to_contain_text("stand-in")
    expect(page.locator(".met, .missed")).to_have_count(0)


def test_a_log_stays_text(open_page: Open, watch: Watch) -> None:
    page = open_page(EVIL)
    assert page.title() == "voxyard: GPU report"
    expect(page.locator("pre")).to_have_text(EVIL)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("stand_in", [False, True])
def test_everything_has_contrast(open_page: Open, theme: str, stand_in: bool) -> None:
    page = open_page(theme=theme, stand_in=stand_in)
    measured = page.evaluate(CONTRAST)
    assert measured["low"] == []
    assert measured["checked"] > 30
    picture(page, f"gpu-report-{theme}{'-stand-in' if stand_in else ''}")


def test_a_narrow_screen_scrolls_tables_and_not_the_page(open_page: Open) -> None:
    page = open_page(width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
