"""What runs on a host now: which release, how it is, whether its metrics answer."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.change import CURRENT, exporter_of, metrics_fact
from fleet.fact import Unknown
from fleet.inventory import Host
from fleet.machine_facts import CONTAINERS, LOGIN, Container
from fleet.remote import Session


@dataclass(frozen=True, slots=True)
class Status:
    """One host."""

    current: str | None  # the release that was last found good
    container: Container | None
    metrics: str  # whether they answer, in words
    answers: bool
    address: str
    port: int
    problem: str | None = None  # why nothing can be said

    @property
    def healthy(self) -> bool:
        """Whether the current release runs, is well and answers."""
        container = self.container
        good = container is not None and container.healthy and container.release == self.current
        return good and self.answers

    @property
    def state(self) -> str:
        """The container's state in words."""
        if self.problem is not None:
            return self.problem
        if self.container is None:
            return "not deployed: make deploy"
        return f"{self.container.state}, {self.container.health or 'no health check'}"


def read_status(session: Session, host: Host) -> Status:
    """Ask the host. Raises HostFailedError when the connection breaks."""
    answers = session.run([LOGIN.command, CURRENT.command, CONTAINERS.command])
    login, current = LOGIN.among(answers), CURRENT.among(answers)
    containers = CONTAINERS.among(answers)
    address = host.exporter_address or (host.address if isinstance(login, Unknown) else login.address)
    metrics = metrics_fact(address, host.exporter_port)
    answered = metrics.among(session.run([metrics.command]))
    return Status(
        current=None if isinstance(current, Unknown) else current,
        container=exporter_of(containers),
        metrics=_words(answered),
        answers=not isinstance(answered, Unknown),
        address=address,
        port=host.exporter_port,
        problem=f"docker does not answer: {containers.why}" if isinstance(containers, Unknown) else None,
    )


def _words(answered: bool | Unknown) -> str:
    if isinstance(answered, Unknown):
        return answered.why
    return "up" if answered else "up, without GPUs"
