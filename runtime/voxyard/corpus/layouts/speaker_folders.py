"""Layouts with a folder for each speaker, and a text file for each recording: LibriTTS and VCTK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from voxyard.corpus.layouts.lines import BadClip, Lines, MetadataLine, recordings_by_name

_CHAPTERS = ("*/*", "*/*/*")  # below a subset such as train-clean-100, or below the folder of several
_NORMALIZED = ".normalized.txt"


def is_libritts(path: Path) -> bool:
    """True for a folder of LibriTTS, or one of its subsets."""
    return any(any(path.glob(f"{chapter}/*{_NORMALIZED}")) for chapter in _CHAPTERS)


def read_libritts(directory: Path) -> Lines:
    """All clips: SPEAKER/CHAPTER/ID.wav with ID.normalized.txt beside it."""
    files = list(chain.from_iterable(directory.glob(f"{chapter}/[!.]*") for chapter in _CHAPTERS))
    texts = {path.name.removesuffix(_NORMALIZED): path for path in files if path.name.endswith(_NORMALIZED)}
    return _pairs(directory, recordings_by_name(files), texts, _NORMALIZED, lambda text: text.parent.parent.name)


def is_vctk(path: Path) -> bool:
    """True for a folder of VCTK."""
    return any(path.glob("txt/*/*.txt")) and any(path.glob("wav48*"))


def read_vctk(directory: Path) -> Lines:
    """All clips: wav48*/SPEAKER/ID.wav or ID_mic1.flac with txt/SPEAKER/ID.txt; a second microphone is left out."""
    folder = max(directory.glob("wav48*"))  # the later release has wav48_silence_trimmed
    files = [path for path in folder.glob("*/[!.]*") if not path.stem.endswith("_mic2")]
    sounds = {name.removesuffix("_mic1"): path for name, path in recordings_by_name(files).items()}
    texts = {path.stem: path for path in directory.glob("txt/*/[!.]*.txt")}
    return _pairs(directory, sounds, texts, ".txt", lambda text: text.parent.name)


def _pairs(
    directory: Path,
    sounds: Mapping[str, Path],
    texts: Mapping[str, Path],
    suffix: str,
    speaker: Callable[[Path], str],
) -> Lines:
    """A line for each recording with its text; one without the other is bad."""
    lines, bad = [], []
    for clip in sorted(sounds.keys() | texts.keys()):
        if clip not in texts:
            bad.append(BadClip(clip, f"it has no text: expected {clip}{suffix}"))
        elif clip not in sounds:
            bad.append(BadClip(clip, "its recording is missing"))
        else:
            where = str(texts[clip].relative_to(directory))
            text = _text(texts[clip])
            if isinstance(text, BadClip):
                bad.append(text)
            else:
                lines.append(MetadataLine(clip, text, speaker(texts[clip]), where, sounds[clip]))
    return lines, bad


def _text(path: Path) -> str | BadClip:
    clip = path.name.partition(".")[0]
    try:
        text = " ".join(path.read_text(encoding="utf-8-sig").split())
    except UnicodeDecodeError as error:
        return BadClip(clip, f"{path.name} is not UTF-8 (byte {error.start})")
    except OSError as error:
        return BadClip(clip, f"{path.name} cannot be read: {error.strerror}")
    return text or BadClip(clip, f"{path.name} is empty")
