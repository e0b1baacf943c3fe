"""Text to speech with any engine: chunks, and the pool that spreads them over the GPUs of a host."""

from __future__ import annotations

from voxyard.speech.errors import SpeechError

__all__ = ["SpeechError"]
