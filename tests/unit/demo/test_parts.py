"""The parts of the demo: what they read from the programs, and what is left out on a bare machine."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import yaml

from demo import flow, monitoring, sound, speech, training
from demo.processes import DemoError
from demo.sound import Sound, distance, png
from voxyard.corpus.demo import sentences

LOG = """step 2/400: 0.35 steps/s, loss –, data wait 0%, ring 2, buffer 50/50
step 22/400: 3.98 steps/s, loss 9.196, data wait 0%, ring 2, buffer 50/50
Validation at step 50: total 6.027, mel 0.9608, refined_mel 0.9539, duration 0.6168, pitch 0.4045
step 57/400: 2.70 steps/s, loss 6.453 at step 50, data wait 0%, ring 2, buffer 50/50
step 59/400: 2.70 steps/s, loss 6.453 at step 50, data wait 0%, ring 2, buffer 50/50
"""


def test_curves_come_from_the_lines_of_a_run() -> None:
    loss, validation, mel = training.curves(LOG, {"last_step": 60, "losses": {"total": 6.1}})
    assert list(loss.points) == [(22, 9.196), (50, 6.453), (60, 6.1)]
    assert list(validation.points) == [(50, 6.027)]
    assert list(mel.points) == [(50, 0.9539)]


def test_the_sentence_of_the_demo_is_new_and_its_words_are_not() -> None:
    assert training.is_held_out(flow.SENTENCE, sentences())
    words = {word.strip(".").lower() for text in sentences() for word in text.split()}
    assert {word.strip(".").lower() for word in flow.SENTENCE.split()} <= words


@pytest.mark.parametrize("text", ["Good  morning!", "good morning", " GOOD MORNING. "])
def test_case_spaces_and_punctuation_make_no_new_sentence(text: str) -> None:
    assert not training.is_held_out(text, ["A fine day.", "Good morning."])


def test_a_corpus_in_another_layout_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"expected metadata.csv and wavs/"):
        training.texts(tmp_path)
    (tmp_path / "metadata.csv").write_text("")
    with pytest.raises(DemoError, match="has no line"):
        training.first_recording(tmp_path)
    (tmp_path / "metadata.csv").write_text("one|A text.|A text.\n")
    with pytest.raises(DemoError, match=r"wavs/one.wav cannot be read"):
        training.first_recording(tmp_path)


def test_a_picture_is_the_pixels_that_were_given() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    file = png(pixels)
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", file[16:24]) == (4, 2)
    length = struct.unpack(">I", file[33:37])[0]
    assert file[37:41] == b"IDAT"
    rows = np.frombuffer(zlib.decompress(file[41 : 41 + length]), np.uint8).reshape(2, 13)
    assert rows[:, 0].tolist() == [0, 0]
    assert (rows[:, 1:].reshape(2, 4, 3) == pixels).all()


def test_a_reading_at_another_pace_is_near_and_another_one_is_far() -> None:
    one, other = np.random.default_rng(0).normal(size=(2, 30, 8))
    assert distance(one, one) == 0.0
    assert distance(one, one.repeat(2, 0)) == 0.0
    assert distance(one, other) > 0.5
    assert distance(one, one + 0.25) == pytest.approx(0.25, abs=0.05)


def test_a_sound_is_the_same_after_it_was_a_file(tmp_path: Path) -> None:
    made = Sound(np.sin(np.arange(3000) / 5) / 2, 24000)
    (tmp_path / "a.wav").write_bytes(made.wav())
    read = sound.read(tmp_path / "a.wav")
    assert read.sample_rate == 24000
    assert np.abs(read.samples - made.samples).max() < 1e-4
    assert read.mel().shape == (3000 // 256, 80)


def test_a_long_recording_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound, "LONGEST_SECONDS", 0.5)
    (tmp_path / "a.wav").write_bytes(Sound(np.zeros(30000), 22050).wav())
    assert sound.read(tmp_path / "a.wav").seconds == pytest.approx(0.5, abs=0.001)


def test_without_a_compiler_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DemoError, match="apt-get install gcc"):
        monitoring.ScriptedDriver(tmp_path / "driver")


def test_a_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> NoReturn:
        raise subprocess.CalledProcessError(1, ["gcc"])

    monkeypatch.setattr(monitoring, "FakeDriver", fails)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(DemoError, match="gcc is there and failed with exit code 1"):
        monitoring.ScriptedDriver(tmp_path / "driver")


def test_the_gpu_that_is_lost_is_the_one_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "FakeDriver", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monitoring.ScriptedDriver(tmp_path / "driver").lose_a_gpu()
    said = re.search(r"GPU (\d) falls off the bus \(Xid (\d+)\)", monitoring.SCRIPT)
    assert said is not None
    script = (tmp_path / "driver/gpus").read_text().splitlines()
    assert f"xid.1 = {said[1]} {said[2]}" in script


@pytest.mark.parametrize(
    ("missing", "said"), [({"torch"}, "torch is not installed"), ({"openai"}, "not installed: openai"), (set(), None)]
)
def test_without_its_packages_bark_is_left_out(
    monkeypatch: pytest.MonkeyPatch, missing: set[str], said: str | None
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else object())
    found = speech.left_out()
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


def test_prometheus_gets_the_deployed_rules_and_only_the_targets_that_are_there(tmp_path: Path) -> None:
    path = monitoring.configure(tmp_path / "prometheus", {"trainer": 9411, "bark": 8080}, 9999)
    document = yaml.safe_load(path.read_text())
    assert [each["job_name"] for each in document["scrape_configs"]] == ["trainer", "bark", "prometheus"]
    assert Path(document["rule_files"][0]).parent == monitoring.DEPLOYED / "rules"
    assert list(Path("/").glob(document["rule_files"][0].lstrip("/")))
    assert document["scrape_configs"][-1]["static_configs"][0]["targets"] == ["127.0.0.1:9999"]
    targets = yaml.safe_load((tmp_path / "prometheus/targets/trainer.yaml").read_text())
    assert targets == [{"targets": ["127.0.0.1:9411"], "labels": {"host": "demo"}}]


def test_alerts_come_with_the_worst_first() -> None:
    def alert(name: str, state: str, severity: str | None) -> dict[str, Any]:
        labels = {"alertname": name} | ({"severity": severity} if severity else {})
        return {"labels": labels, "annotations": {"summary": "s"}, "state": state, "activeAt": "t"}

    given = [
        alert("Watchdog", "firing", None), alert("Late", "pending", "critical"), alert("Warm", "firing", "warning"),
        alert("Lost", "firing", "critical"),
    ]  # fmt: skip
    assert [each.name for each in monitoring.alerts_of({"alerts": given})] == ["Lost", "Warm", "Watchdog", "Late"]


def test_a_gpu_that_is_lost_has_no_figures() -> None:
    text = (
        'voxyard_gpu_up{gpu="10"} 0\nvoxyard_gpu_up{gpu="2"} 1\nvoxyard_gpu_utilization_ratio{gpu="2"} 0.5\n'
        'voxyard_gpu_info{gpu="2",name="H100"} 1\nprocess_open_fds 3\n'
    )
    two, ten = monitoring.gpus_of(text)
    assert (two.number, two.name, two.up, two.busy, two.power) == ("2", "H100", True, 0.5, None)
    assert (ten.number, ten.up, ten.busy) == ("10", False, None)


def test_an_earlier_demo_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for folder in ("run", "logs", "my recordings", "corpus"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").touch()
    for file in ("index.html", "notes.txt"):
        (tmp_path / file).touch()
    for _ in range(2):  # a demo that was interrupted leaves no page of its own
        flow.clear(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"my recordings", "corpus", "notes.txt", "before"}
        assert {path.name for path in (tmp_path / "before").iterdir()} == {"index.html", "logs"}
