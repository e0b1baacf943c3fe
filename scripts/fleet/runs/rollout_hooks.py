"""Training runs during a rollout: active ones, drained ones, and their resumption."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.runs import runs
from fleet.runs.state import Run, read_runs
from fleet.ssh.connection_pool import Session


class TrainingRuns:
    """`fleet.rollout.context.Runs`, by what the files and containers of a host say."""

    def active(self, session: Session, /) -> Sequence[Run]:
        """Those that train now, or wait for their corpus. Raises HostFailedError."""
        return runs.active(session)

    def stop(self, session: Session, run: Run, /, *, drained: bool) -> Run:
        """Write a checkpoint and end. Raises HostFailedError."""
        return runs.stop(session, run, drained=drained)

    def waiting(self, session: Session, /) -> Sequence[Run]:
        """Those that were drained, and are not started again yet. Raises HostFailedError."""
        return tuple(run for run in read_runs(session) if run.drained)

    def resume_drained(self, session: Session, release: str | None, /) -> Sequence[Run]:
        """Start those again that were drained. Raises HostFailedError, FleetError."""
        return runs.resume_drained(session, release)
