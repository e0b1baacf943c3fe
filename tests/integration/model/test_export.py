"""Trained voices: train → export → copy → serve and speak, with two speakers as two voices of OpenAI's client."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from eventually import PATIENCE
from forked import run_forked
from free_ports import free_port
from openai import BadRequestError, NotFoundError, OpenAI
from runs import environment

from voxyard.corpus import espeak
from voxyard.trainer import checkpoint
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.steps.average import weights_for_use
from voxyard.trainer.voice.export import _licence

pytestmark = pytest.mark.timeout(600)  # two networks are compiled: minutes on a busy machine

Train = Callable[..., subprocess.CompletedProcess[str]]

TEXTS = ("The baker opens the heavy door.", "A brown fox follows a narrow path.", "Our neighbour counts the stars.")
SENTENCE = "The fox opens the door."


def two_speakers(corpus: Path, **pitches: int) -> Path:
    """Writes a corpus of three sentences of each speaker, at its pitch of espeak-ng (0 to 99)."""
    corpus.mkdir()
    lines = []
    for speaker, pitch in pitches.items():
        for number, text in enumerate(TEXTS):
            samples, rate = espeak.speak(text, pitch=pitch)
            soundfile.write(corpus / f"{speaker}-{number}.wav", samples, rate)
            lines.append(f"{speaker}-{number}.wav|{text}|{speaker}")
    (corpus / "filelist.txt").write_text("\n".join(lines) + "\n")
    (corpus / "LICENSE").write_text("CC0-1.0\n")
    return corpus


@pytest.fixture
def voxyard() -> Train:
    """Runs `voxyard ARGUMENTS` to its end and gives back code, output and messages."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return run_forked(*arguments, environment=environment())

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of two steps of both networks on two speakers."""
    folder = tmp_path_factory.mktemp("two-speakers")
    corpus = two_speakers(folder / "corpus", anna=70, ben=20)
    arguments = [
        "train", "--device", "cpu", "--strategy", "single", "--train-data", corpus, "--val-data", corpus,
        "--networks", "acoustic,vocoder", "--text-units", "characters", "--language", "en-us", "--batch-size", 2,
        "--buckets", 1, "--max-steps", 2, "--ema", 0.9, "--no-tensorboard", "--sample-text", "",
        "--checkpoint-dir", folder / "run",
    ]  # fmt: skip
    done = run_forked(*arguments, environment=environment())
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def voice(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's voice with its own vocoder, copied to another place."""
    out = tmp_path_factory.mktemp("exported") / "voice"
    arguments = ("export", "--checkpoint", run, "--out", out, "--vocoder", "neural")
    done = run_forked(*arguments, environment=environment())
    assert done.returncode == 0, done.stderr
    assert "averaged weights, vocoder neural, voices anna, ben; CC0-1.0" in done.stdout
    assert [path.name for path in out.parent.iterdir()] == ["voice"]
    assert "--model DIR --voice anna --out book.mp3" in (out / "README.md").read_text(), "there are two speakers"
    copy = tmp_path_factory.mktemp("deployed") / "voice"
    shutil.copytree(out, copy)
    shutil.rmtree(out)
    return copy


