"""The page: fields of what is spoken, a book that is dropped, a minute without the service, no path of its files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import epubs
import httpx
import pytest
from eventually import PATIENCE, eventually
from playwright.sync_api import Page, Route, expect
from watching import Service, Watch, sentences, until

Start = Callable[..., str]
LEXICON = "nginx: engine x\n\n Dr. Bell :  Alexander: the inventor \n"
WORDS = {"nginx": "engine x", "Dr. Bell": "Alexander: the inventor"}


def open_more(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.locator("#text").fill("nginx cost $5 in 1999.")
    page.get_by_text("More", exact=True).click()


def submitted(page: Page) -> dict[str, object]:
    """The body of the request that starts the document."""
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.get_by_role("button", name="Start").click()
    until(page, "location.hash.length > 2")
    body: dict[str, object] = json.loads(str(sent.value.post_data))
    return body


@pytest.mark.parametrize(("choice", "read"), [("", None), ("all", "all"), ("none", "none"), ("some", "currency,dates")])
def test_what_becomes_words_is_chosen_by_kind(service: Service, page: Page, choice: str, read: str | None) -> None:
    open_more(service, page)
    page.get_by_label("Figures and short forms").select_option(choice)
    kinds = page.get_by_role("group", name="What becomes words")
    if choice == "some":
        kinds.get_by_label("currency").check()
        kinds.get_by_label("dates").check()
    else:
        expect(kinds).to_be_hidden()
    assert submitted(page).get("read") == read


def test_without_a_kind_the_form_says_so(service: Service, page: Page) -> None:
    open_more(service, page)
    page.get_by_label("Figures and short forms").select_option("some")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#read-error")).to_contain_text("at least one kind")
    expect(page.locator("#kinds input").first).to_be_focused()


def test_a_pronunciation_is_written_line_by_line(service: Service, page: Page) -> None:
    open_more(service, page)
    field = page.get_by_label("Pronunciation")
    field.fill("nginx: engine x\nBell")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#lexicon-error")).to_contain_text("Line 2 is “Bell”")
    expect(field).to_be_focused()
    field.fill(LEXICON)
    assert submitted(page)["lexicon"] == WORDS


def test_a_text_may_have_markdowns_marks(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.locator("#text").fill("# Night\n\nA *bell* rang.")
    page.get_by_label("The text has Markdown’s marks").check()
    assert submitted(page)["input_format"] == "markdown"
    expect(page.locator("#reading")).to_contain_text("A bell rang.")


def test_a_cast_is_written_line_by_line(service: Service, page: Page) -> None:
    open_more(service, page)
    field = page.get_by_label("Voices of the text")
    field.fill("narrator: alloy\nmia")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#cast-error")).to_contain_text("Line 2 is “mia”, but it must be a name")
    expect(field).to_be_focused()
    field.fill("narrator: alloy\nmia: v2/en_speaker_9")
    assert submitted(page)["cast"] == {"narrator": "alloy", "mia": "v2/en_speaker_9"}


def test_a_word_that_the_service_refuses_is_refused_beside_the_field(
    service: Service, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 4"]
    open_more(service, page)
    page.get_by_label("Pronunciation").fill(f"{'a' * 101}: b")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#lexicon-error")).to_contain_text("100")
    expect(page.get_by_label("Pronunciation")).to_be_focused()


def test_the_words_are_shown_before_and_after_a_text_is_sent(service: Service, page: Page) -> None:
    open_more(service, page)
    page.get_by_text("Show what is spoken").locator("visible=true").click()
    words = page.locator("#text-script-list .spoken")
    expect(words).to_have_text(["nginx cost five dollars in nineteen ninety-nine."])
    page.get_by_label("Pronunciation").fill(LEXICON)
    page.get_by_label("Figures and short forms").select_option("none")
    expect(words).to_have_text(["engine x cost $5 in 1999."])
    expect(page.locator("#text-script-facts")).to_contain_text("of speech")
    submitted(page)
    page.get_by_text("Show what is spoken").locator("visible=true").click()
    expect(page.locator("#document-script-list .spoken")).to_have_text(["engine x cost $5 in 1999."])
    expect(page.locator("#document-script-list .written")).to_have_text(["nginx cost $5 in 1999."])


def test_a_voice_of_another_language_is_noted(service: Service, page: Page) -> None:
    asked = {"text": "Guten Tag.", "language": "de", "voice": "alloy"}
    kept = httpx.post(f"{service.url}v1/documents", json=asked, timeout=60).json()
    page.goto(f"{service.url}#/{kept['id']}")
    expect(page.locator("#document-note")).to_contain_text("the voice v2/en_speaker_6 speaks en")


def test_a_book_is_dropped_and_spoken_with_its_words(service: Service, page: Page) -> None:
    book = epubs.epub({"Eins": "Es kostete 5 km nginx.", "Zwei": "Ende."}, title="Ein Buch", language="de")
    open_more(service, page)
    page.locator("#text").fill("")
    page.get_by_label("Pronunciation").fill("nginx: Maschine")
    page.evaluate(
        """bytes => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(bytes)], "buch.epub", { type: "application/epub+zip" }));
            for (const name of ["dragover", "drop"])
                document.body.dispatchEvent(
                    new DragEvent(name, { dataTransfer: held, bubbles: true, cancelable: true }));
        }""",
        list(book),
    )
    expect(page.locator("#chosen")).to_contain_text("buch.epub")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="Ein Buch")).to_be_visible()
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    expect(page.locator("#chapter-list li")).to_have_count(2)
    expect(page.locator("#document-facts")).to_contain_text("German")


def test_a_minute_without_the_service_is_survived_by_a_document_and_its_sound(
    service: Service, page: Page, watch: Watch, start_document: Start
) -> None:
    watch.expected = ["ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_FAILED"]
    down = [False]

    def answer(route: Route) -> None:
        if down[0]:
            route.abort("connectionrefused")
        else:
            route.continue_()

    page.clock.install()
    page.goto(service.url)
    id = start_document(" ".join(sentences(6)))
    page.route("**/v1/**", answer)
    down[0] = True
    page.reload()
    page.locator("#play").dispatch_event("click")
    for _ in range(60):
        page.clock.run_for(1000)
        page.wait_for_timeout(20)  # for the answers, which come by the real clock
    expect(page.get_by_text("Finished", exact=True)).to_be_hidden()
    url = f"{service.url}v1/documents/{id}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken, by the real clock")
    down[0] = False
    end = time.monotonic() + PATIENCE
    while page.locator("#state-words").inner_text() != "Finished" and time.monotonic() < end:
        page.clock.run_for(1000)
        page.wait_for_timeout(200)
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    page.clock.resume()
    until(page, "document.querySelector('#audio').currentTime > 0")


def test_no_path_of_the_service_is_shown(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    id = start_document(service.unspeakable)
    reason = page.locator("#document-reason")
    expect(reason).to_contain_text("cured is missing")
    answer = httpx.get(f"{service.url}v1/documents/{id}?chunks=true").text
    events = httpx.get(f"{service.url}v1/documents/{id}/events").text
    audio = httpx.get(f"{service.url}v1/documents/{id}/audio").text
    for said in (reason.inner_text(), page.locator("body").inner_text(), answer, events, audio):
        assert "cured is missing" in said
        assert str(service.folder.parent) not in said
