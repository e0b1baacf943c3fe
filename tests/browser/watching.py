"""Shared parts of the page's tests: the service, the page's errors, and waiting for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eventually import PATIENCE
from playwright.sync_api import Page

UNSPEAKABLE = "unspeakable"  # what the engine cannot say until it is cured


def sentences(count: int) -> list[str]:
    """So long, with 11 words each, that a chunker which packs up to 16 makes one chunk of each."""
    return [f"Sentence number {number} of this document is here, and goes on." for number in range(1, count + 1)]


def open_alone(page: Page, file: Path, theme: str = "light", width: int = 1100) -> Page:
    """Opens a page that lies in a file; whatever it asks for beside itself is a failure."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto(file.as_uri())
    page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith(("data:", "about:"))] == [file.as_uri()]
    return page


@dataclass(frozen=True)
class Service:
    """Running service: its address, the key that it asks for, and a sentence that it cannot speak until it is cured."""

    url: str
    folder: Path
    key: str | None = None
    unspeakable: str = f"This one is {UNSPEAKABLE} here, whatever one tries to do with it."

    def cure(self) -> None:
        """From here on the engine can say everything."""
        (self.folder / "cured").touch()

    def go_on(self) -> None:
        """Speak on, where it is held."""
        (self.folder / "on").touch()


@dataclass
class Watch:
    """Errors of a page; `expected` holds pieces of errors that the test is about."""

    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def unexpected(self) -> list[str]:
        return [line for line in self.complaints if not any(piece in line for piece in self.expected)]


def until(page: Page, expression: str) -> Any:
    """Wait for an expression of the page to be true; the answer is its value.

    Playwright's own `wait_for_function` needs eval, which the page's policy forbids.
    """
    end = time.monotonic() + PATIENCE
    while not (value := page.evaluate(expression)):
        assert time.monotonic() < end, f"still not true after {PATIENCE} s: {expression}"
        page.wait_for_timeout(40)
    return value


def states(page: Page) -> list[str]:
    """Of the cells of the strip."""
    found: list[str] = page.locator("#strip .cell").evaluate_all("cells => cells.map(cell => cell.dataset.state)")
    return found
