"""Training runs during a rollout: active ones, drained ones, and their resumption."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.runs.runs import active_runs, resume_drained, stop_run
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.connection_pool import Session


class TrainingRunHooks:
    """`fleet.rollout.context.Runs`, by what the files and containers of a host say."""

    def active(self, session: Session, /) -> Sequence[TrainingRun]:
        """Those that train now, or wait for their corpus. Raises HostFailedError."""
        return active_runs(session)

    def stop(self, session: Session, run: TrainingRun, /, *, drained: bool) -> TrainingRun:
        """Write a checkpoint and end. Raises HostFailedError."""
        return stop_run(session, run, drained=drained)

    def waiting(self, session: Session, /) -> Sequence[TrainingRun]:
        """Those that were drained, and are not started again yet. Raises HostFailedError."""
        return tuple(run for run in read_runs(session) if run.drained)

    def resume_drained(self, session: Session, release: str | None, /) -> Sequence[TrainingRun]:
        """Start those again that were drained. Raises HostFailedError, FleetError."""
        return resume_drained(session, release)
