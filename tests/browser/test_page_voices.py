"""Voices of one's own on the page: uploaded, mixed, heard, deleted; errors beside the field, as the API tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ENGINE
from playwright.sync_api import Page, expect
from service_app import serving
from watching import Service, Watch, until

TONE = b"tone 1"


def upload(service: Service, name: str, **fields: str) -> None:
    answer = httpx.post(
        f"{service.url}v1/audio/voices", data={"name": name, **fields}, files={"file": ("voice.npz", TONE)}
    )
    assert answer.status_code == 201, answer.text


def open_form(service: Service, page: Page) -> None:
    page.goto(service.url)
    expect(page.locator("#voice optgroup")).not_to_have_count(0)
    page.get_by_text("Add a voice", exact=True).click()


def choose_file(page: Page, content: bytes = TONE, name: str = "Old captain.npz") -> None:
    page.get_by_label("File", exact=True).set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def add(page: Page) -> None:
    page.get_by_role("button", name="Add the voice").click()


def test_a_voice_is_uploaded_and_can_be_chosen(service: Service, page: Page) -> None:
    open_form(service, page)
    expect(page.locator("#voices-empty")).to_be_visible()
    choose_file(page)
    expect(page.get_by_label("Name", exact=True)).to_have_value("Old-captain")
    page.get_by_label("Language", exact=True).fill("de")
    page.get_by_label("Note", exact=True).fill("From the archive.")
    add(page)
    expect(page.locator("#voice-added")).to_contain_text("Old-captain is added")
    expect(page.locator("#own-voices li")).to_contain_text("German · From the archive.")
    expect(page.locator("#voices-empty")).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).to_have_value("")
    page.get_by_label("Voice", exact=True).select_option("Old-captain")
    page.get_by_label("Text", exact=True).fill("Das Meer war ruhig.")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("Finished", exact=True)).to_be_visible()
    expect(page.locator("#document-facts")).to_contain_text("Old-captain")
    expect(page.locator("#voices")).to_be_hidden()


def test_a_voice_is_mixed_of_two(service: Service, page: Page) -> None:
    upload(service, "captain")
    open_form(service, page)
    page.get_by_label("a mix of two voices").check()
    expect(page.get_by_label("File", exact=True)).to_be_hidden()
    page.get_by_label("Speaks like").select_option("alloy")
    page.get_by_label("Sounds like").select_option("captain")
    page.get_by_label("Name", exact=True).fill("calm-captain")
    add(page)
    expect(page.locator("#own-voices li")).to_have_count(2)
    expect(page.locator("#own-voices li").first).to_contain_text("manner of alloy, timbre of captain")
    expect(page.get_by_label("Sounds like")).to_have_value("captain")


def test_a_voice_is_heard_and_deleted(service: Service, page: Page) -> None:
    upload(service, "captain", language="fr")
    page.goto(service.url)
    with page.expect_request("**/v1/audio/speech") as asked:
        page.get_by_role("button", name="Hear captain").click()
    body = asked.value.post_data_json or {}
    assert (body["voice"], body["input"].split(".")[0]) == ("captain", "Bonjour")
    until(page, "document.querySelector('#preview-audio').currentTime > 0")
    page.get_by_role("button", name="Delete captain").click()
    expect(page.locator("#voice-dialog-no")).to_be_focused()
    page.get_by_role("button", name="Keep it").click()
    expect(page.locator("#own-voices li")).to_have_count(1)
    page.get_by_role("button", name="Delete captain").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#own-voices li")).to_have_count(0)
    expect(page.locator("#voice option[value=captain]")).to_have_count(0)
    expect(page.locator("#voices-title")).to_be_focused()
    expect(page.locator("#live")).to_have_text("captain is deleted.")


def test_what_is_missing_is_said_before_anything_is_sent(service: Service, page: Page) -> None:
    open_form(service, page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    add(page)
    expect(page.get_by_label("File", exact=True)).to_be_focused()
    expect(page.locator("#voice-file-error")).to_contain_text("Choose the voice's file")
    expect(page.locator("#voice-name-error")).not_to_be_empty()
    page.get_by_label("a mix of two voices").check()
    page.get_by_label("Name", exact=True).fill("x")
    add(page)
    expect(page.get_by_label("Speaks like")).to_be_focused()
    expect(page.locator("#mix-timbre-error")).not_to_be_empty()
    assert "POST" not in sent


def test_what_the_service_refuses_is_told_beside_its_field(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 4"]
    open_form(service, page)
    choose_file(page, b"no voice")
    add(page)
    expect(page.locator("#voice-file-error")).to_contain_text("is no tone: expected the word at the beginning")
    expect(page.get_by_label("File", exact=True)).to_be_focused()
    choose_file(page)
    for name, words in (("alloy", "the service has a voice 'alloy' itself"), ("a b", "invalid name")):
        page.get_by_label("Name", exact=True).fill(name)
        add(page)
        expect(page.locator("#voice-name-error")).to_contain_text(words)
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.get_by_label("Name", exact=True).fill("captain")
    page.get_by_label("Language", exact=True).fill("klingon!")
    add(page)
    expect(page.locator("#voice-language-error")).to_contain_text("klingon")
    choose_file(page, TONE + bytes(2 << 20))
    page.get_by_label("Language", exact=True).fill("")
    add(page)
    expect(page.locator("#voice-file-error")).not_to_be_empty()
    expect(page.locator("#own-voices li")).to_have_count(0)


def test_a_part_that_was_deleted_elsewhere_is_told(service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 404"]
    upload(service, "captain")
    open_form(service, page)
    page.get_by_label("a mix of two voices").check()
    page.get_by_label("Name", exact=True).fill("x")
    page.get_by_label("Speaks like").select_option("captain")
    page.get_by_label("Sounds like").select_option("alloy")
    httpx.delete(f"{service.url}v1/audio/voices/captain")
    add(page)
    expect(page.locator("#mix-manner-error")).to_contain_text("no voice 'captain'")
    page.get_by_role("button", name="Hear captain").click()
    expect(page.locator("#own-voices .said")).to_contain_text("no voice 'captain'")
    page.get_by_role("button", name="Delete captain").click()
    page.get_by_role("button", name="Delete it").click()  # it is gone, which is what was asked for
    expect(page.locator("#own-voices li")).to_have_count(0)
    expect(page.locator("#voices-error")).to_be_hidden()


def test_a_dropped_voice_goes_into_its_form(service: Service, page: Page) -> None:
    page.goto(service.url)
    page.evaluate(
        """bytes => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(bytes)], "_mate.NPZ"));
            for (const name of ["dragover", "drop"])
                document.body.dispatchEvent(
                    new DragEvent(name, { dataTransfer: held, bubbles: true, cancelable: true }));
        }""",
        list(TONE),
    )
    expect(page.locator("#chosen")).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).to_have_value("mate")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#own-voices li")).to_have_count(1)


def test_with_the_keyboard_alone(service: Service, page: Page) -> None:
    upload(service, "captain")
    page.goto(service.url)
    expect(page.locator("#own-voices li")).to_have_count(1)
    page.locator("#voice-fold summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # to the mix
    page.keyboard.press("Tab")
    expect(page.get_by_label("Speaks like")).to_be_focused()
    page.keyboard.type("Capt")
    page.keyboard.press("Tab")
    page.keyboard.type("Alloy")
    page.keyboard.press("Tab")
    page.keyboard.type("mate")
    page.keyboard.press("Enter")
    expect(page.locator("#own-voices li")).to_have_count(2)
    page.get_by_role("button", name="Delete mate").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#own-voices li")).to_have_count(1)


@pytest.mark.parametrize("options", [{"voice_files": None}, {"max_voices": 0}])
def test_where_no_voices_are_taken_none_are_offered(tmp_path: Path, page: Page, options: dict[str, Any]) -> None:
    with serving(tmp_path / "service", engine=ENGINE, **options) as served:
        page.goto(f"{served.url}/")
        expect(page.locator("#voice optgroup")).not_to_have_count(0)
        expect(page.locator("#voices")).to_be_hidden()
        expect(page.locator("#compose")).to_be_visible()


def test_a_key_has_its_own_voices(locked_service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 401"]
    open_locked(locked_service, page)
    page.get_by_text("Add a voice", exact=True).click()
    choose_file(page, name="captain.npz")
    page.context.clear_cookies()
    add(page)
    page.get_by_label("Key", exact=True).fill(str(locked_service.key))
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#own-voices li")).to_have_count(1)
    expect(page.locator("#voice-added")).to_contain_text("captain is added")


def open_locked(locked_service: Service, page: Page) -> None:
    page.goto(locked_service.url)
    page.get_by_label("Key", exact=True).fill(str(locked_service.key))
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#voice optgroup")).not_to_have_count(0)
