"""Paths: the one that is meant, of those that clients write."""

from __future__ import annotations

import pytest

from voxyard.service.http.admission import usual


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/docs/", "/docs"),
        ("/v1/models", "/v1/models"),
        ("/models/tts-1", "/v1/models/tts-1"),
        ("/modelsheets", "/modelsheets"),
        ("/v1/v1/documents", "/v1/documents"),
        ("/v1", "/v1"),
        ("/audio", "/v1/audio"),
        ("/openai/deployments/my-tts/audio/speech", "/v1/audio/speech"),  # microsoft-foundry/foundry-samples#248
        ("/openai/v1/models", "/v1/models"),
        ("/openai/documents", "/openai/documents"),
        ("/page/audio/a.mp3", "/page/audio/a.mp3"),
        ("http://127.0.0.1:8080/v1/audio/speech", "/v1/audio/speech"),
        ("HTTP://voices.example", "/"),
        ("/http://voices.example", "/http:/voices.example"),
    ],
)
def test_the_path_that_is_meant(written: str, meant: str) -> None:
    assert usual(written) == usual(meant) == meant
