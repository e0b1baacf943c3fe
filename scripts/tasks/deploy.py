"""`fab deploy`, `fab status`: a release onto the hosts, and what runs there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric import task

from fleet import deploy as steps
from fleet import report
from fleet.errors import FleetError
from fleet.finding import failed
from fleet.image import BUILT, Build, LocalImage, build_image, find_image
from fleet.inventory import Host
from fleet.preflight import Needs
from fleet.remote import connected, on_every_host
from fleet.status import Status, read_status
from fleet.survey import survey
from tasks.frame import COMPOSE, HELP, ROOT, answering, hosts_of, leave, path_of, print_json, say, stop


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def status(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show which release runs on each host, whether it is healthy, and whether its metrics answer."""

    def look(each: Host) -> Status:
        with connected(each) as session:
            return read_status(session, each)

    with answering():
        hosts = hosts_of(inventory, host)
        result = on_every_host(hosts, look)
        names = [each.name for each in hosts]
        document = report.status_document(result, names)
        if json:
            print_json(document)
        else:
            report.console().print(report.status_table(result, names))
        leave(good=bool(document["ok"]))


@task(
    iterable=["host"],
    auto_shortflags=False,
    help={
        "host": HELP["host"],
        "inventory": HELP["inventory"],
        "image": f"a local image to deploy ({BUILT} unless given)",
        "build": "build the image first",
        "base": "with --build: the base image, for a mirror",
        "pip-config": "with --build: a pip configuration file, as a secret of the build",
        "ca-bundle": "with --build: a file of CA certificates, as a secret of the build",
        "build-network": "with --build: the network of its steps, such as host",
    },
)
def deploy(
    _: Any,
    host: Sequence[str] | None = None,
    inventory: str = "",
    image: str = "",
    build: bool = False,
    base: str = "",
    pip_config: str = "",
    ca_bundle: str = "",
    build_network: str = "",
) -> None:
    """Show what would change on which host, then do it; a host that is not well stops it before anything changes."""
    with answering():
        hosts = hosts_of(inventory, host)
        how = Build(base or None, path_of(pip_config), path_of(ca_bundle), build_network or None)
        local = _image(image, how, build=build)
        say(f"looking at {len(hosts)} hosts")
        surveyed = survey(hosts, Needs(image_bytes=local.size_bytes))
        bad = [name for name, each in surveyed.succeeded.items() if failed(each.findings)] + list(surveyed.failed)
        if bad:
            report.console().print(report.findings_table(surveyed, [each.name for each in hosts if each.name in bad]))
            stop(f"nothing was changed: not ready: {', '.join(bad)} (leave a host out by naming others with --host)")
        planned = steps.changes(hosts, steps.releases(surveyed.succeeded, local, COMPOSE))
        report.console().print(report.changes_table(planned.succeeded))
        if planned.failed:
            report.console().print(report.errors_table(planned.failed))
            stop("nothing was changed")
        done = steps.carry_out(hosts, planned.succeeded)
        if done.failed:
            report.console().print(report.errors_table(done.failed))
            stop(f"deployed: {', '.join(done.succeeded) or 'no host'}; failed: {', '.join(done.failed)}")
        say(f"deployed: {', '.join(done.succeeded)}" if done.succeeded else "nothing to do on any host")


def _image(reference: str, how: Build, *, build: bool) -> LocalImage:
    if build and reference:
        raise FleetError("--build and --image exclude each other: an image is built, or it is there")
    if not build and how != Build():
        raise FleetError("--base, --pip-config, --ca-bundle and --build-network say how to build: add --build")
    return build_image(ROOT, how) if build else find_image(reference or BUILT)
