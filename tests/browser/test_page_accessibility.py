"""Accessibility of the page: names, contrast, keyboard, narrow screens, dark and light."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Page, expect
from watching import Service, sentences, until

TEXT = " ".join(sentences(12))
CONTROLS = {
    "button", "checkbox", "combobox", "dialog", "link", "listbox", "option",
    "progressbar", "radio", "searchbox", "slider", "textbox",
}  # fmt: skip

Start = Callable[..., str]
Theme = Literal["light", "dark"]

# Text against what is painted behind it, as WCAG 2 measures it: [ratio, least, text] where it is too low.
CONTRAST = """() => {
  const channels = colour => {
    const numbers = colour.match(/[\\d.]+/g).map(Number);
    return colour.startsWith("color(") ? numbers.map((n, i) => i < 3 ? n * 255 : n) : numbers;
  };
  const light = colour => channels(colour).slice(0, 3).map(value => value / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const back = getComputedStyle(at).backgroundColor;
      if ((channels(back)[3] ?? 1) > 0) return back;
    }
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && node.checkVisibility() && !node.closest(".unseen,noscript,option"))
      texts.push(node);
  }
  const found = new Set(texts).values().map(node => {
    const style = getComputedStyle(node), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    return [ratio(style.color, behind(node)), least, node.textContent.slice(0, 40)];
  }).toArray();
  const boxes = [...document.querySelectorAll("textarea,select,input:not(.unseen,[type=radio],[type=range]),.cell")]
    .filter(node => node.checkVisibility() && !["silenced", "failed"].includes(node.dataset.state))
    .map(node => [ratio(getComputedStyle(node).borderTopColor, behind(node.parentElement)), 3, node.id || "cell"]);
  return { checked: found.length + boxes.length, low: [...found, ...boxes].filter(([r, least]) => r < least) };
}"""


def nameless(page: Page) -> list[str]:
    """Controls of the browser's own accessibility tree that have no name."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") in CONTROLS
    ]  # fmt: skip
    assert len(controls) >= 3  # in a dialog, the rest of the page is out of reach
    return [str(node) for node in controls if not node.get("name", {}).get("value", "").strip()]


def show(page: Page, service: Service, theme: Theme) -> None:
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.goto(service.url)
    expect(page.locator("#voice optgroup")).not_to_have_count(0)


