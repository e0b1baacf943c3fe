"""The service's part of the demo: a tiny random Bark model and the trained voice speak through OpenAI's client."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from demo.processes import ChildCommand, command, near

TEXT = "Good morning. This voice is noise, and all the rest is real."
_PART = "Bark and the speech service were left out:"


def left_out() -> str | None:
    """Sentence about the packages that are missing, or None."""
    if not _is_there("torch"):
        return f"{_PART} torch is not installed (make demo TORCH=auto installs it)."
    if missing := [name for name in ("openai", "fastapi", "uvicorn", "transformers") if not _is_there(name)]:
        return f"{_PART} not installed: {', '.join(missing)} (make demo installs it)."
    return None


def tiny_weights(voxyard: str, model: Path) -> ChildCommand:
    """The command that writes the model."""
    return command(voxyard, "weights", "tiny", model)


def serve(voxyard: str, model: Path, data: Path, port: int) -> ChildCommand:
    """The command of the service."""
    return command(
        voxyard, "serve", "--model", model, "--device", "cpu", "--workers", 1, "--data-dir", data, "--port", port
    )


def export(voxyard: str, run: Path, voice: Path, corpus: Path) -> ChildCommand:
    """The command that exports the trained voice."""
    licence = f"text:the licence of {corpus}, which the demo does not know"
    return command(voxyard, "export", "--checkpoint", run, "--out", voice, "--licence", licence)


def serve_voice(voxyard: str, voice: Path, data: Path, port: int) -> ChildCommand:
    """The command of the service with the exported voice."""
    return command(
        voxyard, "serve", "--engine", "voxyard", "--model", voice, "--device", "cpu", "--workers", 1,
        "--data-dir", data, "--port", port,
    )  # fmt: skip


def speaker(voice: Path) -> str:
    """The first speaker of an exported voice. Raises OSError or ValueError where it cannot be read."""
    speakers = json.loads((voice / "voice.json").read_text(encoding="utf-8"))["speakers"]
    return str(next(filter(None, speakers), "default"))


def speak(python: str, port: int, out: Path, text: str = TEXT, voice: str = "alloy") -> ChildCommand:
    """The command that speaks through OpenAI's client."""
    script = near(Path(__file__).with_name("openai_client.py"))
    url = f"http://127.0.0.1:{port}/v1"
    return command(python, script, "--base-url", url, "--text", text, "--voice", voice, "--out", out)


def _is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
