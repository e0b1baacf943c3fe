"""What `voxyard speak` says of an unfinished file: it tells what is in it, and throws nothing away."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voxyard.cli.speak import _partial
from voxyard.speech.encode import open_sound
from voxyard.speech.narrate import Narration


def test_sound_that_was_written_and_not_yet_counted_is_kept(tmp_path: Path) -> None:
    sound = open_sound(tmp_path / "a.wav")
    sound.write(np.zeros(24_000, np.float32))
    said = _partial(Narration(6), sound)
    assert f"{tmp_path / 'a.part.wav'} holds the first 1 of 6 chunks" in said
    assert (tmp_path / "a.part.wav").exists()


def test_a_file_without_sound_is_removed(tmp_path: Path) -> None:
    assert _partial(Narration(6), open_sound(tmp_path / "a.wav")) == "nothing was written"
    assert list(tmp_path.iterdir()) == []
