"""Messages of `voxyard speak` on an unfinished file, and on a GPU that is not free: nothing is thrown away."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
import pytest
from click.testing import CliRunner
from eventually import eventually
from frontends import TonesFrontend

from voxyard.bark.config import BarkConfig
from voxyard.cli.base import CHECK_FAILED
from voxyard.cli.documents import read_document
from voxyard.cli.engines import choose_engine
from voxyard.cli.speak import SpeakConfig, _partial, _progress_display, _speak, _summary, speak
from voxyard.extraction.errors import ExtractionError
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.encoder import EncodeError
from voxyard.speech.audio.sound_file import SoundFile, check_target, open_sound
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.job import ChunkFailedError, Progress
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request
from voxyard.speech.script import Script
from voxyard.speech.synthesize import SynthesisResult


def test_sound_that_was_written_and_not_yet_counted_is_kept(tmp_path: Path) -> None:
    sound = open_sound(tmp_path / "a.wav")
    sound.write(np.zeros(24_000, np.float32))
    said = _partial(SynthesisResult(6), sound)
    assert f"{tmp_path / 'a.part.wav'} holds the first 1 of 6 chunks" in said
    assert (tmp_path / "a.part.wav").exists()


def test_chunks_that_became_silence_are_counted_in_the_message(tmp_path: Path) -> None:
    sound = open_sound(tmp_path / "a.wav")
    sound.write(np.zeros(24_000, np.float32))
    failed = [ChunkFailedError(number, "text", "no worker could be started") for number in range(2)]

    said = _partial(SynthesisResult(6, chunks=3, failures=failed), sound)

    assert "holds the first 3 of 6 chunks, 2 of them as silence, 1.0 s" in said


def test_a_file_without_sound_is_removed(tmp_path: Path) -> None:
    assert _partial(SynthesisResult(6), open_sound(tmp_path / "a.wav")) == "nothing was written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoken", "lost"),
    [
        (0, ""),
        (1, ": 1 chunk of 6 was spoken before the first, and lost"),
        (4, ": 4 chunks of 6 were spoken before the first, and lost"),
    ],
)
def test_chunks_that_were_spoken_and_not_written_are_told(tmp_path: Path, spoken: int, lost: str) -> None:
    said = _partial(SynthesisResult(6, spoken=spoken), open_sound(tmp_path / "a.wav"))

    assert said == f"nothing was written{lost}"


def test_a_second_ctrl_c_does_not_stop_the_closing_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Good morning.")
    abandon, handler = SoundFile.abandon, signal.getsignal(signal.SIGINT)

    def interrupted(script: object, pool: object, write: object, *_: object) -> None:
        raise KeyboardInterrupt

    def interrupted_again(file: SoundFile) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return abandon(file)

    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    monkeypatch.setattr("voxyard.speech.synthesize.synthesize", interrupted)
    monkeypatch.setattr(SoundFile, "abandon", interrupted_again)
    arguments = [str(tmp_path / "text.txt"), "--device", "cpu", "--out", str(tmp_path / "a.wav")]

    ended = CliRunner().invoke(speak, arguments)

    assert ended.exit_code == 130
    assert "voxyard speak: interrupted\nvoxyard speak: nothing was written" in ended.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["text.txt"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_characters_that_are_lost_are_told_and_those_that_are_misread_are_mended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text.txt").write_text("The rain fell all night. " * 40 + "caf\ufffd " * 8 + "It wasnâ€™t.", "utf-8")
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    done = CliRunner().invoke(speak, [str(tmp_path / "text.txt"), "--engine", "bark", "--show-words"])
    assert done.exit_code == 0, done.output
    assert "It wasn’t." in done.output
    (warning,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert warning.startswith("characters are lost at 8 places, the first after “")


def test_a_language_that_is_not_known_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text.txt").write_text("Good morning.")
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    for language, said in (("xx", "'xx' is not known"), ("fr", "the language fr, and the voice")):
        caplog.clear()
        options = ["--engine", "bark", "--show-words", "--language", language]
        done = CliRunner().invoke(speak, [str(tmp_path / "text.txt"), *options])
        assert done.exit_code == 0, done.output
        (warning,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
        assert said in warning


def test_a_file_whose_encoder_is_not_installed_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EncodeError, match=r"a.mp3 needs PyAV, which is not installed: pip install 'av.*\.wav or \.pcm"):
        check_target(tmp_path / "a.mp3")
    check_target(tmp_path / "a.wav")
    check_target(tmp_path / "a.pcm")


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of six chunks, of which two cannot be spoken."""
    engine = TonesFrontend({"poison": [1, 4]}, max_tokens=4)
    monkeypatch.setattr("voxyard.speech.frontend.open_frontend", lambda *_: engine)
    path = tmp_path / "story.txt"
    path.write_text(" ".join(f"This is sentence {word}." for word in ("one", "two", "three", "four", "five", "six")))
    return path


