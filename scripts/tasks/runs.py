"""`fab train`, `runs`, `logs`, `stop`, `fetch`: training runs on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.lock import locked, operator
from fleet.runs import report
from fleet.runs.config import RunSettings, flags_of, folders_of, ignored_settings, read_file, validate
from fleet.runs.corpus_sync import RunInput, read_input, send
from fleet.runs.fetch import fetch_run
from fleet.runs.files import RunFiles, RunRequest, render
from fleet.runs.logs import run_labels, service_labels, show_logs
from fleet.runs.runs import (
    active_runs,
    find_run,
    new_run_id,
    read_release,
    refuse_conflict,
    resume_run,
    start_new_run,
    stop_run,
    verify_limits,
    wait_until_training,
    with_new_settings,
)
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.connection_pool import connected, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import HELP, absolute_path, exit_with, fail, print_json, reporting_errors, say, select_hosts

ONE_HOST = "the host of the run"
RUN = "the run's id, as `fab runs` prints it"
SITE = "site-"


@task(
    iterable=["set", "override"],
    auto_shortflags=False,
    help={
        "host": ONE_HOST,
        "config": "the run's settings, a YAML file as `voxyard train --config` takes it",
        "corpus": "the recordings or shards to train on, a directory here (without it: data.train_data of the file)",
        "run": "a name for the run (without it: the file's name and the time)",
        "resume": "go on with this run instead of beginning one; --config and --set change its settings",
        "max-steps": "stop after this many updates",
        "device": "auto, gpu or cpu",
        "set": "a setting, as section.key=value, before the file's; several times for several",
        "override": "a compose file of your own, merged after ours; several times for several",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def train(
    _: Any,
    host: str,
    config: str = "",
    corpus: str = "",
    run: str = "",
    resume: str = "",
    max_steps: str = "",
    device: str = "",
    set: Sequence[str] | None = None,
    override: Sequence[str] | None = None,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Start a training run on a host: its settings are judged here, its corpus is brought there, its start awaited."""
    with reporting_errors():
        if not config and not resume:
            raise FleetError("--config FILE is missing: the settings of the run (or --resume RUN)")
        if resume and (run or corpus or override):
            raise FleetError("--resume goes on with a run as it is: leave out --run, --corpus and --override")
        where = _one(inventory, host)
        flags = flags_of(set or (), {"training.max_steps": max_steps, "training.device": device})
        settings = RunSettings(read_file(absolute_path(config)), flags)
        validated = validate(settings, name=config or f"the settings of {resume}")
        for line in (*validated.notes, *ignored_settings(validated)):
            say(line)
        if resume:
            files = _resume(where, resume, settings)
        else:
            name = new_run_id(Path(config).stem, run)
            folders = folders_of(validated.config, absolute_path(corpus))
            overrides = tuple(
                (f"{SITE}{number}-{Path(each).name}", read_file(absolute_path(each)))
                for number, each in enumerate(override or (), 1)
            )
            files = _begin(where, name, settings, folders, overrides)
        _follow_up(where, files, json=json)


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def runs(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show the training runs of the hosts: how they are, how far they came, their loss."""

    def read(each: Host) -> tuple[TrainingRun, ...]:
        with connected(each) as session:
            return read_runs(session)

    with reporting_errors(), reading():
        wanted = [each for each in select_hosts(inventory, host) if host or "trainer" in each.roles]
        result = on_every_host(wanted, read, keep=True)
        if json:
            print_json(report.document(result, [each.name for each in wanted]))
        else:
            report.print_table(result, [each.name for each in wanted])
        exit_with(good=not result.failed)


@task(
    auto_shortflags=False,
    help={
        "host": "the host",
        "service": "bark or exporter",
        "run": RUN,
        "lines": "how many of the last lines, 100 unless given",
        "follow": "go on with what comes, until it ends (Ctrl-C ends it here, not there)",
        "inventory": HELP["inventory"],
    },
)
def logs(
    _: Any, host: str, service: str = "", run: str = "", lines: int = 100, follow: bool = False, inventory: str = ""
) -> None:
    """Show what a service or a run on a host has written."""
    with reporting_errors(), reading():
        if bool(service) == bool(run):
            raise FleetError("say whose log: --service bark, --service exporter, or --run ID")
        where = _one(inventory, host)
        labels = run_labels(run) if run else service_labels(service)
        with connected(where) as session:
            if run:
                find_run(session, where.name, run)
            show_logs(session, where.name, labels, print, lines=max(1, lines), follow=follow)


@task(auto_shortflags=False, help={"host": ONE_HOST, "run": RUN, "inventory": HELP["inventory"]})
def stop(_: Any, host: str, run: str, inventory: str = "") -> None:
    """Stop a training run: it saves a checkpoint first; `fab train --resume` goes on with it."""
    with reporting_errors():
        where = _one(inventory, host)
        with connected(where) as session:
            found = find_run(session, where.name, run)
            if not found.active and not found.drained:
                say(f"{where.name}: the run {run} does not run: it is {found.state}")
                print(report.stopped(found))
                return
            with locked(session, where.name, f"stop run {run}"):
                say(f"{where.name}: stopping {run}, which may take {found.stop_seconds} s for its checkpoint")
                ended = stop_run(session, found, drained=False)
        print(report.stopped(ended))


@task(
    auto_shortflags=False,
    help={
        "host": ONE_HOST,
        "run": RUN,
        "out": "a directory for it, new or with the same run from before",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def fetch(_: Any, host: str, run: str, out: str, inventory: str = "", json: bool = False) -> None:
    """Bring a run here: checkpoints (each checked), samples, report and logs."""
    with reporting_errors(), reading("the same command goes on with what is here"):
        where, folder = _one(inventory, host), absolute_path(out)
        if folder is None:
            raise FleetError("--out DIR is missing")
        with connected(where) as session:
            found = find_run(session, where.name, run)
            fetched = fetch_run(session, where, found, folder)
        if json:
            print_json(report.fetched_document(fetched))
        else:
            print(report.fetched(fetched))


def _one(inventory: str, host: str) -> Host:
    (found,) = select_hosts(inventory, [host])
    return found


def _begin(
    host: Host,
    name: str,
    settings: RunSettings,
    folders: dict[str, Path],
    overrides: tuple[tuple[str, bytes], ...],
) -> RunFiles:
    contents: dict[str, RunInput] = {}
    for role, folder in folders.items():
        say(f"reading {folder}")
        contents[role] = read_input(folder)
        if role != "init" and contents[role].kind == "checkpoint":
            raise FleetError(f"{folder} holds checkpoints, expected a corpus")
    wanted = RunRequest(name, host.name, settings, contents, overrides, operator())
    with connected(host) as session:
        given = read_release(session, host.name)
        refuse_conflict(host.name, render(wanted, given), read_runs(session))
        for role, content in contents.items():

            def busy(place: str = content.place) -> str | None:
                return next((each.id for each in active_runs(session) if place in each.corpora), None)

            if not send(session, host, folders[role], content, busy):
                say(f"{host.name}: corpus {content.name}, version {content.id}, is there already")
    with connected(host) as session, locked(session, host.name, f"train {name}"):
        return start_new_run(session, host.name, wanted, read_release(session, host.name))


def _resume(host: Host, run: str, settings: RunSettings) -> RunFiles:
    with connected(host) as session, locked(session, host.name, f"resume run {run}"):
        found = find_run(session, host.name, run)
        return resume_run(
            session,
            found,
            read_release(session, host.name),
            lambda wanted: with_new_settings(wanted, file=settings.file, flags=settings.flags, by=operator()),
        )


def _follow_up(host: Host, files: RunFiles, *, json: bool) -> None:
    """The first steps, the limits, and what the operator should know of the run."""
    run = files.wanted.run
    for note in files.notes:
        say(note)
    if not json:
        print(report.started(files), flush=True)
    try:
        with connected(host) as session:
            now = wait_until_training(session, host.name, run)
            limits = verify_limits(session, now)
    except KeyboardInterrupt:
        fail(f"the run goes on without you: fab logs --host {host.name} --run {run} --follow")
    if json:
        print_json(now.to_json() | {"host": host.name, "verified": list(limits)})
    else:
        print(report.training(now, limits))
