"""`fab monitoring`: short form of `fab deploy --role monitoring`, and the files for a machine of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.host_tls import read_tls
from fleet.inventory.hosts import Inventory
from fleet.inventory.secrets import GRAFANA, HOST_CA, Secrets
from fleet.monitoring.export import write
from fleet.monitoring.render import webhook_secrets
from fleet.monitoring.role import monitoring_part, read_inputs
from fleet.ssh.connection_pool import Connections
from fleet.ssh.interrupt import reading
from tasks.base import HELP, ROOT, absolute_path, load_inventory, reporting_errors, say
from tasks.deploy import SITE
from tasks.releases import deploy_releases, plan_releases, select


@task(
    iterable=["host", "group"],
    auto_shortflags=False,
    help=HELP
    | {
        "check": "only show the changes, as `fab plan --role monitoring` does",
        "exit-code": "with --check: exit with 1 where something would change",
        "site": SITE,
        "out": "write the files to this local directory instead of deploying to hosts",
    },
)
def monitoring(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    site: str = "",
    check: bool = False,
    exit_code: bool = False,
    out: str = "",
    json: bool = False,
) -> None:
    """Deploy the monitoring hosts: `fab deploy --role monitoring`; changed rules or targets are a reload."""
    with reporting_errors():
        if exit_code and not check:
            raise FleetError("--exit-code needs --check")
        if (folder := absolute_path(out)) is not None:
            fleet = load_inventory(inventory)
            _write(fleet, absolute_path(site) or fleet.path.parent / "site", folder)
            return
        chosen = select(inventory, host, group, ["monitoring"], site=site)
        with Connections() as connections:
            if check:
                with reading():
                    plan_releases(chosen, connections, exit_code=exit_code, json=json)
            else:
                deploy_releases(chosen, connections, drain=False, json=json)


def _write(fleet: Inventory, site: Path, folder: Path) -> None:
    inputs = read_inputs(ROOT, site)
    known = [host for host in fleet.hosts if all(path.exists() for path in host.secrets)]
    if unknown := [host.name for host in fleet.hosts if host not in known]:
        say(f"secrets of {', '.join(unknown)} are not on this machine: these hosts are asked in plain HTTP")
    roots = {host.name: tls.authorities for host in known if (tls := read_tls(host)) is not None}
    values = dict.fromkeys((*webhook_secrets(fleet), GRAFANA), b"")  # not written; roots are no secret
    if roots:
        values[HOST_CA] = b"".join(dict.fromkeys(roots.values()))
    placeholders = Secrets(values)
    images = {name: LocalImage("", (), 0) for name in inputs.programs}
    part = monitoring_part(fleet, inputs, placeholders, images, named=lambda name, _: name, encrypted=roots)
    command = write(part, inputs.variables, folder)
    say(f"{folder}: {len(part.files)} files")
    if secrets := [name for each in part.secrets.values() for name in each]:
        say(f"write each secret to a file of its own (mode 0600) in {folder}/secrets: {', '.join(secrets)}")
    say(f"start with: {command}")
