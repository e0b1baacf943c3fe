"""Process of an aligner: `python -P -m voxyard.speech.alignment.process FACTORY DESCRIPTOR`.

Over a pipe come two messages for each sound: its description as JSON, and its samples (float32). One of JSON goes back.
It ends with its pipe.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from voxyard.speech.alignment.aligner import Aligner, open_aligner
from voxyard.speech.errors import SpeechError

NICENESS = 10  # once it is loaded: the service and its workers go first


def main() -> int:
    """Answers until the pipe ends; the first message tells the languages, or why there is no aligner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the service, which ends this process
    connection = Connection(int(sys.argv[2]))
    try:
        aligner = open_aligner(sys.argv[1])
    except SpeechError as error:
        _send(connection, {"error": str(error)})
        return 2
    os.nice(NICENESS)
    languages = None if aligner.languages is None else sorted(aligner.languages)
    _send(connection, {"languages": languages})
    while True:
        try:
            asked: dict[str, Any] = json.loads(connection.recv_bytes())
            audio = np.frombuffer(connection.recv_bytes(), np.float32)
        except EOFError:
            return 0
        _send(connection, _answer(aligner, asked, audio))


def _answer(aligner: Aligner, asked: dict[str, Any], audio: Any) -> dict[str, Any]:
    try:
        times = aligner.align(audio, asked["sample_rate"], asked["words"], asked["language"])
    except SpeechError as error:
        return {"reason": str(error)}
    except Exception as error:  # noqa: BLE001 — one sound less, not all that follow
        traceback.print_exc()
        return {"reason": f"the aligner failed: {type(error).__name__}"}
    return {"times": times}


def _send(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())


if __name__ == "__main__":
    sys.exit(main())
