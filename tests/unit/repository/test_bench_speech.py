"""Parts of the speech benchmark: its sentences, its control, its judges and its tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from bench_closed_grammar import ClosedGrammar
from bench_sentences import Sentence, held_out, one_clip_each, sentence, split, spread, write_corpus
from bench_speech_table import CONTROL, COPY, RECORDINGS, Judgement, best, figures, mos_gap, ratios, table
from bench_voices import mean_mel, stretched

from voxyard.corpus import espeak
from voxyard.corpus.layouts.lines import MetadataLine
from voxyard.speech.verification.mean_opinion import RATE, SECONDS, log_mel, segments

ROOT = Path(__file__).resolve().parents[3]
TEXTS = (
    "Press 1, please.", "press one please", "Press two now.", "Two, please, now!", "One more door.", "A door.",
    "I’m at the door", "Two of the more", "xyzzy now",
)  # fmt: skip


def sentences(*texts: str) -> list[Sentence]:
    return [sentence(f"clip-{number}", text) for number, text in enumerate(texts)]


def judgement(clip: str, identified: bool, mos: float, *, unseen: bool = False) -> Judgement:
    return Judgement(clip, unseen, identified, mos)


def judged(**more: list[Judgement]) -> dict[str, list[Judgement]]:
    found = {
        RECORDINGS: [judgement("a", True, 4.0), judgement("b", True, 3.0), judgement("c", True, 3.5, unseen=True)],
        COPY: [judgement("a", True, 3.5), judgement("b", False, 2.9), judgement("c", True, 3.2, unseen=True)],
        CONTROL: [judgement("a", False, 1.0), judgement("b", False, 1.0), judgement("c", True, 1.0, unseen=True)],
    }
    return found | more


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_speech", ROOT / "tests/bench/speech.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tests/bench")
        spec.loader.exec_module(module)
    return module


# -- sentences -------------------------------------------------------------------------------------------------------


def test_a_sentence_is_its_words_with_numbers_spelled_out() -> None:
    assert sentence("x", "I’m at extension 12 — hold...").words == ("i'm", "at", "extension", "twelve", "hold")


def test_a_text_that_is_spoken_twice_is_judged_once_and_one_of_unknown_words_never() -> None:
    known = {word for text in TEXTS[:-1] for word in sentence("", text).words}
    found = one_clip_each(sentences(*TEXTS), known)
    assert [each.clip for each in found] == [f"clip-{number}" for number in (0, 2, 3, 4, 5, 6, 7)]


def test_every_word_of_a_held_out_sentence_is_trained_on_in_another_one() -> None:
    every = sentences(*(f"{a} {b} {c}" for a in ("one", "two") for b in ("red", "blue") for c in ("doors", "keys")))
    every += sentences("a single word", "doors")
    unseen = held_out(every)
    trained = {word for each in every if each.words not in unseen for word in each.words}
    assert 1 <= len(unseen) <= 0.15 * len(every)
    assert all(set(words) <= trained and len(words) >= 3 for words in unseen)
    assert held_out(every[::-1]) == unseen


def test_nothing_is_held_out_where_every_sentence_has_a_word_of_its_own() -> None:
    names = ["alpha", "bravo", "charlie", "delta", "echo", "golf", "hotel", "india"]
    assert held_out(sentences(*(f"the word is {name}" for name in names))) == set()


def test_all_clips_of_a_held_out_sentence_leave_the_training_split(tmp_path: Path) -> None:
    texts = ("One.", "Two, please.", "two please")
    lines = [MetadataLine(f"c{i}", text, "", "", Path(f"c{i}.wav")) for i, text in enumerate(texts)]
    (tmp_path / "source/wavs").mkdir(parents=True)
    write_corpus(tmp_path / "source", lines, {("two", "please")}, tmp_path / "split")
    assert (tmp_path / "split/metadata_train.csv").read_text(encoding="utf-8") == "c0|One.|One.\n"
    held = (tmp_path / "split/metadata_eval.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[0] for line in held] == ["c1", "c2"]
    assert (tmp_path / "split/wavs").is_dir()


def test_judged_sentences_are_spread_over_the_corpus_and_a_quarter_is_new(benchmark: ModuleType) -> None:
    every = sentences(*(f"number {number}" for number in range(40)))
    new = {each.words for each in every[1::2]}
    found = benchmark.chosen(split(every, new), 12)
    assert [each.unseen for each in found] == [False] * 9 + [True] * 3
    assert len({each.clip for each in found}) == 12
    assert spread(every, 4) == every[::10]
    assert spread(every, 99) == every


def test_the_voice_is_judged_at_the_checkpoints_and_at_the_end(benchmark: ModuleType) -> None:
    assert benchmark.checkpoints(30) == [5, 15, 30]
    assert benchmark.checkpoints(20) == [5, 15, 20]
    assert benchmark.checkpoints(2.5) == [2.5]


# -- control ---------------------------------------------------------------------------------------------------------


def test_a_stretched_mel_goes_from_its_first_frame_to_its_last() -> None:
    ramp = np.arange(5.0)[:, None] * [1, 2]
    np.testing.assert_allclose(stretched(ramp, 9), np.arange(0, 4.5, 0.5)[:, None] * [1, 2])
    np.testing.assert_array_equal(stretched(ramp, 5), ramp)
    assert stretched(ramp, 2).tolist() == [[0, 0], [4, 8]]
    assert stretched(ramp[:1], 3).tolist() == [[0, 0]] * 3


def test_the_mean_mel_is_that_of_all_clips_at_one_length() -> None:
    mean = mean_mel([np.zeros((2, 1)), np.full((4, 1), 2.0)])
    assert mean.tolist() == [[1.0], [1.0], [1.0]]


# -- judges ----------------------------------------------------------------------------------------------------------


def test_the_recogniser_tells_one_sentence_of_a_closed_list_from_the_others() -> None:
    every = sentences("Good morning to you.", "The door is closed.", "Where is my other shoe?")
    grammar = ClosedGrammar()
    assert grammar.known({"door", "xyzzy"}) == {"door"}
    grammar.listen_for({each.words for each in every})
    espeak.restart()
    for each in every:
        sound, rate = espeak.speak(each.text, "en-us", words_per_minute=150)
        assert grammar.identify((sound / 32768).astype(np.float32), rate) == each.words


def test_the_judge_of_quality_sees_the_spectrogram_that_its_model_was_trained_on() -> None:
    """Figures of librosa 0.11 (float32) with speechmos 0.0.1.1's arguments, for the same noise."""
    found = log_mel((0.1 * np.random.default_rng(0).normal(size=16000)).astype(np.float32))
    assert found.shape == (100, 120)
    np.testing.assert_allclose(found[0, :3], [-0.15251617, 0.66630733, -0.02283964], atol=1e-6)
    np.testing.assert_allclose(found[50, [0, 40, 80, 119]], [-0.04205646, 0.6612272, 0.6599554, 0.6503469], atol=1e-6)
    np.testing.assert_allclose(found[-1, :3], [-0.64669514, 0.1721282, -0.28857318], atol=1e-6)


