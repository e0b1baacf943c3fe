"""Documents on the page: paste, upload, progress, cancel, failure, reload."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from eventually import PATIENCE
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Route, expect
from watching import Service, Watch, sentences, states, until

SENTENCES = sentences(8)
TEXT = " ".join(SENTENCES)
LONG = " ".join(sentences(199))

Start = Callable[..., str]


def test_a_pasted_text_is_spoken_part_by_part(held_service: Service, page: Page, start_document: Start) -> None:
    page.goto(held_service.url)
    start_document(TEXT)
    expect(page.locator("#strip .cell")).to_have_count(len(SENTENCES))
    until(page, "new Set([...document.querySelectorAll('#strip .cell')].map(c => c.dataset.state)).size === 2")
    assert {"waiting", "spoken"} == set(states(page))
    held_service.go_on()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    assert states(page) == ["spoken"] * len(SENTENCES)
    assert page.locator("#progress").evaluate("bar => bar.value") == 1
    expect(page.locator("#live")).to_have_text("Finished. It can be downloaded.")
    expect(page.locator("#mine li")).to_have_count(1)
    assert SENTENCES[2] in str(page.locator("#reading").text_content())


def test_a_part_shows_its_text_where_it_is_pointed_at(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(TEXT)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    cell = page.locator("#strip .cell").nth(3)
    cell.hover()
    expect(page.locator("#detail")).to_contain_text(SENTENCES[3])
    expect(page.locator("#detail")).to_contain_text("Part 4 of 8 · spoken · 0:0")
    assert SENTENCES[3] in str(cell.get_attribute("title"))


def test_a_part_that_is_not_there_yet_says_so(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(LONG)
    page.locator("#strip .cell").nth(150).click()
    expect(page.locator("#player-words")).to_have_text("Part 151 is not spoken yet.")


def test_a_file_is_uploaded(service: Service, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "chapter one.txt"
    path.write_text(TEXT, encoding="utf-8")
    page.goto(service.url)
    page.locator("#file").set_input_files(path)
    expect(page.locator("#chosen")).to_contain_text("chapter one.txt, ")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="chapter one")).to_be_visible()
    expect(page.locator("#strip .cell")).to_have_count(len(SENTENCES))


def test_a_file_is_dropped(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.evaluate(
        """text => {
            const held = new DataTransfer();
            held.items.add(new File([text], "dropped.txt", { type: "text/plain" }));
            for (const name of ["dragover", "drop"])
                document.body.dispatchEvent(
                    new DragEvent(name, { dataTransfer: held, bubbles: true, cancelable: true }));
        }""",
        TEXT,
    )
    expect(page.locator("#chosen")).to_contain_text("dropped.txt")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="dropped")).to_be_visible()


def test_a_file_that_is_no_document_is_refused_beside_the_field(
    service: Service, page: Page, tmp_path: Path, watch: Watch
) -> None:
    watch.expected = ["status of 4"]
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\0")
    page.goto(service.url)
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Start").click()
    error = page.locator("#source-error")
    expect(error).to_be_visible()
    assert len(error.inner_text()) > 10
    expect(page.locator("#file")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#file")).to_be_focused()
    page.get_by_role("button", name="Remove the file").click()
    expect(error).to_be_hidden()
    expect(page.get_by_label("Text", exact=True)).to_be_focused()


def test_an_empty_form_and_a_wrong_seed_say_what_is_missing(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#source-error")).to_contain_text("paste a text")
    expect(page.locator("#text")).to_be_focused()
    page.locator("#text").fill(TEXT)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Seed").fill("five")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#source-error")).to_be_hidden()
    expect(page.locator("#seed-error")).to_contain_text("“five”")
    expect(page.get_by_label("Seed")).to_be_focused()


def test_what_the_form_says_reaches_the_service(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.locator("#text").fill(TEXT)
    expect(page.locator("#voice optgroup")).not_to_have_count(0)
    page.get_by_label("Find a voice").fill("german")
    expect(page.locator("#voice-count")).to_contain_text(" voices match")
    assert page.locator("#voice optgroup").evaluate_all("groups => groups.map(g => g.label)") == ["German"]
    voice = page.locator("#voice option").last.get_attribute("value")
    page.get_by_label("Voice", exact=True).select_option(voice)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Title").fill("A title of mine")
    page.get_by_label("If a part cannot be spoken").select_option("silence")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.get_by_role("button", name="Start").click()
    body = json.loads(str(sent.value.post_data))
    assert body == {
        "text": TEXT, "voice": voice, "seed": 7, "title": "A title of mine", "on_failure": "silence"
    }  # fmt: skip
    assert len(sent.value.headers["idempotency-key"]) == 32
    assert sent.value.headers["x-voxyard-page"] == "1"
    expect(page.locator("#document-facts")).to_contain_text(str(voice))
    expect(page.locator("#document-facts")).to_contain_text("seed 7")


def test_a_second_try_after_a_lost_answer_bears_the_same_key(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["ERR_FAILED"]
    keys: list[str] = []
    voices: list[Route] = []

    def lose_the_first_answer(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/documents", lose_the_first_answer)
    page.route("**/v1/audio/voices", lambda route: voices.append(route))  # noqa: PLW0108 — a built-in has no signature
    page.goto(service.url)
    page.locator("#text").fill(TEXT)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#form-error")).to_contain_text("does not answer")
    assert page.locator("#text").input_value() == TEXT
    voices[0].continue_()  # they come late: one is chosen then, and the second try is the first one's again
    expect(page.locator("#voice optgroup")).not_to_have_count(0)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#strip .cell")).to_have_count(len(SENTENCES))
    assert keys[0] == keys[1]
    expect(page.locator(".list li")).to_have_count(1)


def test_cancelling_asks_first(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    document = start_document(LONG)
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog", name="Cancel this document?")
    expect(dialog).to_be_visible()
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("heading", name="What shall be spoken?")).to_be_focused()
    expect(page.locator(".list li")).to_have_count(0)
    assert page.request.get(f"{service.url}v1/documents/{document}").status == 404


def test_nothing_is_asked_of_a_document_while_it_is_deleted(
    service: Service, page: Page, start_document: Start, watch: Watch
) -> None:
    page.goto(service.url)
    document = start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, "document.getElementById('audio').currentTime > 0.1")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/documents/*?chunks=true", hold)
    end = time.monotonic() + PATIENCE
    while not held:
        assert time.monotonic() < end
        page.wait_for_timeout(20)
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("heading", name="What shall be spoken?")).to_be_focused()
    for route in held:  # from here on the service answers it with 404
        with contextlib.suppress(PlaywrightError):  # the page has given it up
            route.continue_()
    page.wait_for_timeout(300)
    assert watch.complaints == []
    assert page.request.get(f"{service.url}v1/documents/{document}").status == 404


def test_a_document_that_could_not_be_deleted_is_followed_on(
    service: Service, page: Page, start_document: Start, watch: Watch
) -> None:
    watch.expected.append("503 (Service Unavailable)")
    page.goto(service.url)
    start_document(LONG)
    spoken = "document.querySelectorAll('#strip [data-state=spoken]').length"
    until(page, f"{spoken} > 2")

    def refuse(route: Route) -> None:
        if route.request.method == "DELETE":
            route.fulfill(status=503, json={"error": {"message": "The disk is full."}})
        else:
            route.continue_()

    page.route("**/v1/documents/*", refuse)
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#action-error")).to_have_text("The disk is full.")
    before = page.evaluate(spoken)
    until(page, f"{spoken} > {before}")
    page.get_by_role("button", name="Listen").click()
    until(page, "document.getElementById('audio').currentTime > 0.1")


def test_a_document_that_fails_says_which_part_and_why(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(f"{SENTENCES[0]} {service.unspeakable} {SENTENCES[2]}")
    problem = page.locator("#document-problem")
    expect(problem).to_contain_text("It could not be finished: ")
    assert states(page) == ["spoken", "failed", "spoken"]
    page.locator("#strip .cell").nth(1).hover()
    expect(page.locator("#detail")).to_contain_text("failed")
    expect(page.locator("#player")).to_be_hidden()


def test_failed_parts_are_spoken_again_on_request(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(f"{SENTENCES[0]} {service.unspeakable} {SENTENCES[2]}")
    problem = page.locator("#document-problem")
    expect(problem).to_be_visible()
    service.cure()
    page.get_by_role("button", name="Speak the failed parts again").click()
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    expect(problem).to_be_hidden()
    expect(page.locator("#strip [data-state=spoken]")).to_have_count(3)


def test_a_reload_keeps_the_document(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(TEXT)
    until(page, "document.querySelector('#strip [data-state=spoken]')")
    page.reload()
    expect(page.locator("#strip .cell")).to_have_count(len(SENTENCES))
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    page.goto(service.url)
    page.reload()
    expect(page.locator("#mine li")).to_have_count(1)
    page.locator("#mine a").click()
    expect(page.locator("#strip .cell")).to_have_count(len(SENTENCES))


def test_other_documents_of_the_service_are_listed_apart(service: Service, page: Page) -> None:
    for number in range(55):
        page.request.post(f"{service.url}v1/documents", data={"text": f"Document {number} of another client."})
    page.goto(service.url)
    expect(page.locator("#others li")).to_have_count(50)
    expect(page.locator("#mine li")).to_have_count(0)
    page.get_by_role("button", name="Show older ones").click()
    expect(page.locator("#others li")).to_have_count(55)
    expect(page.get_by_role("button", name="Show older ones")).to_be_hidden()


def test_a_document_that_is_gone_is_said_to_be_gone(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 404"]
    page.goto(f"{service.url}#/{'0' * 32}")
    expect(page.locator("#document-facts")).to_contain_text("not here any more")


def test_without_events_it_asks_again_and_again(
    service: Service, page: Page, start_document: Start, watch: Watch
) -> None:
    watch.expected = ["ERR_FAILED"]
    page.route("**/events", lambda route: route.abort())
    page.goto(service.url)
    start_document(TEXT)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    assert states(page) == ["spoken"] * len(SENTENCES)


def test_the_notes_of_the_engine_are_shown(service: Service, page: Page) -> None:
    notes = page.request.get(f"{service.url}v1/models").json()["data"][0]["notes"]
    page.goto(service.url)
    expect(page.locator("#notes li")).to_have_text(notes)


@pytest.mark.parametrize("markup", ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>"])
def test_text_is_never_read_as_markup(service: Service, page: Page, start_document: Start, markup: str) -> None:
    page.goto(service.url)
    start_document(f"{markup} is the first sentence. And a second.")
    expect(page.locator("#reading")).to_contain_text(markup)
    assert page.locator("main img").count() == 0
