"""`voxyard profile` on real runs: every layout, the cache, the user's checkpoints, refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ALONE, run_forked
from runs import environment, write_tones

Ended = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty recordings."""
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 40)


def voxyard(*arguments: Any, alone: bool = True, **variables: str) -> Ended:
    """`voxyard …` to its end, as if it were `alone` on the machine, or as it is."""
    return run_forked(*arguments, environment=environment(**variables), source=ALONE if alone else None)


def profile(corpus: Path, *flags: Any, alone: bool = True, **variables: str) -> Any:
    """The document of a profile of the toy model."""
    own = ["--train-data", corpus, "--model-module", "toy:make", "--batch-size", 4, "--buckets", 2]
    done = voxyard("profile", "--json", "--num-steps", 8, "--device", "cpu", *own, *flags, alone=alone, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_profile_leaves_the_runs_own_files_alone(corpus: Path, tmp_path: Path) -> None:
    """Neither --no-resume in the file nor a checkpoint of another model has any effect."""
    run = tmp_path / "run"
    (run / "step-00000007").mkdir(parents=True)
    (run / "step-00000007" / "meta.json").write_text("{}")
    file = tmp_path / "train.yaml"
    file.write_text(f"training:\n  checkpoint_dir: {run}\n  resume: false\n  max_steps: 3\n")
    found = profile(corpus, "--config", file, "--data-gpu", 0, "--model-gpu", 1, "--num-workers", 2)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["meta.json", "run", "step-00000007", "train.yaml"]
    assert found["overlapped"]["steps"] == 8
    assert [each["batches"] for each in found["stages"]] == [8, 8, 8, 8]
    assert sum(each["share"] for each in found["stages"]) == pytest.approx(1.0)
    assert len(found["overlapped"]["timeline"]["steps"]) == 8
    assert found["overlapped"]["left_out"]["traced"] == 0
    assert found["setup"]["left_out_seconds"] > 0
    saving, validating = found["interruptions"]
    assert (saving["cause"], saving["every"], validating["cause"], validating["every"]) == (
        "checkpoint",
        1000,
        "validation",
        500,
    )
    assert re.search(rf" MiB, written in \S+ s beside the steps to {run} and removed$", saving["note"])
    for each in (saving, validating):
        assert 0 < each["share"] < each["seconds"] / each["every"] / found["overlapped"]["seconds_per_step"]


def test_others_that_take_the_cores_are_named_and_no_verdict_rests_on_them(corpus: Path) -> None:
    """As shipped, beside one loop more than there are cores."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(len(os.sched_getaffinity(0)) + 1)
    ]
    try:
        found = profile(corpus, alone=False)
    finally:
        for each in loops:
            each.kill()
            each.wait()
    assert found["other_load"]["disturbs"]
    assert found["other_load"]["programs"]
    assert bool(found["verdict"]["withheld"]) == found["verdict"]["sentence"].startswith(
        "no verdict: other programs took"
    )
    assert not (found["verdict"]["withheld"] and found["recommendations"])


def test_a_checkpoint_that_cannot_be_written_is_not_measured_and_the_profile_goes_on(
    corpus: Path, tmp_path: Path
) -> None:
    """No file of one byte can be made in /proc, by nobody."""
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  checkpoint_dir: /proc/runs/one\n")
    found = profile(corpus, "--config", file)
    assert found["interruptions"][0]["seconds"] is None
    assert "/proc/" in found["interruptions"][0]["note"]
    assert found["overlapped"]["steps"] == 8


def test_the_gap_is_what_the_overlapped_run_takes_more_than_its_slowest_part(corpus: Path) -> None:
    found = profile(corpus, "--data-gpu", 0, "--model-gpu", 1, "--num-workers", 1)
    over = found["overlapped"]
    means = {each["stage"]: each["mean"] for each in found["stages"]}
    ideal = max(means["load"], means["features"] + means["transfer"], means["train"])
    assert over["ideal_seconds_per_step"] == pytest.approx(ideal)
    assert over["lost_seconds_per_step"] == pytest.approx(over["seconds_per_step"] - ideal)
    assert over["lost_samples_per_second"] == pytest.approx(4 / ideal - 4 / over["seconds_per_step"])


def test_one_device_and_all_devices_are_profiled_as_they_train(corpus: Path) -> None:
    single = profile(corpus)
    assert (single["setup"]["strategy"], single["data_device_ceiling"]) == ("single", None)
    assert set(single["device_use"]) == {"model"}
    mirrored = profile(corpus, "--strategy", "mirrored")
    assert mirrored["setup"]["batch"] == 8
    assert [each["stage"] for each in mirrored["stages"]] == ["load", "transfer", "train"]


def test_a_cached_corpus_is_profiled_as_it_is_from_the_second_epoch_on(corpus: Path) -> None:
    """The first epoch, which fills the cache, is left out."""
    found = profile(
        corpus, "--cache-dataset", "--data-gpu", 0, "--model-gpu", 1, "--model-module", "slow_stages:make",
        "--num-workers", 1, SLOW_READ="0.1",
    )  # fmt: skip
    assert next(each for each in found["stages"] if each["stage"] == "load")["mean"] < 0.1
    assert found["verdict"]["bottleneck"] != "load"


def test_steps_that_are_traced_in_mid_run_are_left_out_and_counted(corpus: Path) -> None:
    """Without buckets new shapes come all the time."""
    found = profile(
        corpus, "--no-enable-static-shapes", "--batch-size", 2, "--num-workers", 1, "--model-module", "slow_stages:make"
    )
    over = found["overlapped"]
    assert over["left_out"]["traced"] > 0
    assert over["left_out"]["traced"] + over["steps"] == 8
    assert "--enable-static-shapes" in [flag for each in found["recommendations"] for flag in each["flags"]]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "no corpus: give --train-data DIR"),
        (["--train-data", "/nowhere"], "/nowhere does not exist"),
        (["--train-data", "CORPUS", "--data-gpu", "0"], "--model-gpu"),
        (["--strategy", "auto"], "a profile is of one of them"),
    ],
)
def test_what_cannot_be_profiled_is_a_sentence(corpus: Path, flags: list[str], said: str) -> None:
    done = voxyard("profile", "--device", "cpu", *(corpus if flag == "CORPUS" else flag for flag in flags))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
