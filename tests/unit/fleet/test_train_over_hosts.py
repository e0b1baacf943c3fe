"""`fab train --hosts` and the tasks that follow it, on two fake hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fab_tasks import Fab, task_runner
from run_fleet import HOSTS, RUN, TwoHosts

from fleet.inventory.hosts import Host
from fleet.runs import runs as started
from fleet.runs import together
from fleet.runs.fetch import FetchedRun
from fleet.runs.state import TrainingRun
from tasks import over_hosts, runs

INVENTORY = """\
defaults: {user: voxyard, node_exporter: false, roles: [trainer]}
hosts:
  gpu-01: {address: 10.0.0.1}
  gpu-02: {address: 10.0.0.2}
  web: {address: 10.0.0.3, roles: [monitoring]}
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoHosts:
    found = TwoHosts(tmp_path)
    for module in (over_hosts, runs):
        monkeypatch.setattr(module, "connected", found.connect)
    monkeypatch.setattr(started, "is_training", lambda _, run: run.active)
    return found


@pytest.fixture
def fab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fab:
    """Runs a task: exit code, output, messages."""
    return task_runner(INVENTORY, tmp_path, capsys)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Settings file, with a corpus beside it."""
    corpus = tmp_path / "demo"
    (corpus / "wavs").mkdir(parents=True)
    (corpus / "metadata.csv").write_text("a|words|words\n")
    path = tmp_path / "train.yaml"
    path.write_text(f"data: {{train_data: {corpus}}}\ntraining: {{batch_size: 8}}\n")
    return str(path)


@pytest.fixture
def sent(fleet: TwoHosts, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of hosts to which a corpus was sent, with what they had started by then."""
    names: list[str] = []

    def send(_: Any, host: Host, __: Path, content: Any, ___: Any) -> bool:
        names.append(f"{host.name} {fleet.starts()}")
        (fleet.hosts[host.name].place / "corpora" / content.place / "source").mkdir(parents=True)
        return True

    monkeypatch.setattr(over_hosts, "send", send)
    monkeypatch.setattr(over_hosts, "verify_limits", lambda *_: ("limits: none",))
    return names


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "--host is missing; for example: fab train --host gpu-01"),
        ({"host": "gpu-01", "hosts": "gpu-01,gpu-02"}, "found --host and --hosts: give one"),
        ({"hosts": "gpu-01,gpu-02,gpu-01"}, "--hosts names gpu-01 twice"),
        ({"hosts": "gpu-01,gpu-09"}, "no host gpu-09 in"),
        ({"hosts": "gpu-01"}, "--hosts gpu-01 names one host"),
        ({"hosts": "gpu-01,web"}, "web is no trainer"),
        ({"hosts": "gpu-01,gpu-02", "max_steps": "x"}, "--max-steps: found the text"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_host_is_contacted(
    fab: Fab, fleet: TwoHosts, config: str, options: dict[str, str], said: str
) -> None:
    fleet.away |= {"gpu-01", "gpu-02"}
    code, _, told = fab(runs.train, config=config, **options)
    assert code == 2
    assert said in told


@pytest.mark.parametrize("where", [{"host": "gpu-01"}, {"hosts": "gpu-01,gpu-02"}])
def test_settings_that_name_hosts_are_refused_for_one_host_and_for_several(
    fab: Fab, fleet: TwoHosts, config: str, where: dict[str, str]
) -> None:
    fleet.away |= {"gpu-01", "gpu-02"}
    Path(config).write_text("training: {batch_size: 8, hosts: '10.0.0.1:2222,10.0.0.2:2222'}\n")
    code, _, told = fab(runs.train, config=config, **where)
    assert code == 2
    assert f"training.hosts ({config}:1): fab tells each host its place itself" in told


def test_the_corpus_goes_to_every_host_and_then_all_start(
    fab: Fab, fleet: TwoHosts, config: str, sent: list[str]
) -> None:
    code, out, told = fab(runs.train, hosts="gpu-02, gpu-01", config=config, run=RUN, json=True)
    fleet.settle()
    assert (code, fleet.starts()) == (0, [1, 1]), told
    assert sent == ["gpu-02 [0, 0]", "gpu-01 [0, 0]"]
    assert [(each["host"], each["hosts"]) for each in json.loads(out)] == [
        (name, ["gpu-02", "gpu-01"]) for name in ("gpu-02", "gpu-01")
    ]


def test_a_batch_that_does_not_divide_is_refused_before_anything_is_sent(
    fab: Fab, fleet: TwoHosts, config: str, sent: list[str]
) -> None:
    code, _, told = fab(runs.train, hosts="gpu-01,gpu-02", config=config, set=["training.batch_size=7"])
    assert (code, sent, fleet.starts()) == (2, [], [0, 0])
    assert "training.batch_size is 7: over 2 hosts" in told


def test_a_run_id_that_one_host_has_is_refused_before_anything_is_sent(
    fab: Fab, fleet: TwoHosts, config: str, sent: list[str]
) -> None:
    fleet.start()
    together.stop_everywhere(HOSTS, fleet.connect, RUN)
    code, _, told = fab(runs.train, hosts="gpu-01,gpu-02", config=config, run=RUN)
    assert (code, sent) == (1, [])
    assert f"already has a run {RUN}" in told


@pytest.mark.slow
def test_any_host_of_a_run_stops_and_resumes_it_on_all(fab: Fab, fleet: TwoHosts, sent: list[str]) -> None:
    fleet.start()
    code, out, told = fab(runs.stop, host="gpu-02", run=RUN)
    assert code == 0, told
    assert [line.split(":")[0] for line in out.splitlines()] == [f"{RUN} on gpu-01", f"{RUN} on gpu-02"]
    assert not any(fleet.run(name).active for name in fleet.hosts)
    code, out, told = fab(runs.train, host="gpu-02", resume=RUN, max_steps="9")
    fleet.settle()
    assert (code, fleet.starts(), sent) == (0, [2, 2], []), told
    for there in fleet.hosts.values():
        assert "--max-steps=9" in (there.place / f"runs/{RUN}/run.yaml").read_text()


def test_a_run_that_is_active_is_not_resumed(fab: Fab, fleet: TwoHosts) -> None:
    fleet.start()
    code, _, told = fab(runs.train, hosts="gpu-01,gpu-02", resume=RUN)
    assert (code, fleet.starts()) == (1, [1, 1])
    assert f"the run {RUN} is already active" in told
    assert all(fleet.run(name).active for name in fleet.hosts)


def test_a_host_that_fails_before_its_first_step_is_named_with_its_log(
    fab: Fab, fleet: TwoHosts, sent: list[str], config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trains(_: Any, run: TrainingRun) -> bool:
        if run.host == "gpu-02":
            (fleet.hosts["gpu-02"].folder / "said").write_text("the loss is not finite\n")
            fleet.end([1], ["gpu-02"])
        return run.host == "gpu-01"

    monkeypatch.setattr(started, "is_training", trains)
    monkeypatch.setattr(started, "POLL_SECONDS", 0.05)
    code, _, told = fab(runs.train, hosts="gpu-01,gpu-02", config=config, run=RUN)
    assert code == 1
    assert f"gpu-02: the run {RUN} failed (exit code 1)" in told
    assert "the loss is not finite" in told


def test_a_run_is_not_resumed_on_other_hosts(fab: Fab, fleet: TwoHosts) -> None:
    fleet.start()
    code, _, told = fab(runs.train, hosts="gpu-02,gpu-01", resume=RUN)
    assert code == 1
    assert f"gpu-02: the run {RUN} is over gpu-01,gpu-02, not gpu-02,gpu-01" in told


def test_who_ends_the_waiting_is_told_that_the_run_goes_on(
    fab: Fab, fleet: TwoHosts, sent: list[str], config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(over_hosts, "on_every_host", interrupted)
    code, _, told = fab(runs.train, hosts="gpu-01,gpu-02", config=config, run=RUN)
    fleet.settle()
    assert code == 1
    assert f"the run continues on its hosts: fab logs --host gpu-01 --run {RUN} --follow" in told
    assert fleet.run("gpu-01").active


def test_the_log_of_a_run_is_that_of_all_its_hosts(fab: Fab, fleet: TwoHosts) -> None:
    fleet.start()
    for name, there in fleet.hosts.items():
        (there.folder / "said").write_text(f"2026-01-05T08:00:00Z words of {name}\n")
    code, out, told = fab(runs.logs, host="gpu-02", run=RUN)
    assert code == 0, told
    assert out.splitlines() == ["gpu-01: words of gpu-01", "gpu-02: words of gpu-02"]


def test_a_run_is_fetched_from_all_its_hosts(
    fab: Fab, fleet: TwoHosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fleet.start()
    fetched = []

    def fetch_run(_: Any, host: Host, run: TrainingRun, out: Path) -> FetchedRun:
        fetched.append((host.name, run.host, str(out)))
        return FetchedRun(out, (), 0, report=False, logs=1)

    monkeypatch.setattr(over_hosts, "fetch_run", fetch_run)
    code, out, told = fab(runs.fetch, host="gpu-02", run=RUN, out=str(tmp_path / "out"))
    assert code == 0, told
    assert fetched == [("gpu-01", "gpu-01", f"{tmp_path}/out"), ("gpu-02", "gpu-02", f"{tmp_path}/out/gpu-02")]
    assert out.startswith(f"{tmp_path}/out: ")


def test_the_table_of_runs_names_all_hosts_of_one(fab: Fab, fleet: TwoHosts) -> None:
    fleet.start()
    code, out, told = fab(runs.runs, host=["gpu-02"])
    assert code == 0, told
    assert "starting, over gpu-01, gpu-02" in out
