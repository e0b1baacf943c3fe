"""The API key on the page: requested when needed, kept in a cookie only."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect
from watching import Service, Watch, until

TEXT = "One sentence is here. Another one is there. " * 5

Start = Callable[..., str]


def sign_in(page: Page, key: str | None) -> None:
    page.get_by_label("Key", exact=True).fill(str(key))
    page.get_by_role("button", name="Sign in").click()


def test_a_key_is_asked_for_and_never_stored(
    locked_service: Service, page: Page, start_document: Start, watch: Watch
) -> None:
    watch.expected = ["status of 401"]
    page.goto(locked_service.url)
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog).to_be_visible()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    sign_in(page, "wrong")
    expect(page.locator("#key-error")).not_to_be_empty()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    sign_in(page, locked_service.key)
    expect(dialog).to_be_hidden()
    expect(page.locator("#notes li")).not_to_have_count(0)
    start_document(TEXT)
    page.get_by_role("button", name="Listen").click()
    until(page, "document.getElementById('audio').currentTime > 0.1")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert str(locked_service.key) not in stored
    assert page.evaluate("document.cookie") == ""
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in page.context.cookies()] == [(True, "Strict")]


def test_a_session_that_ends_costs_no_text(locked_service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 401"]
    page.goto(locked_service.url)
    sign_in(page, locked_service.key)
    expect(page.locator("#voice option")).not_to_have_count(0)
    page.locator("#text").fill(TEXT)
    page.context.clear_cookies()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("dialog", name="API key")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#form-error")).not_to_be_empty()
    assert page.locator("#text").input_value() == TEXT
    page.get_by_role("button", name="Start").click()
    sign_in(page, locked_service.key)
    expect(page.locator("#strip .cell")).not_to_have_count(0)


def test_who_declines_is_not_asked_again_until_they_do_something(
    locked_service: Service, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 401"]
    page.goto(locked_service.url)
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#trouble")).not_to_be_empty()
    expect(page.locator("#voice-error")).not_to_be_empty()
    expect(page.get_by_role("dialog", name="API key")).to_be_hidden()
    page.locator("#text").fill(TEXT)
    page.get_by_role("button", name="Start").click()
    sign_in(page, locked_service.key)
    expect(page.locator("#strip .cell")).not_to_have_count(0)
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("#voice option")).not_to_have_count(0)


def test_signing_out_ends_the_session(locked_service: Service, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 401"]
    page.goto(locked_service.url)
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    sign_in(page, locked_service.key)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("dialog", name="API key")).to_be_visible()
    assert page.request.get(f"{locked_service.url}v1/models").status == 401


def test_without_a_key_nothing_asks_for_one(service: Service, page: Page) -> None:
    page.goto(service.url)
    expect(page.locator("#notes li")).not_to_have_count(0)
    expect(page.get_by_role("dialog", name="API key")).to_be_hidden()
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
