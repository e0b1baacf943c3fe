"""Process of an aligner, whose argument is its factory.

Each question is the description of a sound, with its samples (float32); the first answer comes before any.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import numpy as np

from voxyard.host.child_process import Parent
from voxyard.speech.alignment.aligner import Aligner, open_aligner
from voxyard.speech.errors import SpeechError

NICENESS = 10  # once it is loaded: the service and its workers go first


def main() -> int:
    """Answers until the pipe ends; the first message tells the languages, or why there is no aligner."""
    parent = Parent()
    try:
        aligner = open_aligner(*parent.arguments)
    except SpeechError as error:
        parent.send({"error": str(error)})
        return 2
    os.nice(NICENESS)
    parent.send({"languages": None if aligner.languages is None else sorted(aligner.languages)})
    while True:
        asked, audio = parent.receive(), np.frombuffer(parent.receive_bytes(), np.float32)
        parent.send(_answer(aligner, asked, audio))


def _answer(aligner: Aligner, asked: dict[str, Any], audio: Any) -> dict[str, Any]:
    try:
        times = aligner.align(audio, asked["sample_rate"], asked["words"], asked["language"])
    except SpeechError as error:
        return {"reason": str(error)}
    except Exception as error:  # noqa: BLE001 — one sound less, not all that follow
        traceback.print_exc()
        return {"reason": f"the aligner failed: {type(error).__name__}"}
    return {"times": times}


if __name__ == "__main__":
    sys.exit(main())
