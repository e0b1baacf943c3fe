"""The page in Persian: from right to left, in its words and digits; and a Persian PDF that Chromium prints."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from watching import Service, Watch, until

from voxyard.extraction.extract import extract

PERSIAN = "در سال ۱۴۰۳ پنج نفر به تهران آمدند؛ حال شما چطور است؟"


def drawn(page: Page, name: str) -> None:
    """Keep a picture for a person, where VOXYARD_SCREENSHOTS names a folder."""
    if folder := os.environ.get("VOXYARD_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder, f"{name}.png")), full_page=True)


@pytest.mark.parametrize("locale", ["fa-IR", "en-GB"])
def test_the_page_speaks_persian_from_the_form_to_the_sound(
    service: Service, chromium: Browser, watch: Watch, locale: str
) -> None:
    context = chromium.new_context(viewport={"width": 900, "height": 1100}, locale=locale)
    context.on("weberror", lambda error: watch.complaints.append(f"thrown: {error.error}"))
    page = context.new_page()
    page.goto(service.url)
    if locale == "en-GB":
        drawn(page, "form-en")
        page.get_by_role("link", name="فارسی").click()
    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    expect(page.get_by_role("heading", level=1)).to_have_text("چه چیزی خوانده شود؟")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    field, label = page.locator("#text").bounding_box(), page.get_by_text("متن", exact=True).first.bounding_box()
    assert field is not None
    assert label is not None
    assert abs(label["x"] + label["width"] - field["x"] - field["width"]) < 2 or label["width"] == field["width"]
    assert page.locator("#text").evaluate("field => getComputedStyle(field).direction") == "rtl", "its placeholder"
    expect(page.locator("#notes li")).to_have_text(
        "یادداشت سرویس به انگلیسی: \u2068a test's tones: noise, no speech\u2069"
    )
    page.locator("#seed").evaluate("field => (field.closest('details').open = true)")
    page.locator("#seed").fill("x")
    page.get_by_role("button", name="شروع").click()
    expect(page.locator("#seed-error")).to_contain_text("عددی صحیح")
    drawn(page, f"form-fa-{locale}")
    page.locator("#seed").fill("5")
    page.locator("#text").fill(f"{PERSIAN} " * 3)
    page.get_by_role("button", name="شروع").click()
    until(page, "location.hash.length > 2")
    expect(page.locator("#state-words")).to_have_text("پایان یافت")
    expect(page.locator("#progress-words")).to_contain_text("۱۰۰٪")
    expect(page.locator("#clock")).to_contain_text("۰:۰۰ ")
    drawn(page, f"document-fa-{locale}")
    cells = page.locator("#strip .cell")
    cells.first.focus()
    page.keyboard.press("ArrowLeft")  # onward, in a row from right to left
    expect(cells.nth(1)).to_be_focused()
    page.get_by_role("link", name="English").click()
    expect(page.locator("#state-words")).to_have_text("Finished")
    expect(page.locator("html")).to_have_attribute("dir", "ltr")
    context.close()


def test_an_error_of_the_service_has_persian_words_before_it(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 400"]
    page.goto(f"{service.url}?lang=fa")
    page.locator("#text").fill("[voice:zoe]Hello.")
    expect(page.locator("#text")).to_have_css("direction", "ltr")
    page.get_by_role("button", name="شروع").click()
    expect(page.locator("#source-error")).to_contain_text(
        "درخواست پذیرفته نشد. پیام سرویس به انگلیسی: \u2068the text names"
    )


def test_a_persian_page_that_chromium_prints_is_read_in_order(page: Page) -> None:
    page.set_content(f'<html lang="fa" dir="rtl"><title>t</title><p>{PERSIAN} قیمت آن (یعنی ۲٫۵ دلار) بود.</p></html>')
    found = extract(io.BytesIO(page.pdf()), "f.pdf", None, max_characters=10_000)
    assert found.text == f"{PERSIAN} قیمت آن (یعنی ۲٫۵ دلار) بود."
