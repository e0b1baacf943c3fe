"""`fab train`, `runs`, `logs`, `stop`, `fetch`: training runs on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.lock import locked, operator
from fleet.runs import fetch as run_fetch
from fleet.runs import logs as host_logs
from fleet.runs import report as run_report
from fleet.runs import runs as host_runs
from fleet.runs.config import Settings, flags_of, folders_of, judge, overruled, read_file
from fleet.runs.corpus_sync import Content, read_content, send
from fleet.runs.files import RunFiles, Wanted, render
from fleet.runs.state import Run, read_runs
from fleet.ssh.connection_pool import connected, on_every_host
from fleet.ssh.interrupt import reading
from tasks.base import HELP, answering, hosts_of, leave, path_of, print_json, say
from tasks.base import stop as give_up

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
    with answering():
        if not config and not resume:
            raise FleetError("--config FILE is missing: the settings of the run (or --resume RUN)")
        if resume and (run or corpus or override):
            raise FleetError("--resume goes on with a run as it is: leave out --run, --corpus and --override")
        where = _one(inventory, host)
        flags = flags_of(set or (), {"training.max_steps": max_steps, "training.device": device})
        settings = Settings(read_file(path_of(config)), flags)
        judged = judge(settings, name=config or f"the settings of {resume}")
        for line in (*judged.notes, *overruled(judged)):
            say(line)
        if resume:
            begun = _go_on(where, resume, settings)
        else:
            name = host_runs.new_id(Path(config).stem, run)
            folders = folders_of(judged.config, path_of(corpus))
            overrides = tuple(
                (f"{SITE}{number}-{Path(each).name}", read_file(path_of(each)))
                for number, each in enumerate(override or (), 1)
            )
            begun = _begin(where, name, settings, folders, overrides)
        _follow_up(where, begun, json=json)


@task(iterable=["host"], auto_shortflags=False, help=HELP)
def runs(_: Any, host: Sequence[str] | None = None, inventory: str = "", json: bool = False) -> None:
    """Show the training runs of the hosts: how they are, how far they came, their loss."""

    def look(each: Host) -> tuple[Run, ...]:
        with connected(each) as session:
            return read_runs(session)

    with answering(), reading():
        wanted = [each for each in hosts_of(inventory, host) if host or "trainer" in each.roles]
        result = on_every_host(wanted, look, keep=True)
        if json:
            print_json(run_report.document(result, [each.name for each in wanted]))
        else:
            run_report.print_table(result, [each.name for each in wanted])
        leave(good=not result.failed)


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
    with answering(), reading():
        if bool(service) == bool(run):
            raise FleetError("say whose log: --service bark, --service exporter, or --run ID")
        where = _one(inventory, host)
        labels = host_logs.of_run(run) if run else host_logs.of_service(service)
        with connected(where) as session:
            if run:
                host_runs.find(session, where.name, run)
            host_logs.show(session, where.name, labels, print, lines=max(1, lines), follow=follow)


@task(auto_shortflags=False, help={"host": ONE_HOST, "run": RUN, "inventory": HELP["inventory"]})
def stop(_: Any, host: str, run: str, inventory: str = "") -> None:
    """Stop a training run: it saves a checkpoint first; `fab train --resume` goes on with it."""
    with answering():
        where = _one(inventory, host)
        with connected(where) as session:
            found = host_runs.find(session, where.name, run)
            if not found.active and not found.drained:
                say(f"{where.name}: the run {run} does not run: it is {found.state}")
                print(run_report.stopped(found))
                return
            with locked(session, where.name, f"stop run {run}"):
                say(f"{where.name}: stopping {run}, which may take {found.stop_seconds} s for its checkpoint")
                ended = host_runs.stop(session, found, drained=False)
        print(run_report.stopped(ended))


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
    with answering(), reading("the same command goes on with what is here"):
        where, folder = _one(inventory, host), path_of(out)
        if folder is None:
            raise FleetError("--out DIR is missing")
        with connected(where) as session:
            found = host_runs.find(session, where.name, run)
            fetched = run_fetch.fetch(session, where, found, folder)
        if json:
            print_json(run_report.fetched_document(fetched))
        else:
            print(run_report.fetched(fetched))


def _one(inventory: str, host: str) -> Host:
    (found,) = hosts_of(inventory, [host])
    return found


def _begin(
    host: Host,
    name: str,
    settings: Settings,
    folders: dict[str, Path],
    overrides: tuple[tuple[str, bytes], ...],
) -> RunFiles:
    contents: dict[str, Content] = {}
    for role, folder in folders.items():
        say(f"reading {folder}")
        contents[role] = read_content(folder)
        if role != "init" and contents[role].kind == "checkpoint":
            raise FleetError(f"{folder} holds checkpoints, expected a corpus")
    wanted = Wanted(name, host.name, settings, contents, overrides, operator())
    with connected(host) as session:
        given = host_runs.deployed(session, host.name)
        host_runs.refuse_conflict(host.name, render(wanted, given), read_runs(session))
        for role, content in contents.items():

            def busy(place: str = content.place) -> str | None:
                return next((each.id for each in host_runs.active(session) if place in each.corpora), None)

            if not send(session, host, folders[role], content, busy):
                say(f"{host.name}: corpus {content.name}, version {content.id}, is there already")
    with connected(host) as session, locked(session, host.name, f"train {name}"):
        return host_runs.start_new(session, host.name, wanted, host_runs.deployed(session, host.name))


def _go_on(host: Host, run: str, settings: Settings) -> RunFiles:
    with connected(host) as session, locked(session, host.name, f"resume run {run}"):
        found = host_runs.find(session, host.name, run)
        return host_runs.go_on(
            session,
            found,
            host_runs.deployed(session, host.name),
            lambda wanted: host_runs.settings_changed(wanted, file=settings.file, flags=settings.flags, by=operator()),
        )


def _follow_up(host: Host, begun: RunFiles, *, json: bool) -> None:
    """The first steps, the limits, and what the operator should know of the run."""
    run = begun.wanted.run
    for note in begun.notes:
        say(note)
    if not json:
        print(run_report.begun(begun), flush=True)
    try:
        with connected(host) as session:
            now = host_runs.wait_until_it_trains(session, host.name, run)
            limits = host_runs.verify_limits(session, now)
    except KeyboardInterrupt:
        give_up(f"the run goes on without you: fab logs --host {host.name} --run {run} --follow")
    if json:
        print_json(now.to_json() | {"host": host.name, "verified": list(limits)})
    else:
        print(run_report.trains(now, limits))
