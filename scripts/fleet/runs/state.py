"""State of the runs of a host, from their files, containers and logs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fleet.facts.fact import Fact
from fleet.facts.machine import Container, containers_of
from fleet.runs.files import MANIFEST, metrics_url
from fleet.ssh.command_batch import verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must_know

TAIL_LINES = 60

_STEP = re.compile(r"^step (\d+)(?:/(\d+))?: .*?\bloss (\S+?)(?: at step \d+)?,", re.MULTILINE)
_RESUMED = re.compile(r"^Resuming from \S+ at step (\d+)", re.MULTILINE)
_AGAIN = "Starting again: "  # log message of a trainer that lost another host
NOT_ENFORCEABLE = "Memory limits are not enforceable on a CPU device"  # log message of the trainer
KILLED, TERMINATED = 137, 143


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """State of one training run."""

    id: str
    host: str  # name in the inventory
    release: str  # of the last start
    image: str
    gpus: tuple[str, ...]
    limits: Mapping[str, int]  # MiB by UUID
    address: str
    port: int
    stop_seconds: int
    corpora: tuple[str, ...]  # inputs, as paths below corpora/
    by: str
    drained: bool  # stopped for a deployment, to be resumed
    started: float  # when its files were written, host time in seconds since the epoch
    starting: bool  # Compose is starting it
    start_code: int | None  # exit code of Compose; None: still running
    checkpoint: int | None  # newest step
    report: Mapping[str, Any] | None
    prepare: Container | None = None
    train: Container | None = None
    log: str = ""  # its last lines
    tls: str | None = None  # name that the certificate of its metrics is for; None: plain HTTP
    hosts: tuple[str, ...] = ()  # all hosts that it trains over, in their order; empty: this one alone

    @property
    def active(self) -> bool:
        """True while it uses its GPUs, or will after the corpus is prepared."""
        return self.starting or any(each is not None and each.alive for each in (self.prepare, self.train))

    @property
    def state(self) -> str:
        """preparing, starting, running, restarting, finished, stopped, drained, or failed with the reason."""
        if self.active:
            return self._working()
        if self.drained:
            return "drained"
        train, prepare = self.train, self.prepare
        if train is None or train.state == "created":
            if prepare is not None and prepare.exit_code not in (0, TERMINATED):
                return f"failed: the corpus was not prepared (exit code {prepare.exit_code})"
            if prepare is not None and prepare.exit_code == TERMINATED:
                return "stopped"
            if self.start_code:
                return f"failed to start (exit code {self.start_code})"
            return self._ended() if self.report is not None else "not started"
        if train.exit_code == 0:
            return self._ended()
        if train.exit_code == TERMINATED:
            return "stopped"
        memory = ", out of memory" if train.out_of_memory else ", killed" if train.exit_code == KILLED else ""
        return f"failed (exit code {train.exit_code}{memory})"

    @property
    def step(self) -> int | None:
        """Last known step."""
        known = [int(found[0]) for found in _STEP.findall(self.log)]
        known += [int(found) for found in _RESUMED.findall(self.log)]
        if not self.active and self.report is not None:
            known.append(int(self.report["last_step"]))
        if self.checkpoint is not None:
            known.append(self.checkpoint)
        return max(known, default=None)

    @property
    def last_step(self) -> int | None:
        """Final step, where the log contains it."""
        said = _STEP.findall(self.log)
        return int(said[-1][1]) if said and said[-1][1] else None

    @property
    def loss(self) -> float | None:
        """Last known total loss."""
        if not self.active and self.report is not None:
            loss = (self.report.get("losses") or {}).get("total")
            return None if loss is None else float(loss)
        said = [found[2] for found in _STEP.findall(self.log)]
        return next((float(text) for text in reversed(said) if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", text)), None)

    @property
    def since(self) -> str:
        """Time of the last state change: host time, ISO 8601 in UTC."""
        train = self.train or self.prepare
        if train is None or train.state == "created":
            return datetime.fromtimestamp(self.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{(train.started if train.alive else train.finished)[:19]}Z"

    def to_json(self) -> dict[str, Any]:
        """JSON document of the run."""
        return {
            "run": self.id,
            "state": self.state,
            "active": self.active,
            "step": self.step,
            "last_step": self.last_step,
            "loss": self.loss,
            "checkpoint": self.checkpoint,
            "since": self.since,
            "release": self.release,
            "gpus": list(self.gpus),
            "limits": dict(self.limits),
            "metrics": metrics_url(self.address, self.port, tls=self.tls is not None),
            "by": self.by,
            **({"hosts": list(self.hosts)} if self.hosts else {}),
        }

    def _working(self) -> str:
        if self.train is None or not self.train.alive:
            return "preparing" if self.prepare is not None and self.prepare.alive else "starting"
        _, again, log = self.log.rpartition(_AGAIN)
        if self.train.state == "restarting" or (again and not _STEP.search(log)):
            return "restarting"
        return "running" if _STEP.search(log) or self.train.health == "healthy" else "starting"

    def _ended(self) -> str:
        if self.report is None:  # no steps were left
            return "finished"
        why = str(self.report.get("ended", ""))
        return "stopped" if why.startswith("SIG") or "was asked to stop" in why else "finished"


def read_runs(session: Session) -> tuple[TrainingRun, ...]:
    """Read all runs of a host. Raises HostFailedError where they cannot be read."""
    answers = session.run([fact.command for fact in (LISTING, CONTAINERS, TAILS)])
    otherwise = "the runs of the host cannot be read"
    containers, tails = must_know(CONTAINERS, answers, otherwise), must_know(TAILS, answers, otherwise)
    return tuple(_with_containers(each, containers, tails) for each in must_know(LISTING, answers, otherwise))


def _with_containers(run: TrainingRun, containers: Sequence[Container], tails: Mapping[str, str]) -> TrainingRun:
    of_role = {each.service: each for each in containers if each.run == run.id}
    train = of_role.get("trainer")
    log = "" if train is None else tails.get(train.id, "")
    return replace(run, prepare=of_role.get("prepare"), train=train, log=log)


def _listed(text: str) -> tuple[TrainingRun, ...]:
    """Runs by their files, without their containers."""
    return tuple(_run(*line.split(" ")) for line in text.splitlines())


def _run(name: str, manifest: str, report: str, newest: str, start: str, drained: str, written: str) -> TrainingRun:
    found = json.loads(base64.b64decode(manifest))
    return TrainingRun(
        id=name,
        host=str(found["host"]),
        release=str(found["release"]),
        image=str(found["image"]),
        gpus=tuple(found["gpus"]),
        limits={str(gpu): int(mib) for gpu, mib in found["limits"].items()},
        address=str(found["address"]),
        port=int(found["port"]),
        stop_seconds=int(found["stop_seconds"]),
        corpora=tuple(f"{each['name']}/{each['id']}" for each in found["inputs"].values()),
        by=str(found["by"]),
        drained=drained == "yes",
        started=float(written),
        starting=start == "begun",
        start_code=int(start) if start.isdigit() else None,
        checkpoint=int(newest.strip("-").removeprefix("step-")) if newest != "-" else None,
        report=None if report == "-" else json.loads(base64.b64decode(report)),
        tls=found.get("tls"),
        hosts=tuple(map(str, found["hosts"]["names"])) if "hosts" in found else (),
    )


def _tails(text: str) -> dict[str, str]:
    """Last log lines by container."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {name: base64.b64decode(body).decode(errors="replace") for name, _, body in rows}


LISTING: Fact[tuple[TrainingRun, ...]] = Fact("runs", verb("run_list", MANIFEST), _listed, 30)
CONTAINERS = Fact("run-containers", verb("container_inspect", "voxyard.run"), containers_of, 30)
TAILS: Fact[dict[str, str]] = Fact("run-logs", verb("run_tails", str(TAIL_LINES)), _tails, 30)
