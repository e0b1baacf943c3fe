"""The page of `voxyard profile --html` in a real Chromium: nothing is fetched, everything can be read (issue 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from profiles import COLD, made_up
from test_page_accessibility import CONTRAST, nameless, picture
from watching import Watch, open_alone

from voxyard.diagnose.profile.facts import Probed
from voxyard.diagnose.profile.html_report import write_page
from voxyard.diagnose.profile.result import Profile

Open = Callable[..., Page]
LOAD = (0.4, 0.05, 0.002, 0.1)
TRAIN = (0.02, 0.1, 0.004, 0.25)


@pytest.fixture
def open_page(page: Page, tmp_path: Path) -> Open:
    """Writes the page of a profile and opens it; whatever it asks for beside itself is a failure."""

    def show(profile: Profile, theme: str = "light", width: int = 1100) -> Page:
        file = tmp_path / "profile.html"
        write_page(profile, file)
        return open_alone(page, file, theme, width)

    return show


def _slow_disk() -> Profile:
    return made_up(*LOAD, load={"probed": Probed(8, 0.08, COLD)})


def test_it_says_what_is_slow_and_shows_it_without_a_network(open_page: Open) -> None:
    page = open_page(_slow_disk())
    expect(page.get_by_role("heading", level=1)).to_have_text("Data loading is the bottleneck")
    for name in ("What works beside one another", "The timeline of 10 typical steps", "The 40 measured steps"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    assert page.locator(".hists svg").count() == 4
    assert page.locator("#timeline rect.train").count() == 10
    assert page.locator("#timeline rect.wait").count() == 10
    expect(page.get_by_text("not measured: no GPU")).to_have_count(4)
    picture(page, "profile-load")


def test_a_run_without_a_bottleneck_shows_no_waiting(open_page: Open) -> None:
    page = open_page(made_up(*TRAIN))
    expect(page.get_by_role("heading", level=1)).to_have_text("No bottleneck; bound by training")
    assert page.locator("rect.wait").count() == 0


def test_bars_are_as_long_as_their_times(open_page: Open) -> None:
    """The picture does not lie: reading takes four times as long as training."""
    page = open_page(_slow_disk())
    wide = {name: float(page.locator(f"#lanes rect.{name}").get_attribute("width") or 0) for name in ("load", "train")}
    assert wide["load"] / wide["train"] == pytest.approx(4.0, rel=0.01)
    waited = [float(bar.get_attribute("width") or 0) for bar in page.locator("#timeline rect.wait").all()]
    trained = [float(bar.get_attribute("width") or 0) for bar in page.locator("#timeline rect.train").all()]
    assert sum(waited) / sum(trained) == pytest.approx(3.0, rel=0.05)


def test_a_command_is_copied_as_it_is_typed(open_page: Open) -> None:
    page = open_page(_slow_disk())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy the command: read with 8 threads instead of 2")
    button.click()
    expect(button).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == _slow_disk().recommendations[0].command[0]
    assert "--num-workers 8" in copied


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_has_a_name_and_contrast(open_page: Open, theme: str) -> None:
    page = open_page(_slow_disk(), theme)
    assert nameless(page) == []
    measured = page.evaluate(CONTRAST)
    assert measured["low"] == []
    assert measured["checked"] > 60
    pictures = page.locator("svg")
    assert pictures.evaluate_all(
        "all => all.filter(svg => svg.getAttribute('aria-labelledby').split(' ')"
        ".some(id => !document.getElementById(id)?.textContent)).length"
    ) == 0  # fmt: skip
    picture(page, f"profile-{theme}")


def test_light_and_dark_follow_the_system(open_page: Open) -> None:
    back = "getComputedStyle(document.documentElement).backgroundColor"
    page = open_page(made_up(*TRAIN))
    light = page.evaluate(back)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(back) != light


def test_a_narrow_screen_scrolls_pictures_and_not_the_page(open_page: Open) -> None:
    page = open_page(_slow_disk(), width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    region = page.get_by_role("region", name="Timeline")
    assert region.evaluate("node => node.scrollWidth > node.clientWidth && node.tabIndex === 0")


def test_the_page_cannot_ask_the_network_or_run_what_is_slipped_in(open_page: Open, watch: Watch) -> None:
    watch.expected += ["Content Security Policy", "policy:"]
    profile = _slow_disk()
    setup = replace(profile.setup, corpus='<img src="x" onerror="document.title=1"><script>document.title=2</script>')
    page = open_page(replace(profile, setup=setup))
    assert page.title().startswith("Data loading")
    failed = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'answered', error => error.name)")
    assert failed == "TypeError"
    assert any("connect-src" in line or "default-src" in line for line in watch.complaints)
