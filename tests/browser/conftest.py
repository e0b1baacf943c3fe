"""A real Chromium and a real service, whose engine speaks tones: half a second of work for each chunk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from programs import program
from service_app import serving
from watching import UNSPEAKABLE, Service, Watch, until

from voxyard.service.auth.api_keys import add_key

ENGINE = {"rows": 1, "seconds": 0.5, "samples": 720, "unspeakable": UNSPEAKABLE}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service that asks for no key."""
    folder = tmp_path / "service"
    with serving(folder, engine=ENGINE) as served:
        yield Service(f"{served.url}/", folder)


@pytest.fixture
def held_service(tmp_path: Path) -> Iterator[Service]:
    """A service that has spoken one part, and speaks the others once it is let go on."""
    folder = tmp_path / "service"
    with serving(folder, engine=ENGINE | {"held": 1}) as served:
        yield Service(f"{served.url}/", folder)


@pytest.fixture
def locked_service(tmp_path: Path) -> Iterator[Service]:
    """A service that asks for a key."""
    keys, folder = tmp_path / "keys.yaml", tmp_path / "service"
    key = add_key(keys, "ann")
    with serving(folder, engine=ENGINE, keys=keys) as served:
        yield Service(f"{served.url}/", folder, key)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    path = os.environ.get("VOXYARD_CHROMIUM") or program("chromium")
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--mute-audio"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh profile: no cookie, no storage."""
    context = chromium.new_context(viewport={"width": 900, "height": 1100}, locale="en-GB", accept_downloads=True)
    context.set_default_timeout(1000 * PATIENCE)
    yield context
    context.close()


@pytest.fixture
def watch(context: BrowserContext) -> Iterator[Watch]:
    """Every complaint of the console and of the content security policy; none may be left at the end."""
    watch = Watch()

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watch.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    context.on("console", said)
    context.on("weberror", lambda error: watch.complaints.append(f"thrown: {error.error}"))
    context.expose_function("reportViolation", lambda text: watch.complaints.append(f"policy: {text}"))
    context.add_init_script(
        "addEventListener('securitypolicyviolation', e => reportViolation(`${e.violatedDirective} ${e.blockedURI}`))"
    )
    yield watch
    assert watch.unexpected() == []


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Page:
    """A tab whose console is watched."""
    return context.new_page()


@pytest.fixture
def start_document(page: Page) -> Callable[..., str]:
    """Paste a text and start it; the answer is the document's id."""

    def start(text: str, **fields: Any) -> str:
        page.get_by_label("Text", exact=True).fill(text)
        page.get_by_role("button", name="Start").click()
        until(page, "location.hash.length > 2")
        return str(page.evaluate("location.hash.slice(2)"))

    return start
