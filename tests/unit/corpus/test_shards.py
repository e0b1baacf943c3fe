"""Shards: what was written is read back, what is damaged is named, and what stands in the way is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disks import run_on_small_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from tones import Corpus, as_shards, open_corpus, tone, write_wav

from voxyard.corpus import CorpusError, Example, ExampleSource, check, shard_writer
from voxyard.corpus.text import Tokenizer

EMPTY = np.zeros(0, np.float32)


def _features(example: Example) -> dict[str, np.ndarray]:
    frames = len(example.pcm) // 256
    first = example.pcm[: frames * 256].reshape(frames, 256).astype(np.float32)
    return {"mel": first[:, :80], "pitch": first[:, 0], "energy": first.mean(axis=1)}


def _assert_same(one: ExampleSource, other: ExampleSource) -> None:
    assert list(one.ids) == list(other.ids)
    assert one.samples.tolist() == other.samples.tolist()
    assert one.token_lengths.tolist() == other.token_lengths.tolist()
    assert (one.speakers, one.sample_rate) == (other.speakers, other.sample_rate)
    for i in range(len(one)):
        a, b = one.read(i), other.read(i)
        assert a.pcm.dtype == b.pcm.dtype == np.int16
        assert a.pcm.tolist() == b.pcm.tolist()
        assert a.tokens.tolist() == b.tokens.tolist()
        assert a.speaker == b.speaker


@pytest.fixture
def shards(corpus: Corpus, tmp_path: Path) -> Path:
    """Three clips of two speakers as shards."""
    corpus.add("a", "one", 0.3, "x").add("b", "two words", 0.4, "y").add("c", "three", 0.5, "x")
    as_shards(corpus.directory, tmp_path / "shards")
    return tmp_path / "shards"


CLIPS = st.lists(
    st.tuples(
        st.text("ab cé", min_size=1, max_size=9).filter(str.strip), st.integers(9 * 256, 9000), st.sampled_from("xyz")
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(clips=CLIPS, with_features=st.booleans(), shard_samples=st.sampled_from([1, 9000, 10**9]))
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, clips: list[Any], with_features: bool, shard_samples: int
) -> None:
    """With and without features, in one shard and in many."""
    made = Corpus(tmp_path_factory.mktemp("any") / "corpus")
    for i, (text, samples, speaker) in enumerate(clips):
        write_wav(made.wav(f"c{i}"), np.random.default_rng(i).uniform(-1, 1, samples))
        made.lines.append(f"c{i}|{text}|{text}|{speaker}")
    made.write()
    target = made.directory.parent / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_writer, "SHARD_BYTES", 2 * shard_samples)
        as_shards(made.directory, target, features=_features if with_features else None)
    found = open_corpus(target)
    _assert_same(found, made.open())
    assert found.fingerprint == made.open().fingerprint
    assert found.feature_names == (("energy", "mel", "pitch") if with_features else ())
    assert len(list(target.glob("pcm-*"))) == (len(clips) if shard_samples == 1 else len(list(target.glob("pcm-*"))))
    for i in range(len(found)):
        example = found.read(i)
        if with_features:
            wanted = _features(example)
            assert {name: values.tolist() for name, values in (example.features or {}).items()} == {
                name: values.tolist() for name, values in wanted.items()
            }
        else:
            assert example.features is None


def test_phonemes_and_another_rate_are_written_too(corpus: Corpus, tmp_path: Path) -> None:
    corpus.add("a", "Hello, you?", 0.6)
    chosen: dict[str, Any] = {"sample_rate": 16000, "text_units": "phonemes"}
    as_shards(corpus.directory, tmp_path / "shards", **chosen)
    found = open_corpus(tmp_path / "shards", **chosen)
    assert found.read(0).tokens.tolist() == Tokenizer("phonemes").encode("Hello, you?").tolist()
    assert found.samples.tolist() == [9600]


def test_several_threads_read_what_one_reads(shards: Path, corpus: Corpus) -> None:
    found, recordings = open_corpus(shards), corpus.open()
    wanted = [(recordings.read(i).pcm.tobytes(), recordings.read(i).tokens.tobytes()) for i in range(3)]
    for source in (found, recordings):

        def read(i: int, source: ExampleSource = source) -> bool:
            example = source.read(i % 3)
            return (example.pcm.tobytes(), example.tokens.tobytes()) == wanted[i % 3]

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(300)))


# -- damage --------------------------------------------------------------------------------------------------------


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 2)


def _scramble(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + bytes(path.stat().st_size - 100))


def _other(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "pcm cut": ("pcm-00000.bin", _cut),
    "pcm missing": ("pcm-00000.bin", Path.unlink),
    "arrays cut": ("index.npz", _cut),
    "arrays missing": ("index.npz", Path.unlink),
    "arrays scrambled": ("index.npz", _scramble),
    "index empty": ("index.json", lambda path: path.write_text("")),
    "index cut": ("index.json", lambda path: path.write_text(path.read_text()[:40])),
    "index a list": ("index.json", lambda path: path.write_text("[1, 2]")),
    "index foreign": ("index.json", lambda path: path.write_text('{"format": 1, "name": "web app"}')),
    "index no text": ("index.json", lambda path: path.write_bytes(b"\xff\xfe\x00\x01")),
    "another format": ("index.json", lambda path: _other(path, format=99)),
    "fewer ids": ("index.npz", lambda path: _other(path.with_name("index.json"), ids=["a"])),
    "no file listed": ("index.json", lambda path: _other(path, files={})),
    "files a list": ("index.json", lambda path: _other(path, files=["x"])),
    "sizes no numbers": ("index.json", lambda path: _other(path, files={"index.npz": "x"})),
    "features unknown": ("index.json", lambda path: _other(path, features={"mel": 80})),
    "width no number": ("index.json", lambda path: _other(path, features={"pcm": "x"})),
    "fewer speakers": ("index.npz", lambda path: _other(path.with_name("index.json"), speakers=["x"])),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_with_what_to_do(shards: Path, damage: str) -> None:
    name, break_it = DAMAGE[damage]
    break_it(shards / name)
    with pytest.raises(CorpusError, match="prepare the corpus again") as found:
        open_corpus(shards)
    assert name in str(found.value)


def test_other_pickles_are_not_opened(shards: Path) -> None:
    """An index.npz from somewhere else runs no code."""
    np.savez(shards / "index.npz", shard=np.array([print], object))
    _other(shards / "index.json", files={"pcm-00000.bin": (shards / "pcm-00000.bin").stat().st_size,
                                         "index.npz": (shards / "index.npz").stat().st_size})  # fmt: skip
    with pytest.raises(CorpusError, match=r"index\.npz cannot be read"):
        open_corpus(shards)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"sample_rate": 16000}, r"sample_rate 22050 \(wanted: 16000\)"),
        ({"text_units": "phonemes"}, r"text_units characters \(wanted: phonemes\)"),
        ({"sample_rate": 8000, "text_units": "phonemes"}, "22050 .*characters"),
    ],
)
def test_shards_of_other_settings_report_what_they_were_made_with(shards: Path, wanted: Any, said: str) -> None:
    with pytest.raises(CorpusError, match=said):
        open_corpus(shards, **wanted)


def test_the_language_matters_for_phonemes_and_not_for_characters(corpus: Corpus, tmp_path: Path) -> None:
    corpus.add("a", "water", 0.5)
    for units in ("characters", "phonemes"):
        as_shards(corpus.directory, tmp_path / units, text_units=units)
    assert len(open_corpus(tmp_path / "characters", language="de")) == 1
    with pytest.raises(CorpusError, match=r"language en-us \(wanted: de\)"):
        open_corpus(tmp_path / "phonemes", text_units="phonemes", language="de")


def test_shards_hold_a_frame_for_each_token_also_with_a_longer_hop(corpus: Corpus, tmp_path: Path) -> None:
    """What recordings would refuse, shards of them refuse too."""
    corpus.add("fits", "x", 0.4).add("tight", "x" * 30, 0.4)
    as_shards(corpus.directory, tmp_path / "shards")
    assert len(open_corpus(tmp_path / "shards")) == 2
    with pytest.raises(CorpusError, match="hop"):
        open_corpus(tmp_path / "shards", hop_length=512)


# -- the way there -------------------------------------------------------------------------------------------------


def _tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", ["file", "directory", "shards and more", "a web app", "the corpus itself", "above it"])
def test_a_destination_that_holds_something_else_is_refused_and_untouched(
    corpus: Corpus, tmp_path: Path, what: str
) -> None:
    corpus.add("a")
    target = tmp_path / "target"
    if what == "file":
        target.write_text("mine")
    elif what == "the corpus itself":
        target = corpus.directory
    elif what == "above it":
        target = tmp_path
    else:
        if what == "shards and more":
            as_shards(corpus.directory, target)
        target.mkdir(exist_ok=True)
        (target / {"a web app": "index.json", "directory": "mine.txt"}.get(what, "more.bin")).write_text("{}")
    before = _tree(tmp_path)
    with pytest.raises(CorpusError, match="give a"):
        as_shards(corpus.directory, target)
    assert _tree(tmp_path) == before


def test_preparing_again_replaces_and_a_reader_keeps_what_it_has(shards: Path, corpus: Corpus) -> None:
    reader = open_corpus(shards)
    before = reader.read(1).pcm.tobytes()
    corpus.add("d", "four", 0.6, "y")
    write_wav(corpus.wav("b"), tone(0.41))
    made = as_shards(corpus.directory, shards)
    assert (made.clips, len(open_corpus(shards))) == (4, 4)
    assert reader.read(1).pcm.tobytes() == before
    assert sorted(path.name for path in shards.parent.iterdir()) == ["corpus", "shards"]


@pytest.mark.parametrize("moment", ["nothing there", "shards there"])
def test_what_stops_half_way_leaves_all_as_it_was(corpus: Corpus, tmp_path: Path, moment: str) -> None:
    """Ctrl-C, or too many broken clips."""
    corpus.add("a").add("b")
    target = tmp_path / "shards"
    if moment == "shards there":
        as_shards(corpus.directory, target)
    before = _tree(tmp_path)

    def interrupt(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        as_shards(corpus.directory, target, progress=interrupt)
    assert _tree(tmp_path) == before


def _break_inside(corpus: Corpus, clip: str) -> None:
    """A header that is fine before a sound that is not."""
    raw = bytearray(corpus.wav(clip).read_bytes())
    raw[20:22] = b"\x03\x00"  # float samples …
    raw[32:36] = b"\x04\x00\x20\x00"
    raw[44:48] = b"\x00\x00\xc0\x7f"  # … of which the first is no number
    corpus.wav(clip).write_bytes(raw)


def test_clips_that_break_when_decoded_count_with_those_that_were_seen_before(corpus: Corpus, tmp_path: Path) -> None:
    """One share for both kinds."""
    for i in range(50):
        corpus.add(f"c{i}", "hi", seconds=0.2)
    corpus.wav("c0").write_bytes(b"")
    _break_inside(corpus, "c7")
    _break_inside(corpus, "c49")
    with pytest.raises(CorpusError, match=r"c0\.wav is empty[^$]*c7\.wav holds samples that are no numbers"):
        as_shards(corpus.directory, tmp_path / "shards", max_bad_share=0.04)
    assert not (tmp_path / "shards").exists()
    made = as_shards(corpus.directory, tmp_path / "shards", max_bad_share=0.06)
    assert (made.clips, len(made.bad)) == (47, 3)
    assert "3 clips left out" in str(made)
    found = open_corpus(tmp_path / "shards")
    assert "c7" not in found.ids
    assert found.read(found.ids.index("c8")).pcm.tobytes() == corpus.open(1.0).read(7).pcm.tobytes()
    assert found.fingerprint != corpus.open(1.0).fingerprint


def test_silent_and_endless_clips_are_left_out_as_check_says(corpus: Corpus, tmp_path: Path) -> None:
    corpus.add("a").add("silent").add("long", seconds=60.2)
    write_wav(corpus.wav("silent"), np.zeros(9000))
    made = as_shards(corpus.directory, tmp_path / "shards", max_bad_share=0.7)
    assert open_corpus(tmp_path / "shards").ids == ["a"]
    assert made.bad == tuple(str(one) for one in check(corpus.directory).bad)
    with pytest.raises(CorpusError, match="are silence"):
        as_shards(corpus.directory, tmp_path / "others")


def test_two_that_write_the_same_shards_do_not_mix(corpus: Corpus, tmp_path: Path) -> None:
    """The second is refused while the first writes."""
    corpus.add("a").add("b")
    refused: list[str] = []

    def second(done: int, _: int) -> None:
        if done == 1:
            with pytest.raises(CorpusError) as found:
                as_shards(corpus.directory, tmp_path / "shards")
            refused.append(str(found.value))

    as_shards(corpus.directory, tmp_path / "shards", progress=second)
    assert "another process" in refused[0]
    assert len(open_corpus(tmp_path / "shards")) == 2


def test_what_a_killed_process_left_is_cleared_away(corpus: Corpus, tmp_path: Path) -> None:
    corpus.add("a")
    program = """
