"""Tables and folders as other programs write them: read right, or refused with what was found and what to do."""

from __future__ import annotations

import re
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
    ("NVIDIA-NeMo/Speech#2234", "metadata.jsonl",
     '{{"audio_filepath": "audio/c{i}.wav", "duration": 0.5, "text": "{text}"}}', "audio/c{i}.wav", ""),
    ("NVIDIA-NeMo/Speech#4879", "metadata.jsonl",
     '{{"id": {i}, "audio_filepath": "./a/c{i}.wav", "original_text": "No. {i}", "normalized_text": "{text}"}}',
     "a/c{i}.wav", ""),
    ("NVIDIA-NeMo/Speech#7539", "metadata.jsonl",
     '{{"audio_filepath": "c{i}.wav", "text": "{text}", "speaker": "{who}"}}', "c{i}.wav", ""),
    ("huggingface/datasets#7856", "metadata.jsonl", '{{"file_name": "a/c{i}.mp3", "transcript": "{text}"}}',
     "a/c{i}.mp3", ""),
    ("unslothai/unsloth#2715", "metadata.csv", 'wavs/c{i}.wav,"{text}"', "wavs/c{i}.wav", "filename,text"),
    ("huggingface/datasets#5465", "metadata.csv", "data/c{i}.mp3,{text}", "data/c{i}.mp3", "file_name,transcription"),
    ("huggingface/datasets#5046", "metadata.csv", "c{i}.wav,{text}", "c{i}.wav", "file_name,transcription"),
    ("huggingface/datasets#5046", "metadata.jsonl", '{{"audio": {{"path": "c{i}.wav"}}, "text": "{text}"}}',
     "c{i}.wav", ""),
    ("mdangschat/ctc-asr#8", "metadata.csv", 'wavs/c{i}.wav, "{text}"', "wavs/c{i}.wav", "File Name, Text"),
    ("mdangschat/ctc-asr#8", "filelist.txt", "clips/c{i}.wav;{text};0.5", "clips/c{i}.wav", "path;label;length"),
    ("mozilla/DeepSpeech#3551", "filelist.txt", "{who}\tc{i}.mp3\t{text}", "clips/c{i}.mp3",
     "client_id\tpath\tsentence"),
    ("WhisperSpeech/WhisperSpeech#55", "metadata.csv", "c{i}.wav|{text}|{who}", "wavs/c{i}.wav",
     "audio_file_name|text|speaker_name"),
    ("google/language-resources#47", "filelist.txt", "c{i}\t{text}", "c{i}.wav", ""),
    ("alphacep/vosk-tts#37", "metadata.csv", "c{i}\t{text}", "wavs/c{i}.wav", ""),
    ("TensorSpeech/TensorFlowTTS#469", "metadata.csv", "c{i}|{text}", "wav/c{i}.wav", ""),
    ("huggingface/datasets#5046", "metadata.csv", "c{i}|{text}", "c{i}.wav", ""),
    ("coqui-ai/TTS#1203", "metadata.csv", "c{i}||{text}", "wavs/c{i}.wav", ""),
    ("stlohrey/dia-finetuning#3", "filelist.txt", "c{i}|{text}", "wavs/c{i}.wav", ""),
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
    ("alphacep/vosk-tts#37", "metadata.csv", "c{i} {text}", r"no \| in its lines.*expected id\|text"),
    ("WhisperSpeech/WhisperSpeech#55", "metadata.csv", "c{i}|{text}|{who}",
     r"speakers where normalized texts are expected, such as 'mia' for 'the first one'.*id\|text\|speaker"),
    ("Tomiinek/Multilingual_Text_to_Speech#27", "metadata.csv", "c{i}|{text}|{text}|3.25",
     r"numbers where speakers are expected, such as '3.25'.*id\|text\|normalized\|length"),
    ("stlohrey/dia-finetuning#3", "filelist.txt", "c{i}|{text}|{text}",
     "texts where speakers are expected, such as 'the first one': give the folder"),
    ("RVC-Boss/GPT-SoVITS#832", "filelist.txt", "wavs/c{i}.wav|{who}|EN|{text}",
     r"has 4 columns, such as 'wavs/c0.wav\|mia\|EN\|the first one'.*path\|speaker\|language\|text"),
    ("Kyubyong/kss#2", "filelist.txt", "wavs/c{i}.wav|{text}|{text}|{text}|3.5|{text}", "has 6 columns"),
    ("unslothai/unsloth#2715", "metadata.csv", '"c{i}|{text}"', "has quotes around its lines, such as '\"c0'"),
    ("NVIDIA-NeMo/Speech#4156", "metadata.jsonl", '{{"wave": "c{i}.wav", "words": "{text}"}}',
     "has JSON with wave, words: expected audio_filepath and text in each line"),
    ("AI4Bharat/IndicVoices-R#9", "metadata.jsonl",
     '{{"audio_filepath": "c{i}.wav", "text": "{text}", "begin_time": {i}.5}}',
     "has parts of longer recordings .begin_time.: cut each into a file of its own"),
    ("coqui-ai/STT#2321", "metadata.csv", 'file_name,text\nwavs/c{i}.wav,"{text}', "cannot be read to its end .line"),
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


