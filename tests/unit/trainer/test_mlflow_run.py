"""A run in MLflow, by its real client: into a file store, and to servers that refuse or never answer."""

from __future__ import annotations

import importlib.util
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE
from mlflow import MlflowClient

from voxyard.trainer import DataConfig, TrainConfig, TrainerError, TrainingConfig
from voxyard.trainer.api import train
from voxyard.trainer.reporting import mlflow_run
from voxyard.trainer.reporting.mlflow_run import MOST_WAITING, RUN_ID, MlflowRun, flattened, open_mlflow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """Client of an empty file store, which MLflow's variables name."""
    uri = (tmp_path / "store").as_uri()
    point_at(uri, monkeypatch)
    return MlflowClient(uri)


def point_at(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mlflow_run._CLIENT_SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for name in ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)


def config(directory: Path, **training: Any) -> TrainConfig:
    directory.mkdir(exist_ok=True)
    return TrainConfig(training=TrainingConfig(checkpoint_dir=directory, **training))


def test_a_run_has_its_settings_its_values_its_report_and_its_end(tmp_path: Path, store: MlflowClient) -> None:
    settings, report = config(tmp_path / "run", batch_size=8), tmp_path / "report.json"
    report.write_text(json.dumps({"last_step": 20}))
    with MlflowRun(settings, "first", end_seconds=60) as run:
        run.scalars(10, {"train/total": 2.0, "train/clips_per_second": 40.0})
        run.scalars(20, {"train/total": 1.0, "validation/dnsmos": 3.5})
        run.finish(report, killed=False)
    found = store.get_run((tmp_path / "run" / RUN_ID).read_text().strip())
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert store.get_experiment(found.info.experiment_id).name == "voxyard"
    assert found.data.params == flattened(settings.model_dump(mode="json"))
    assert found.data.params["training.batch_size"] == "8"
    assert [(each.step, each.value) for each in store.get_metric_history(found.info.run_id, "train/total")] == [
        (10, 2.0), (20, 1.0),
    ]  # fmt: skip
    assert found.data.metrics["validation/dnsmos"] == 3.5
    assert json.loads(Path(store.download_artifacts(found.info.run_id, "report.json")).read_text()) == {"last_step": 20}


def test_a_resumed_run_goes_on_in_the_same_one_and_a_new_one_does_not(
    tmp_path: Path, store: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "voices")
    directory, ids = tmp_path / "run", []
    for step, settings in enumerate(
        (config(directory), config(directory, batch_size=4), config(directory, resume=False))
    ):
        with MlflowRun(settings, "run", end_seconds=60) as run:
            run.scalars(step, {"train/total": 1.0})
            run.finish(directory / "none.json", killed=step == 1)
        ids.append((directory / RUN_ID).read_text().strip())
    assert ids[0] == ids[1] != ids[2]
    resumed = store.get_run(ids[1])
    assert [each.step for each in store.get_metric_history(ids[1], "train/total")] == [0, 1]
    assert (resumed.info.status, resumed.data.tags["resumed.training.batch_size"]) == ("KILLED", "4")
    assert store.get_experiment(resumed.info.experiment_id).name == "voices"
    assert store.get_run(ids[2]).info.status == "FINISHED"


def test_a_run_that_fails_is_failed_and_one_that_the_server_forgot_is_made_anew(
    tmp_path: Path, store: MlflowClient, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(tmp_path / "run")
    (tmp_path / "run" / RUN_ID).write_text("0123456789abcdef0123456789abcdef\n")
    with pytest.raises(TrainerError, match="broken"), MlflowRun(settings, "run", end_seconds=60):
        raise TrainerError("broken")
    assert store.get_run((tmp_path / "run" / RUN_ID).read_text().strip()).info.status == "FAILED"
    assert "is not there, a new one is made" in caplog.text


def test_a_server_that_refuses_costs_values_and_they_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        point_at(f"http://127.0.0.1:{taken.getsockname()[1]}", monkeypatch)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with MlflowRun(config(tmp_path / "run"), "run", end_seconds=0.1) as run:
            run.scalars(1, {"train/total": 1.0, "train/mel": 1.0})
            run.finish(tmp_path / "none.json", killed=False)
    assert "MLflow: 2 of 2 values were not delivered" in caplog.text


@pytest.fixture
def silent() -> Iterator[tuple[int, threading.Event]]:
    """Port of a server that takes connections and never answers, and whether somebody connected."""
    connected, kept = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            kept.append(server.accept()[0])
            connected.set()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1], connected
        for each in kept:
            each.close()


def test_a_server_that_never_answers_does_not_hold_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silent: Any
) -> None:
    """All values are taken while the server has not answered once; the oldest wait, the others are dropped."""
    port, connected = silent
    point_at(f"http://127.0.0.1:{port}", monkeypatch)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with MlflowRun(config(tmp_path / "run"), "run", end_seconds=0.1) as run:
        assert connected.wait(PATIENCE)
        for step in range(2 * MOST_WAITING):
            run.scalars(step, {"train/total": 1.0})
        run.finish(tmp_path / "none.json", killed=False)
    assert "too slow for the values of this run" in caplog.text
    assert f"{2 * MOST_WAITING} of {2 * MOST_WAITING} values were not delivered" in caplog.text


def test_without_the_client_a_run_says_how_to_install_it_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    settings = TrainConfig(data=DataConfig(train_data=tmp_path / "nowhere"))
    with pytest.raises(TrainerError, match=r"pip install 'voxyard\[mlflow\]', or unset"):
        train(settings)


@pytest.mark.parametrize(("uri", "here"), [("", True), ("http://127.0.0.1:5000", False)])
def test_nothing_is_tracked_without_the_variable_and_on_hosts_that_do_not_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, here: bool
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with open_mlflow(config(tmp_path / "run"), "run", here=here) as run:
        assert run is None