@pytest.mark.parametrize(("seconds", "count"), [(1.0, 7), (9.5, 1), (10.5, 1), (17.434, 7)])
def test_a_sound_is_repeated_to_fill_a_segment_and_cut_each_second(seconds: float, count: int) -> None:
    """As many segments as speechmos 0.0.1.1 takes."""
    sound = np.arange(int(seconds * RATE), dtype=np.float32)
    found = segments(sound)
    assert len(found) == count
    assert all(len(each) == int(SECONDS * RATE) for each in found)


# -- tables ----------------------------------------------------------------------------------------------------------


def test_without_a_voice_only_the_figures_of_control_and_copy_are_there() -> None:
    assert ratios(judged(), None) == {
        "identified_mean_mel": pytest.approx(1 / 3),
        "griffin_lim_mos_gap": pytest.approx((0.5 + 0.1 + 0.3) / 3),
    }


def test_a_voice_is_compared_with_the_copy_on_what_it_was_trained_on() -> None:
    voice = [judgement("a", True, 3.0), judgement("b", True, 3.0), judgement("c", False, 3.0, unseen=True)]
    found = ratios(judged(voice=voice), "voice")
    assert found["identified"] == 1.0
    assert found["identified_vs_copy_synthesis"] == 2.0
    assert found["identified_unseen"] == 0.0


def test_a_vocoder_is_judged_by_its_gap_to_the_recordings(benchmark: ModuleType) -> None:
    vocoder = benchmark.vocoder_of("trained 5 minutes")
    copies = [judgement(clip, True, 2.0, unseen=clip == "c") for clip in "abc"]
    found = judged(**{"trained 5 minutes": copies, vocoder: copies})
    assert ratios(found, "trained 5 minutes", vocoder)["vocoder_mos_gap"] == pytest.approx(1.5)


def test_a_figure_for_which_nothing_was_judged_is_left_out() -> None:
    seen = {name: [each for each in those if not each.unseen] for name, those in judged().items()}
    assert "identified_unseen" not in figures(seen)[COPY]
    assert "identified_unseen" not in ratios(seen | {"voice": seen[COPY]}, "voice")


def test_the_gap_is_taken_clip_by_clip_with_its_standard_error() -> None:
    gap, error = mos_gap(judged(), COPY)
    assert gap == pytest.approx(0.3)
    assert error == pytest.approx(0.2 / np.sqrt(3))


def test_the_best_checkpoint_is_the_one_that_was_understood_the_most() -> None:
    voices = {name: [judgement("a", right, 3.0)] for name, right in (("one", False), ("two", True), ("three", True))}
    assert best(voices, ["one", "two", "three"]) == "two"
    assert best({}, []) is None


def test_the_table_says_what_was_not_measured() -> None:
    found = judged()
    result: dict[str, Any] = {"ratios": ratios(found, None), "figures": {"contestants": figures(found)}}
    lines = table(result).splitlines()
    assert "| Griffin-Lim copy | 0.50 | 1.00 | 3.20 |" in lines
    assert "| `identified_unseen` | not measured | ≥ 0.5 |" in lines
    assert "| `griffin_lim_mos_gap` | 0.30 |  |" in lines


@pytest.mark.parametrize("text", ["", "clip|text|text|speaker|more"])
def test_a_folder_that_is_no_corpus_ends_in_words(benchmark: ModuleType, tmp_path: Path, text: str) -> None:
    if text:
        (tmp_path / "metadata.csv").write_text(text)
    with pytest.raises(benchmark.CorpusError):
        benchmark.opened(tmp_path)


@pytest.mark.slow
def test_without_recordings_the_demo_corpus_is_judged_and_it_is_said(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "CORPUS", tmp_path / "nowhere")
    made = benchmark.default_corpus(tmp_path)
    assert (made / "metadata.csv").is_file()
    assert "demo corpus" in capsys.readouterr().err
    monkeypatch.setattr(benchmark, "CORPUS", made)
    assert benchmark.default_corpus(tmp_path) == made
