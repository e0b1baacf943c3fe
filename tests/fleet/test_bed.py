"""Test bed: logins, engines inside, GPUs for containers, a replayed driver, complete cleanup."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scenario import GIB, GpuState, Process, Scenario
from tests.fleet.bed import images, leftovers
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.gpus import Failure
from tests.fleet.bed.host import GpuHost, HostFactory
from tests.fleet.bed.leftovers import Names
from tests.fleet.bed.programs import wait_until

ROOT = Path(__file__).resolve().parents[2]
CONFINED = "--rm --read-only --cap-drop ALL --user 65534 --network none"
READ_GPUS = """
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
count = ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
print(count.value)
"""


@pytest.fixture(scope="module")
def hosts(gpu_host: HostFactory) -> list[GpuHost]:
    """Two hosts that were started side by side."""
    return gpu_host.several("gpu-01", "gpu-02")


@pytest.fixture
def host(hosts: list[GpuHost]) -> GpuHost:
    """The first host, as it was when it started."""
    hosts[0].set_gpus([GpuState.consumer(0), GpuState.consumer(1)], links={(0, 1): "PHB"})
    hosts[0].repair_driver()
    return hosts[0]


@pytest.fixture
def host_with_base(host: GpuHost, base_image: str) -> GpuHost:
    """The first host, with the base image on it."""
    if host.ssh(f"docker image inspect {base_image}", check=False).returncode != 0:
        host.load(base_image)
    return host


def test_the_login_reaches_docker_and_compose_of_the_inner_engine(host: GpuHost) -> None:
    said = host.ssh("id -un; docker version --format '{{.Server.Version}}'; docker compose version --short; hostname")

    user, engine, compose, hostname = said.stdout.split()
    assert (user, hostname) == ("voxyard", "gpu-01")
    assert int(engine.split(".")[0]) >= 20
    assert compose.removeprefix("v").startswith("2.")


def test_the_inner_engine_is_not_the_outer_one(engine: Engine, host: GpuHost) -> None:
    inner = host.ssh("docker info --format '{{.ID}}'").stdout
    outer = engine.docker("info", "--format", "{{.ID}}").stdout

    assert inner.strip() != outer.strip()


def test_the_login_may_use_docker_but_is_not_root(host: GpuHost) -> None:
    said = host.ssh("id -nG; command -v sudo || echo no sudo; cat /etc/shadow", check=False)

    assert "docker" in said.stdout.splitlines()[0].split()
    assert "no sudo" in said.stdout
    assert said.returncode != 0


def test_a_host_whose_key_is_not_known_is_refused(host: GpuHost, tmp_path: Path) -> None:
    (tmp_path / "nobody").write_text("", encoding="utf-8")
    words = [word.replace(str(host.known_hosts), str(tmp_path / "nobody")) for word in host.ssh_words()]

    refused = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=60)

    assert refused.returncode == 255
    assert "verification failed" in refused.stderr


def test_two_hosts_have_addresses_names_and_keys_of_their_own(hosts: list[GpuHost]) -> None:
    lines = hosts[0].known_hosts.read_text(encoding="utf-8").split()

    assert len({host.address for host in hosts}) == 2
    assert [host.ssh("hostname").stdout.strip() for host in hosts] == ["gpu-01", "gpu-02"]
    assert len(set(lines[2::3])) == 2, "two host keys"


def test_hosts_reach_each_other(hosts: list[GpuHost]) -> None:
    one, other = hosts
    greeting = f"import socket; print(socket.create_connection(('{other.address}', {other.port}), 20).recv(3))"

    assert one.run(f'python3 -c "{greeting}"').stdout.strip() == "b'SSH'"


def test_an_image_is_shipped_over_ssh_and_runs_confined(host_with_base: GpuHost, base_image: str) -> None:
    command = "id -u; touch /written 2>/dev/null || echo read-only; grep CapEff /proc/self/status"

    said = host_with_base.ssh(f"docker run {CONFINED} {base_image} sh -c '{command}'").stdout.split()

    assert said == ["65534", "read-only", "CapEff:", "0000000000000000"]


def test_a_published_port_of_an_inner_container_is_reached_from_the_test(
    host_with_base: GpuHost, base_image: str
) -> None:
    serve = f"docker run --detach --rm --init --name web --publish 9410:80 {base_image} python3 -m http.server 80"
    fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).status)"

    def fetched() -> bool:
        got = subprocess.run([sys.executable, "-c", fetch, url], capture_output=True, text=True, timeout=60)
        return got.stdout.strip() == "200"

    url = f"http://{host_with_base.address}:9410/"
    host_with_base.ssh(serve)
    try:
        wait_until(fetched, "nothing is fetched from the container")
    finally:
        host_with_base.ssh("docker rm --force web")


def test_a_container_that_reserves_a_gpu_starts_and_the_hook_sees_it(host_with_base: GpuHost, base_image: str) -> None:
    uuid = GpuState.consumer(1).uuid

    said = host_with_base.ssh(
        f'docker run {CONFINED} --gpus \'"device={uuid}","capabilities=utility"\' {base_image} '
        "sh -c 'echo $NVIDIA_VISIBLE_DEVICES; ls /usr/bin/nvidia-smi 2>/dev/null || echo nothing mounted'"
    )

    assert said.stdout.split("\n") == [uuid, "nothing mounted", ""]
    last = host_with_base.hook_calls()[-1]
    assert (last.visible_devices, last.capabilities) == (uuid, "utility")


def test_compose_reserves_gpus_too(host_with_base: GpuHost, base_image: str) -> None:
    compose = textwrap.dedent(f"""
        name: reserved
        services:
          one:
            image: {base_image}
            command: [sh, -c, "echo gpus=$$NVIDIA_VISIBLE_DEVICES"]
            deploy:
              resources:
                reservations:
                  devices:
                    - {{driver: nvidia, count: all, capabilities: [utility]}}
    """)
    up = "docker compose --file - up --no-color --quiet-pull"
    said = subprocess.run([*host_with_base.ssh_words(), up], input=compose, capture_output=True, text=True, timeout=300)
    host_with_base.ssh("docker rm --force reserved-one-1; docker network rm reserved_default")

    assert "gpus=all" in said.stdout, said.stderr
    last = host_with_base.hook_calls()[-1]
    assert (last.visible_devices, last.capabilities) == ("all", "utility")


def test_a_host_without_the_toolkit_refuses_gpus_and_one_that_mounts_gives_the_driver(
    gpu_host: HostFactory, base_image: str
) -> None:
    bare = gpu_host("bare", toolkit=False)
    full = gpu_host("full", mount_driver=True, gpus=[GpuState.default(index) for index in range(3)])
    for each in (bare, full):
        each.load(base_image)
    read = f"docker run --interactive {CONFINED} --gpus all {base_image}"

    refused = bare.ssh(f"{read} true", check=False)
    counted = subprocess.run(
        [*full.ssh_words(), f"{read} python3 -"], input=READ_GPUS, capture_output=True, text=True, timeout=120
    )
    listed = full.ssh(f"{read} nvidia-smi -L").stdout.splitlines()

    assert refused.returncode == 125
    assert "could not select device driver" in refused.stderr
    assert counted.stdout.strip() == "3", counted.stderr
    assert len(listed) == 3
    for each in (bare, full):
        gpu_host.stop(each)


def test_a_name_is_given_once(gpu_host: HostFactory, host: GpuHost) -> None:
    with pytest.raises(BedError, match="gpu-01 already"):
        gpu_host("gpu-01")


def test_nvidia_smi_answers_the_fields_that_are_asked_in_their_order(host: GpuHost) -> None:
    host.set_gpus([GpuState.consumer(0), GpuState.consumer(1, memory_total=None, persistence=0)])

    said = host.ssh(
        "nvidia-smi --query-gpu=memory.total,index,persistence_mode,uuid,mig.mode.current --format=csv,noheader,nounits"
    )

    assert said.stdout.splitlines() == [
        f"24564, 0, Enabled, {GpuState.consumer(0).uuid}, [N/A]",
        f"[N/A], 1, Disabled, {GpuState.consumer(1).uuid}, [N/A]",
    ]


def test_nvidia_smi_knows_remapped_rows_and_processes(host: GpuHost) -> None:
    working = [Process(4711, 3 * GIB)]
    host.set_gpus(Scenario([GpuState.default(0, remapped_pending=1, processes=working)]))
    form = "--format=csv,noheader,nounits"

    rows = host.ssh(f"nvidia-smi --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure {form}")
    processes = host.ssh(f"nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory {form}")

    assert rows.stdout.strip() == f"{GpuState.default(0).uuid}, Yes, No"
    assert processes.stdout.strip() == f"{GpuState.default(0).uuid}, 4711, 3072"


def test_an_old_driver_does_not_know_a_field(host: GpuHost) -> None:
    host.set_gpus([GpuState.consumer()], unknown_fields=["clocks_event_reasons.active"])
    ask = "nvidia-smi --query-gpu=index,{} --format=csv,noheader,nounits"

    new = host.ssh(ask.format("clocks_event_reasons.active"), check=False)
    old = host.ssh(ask.format("clocks_throttle_reasons.active"))

    assert new.returncode == 2
    assert "not a valid field" in new.stdout
    assert old.stdout.strip() == "0, 0x0000000000000000"


def test_nvidia_smi_replays_topology_lists_and_a_capture(host: GpuHost) -> None:
    capture = (ROOT / "tests/captures/topo/dual_nv2_old_two_columns.txt").read_bytes()

    made = host.ssh("nvidia-smi topo -m").stdout.splitlines()
    p2p = host.ssh("nvidia-smi topo -p2p r").stdout.splitlines()
    listed = host.ssh("nvidia-smi -L").stdout.splitlines()
    plain = host.ssh("nvidia-smi").stdout
    (host.captures / "topo-m.txt").write_bytes(capture)
    replayed = host.ssh("nvidia-smi topo -m").stdout

    assert made[1].split("\t")[:3] == ["GPU0", " X ", "PHB"]
    assert p2p[1].split("\t") == ["GPU0", " X ", "CNS"]
    assert listed[1] == f"GPU 1: NVIDIA GeForce RTX 4090 (UUID: {GpuState.consumer(1).uuid})"
    assert plain.count("NVIDIA GeForce RTX 4090") == 2
    assert replayed.encode() == capture


def test_the_replayed_topology_is_read_by_the_parser_of_the_product(host: GpuHost) -> None:
    from voxyard.host import topology

    host.set_gpus([GpuState.default(index) for index in range(3)], links={(0, 2): "NV12"}, p2p={(0, 2): "OK"})
    read = topology.parse(host.ssh("nvidia-smi topo -m").stdout)

    assert [read.link(0, 2), read.link(2, 0), read.link(0, 1)] == ["NV12", "NV12", "SYS"]
    topology.parse_p2p(host.ssh("nvidia-smi topo -p2p r").stdout)


def test_a_broken_driver_is_planted_and_repaired(host: GpuHost) -> None:
    host.break_driver()
    broken = host.ssh("nvidia-smi -L", check=False)
    host.break_driver(Failure(15, err="GPU is lost\n"))
    lost = host.ssh("nvidia-smi topo -m", check=False)
    host.repair_driver()

    assert (broken.returncode, lost.returncode) == (9, 15)
    assert "communicate with the NVIDIA driver" in broken.stdout
    assert lost.stderr == "GPU is lost\n"
    assert host.ssh("nvidia-smi -L").returncode == 0


def test_a_host_without_gpus_says_so(host: GpuHost) -> None:
    host.set_gpus([])

    said = host.ssh("nvidia-smi --query-gpu=index --format=csv,noheader,nounits", check=False)

    assert (said.returncode, said.stdout) == (6, "No devices were found\n")


def test_the_library_and_nvidia_smi_tell_the_same(host: GpuHost) -> None:
    host.set_gpus([GpuState.consumer(0, memory_total=48 * GIB)])
    read = READ_GPUS.replace("libnvidia-ml.so.1", "/opt/nvidia/lib/libnvidia-ml.so.1")

    count = subprocess.run([*host.ssh_words(), "python3 -"], input=read, capture_output=True, text=True, timeout=60)

    assert count.stdout.strip() == "1", count.stderr
    assert host.ssh("nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits").stdout.strip() == "49152"


def test_what_is_not_replayed_says_so(host: GpuHost) -> None:
    said = host.ssh("nvidia-smi --query-gpu=index --format=csv", check=False)

    assert said.returncode == 70
    assert "only replays" in said.stderr


def test_the_inner_engine_stops_and_starts(host_with_base: GpuHost, base_image: str) -> None:
    host_with_base.stop_engine()
    stopped = host_with_base.ssh("docker info", check=False)
    host_with_base.start_engine()

    assert stopped.returncode != 0
    assert host_with_base.ssh(f"docker image inspect --format ok {base_image}").stdout.strip() == "ok"
    assert "API listen on" in host_with_base.logs()


def test_an_image_is_built_with_packages_from_the_index_of_this_machine(
    engine: Engine, base_image: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        textwrap.dedent(f"""
            FROM {base_image}
            RUN --mount=type=secret,id=pip_config --mount=type=secret,id=ca_bundle set -eu; \\
                export PIP_CONFIG_FILE=/run/secrets/pip_config; \\
                [ ! -s /run/secrets/ca_bundle ] || export PIP_CERT=/run/secrets/ca_bundle; \\
                python3 -m venv /opt/built; /opt/built/bin/python -m pip install --no-deps click
        """),
        encoding="utf-8",
    )
    engine.build(tmp_path, "voxyard-test/built:1")

    said = engine.docker(
        "run", "--rm", "--network", "none", "voxyard-test/built:1", "/opt/built/bin/python", "-c", "import click"
    )
    assert said.returncode == 0


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