def test_speakers_may_have_names_of_two_words(tmp_path: Path) -> None:
    _sounds(tmp_path, "c{i}.wav")
    names = ("Ann Fox", "Mia Lee", "Zoe Ray", "Zoe Roe")
    _write(tmp_path, "filelist.txt", [f"c{i}.wav|{TEXTS[i]}|{name}" for i, name in enumerate(names)])
    assert open_corpus(tmp_path).speakers == names


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
        ("Anna/book/metadata.csv", ["a|b"], "Anna/book in it looks like one .ljspeech., give .*Anna/book; exp"),
        ("train.tsv", ["path\tsentence"], "train.tsv in it looks like one .list., give .*train.tsv; exp"),
        (
            "manifest.json",
            ['{"audio_filepath": "a.wav", "text": "hello"}'],
            "manifest.json in it looks like one .list.,",
        ),
        (
            "transcript.tsv",
            ["who\tname\twords"],
            r"transcript.tsv in it is no list, its first line is 'who.tname.twords', and",
        ),
        ("__MACOSX/metadata.csv", ["a|b"], "it holds __MACOSX/: expected"),
        ("data/train-00000.parquet", ["PAR1"], "a data set of Hugging Face in Parquet: write its clips as a list"),
        ("wav.scp", ["a a.wav"], "a data folder of Kaldi: write its clips as a list"),
        ("basic5000/transcript_utf8.txt", ["A1:水"], "such as JSUT .ID:text.: write its clips as a list"),
        ("etc/txt.done.data", ['( a "hello" )'], "a corpus of Festvox, as CMU Arctic: write its clips as a list"),
        ("book.srt", ["1"], "long recordings with subtitles, which are to be cut first: write"),
        ("GigaSpeech.json", ['{"audios": []}'], "texts in JSON of another form than one object a line"),
    ],
)
def test_a_folder_above_a_corpus_says_where_the_corpus_is(
    name: str, lines: list[str], said: str, tmp_path: Path
) -> None:
    """coqui-ai/TTS#2931, idiap/coqui-ai-TTS#407."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    _write(tmp_path, name, lines)
    with pytest.raises(CorpusError, match=said):
        find_layout(tmp_path)


def test_a_folder_of_recordings_points_to_the_corpus_above(tmp_path: Path) -> None:
    _sounds(tmp_path, "wavs/c{i}.wav")
    _write(tmp_path, "metadata.csv", _lines("c{i}|{text}"))
    with pytest.raises(CorpusError, match=rf"the folder above looks like one .ljspeech., give {tmp_path}; expected"):
        find_layout(tmp_path / "wavs")


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("cp1252", "byte 29; line 2"),
        ("utf-16", "byte 0; it looks like UTF-16"),
        ("utf-16-be", "byte [01]; .*"),
        ("gbk", "byte 29; line 2"),
    ],
)
def test_another_encoding_is_named_with_its_line(encoding: str, said: str, tmp_path: Path) -> None:
    """fatchord/WaveRNN#168, 152334H/DL-Art-School#43."""
    _write(tmp_path, "metadata.csv", ["c0|the first one", "c1|and the s‘cond"], encoding)
    with pytest.raises(CorpusError, match=rf"is not UTF-8 \({said}\): save it as UTF-8"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        (
            ["c0|the first", "c1|this | or that", "c2|a third", "c3|a fourth", "c4|a fifth"],
            {"c1": "3 columns where most"},
        ),
        (["c0|the first", "c1|No. 2|number two", "c2|a third|a third"], {}),
        (["c0|the first", "c1|the second|the second", "c2|a third", "c3|a fourth", "c4|a fifth"], {}),
        (["file_name,text", 'c0,"one, two"', 'c1,"three ""four"""', "c2,five,six"], {"c2": "3 columns; .* names 2"}),
        (['{"file": "c0", "text": "one"}', "c1", '{"file": "c2"}'], {"line 2": "no id", "c2": "no transcript"}),
    ],
)
def test_a_line_that_differs_from_the_others_is_named(lines: list[str], bad: dict[str, str], tmp_path: Path) -> None:
    """rhasspy/piper#447: of a text with | in it only a part would be learned."""
    _sounds(tmp_path, "wavs/c{i}.wav")
    write_wav(tmp_path / "wavs" / "c4.wav", tone(0.5))
    _write(tmp_path, "metadata.csv", lines)
    told = {one.clip: one.reason for one in check(tmp_path, strict()).bad}
    assert told.keys() == bad.keys()
    assert all(re.search(said, told[clip]) for clip, said in bad.items())


