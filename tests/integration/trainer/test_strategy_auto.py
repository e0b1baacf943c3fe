"""`voxyard train --strategy auto` on logical CPU devices: timed, logged, cached, reused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from eventually import PATIENCE, eventually
from runs import command, environment

from voxyard.corpus import CorpusSettings, open_source, prepare
from voxyard.trainer import TrainConfig
from voxyard.trainer.api import prepare_features
from voxyard.trainer.corpora import feature_settings
from voxyard.trainer.precompute import precompute


@pytest.fixture
def auto(toy, tmp_path) -> list[object]:
    plain = [argument for argument in toy if argument not in ("--data-gpu", "--model-gpu", 0, 1)]
    return [*plain, "--strategy", "auto", "--strategy-steps", 8, "--buckets", 1]


@pytest.mark.timeout(900)
def test_every_strategy_is_timed_and_the_fastest_is_kept_and_cached(auto, voxyard, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = voxyard(*auto, "--max-steps", 3, "--json", **cache)
    assert done.returncode == 0, done.stderr
    for words in (
        "timing 8 steps of each of 3",
        "clips/s",
        "reads: ",
        "not here: features are written for voxyard's own model",
    ):
        assert words in done.stderr
    (chosen,) = re.findall(r"auto: (\w+) is (?:the fastest here|hardly faster)", done.stderr)
    assert json.loads(done.stdout)["strategy"] == chosen
    cached = json.loads((tmp_path / "cache/voxyard/strategies.json").read_text())
    assert bool(cached) == ("is the fastest here" in done.stderr)
    if not cached:
        return  # too close on this host
    (choice,) = cached.values()
    rates = {name: median(each["clips_per_second"] for each in timed) for name, timed in choice["timed"].items()}
    skipped = set(re.findall(r"(\w+) is skipped: ", done.stderr)) - set(rates)
    assert set(rates) | skipped == {"single", "split", "mirrored"}
    assert rates[chosen] == max(rates.values())
    again = voxyard(*auto, "--max-steps", 3, "--no-resume", "--json", **cache)
    assert f"--strategy auto: {chosen}, as timed" in again.stderr
    assert "timing" not in again.stderr.replace("as timed", "")
    assert json.loads(again.stdout)["strategy"] == chosen


def test_a_run_that_goes_on_keeps_its_strategy_and_times_nothing(toy, auto, voxyard):
    assert voxyard(*toy, "--max-steps", 3).returncode == 0
    done = voxyard(*auto, "--max-steps", 5, "--json")
    assert done.returncode == 0, done.stderr
    assert "the resumed run keeps its strategy split" in done.stderr
    assert json.loads(done.stdout)["strategy"] == "split"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_strategy_that_fails_is_reported_and_the_others_go_on(auto, voxyard, tmp_path):
    """Forty tones are enough for batches of 30, and too few for a mirrored 60."""
    changed = [30 if argument == 4 else argument for argument in auto]
    done = voxyard(*changed, "--max-steps", 2, "--validation-share", 0, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert any("mirrored" in line and "failed:" in line and "60" in line for line in done.stderr.splitlines())


@pytest.mark.timeout(300)
def test_sigterm_while_the_strategies_are_timed_ends_everything_and_keeps_what_was_measured(auto, tmp_path):
    process = subprocess.Popen(
        command(*auto, "--max-steps", 3),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(XDG_CACHE_HOME=str(tmp_path)),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "timing single (trial 1" in line:
            break
    children = eventually(lambda: _children(process.pid))
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(PATIENCE) == 0
    assert "ended before the training began" in rest
    assert re.search(r"measured so far:\n.*split +\S+ clips/s", rest), rest
    (kept,) = json.loads((tmp_path / "voxyard/strategies.json").read_text()).values()
    assert list(kept["timed"]) == ["split"]
    eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_precomputed_features_are_those_of_corpus_prepare(tones, tmp_path):
    config = TrainConfig.model_validate({"data": {"train_data": str(tones)}})
    made = precompute(config, tmp_path / "mine", clips=5)
    assert made.clips == 5
    made_with = CorpusSettings(feature_settings=feature_settings(config))
    prepare(tones, tmp_path / "whole", made_with, features=prepare_features(config))
    few, whole = (open_source(tmp_path / name, made_with) for name in ("mine", "whole"))
    assert few.ids == whole.ids[:5]
    for clip in range(5):
        one, other = few.read(clip).features or {}, whole.read(clip).features or {}
        assert all(np.array_equal(one[name], other[name]) for name in ("mel", "pitch", "energy"))


def _children(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children") as file:  # noqa: PTH123 - a file of the kernel's
        return [int(word) for word in file.read().split()]
