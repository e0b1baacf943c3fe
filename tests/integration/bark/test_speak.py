"""`voxyard speak` as a user runs it: one seed, one sound, whatever happens to the workers; nothing lost at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from eventually import eventually
from fake_driver import FakeDriver
from scenario import GpuState, MigInstance, Scenario

STORY = """The lighthouse keeper counted the steps every evening, and every evening there were two hundred and nine. \
One night there were two hundred and ten. He stood still on the last one for a while.

"Who is there?" he asked. Nobody answered. The lamp turned above him as it always did, and the sea was quiet.

In the morning he counted again, downwards this time, slowly, with a hand on the wall. Two hundred and nine. He \
laughed, he made coffee, he wrote the number into the book. Then he saw that somebody had written it there before him, \
in ink that was not yet dry, and in a hand that was very much like his own.

Dr. Moss came with the boat at 11.30 a.m. and listened to him. "Steps do not grow," she said. "Sleep does you good."
"""

Speak = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def speak(tiny_model: Path, tmp_path: Path) -> Iterator[Speak]:
    """Starts the command on the story, told so many times; ends it with its workers at the end of the test."""
    book = tmp_path / "book.txt"
    started: list[subprocess.Popen[str]] = []

    def start(out: Path, *flags: str, times: int = 1) -> subprocess.Popen[str]:
        book.write_text(STORY * times, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "voxyard", "speak", str(book), "--model", str(tiny_model)]
        chosen = ["--device", "cpu", "--seed", "7", "--batch-size", "2", "--out", str(out), *flags]
        started.append(subprocess.Popen([*command, *chosen], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
        process.communicate()


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process(process.pid).children()
        if "voxyard.speech.pool.worker" in " ".join(each.cmdline())
    ]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for_sound(folder: Path, process: subprocess.Popen[str]) -> Path:
    """The partial file, once the first chunk is in it."""
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # it has just got its name
            for part in folder.glob("*.part*"):
                if part.stat().st_size > 1000:
                    return part
        time.sleep(0.02)
    raise AssertionError(f"it ended before it wrote anything: {process.communicate()}")


def seconds_of(path: Path) -> float:
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        return file.getnframes() / file.getframerate()


def test_a_story_becomes_a_sound_file_and_the_weights_are_called_random(speak: Speak, tmp_path: Path) -> None:
    process = speak(tmp_path / "a.wav", "--workers", "1", "--json")
    told, noted = process.communicate(timeout=200)

    assert process.returncode == 0, noted
    report = json.loads(told)
    assert report["chunks"] == report["total_chunks"] >= 4
    assert report["failed"] == []
    assert seconds_of(tmp_path / "a.wav") == pytest.approx(report["audio_seconds"], abs=0.01)
    assert "are random: the audio will be noise" in noted
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.long  # test_workers.py holds it quickly, without the command
def test_three_workers_of_which_one_is_killed_speak_the_same_bytes(speak: Speak, tmp_path: Path) -> None:
    _, noted = speak(tmp_path / "a.wav", "--workers", "1", times=2).communicate(timeout=200)
    assert (tmp_path / "a.wav").exists(), noted

    process = speak(tmp_path / "b.wav", "--workers", "3", times=2)
    wait_for_sound(tmp_path, process)
    workers(process)[0].send_signal(signal.SIGKILL)
    told, noted = process.communicate(timeout=200)

    assert process.returncode == 0, noted
    assert "real-time factor" in told
    assert "SIGKILL" in noted
    assert (tmp_path / "b.wav").read_bytes() == (tmp_path / "a.wav").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "count"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_an_interrupt_says_what_was_written_and_leaves_no_process(
    speak: Speak, tmp_path: Path, how: signal.Signals, count: int
) -> None:
    out = tmp_path / "c.wav"
    out.write_bytes(b"what was there before")
    process = speak(out, "--workers", str(count), times=8)  # so long that it has not ended by then
    part = wait_for_sound(tmp_path, process)
    left = workers(process)
    process.send_signal(how)
    _, noted = process.communicate(timeout=200)

    assert process.returncode == 130
    assert f"{part} holds the first " in noted
    assert "Traceback" not in noted
    assert seconds_of(part) > 0.5
    assert out.read_bytes() == b"what was there before"
    eventually(lambda: not any(map(is_alive, left)), "its workers have ended")


@pytest.mark.slow
def test_a_full_disk_is_said_and_what_was_written_stays(speak: Speak, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(disk)], check=True)
    try:
        process = speak(disk / "d.wav", "--workers", "1")
        _, noted = process.communicate(timeout=200)

        assert process.returncode == 1
        assert "no disk space left for" in noted
        assert "Traceback" not in noted
        assert [each.name for each in disk.iterdir()] == ["d.part.wav"]
        assert seconds_of(disk / "d.part.wav") > 0.5
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_text_from_standard_input_in_an_unknown_voice_ends_with_the_nearest_names(tiny_model: Path) -> None:
    command = [sys.executable, "-P", "-m", "voxyard", "speak", "-", "--out", os.devnull + ".wav"]
    done = subprocess.run(
        [*command, "--model", str(tiny_model), "--device", "cpu", "--voice", "v2/en_speaker_66"],
        input="Good morning.",
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert done.returncode == 2
    assert "v2/en_speaker_6" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["speak", "serve"])
@pytest.mark.parametrize(
    ("flags", "visible", "says"),
    [
        (["--gpus", "0,7"], None, "--gpus 0,7: this host has no GPU 7; it has 0:3: "),
        (
            ["--gpus", "1"],
            "MIG-5555",
            "--gpus 1: CUDA_VISIBLE_DEVICES=MIG-5555 hides 1; name a GPU that it leaves (0:3: ",
        ),
        (["--device", "cuda"], "-1", "CUDA_VISIBLE_DEVICES=-1 hides every GPU of this host"),
        (["--device", "cpu", "--gpus", "1"], None, "--gpus 1 names GPUs and --device cpu takes none"),
    ],
)
def test_gpus_that_cannot_be_meant_end_the_command_with_what_there_is(
    driver: FakeDriver, tiny_model: Path, tmp_path: Path, command: str, flags: list[str], visible: str | None, says: str
) -> None:
    host = Scenario([GpuState.default(0, mig=1, mig_instances={3: MigInstance("MIG-5555")}), GpuState.default(1)])
    (tmp_path / "book.txt").write_text("Good morning.")
    own = {
        "speak": [str(tmp_path / "book.txt"), "--out", str(tmp_path / "a.wav")],
        "serve": ["--port", "0", "--data-dir", str(tmp_path / "data")],
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "voxyard", command, *own[command], "--model", str(tiny_model), *flags],
        env=driver.environment_of(host) | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}),
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert done.returncode == 2
    assert f"voxyard {command}: " in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