def spoken(story: Path, on_failure: str, name: str = "out.wav") -> int:
    """`voxyard speak`, without its command line: the exit code."""
    config = SpeakConfig.model_validate({"speak": {"on_failure": on_failure}, "bark": {"device": "cpu"}})
    try:
        engine = choose_engine(config.speech, config.bark, {})
        return _speak(config, engine, story, story.with_name(name), as_json=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def test_a_story_with_silence_for_chunks_that_failed_is_whole_and_they_are_named(
    story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spoken(story, "silence") == 0
    assert capsys.readouterr().out.count("replaced by silence: chunk ") == 2
    assert story.with_name("out.wav").exists()


@pytest.mark.slow
def test_the_encoding_of_an_audiobook_is_told_with_its_share_and_is_in_the_time(
    story: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="voxyard.cli")
    monkeypatch.setattr("voxyard.cli.speak.PLAIN_LINE_SECONDS", 0.0)
    results, summary, write, slow = list[SynthesisResult](), _summary, audiobook.write, 0.3

    def slowly(*given: Any, **options: Any) -> None:
        time.sleep(slow)
        write(*given, **options)

    def kept(out: Path, result: SynthesisResult) -> str:
        results.append(result)
        return summary(out, result)

    monkeypatch.setattr("voxyard.cli.speak._summary", kept)
    monkeypatch.setattr(audiobook, "write", slowly)
    assert spoken(story, "silence", "out.m4b") == 0
    assert caplog.messages[-1] == "100% of the audiobook encoded, 0.0 s left"
    assert results[0].seconds >= slow


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.wav", "out.m4b"])
def test_an_error_at_the_end_says_where_the_audio_is(story: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("voxyard.speech.audio.sound_file.rename", fails)
    monkeypatch.setattr(audiobook, "write", fails)
    with pytest.raises(EncodeError) as raised:
        spoken(story, "silence", name)
    kept = story.with_name("out.part.wav" if name == "out.wav" else "out.part.flac")
    out = story.with_name(name)
    assert re.fullmatch(
        rf"cannot write {out}: Operation not permitted: the audio so far, [\d.]+ s, is in {kept}", str(raised.value)
    )
    assert sorted(each.name for each in story.parent.iterdir()) == sorted([kept.name, "story.txt"])


def test_where_failures_end_the_command_the_first_is_named_and_the_others_are_counted(
    story: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert spoken(story, "fail") == CHECK_FAILED
    assert "could not be spoken" in caplog.text
    assert "replaced by silence" not in caplog.text
    said = capsys.readouterr()
    assert "; 1 more failed\n" in said.err
    assert f"{story.with_name('out.part.wav')} holds the first 6 of 6 chunks" in said.err
    assert said.out == ""
    assert not story.with_name("out.wav").exists()


@pytest.mark.parametrize("on_failure", ["silence", "fail"])
def test_where_no_chunk_can_be_spoken_there_is_no_file_of_silence(
    story: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on_failure: str
) -> None:
    engine = TonesFrontend({"poison": list(range(6))}, max_tokens=4)
    monkeypatch.setattr("voxyard.speech.frontend.open_frontend", lambda *_: engine)
    assert spoken(story, on_failure) == CHECK_FAILED
    said = capsys.readouterr().err
    assert "nothing was written" in said
    assert "silence" not in said
    assert [each.name for each in story.parent.iterdir()] == ["story.txt"]


@pytest.mark.parametrize("error", [EncodeError("out.wav: No space left on device"), RuntimeError("a mistake of ours")])
def test_what_ends_the_speaking_is_no_success(story: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def ends(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr("voxyard.speech.synthesize.synthesize", ends)
    with pytest.raises(type(error), match=str(error)):
        spoken(story, "silence")
    assert not story.with_name("out.wav").exists()


def test_while_no_gpu_is_free_the_command_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("voxyard.cli.speak.PLAIN_LINE_SECONDS", 0.0)
    caplog.set_level("INFO", logger="voxyard.cli")
    result, nothing_yet = SynthesisResult(6), Progress(6, 0, 0, 0.0, 0.0, 30.0)
    full = Refusal("memory", "GPU 0: 100 MiB are free, a worker needs 6144 MiB")

    with Pool(EngineSpec("engines:tones"), [Device("0", "GPU-0")], admit=lambda _: full) as pool:
        pool.submit([Request(0, "text")])
        eventually(lambda: pool.waiting, "it waits")
        with _progress_display(result, pool) as show:
            show(nothing_yet)

    assert caplog.messages[-1] == "0 of 6 chunks, waiting for GPU 0: 100 MiB are free, a worker needs 6144 MiB"


def test_the_status_tells_loading_from_speaking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("voxyard.cli.speak.PLAIN_LINE_SECONDS", 0.0)
    caplog.set_level("INFO", logger="voxyard.cli")
    result, nothing_yet = SynthesisResult(6), Progress(6, 0, 0, 0.0, 0.0, 30.0)
    settings = {"held": 0, "marks": str(tmp_path), "faults": {"prepare": ["hang", 1]}}

    with Pool(EngineSpec("engines:tones", settings), [Device("cpu0")], limits=PoolLimits(backoff=0.01)) as pool:
        pool.submit([Request(0, "text")])
        with _progress_display(result, pool) as show:
            eventually((tmp_path / "prepare-0").exists, "it loads")
            show(nothing_yet)
            os.kill(pool.workers()[0].pid or 0, signal.SIGKILL)  # the next process does not hang
            eventually(lambda: pool.workers()[0].ready is not None, "it is loaded")
            show(nothing_yet)

    assert [each for each in caplog.messages if each.startswith("0 of 6")] == [
        "0 of 6 chunks, the workers load their model",
        "0 of 6 chunks, the first ones are being spoken",
    ]


def test_the_report_names_the_rows_that_make_the_same_audio_again() -> None:
    one, two = (
        SynthesisResult(9, chunks=9, audio_seconds=60.0, seconds=6.0, batch_sizes=Counter(sizes))
        for sizes in ({64: 9}, {64: 2, 16: 7})
    )
    two.reduced = 7

    assert one.to_json()["batch_sizes"] == {"64": 9}
    assert "batch size 64: --batch-size 64 and the same --seed give the same audio" in _summary(Path("a.wav"), one)
    said = _summary(Path("a.wav"), two)
    assert "batch sizes 16 (7 chunks), 64 (2 chunks): another run's audio may differ slightly; --batch-size 16" in said
    assert "avoids that on GPUs of one kind" in said
    assert "7 chunks were spoken in smaller batches for lack of memory" in said
    assert "batch size" not in _summary(Path("a.wav"), SynthesisResult(9))  # of an engine that does not report it


def test_a_document_is_spoken_in_words_and_with_the_lexicon_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words.yaml").write_text("nginx: engine x\n")
    (tmp_path / "text.txt").write_text("It cost $5 for nginx. [pause 2s] The end.")
    spoken_texts: list[tuple[list[str], list[object]]] = []

    def keeps(script: Script, *_: object) -> NoReturn:
        spoken_texts.append(([each.text for each in script.requests], [each.joint for each in script.chunks]))
        raise EncodeError("enough")

    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    monkeypatch.setattr("voxyard.speech.synthesize.synthesize", keeps)
    command = [str(tmp_path / "text.txt"), "--device", "cpu", "--out", str(tmp_path / "a.wav")]
    lexicon = ["--lexicon", str(tmp_path / "words.yaml")]
    for options in ([], ["--read", "none"], lexicon):
        CliRunner().invoke(speak, [*command, *options])
    assert [texts[0] for texts, _ in spoken_texts] == [
        "It cost five dollars for nginx.", "It cost $5 for nginx.", "It cost five dollars for engine x.",
    ]  # fmt: skip
    assert {tuple(joints) for _, joints in spoken_texts} == {(2.0, "paragraph")}


def test_no_chunk_crosses_the_chapters_of_a_file_and_its_code_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "book.md").write_text("# One\n\nIt began.\n\n    x = 1\n\n# Two\n\nIt ended.\n")
    spoken_texts: list[list[tuple[str, str]]] = []

    def keeps(script: Script, *_: object) -> NoReturn:
        spoken_texts.append([(each.text, each.ending) for each in script.chunks])
        raise EncodeError("enough")

    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    monkeypatch.setattr("voxyard.speech.synthesize.synthesize", keeps)
    command = [str(tmp_path / "book.md"), "--device", "cpu", "--out", str(tmp_path / "a.wav")]
    for options in ([], ["--code-blocks", "announce"]):
        CliRunner().invoke(speak, [*command, *options])
    whole, announced = (" ".join(text for text, _ in chunks) for chunks in spoken_texts)
    assert "Code, 1 line." not in whole
    assert "It began. Code, 1 line. Two" in announced
    assert [ending for text, ending in spoken_texts[0] if "It began." in text] == ["chapter"]


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--read", "colours", "cannot read 'colours': expected all, none, or a list"),
        ("--lexicon", "words.yaml", "words.yaml:1: nginx: found nothing, expected the spoken words"),
    ],
)
def test_a_wrong_reading_is_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.yaml").write_text("nginx:\n")
    (tmp_path / "text.txt").write_text("The end.")
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "no_such_frontend:frontend")
    ended = CliRunner().invoke(speak, ["text.txt", "--device", "cpu", "--out", "a.wav", option, text])
    assert ended.exit_code == 2
    assert said in ended.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("foo", "recogniser 'foo': expected package.module:factory"),
        (
            "no_such_module:factory",
            "no_such_module:factory: No module named 'no_such_module'; expected package",
        ),
        ("recognisers:nothing", "has no attribute 'nothing'; expected package.module:factory"),
        ("recognisers:__name__", "recogniser recognisers:__name__: found str 'recognisers', which cannot be called"),
        ("..foo:bar", "expected package.module:factory"),
    ],
)
def test_a_recogniser_that_is_none_is_refused_before_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "text.txt").write_text("The end.")
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    monkeypatch.setattr("voxyard.speech.open_pool.open_pool", _opens)
    command = [str(tmp_path / "text.txt"), "--device", "cpu", "--out", str(tmp_path / "a.wav"), "--recogniser", name]

    ended = CliRunner().invoke(speak, command)

    assert (ended.exit_code, said in ended.stderr) == (2, True), ended.output


