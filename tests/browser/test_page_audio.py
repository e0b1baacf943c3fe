"""Audio on the page: playback during synthesis, highlighting of the current part, download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import pytest
from conftest import ENGINE
from playwright.sync_api import Page, Route, expect
from service_app import serving
from watching import Service, Watch, sentences, until

TEXT = " ".join(sentences(8))
LONG = " ".join(sentences(199))  # it is still being spoken when a busy machine comes to look

Start = Callable[..., str]

AUDIO = "document.getElementById('audio')"
MARKED_TEXT = "document.querySelector('#reading [data-playing]').innerText"
CHOSEN = "document.querySelectorAll('#strip [aria-selected=true]').length"
PLAYING = "Number(document.querySelector('#strip [data-playing]')?.dataset.index ?? -1)"


def finish(page: Page) -> None:
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()


def test_it_plays_while_it_is_made(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.currentTime > 0.5")
    assert page.evaluate(f"{AUDIO}.duration") > 0
    assert page.evaluate(f"{AUDIO}.error") is None
    assert page.locator("#state-words").inner_text() == "Being spoken"
    first = page.evaluate(f"{AUDIO}.currentTime")
    until(page, f"{AUDIO}.currentTime > {first} + 0.5")
    page.get_by_role("button", name="Pause").click()
    assert page.evaluate(f"{AUDIO}.paused")


def test_the_sound_is_heard(service: Service, page: Page, start_document: Start) -> None:
    """A tone comes out, not only a clock that runs: the decoder counts the bytes that it turned into sound."""
    page.goto(service.url)
    start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.webkitAudioDecodedByteCount > 1000")


def test_listening_may_begin_before_there_is_any_sound(tmp_path: Path, page: Page, start_document: Start) -> None:
    with serving(tmp_path / "slow", engine={**ENGINE, "seconds": 5.0}) as served:
        page.goto(f"{served.url}/")
        start_document(LONG)
        page.get_by_role("button", name="Listen").click()
        expect(page.locator("#player-words")).to_have_text("Waiting for the next part…")
        until(page, f"{AUDIO}.currentTime > 0.2")
        expect(page.locator("#player-words")).to_have_text("")


def test_the_marked_part_follows_the_sound(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    document = start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{PLAYING} === 1")
    rows = page.request.get(f"{service.url}v1/documents/{document}?chunks=true").json()["chunks"]
    now, index, text, chosen = page.evaluate(f"[{AUDIO}.currentTime, {PLAYING}, {MARKED_TEXT}, {CHOSEN}]")  # at once
    assert rows[index]["start_seconds"] - 0.6 <= now <= rows[index]["end_seconds"] + 0.9
    assert text == rows[index]["text"]
    assert chosen == 1


def test_a_chosen_part_is_played_while_the_document_grows(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    document = start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.currentTime > 0.1")
    until(page, "document.querySelectorAll('#strip [data-state=spoken]').length > 6")
    page.locator("#strip .cell").nth(4).click()
    until(page, f"{PLAYING} === 4")
    assert page.locator("#state-words").inner_text() == "Being spoken"
    row = page.request.get(f"{service.url}v1/documents/{document}?chunks=true").json()["chunks"][4]
    until(page, f"{AUDIO}.currentTime > {row['start_seconds']} + 0.3")
    page.locator("#reading span").nth(1).click()
    until(page, f"{PLAYING} === 1")


def test_a_part_may_be_chosen_before_listening_began(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(" ".join(sentences(12)))
    until(page, "document.querySelectorAll('#strip .cell')[3]?.title.includes(', at ')")  # its time is known
    page.locator("#strip .cell").nth(3).click()
    until(page, f"{PLAYING} === 3 && {AUDIO}.currentTime > 0 && !{AUDIO}.paused")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_a_finished_document_is_jumped_in(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(TEXT)
    finish(page)
    page.locator("#strip .cell").nth(6).click()
    until(page, f"{PLAYING} === 6 && !{AUDIO}.paused")
    assert "format=wav" in page.evaluate(f"{AUDIO}.currentSrc")
    page.get_by_role("button", name="Back 10 seconds").click()
    until(page, f"{PLAYING} < 3")
    page.get_by_role("slider", name="Position").focus()
    page.keyboard.press("End")
    until(page, f"{AUDIO}.paused")
    expect(page.get_by_role("button", name="Listen")).to_be_visible()


def test_it_goes_on_to_the_end_when_the_document_is_finished_meanwhile(
    service: Service, page: Page, start_document: Start
) -> None:
    page.goto(service.url)
    start_document(" ".join(sentences(3)))
    page.get_by_role("button", name="Listen").click()
    finish(page)
    until(page, f"{AUDIO}.ended")
    assert page.evaluate(f"{AUDIO}.currentTime") > 2
    page.get_by_role("button", name="Listen").click()
    until(page, f"!{AUDIO}.paused && {AUDIO}.currentTime < 2")


def test_a_reload_keeps_the_place(service: Service, page: Page, start_document: Start) -> None:
    page.goto(service.url)
    start_document(" ".join(sentences(12)))
    until(page, "document.querySelectorAll('#strip .cell')[3]?.title.includes(', at ')")  # its time is known
    page.locator("#strip .cell").nth(3).click()
    until(page, f"{PLAYING} === 3 && {AUDIO}.currentTime > 0")
    page.get_by_role("button", name="Pause").click()
    place = page.evaluate(f"{AUDIO}.currentTime")
    page.reload()
    until(page, f"{PLAYING} === 3")
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.currentTime > {place} - 0.2 && !{AUDIO}.paused")


def test_a_stream_that_breaks_is_taken_up_again(
    service: Service, page: Page, start_document: Start, watch: Watch
) -> None:
    watch.expected = ["ERR_FAILED"]
    broken: list[str] = []

    def break_the_first(route: Route) -> None:
        if broken:
            route.continue_()
            return
        broken.append(route.request.url)
        route.abort()

    page.goto(service.url)
    start_document(LONG)
    page.context.route("**/audio?*", break_the_first)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.currentTime > 0.3")
    assert len(broken) == 1


def test_a_browser_that_takes_no_streams_from_workers_reads_the_growing_file(
    service: Service, page: Page, start_document: Start
) -> None:
    page.add_init_script("MediaSource.isTypeSupported = () => false")
    page.goto(service.url)
    start_document(LONG)
    page.get_by_role("button", name="Listen").click()
    until(page, f"{AUDIO}.currentTime > 0.3")
    assert "format=mp3" in page.evaluate(f"{AUDIO}.currentSrc")


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_a_finished_document_is_downloaded(
    held_service: Service, page: Page, start_document: Start, tmp_path: Path, name: str
) -> None:
    page.goto(held_service.url)
    start_document(" ".join(sentences(2)))
    button = page.get_by_role("button", name="Download")
    expect(button).to_be_disabled()
    held_service.go_on()
    finish(page)
    page.get_by_label("Format").select_option(name)
    with page.expect_download() as download:
        button.click()
    path = tmp_path / f"sound.{name}"
    download.value.save_as(path)
    if name == "pcm":
        assert path.stat().st_size > 2 * 24_000
        return
    with av.open(str(path)) as sound:
        samples = sum(frame.samples / frame.sample_rate for frame in sound.decode(audio=0))
    assert 1.0 < samples < 8.0
