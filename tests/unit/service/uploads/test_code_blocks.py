"""Blocks of code in uploads, through the service as its command opens it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from eventually import eventually
from frontends import TonesFrontend
from live_service import live
from prometheus_client import CollectorRegistry

from voxyard.cli.serve import ServeConfig
from voxyard.service.app import create_app
from voxyard.service.state import AppState
from voxyard.settings import load
from voxyard.speech.open_pool import open_pool

PAGE = b"It began.\n\n    one = 1\n    two = 2\n\nIt ended.\n"


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "announced"), [("skip", False), ("announce", True)])
def test_code_blocks_are_left_out_or_announced_as_the_settings_say(
    tmp_path: Path, chosen: str, announced: bool
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(
        f"service: {{data_dir: {tmp_path / 'data'}}}\nspeech: {{code_blocks: {chosen}, max_parallel_tts_workers: 1}}\n"
    )
    settings = load(ServeConfig, flags={}, file=file).config
    section, speech, registry = settings.service, settings.speech, CollectorRegistry()
    frontend = TonesFrontend({"samples": 240})
    with (
        open_pool(frontend.engine, speech, "cpu", workload="bark", registry=registry, warm="all") as pool,
        AppState(
            section, speech.pauses(), frontend, pool, registry, tuple, speech.reading(), speech.code_blocks
        ) as state,
        live(create_app(state), section) as url,
    ):
        new = httpx.post(f"{url}/v1/documents", files={"file": ("a.md", PAGE)}, timeout=60)
        document = f"{url}/v1/documents/{new.json()['id']}"
        eventually(lambda: httpx.get(document, timeout=60).json()["state"] == "completed", "it is spoken")
        text = " ".join(each["text"] for each in httpx.get(f"{document}?chunks=true", timeout=60).json()["chunks"])
    assert ("Code, 2 lines." in text) is announced
    assert "one = 1" not in text
    assert text.startswith("It began.")
    assert text.endswith("It ended.")
