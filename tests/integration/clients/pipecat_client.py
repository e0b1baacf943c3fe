"""Pipecat's service for OpenAI, unmodified, in a pipeline: what it gets from a service, as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from pipecat.frames.frames import EndFrame, ErrorFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.tts import OpenAITTSService


class Sink(FrameProcessor):
    """Counts the bytes of audio and keeps the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.errors = 0, list[str]()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Counts a frame and passes it on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.bytes += len(frame.audio)
        if isinstance(frame, ErrorFrame):
            self.errors.append(str(frame.error))
        await self.push_frame(frame, direction)


async def spoken(base: str, key: str, text: str) -> Sink:
    """What a pipeline gets that speaks one text."""
    before, after = Sink(), Sink()
    service = OpenAITTSService(base_url=base, api_key=key, settings=OpenAITTSService.Settings(speed=1.0))
    task = PipelineTask(Pipeline([before, service, after]), params=PipelineParams(audio_out_sample_rate=24_000))
    await task.queue_frames([TTSSpeakFrame(text), EndFrame()])
    await PipelineRunner(handle_sigint=False).run(task)
    after.errors += before.errors  # errors travel upstream
    return after


async def main(base: str, key: str, text: str) -> dict[str, Any]:
    """Its audio, and what an error is."""
    whole, refused = await spoken(base, key, text), await spoken(base, "vox_wrong", text)
    return {
        "version": version("pipecat-ai"),
        "pcm": whole.bytes,
        "errors": whole.errors,
        "refused": refused.bytes,
        "refusals": refused.errors,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
