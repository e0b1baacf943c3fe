"""Facts of a store and a shelf, as the speech service of a host finds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SharedDocuments:
    """Findings of the container; `store` and `shelf` as voxyard.service.probe gives them."""

    image: str = ""  # its short id; empty: the host has no image of Bark, nothing was started
    code: int = 0
    said: str = ""  # standard output and standard error, where it failed
    store: Mapping[str, Any] | None = None
    shelf: Mapping[str, Any] | None = None


def parse(text: str) -> SharedDocuments:
    """Facts in the output of the container: the image's id, the exit code, and the last line as JSON."""
    if not text.strip():
        return SharedDocuments()
    image, code, said = text.split("\n", 2)
    if int(code):
        return SharedDocuments(image, int(code), " ".join(said.split()))
    found = json.loads(said.strip().splitlines()[-1])
    return SharedDocuments(image, store=dict(found["store"]), shelf=dict(found["shelf"]))