def picture(page: Page, name: str) -> None:
    """Keep a picture where a folder for it is named, for a person to look at."""
    if folder := os.environ.get("VOXYARD_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def expect_contrast(page: Page, checked: int) -> None:
    measured = page.evaluate(CONTRAST)
    assert measured["low"] == []
    assert measured["checked"] >= checked


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_form_has_names_and_contrast(service: Service, page: Page, theme: Theme) -> None:
    show(page, service, theme)
    page.get_by_role("button", name="Start").click()
    page.get_by_text("More", exact=True).click()
    assert nameless(page) == []
    expect_contrast(page, 15)
    picture(page, f"form-{theme}")


@pytest.mark.parametrize(("theme", "width"), [("light", 900), ("dark", 900), ("dark", 320)])
def test_the_voices_have_names_contrast_and_room(service: Service, page: Page, theme: Theme, width: int) -> None:
    for name in ("captain", "v" * 64):
        fields = {"name": name, "language": "de", "description": "From the archive of the harbour, tape 7."}
        httpx.post(f"{service.url}v1/audio/voices", data=fields, files={"file": ("a.npz", b"tone")}).raise_for_status()
    page.set_viewport_size({"width": width, "height": 640})
    show(page, service, theme)
    expect(page.locator("#own-voices li")).to_have_count(2)
    page.get_by_text("Add a voice", exact=True).click()
    page.get_by_role("button", name="Add the voice").click()
    assert nameless(page) == []
    expect_contrast(page, 25)
    picture(page, f"voices-file-{theme}-{width}")
    page.get_by_label("a mix of two voices").check()
    page.get_by_role("button", name="Add the voice").click()
    assert nameless(page) == []
    expect_contrast(page, 25)
    picture(page, f"voices-mix-{theme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.get_by_role("button", name="Delete captain").click()
    assert nameless(page) == []
    expect_contrast(page, 25)
    picture(page, f"voices-delete-{theme}-{width}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_document_has_names_and_contrast(service: Service, page: Page, start_document: Start, theme: Theme) -> None:
    show(page, service, theme)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("If a part cannot be spoken").select_option("silence")
    long = " ".join(sentences(200))  # still being spoken when a slow browser comes to Cancel
    # the longest, which the pool takes first
    first = "The extraordinarily long-winded introductory sentence of this document comes before everything else."
    start_document(f"{first} {service.unspeakable} {long}")
    until(page, "document.querySelectorAll('#strip [data-state=spoken]').length > 3")
    until(page, "document.querySelector('#strip .cell').dataset.state === 'spoken'")
    page.locator("#strip .cell").first.click()
    until(page, "document.querySelector('#strip [data-playing]')")
    assert nameless(page) == []
    expect_contrast(page, 30)
    picture(page, f"document-{theme}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert nameless(page) == []
    expect_contrast(page, 30)
    picture(page, f"dialog-{theme}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_failed_document_has_names_and_contrast(
    service: Service, page: Page, start_document: Start, theme: Theme
) -> None:
    show(page, service, theme)
    start_document(f"{sentences(1)[0]} {service.unspeakable}")
    expect(page.locator("#document-problem")).to_be_visible()
    assert nameless(page) == []
    expect_contrast(page, 20)
    picture(page, f"failed-{theme}")


def test_each_state_of_a_part_has_a_shape_of_its_own(service: Service, page: Page) -> None:
    """Seen without colours, no two signs of the legend look alike."""
    show(page, service, "light")
    page.evaluate("document.getElementById('document').hidden = false; document.body.style.filter = 'grayscale(1)'")
    signs = page.locator(".legend .cell")
    pictures = {signs.nth(number).screenshot() for number in range(signs.count())}
    assert signs.count() == len(pictures) == 5


def test_the_theme_is_chosen_and_kept(service: Service, page: Page) -> None:
    show(page, service, "light")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_label("Dark").check()
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    assert page.evaluate(paper) == dark
    expect(page.get_by_label("Dark")).to_be_checked()
    page.get_by_label("Auto").check()
    assert page.evaluate(paper) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(paper) == dark


@pytest.mark.parametrize("width", [320, 600])
def test_a_narrow_screen_needs_no_sideways_scrolling(
    service: Service, page: Page, start_document: Start, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 640})
    show(page, service, "light")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page.get_by_text("More", exact=True).click()
    assert page.evaluate(wide) <= 0
    picture(page, f"form-{width}")
    start_document("A" * 300 + f" is a long word. {TEXT}")
    expect(page.locator("#strip .cell")).not_to_have_count(0)
    assert page.evaluate(wide) <= 0
    picture(page, f"document-{width}")


def test_it_is_used_with_the_keyboard_alone(service: Service, page: Page) -> None:
    show(page, service, "light")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    assert page.locator(".skip").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.insert_text(TEXT)
    tab_to(page, "start")
    page.keyboard.press("Enter")
    expect(page.locator("#document-title")).to_be_focused()
    until(page, "document.querySelectorAll('#strip [data-state=spoken]').length > 3")
    tab_to(page, "play")
    page.keyboard.press("Space")
    until(page, "document.getElementById('audio').currentTime > 0.1")
    assert tab_into(page, "#strip")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#strip .cell").nth(2)).to_be_focused()
    expect(page.locator("#detail")).to_contain_text("Sentence number 3")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#strip [data-playing]')?.dataset.index === '2'")
    page.keyboard.press("End")
    expect(page.locator("#strip .cell").last).to_be_focused()
    tab_to(page, "cancel")
    page.keyboard.press("Enter")
    expect(page.locator("#cancel-no")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#compose-title")).to_be_focused()


def tab_to(page: Page, control: str) -> None:
    """Press Tab until it is there."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == control:
            return
    raise AssertionError(f"Tab never comes to #{control}")


def tab_into(page: Page, place: str) -> bool:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("place => document.activeElement.closest(place) !== null", place):
            return True
    return False


def test_tab_goes_round_with_a_visible_focus(service: Service, page: Page, start_document: Start) -> None:
    show(page, service, "light")
    start_document(TEXT)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate("""() => {
          const at = document.activeElement;
          const shown = at.matches(".theme input") ? at.nextElementSibling : at;
          return [at === document.body ? "" : at.outerHTML.slice(0, 60), getComputedStyle(shown).outlineStyle];
        }""")
        if not name or name in seen:
            break
        assert outline != "none", name
        seen.append(name)
    else:
        raise AssertionError(f"Tab does not come round: {seen}")
    assert len(seen) >= 12
    assert sum('role="option"' in name or 'class="cell"' in name for name in seen) == 1


def test_progress_is_said_aloud_now_and_then(service: Service, page: Page, start_document: Start) -> None:
    show(page, service, "light")
    page.evaluate("""() => {
      window.said = [];
      new MutationObserver(() => said.push(document.getElementById("live").textContent))
        .observe(document.getElementById("live"), { childList: true });
    }""")
    start_document(TEXT)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    until(page, "said.at(-1).startsWith('Finished')")
    said = page.evaluate("said")
    assert 2 <= len(said) <= 6
    assert any("percent" in words for words in said)
