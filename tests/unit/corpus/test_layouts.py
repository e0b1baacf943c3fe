"""Layouts of corpora: each is recognized by its folder, and its clips, texts and speakers are read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
from tones import RATE, as_shards, open_corpus, strict, tone

from voxyard.corpus import CorpusError, check
from voxyard.corpus.layouts.recognize import LAYOUTS, find_layout
from voxyard.corpus.text import decode


def sound(path: Path, rate: int = RATE) -> None:
    """Half a second of tone; the suffix says which format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(0.5, rate), rate)


def words(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def ljspeech(root: Path) -> Path:
    for name in ("a.wav", "b.flac"):
        sound(root / "wavs" / name)
    words(root / "metadata.csv", "a|1 cat|one cat|mia\nb|two cats||zoe\n")
    return root


def libritts(root: Path) -> Path:
    for speaker, clip, text in (("mia", "84_1_0", "one cat"), ("zoe", "90_1_0", "two cats")):
        sound(root / "train-clean-100" / speaker / "1" / f"{clip}.wav", 24000)
        words(root / "train-clean-100" / speaker / "1" / f"{clip}.normalized.txt", f"{text}\n")
        words(root / "train-clean-100" / speaker / "1" / f"{clip}.original.txt", "something else")
    return root


def vctk(root: Path) -> Path:
    sound(root / "wav48_silence_trimmed" / "mia" / "mia_001_mic1.flac", 48000)
    sound(root / "wav48_silence_trimmed" / "mia" / "mia_001_mic2.flac", 48000)
    sound(root / "wav48_silence_trimmed" / "zoe" / "zoe_001_mic1.flac", 48000)
    words(root / "txt" / "mia" / "mia_001.txt", "one cat\n")
    words(root / "txt" / "zoe" / "zoe_001.txt", "two cats\n")
    return root


def old_vctk(root: Path) -> Path:
    sound(root / "wav48" / "mia" / "mia_001.wav", 48000)
    sound(root / "wav48" / "zoe" / "zoe_001.wav", 48000)
    words(root / "txt" / "mia" / "mia_001.txt", "one cat\n")
    words(root / "txt" / "zoe" / "zoe_001.txt", "two cats\n")
    return root


def common_voice(root: Path) -> Path:
    lines = ["client_id\tpath\tsentence_id\tsentence\tup_votes"]
    for speaker, clip, text in (("mia", "cv_1.mp3", "one cat"), ("zoe", "cv_2.mp3", "two cats")):
        sound(root / "clips" / clip, 32000)
        lines.append(f"{speaker}\t{clip}\t123\t{text}\t2")
    words(root / "validated.tsv", "\n".join(lines) + "\n")
    return root


def path_list(root: Path) -> Path:
    sound(root / "sounds" / "1.ogg")
    sound(root / "elsewhere" / "2.mp3")
    words(root / "filelist.txt", f"sounds/1.ogg|one cat|mia\n{root / 'elsewhere' / '2.mp3'}|two cats|zoe\n")
    return root


def list_file(root: Path) -> Path:
    return path_list(root) / "filelist.txt"


def pairs(root: Path) -> Path:
    for speaker, text in (("mia", "one cat"), ("zoe", "two cats")):
        sound(root / speaker / "1.ogg")
        words(root / speaker / "1.txt", text)
    return root


MADE = [
    (ljspeech, "ljspeech"), (libritts, "libritts"), (vctk, "vctk"), (old_vctk, "vctk"),
    (common_voice, "commonvoice"), (path_list, "list"), (list_file, "list"),
    (pairs, "pairs"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "name"), MADE, ids=[make.__name__ for make, _ in MADE])
def test_a_corpus_is_read_in_its_layout(make: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    """Texts and speakers belong to their recordings; the same from shards; the layout is told."""
    where = make(tmp_path / "corpus")
    source = open_corpus(where)
    assert source.speakers == ("mia", "zoe")
    for i, (text, speaker) in enumerate([("one cat", 0), ("two cats", 1)]):
        example = source.read(i)
        assert (decode(example.tokens), example.speaker) == (text, speaker)
        assert len(example.pcm) == source.samples[i] == RATE // 2
        assert 10_000 < abs(example.pcm.astype(int)).max() < 20_000
    report = check(where)
    assert (report.layout, report.clips, report.bad) == (name, 2, ())
    assert f"layout        {name}\n" in report.render()
    made = as_shards(where, tmp_path / "shards")
    assert str(made).endswith(f"2 clips, 0.0 minutes, 0 MiB; layout {name}")
    assert decode(open_corpus(tmp_path / "shards").read(1).tokens) == "two cats"


def test_a_subset_of_libritts_is_a_corpus(tmp_path: Path) -> None:
    assert len(open_corpus(libritts(tmp_path) / "train-clean-100")) == 2


def test_a_folder_in_no_layout_is_refused_with_what_each_looks_like(tmp_path: Path) -> None:
    """The message also says what the folder holds."""
    words(tmp_path / "corpus" / "transcripts.txt", "one cat")
    sound(tmp_path / "corpus" / "audio" / "1.wav")
    for refused in (tmp_path / "corpus", tmp_path / "corpus" / "transcripts.txt"):
        with pytest.raises(CorpusError, match=r"is no corpus, it (holds audio/, transcripts.txt|is a file)") as error:
            open_corpus(refused)
        for layout in LAYOUTS:
            assert f"{layout.name} " in str(error.value)
            assert layout.looks in str(error.value)


def test_a_layout_that_is_said_is_the_one_that_is_read(tmp_path: Path) -> None:
    """`--corpus-layout`, where a folder looks like two."""
    ljspeech(common_voice(tmp_path))
    words(tmp_path / "clips" / "cv_2.mp3", "no sound")
    assert check(tmp_path).layout == "ljspeech"
    told = check(tmp_path, strict(layout="commonvoice"))
    assert (told.layout, [one.clip for one in told.bad]) == ("commonvoice", ["cv_2"])
    with pytest.raises(CorpusError, match=r"is not in the layout vctk, it holds clips/, metadata.csv"):
        open_corpus(tmp_path, layout="vctk")


@pytest.mark.parametrize("make", [libritts, vctk])
def test_a_recording_or_text_without_the_other_is_named(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Nothing is lost silently."""
    make(tmp_path)
    lonely = "lonely" if make is libritts else "lonely_mic1"
    suffix = ".wav" if make is libritts else ".flac"
    folder = next(path for path in tmp_path.rglob("*") if path.suffix == suffix).parent
    sound(folder / f"{lonely}{suffix}")
    text = next(path for path in tmp_path.rglob("*") if path.name.endswith(("normalized.txt", "_001.txt")))
    words(text.with_name(text.name.replace("1_0", "silent").replace("001", "silent")), "no sound")
    text.write_bytes("café".encode("latin-1"))
    told = {one.clip: one.reason for one in check(tmp_path).bad}
    assert len(told) == 3
    assert told["lonely"].startswith("it has no text: expected lonely.")
    assert any(clip.endswith("_silent") and "recording is missing" in reason for clip, reason in told.items())
    assert any("is not UTF-8" in reason for reason in told.values())


def test_lines_of_tables_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    common_voice(tmp_path / "voices")
    with (tmp_path / "voices" / "validated.tsv").open("a") as file:
        file.write("mia\tcv_3.mp3\nmia\t../cv_1.mp3\t1\tout\t2\nmia\tcv_1.mp3\t1\t\t2\nmia\tcv\0.mp3\t1\tout\t2\n")
    told = [str(one) for one in check(tmp_path / "voices").bad]
    assert [line.partition(":")[0] for line in told] == ["line 4", "../cv_1.mp3", "line 6", "cv\0.mp3"]
    words(tmp_path / "voices" / "validated.tsv", "path\tsentence\ncv_1.mp3\tone cat\n")
    with pytest.raises(CorpusError, match="has no column client_id: expected client_id, path, sentence"):
        open_corpus(tmp_path / "voices")
    path_list(tmp_path / "list")
    with (tmp_path / "list" / "filelist.txt").open("a") as file:
        file.write("sounds/1.ogg|again\na|b|c|d\n|text\nsounds/1.flac|\nsounds/3.ogg|three cats\n")
    told = [one.reason for one in check(tmp_path / "list").bad]
    for reason, said in zip(told, ["twice", "4 columns", "no path", "no transcript", "3.ogg is missing"], strict=True):
        assert said in reason


def test_a_list_with_numbers_for_texts_is_refused(tmp_path: Path) -> None:
    """Lists of path|speaker|text exist; a model would learn to say the speaker's number."""
    path_list(tmp_path)
    words(tmp_path / "filelist.txt", "sounds/1.ogg|12|one cat\nelsewhere/2.mp3|7|two cats\n")
    with pytest.raises(CorpusError, match=r"numbers for texts, such as '12': expected path\|text\|speaker"):
        open_corpus(tmp_path)


def test_a_training_says_which_layout_it_reads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "voxyard.corpus"):
        open_corpus(vctk(tmp_path))
    assert f"{tmp_path}: 2 clips in the layout vctk" in caplog.text


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3", ".ogg"])
def test_a_recording_that_was_cut_is_named_in_each_format(suffix: str, tmp_path: Path) -> None:
    """Half of a file is not learned as the whole text."""
    path = tmp_path / "sounds" / f"1{suffix}"
    sound(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    words(tmp_path / "filelist.txt", f"sounds/1{suffix}|one cat\n")
    (bad,) = check(tmp_path).bad
    assert f"1{suffix} " in bad.reason


def test_a_folder_that_this_user_may_not_read_asks_for_access_and_not_for_a_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    monkeypatch.setenv("LOGNAME", "alice")
    with pytest.raises(CorpusError) as refused:
        find_layout(tmp_path)
    assert str(refused.value).startswith(
        f"{tmp_path} cannot be read (Permission denied: {tmp_path}): give this user (alice)"
    )
    assert "expected one of" not in str(refused.value)
