"""Tables and folders as other programs write them: read right, or refused with what was found and what to do."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from tones import open_corpus, strict, tone, write_wav

from voxyard.corpus import CorpusError, check
from voxyard.corpus.layouts.recognize import find_layout
from voxyard.corpus.text import decode

TEXTS = ("the first one", "and the second", "a third of them", "the last")
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "straße é") for form in ("NFC", "NFD"))

# (source, table, line of each clip, names on the disk, line before them); {i} is a number, {text} and {who} are words
READ = [
    ("SWivid/F5-TTS#62", "metadata.csv", "wavs/c{i}.wav|{text}", "wavs/c{i}.wav", ""),
    ("SWivid/F5-TTS#332", "metadata.csv", "c{i}.wav|{text}", "wavs/c{i}.wav", ""),
    ("SWivid/F5-TTS#332", "metadata.csv", "c{i}.flac|{text}", "wavs/c{i}.wav", ""),
    ("huggingface/datasets#3016", "metadata.csv", r"wavs\c{i}|{text}", "wavs/c{i}.wav", ""),
    ("huggingface/datasets#3016", "filelist.txt", r"wavs\c{i}.wav|{text}", "wavs/c{i}.wav", ""),
    ("SWivid/F5-TTS#1256", "metadata.csv", "c{i}|{text}", "wavs/c{i}.wav", "audio_file|text"),
    ("daswer123/xtts-finetune-webui#42", "metadata.csv", "wavs/c{i}.wav|{text}|{who}", "wavs/c{i}.wav",
     "audio_file|text|speaker_name"),
    ("rhasspy/piper#246", "metadata.csv", "c{i}|{who}|{text}", "wavs/c{i}.wav", "id|speaker|text"),
    ("alphacep/vosk-tts#7", "metadata.csv", "c{i}|{who}|No. {i}|{text}", "wavs/c{i}.wav",
     "ID|Speaker|Text|Normalized text"),
    ("thorstenMueller/Thorsten-Voice#2", "metadata.csv", "c{i}|{text}|13", "wavs/c{i}.wav", "id|text|length"),
    ("SayaSS/vits-finetuning#2", "filelist.txt", "wavs/c{i}.wav|{who}|{text}", "wavs/c{i}.wav", "path|speaker|text"),
    ("fishaudio/audio-preprocess#39", "metadata.csv", "c{i}|{text}", "wavs/c{i}.WAV", ""),
    ("fishaudio/audio-preprocess#39", "metadata.csv", "c{i}|{text}", "wavs/c{i}.Aiff", ""),
    ("rhasspy/piper#368", "filelist.txt", "Wavs/C{i}.wav|{text}", "wavs/c{i}.wav", ""),
    ("SWivid/F5-TTS#332", "filelist.txt", "wavs/c{i}|{text}", "wavs/c{i}.wav", ""),
    ("SWivid/F5-TTS#332", "filelist.txt", "wavs/c{i}.wav|{text}", "wavs/c{i}.flac", ""),
    ("owncloud/core#21365", "metadata.csv", f"{COMPOSED}{{i}}|{{text}}", f"wavs/{DECOMPOSED}{{i}}.wav", ""),
    ("renpy/renpy#2327", "filelist.txt", f"wavs/{DECOMPOSED}{{i}}.wav|{{text}}", f"wavs/{COMPOSED}{{i}}.wav", ""),
    ("lhotse-speech/lhotse#740", "validated.tsv", "{who}\tc{i}\t{text}", "clips/c{i}.mp3", "client_id\tpath\tsentence"),
    ("lhotse-speech/lhotse#740", "validated.tsv", "{who}\tc{i}.mp3\t{text}", "clips/c{i}.wav",
     "client_id\tpath\tsentence"),
]  # fmt: skip

# (source, table, line of each clip, what is said)
REFUSED = [
    ("rhasspy/piper#246", "metadata.csv", "c{i}|{who}|{text}",
     r"such as 'the first one', and what looks like speakers before them, such as 'mia': expected id.*path\|speaker"),
    ("alphacep/vosk-tts#7", "metadata.csv", "c{i}|{who}|{text}|{text}", "what looks like speakers before them"),
    ("SayaSS/vits-finetuning#2", "filelist.txt", "wavs/c{i}.wav|{who}|{text}", "what looks like speakers before them"),
    ("thorstenMueller/Thorsten-Voice#2", "metadata.csv", "c{i}|{text}|13",
     "numbers where normalized texts are expected, such as '13' for 'the first one'"),
    ("Tomiinek/Multilingual_Text_to_Speech#27", "metadata.csv", "c{i}|{text}|3.25", "numbers where normalized texts"),
    ("keithito/tacotron#253", "metadata.csv", 'c{i},"{text}"', r"no \| in its lines, such as 'c0,\"the first one\"'"),
    ("keithito/tacotron#253", "metadata.csv", "c{i};{text}", r"no \| in its lines"),
    ("alphacep/vosk-tts#37", "metadata.csv", "c{i}\t{text}", r"no \| in its lines.*expected id\|text"),
]  # fmt: skip


def _write(root: Path, table: str, lines: Sequence[str], encoding: str = "utf-8") -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / table).write_bytes("\n".join(lines).encode(encoding))


def _lines(form: str) -> list[str]:
    return [form.format(i=i, text=text, who=("mia", "zoe")[i % 2]) for i, text in enumerate(TEXTS)]


def _sounds(root: Path, names: str) -> None:
    for i in range(len(TEXTS)):
        path = root / names.format(i=i)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, tone(0.5))  # also where the name says another format: the content counts


@pytest.mark.parametrize(("source", "table", "form", "names", "first"), READ)
def test_a_table_as_others_write_it_is_read(
    source: str, table: str, form: str, names: str, first: str, tmp_path: Path
) -> None:
    """Each text once, with its recording and its speaker; a line that names the columns is no clip."""
    _sounds(tmp_path, names)
    _write(tmp_path, table, [first, *_lines(form)] if first else _lines(form))
    found = open_corpus(tmp_path)
    assert [decode(found.read(i).tokens) for i in range(len(found))] == list(TEXTS), source
    assert found.speakers == (("mia", "zoe") if "{who}" in form else ("",))


@pytest.mark.parametrize(("source", "table", "form", "said"), REFUSED)
def test_columns_in_another_order_or_between_other_signs_are_refused(
    source: str, table: str, form: str, said: str, tmp_path: Path
) -> None:
    """A model would learn to say the names of speakers, or lengths."""
    _sounds(tmp_path, "wavs/c{i}.wav")
    _write(tmp_path, table, _lines(form))
    with pytest.raises(CorpusError, match=said):
        open_corpus(tmp_path, max_bad_share=1.0)
    assert source


@pytest.mark.parametrize(
    "lines",
    [
        ["c0|yes|yes|mia lee", "c1|no|no|zoe ray", "c2|yes|yes|ann fox"],  # words, and speakers of two names
        ["c0|1963|nineteen sixty three", "c1|1964|nineteen sixty four", "c2|1963|nineteen sixty three"],
        ["c0|12|12", "c1|13|13", "c2|14|14"],
        ["c0|12 cats|12", "c1|two cats|two cats", "c2|three|three"],
    ],
)
def test_columns_in_the_right_order_are_read_whatever_is_in_them(lines: list[str], tmp_path: Path) -> None:
    _sounds(tmp_path, "wavs/c{i}.wav")
    _write(tmp_path, "metadata.csv", lines)
    assert len(open_corpus(tmp_path)) == len(lines)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("https://example.org/c0.wav", "the path is an address on the network: copy"),
        ("C:\\data\\c0.wav", "the path is of a disk of Windows: copy"),
        ("/nowhere/at/all/c0.wav", "c0.wav is missing .there is no folder /nowhere/at/all"),
        ("wavs/other.wav", "other.wav is missing .there is no such file in .*wavs"),
        ("wavs/link.wav", "link.wav is missing .it is a link to gone.wav, which is not there"),
    ],
)
def test_a_recording_that_is_not_there_is_named_with_the_place(path: str, said: str, tmp_path: Path) -> None:
    _sounds(tmp_path, "wavs/c{i}.wav")
    (tmp_path / "wavs" / "link.wav").symlink_to("gone.wav")
    _write(tmp_path, "filelist.txt", [f"{path}|{TEXTS[0]}"])
    with pytest.raises(CorpusError, match=said):
        open_corpus(tmp_path)


def test_of_two_names_that_differ_in_case_none_is_taken_for_a_third(tmp_path: Path) -> None:
    for name in ("clip", "CLIP"):
        _sounds(tmp_path, f"wavs/{name}.wav")
    _write(tmp_path, "metadata.csv", ["Clip|the first one"])
    with pytest.raises(CorpusError, match="is missing"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        (
            "LJSpeech-1.1/metadata.csv",
            ["a|b"],
            "LJSpeech-1.1 in it looks like one .ljspeech., give .*LJSpeech-1.1; exp",
        ),
        ("de/validated.tsv", ["path"], "de in it looks like one .commonvoice., give .*de; expected"),
        ("train.list", ["wavs/a.wav|mia|en|hello"], "train.list in it looks like one .list., give .*train.list; exp"),
        ("LJSpeech.tar.bz2", ["x"], "unpack LJSpeech.tar.bz2; expected"),
        ("notes.txt", ["nothing"], "it holds notes.txt: expected"),
    ],
)
def test_a_folder_above_a_corpus_says_where_the_corpus_is(
    name: str, lines: list[str], said: str, tmp_path: Path
) -> None:
    """coqui-ai/TTS#2931, idiap/coqui-ai-TTS#407."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    _write(tmp_path, name, lines)
    with pytest.raises(CorpusError, match=said):
        find_layout(tmp_path)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("cp1252", "byte 29; line 2"), ("utf-16", "byte 0; it looks like UTF-16"), ("gbk", "byte 29; line 2")],
)
def test_another_encoding_is_named_with_its_line(encoding: str, said: str, tmp_path: Path) -> None:
    """fatchord/WaveRNN#168, 152334H/DL-Art-School#43."""
    _write(tmp_path, "metadata.csv", ["c0|the first one", "c1|and the s‘cond"], encoding)
    with pytest.raises(CorpusError, match=rf"is not UTF-8 \({said}\): save it as UTF-8"):
        open_corpus(tmp_path)


