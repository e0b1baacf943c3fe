"""`fab check`: preflight checks on the hosts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.checks.host_report import collect_reports
from fleet.checks.requirements import HostRequirements
from fleet.errors import FleetError
from fleet.images.cuda import cuda_needs
from fleet.images.image import LocalImage
from fleet.images.wanted import wanted_image
from fleet.inventory.hosts import Host
from fleet.release.release import wanted_images
from fleet.rollout import report
from fleet.ssh.interrupt import reading
from tasks.base import HELP, ROOT, exit_with, print_json, reporting_errors, say, select_hosts

log = logging.getLogger("fleet")


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP | {"strict": "fail on warnings that the inventory does not acknowledge"},
)
def check(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    strict: bool = False,
    json: bool = False,
) -> None:
    """Run preflight checks on all hosts; list failures and fixes."""
    with reporting_errors(), reading():
        hosts = select_hosts(inventory, host, group)
        result = collect_reports(hosts, requirements_of(hosts))
        names = [each.name for each in hosts]
        document = report.findings_document(result, names, strict=strict)
        if json:
            print_json(document)
        else:
            report.console().print(report.findings_table(result, names))
        exit_with(good=bool(document["ok"]))


def requirements_of(hosts: Sequence[Host]) -> HostRequirements:
    """Requirements of the images that a deploy would take: a check may run before they are built or pushed."""
    images: dict[str, LocalImage] = {}
    missing = []
    for role in sorted({role for host in hosts for role in wanted_images(host)}):
        try:
            images[role] = wanted_image(role, _registry(hosts, role), None, ROOT)
        except FleetError as error:
            log.debug("%s", error)
            missing.append(role)
    if missing:
        names = ", ".join(missing)
        defaults = "disk space is not checked, their CUDA is that of default builds"
        say(f"images that are not built or pushed yet: {names}: {defaults}")
    return HostRequirements(
        images=images,
        cuda=cuda_needs(images),
        artefact_bytes={host.name: sum(map(_size, (host.bark.weights, host.bark.voices))) for host in hosts},
    )


def _registry(hosts: Sequence[Host], role: str) -> str | None:
    """Registry of all hosts with this role; None where some get images of this machine, or of different registries."""
    found = {host.registry for host in hosts if role in wanted_images(host)}
    return found.pop() if len(found) == 1 else None


def _size(folder: Path | None) -> int:
    """Bytes of the files in a local directory; 0 where it does not exist, which a deploy reports."""
    return 0 if folder is None else sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
