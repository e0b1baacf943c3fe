"""Tools of the test bed: interrupted connections, replaced programs, snapshots, process recording, registry."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from tests.fleet.bed import faults
from tests.fleet.bed.cuts import Rest, cut_at, cut_connection, cut_when
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.host import GpuHost, HostFactory, three
from tests.fleet.bed.processes import command_lines, watched
from tests.fleet.bed.programs import wait_until
from tests.fleet.bed.registry import Registry
from tests.fleet.bed.snapshot import differences, snapshot
from tests.fleet.bed.stand_ins import replaced_program


@pytest.fixture(scope="module")
def hosts(gpu_host: HostFactory) -> list[GpuHost]:
    """The fleet of three, started in one call; their disks can be made smaller."""
    return gpu_host.several(*three(docker_disk="1g"))


@pytest.fixture
def host(hosts: list[GpuHost]) -> GpuHost:
    """The first of them, without what an earlier test left in /tmp."""
    hosts[0].run("rm -rf /tmp/*")
    return hosts[0]


def left(host: GpuHost) -> set[str]:
    return {name for name in host.run("ls /tmp").stdout.split() if not name.startswith("bed-")}


def test_three_hosts_of_different_topologies_start_in_one_call(hosts: list[GpuHost]) -> None:
    rows = [host.ssh("nvidia-smi topo -m").stdout.splitlines()[1].split("\t")[1:3] for host in hosts]

    assert [host.name for host in hosts] == ["gpu-pix", "gpu-sys", "gpu-one"]
    assert rows[0] == [" X ", "PIX"]
    assert rows[1] == [" X ", "SYS"]
    assert "GPU1" not in hosts[2].ssh("nvidia-smi topo -m").stdout
    assert len(set(hosts[0].known_hosts.read_text().split()[2::3])) == 3, "a key each"


def test_a_cut_connection_takes_its_commands_along(host: GpuHost) -> None:
    with subprocess.Popen([*host.ssh_words(), "touch /tmp/begun; sleep 60; touch /tmp/ended"]) as login:
        wait_until(lambda: "begun" in left(host), "the login does not begin")
        cut_connection(host)
        assert login.wait(timeout=60) == 255

    assert left(host) == {"begun"}
    assert "sleep 60" not in host.run("ps -e -o args").stdout
    assert host.ssh("echo there").stdout == "there\n", "sshd itself listens"


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


def test_a_connection_is_cut_when_a_file_appears(host: GpuHost) -> None:
    with cut_when(host, file="/tmp/par*") as cut:
        said = host.ssh("touch /tmp/one; touch /tmp/partial; sleep 60; touch /tmp/ended", check=False)

        assert said.returncode == 255
        assert cut.happened()
    assert left(host) == {"one", "partial"}


def test_a_connection_is_cut_when_a_command_runs_and_not_without(host: GpuHost) -> None:
    with cut_when(host, command="sleep 61") as cut:
        assert host.ssh("sleep 0.1; echo well").stdout == "well\n"
        assert not cut.happened()
        assert host.ssh("sleep 61", check=False).returncode == 255
        assert cut.happened()


def test_a_program_is_replaced_for_a_while(host: GpuHost) -> None:
    with replaced_program(host, "hostname", '[ "$1" = -f ] && exec "$REAL"; echo another'):
        assert host.ssh("hostname; hostname -f").stdout.split() == ["another", "gpu-pix"]
    with (
        replaced_program(host, "dmesg", "echo of a test"),
        replaced_program(host, "no-such-program", '"$REAL" || echo none'),
    ):
        assert host.ssh("dmesg; no-such-program").stdout == "of a test\nnone\n"

    assert host.ssh("hostname").stdout == "gpu-pix\n"
    assert host.ssh("dmesg", check=False).stdout == ""
    assert host.ssh("no-such-program", check=False).returncode == 127


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


def test_the_watch_sees_the_command_lines_of_hosts_and_of_short_programs(host: GpuHost, tmp_path: Path) -> None:
    with watched(tmp_path / "watch") as watch:
        host.ssh("sh -c 'sleep 3' a-word-on-a-host")
        for number in range(20):
            host.ssh(f"/bin/true a-short-word-{number}")
    said = command_lines(watch)

    assert "a-word-on-a-host" in said
    assert any(f"/bin/true a-short-word-{number}" in said for number in range(20))


def test_an_image_has_a_real_digest_in_the_registry_and_hosts_pull_it(
    registry: Registry, host: GpuHost, base_image: str
) -> None:
    digest = registry.push(base_image, "voxyard-base")
    reference = f"{registry.address}/voxyard-base@{digest}"

    pulled = host.ssh(f"docker pull --quiet {reference}")
    inside = host.ssh("docker image inspect --format '{{json .RepoDigests}}' " + reference).stdout

    assert len(digest.removeprefix("sha256:")) == 64
    assert pulled.stdout.strip() == reference
    assert digest in inside
    assert "voxyard-base" in registry.repositories()
    host.ssh(f"docker rmi {reference}")


def test_a_planted_fault_is_healed_also_when_the_block_fails(host: GpuHost) -> None:
    before = (host.captures / "gpus.csv").read_text()

    with contextlib.suppress(RuntimeError), faults.mig_on(host):
        assert (host.captures / "gpus.csv").read_text() != before
        raise RuntimeError

    assert (host.captures / "gpus.csv").read_text() == before


def test_the_disk_under_docker_is_small_for_a_while_and_really_full(hosts: list[GpuHost], base_image: str) -> None:
    free = "df --output=avail --block-size=1M /var/lib/docker | tail -n 1"

    with faults.low_disk(hosts[1], free=20 << 20):
        assert int(hosts[1].ssh(free).stdout) <= 20
        with pytest.raises(BedError, match="no space left on device"):
            hosts[1].load(base_image)

    assert int(hosts[1].ssh(free).stdout) > 800


def test_a_host_on_the_disk_of_its_machine_cannot_be_made_small(gpu_host: HostFactory) -> None:
    large = gpu_host("large")

    with pytest.raises(BedError, match="docker_disk"), faults.low_disk(large):
        pass
    gpu_host.stop(large)


def test_a_foreign_process_is_one_of_the_hosts_and_ends(host: GpuHost) -> None:
    with faults.foreign_process(host) as pid:
        listed = host.ssh("nvidia-smi --query-compute-apps=pid --format=csv,noheader,nounits").stdout
        user = host.ssh(f"stat -c %U /proc/{pid}").stdout

    assert (int(listed), user.strip()) == (pid, "nobody")
    assert host.ssh(f"kill -0 {pid}", check=False).returncode != 0
