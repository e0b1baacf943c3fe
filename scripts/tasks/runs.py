"""`fab train`, `runs`, `logs`, `stop`, `fetch`: training runs on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.runs import report
from fleet.runs.config import RunSettings, flags_of, folders_of, ignored_settings, read_file
from fleet.runs.hosts import places, validated
from fleet.runs.logs import run_labels, service_labels
from fleet.runs.runs import new_run_id
from fleet.runs.state import TrainingRun, read_runs
from fleet.runs.together import stop_everywhere
from fleet.ssh.connection_pool import connected, on_every_host
from fleet.ssh.interrupt import reading
from tasks import over_hosts
from tasks.base import (
    HELP,
    absolute_path,
    exit_with,
    missing_options,
    one_host,
    override_files,
    print_json,
    reporting_errors,
    say,
    select_hosts,
)

ONE_HOST = "host of the run"
A_HOST = f"{ONE_HOST}; of one over several hosts any of them"
RUN = "run id, as printed by `fab runs`"


@task(
    iterable=["set", "override"],
    auto_shortflags=False,
    help={
        "host": ONE_HOST + "; to resume one over several hosts any of them",
        "hosts": "hosts of a run over several, separated by commas: the first saves",
        "config": "settings file (YAML), as for `voxyard train --config`",
        "corpus": "local directory of recordings or shards [default: data.train_data of the settings file]",
        "run": "run id [default: name of the settings file and the time]",
        "resume": "resume this run instead of starting a new one; --config and --set change its settings",
        "max-steps": "stop after this many optimizer updates",
        "device": "auto, gpu or cpu",
        "set": "setting as section.key=value, overrides the settings file; repeatable",
        "override": "additional compose file, merged last; repeatable",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def train(
    _: Any,
    host: str = "",
    hosts: str = "",
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
    """Start a training run on a host, or over several: validate settings, sync the corpus, wait for the first step."""
    with reporting_errors():
        if bool(host) == bool(hosts):
            raise FleetError(missing_options("train", ["host"]) if not host else "found --host and --hosts: give one")
        if not config and not resume:
            raise FleetError("--config FILE is missing: name the settings file, or give --resume RUN")
        if resume and (run or corpus or override):
            raise FleetError("--resume cannot be combined with --run, --corpus or --override: leave them out")
        group = over_hosts.chosen(inventory, hosts) if hosts else (one_host(inventory, host),)
        flags = flags_of(set or (), {"training.max_steps": max_steps, "training.device": device})
        settings = RunSettings(read_file(absolute_path(config)), flags)
        name = config or f"the settings of {resume}"
        checked = validated(settings, name, several=bool(hosts), resumed=bool(resume))
        for line in (*checked.notes, *ignored_settings(checked)):
            say(line)
        if resume:
            group = group if hosts else over_hosts.of_run(inventory, group[0], resume)
            over_hosts.resume(group, resume, settings, json=json)
            return
        placed = places(group) if hosts else (None,)
        name = new_run_id(Path(config).stem, run)
        folders = folders_of(checked.config, absolute_path(corpus))
        over_hosts.begin(group, placed, name, settings, folders, override_files(override), json=json)


@task(iterable=["host", "group"], auto_shortflags=False, help=HELP)
def runs(
    _: Any,
    host: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
    inventory: str = "",
    json: bool = False,
) -> None:
    """List the training runs of the hosts: state, step, loss."""

    def read(each: Host) -> tuple[TrainingRun, ...]:
        with connected(each) as session:
            return read_runs(session)

    with reporting_errors(), reading():
        wanted = [each for each in select_hosts(inventory, host, group) if host or "trainer" in each.roles]
        result = on_every_host(wanted, read, keep=True)
        if json:
            print_json(report.document(result, [each.name for each in wanted]))
        else:
            report.print_table(result, [each.name for each in wanted])
        exit_with(good=not result.failed)


@task(
    auto_shortflags=False,
    help={
        "host": "host to read from; with --run any host of the run",
        "service": "bark or exporter",
        "run": RUN,
        "lines": "number of last lines [default: 100]",
        "follow": "follow the log until the service or run ends (Ctrl-C stops following only)",
        "inventory": HELP["inventory"],
    },
)
def logs(
    _: Any, host: str, service: str = "", run: str = "", lines: int = 100, follow: bool = False, inventory: str = ""
) -> None:
    """Show the log of a service or a training run on a host."""
    with reporting_errors(), reading():
        if bool(service) == bool(run):
            raise FleetError(
                "expected one of --service bark, --service exporter or --run ID; with make: "
                f'make logs HOST={host} ARGS="--service bark"'
            )
        where = one_host(inventory, host)
        hosts = over_hosts.of_run(inventory, where, run) if run else (where,)
        labels = run_labels(run) if run else service_labels(service)
        over_hosts.show(hosts, labels, lines=max(1, lines), follow=follow)


@task(auto_shortflags=False, help={"host": A_HOST, "run": RUN, "inventory": HELP["inventory"]})
def stop(_: Any, host: str, run: str, inventory: str = "") -> None:
    """Stop a training run after it saved a checkpoint; continue it with `fab train --resume`."""
    with reporting_errors():
        for each in stop_everywhere(over_hosts.of_run(inventory, one_host(inventory, host), run), connected, run):
            print(report.stopped(each))


@task(
    auto_shortflags=False,
    help={
        "host": A_HOST,
        "run": RUN,
        "out": "target directory: new, or with an earlier fetch of the same run",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def fetch(_: Any, host: str, run: str, out: str, inventory: str = "", json: bool = False) -> None:
    """Fetch a run: checkpoints (verified by checksum), samples, report and logs."""
    with reporting_errors(), reading("run the same command again to continue"):
        where, folder = one_host(inventory, host), absolute_path(out)
        if folder is None:
            raise FleetError("--out DIR is missing")
        fetched = over_hosts.fetch(over_hosts.of_run(inventory, where, run), run, folder)
        if json:
            print_json(report.fetched_document(fetched))
        else:
            print(report.fetched(fetched))
