"""Runs of the acoustic model and its vocoder: trained together, resumed bit for bit, and heard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from forked import FEW_JUDGES, run_forked
from runs import environment
from steps import devices
from voices import SMALL, raw_batch

from voxyard.trainer import ModelConfig, TrainConfig, TrainerError, TrainingConfig, checkpoint
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.voice.vocoder_choice import EARLIER, ENOUGH

Voxyard = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.timeout(400)


def words(tones: Path, directory: Path, steps: int, *more: object) -> list[object]:
    return [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones, "--batch-size", 2,
        "--networks", "acoustic,vocoder", "--buckets", 1, "--num-workers", 1, "--no-tensorboard", "--sample-text", "",
        "--model-start-delay", 0, "--checkpoint-dir", directory, "--max-steps", steps,
        "--discriminators-after", 1, *more,
    ]  # fmt: skip


def run_of_few_judges(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*arguments, environment=environment(**variables), source=FEW_JUDGES)


@pytest.fixture
def voxyard() -> Voxyard:
    """Runs `voxyard ARGUMENTS` with a discriminator of each kind."""
    return run_of_few_judges


@pytest.fixture(scope="module")
def trained(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three steps in one go, with checkpoints of the last two."""
    directory = tmp_path_factory.mktemp("networks") / "whole"
    done = run_of_few_judges(*words(tones, directory, 3, "--checkpoint-every", 2))
    assert done.returncode == 0, done.stderr
    assert "up to step 1 (--disc" in done.stderr
    assert done.stderr.count("Step 1: the vocoder's discriminators take part from the next step on") == 1
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "precision", "xla"),
    [("single", "float16", False), pytest.param("split", "bfloat16", True, marks=pytest.mark.long)],
)
def test_both_networks_train_and_are_validated_as_gpus_do_it(
    strategy: str, precision: Any, xla: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In half precision and by XLA, a GPU's defaults, with a discriminator of each kind."""
    from voxyard.trainer.model import discriminators
    from voxyard.trainer.model.sizes import VocoderShape
    from voxyard.trainer.model.trainable_voice import SpeechWithVocoder
    from voxyard.trainer.step import TrainStep

    monkeypatch.setattr(discriminators, "PERIODS", (2,))
    monkeypatch.setattr(discriminators, "RESOLUTIONS", ((512, 128),))
    config = TrainConfig(
        model=ModelConfig(networks="acoustic,vocoder"),
        training=TrainingConfig(precision=precision, xla=xla, discriminators_after=0, checkpoint_dir=Path("unused")),
    )
    voice = SpeechWithVocoder(config, ("",), shape=SMALL, vocoder=VocoderShape(16, 1, 32, (4, 8), 4))
    step = TrainStep(voice, devices(strategy), config, most_traces=1)
    clips = {name: value.numpy() for name, value in raw_batch([(40, 8), (33, 6)], 40, 8).items()}
    losses: dict[str, float] = {}
    for number in (0, 1):
        losses = step.train(step.stage(clips), number).read()
        assert all(np.isfinite(value) for value in losses.values()), losses
    assert losses["discriminators/total"] > 0
    judged = step.evaluate(clips)
    assert judged["vocoder_mel"].shape == (2,)
    assert np.isfinite(judged["total"]).all()
    step.close()


def test_the_losses_of_each_network_are_in_the_report(trained: Path) -> None:
    report = json.loads((trained / "report.json").read_text())
    assert report["losses"]["discriminators/total"] > 0, "they take part from the second step on"
    assert {"total", "acoustic/mel", "discriminators/total", "vocoder/mel", "vocoder/features"} <= set(report["losses"])
    assert "vocoder_mel" in report["validation"]


@pytest.mark.long
@pytest.mark.parametrize("devices", [["--strategy", "single"], ["--strategy", "mirrored", "--cpu-devices", 2]])
def test_runs_whose_operations_run_side_by_side_resume_bit_for_bit(
    devices: list[object], tones: Path, tmp_path: Path, voxyard: Voxyard
) -> None:
    """In clips so long that TensorFlow's graph optimizer would add gradients as they come."""
    for directory, steps in (("whole", 3), ("parts", 2), ("parts", 3)):
        done = voxyard(
            "train", "--device", "cpu", *devices, "--train-data", tones, "--batch-size", 8, "--buckets", 1,
            "--networks", "acoustic,vocoder", "--discriminators-after", 1, "--checkpoint-dir", tmp_path / directory,
            "--max-steps", steps, "--num-workers", 1, "--no-tensorboard", "--sample-text", "",
            "--validation-share", 0, "--model-start-delay", 0,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    whole, parts = (checkpoint.newest_good(tmp_path / each) for each in ("whole", "parts"))
    assert whole is not None
    assert parts is not None
    assert [name for name in whole.state if whole.state[name].tobytes() != parts.state[name].tobytes()] == []


@pytest.mark.parametrize("place", ["model", pytest.param("data", marks=pytest.mark.long)])
def test_a_run_goes_on_bit_for_bit_wherever_the_vocoder_is_trained(
    place: str, trained: Path, tones: Path, tmp_path: Path, voxyard: Voxyard
) -> None:
    """Discriminators included; until its checkpoint of step 2 the data device trained it."""
    moved = tmp_path / "moved"
    earlier, _ = sorted(trained.glob("step-*"))
    shutil.copytree(earlier, moved / earlier.name)
    done = voxyard(*words(tones, moved, 3, "--vocoder-on", place))
    assert done.returncode == 0, done.stderr
    assert re.search(r"Resuming from \S+ at step 2", done.stderr)
    assert f"Training discriminators + vocoder on the {place} device (--vocoder-on)" in done.stderr
    assert "one update a step, with disc" in done.stderr
    whole, parts = (checkpoint.newest_good(each) for each in (trained, moved))
    assert whole is not None
    assert parts is not None
    assert whole.step == parts.step == 3
    assert whole.state.keys() == parts.state.keys()
    assert [name for name in whole.state if whole.state[name].tobytes() != parts.state[name].tobytes()] == []


@pytest.mark.long  # unit/trainer/autotune/test_choice.py holds the choice quickly, without the runs
@pytest.mark.timeout(1800)
def test_the_placement_is_chosen_by_trials_and_a_resumed_run_keeps_it(
    tones: Path, tmp_path: Path, voxyard: Voxyard
) -> None:
    """The ways run with discriminators, their bounds are told, and the checkpoint says which it was."""
    every = words(tones, tmp_path / "auto", 3, "--strategy", "auto", "--strategy-steps", 15, "--json")
    every += ["--validation-share", 0]
    done = voxyard(*every, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "timing 15 steps of each of 4 strategies" in done.stderr
    assert "the vocoder is timed with its discriminators" in done.stderr
    assert "failed" not in done.stderr
    assert re.search(r"a step takes D [\d.]+ ms, M [\d.]+ ms, V [\d.]+ ms; most that can be gained", done.stderr)
    report = json.loads(done.stdout)
    assert set(report["trials"]) == {"single", "split, vocoder on data", "split, vocoder on model", "mirrored"}
    for trial in report["trials"].values():
        assert trial["bound"] >= 1
        assert trial["reached"] is None or trial["reached"] > 0, "None: it could not win, and was not timed"
    assert report["trials"]["single"]["reached"] == 1
    (chosen,) = re.findall(r"auto: ([^;]+?) is (?:the fastest here|hardly faster)", done.stderr)
    strategy, _, place = chosen.partition(", vocoder on ")
    assert (report["strategy"], report["beside_on"]) == (strategy, place or None)
    again = voxyard(*[5 if each == 3 else each for each in every], XDG_CACHE_HOME=str(tmp_path / "other"))
    assert again.returncode == 0, again.stderr
    assert f"the resumed run keeps its strategy {chosen}" in again.stderr
    assert json.loads(again.stdout)["beside_on"] == (place or None)


def test_the_voice_speaks_with_its_vocoder_and_with_griffin_lim(
    trained: Path, tmp_path: Path, voxyard: Voxyard
) -> None:
    sounds, said = {}, ""
    for vocoder in ("neural", "griffin-lim", "auto"):
        out, mel = tmp_path / f"{vocoder}.wav", tmp_path / f"{vocoder}.npy"
        done = voxyard(
            "synthesize", "--checkpoint", trained, "--text", "one two", "--out", out, "--vocoder", vocoder, "--mel", mel
        )
        assert done.returncode == 0, done.stderr
        with wave.open(str(out)) as file:
            sounds[vocoder] = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        said = done.stderr
    assert len(sounds["neural"]) == len(sounds["griffin-lim"]) == 256 * len(np.load(tmp_path / "neural.npy"))
    assert (sounds["neural"] != sounds["griffin-lim"]).any()
    np.testing.assert_array_equal(sounds["auto"], sounds["griffin-lim"])
    assert "Griffin-Lim speaks: the model's own vocoder had 10 updates" in said, "eight in the first of three steps"
    found = checkpoint.newest_good(trained)
    assert found is not None
    old = checkpoint.save(tmp_path / "old", found.step, found.state, {**found.meta, EARLIER: ENOUGH}, keep=1)
    done = voxyard("synthesize", "--checkpoint", old, "--text", "one two", "--out", tmp_path / "old.wav")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("vocoder neural")
    assert (tmp_path / "old.wav").read_bytes() == (tmp_path / "neural.wav").read_bytes()


@pytest.mark.long  # in `make prove` test_export.py begins from another run's weights
def test_a_model_goes_on_from_an_acoustic_one(trained: Path, tones: Path, tmp_path: Path, voxyard: Voxyard) -> None:
    """--init-from takes the acoustic weights and names what it has to begin with."""
    alone = words(tones, tmp_path / "alone", 1)
    alone[alone.index("acoustic,vocoder")] = "acoustic"
    assert voxyard(*alone).returncode == 0
    refused = voxyard(
        "synthesize", "--checkpoint", tmp_path / "alone", "--text", "one", "--out", tmp_path / "no.wav",
        "--vocoder", "neural",
    )  # fmt: skip
    assert refused.returncode == 2
    assert "has no vocoder of its own; leave --vocoder out, or train one with --networks" in refused.stderr
    done = voxyard(*words(tones, tmp_path / "both", 1, "--init-from", tmp_path / "alone"))
    assert done.returncode == 0, done.stderr
    assert "missing: model/vocoder/head/kernel" in done.stderr
    assert "model/text_to_mel" not in done.stderr


def test_a_run_does_not_go_on_with_a_model_or_a_vocoder_of_another_size(tmp_path: Path) -> None:
    """The variables that do not fit would be a list of hundreds; where the networks are others, they tell it."""
    from voxyard.trainer.saving.run_state import RunState

    def config(**model: Any) -> TrainConfig:
        return TrainConfig.model_validate(
            {"model": {"networks": "acoustic,vocoder"} | model, "training": {"checkpoint_dir": str(tmp_path)}}
        )

    def resume(**model: Any) -> None:
        nothing: Any = SimpleNamespace(restore=lambda _: None)
        corpora: Any = SimpleNamespace(training=SimpleNamespace(fingerprint=""))
        RunState(config(**model), corpora, 8).restore(nothing)

    was = config(size="small", vocoder_size="tiny").model_dump(mode="json")
    checkpoint.save(tmp_path, 7, {"one": np.zeros(1, np.float32)}, {"config": was}, keep=1)
    with pytest.raises(
        TrainerError, match="its vocoder is tiny and not small: give --vocoder-size tiny, or start anew"
    ):
        resume(size="small")
    for fits in ({"size": "small", "vocoder_size": "tiny"}, {"size": "small", "networks": "acoustic"}):
        resume(**fits)
    for other in ("tiny", "normal"):
        with pytest.raises(TrainerError, match=f"its model is small and not {other}: give --model-size small, or"):
            resume(size=other)
    del was["model"]["vocoder_size"]  # an older checkpoint: as large as the model
    checkpoint.save(tmp_path, 8, {"one": np.zeros(1, np.float32)}, {"config": was}, keep=1)
    resume(size="small", vocoder_size="small")
    with pytest.raises(TrainerError, match="its vocoder is small and not big"):
        resume(size="small", vocoder_size="big")


@pytest.mark.long  # test_export.py exports a vocoder, the test before this one refuses another size
def test_a_vocoder_has_a_size_of_its_own(tones: Path, tmp_path: Path, voxyard: Voxyard) -> None:
    """It is trained, speaks, and is exported, with and without it."""
    from voxyard.trainer.model.sizes import VOCODER_SIZES

    done = voxyard(*words(tones, tmp_path / "run", 1, "--vocoder-size", "small"))
    assert done.returncode == 0, done.stderr
    found = checkpoint.newest_good(tmp_path / "run")
    assert found is not None
    assert found.state["model/vocoder/head/bias"].shape == (1026,)
    assert found.state["model/vocoder/embed/bias"].shape == (VOCODER_SIZES["small"].width,)
    for vocoder in ("neural", "griffin-lim"):
        voice = tmp_path / vocoder
        done = voxyard(
            "export", "--checkpoint", tmp_path / "run", "--out", voice, "--vocoder", vocoder, "--licence", "CC0-1.0"
        )
        assert done.returncode == 0, done.stderr
    done = voxyard(
        "synthesize", "--checkpoint", tmp_path / "run", "--text", "one", "--out", tmp_path / "one.wav", "--vocoder",
        "neural",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused = voxyard(*words(tones, tmp_path / "run", 2))
    assert refused.returncode == 2
    assert "its vocoder is small and not tiny: give --vocoder-size small" in refused.stderr


def test_what_cannot_train_a_vocoder_is_refused(tones: Path, tmp_path: Path, voxyard: Voxyard) -> None:
    done = voxyard("corpus", "prepare", tones, tmp_path / "shards", "--features", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    refused = voxyard(*words(tmp_path / "shards", tmp_path / "run", 1))
    assert refused.returncode == 2
    assert "learns from samples, and shards of `corpus prepare --features` have none" in refused.stderr
    refused = voxyard(*words(tones, tmp_path / "run", 1, "--model-module", "toy:make"))
    assert refused.returncode == 2
    assert "--networks acoustic,vocoder is of voxyard's own model" in refused.stderr


@pytest.mark.parametrize("model", [{}, {"networks": "acoustic,vocoder", "module": "toy:make"}])
def test_a_size_of_no_vocoder_is_refused(model: dict[str, str]) -> None:
    config = TrainConfig.model_validate({"model": {"vocoder_size": "small"} | model})
    with pytest.raises(TrainerError, match="--vocoder-size small has no effect, this run does not train voxyard's own"):
        load_trainable(config, ("",))
