"""LiveKit's plug-in for OpenAI, unmodified: what it gets from a service, as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from livekit.agents import APIConnectOptions, APIStatusError
from livekit.plugins import openai

ONCE = APIConnectOptions(max_retry=0)


async def samples(base: str, key: str, text: str, **options: Any) -> int:
    """Samples of its frames."""
    speech = openai.TTS(base_url=base, api_key=key, **options)
    try:
        return sum([spoken.frame.samples_per_channel async for spoken in speech.synthesize(text, conn_options=ONCE)])
    finally:
        await speech.aclose()


async def main(base: str, key: str, text: str) -> dict[str, Any]:
    """Its defaults (events of MP3), raw audio in two formats, and what an error is."""
    found = {
        "version": version("livekit-plugins-openai"),
        "events": await samples(base, key, text),
        "mp3": await samples(base, key, text, model="tts-1", voice="alloy"),
        "pcm": await samples(base, key, text, model="tts-1", voice="alloy", response_format="pcm"),
    }
    try:
        await samples(base, "vox_wrong", text)
    except APIStatusError as error:
        found["refusal"] = error.status_code
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
