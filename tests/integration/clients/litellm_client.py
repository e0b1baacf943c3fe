"""litellm, unmodified: what it gets from a service, as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

import litellm


async def main(base: str, key: str, text: str) -> dict[str, Any]:
    """Speech by its synchronous and asynchronous calls, and what its errors are."""
    asked: dict[str, Any] = {"input": text, "voice": "alloy", "api_base": base, "api_key": key}
    mp3 = litellm.speech(model="openai/tts-1", **asked)
    pcm = await litellm.aspeech(model="openai/gpt-4o-mini-tts", response_format="pcm", speed=1, **asked)
    refusals = []
    for wrong in ({"voice": "aloy"}, {"speed": 9}, {"api_key": "vox_wrong"}):
        try:
            litellm.speech(model="openai/tts-1", max_retries=0, **{**asked, **wrong})
        except Exception as error:  # noqa: BLE001 (which one is the result)
            refusals.append([type(error).__name__, getattr(error, "status_code", None)])
    return {"version": version("litellm"), "mp3": len(mp3.content), "pcm": len(pcm.content), "refusals": refusals}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
