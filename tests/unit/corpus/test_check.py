"""`voxyard corpus check`: everything that is in a corpus, everything that is wrong with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tones import Corpus, as_shards, tone, write_wav

from voxyard.corpus import CorpusError, check, shard_writer
from voxyard.corpus.audio import read_pcm


def test_what_is_there_is_counted_and_what_is_broken_is_named(corpus: Corpus) -> None:
    corpus.add("a", "hello hello 你", 0.5, "x").add("b", "there", 0.3, "y").add("broken", "there", 0.3, "y")
    write_wav(corpus.wav("b"), np.stack([tone(0.7, 8000)] * 2, axis=1), 8000)
    corpus.wav("broken").write_bytes(b"")
    corpus.write([*corpus.lines, "gone|text|text", "a|b"])
    survey = check(corpus.directory)
    assert (survey.clips, round(survey.seconds, 3)) == (2, 1.2)
    assert (dict(survey.rates), dict(survey.channels)) == ({22050: 1, 8000: 1}, {1: 1, 2: 1})
    assert dict(survey.speakers) == {"x": 1, "y": 1}
    assert survey.texts is not None
    assert (survey.texts.characters, survey.texts.dropped) == (16, {"你": 1})
    assert (survey.seconds_percentiles[0], survey.seconds_percentiles[100]) == (0.5, 0.7)
    assert sorted(one.clip for one in survey.bad) == ["a", "broken", "gone"]
    text = survey.render()
    for said in (
        "2 clips, 0.0 minutes",
        "22050 Hz ×1",
        "'你' U+4F60 CJK UNIFIED IDEOGRAPH-4F60 ×1",
        "bad clips     3",
        "broken: broken.wav is empty",
        "gone.wav is missing",
    ):
        assert said in text


def test_clips_that_break_only_when_decoded_are_found_and_not_counted(corpus: Corpus) -> None:
    corpus.add("a").add("b")
    raw = bytearray(corpus.wav("b").read_bytes())
    raw[20:22], raw[32:36], raw[44:48] = b"\x03\x00", b"\x04\x00\x20\x00", b"\x00\x00\xc0\x7f"  # floats, one is NaN
    corpus.wav("b").write_bytes(raw)
    survey = check(corpus.directory)
    assert [one.clip for one in survey.bad] == ["b"]
    assert (survey.clips, sum(survey.rates.values()), round(survey.seconds, 3)) == (1, 1, 0.4)


def test_both_splits_are_looked_at(corpus: Corpus) -> None:
    corpus.add("a").add("b").add("c")
    corpus.write(corpus.lines[:2], "metadata_train.csv").write(corpus.lines[2:], "metadata_eval.csv")
    (corpus.directory / "metadata.csv").unlink()
    assert check(corpus.directory).clips == 3
    corpus.wav("c").unlink()
    assert [one.clip for one in check(corpus.directory).bad] == ["c"]
    (corpus.directory / "metadata_train.csv").rename(corpus.directory / "metadata.csv")
    assert [one.clip for one in check(corpus.directory).bad] == ["c"]


def test_an_evaluation_split_may_be_all_of_what_metadata_csv_lists_again(corpus: Corpus) -> None:
    """A clip in both files is no fault."""
    corpus.add("a").add("b").write([corpus.lines[1]], "metadata_eval.csv")
    survey = check(corpus.directory)
    assert (survey.clips, survey.bad) == (2, ())


def test_everything_can_be_written_as_json(corpus: Corpus) -> None:
    corpus.add("a", "你 hello hello").write([*corpus.lines, "gone|x|x"])
    answer = json.loads(json.dumps(check(corpus.directory).to_json()))
    assert (answer["clips"], answer["rates"], answer["texts"]["dropped"]) == (1, {"22050": 1}, {"你": 1})
    assert answer["texts"]["dropped_share"] == 1 / 11
    assert [one["clip"] for one in answer["bad"]] == ["gone"]


def test_a_long_list_of_faults_is_cut_when_printed(corpus: Corpus) -> None:
    """All of them are in the JSON."""
    corpus.add("a").write([*corpus.lines, *(f"gone{i}|x|x" for i in range(30))])
    survey = check(corpus.directory)
    assert survey.render().count(" is missing") == 20
    assert survey.render().splitlines()[-1].strip() == "… and 10 more"
    assert len(survey.to_json()["bad"]) == 30


def test_of_many_speakers_some_are_named_and_the_others_counted(corpus: Corpus) -> None:
    """A table of Common Voice has thousands."""
    for i in range(22):
        corpus.add(f"c{i}", seconds=0.2, text="hi", speaker=f"s{i}")
    line = next(line for line in check(corpus.directory).render().splitlines() if line.startswith("speakers"))
    assert line.startswith("speakers      s0 ×1, s1 ×1,")
    assert line.endswith("s19 ×1, … and 2 more")


def test_a_corpus_without_a_good_clip_is_reported_too(corpus: Corpus) -> None:
    corpus.write(["gone|x|x"])
    survey = check(corpus.directory)
    assert (survey.clips, survey.seconds, len(survey.bad)) == (0, 0, 1)
    assert "none" in survey.render()


def test_an_empty_corpus_does_not_pass(corpus: Corpus) -> None:
    survey = check(corpus.write([]).directory)
    assert not survey.passes
    assert survey.render().splitlines()[-1] == (
        f"{corpus.directory} holds no clip: expected metadata.csv (id|text|normalized text[|speaker]), wavs/ID.wav"
    )


def test_a_clip_that_is_too_long_is_named_and_not_decoded(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header with a wrong rate makes hours of a few kilobytes: resampled they are more than a host's memory."""
    decoded = []

    def read(path: Path, rate: int) -> np.ndarray:
        decoded.append(path.stem)
        return read_pcm(path, rate)

    for module in ("check", "recordings"):
        monkeypatch.setattr(sys.modules[f"voxyard.corpus.{module}"], "read_pcm", read)
    corpus.add("a").add("b")
    write_wav(corpus.wav("b"), tone(0.5), 100)
    said = "b: 110 s are more than the 60 s of a long sentence"
    assert [str(one) for one in check(corpus.directory).bad] == [f"{said}: cut it into sentences"]
    with pytest.raises(CorpusError, match=said):
        as_shards(corpus.directory, tmp_path / "shards")
    assert decoded == ["a", "a"]


