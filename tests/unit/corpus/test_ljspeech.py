"""Metadata: whatever a user's metadata.csv holds is read right, or named."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tones import Corpus, as_shards, open_corpus

from voxyard.corpus import CorpusError, ExampleSource, check, has_eval_split
from voxyard.corpus.layouts.lines import BadClip
from voxyard.corpus.recordings import listed
from voxyard.corpus.text import decode


def _texts(source: ExampleSource) -> list[str]:
    return [decode(source.read(i).tokens) for i in range(len(source))]


def test_the_normalised_text_is_what_is_learned_and_the_plain_one_stands_in(corpus: Corpus) -> None:
    for clip in ("a", "b", "c"):
        corpus.add(clip)
    corpus.write(["a|1 cat|one cat", "b|two cats|", "c|three cats"])
    assert _texts(corpus.open()) == ["one cat", "two cats", "three cats"]


def test_ids_may_hold_dots_blanks_and_letters_of_any_script(corpus: Corpus) -> None:
    ids = ["LJ001-0001", "a.b.c", "two words", "müller", "你好"]
    for clip in ids:
        corpus.add(clip)
    source = corpus.open()
    assert list(source.ids) == ids
    assert len(source.read(1).pcm) == source.samples[1]


@pytest.mark.parametrize(
    "bad", ["../../etc/passwd", "/etc/passwd", "..\\up", "sub/../../clip", "sub\\..\\clip", ".hidden", "..", "nul\0nul"]
)
def test_an_id_that_leads_out_of_the_corpus_is_refused(corpus: Corpus, bad: str) -> None:
    corpus.add("good")
    corpus.write([*corpus.lines, f"{bad}|hello|hello"])
    with pytest.raises(CorpusError, match="no plain file name"):
        corpus.open()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a", "1 columns; expected id[|]text[|]normalized text"),
        ("a|b|c|d|e", "5 columns"),
        ("good|again|again", "twice"),
        ("|text|text", "no id"),
        ("a||", "no transcript"),
        ("a| | ", "no transcript"),
        ("good2|你好|你好", "no known symbol in its text '你好'"),
        ("good2|\t\x07\x00|", "no known symbol|no transcript"),
        ("nowhere|text|text", "nowhere.wav is missing"),
        (f"{'x' * 300}|text|text", "is missing .File name too long"),
        (f"good2|{'far too long ' * 20}|", "text cannot belong to it"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(corpus: Corpus, line: str, said: str) -> None:
    """Issue 2, Input."""
    corpus.add("good2").add("good")
    corpus.write([corpus.lines[1], line])
    with pytest.raises(CorpusError, match=said) as found:
        corpus.open()
    assert line.partition("|")[0] in str(found.value) or "line 2" in str(found.value)
    assert len(corpus.open(max_bad_share=0.5)) == 1


def test_a_text_needs_a_frame_for_each_token_whatever_the_rate_and_the_hop(corpus: Corpus) -> None:
    """With a long hop, fewer tokens fit."""
    corpus.add("a", "x" * 30, seconds=0.4).add("b", "x", seconds=0.4)  # 34 frames of 256 samples, 17 of 512
    assert len(corpus.open()) == 2
    assert len(corpus.open(max_bad_share=0.5, hop_length=512)) == 1
    assert len(corpus.open(max_bad_share=0.5, sample_rate=16000)) == 1  # 25 frames


@pytest.mark.parametrize(
    "raw",
    [
        b"a|hello|hello\r\nb|there|there\r\n",
        b"\xef\xbb\xbfa|hello|hello\nb|there|there\n",
        b"\xef\xbb\xbfa|hello|hello\r\n\r\n  \r\nb|there|there",
        b"a|hello|hello\nb|there|there\n\n\n",
        b" a |hello|hello\nb|there|there ",
    ],
    ids=["CRLF", "BOM", "BOM, CRLF, empty lines, no end", "empty lines", "blanks"],
)
def test_files_of_other_systems_are_read(corpus: Corpus, raw: bytes) -> None:
    corpus.add("a").add("b")
    (corpus.directory / "metadata.csv").write_bytes(raw)
    source = corpus.open()
    assert list(source.ids) == ["a", "b"]
    assert _texts(source) == ["hello", "there"]
    assert source.speakers == ("",)


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x00", "\x1b"])
def test_a_control_character_in_a_text_is_a_blank_and_ends_no_line(corpus: Corpus, odd: str) -> None:
    corpus.add("a", f"hello{odd}there")
    assert _texts(corpus.open(max_dropped_text=0.1)) == ["hello there"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_metadata_in_another_encoding_is_named(corpus: Corpus, encoding: str) -> None:
    corpus.add("a")
    (corpus.directory / "metadata.csv").write_bytes("a|café|café\n".encode(encoding))
    with pytest.raises(CorpusError, match=r"metadata.csv is not UTF-8 \(byte \d+"):
        corpus.open()


def test_what_is_no_corpus_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    """Issue 2, Input."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for path, said in [
        (tmp_path / "nowhere", "does not exist: expected"),
        (tmp_path / "file", "is a file: its first line is 'x', and names no column of recordings.*expected"),
        (tmp_path / "empty", "metadata.csv"),
        (tmp_path / ("x" * 300), "File name too long|does not exist"),
    ]:
        for act in (open_corpus, check):
            with pytest.raises(CorpusError, match=said) as found:
                act(path)
            assert str(path) in str(found.value)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_metadata_without_a_line_is_named(corpus: Corpus, text: str) -> None:
    """An empty corpus."""
    (corpus.directory / "metadata.csv").write_text(text)
    with pytest.raises(CorpusError, match="holds no clip"):
        corpus.open(max_bad_share=1.0)


