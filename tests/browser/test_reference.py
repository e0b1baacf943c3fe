"""The API reference in a browser: Swagger UI tries calls with a key, with a session, and without either."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from watching import Service, Watch

SPEECH = "#operations-speech-create_speech"
VOICES = "#operations-catalogue-list_voices"


def execute(page: Page, operation: str) -> None:
    block = page.locator(operation)
    if "is-open" not in (block.get_attribute("class") or ""):
        block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Execute").click()


def expect_status(page: Page, operation: str, status: str) -> None:
    expect(page.locator(operation).locator(".live-responses-table .response-col_status").last).to_contain_text(status)


def test_every_operation_is_listed(page: Page, service: Service) -> None:
    page.goto(f"{service.url}docs")
    expect(page.locator(".info .title")).to_contain_text("voxyard")
    for operation in ("create_speech", "create_document", "list_voices"):
        expect(page.locator(f"[id$={operation}]")).to_be_visible()


def test_speech_is_tried_with_a_key_and_heard(page: Page, locked_service: Service, watch: Watch) -> None:
    watch.expected.append("401")  # Chromium tells the console of it
    page.goto(f"{locked_service.url}docs")
    execute(page, VOICES)
    expect_status(page, VOICES, "401")

    page.get_by_role("button", name="Authorize", exact=True).click()
    page.locator("input[aria-label=auth-bearer-value]").fill(str(locked_service.key))
    page.locator(".auth-container", has=page.locator("input[aria-label=auth-bearer-value]")).get_by_role(
        "button", name="Apply credentials"
    ).click()
    page.get_by_role("button", name="Close").first.click()
    execute(page, VOICES)
    expect_status(page, VOICES, "200")
    execute(page, SPEECH)
    expect_status(page, SPEECH, "200")
    sound = page.locator(SPEECH).locator("audio")
    expect(sound).to_have_attribute("src", re.compile("^blob:"))
    assert sound.evaluate("sound => sound.play().then(() => sound.duration)") > 0
    assert page.evaluate("Object.keys(localStorage).length") == 0  # no key is kept


def test_a_session_of_the_page_suffices(page: Page, locked_service: Service) -> None:
    page.goto(f"{locked_service.url}docs")
    opened = page.evaluate(
        "key => fetch('/session', {method: 'POST', body: JSON.stringify({key}),"
        " headers: {'Content-Type': 'application/json'}}).then(answer => answer.status)",
        locked_service.key,
    )
    assert opened == 204
    execute(page, SPEECH)
    expect_status(page, SPEECH, "200")
