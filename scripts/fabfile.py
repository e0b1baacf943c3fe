"""The tasks an operator types: `fab check`, `fab deploy`, `fab status`, `fab monitoring`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import Any, NoReturn

from fabric import task
from invoke.exceptions import Exit
from invoke.parser.parser import ParseMachine

from fleet import deploy as steps
from fleet import report
from fleet.errors import FleetError
from fleet.finding import failed
from fleet.image import BUILT, Build, LocalImage, build_image, find_image
from fleet.inventory import Host, load
from fleet.monitoring import base, render, write
from fleet.preflight import Needs
from fleet.remote import connected, on_every_host
from fleet.status import Status, read_status
from fleet.survey import survey

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "deploy/compose"
ALERTMANAGER = ROOT / "deploy/alertmanager/alertmanager.yml"
INVENTORY = ROOT / "deploy/hosts.yaml"
CHECK_FAILED = 1
WRONG_USE = 2

_HELP = {
    "host": "only this host; several times for several",
    "inventory": "the fleet's file, deploy/hosts.yaml of this repository unless given",
    "json": "print the result as JSON",
}


def _wrong_use(_: ParseMachine, message: str) -> NoReturn:
    raise Exit(message, code=WRONG_USE)


# invoke leaves with 1 for an option that it does not know; here 1 means that a host is not well.
ParseMachine.error = _wrong_use


@task(iterable=["host"], auto_shortflags=False, help=_HELP | {"strict": "warnings that nobody acknowledged fail too"})
def check(
    _: Any, host: Sequence[str] | None = None, inventory: str = "", strict: bool = False, json: bool = False
) -> None:
    """Look at all hosts side by side: what speaks against running on them, and what to do about it."""
    with _answering():
        hosts = _hosts(inventory, host)
        result = survey(hosts, Needs())
        names = [each.name for each in hosts]
        document = report.findings_document(result, names, strict=strict)
        if json:
            _print_json(document)
        else:
            report.console().print(report.findings_table(result, names))
        _leave(good=bool(document["ok"]))


@task(iterable=["host"], auto_shortflags=False, help=_HELP)
def status(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show which release runs on each host, whether it is healthy, and whether its metrics answer."""

    def look(each: Host) -> Status:
        with connected(each) as session:
            return read_status(session, each)

    with _answering():
        hosts = _hosts(inventory, host)
        result = on_every_host(hosts, look)
        names = [each.name for each in hosts]
        document = report.status_document(result, names)
        if json:
            _print_json(document)
        else:
            report.console().print(report.status_table(result, names))
        _leave(good=bool(document["ok"]))


@task(
    iterable=["host"],
    auto_shortflags=False,
    help={
        "host": _HELP["host"],
        "inventory": _HELP["inventory"],
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
    with _answering():
        hosts = _hosts(inventory, host)
        how = Build(base or None, _path(pip_config), _path(ca_bundle), build_network or None)
        local = _image(image, how, build=build)
        _say(f"looking at {len(hosts)} hosts")
        surveyed = survey(hosts, Needs(image_bytes=local.size_bytes))
        bad = [name for name, each in surveyed.succeeded.items() if failed(each.findings)] + list(surveyed.failed)
        if bad:
            report.console().print(report.findings_table(surveyed, [each.name for each in hosts if each.name in bad]))
            _stop(f"nothing was changed: not ready: {', '.join(bad)} (leave a host out by naming others with --host)")
        planned = steps.changes(hosts, steps.releases(surveyed.succeeded, local, COMPOSE))
        report.console().print(report.changes_table(planned.succeeded))
        if planned.failed:
            report.console().print(report.errors_table(planned.failed))
            _stop("nothing was changed")
        done = steps.carry_out(hosts, planned.succeeded)
        if done.failed:
            report.console().print(report.errors_table(done.failed))
            _stop(f"deployed: {', '.join(done.succeeded) or 'no host'}; failed: {', '.join(done.failed)}")
        _say(f"deployed: {', '.join(done.succeeded)}" if done.succeeded else "nothing to do on any host")


@task(
    auto_shortflags=False,
    help={"inventory": _HELP["inventory"], "out": "directory for the files, build/monitoring unless given"},
)
def monitoring(_: Any, inventory: str = "", out: str = "") -> None:
    """Write Alertmanager's configuration and Prometheus's targets, as the inventory says."""
    with _answering():
        folder = Path(out) if out else ROOT / "build/monitoring"
        files = render(load(_path(inventory) or INVENTORY), base(ALERTMANAGER))
        write(files, folder)
        _say(f"{folder}: {', '.join(sorted(files))}")
        _say(
            f"start with: VOXYARD_MONITORING={folder.resolve()} docker compose -f deploy/compose/monitoring.yaml up -d"
        )


def _image(reference: str, how: Build, *, build: bool) -> LocalImage:
    if build and reference:
        raise FleetError("--build and --image exclude each other: an image is built, or it is there")
    if not build and how != Build():
        raise FleetError("--base, --pip-config, --ca-bundle and --build-network say how to build: add --build")
    return build_image(ROOT, how) if build else find_image(reference or BUILT)


def _hosts(inventory: str, names: Sequence[str] | None) -> tuple[Host, ...]:
    return load(Path(inventory) if inventory else INVENTORY).select(names or ())


def _path(text: str) -> Path | None:
    return Path(text).expanduser().absolute() if text else None


def _print_json(document: object) -> None:
    print(dumps(document, indent=2))


def _say(text: str) -> None:
    print(f"→ {text}", file=sys.stderr)


def _stop(text: str) -> NoReturn:
    raise Exit(text, code=CHECK_FAILED)


def _leave(*, good: bool) -> None:
    if not good:
        raise Exit(code=CHECK_FAILED)


@contextmanager
def _answering() -> Iterator[None]:
    """What an operator or a host can cause ends as sentences on standard error and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("fleet").setLevel(logging.INFO)
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what it has to say comes as an exception
    try:
        yield
    except FleetError as error:
        raise Exit(str(error), code=error.exit_code) from error