@pytest.fixture(scope="module")
def service(voice: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a service that speaks with the voice."""
    port = free_port()
    folder = tmp_path_factory.mktemp("service")
    arguments = (
        "serve", "--engine", "voxyard", "--model", voice, "--device", "cpu", "--workers", 1, "--port", port,
        "--data-dir", folder / "data",
    )  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "voxyard", *map(str, arguments)], stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _ready(port):
            waits = process.poll() is None and time.monotonic() < deadline
            assert waits, (folder / "log").read_text()[-4000:]
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except OSError:
        return False


def test_openais_client_speaks_with_two_voices_that_were_trained(service: str) -> None:
    client = OpenAI(base_url=service, api_key="none")
    assert next(model.id for model in client.models.list()) == "voxyard"

    def spoken(voice: str) -> np.ndarray:
        answer = client.audio.speech.create(model="voxyard", voice=voice, input=SENTENCE, response_format="wav")
        samples, rate = soundfile.read(io.BytesIO(answer.content), dtype="float32")
        assert rate == 24_000
        return np.asarray(samples)

    anna, ben, again = spoken("anna"), spoken("ben"), spoken("anna")
    assert len(anna) > 2_400
    assert np.abs(anna).max() > 0.001
    assert np.array_equal(anna, again)
    assert anna.shape != ben.shape or not np.allclose(anna, ben)


def test_the_service_lists_the_speakers_and_refuses_another_one(service: str) -> None:
    with urllib.request.urlopen(f"{service}/audio/voices", timeout=30) as answer:  # noqa: S310 (its own service)
        voices = json.load(answer)["voices"]
    assert {"anna", "ben"} <= {each["name"] for each in voices}
    with pytest.raises(NotFoundError, match="anna"):
        OpenAI(base_url=service, api_key="none", max_retries=0).audio.speech.create(
            model="voxyard", voice="anne", input="Hello."
        )


def test_openais_names_are_the_speakers_in_turn(service: str) -> None:
    with urllib.request.urlopen(f"{service}/audio/voices", timeout=30) as answer:  # noqa: S310 (its own service)
        aliases = {each["id"]: each["alias_of"] for each in json.load(answer)["voices"] if each["alias_of"]}
    assert [aliases[name] for name in ("alloy", "ash", "ballad", "cedar")] == ["anna", "ben", "anna", "ben"]
    spoken = [
        OpenAI(base_url=service, api_key="none").audio.speech.create(
            model="tts-1", voice=voice, input=SENTENCE, response_format="pcm"
        )
        for voice in ("alloy", "anna")
    ]
    assert spoken[0].content == spoken[1].content


def test_a_text_that_the_voice_cannot_read_is_the_clients_error(service: str) -> None:
    client = OpenAI(base_url=service, api_key="none", max_retries=0)
    for text in ("Привет, мир!", f"{SENTENCE} Привет, мир!"):
        with pytest.raises(BadRequestError, match="cannot read 9 of 11 characters of 'Привет, мир!'") as refused:
            client.audio.speech.create(model="voxyard", voice="anna", input=text)
        assert (refused.value.code, refused.value.param) == ("unspeakable_text", "input")
    assert client.audio.speech.create(model="voxyard", voice="anna", input=SENTENCE).content


def test_speak_takes_the_voice_and_says_what_it_cannot(voice: Path, tmp_path: Path, voxyard: Train) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out.wav"
    text.write_text(f"{SENTENCE}\n\n* * *\n\n{TEXTS[0]}")
    flags = ("--engine", "voxyard", "--model", voice, "--device", "cpu")
    done = voxyard("speak", text, *flags, "--voice", "ben", "--out", out)
    assert done.returncode == 0, done.stderr
    assert soundfile.info(out).samplerate == 24_000
    text.write_text("Привет, мир!")
    done = voxyard("speak", text, *flags, "--out", tmp_path / "no.wav")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "the model cannot read 9 of 11 characters of 'Привет, мир!'" in done.stderr
    assert "1 worker" not in done.stderr, "refused before a model is loaded"
    assert not (tmp_path / "no.wav").exists()
    done = voxyard("speak", text, *flags, "--voice", "bem", "--out", tmp_path / "no.wav")
    assert done.returncode == 2
    assert "did you mean ben?" in done.stderr
    for words, language in (("Привет, мир!", "ru"), ("Guten Morgen!", "de")):  # its letters say more than --language
        text.write_text(words)
        done = voxyard("speak", text, *flags, "--language", "de", "--out", tmp_path / "no.wav")
        assert done.stderr.count("speaks en") == 1
        assert f"the text is in the language {language}, and the voice anna speaks en" in done.stderr
    done = voxyard("speak", text, "--model", voice, "--out", tmp_path / "no.wav")
    assert done.returncode == 2
    assert "add --engine voxyard" in done.stderr
    done = voxyard("speak", text, *flags, "--int8", "--out", tmp_path / "no.wav")
    assert done.returncode == 2
    assert "--int8 has no effect with --engine voxyard" in done.stderr


@pytest.mark.slow
def test_two_other_speakers_are_fine_tuned_from_one_checkpoint_and_exported(
    run: Path, tmp_path: Path, voxyard: Train
) -> None:
    """Both networks begin with the averaged weights of the base, and the voices are the new speakers."""
    corpus = two_speakers(tmp_path / "corpus", carl=40, dora=90)
    done = voxyard(
        "train", "--device", "cpu", "--strategy", "single", "--train-data", corpus, "--val-data", corpus,
        "--networks", "acoustic,vocoder", "--text-units", "characters", "--batch-size", 2, "--buckets", 1,
        "--max-steps", 1, "--no-tensorboard", "--sample-text", "", "--checkpoint-dir", tmp_path / "fine",
        "--init-from", run, "--seed", 5,  # with the base's seed its weights would be near those of a new model
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "(averaged weights of step 2); did not match: 1" in done.stderr
    assert "speakers: ['anna', 'ben'] in the checkpoint, ['carl', 'dora'] here" in done.stderr
    base, fine = (checkpoint.newest_good(where) for where in (run, tmp_path / "fine"))
    assert base is not None
    assert fine is not None
    begun = {name: value for name, value in weights_for_use(base.state).items() if name.startswith("model/")}
    assert max(np.abs(fine.state[name] - value).max() for name, value in begun.items()) < 1e-3
    assert any((fine.state[name] != value).any() for name, value in begun.items())
    out = voxyard("export", "--checkpoint", tmp_path / "fine", "--out", tmp_path / "voice", "--vocoder", "neural")
    assert out.returncode == 0, out.stderr
    assert "voices carl, dora" in out.stdout
    spoken = voxyard("synthesize", "--checkpoint", tmp_path / "fine", "--text", SENTENCE, "--out", tmp_path / "x.wav")
    assert "the model's own vocoder had 24 updates" in spoken.stderr, "16 of the base, 8 of its own"


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("cc-by-4.0", "CC-BY-4.0"), ("CC0-1.0 OR MIT", "CC0-1.0 OR MIT"), ("LicenseRef-Ours", "LicenseRef-Ours"),
        ("text: as Anna said", "as Anna said"),
    ],
)  # fmt: skip
def test_a_licence_is_a_name_of_spdx_or_says_that_it_is_none(asked: str, written: str) -> None:
    assert _licence(asked, None) == f"{written}\n"


@pytest.mark.parametrize("asked", ["CC0", "public domain", "banana", "text: "])
def test_other_words_are_no_licence(asked: str) -> None:
    with pytest.raises(TrainerError, match=f"--licence {asked}"):
        _licence(asked, None)


def test_export_refuses_what_is_no_voice_and_leaves_nothing(run: Path, tmp_path: Path, voxyard: Train) -> None:
    there = tmp_path / "there"
    there.mkdir()
    cases = (
        (("--out", there), "exists: give a new directory"),
        (("--out", tmp_path / "a", "--licence", " "), "--licence is empty"),
        (("--out", tmp_path / "c", "--licence", tmp_path), "is no file: expected one with the text"),
        (("--out", tmp_path / "d", "--licence", "no/such.txt"), "is no file: expected one with the text"),
        (("--out", tmp_path / "b", "--checkpoint", tmp_path), "holds no checkpoint"),
        (("--out", "/proc/voice"), "cannot be written"),
    )
    said_last = ""
    for arguments, said in cases:
        done = voxyard("export", "--checkpoint", run, *arguments)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        said_last = done.stderr
    assert "Griffin-Lim speaks: the model's own vocoder had 16 updates" in said_last, "eight in each of two steps"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("file", ["weights.safetensors", "voice.json"])
def test_a_damaged_voice_is_refused(voice: Path, tmp_path: Path, voxyard: Train, file: str) -> None:
    damaged, text = tmp_path / "voice", tmp_path / "text.txt"
    shutil.copytree(voice, damaged)
    with (damaged / file).open("r+b") as content:
        content.seek(100)
        content.write(b"\xff\xff\xff")
    text.write_text(SENTENCE)
    done = voxyard(
        "speak", text, "--engine", "voxyard", "--model", damaged, "--device", "cpu", "--out", tmp_path / "no.wav"
    )
    assert done.returncode != 0
    assert "is damaged" in done.stderr
    assert "export" in done.stderr
    assert "Traceback" not in done.stderr
