"""The demo as a stranger runs it, made small: from a corpus to a page, with a real Prometheus."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from demo.sound import read
from voxyard.corpus import Example
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.synthesis import features_of_clip

ROOT = Path(__file__).resolve().parents[3]
TORCH = importlib.util.find_spec("torch") is not None
SMALL = ("--clips", "24", "--profile-steps", "5", "--minutes", "5", "--steps", "24")

pytestmark = [pytest.mark.needs("gcc", "prometheus"), pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Finished:
    """A demo that has ended."""

    folder: Path
    said: str
    page: str

    def section(self, name: str) -> str:
        """A section of the page."""
        found = re.search(rf'<section id="{name}">.*?</section>', self.page, re.DOTALL)
        assert found is not None, f"the page has no section {name}"
        return found[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A small demo, run once."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    asked = [sys.executable, "scripts/demo", "--out", str(folder), *SMALL]
    done = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-6000:]
    return Finished(folder, done.stdout, (folder / "index.html").read_text(encoding="utf-8"))


def test_it_ends_with_the_page_and_leaves_out_nothing_that_is_there(finished: Finished) -> None:
    assert finished.said.splitlines()[-1] == f"{finished.folder}/index.html"
    assert ("Left out on this machine" in finished.page) == (not TORCH)


def test_every_command_is_on_the_page_as_it_was_printed(finished: Finished) -> None:
    printed = [line.removeprefix("  $ ") for line in finished.said.splitlines() if line.startswith("  $ ")]
    assert len(printed) == (14 if TORCH else 8)
    assert finished.section("commands").count("<pre>") == len(printed)
    assert len(list((finished.folder / "logs").iterdir())) == len(printed)


def test_the_model_speaks_a_new_sentence_with_a_figure_of_its_quality(finished: Finished) -> None:
    speech = finished.section("speech")
    assert "the sentence is not among the training texts" in speech
    assert re.search(r"sentence to espeak-ng&#x27;s reading: \d\.\d\d nepers; recordings of 5 other", speech)
    assert speech.count("<audio ") == (5 if TORCH else 3)
    assert ("random weights" in speech) == TORCH
    assert ("exported as one directory and served" in speech) == TORCH


def test_the_curves_have_points(finished: Finished) -> None:
    training = finished.section("training")
    assert training.count("<polyline") == 3
    assert "0 → 24" in training
    assert "logical CPU device 1" in training


def test_the_profile_is_on_the_page(finished: Finished) -> None:
    assert "train, alone" in finished.section("profile")
    assert "<iframe" in finished.section("profile")
    assert (finished.folder / "profile.html").stat().st_size > 1000


def test_prometheus_scraped_all_programs_and_the_lost_gpu_fires(finished: Finished) -> None:
    monitoring = finished.section("monitoring")
    for job in ("exporter", "trainer", *(["bark"] if TORCH else [])):
        assert re.search(rf"<td>{job}</td><td>http://127.0.0.1:\d+/metrics</td><td>up</td>", monitoring), job
    assert re.search(r'<td>GpuXidCritical</td><td>critical</td><td><b class="firing">', monitoring)
    assert monitoring.count("NVIDIA H100 80GB HBM3") == 4
    assert "no: lost" in monitoring
    assert "<polyline" in (finished.folder / "dashboards.html").read_text(encoding="utf-8")


def test_no_program_of_the_demo_is_left_running(finished: Finished) -> None:
    assert [each for each in psutil.process_iter() if str(finished.folder) in " ".join(_command(each))] == []


def test_spectrograms_are_the_trainers(finished: Finished) -> None:
    """The page's own mel, in NumPy, is the one that the model learns."""
    clip = read(finished.folder / "corpus/wavs/demo-0000.wav")
    pcm = np.round(clip.samples * 32768).astype(np.int16)
    theirs = features_of_clip(TrainConfig())(Example(pcm, np.ones(1, np.int32), 0))["mel"]
    assert np.abs(clip.mel() - theirs).max() < 0.01


def _command(process: psutil.Process) -> list[str]:
    try:
        found: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return found
