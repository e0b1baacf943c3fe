"""Run in MLflow, where MLFLOW_TRACKING_URI is set: written by MLflow's client in a thread beside the training."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRecord
    from mlflow.exceptions import MlflowException

log = logging.getLogger("voxyard.trainer")

VARIABLE = "MLFLOW_TRACKING_URI"
RUN_ID = "mlflow-run-id"  # file in the checkpoint directory
EXPERIMENT = "voxyard"  # unless MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID is set
MOST_WAITING = 1000  # values of as many steps wait for a slow server
MOST_METRICS = MOST_PARAMETERS = 100  # in one request; MLflow takes 1,000 and 100
LONGEST_VALUE = 6000  # characters of a parameter, as MLflow has it
RETRY_SECONDS = 5.0
END_SECONDS = 15.0  # longest wait at the end of a run for a slow server
_CLIENT_SETTINGS = {  # unless set: fewer retries than MLflow's 7 of 120 s, no telemetry, no links on stdout
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def wants_mlflow() -> bool:
    """True where a tracking server is named."""
    return bool(os.environ.get(VARIABLE, "").strip())


def require_mlflow() -> None:
    """Raises TrainerError with the command that installs the client, where a server is named and the client missing."""
    if wants_mlflow() and importlib.util.find_spec("mlflow") is None:
        raise TrainerError(
            f"{VARIABLE} is set, and MLflow's client is not installed: pip install 'voxyard[mlflow]', or unset the "
            "variable"
        )


def open_mlflow(config: TrainConfig, name: str, *, here: bool) -> AbstractContextManager[MlflowRun | None]:
    """The run in MLflow where a server is named, and this host reports; else None."""
    return MlflowRun(config, name) if here and wants_mlflow() else nullcontext()


@dataclass(frozen=True)
class _Values:
    """Metrics of one step."""

    step: int
    milliseconds: int
    values: Mapping[str, float]


class MlflowRun:
    """One run in MLflow. A context: its end waits a little for what the server does not have yet.

    A server that is down or slow costs values, never time: they wait in a bounded queue, what does not fit is dropped,
    and how many never arrived is said at the end.
    """

    def __init__(self, config: TrainConfig, name: str, *, end_seconds: float = END_SECONDS) -> None:
        """Raises TrainerError where MLflow's client is missing."""
        require_mlflow()
        self._parameters, self._name = flattened(config.model_dump(mode="json")), name
        self._id_file = config.training.checkpoint_dir / RUN_ID
        self._resume = config.training.resume
        self._queue: queue.Queue[_Values] = queue.Queue(MOST_WAITING)
        self._given = self._delivered = 0  # values, and those that the server has; each is changed by one thread
        self._status = "FAILED"  # unless `finish` says otherwise
        self._report: Path | None = None
        self._ends, self._end_seconds = threading.Event(), end_seconds
        self._told: set[str] = set()
        self._id: str | None = None
        # A thread that waits for a server must not keep the process.
        self._thread = threading.Thread(target=self._deliver, name="voxyard-mlflow", daemon=True)

    def __enter__(self) -> Self:
        for name, value in _CLIENT_SETTINGS.items():
            os.environ.setdefault(name, value)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(self._end_seconds)
        missing = self._given - self._delivered
        if missing:
            log.warning("MLflow: %d of %d values were not delivered", missing, self._given)
        if self._thread.is_alive():
            log.warning(
                "MLflow: the server did not take the end of the run within %g s: it may show the run as going on",
                self._end_seconds,
            )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Takes metrics of a step; returns at once."""
        self._given += len(values)
        try:
            self._queue.put_nowait(_Values(step, int(time.time() * 1000), dict(values)))
        except queue.Full:
            self._tell("its server is too slow for the values of this run: some are dropped")

    def finish(self, report: Path, *, killed: bool) -> None:
        """Notes that the run ended in order: at its end, or because it was told to stop."""
        self._status, self._report = "KILLED" if killed else "FINISHED", report

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric

            client = MlflowClient(os.environ[VARIABLE].strip())
            if not self._patiently(lambda: self._open(client)):
                return
            run_id = str(self._id)
            while batch := self._batch():
                metrics = [
                    Metric(name, value, one.milliseconds, one.step)
                    for one in batch
                    for name, value in one.values.items()
                ]
                for begin in range(0, len(metrics), MOST_METRICS):
                    part = metrics[begin : begin + MOST_METRICS]
                    if self._patiently(lambda part=part: client.log_batch(run_id, metrics=part)):  # type: ignore[misc]
                        self._delivered += len(part)
            self._patiently(lambda: client.set_terminated(run_id, self._status))
            if self._report is not None and self._report.exists():
                self._patiently(lambda: client.log_artifact(run_id, str(self._report)))
        except Exception as error:  # noqa: BLE001 (no fault of the client ends a training)
            self._tell(str(error) or type(error).__name__)

    def _open(self, client: MlflowClient) -> None:
        """Finds the run that is resumed, or makes one; gives it the settings."""
        run = self._known(client)
        if run is None:
            tags = {"mlflow.source.name": "voxyard train", "mlflow.source.type": "LOCAL"}
            run = client.create_run(_experiment(client), tags=tags, run_name=self._name)
            self._id_file.write_text(f"{run.info.run_id}\n", encoding="utf-8")
        self._id = run.info.run_id
        log.info("MLflow: run %s", self._id)
        self._log_parameters(client, run.data.params)

    def _known(self, client: MlflowClient) -> MlflowRecord | None:
        """The run of the checkpoint directory, going on again; None where there is none."""
        if not self._id_file.exists() or (self._id is None and not self._resume):
            return None
        from mlflow.exceptions import MlflowException

        known = self._id_file.read_text(encoding="utf-8").strip()
        try:
            found = client.get_run(known)
            client.update_run(known, status="RUNNING")
        except MlflowException as error:
            if _may_pass(error):
                raise
            log.warning("MLflow: the run %s of %s is not there, a new one is made: %s", known, self._id_file, error)
            return None
        return found

    def _log_parameters(self, client: MlflowClient, known: Mapping[str, str]) -> None:
        """Those that MLflow does not have; it keeps a parameter's first value, so others are tags of a resumed run."""
        from mlflow.entities import Param, RunTag

        new = [Param(name, value) for name, value in self._parameters.items() if name not in known]
        for begin in range(0, len(new), MOST_PARAMETERS):
            client.log_batch(str(self._id), params=new[begin : begin + MOST_PARAMETERS])
        changed = {name: value for name, value in self._parameters.items() if known.get(name, value) != value}
        if changed:
            client.log_batch(str(self._id), tags=[RunTag(f"resumed.{name}", value) for name, value in changed.items()])

    def _patiently(self, request: Callable[[], object]) -> bool:
        """Makes a request, again while the server is away and the run goes on; False where that was in vain."""
        from mlflow.exceptions import MlflowException

        deadline = None
        while True:
            try:
                request()
                return True
            except (MlflowException, OSError) as error:
                self._tell(str(error))
                if isinstance(error, MlflowException) and not _may_pass(error):
                    return False
            if self._ends.wait(RETRY_SECONDS):
                deadline = deadline or time.monotonic() + self._end_seconds
                if time.monotonic() > deadline:
                    return False
                time.sleep(min(1.0, self._end_seconds))

    def _tell(self, what: str) -> None:
        """A warning in the log, once for each fault."""
        line = what.partition("\n")[0][:300]
        if line[:40] not in self._told:
            self._told.add(line[:40])
            log.warning("MLflow: %s", line)

    def _batch(self) -> list[_Values]:
        """Values that wait, of at least one step; empty when the run has ended and none wait."""
        found: list[_Values] = []
        while not found:
            try:
                found.append(self._queue.get(timeout=0.2))
            except queue.Empty:
                if self._ends.is_set() and self._queue.empty():
                    return []
        while len(found) < MOST_METRICS and not self._queue.empty():
            found.append(self._queue.get_nowait())
        return found


def flattened(document: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Leaves of a JSON document by their path, as MLflow takes parameters: training.batch_size is 8."""
    found: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            found[f"{prefix}{name}"] = text[:LONGEST_VALUE]
    return found


def _experiment(client: MlflowClient) -> str:
    """Id of the experiment that MLflow's variables name, else of voxyard's; made where it is missing."""
    if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return given
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)


def _may_pass(error: MlflowException) -> bool:
    """True for a fault of the server or of the network: the same request may succeed later."""
    code = error.get_http_status_code()
    return code >= 500 or code in (408, 429)
