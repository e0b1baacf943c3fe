"""Rollout hooks of training runs: list, stop, resume."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.runs.runs import active_runs, resume_drained, stop_run
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.connection_pool import Session


class TrainingRunHooks:
    """Implementation of `fleet.rollout.context.RunHooks`, from files and containers of a host."""

    def active(self, session: Session, /) -> Sequence[TrainingRun]:
        """Active runs, including those preparing their corpus. Raises HostFailedError."""
        return active_runs(session)

    def stop(self, session: Session, run: TrainingRun, /, *, drained: bool) -> TrainingRun:
        """Stop a run with a checkpoint. Raises HostFailedError; also where one over several hosts would be drained."""
        if drained and run.hosts:
            raise HostFailedError(
                f"{run.host}: the run {run.id} trains over {', '.join(run.hosts)}, which need one image: stop it "
                f"({fab()} stop --host {run.host} --run {run.id}), deploy to all of them, then resume it "
                f"({fab()} train --host {run.host} --resume {run.id})"
            )
        return stop_run(session, run, drained=drained)

    def waiting(self, session: Session, /) -> Sequence[TrainingRun]:
        """Drained runs that are not resumed yet. Raises HostFailedError."""
        return tuple(run for run in read_runs(session) if run.drained)

    def resume_drained(self, session: Session, release: str | None, /) -> Sequence[TrainingRun]:
        """Resume drained runs. Raises HostFailedError, FleetError."""
        return resume_drained(session, release)
