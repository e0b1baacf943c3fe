"""An audiobook on the page: chapters, downloads, a part spoken again, paragraphs, an outage."""

from __future__ import annotations

import httpx
from playwright.sync_api import Page, Route, expect
from watching import Service, Watch, sentences, until

FIRST, SECOND, THIRD = sentences(3)
BOOK = [{"title": "The first", "text": f"{FIRST}\n\n{SECOND}"}, {"title": "The <second>", "text": THIRD}]


def open_book(service: Service, page: Page) -> str:
    """Opens a finished book; its id."""
    document = httpx.post(f"{service.url}v1/documents", json={"title": "A book", "chapters": BOOK}).json()
    page.goto(f"{service.url}#/{document['id']}")
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    return str(document["id"])


def test_chapters_can_be_played_and_downloaded_one_by_one(service: Service, page: Page) -> None:
    open_book(service, page)
    chapters = page.locator("#chapter-list li")
    expect(chapters).to_have_count(2)
    expect(chapters.nth(1).get_by_role("button")).to_have_text("The <second>")
    chapters.nth(1).get_by_role("button").click()
    until(
        page,
        "document.querySelector('#audio').currentTime > 0 && Number(document.querySelector('#position').value) > 1",
    )
    expect(chapters.nth(1).get_by_role("button")).to_have_attribute("aria-current", "")
    with page.expect_download() as download:
        chapters.nth(0).get_by_role("link").click()
    assert download.value.suggested_filename == "A book - The first.mp3"


def test_every_format_can_be_downloaded(service: Service, page: Page) -> None:
    open_book(service, page)
    for format, start in {"m4b": b"ftyp", "srt": b"1\n00:00:00,000 --> ", "vtt": b"WEBVTT"}.items():
        page.locator("#format").select_option(format)
        with page.expect_download() as download:
            page.locator("#download").click()
        assert download.value.suggested_filename == f"A book.{format}"
        assert start in download.value.path().read_bytes()[:40]


def test_a_part_is_spoken_again(service: Service, page: Page) -> None:
    id = open_book(service, page)
    page.locator("#strip .cell").nth(1).focus()
    page.get_by_role("button", name="Speak part 2 again").press("Enter")
    expect(page.locator("#redo-words")).to_have_text("The sound has been renewed.")
    assert httpx.get(f"{service.url}v1/documents/{id}").json()["revision"] == 1


def test_paragraphs_stay(service: Service, page: Page) -> None:
    open_book(service, page)
    text = page.locator("#reading").inner_text()
    assert f"{FIRST}\n\n{SECOND}" in text
    assert f"{SECOND}\n\nThe <second>" in text


def test_a_voice_can_be_heard_and_is_the_texts_own_without_a_choice(service: Service, page: Page) -> None:
    page.goto(service.url)
    expect(page.locator("#voice optgroup")).not_to_have_count(0)
    assert page.locator("#voice").input_value() == ""
    page.locator("#preview").click()
    expect(page.locator("#preview-words")).to_have_text("Choose a voice to hear it.")
    page.locator("#voice").select_option("alloy")
    with page.expect_request("**/v1/audio/speech") as asked:
        page.locator("#preview").click()
    assert (asked.value.post_data_json or {})["voice"] == "alloy"
    until(page, "document.querySelector('#preview-audio').currentTime > 0")


def test_an_outage_is_waited_for_while_it_plays(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["ERR_FAILED", "ERR_CONNECTION"]
    open_book(service, page)
    down = [True]

    def answer(route: Route) -> None:
        if down[0]:
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/documents/**", answer)
    page.locator("#play").click()
    page.wait_for_timeout(12_000)  # longer than five tries of a stream that breaks
    expect(page.locator("#play")).to_have_text("Pause")
    down[0] = False
    until(page, "document.querySelector('#audio').currentTime > 0")