def test_one_clip_is_a_corpus(corpus: Corpus) -> None:
    """Issue 2, Input."""
    source = corpus.add("only", "one").open()
    example = source.read(0)
    assert (len(source), len(example.pcm), decode(example.tokens), example.speaker) == (1, 8820, "one", 0)
    assert (str(example.pcm.dtype), str(example.tokens.dtype), int(source.samples[0])) == ("int16", "int32", 8820)


# -- the share of bad clips ----------------------------------------------------------------------------------------


def _broken(corpus: Corpus, clips: int, broken: int) -> Corpus:
    corpus.add("c0")
    sound = corpus.wav("c0").read_bytes()
    for i in range(1, clips):
        corpus.wav(f"c{i}").write_bytes(b"" if i > clips - 1 - broken else sound)
        corpus.lines.append(f"c{i}|hello there")
    return corpus.write()


def test_bad_clips_up_to_the_share_are_named_and_left_out(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        source = _broken(corpus, 50, 5).open(max_bad_share=0.1)
    assert list(source.ids) == [f"c{i}" for i in range(45)]
    assert "5 of 50 clips" in caplog.text
    for i in range(45, 50):
        assert f"c{i}: c{i}.wav is empty" in caplog.text


def test_one_bad_clip_more_than_the_share_ends_it(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match=r"5 of 50 clips .*--max-bad-share"):
        _broken(corpus, 50, 5).open(max_bad_share=0.08)


def test_too_many_broken_clips_are_answered_with_the_number_allowed_and_the_remedy(corpus: Corpus) -> None:
    with pytest.raises(CorpusError) as found:
        _broken(corpus, 12, 1).open(max_bad_share=0.01)
    assert "cannot be used, and --max-bad-share 0.01 allows none: repair these clips, or raise" in str(found.value)


def test_a_share_that_is_a_whole_number_of_clips_allows_so_many(corpus: Corpus) -> None:
    """0.29 × 100 is 28.999… for a computer."""
    assert len(_broken(corpus, 100, 29).open(max_bad_share=0.29)) == 71


def test_at_most_20_bad_clips_are_listed_and_the_others_counted(corpus: Corpus) -> None:
    with pytest.raises(CorpusError) as found:
        _broken(corpus, 60, 25).open(max_bad_share=0.1)
    lines = str(found.value).splitlines()
    assert sum(".wav is empty" in line for line in lines) == 20
    assert "5 more" in lines[-1]
    assert len(lines) == 22


# -- splits and speakers -------------------------------------------------------------------------------------------


def _split(corpus: Corpus) -> Corpus:
    for i, speaker in enumerate(["zoe", "adam", "zoe", "mia"]):
        corpus.add(f"c{i}", speaker=speaker)
    corpus.write(corpus.lines[:2] + corpus.lines[3:], "metadata_train.csv").write(
        [corpus.lines[2]], "metadata_eval.csv"
    )
    (corpus.directory / "metadata.csv").unlink()
    return corpus


def test_twenty_bad_clips_are_listed_without_a_line_for_others() -> None:
    bad = [BadClip(f"c{number}", "is empty") for number in range(21)]
    assert len(listed(bad[:20])) == 20
    assert listed(bad)[20:] == ["  … and 1 more"]


def test_training_and_evaluation_clips_are_kept_apart_also_as_shards(corpus: Corpus, tmp_path: Path) -> None:
    """A speaker's number is the same in both."""
    shards = tmp_path / "shards"
    _split(corpus)
    as_shards(corpus.directory, shards)
    for where in (corpus.directory, shards):
        assert has_eval_split(where)
        train, evaluation = open_corpus(where), open_corpus(where, split="eval")
        assert list(train.ids) == ["c0", "c1", "c3"]
        assert list(evaluation.ids) == ["c2"]
        assert train.speakers == evaluation.speakers == ("adam", "mia", "zoe")
        assert [train.read(i).speaker for i in range(3)] == [2, 0, 1]
        assert evaluation.read(0).speaker == 2


def test_a_broken_evaluation_clip_leaves_no_shards_behind(corpus: Corpus, tmp_path: Path) -> None:
    """Both splits or nothing."""
    _split(corpus)
    corpus.wav("c2").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"c2\.wav is empty"):
        as_shards(corpus.directory, tmp_path / "shards")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_corpus_without_an_evaluation_split_reports_it(corpus: Corpus) -> None:
    corpus.add("a")
    assert not has_eval_split(corpus.directory)
    with pytest.raises(CorpusError, match=r"metadata_eval\.csv"):
        corpus.open(split="eval")


def test_clips_that_are_evaluated_on_are_not_trained_on(corpus: Corpus) -> None:
    """metadata.csv lists all of them, metadata_eval.csv some."""
    corpus.add("a").add("b").write([corpus.lines[1]], "metadata_eval.csv")
    assert list(corpus.open(max_bad_share=0).ids) == ["a"]


def test_the_fingerprint_is_of_clips_texts_lengths_speakers_and_rate(tmp_path: Path) -> None:
    """A run is resumed only on the corpus that it began with."""

    def made(name: str, **other: object) -> Corpus:
        one = {"clip": "a", "text": "hello", "seconds": 0.4, "speaker": "x"} | other
        return Corpus(tmp_path / name).add(**one)  # type: ignore[arg-type]

    same = made("0").open().fingerprint
    assert made("1").open().fingerprint == same
    others = [made("2", clip="b"), made("3", text="hallo"), made("4", seconds=0.5), made("5", speaker="y")]
    found = {corpus.open().fingerprint for corpus in others} | {made("6").open(sample_rate=16000).fingerprint}
    assert len(found) == 5
    assert same not in found