def test_the_recogniser_of_a_cluster_is_looked_for_where_it_works() -> None:
    speech = SpeechSection.model_validate({"pool": "ray", "cluster": "127.0.0.1:6379"})
    choose_engine(speech, BarkConfig(recogniser="no_such_module:factory"), {})
    with pytest.raises(SpeechError, match=r"expected package\.module:factory"):
        choose_engine(speech, BarkConfig(recogniser="foo"), {})


def _opens(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a pool is opened")


def made_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.mp3")


def made_link_to_a_device(folder: Path) -> None:
    (folder / "link.wav").symlink_to("/dev/null")


def made_folder(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).mkdir()


def made_pipe_for_the_unfinished_file(folder: Path) -> None:
    os.mkfifo(folder / "a.part.mp3")


def made_users_captions(folder: Path) -> None:
    (folder / "a.vtt").write_text("WEBVTT\n\nof a film")


def made_nothing(_: Path) -> None:
    pass


REFUSED: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a pipe": ("pipe.mp3", made_pipe, "{out} is a pipe, expected a file"),
    "a link to a device": ("link.wav", made_link_to_a_device, "{out} is a device, expected a file"),
    "a device": ("/dev/null", made_nothing, "{out} is a device, expected a file"),
    "a folder": ("folder.wav", made_folder("folder.wav"), "{out} is a folder, expected a file"),
    "a folder without a suffix": ("folder", made_folder("folder"), "{out} is a folder, expected a file"),
    "no known suffix": ("a.doc", made_nothing, "{out} ends in '.doc', expected one of .wav"),
    "a missing folder": ("none/a.mp3", made_nothing, "cannot write {out}: there is no folder {folder}/none: create it"),
    "a file as its folder": ("text.txt/a.wav", made_nothing, "cannot write {out}: {folder}/text.txt is no folder: "),
    "a name that is too long": (f"{'a' * 252}.mp3", made_nothing, "cannot write {out}: File name too long"),
    "captions that are a folder": ("a.m4b", made_folder("a.vtt"), "{folder}/a.vtt, the captions of {out}, is a folder"),
    "captions of another thing": ("a.m4b", made_users_captions, "{folder}/a.vtt is there without {out}, "),
    "an unfinished file that is a pipe": (
        "a.mp3", made_pipe_for_the_unfinished_file, "{folder}/a.part.mp3, {out} until it is whole, is a pipe",
    ),
    "an unfinished file that is a folder": (
        "a.wav", made_folder("a.part.wav"), "{folder}/a.part.wav, {out} until it is whole, is a folder",
    ),
    "an unfinished book that is a folder": (
        "a.m4b", made_folder("a.part.m4b"), "{folder}/a.part.m4b, {out} until it is whole, is a folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    name, make, said = REFUSED[case]
    text, out = tmp_path / "text.txt", tmp_path / name
    text.write_text("The end.")
    make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("voxyard.cli.speak._script", _opens)

    ended = CliRunner().invoke(speak, [str(text), "--device", "cpu", "--out", str(out)])

    assert (ended.exit_code, ended.stderr.startswith(f"voxyard speak: {said.format(out=out, folder=tmp_path)}")) == (
        2,
        True,
    ), ended.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("given", ["Hello, how are you?", "Hello", "long text " * 600, "my book.epub"])
def test_what_is_no_file_may_be_a_text(tmp_path: Path, given: str) -> None:
    ended = CliRunner().invoke(speak, [given, "--engine", "espeak", "--out", str(tmp_path / "a.wav")])

    assert ended.exit_code == 2
    assert f"there is no file {given[:80]}" in ended.stderr
    assert "a text itself goes to standard input, with - as the file" in ended.stderr
    assert len(ended.stderr) < 600


def test_a_closed_standard_input_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(ExtractionError, match="standard input is closed: name a file"):
        read_document(Path("-"))


def test_a_folder_that_nobody_may_write_to_is_refused_by_its_name(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    mounts = [] if os.geteuid() else ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(locked)]  # root may write to any
    if mounts and subprocess.run(mounts, capture_output=True).returncode:
        pytest.skip("root needs a read-only disk: nobody may mount one here")
    try:
        with pytest.raises(EncodeError) as refused:
            check_target(locked / "a.mp3")
    finally:
        if mounts:
            subprocess.run(["umount", str(locked)], check=True)
    reason = os.strerror(errno.EROFS if mounts else errno.EACCES)
    assert str(refused.value) == (
        f"cannot write {locked / 'a.mp3'}: {reason}: name a file in a folder that can be written to"
    )


def test_the_captions_of_an_older_audiobook_are_replaced_with_it(tmp_path: Path) -> None:
    for name in ("a.m4b", "a.vtt"):
        (tmp_path / name).write_text("of an earlier run")
    check_target(tmp_path / "a.m4b")
    (tmp_path / "a.m4b").unlink()
    with pytest.raises(EncodeError, match=r"a\.vtt is there without .*a\.m4b, whose captions would replace it: move"):
        check_target(tmp_path / "a.m4b")


def test_a_trial_of_the_file_changes_none(tmp_path: Path) -> None:
    for name in ("a.wav", "a.part.wav"):
        (tmp_path / name).write_bytes(b"earlier")

    check_target(tmp_path / "a.wav")
    check_target(tmp_path / "b.wav")

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == dict.fromkeys(
        ("a.wav", "a.part.wav"), b"earlier"
    )


@pytest.mark.parametrize(("language", "warnings"), [("xx", 1), ("en", 0), ("pt-BR", 0), ("deu", 0)])
def test_a_language_that_is_none_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, language: str, warnings: int
) -> None:
    (tmp_path / "text.txt").write_text("The end.")
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    command = [str(tmp_path / "text.txt"), "--device", "cpu", "--show-words", "--language", language]

    shown = CliRunner().invoke(speak, command)

    assert shown.exit_code == 0, shown.output
    assert sum(f"the language '{language}' is not known" in message for message in caplog.messages) == warnings
    assert "\n1 chunk, about " in shown.stdout


def test_one_chunk_is_one() -> None:
    one = SynthesisResult(1, chunks=1, audio_seconds=6.0, seconds=6.0, batch_sizes=Counter({64: 1, 16: 1}), reduced=1)
    said = _summary(Path("a.wav"), one)
    assert "a.wav: 1 chunk, 6.0 s" in said
    assert "16 (1 chunk), 64 (1 chunk)" in said
    assert "1 chunk was spoken in smaller batches" in said


def test_the_words_are_shown_chapter_by_chapter_and_no_worker_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a pool is opened")

    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    monkeypatch.setattr("voxyard.speech.open_pool.open_pool", starts)
    book = tmp_path / "book.md"
    book.write_text(
        "It cost $5. [pause 2s] Then it ended.\n\n# One\n\nDr. Bell walked 5 km.\n\n# [pause 1s]Two\n\n"
        "The end.\n\n# Three\n"
    )
    command = [str(book), "--engine", "bark", "--device", "cpu", "--show-words"]

    shown = CliRunner().invoke(speak, command)
    as_json = json.loads(CliRunner().invoke(speak, [*command, "--json"]).stdout)

    assert shown.exit_code == 0, shown.stderr
    lines = [re.sub(r"^ +\d+ +[\d.]+ s  ", "", line) for line in shown.stdout.splitlines() if line]
    assert lines[:-2] == [
        "It cost five dollars. [pause 2s]", f"{'':15}$5 → five dollars", "Then it ended.",
        "# One", "One. Doctor Bell walked five kilometers. [pause 1s]", f"{'':15}Dr. → Doctor",
        f"{'':15}5 km. → five kilometers.",
        "# Two", "Two. The end.", "# Three",
    ]  # fmt: skip
    assert lines[-1].startswith("5 chunks, about ")
    assert lines[-1].endswith(" of speech without its pauses, in the voice v2/en_speaker_6")
    assert [chunk["words"] for chunk in as_json["chunks"]][:2] == ["It cost five dollars.", "Then it ended."]
    assert as_json["chunks"][0]["readings"] == [{"text": "$5", "words": "five dollars"}]
    assert [(each["title"], each["first_chunk"]) for each in as_json["chapters"]] == [
        ("One", 2),
        ("Two", 3),
        ("Three", 4),
    ]
    assert as_json["estimated_seconds"] > 0
    assert [each.name for each in tmp_path.iterdir()] == ["book.md"]


@pytest.mark.parametrize("options", [[], ["--show-words", "--out", "a.wav"]])
def test_either_a_file_or_the_words_are_asked_for(options: list[str]) -> None:
    ended = CliRunner().invoke(speak, ["book.txt", *options])
    assert ended.exit_code == 2
    assert "expected either --out FILE or --show-words" in ended.stderr


@pytest.mark.parametrize(
    ("options", "declared", "warned"),
    [
        (["--voice", "v2/en_speaker_1"], "de-AT", True),
        (["--voice", "v2/en_speaker_1", "--language", "de"], "en", True),
        (["--voice", "v2/de_speaker_1"], "deu", False),
        (["--voice", "announcer"], "de", False),
        (["--voice", "v2/en_speaker_1"], "und", False),
        ([], "de", False),
    ],
)
def test_a_voice_of_another_language_is_warned_of_and_speaks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: list[str],
    declared: str,
    warned: bool,
) -> None:
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><html lang="{declared}"><body><p>Guten Tag.</p></body></html>')
    ended = CliRunner().invoke(speak, [str(page), "--engine", "bark", "--show-words", *options])
    said = "the text is in the language de, and the voice v2/en_speaker_1 speaks en"
    assert (ended.exit_code, any(said in each for each in caplog.messages)) == (0, warned)


def test_an_alias_of_the_service_is_a_voice_of_the_command_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    (tmp_path / "text.txt").write_text("Добрый день.")
    ended = CliRunner().invoke(
        speak, [str(tmp_path / "text.txt"), "--engine", "bark", "--show-words", "--voice", "alloy"]
    )
    assert (ended.exit_code, [each for each in caplog.messages if "the voice v2/en_speaker_6" in each]) == (
        0,
        [
            "the text is in the language ru, and the voice v2/en_speaker_6 speaks en: it may be hard to understand; "
            "the engine lists no voice of ru"
        ],
    )


def test_an_exported_voice_needs_its_directory() -> None:
    with pytest.raises(SpeechError, match="add --model DIR"):
        choose_engine(SpeechSection(engine="voxyard"), BarkConfig(), {"bark.model": "default"})
    chosen = choose_engine(SpeechSection(engine="voxyard"), BarkConfig(), {"bark.model": "--model"})
    assert chosen.package == "tensorflow"
