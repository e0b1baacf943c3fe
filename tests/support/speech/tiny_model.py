"""Weights that look like a model's as far as anybody looks without torch."""

from __future__ import annotations

import json
import struct
from pathlib import Path

PARTS = ("semantic", "coarse_acoustics", "fine_acoustics", "codec_model")


def write_model(folder: Path) -> Path:
    """A directory that `voxyard weights check` finds usable as far as it looks without torch."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "bark"}))
    stages: dict[str, object] = {f"{part}_config": {} for part in PARTS[:3]}
    (folder / "generation_config.json").write_text(json.dumps(stages))
    (folder / "vocab.txt").write_text("[UNK]\na\n")
    header = {
        f"{part}.weight": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        for i, part in enumerate(PARTS)
    }
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(4 * len(PARTS)))
    return folder
