"""Layouts with a text file for each recording: LibriTTS, VCTK, and pairs of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from voxyard.corpus.layouts.lines import BadClip, Lines, MetadataLine, recordings_by_name

_CHAPTERS = ("*/*", "*/*/*")  # below a subset such as train-clean-100, or below the folder of several
_NORMALIZED = ".normalized.txt"
_PLACES = ("[!.]*", "[!.@]*/[!.]*", "[!.@]*/[!.@]*/[!.]*")
_TEXTS = (".lab", ".txt")  # the later one counts where there are both
_ABOUT = re.compile(r"(readme|licen[cs]e|copying)", re.IGNORECASE)


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


def is_pairs(path: Path) -> bool:
    """True for a folder where a recording and a text have the same name."""
    sounds, texts = _by_place(path)
    return not sounds.keys().isdisjoint(texts)


def read_pairs(directory: Path) -> Lines:
    """All clips: ID.wav with ID.txt or ID.lab, beside each other or in two folders; a folder below is a speaker."""
    sounds, texts = _by_place(directory)
    speakers = {path: place.rpartition("/")[0].partition("/")[0] for place, path in texts.items()}
    return _pairs(directory, sounds, texts, ".txt", speakers.__getitem__)


def _by_place(directory: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """Recordings and texts by their places without suffix: below the folder, or below one for each of both."""
    files = {path: path.relative_to(directory).parts for places in _PLACES for path in directory.glob(places)}
    beside = _named(files, 0)
    return _named(files, 1) if beside[0].keys().isdisjoint(beside[1]) else beside


def _named(files: Mapping[Path, tuple[str, ...]], above: int) -> tuple[dict[str, Path], dict[str, Path]]:
    """Recordings and texts by their names and the folders they are in, but not the first `above`."""
    names = {path: "/".join((*parts[above:-1], path.stem)) for path, parts in files.items() if len(parts) > above}
    sounds = recordings_by_name(names, names.__getitem__)
    texts = {names[path]: path for kind in _TEXTS for path in names if path.suffix == kind}
    return sounds, {name: path for name, path in texts.items() if name in sounds or not _ABOUT.match(path.name)}


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
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        return BadClip(clip, f"{path.name} is not UTF-8 (byte {error.start})")
    except OSError as error:
        return BadClip(clip, f"{path.name} cannot be read: {error.strerror}")
    text = [word for line in lines for word in line.split()]
    if path.suffix == ".lab" and len(text) > len(lines) > 2:
        return BadClip(clip, f"{path.name} has {len(lines)} lines, as times of sounds have: expected one sentence")
    return " ".join(text) or BadClip(clip, f"{path.name} is empty")
