"""Training runs on a host, or over several: parts of the tasks `train`, `logs` and `fetch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.lock import operator
from fleet.runs import report
from fleet.runs.config import RunSettings
from fleet.runs.corpus_sync import RunInput, read_input, send
from fleet.runs.fetch import FetchedRun, fetch_run
from fleet.runs.files import RunFiles, RunRequest, render
from fleet.runs.hosts import RunHosts, refuse_taken_port
from fleet.runs.logs import show_logs
from fleet.runs.runs import (
    active_runs,
    find_run,
    refuse_conflict,
    verify_limits,
    wait_until_training,
    with_new_settings,
)
from fleet.runs.state import TrainingRun, read_runs
from fleet.runs.together import read_releases, resume_everywhere, start_everywhere
from fleet.ssh.connection_pool import Connections, Session, connected, on_every_host
from tasks.base import fail, print_json, say, select_hosts, split_names


def chosen(inventory: str, names: str) -> tuple[Host, ...]:
    """Hosts of an option, in the order that it names them in. Raises FleetError for none, or one named twice."""
    wanted = split_names([names])
    doubled = next((name for place, name in enumerate(wanted) if name in wanted[:place]), None)
    if doubled is not None:
        raise FleetError(f"--hosts names {doubled} twice: each host of a run is one of its own")
    if not wanted:
        raise FleetError(f"found {names!r} as host, expected the name of one host, or with --hosts of several")
    return in_order(inventory, wanted)


def in_order(inventory: str, names: Sequence[str]) -> tuple[Host, ...]:
    """Hosts of these names, in their order. Raises FleetError for an unknown one."""
    found = {host.name: host for host in select_hosts(inventory, names)}
    return tuple(found[name] for name in names)


def of_run(inventory: str, host: Host, run: str) -> tuple[Host, ...]:
    """All hosts of a run on this one, in their order. Raises FleetError."""
    with connected(host) as session:
        names = find_run(session, host.name, run).hosts
    return in_order(inventory, names) if names else (host,)


def begin(
    hosts: Sequence[Host],
    placed: Sequence[RunHosts | None],
    run: str,
    settings: RunSettings,
    folders: Mapping[str, Path],
    overrides: tuple[tuple[str, bytes], ...],
    *,
    json: bool,
) -> None:
    """Start a run on these hosts, and wait until it trains. Raises FleetError."""
    contents = read_inputs(folders)
    wanted = [
        RunRequest(run, host.name, settings, contents, overrides, operator(), place)
        for host, place in zip(hosts, placed, strict=True)
    ]
    with Connections(connected) as open_to:
        sessions = [open_to.to(host) for host in hosts]
        for host, session, each, given in zip(hosts, sessions, wanted, read_releases(hosts, sessions), strict=True):
            there = read_runs(session)
            if any(found.id == run for found in there):
                raise HostFailedError(
                    f"{host.name} already has a run {run}: choose another id, or resume it with --resume {run}"
                )
            refuse_conflict(host.name, render(each, given), there)
            if each.hosts is not None:
                refuse_taken_port(session, host.name)
        for host, session in zip(hosts, sessions, strict=True):
            send_inputs(session, host, folders, contents)
    _follow_up(hosts, run, start_everywhere(hosts, connected, wanted), json=json)


def resume(hosts: Sequence[Host], run: str, settings: RunSettings, *, json: bool) -> None:
    """Resume a run on all its hosts, and wait until it trains. Raises FleetError."""
    names = [host.name for host in hosts]
    for host in hosts:
        with connected(host) as session:
            found = find_run(session, host.name, run).hosts
        if (list(found) or [host.name]) != names:
            there = ",".join(found) or "this host alone"
            raise HostFailedError(f"{host.name}: the run {run} is over {there}, not {','.join(names)}: resume it there")

    def change(wanted: RunRequest) -> RunRequest:
        return with_new_settings(wanted, file=settings.file, flags=settings.flags, by=operator())

    _follow_up(hosts, run, resume_everywhere(hosts, connected, run, change), json=json)


def show(hosts: Sequence[Host], labels: Mapping[str, str], *, lines: int, follow: bool) -> None:
    """Print the log of a service, or of a run on each of its hosts, with their names. Raises HostFailedError."""

    def read(host: Host) -> None:
        name = f"{host.name}: " if len(hosts) > 1 else ""
        with connected(host) as session:
            show_logs(session, host.name, labels, lambda line: print(f"{name}{line}"), lines=lines, follow=follow)

    if follow and len(hosts) > 1:
        failed = on_every_host(hosts, read).failed
        if failed:
            raise HostFailedError("\n".join(str(error) for error in failed.values()))
    else:
        for host in hosts:
            read(host)


def fetch(hosts: Sequence[Host], run: str, out: Path) -> FetchedRun:
    """Fetch a run: all of the first host, of each other one its report and logs, to a directory of its name.

    Raises FleetError.
    """
    fetched: list[FetchedRun] = []
    for place, host in enumerate(hosts):
        with connected(host) as session:
            folder = out / host.name if place else out
            fetched.append(fetch_run(session, host, find_run(session, host.name, run), folder))
    return fetched[0]


def read_inputs(folders: Mapping[str, Path]) -> dict[str, RunInput]:
    """Read and hash what a run reads, by role. Raises FleetError."""
    contents: dict[str, RunInput] = {}
    for role, folder in folders.items():
        say(f"reading {folder}")
        contents[role] = read_input(folder)
        if role != "init" and contents[role].kind == "checkpoint":
            raise FleetError(f"{folder} holds checkpoints, expected a corpus: name a directory of recordings or shards")
    return contents


def send_inputs(session: Session, host: Host, folders: Mapping[str, Path], contents: Mapping[str, RunInput]) -> None:
    """Send what a run reads to its host, where it is not there yet. Raises HostFailedError."""
    for role, content in contents.items():

        def busy(place: str = content.place) -> str | None:
            return next((each.id for each in active_runs(session) if place in each.corpora), None)

        if not send(session, host, folders[role], content, busy):
            say(f"{host.name}: corpus {content.name}, version {content.id}, is already on the host")


def _follow_up(hosts: Sequence[Host], run: str, files: Sequence[RunFiles], *, json: bool) -> None:
    """Wait for the first step on all hosts, verify the memory limits, print the reports."""
    for each in files:
        for note in each.notes:
            say(f"{each.wanted.host}: {note}")
        if not json:
            print(report.started(each), flush=True)

    def trains(host: Host) -> tuple[TrainingRun, tuple[str, ...]]:
        with connected(host) as session:
            now = wait_until_training(session, host.name, run)
            return now, verify_limits(session, now)

    try:
        result = on_every_host(hosts, trains)
    except KeyboardInterrupt:
        fail(f"the run continues on its hosts: {fab()} logs --host {hosts[0].name} --run {run} --follow")
    if result.failed:
        raise HostFailedError("\n".join(str(error) for error in result.failed.values()))
    if json:
        found = result.succeeded.items()
        documents = [now.to_json() | {"host": name, "verified": list(limits)} for name, (now, limits) in found]
        print_json(documents if len(hosts) > 1 else documents[0])
        return
    for name, (now, limits) in result.succeeded.items():
        print(f"{'host':<9} {name}\n{report.training(now, limits)}")
    if len(hosts) > 1:
        say(f"{run} trains on all hosts; where one is lost, they start again by themselves")
