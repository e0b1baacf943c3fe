"""Deploys monitoring on a host: transfer, check, restart or reload, health gate, rollback."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fleet.audit import AuditEntry, record
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import known
from fleet.images.archive import ImageCache
from fleet.inventory.rollout_settings import MIN_HEALTHY_SECONDS
from fleet.inventory.secrets import service_of
from fleet.lock import locked
from fleet.monitoring import commands
from fleet.monitoring.api import ALERTMANAGER_PORT, PROMETHEUS_PORT, ask, request
from fleet.monitoring.check import CONFIGURATION, refusal
from fleet.monitoring.gate import pass_gate
from fleet.monitoring.release import MonitoringManifest, MonitoringRelease
from fleet.monitoring.state import MonitoringChange, plan_change, read_manifest, read_state
from fleet.rollout.commands import PULL_SECONDS
from fleet.rollout.health_gate import Clock
from fleet.rollout.host_state import SECRETS
from fleet.rollout.transfer import Transfer
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")

KEEP = 3
_PORTS = {"prometheus": PROMETHEUS_PORT, "alertmanager": ALERTMANAGER_PORT}
_TOOLS = {
    "prometheus": ("promtool", ("check", "config"), CONFIGURATION),
    "alertmanager": ("amtool", ("check-config",), "alertmanager/alertmanager.yml"),
}


@dataclass(frozen=True, slots=True)
class MonitoringRollout:
    """Rollout of monitoring on one host."""

    host: str
    session: Session
    cache: ImageCache
    min_healthy_seconds: float = MIN_HEALTHY_SECONDS
    clock: Clock = field(default_factory=Clock)

    def apply(self, release: MonitoringRelease) -> MonitoringChange:
        """Plan and apply the changes of one host; returns them.

        Raises HostFailedError after a failure and rollback.
        """
        planned = plan_change(release, read_state(self.session, self.host, release.id))
        if planned.nothing:
            return planned
        with locked(self.session, self.host, f"monitoring {release.id}"):
            planned = plan_change(release, read_state(self.session, self.host, release.id))
            before = planned.current or ""
            try:
                self._transfer(planned)
            except FleetError as error:
                self._record(before, before, "failed", str(error))
                raise
            try:
                self._restart_and_check(planned)
            except FleetError as error:
                back = self._roll_back(planned)
                self._record(release.id, before, "rolled back" if back else "failed", str(error))
                raise
            self._clean_up(planned)
            self._record(before, release.id, "ok")
        return planned

    def _transfer(self, planned: MonitoringChange) -> None:
        """Transfers images, secrets and files, and checks the configuration; programs keep running."""
        release = planned.release
        transfer = Transfer(self.host, self.session, self.cache)
        for image_transfer in planned.image_transfers:
            transfer.image(image_transfer)
        for program_image in planned.pulls:
            log.info("%s: pulling %s", self.host, program_image.reference)
            self._run_checked(
                Command("pull", f"docker pull --quiet '{program_image.reference}'", PULL_SECONDS), "pull an image"
            )
        if planned.secrets:
            transfer.secrets(planned.secrets)
        if planned.write:
            log.info("%s: writing monitoring %s", self.host, release.id)
            command = commands.write(release.id, release.checksums)
            self._require_ok("write monitoring", self.session.send(command, [release.archive()]))
        for program, (tool, words, file) in _TOOLS.items():
            if (wanted := release.manifest.program(program)) is not None:
                arguments = [*words, f"{commands.INSIDE}/{release.id}/{file}"]
                command = commands.check(program, tool, wanted.image, arguments)
                answer = self.session.run([command])[command.name]
                if not answer.ok:
                    said = refusal(f"{answer.out}\n{answer.err}").replace(f"{commands.INSIDE}/{release.id}/", "")
                    raise HostFailedError(f"{self.host}: {program} rejects its configuration: {said}")

    def _restart_and_check(self, planned: MonitoringChange) -> None:
        """Activates the new files, restarts or reloads changed programs, and waits until all are healthy."""
        release = planned.release
        self._run_checked(commands.point("live", release.id), "change the link live")
        for name in planned.removals:
            log.info("%s: stopping %s", self.host, name)
            self._run_checked(commands.remove(name), f"stop {name}")
        self._start(release.manifest, planned.starts)
        self._reload(planned.reloads)
        self._gate(release.manifest, planned.starts)
        self._run_checked(commands.point("current", release.id), "change the link current")

    def _start(self, manifest: MonitoringManifest, names: Collection[str]) -> None:
        for name in [each.name for each in manifest.programs if each.name in names]:
            log.info("%s: starting %s", self.host, name)
            self._run_checked(commands.start(manifest.id, manifest.compose_files, name), f"start {name}")

    def _gate(self, manifest: MonitoringManifest, started: Collection[str]) -> None:
        pass_gate(
            self.host, self.session, manifest, self.clock,
            started=started, min_healthy_seconds=self.min_healthy_seconds,
        )  # fmt: skip

    def _reload(self, names: Sequence[str]) -> None:
        for name in names:
            log.info("%s: reloading %s", self.host, name)
            found = ask(self.session, request(f"reload-{name}", _PORTS[name], "POST", "/-/reload"))
            if not found.good:
                raise HostFailedError(f"{self.host}: {name} rejects its configuration: {found.body.strip()[:1000]}")

    def _roll_back(self, planned: MonitoringChange) -> bool:
        """Roll back to the previous release; True where there was one, and it is healthy."""
        before = planned.before
        if before is None or read_manifest(self.session, before.id) is None:
            log.warning("%s: no previous release: the failed one stays for inspection", self.host)
            return False
        log.warning("%s: rolling back to monitoring %s", self.host, before.id)
        try:
            self._run_checked(commands.point("live", before.id), "change the link live")
            again = {*planned.starts, *planned.removals}
            self._start(before, again)
            self._reload([name for name in planned.reloads if before.program(name) is not None])
            self._gate(before, again)
            self._run_checked(commands.point("current", before.id), "change the link current")
        except FleetError as error:
            log.warning("%s: the rollback to monitoring %s failed: %s", self.host, before.id, error)
            return False
        return True

    def _clean_up(self, planned: MonitoringChange) -> None:
        """Removes old releases and secrets; failures are logged only."""
        try:
            self._prune(planned)
        except FleetError as error:
            log.warning("%s", error)

    def _prune(self, planned: MonitoringChange) -> None:
        listed = commands.releases_there()
        there = self.session.run([listed])[listed.name].out.split()
        kept = list(dict.fromkeys([planned.release.id, *([planned.current] if planned.current else []), *there]))
        kept = [each for each in kept if each in there][:KEEP]
        old = [each for each in there if each not in kept]
        secrets = self._unneeded_secrets(kept)
        if not (old or secrets):
            return
        names = [commands.named_images(each) for each in (kept, old) if each]
        needed, gone = [*(self.session.run([name])[name.name].out.split() for name in names), []][:2]
        unneeded = [name for name in gone if (name not in needed and name.startswith("voxyard-")) or "@" in name]
        log.info("%s: removing %s", self.host, ", ".join([*old, *unneeded, *secrets]))
        self._run_checked(commands.prune(old, unneeded, secrets), "remove old releases")

    def _unneeded_secrets(self, kept: Sequence[str]) -> list[str]:
        """Secrets of the monitoring programs that no kept release reads."""
        command = commands.named_secrets(kept)
        answers = self.session.run([command, SECRETS.command])
        self._require_ok("read which secrets are needed", answers[command.name])
        there, needed = known(SECRETS.among(answers), {}), answers[command.name].out.split()
        return [name for name in there if service_of(name) in ("alertmanager", "grafana") and name not in needed]

    def _record(self, before: str, after: str, result: str, note: str = "") -> None:
        try:
            record(self.session, self.host, AuditEntry("monitoring", before, after, result, note))
        except FleetError as error:
            log.warning("%s", error)

    def _run_checked(self, command: Command, what: str) -> None:
        self._require_ok(what, self.session.run([command])[command.name])

    def _require_ok(self, what: str, answer: Answer) -> None:
        if not answer.ok:
            raise HostFailedError(f"{self.host} could not {what}: {answer.message}")
