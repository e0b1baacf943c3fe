"""What the tools of the bed must see, or other tests prove nothing: cuts, changes, command lines, faults that end."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.fleet.bed import images, leftovers
from tests.fleet.bed.cuts import Rest, cut_at
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.host import GpuHost, HostFactory
from tests.fleet.bed.leftovers import Names
from tests.fleet.bed.programs import wait_until
from tests.fleet.bed.snapshot import differences, snapshot

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def one(gpu_host: HostFactory) -> GpuHost:
    """A host."""
    return gpu_host("gpu-01")


@pytest.fixture
def host(one: GpuHost) -> GpuHost:
    """The host, without what an earlier test left in /tmp."""
    one.run("rm -rf /tmp/*")
    return one


def left(host: GpuHost) -> set[str]:
    return {name for name in host.run("ls /tmp").stdout.split() if not name.startswith("bed-")}


def test_a_command_is_cut_before_it_runs_once(host: GpuHost) -> None:
    command = "touch /tmp/one; mkdir -p /tmp/two; touch /tmp/three"

    with cut_at(host, "mkdir", "-p /tmp/*") as cut:
        assert not cut.happened()
        assert host.ssh(command, check=False).returncode == 255
        assert cut.happened()
        assert left(host) == {"one"}
        assert host.ssh(command).returncode == 0

    assert left(host) == {"one", "two", "three"}


@pytest.mark.parametrize(("rest", "found"), [("dies", {"one", "two"}), ("goes on", {"one", "two", "three"})])
def test_a_command_is_cut_after_it_has_run(host: GpuHost, rest: Rest, found: set[str]) -> None:
    command = "touch /tmp/one; mkdir -p /tmp/two; touch /tmp/three; sleep 1; echo nobody hears; touch /tmp/four"

    with cut_at(host, "mkdir", "-p /tmp/two", moment="after", rest=rest) as cut:
        assert host.ssh(command, check=False).returncode == 255
        assert cut.happened()
        wait_until(lambda: "sleep 1" not in host.run("ps -e -o args").stdout, "the commands go on")

    assert left(host) == found


def test_a_snapshot_sees_what_a_deploy_could_change(host: GpuHost, base_image: str) -> None:
    host.ssh("mkdir -p ~/.voxyard/releases/a && echo one > ~/.voxyard/releases/a/f && ln -s a ~/.voxyard/current")
    before = snapshot(host)
    assert differences(before, snapshot(host)) == []

    host.ssh("touch -d '2 days ago' ~/.voxyard/releases/a/f")
    touched = differences(before, snapshot(host))
    host.ssh("ln -sfn b ~/.voxyard/current; chmod 600 ~/.voxyard/releases/a/f; rm -r ~/.voxyard/releases")
    moved = differences(before, snapshot(host))
    host.load(base_image)
    host.ssh(f"docker run --detach --name it --network none {base_image} sleep 60; docker volume create kept")
    started = snapshot(host)
    host.ssh("docker restart --time 0 it")
    again = differences(started, snapshot(host))
    host.ssh("docker rm --force it; docker volume rm kept; rm -r ~/.voxyard")

    assert [line.split(":")[1].strip() for line in touched] == ["releases/a/f"]
    assert {line.split(":")[1].strip() for line in moved} >= {"current", "releases/a/f"}
    assert set(started.containers) == {"it"}
    assert "kept" in started.volumes
    assert any(base_image in name for name in started.images)
    assert [line.split(":")[:2] for line in again] == [["containers", " it"]]


def test_what_a_killed_run_left_behind_is_ended(engine: Engine, base_image: str) -> None:
    """A run is killed while a container runs: the next one finds engine, processes and network by the folder."""
    program = f"""
        import sys
        sys.path[:0] = [{str(ROOT)!r}]
        from tests.fleet.bed import engine as engines
        with engines.running(lambda text: None) as engine:
            engine.docker("load", "--input", {str(engine.folder / "base.tar")!r})
            engine.docker("run", "--detach", "--network", "voxyard-bed", {base_image!r}, "sleep", "1000")
            print(engine.folder, flush=True)
            sys.stdin.read()
    """
    engine.docker("save", "--output", engine.folder / "base.tar", base_image)
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    assert folder.is_dir()
    left = leftovers.processes(Names(folder))

    leftovers.sweep()

    assert len(left) >= 3, "dockerd, containerd, and sleep with its shim"
    wait_until(lambda: not folder.exists(), "the bed stays")  # the sweep of another process may have come first
    assert not any(leftovers.command_line(pid) for pid in left), "zombies, which have none, may wait for init"
    assert not Path(f"/sys/class/net/{Names(folder).bridge}").exists()
    assert engine.folder.is_dir(), "the bed of this run is not touched"


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fleet.bed import programs

    monkeypatch.setattr(programs, "SEARCH", "/nowhere")

    assert any("dockerd (docker.io)" in line for line in programs.missing())
    with pytest.raises(BedError, match=r"debootstrap is missing: apt-get install debootstrap"):
        programs.find("debootstrap")


def test_the_images_of_the_bed_are_made_anew_every_month() -> None:
    november = {images.key(dt.date(2026, 11, day)) for day in (1, 17, 30)}
    assert len(november) == 1
    assert images.key(dt.date(2026, 12, 1)) not in november