def test_a_speaker_is_one_however_the_accents_of_the_name_are_composed(tmp_path: Path) -> None:
    _sounds(tmp_path, "c{i}.wav")
    _write(tmp_path, "filelist.txt", [f"c{i}.wav|{TEXTS[i]}|{who}" for i, who in enumerate((COMPOSED, DECOMPOSED))])
    assert open_corpus(tmp_path).speakers == (COMPOSED,)


def test_a_corpus_that_evaluates_on_all_of_its_clips_has_none_to_train_on(tmp_path: Path) -> None:
    """anhnh2002/XTTSv2-Finetuning-for-New-Languages#33."""
    _sounds(tmp_path, "wavs/c{i}.wav")
    for table in ("metadata_train.csv", "metadata_eval.csv"):
        _write(tmp_path, table, _lines("c{i}|{text}"))
    with pytest.raises(CorpusError, match=r"all of its 4 clips in metadata_eval\.csv too, so none is left to train on"):
        open_corpus(tmp_path)


# (source, text of each clip, names on the disk, clips)
PAIRS = [
    ("davidbrowne17/csm-streaming#19", "c{i}.txt", "c{i}.wav", "c{i}"),
    ("snakers4/open_stt#1", "{who}/c{i}.txt", "{who}/c{i}.flac", "{who}/c{i}"),
    ("fishaudio/fish-speech#81", "{who}/1.5-{i}.44.lab", "{who}/1.5-{i}.44.mp3", "{who}/1.5-{i}.44"),
    ("lucidrains/e2-tts-pytorch#47", "transcript/c{i}.txt", "audio/c{i}.wav", "c{i}"),
    ("lhotse-speech/lhotse#227", "text/{who}/c.{i}.txt", "wav/{who}/c.{i}.wav", "{who}/c.{i}"),
    ("CorentinJ/Real-Time-Voice-Cloning#841", "{who}/7/c{i}.txt", "{who}/7/c{i}.wav", "{who}/7/c{i}"),
]


@pytest.mark.parametrize(("source", "text", "sound", "clip"), PAIRS)
def test_texts_of_the_same_names_as_their_recordings_are_read(
    source: str, text: str, sound: str, clip: str, tmp_path: Path
) -> None:
    """A folder is a speaker, but not one that only parts texts from recordings; notes about a corpus are no text."""
    for place in ("README.txt", "._c0.txt", "@eaDir/c0.txt"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("all about it")
    for name, words in zip(_lines(text), TEXTS, strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{words}\n")
    for name in _lines(sound):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_wav(tmp_path / name, tone(0.5))
    found = open_corpus(tmp_path)
    read = {name: decode(found.read(i).tokens) for i, name in enumerate(found.ids)}
    assert read == dict(zip(_lines(clip), TEXTS, strict=True)), source
    assert found.speakers == (("mia", "zoe") if "{who}" in text else ("",))


def test_of_pairs_each_half_is_named_and_labels_with_times_are_no_sentence(tmp_path: Path) -> None:
    for name, text in (("a", "hello"), ("c", "no sound"), ("times", "0 50 pau\n50 90 h\n90 99 e\n")):
        (tmp_path / f"{name}.lab").write_text(text)
    for name in ("a", "b", "times"):
        write_wav(tmp_path / f"{name}.wav", tone(0.5))
    told = {one.clip: one.reason for one in check(tmp_path, strict()).bad}
    assert told == {
        "b": "it has no text: expected b.txt",
        "c": "its recording is missing",
        "times": "times.lab has 4 lines, as times of sounds have: expected one sentence",
    }


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
