"""Restarts the services of one host under a release, with health gates; rolls back on failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.facts.machine import container_of
from fleet.images.third_party import NODE_EXPORTER
from fleet.inventory.secrets import service_of
from fleet.release.config_hash import variable
from fleet.release.environment import ENVIRONMENT_FILE
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.release.tls import OF_NODE_EXPORTER
from fleet.rollout import commands
from fleet.rollout.change_plan import ServiceStart
from fleet.rollout.context import Cancellation, RolloutCancelledError
from fleet.rollout.health_gate import Clock, HealthWatch, pass_gate
from fleet.rollout.host_state import CONTAINERS, http_problem
from fleet.ssh.command_batch import Command, host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

ALIVE = "/healthz"
"""Path that answers 200 while the service works, ready or not."""


@dataclass(slots=True)
class ServiceRestart:
    """Restart of the services of one host; records the services it has touched."""

    host: str
    session: Session
    cancellation: Cancellation
    min_healthy_seconds: float
    say: Callable[[str], None] = log.info
    not_ready_yet: Collection[str] = ()  # services that only have to answer: what they need comes with later hosts
    touched: dict[str, ServiceEntry] = field(default_factory=dict)
    reloaded: set[str] = field(default_factory=set)  # those of them that kept their containers
    limits: list[str] = field(default_factory=list)  # verified GPU memory limits, as text
    rolling_back: bool = False

    def carry_out(self, release: Manifest, starts: Iterable[ServiceStart], removals: Iterable[ServiceEntry]) -> None:
        """Stop removed services, then stop, start and gate each service in order; or reload and gate it.

        Two copies of a service do not fit into GPU memory: the old one stops first. Raises HostFailedError at the
        first unhealthy service, RolloutCancelledError after a cancellation.
        """
        for entry in removals:
            self._stop(entry, remove=True)
        for each in starts:
            if each.kind == "wait for":
                log.info("%s: waiting for %s", self.host, each.service.name)
                self.touched.setdefault(each.service.name, each.service)  # started by an earlier deploy
            elif each.kind == "reload":
                self._reload(release, each.service)
            else:
                self._recreate(release, each.service)
            self._wait_until_healthy(each.service, fresh=each.kind == "start")

    def roll_back_to(self, before: Manifest | None) -> str:
        """Restore the touched services to the release `before`; returns the result as text.

        Without a release, started services are removed.
        """
        if not self.touched:
            return "no service was touched"
        self.rolling_back = True
        try:
            self._roll_back(before)
        except RolloutCancelledError:
            return f"the rollback was cancelled, too: {self.summary(before)}"
        except FleetError as error:
            return f"the rollback failed, too: {error}\n{self.summary(before)}"
        if before is None:
            return "started services were removed: there was no previous release"
        lost = [name for name in self.touched if name in before.withheld]
        none = f", which has no {' and no '.join(lost)}: stopped" if lost else ""
        return f"rolled back to release {before.id}{none}"

    def summary(self, current: Manifest | None) -> str:
        """Service states, the current release, and the commands to repair the host."""
        release = f"no release is current: {fab()} deploy continues"
        if current is not None:
            release = (
                f"release {current.id} is still current: {fab()} deploy continues, "
                f"{fab()} rollback --host {self.host} restores it"
            )
        return f"{self.services()}; {release}"

    def services(self) -> str:
        """Touched services and their states as text."""
        try:
            containers = CONTAINERS.among(self.session.run([CONTAINERS.command]))
        except HostFailedError as error:
            return f"service states are not known ({error})"
        if isinstance(containers, Unknown):
            return f"service states are not known ({containers.reason})"
        found = {name: container_of(containers, name) for name in self.touched}
        return ", ".join(
            f"{name} has no container" if each is None else f"{name} of release {each.release} is {each.description}"
            for name, each in found.items()
        )

    def _roll_back(self, before: Manifest | None) -> None:
        touched = list(self.touched.values())
        for entry in reversed(touched):
            if before is None or before.service(entry.name) is None:
                self._stop(entry, remove=True)
        if before is None:
            return
        for service in [each for each in before.services if each.name in self.touched]:
            log.info("%s: rolling back to %s of release %s", self.host, service.name, before.id)
            again = service.name in self.reloaded and self.touched[service.name].config == service.config
            (self._reload if again else self._recreate)(before, service)
            self._wait_until_healthy(service, fresh=not again)

    def _recreate(self, release: Manifest, service: ServiceEntry) -> None:
        """Stop and start in one step, so that a cancellation never leaves a service stopped."""
        self._stop(service)
        self.reloaded.discard(service.name)
        self._publish_files(release, service)
        log.info("%s: starting %s", self.host, service.name)
        command = start(
            release.id,
            release.compose_files,
            ENVIRONMENT_FILE,
            service.name,
            secrets=release.secrets,
            foreign=service.foreign,
        )
        must(self.session, self.host, f"start {service.name}", command)

    def _reload(self, release: Manifest, service: ServiceEntry) -> None:
        """Make the running service read the files of the release."""
        self.cancellation.check(rolling_back=self.rolling_back)
        log.info("%s: reloading %s", self.host, service.name)
        self.touched.setdefault(service.name, service)
        self.reloaded.add(service.name)
        self._publish_files(release, service)
        if (command := commands.reload_config(service)) is not None:
            said = http_problem(self.session.run([command])[command.name])
            if said is not None:
                raise HostFailedError(f"{self.host}: {service.name} does not take its new files: {said}")

    def _publish_files(self, release: Manifest, service: ServiceEntry) -> None:
        if service.files is not None:
            command = host_verb("config_publish", release.id, service.name, service.files.digest, seconds=60)
            must(self.session, self.host, f"write the files of {service.name}", command)

    def _stop(self, service: ServiceEntry, *, remove: bool = False) -> None:
        self.cancellation.check(rolling_back=self.rolling_back)
        log.info("%s: stopping %s (timeout %d s)", self.host, service.name, service.stop_seconds)
        self.touched.setdefault(service.name, service)
        must(self.session, self.host, f"stop {service.name}", stop(service.name, service.stop_seconds, remove=remove))

    def _wait_until_healthy(self, service: ServiceEntry, *, fresh: bool) -> None:
        self.cancellation.check(rolling_back=self.rolling_back)
        log.info(
            "%s: waiting until %s is healthy (at most %d s) and stays healthy for %.0f s",
            self.host, service.name, service.healthy_seconds, self.min_healthy_seconds,
        )  # fmt: skip
        clock = Clock(partial(self.cancellation.wait, rolling_back=self.rolling_back), self.cancellation.now)
        watch = HealthWatch(self.min_healthy_seconds, fresh)
        early = service.name in self.not_ready_yet and not self.rolling_back
        gated = replace(service, ready=ALIVE) if early else service
        verified = pass_gate(self.host, self.session, gated, clock, watch, self.say)
        if service.files is not None:
            command = host_verb("config_confirm", service.name, service.files.digest)
            must(self.session, self.host, f"note the files of {service.name}", command)
        for line in verified:
            log.info("%s: %s: %s", self.host, service.name, line)
        self.limits += [f"{service.name}: {line}" for line in verified]


def stop(service: str, seconds: int, *, remove: bool = False) -> Command:
    """Stops the containers of a service, with a grace period in seconds."""
    words = (service, str(seconds), *(["remove"] if remove else []))
    return host_verb("service_stop", *words, seconds=seconds + 60)


def start(
    release: str,
    compose_files: Sequence[str],
    environment_file: str,
    service: str,
    *,
    secrets: Iterable[str] = (),
    foreign: bool = False,
) -> Command:
    """Starts a service of a release in a new container, after its data and `secrets` belong to its user.

    A `foreign` one has none.
    Compose detects neither changed files under the same name nor unhealthy containers.
    """
    owned = [] if service == NODE_EXPORTER else [f"../../data/{service}"]
    owned += [f"../../secrets/{name}" for name in secrets if _reads(service, name)]
    owned = [] if foreign else owned
    image = variable(service, "IMAGE") if owned else ""  # of the container that hands over
    words = (release, environment_file, service, image, *commands.compose_options(compose_files), "--", *owned)
    return host_verb("service_start", *words, seconds=180)


def _reads(service: str, secret: str) -> bool:
    """True for a secret that is to belong to the user of the service, by file name."""
    if service_of(secret) == "custom":
        return False  # it stays the login's: root in a container reads it
    if service == NODE_EXPORTER or OF_NODE_EXPORTER in secret:
        return service == NODE_EXPORTER and OF_NODE_EXPORTER in secret
    return service not in commands.EXPORTERS or service_of(secret) == "host"
