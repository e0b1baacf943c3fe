"""Judges of a run's validation (--judge): TensorBoard and report have what they said, beside the recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import run_forked
from mlflow import MlflowClient
from runs import environment, write_tones
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from voxyard.trainer.reporting.mlflow_run import RUN_ID


def test_speech_of_each_validation_is_judged_beside_the_recordings(tmp_path: Path) -> None:
    """MLflow, where its variable is set, has the same values of the same steps as TensorBoard."""
    store = (tmp_path / "store").as_uri()
    corpus, run = write_tones(tmp_path / "corpus", 12), tmp_path / "run"
    done = run_forked(
        "train", "--device", "cpu", "--strategy", "single", "--train-data", corpus, "--validation-share", "0.25",
        "--model-module", "toy:make", "--batch-size", 4, "--max-steps", 2, "--judge", 2, "--checkpoint-dir", run,
        "--log-every", 1, "--validate-every", 1,
        environment=environment(MLFLOW_TRACKING_URI=store, MLFLOW_ALLOW_FILE_STORE="true"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    names = {"validation/wer", "validation/dnsmos", "validation/recorded_wer", "validation/recorded_dnsmos"}
    assert names <= set(events.Tags()["tensors"])
    assert [event.step for event in events.Tensors("validation/dnsmos")] == [1, 2]
    judged = json.loads((run / "report.json").read_text())["judged"]
    assert judged.keys() == {"wer", "dnsmos", "step", "recorded_wer", "recorded_dnsmos"}
    assert 1 <= judged["recorded_dnsmos"] <= 5
    assert "DNSMOS P.808" in done.stdout
    assert "words are counted as English ones" in done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = MlflowClient(store)
    tracked = client.get_run((run / RUN_ID).read_text().strip())
    assert (tracked.info.status, tracked.info.run_name) == ("FINISHED", "run")
    assert tracked.data.params["telemetry.judge"] == "2"
    assert names | {"train/total", "validation/total", "train/clips_per_second"} <= tracked.data.metrics.keys()
    for name in tracked.data.metrics:
        history = client.get_metric_history(tracked.info.run_id, name)
        assert [each.step for each in history] == [event.step for event in events.Tensors(name)], name
    report = Path(client.download_artifacts(tracked.info.run_id, "report.json"))
    assert json.loads(report.read_text()) == json.loads((run / "report.json").read_text())