def test_files_that_macos_adds_are_no_clips(tmp_path: Path) -> None:
    """OpenNeuroOrg/openneuro#2520, Rayhane-mamah/Tacotron-2#14."""
    for root, sound, text in (
        (tmp_path / "libritts", "mia/1/{}mia_1.wav", "mia/1/{}mia_1.normalized.txt"),
        (tmp_path / "vctk", "wav48/mia/{}mia_1.wav", "txt/mia/{}mia_1.txt"),
    ):
        for name in (sound, text):
            (root / name.format("")).parent.mkdir(parents=True, exist_ok=True)
            (root / name.format("._")).write_bytes(b"\0\x05\x16\x07\xff")
        write_wav(root / sound.format(""), tone(0.5))
        (root / text.format("")).write_text(TEXTS[0])
        assert list(open_corpus(root).ids) == ["mia_1"]


def test_a_clip_that_a_table_of_common_voice_has_twice_is_named(tmp_path: Path) -> None:
    _sounds(tmp_path, "clips/c{i}.mp3")
    lines = _lines("{who}\tc{i}.mp3\t{text}")
    _write(tmp_path, "validated.tsv", ["client_id\tpath\tsentence", *lines, lines[0]])
    report = check(tmp_path, strict())
    assert (report.clips, [one.reason for one in report.bad]) == (
        len(TEXTS),
        ["line 6 of validated.tsv: the path is there twice"],
    )
