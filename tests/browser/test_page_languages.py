"""The page in Persian: from right to left, in its words and digits; and a Persian PDF that Chromium prints."""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from playwright.sync_api import Browser, Page, Route, expect
from watching import UNSPEAKABLE, Service, Watch, until

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


ENGLISH = re.compile(r"[A-Za-z]{2,}(?:[ ,.:;]+[A-Za-z]{2,}){2,}")
IN_ENGLISH = re.compile("به انگلیسی: \u2068[^\u2068\u2069]*\u2069")  # a message of the service, told to be one
SEEN = """() => [...document.querySelectorAll("body, body *")].filter(one => one.checkVisibility()).flatMap(one => [
  ...[...one.childNodes].filter(each => each.nodeType === Node.TEXT_NODE).map(each => each.data),
  ...["aria-label", "title", "placeholder"].map(name => one.getAttribute(name) ?? ""),
])"""


def english(page: Page) -> list[str]:
    """What a reader of the page sees or hears in English without a word that it is."""
    texts = (IN_ENGLISH.sub("", text) for text in page.evaluate(SEEN))
    return [text for text in texts if ENGLISH.search(re.sub("`[^`]*`", "", text))]  # commands are in backticks


def test_no_state_of_a_persian_page_is_told_in_english(service: Service, page: Page, watch: Watch) -> None:
    """Of a form, a document and its parts: whatever the service says is called English, after Persian words."""
    watch.expected = ["status of 400", "status of 404", "status of 415"]
    page.goto(f"{service.url}?lang=fa")
    expect(page.locator("#notes li")).to_have_count(1)
    start = page.get_by_role("button", name="شروع")
    assert english(page) == []
    page.locator("#seed").evaluate("field => (field.closest('details').open = true)")
    for text, says in (("[voice:zoe]سلام.", "پذیرفته نشد"), ("...", "")):
        page.locator("#text").fill(text)
        start.click()
        expect(page.locator("#source-error")).to_contain_text(says)
        assert english(page) == []
    page.locator("#file").set_input_files({"name": "a.xlsx", "mimeType": "", "buffer": b"PK"})
    start.click()
    expect(page.locator("#source-error")).to_contain_text("این نوع پرونده پشتیبانی نمی‌شود")
    assert english(page) == []
    page.get_by_role("button", name="برداشتن پرونده").click()

    text = f"{PERSIAN} این جمله {UNSPEAKABLE} است و با این همه ادامه دارد."
    page.locator("#text").fill(text)
    start.click()
    until(page, "location.hash.length > 2")
    expect(page.locator("#state-words")).to_have_text("ناموفق")
    expect(page.locator("#document-reason")).to_contain_text("به انگلیسی")
    page.locator("#strip .cell[data-state=failed]").hover()
    expect(page.locator("#detail")).to_contain_text("به انگلیسی")
    expect(page.locator("#document-note")).to_contain_text("به انگلیسی")  # an English voice
    assert english(page) == []
    id = page.evaluate("location.hash.slice(2)")
    gone = httpx.delete(f"{service.url}v1/documents/{id}")
    assert gone.is_success
    page.reload()
    expect(page.locator("#document-facts")).to_contain_text("این سند دیگر اینجا نیست")
    assert english(page) == []


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("#document-reason", {"state": "processing", "parked": "the disk of the service is full"}),
        ("#document-reason", {"state": "failed", "reason": "no worker could be started", "code": "unavailable"}),
        ("#redo-words", {"redo": {"waiting": [], "failed": [{"index": 0, "reason": "no worker could be started"}]}}),
        ("#document-note", {"note": "the cover is left out of it"}),
    ],
)
def test_what_a_document_is_told_of_itself_is_called_english(
    service: Service, page: Page, watch: Watch, place: str, change: dict[str, object]
) -> None:
    made = httpx.post(f"{service.url}v1/documents", json={"text": PERSIAN}).json()["id"]
    eventually(lambda: httpx.get(f"{service.url}v1/documents/{made}").json()["state"] == "completed", "it is spoken")

    def changed(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), **change})

    page.route("**/v1/documents/*?chunks=true", changed)
    page.route("**/v1/documents/*/events", lambda route: route.abort())
    watch.expected = ["ERR_FAILED"]
    page.goto(f"{service.url}?lang=fa#/{made}")
    expect(page.locator(place)).to_contain_text("به انگلیسی")
    assert english(page) == []


def test_a_persian_page_that_chromium_prints_is_read_in_order(page: Page) -> None:
    page.set_content(f'<html lang="fa" dir="rtl"><title>t</title><p>{PERSIAN} قیمت آن (یعنی ۲٫۵ دلار) بود.</p></html>')
    found = extract(page.pdf(), "f.pdf", None, max_characters=10_000)
    assert found.text == f"{PERSIAN} قیمت آن (یعنی ۲٫۵ دلار) بود."