import os, sys
from pathlib import Path
from voxyard.corpus import CorpusSettings, prepare
prepare(Path(sys.argv[1]), Path(sys.argv[2]), CorpusSettings(), progress=lambda *_: os.kill(os.getpid(), 9))
"""
    command = [sys.executable, "-c", program, str(corpus.directory), str(tmp_path / "shards")]
    assert subprocess.run(command, timeout=60).returncode == -9
    (left,) = (path for path in tmp_path.iterdir() if path != corpus.directory)
    assert left.name != "shards"
    (left / "pcm-00007.bin").write_bytes(b"stale")
    as_shards(corpus.directory, tmp_path / "shards")
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == ["index.json", "index.npz", "pcm-00000.bin"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "shards"]


def test_a_full_disk_leaves_nothing_half_written_and_reports_it(corpus: Corpus, tmp_path: Path) -> None:
    """On a real full file system: a tmpfs of 256 KiB in a mount namespace of its own."""
    for i in range(20):
        corpus.add(f"c{i}", seconds=0.6)  # 26 KB each
    (tmp_path / "disk").mkdir()
    program = """
import sys
from pathlib import Path
from voxyard.corpus import CorpusError, CorpusSettings, open_source, prepare
source, disk = Path(sys.argv[1]), Path(sys.argv[2])
how = CorpusSettings(max_bad_share=0)
for name in ("first", "second"):
    try:
        prepare(source, disk / name, how)
    except CorpusError as error:
        print(error)
    print(sorted(path.name for path in disk.iterdir()))
    full = source / "metadata.csv"
    full.write_text("".join(full.read_text().splitlines(True)[:4]))
print(len(open_source(disk / "second", how)))
"""
    disk = tmp_path / "disk"
    done = run_on_small_disk("256k", disk, program, corpus.directory, disk)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "No space left on device" in lines[0]
    assert f"{disk}/first" in lines[0]
    assert lines[1:] == ["[]", "['second']", "4"]


def test_the_survey_of_shards_finds_a_flipped_bit(shards: Path) -> None:
    survey = check(shards)
    assert (survey.clips, survey.bad, dict(survey.speakers)) == (3, (), {"x": 2, "y": 1})
    raw = bytearray((shards / "pcm-00000.bin").read_bytes())
    raw[1000] ^= 1
    (shards / "pcm-00000.bin").write_bytes(raw)
    assert [one.clip for one in check(shards).bad] == ["pcm-00000.bin"]
