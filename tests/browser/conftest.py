"""A real Chromium, and a service for it: `service` and `locked_service` are the places to put another one."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import stand_in
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from watching import PATIENCE, Service, Watch, until

PAGE = Path(__file__).parents[2] / "runtime" / "voxyard" / "service" / "page"
CHROMIUM = os.environ.get("VOXYARD_CHROMIUM", "/usr/bin/chromium")
SLOW = 0.5  # seconds that a chunk takes where a test watches it grow


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[FastAPI], str]]:
    """Run apps on free ports of the loopback; the answer is the address."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: FastAPI) -> str:
        server = uvicorn.Server(
            uvicorn.Config(app, "127.0.0.1", 0, log_level="critical", timeout_graceful_shutdown=1, lifespan="off")
        )
        socket = server.config.bind_socket()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{socket.getsockname()[1]}/"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def service(serve: Callable[[FastAPI], str], tmp_path: Path) -> Service:
    """A service that asks for no key."""
    return Service(serve(stand_in.create(PAGE, tmp_path, pace=SLOW)))


@pytest.fixture
def locked_service(serve: Callable[[FastAPI], str], tmp_path: Path) -> Service:
    """A service that asks for a key."""
    key = "vk-test-0123456789"
    return Service(serve(stand_in.create(PAGE, tmp_path, key=key, pace=SLOW)), key)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium, or name another one in VOXYARD_CHROMIUM")
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--mute-audio"])
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
