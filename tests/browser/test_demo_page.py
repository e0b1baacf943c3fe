"""The page that `make demo` ends with, in a real Chromium: it shows, plays and fetches nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from demo_results import whole
from playwright.sync_api import Page, expect
from test_page_accessibility import CONTRAST, nameless, picture
from watching import Watch, open_alone

from demo.page import write

Open = Callable[..., Page]
EVIL = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture
def open_page(page: Page, tmp_path: Path) -> Open:
    """Writes the page of a demo and opens it; whatever it asks for beside itself is a failure."""

    def show(text: str = "Plain words.", theme: str = "light", width: int = 1100) -> Page:
        file = tmp_path / "index.html"
        write(whole(text), file)
        return open_alone(page, file, theme, width)

    return show


def test_sounds_play_and_spectrograms_are_pictures(open_page: Open) -> None:
    page = open_page()
    sizes = page.locator("img").evaluate_all("all => all.map(one => [one.naturalWidth, one.naturalHeight])")
    assert sizes == [[2 * (4000 // 256), 2 * 80]] * 4
    page.locator("audio").evaluate_all("all => all.map(one => { one.preload = 'auto'; one.load(); })")
    for sound in page.locator("audio").all():
        expect(sound).to_have_js_property("readyState", 4)
    lengths = page.locator("audio").evaluate_all("all => all.map(one => one.duration)")
    assert lengths == pytest.approx([4000 / 22050] * 4, abs=0.01)


def test_the_profile_is_inside_and_cannot_run_anything(open_page: Open) -> None:
    page = open_page()
    page.get_by_text("The profile's own page").click()
    expect(page.frame_locator("iframe").get_by_text("Plain words.")).to_be_visible()


def test_what_slips_in_stays_text(open_page: Open, watch: Watch) -> None:
    watch.expected += ["about:srcdoc", "policy:"]
    page = open_page(EVIL)
    assert page.title() == "voxyard: the demo"
    expect(page.locator("blockquote").first).to_have_text(EVIL)


def test_the_page_cannot_ask_the_network(open_page: Open, watch: Watch) -> None:
    watch.expected += ["Content Security Policy", "policy:"]
    failed = open_page().evaluate("fetch('http://127.0.0.1:9/').then(() => 'answered', error => error.name)")
    assert failed == "TypeError"
    assert any("connect-src" in line or "default-src" in line for line in watch.complaints)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_has_a_name_and_contrast(open_page: Open, theme: str) -> None:
    page = open_page("Plain words.", theme)
    assert nameless(page) == []
    measured = page.evaluate(CONTRAST)
    assert measured["low"] == []
    assert measured["checked"] > 60
    assert page.locator("svg").evaluate_all("all => all.every(one => one.querySelector('title').textContent)")
    picture(page, f"demo-{theme}")


def test_a_narrow_screen_scrolls_tables_and_not_the_page(open_page: Open) -> None:
    page = open_page("Plain words.", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