def test_a_clip_whose_samples_are_all_the_same_is_silence(corpus: Corpus) -> None:
    corpus.add("a").add("b")
    write_wav(corpus.wav("b"), np.full(9000, 0.5))
    said = "b: its 0.4 s are silence, all samples are about 16384 of 32768: record it again"
    assert [str(one) for one in check(corpus.directory).bad] == [said]


@pytest.mark.slow
def test_clips_from_which_nothing_can_be_learned_are_named(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In recordings and in shards."""
    corpus.add("a").add("silent").add("hum").add("long")
    write_wav(corpus.wav("silent"), np.zeros(9000))
    write_wav(corpus.wav("hum"), tone(0.5, level=0.0005))
    write_wav(corpus.wav("long"), tone(608))
    with monkeypatch.context() as older:  # shards of a version that left them in
        older.setattr(shard_writer, "unlearnable", lambda _pcm, _rate: None)
        older.setattr(shard_writer, "too_long", lambda _seconds: None)
        as_shards(corpus.directory, tmp_path / "shards")
    for place in (corpus.directory, tmp_path / "shards"):
        survey = check(place)
        assert not survey.passes
        assert [str(one) for one in survey.bad] == [
            "silent: its 0.4 s are silence, the loudest sample is 0 of 32768: record it again",
            "hum: its 0.5 s are silence, the loudest sample is 16 of 32768: record it again",
            "long: 608 s are more than the 60 s of a long sentence: cut it into sentences",
        ]
