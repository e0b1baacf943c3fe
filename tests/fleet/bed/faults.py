"""Fault injection on a host, as context managers: `with faults.mig_on(host): …` restores the host."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scenario import GIB, MIB, Process
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.gpus import DRIVER_GONE, Failure, Links
from tests.fleet.bed.host import GpuHost
from tests.fleet.bed.programs import wait_until
from tests.fleet.bed.stand_ins import replaced_program

_LISTEN = "import socket, time; s = socket.create_server(('{}', {})); print('ready', flush=True); time.sleep(3600)"


# -- the driver and the GPUs ---------------------------------------------------------------------------------


@contextlib.contextmanager
def other_gpu(host: GpuHost, index: int = 0, **changes: Any) -> Iterator[None]:
    """One GPU has other values: fields of GpuState."""
    with _healed(host):
        host.set_gpus(host.began.scenario.with_gpu(index, **changes), links=host.began.pairs, p2p=host.began.p2p)
        yield


def mig_on(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A GPU is cut into instances."""
    return other_gpu(host, index, mig=1)


def uncorrectable_errors(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A GPU's memory has lost bits."""
    return other_gpu(host, index, ecc_uncorrected_volatile=2)


def remap_pending(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A GPU waits for a reset to exchange a row of its memory."""
    return other_gpu(host, index, remapped_pending=1, remapped_failure=0)


def remap_failed(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A GPU has no row left to exchange."""
    return other_gpu(host, index, remapped_pending=0, remapped_failure=1)


def exclusive_process(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """One process at a time may compute on a GPU."""
    return other_gpu(host, index, compute_mode=3)


def persistence_off(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """The driver forgets a GPU that nobody uses."""
    return other_gpu(host, index, persistence=0)


def throttled(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A GPU is too hot."""
    return other_gpu(host, index, clock_events=0x40)


def few_lanes(host: GpuHost, index: int = 0) -> contextlib.AbstractContextManager[None]:
    """A card sits loosely in its slot."""
    return other_gpu(host, index, pcie_width=4)


def memory_taken(host: GpuHost, index: int = 0, *, leaving: int = 2 * GIB) -> contextlib.AbstractContextManager[None]:
    """Somebody who is not listed holds all but `leaving` bytes."""
    gpu = host.began.scenario.gpus[index]
    return other_gpu(host, index, memory_used=int(float(str(gpu.memory_total))) - leaving, memory_reserved=0)


@contextlib.contextmanager
def old_driver(host: GpuHost, version: str = "470.239.06") -> Iterator[None]:
    """The driver is too old for the images' CUDA, and does not know what clocks wait for by its newer name."""
    with _healed(host):
        scenario = replace(host.began.scenario, driver_version=version)
        unknown = ["clocks_event_reasons.active"]
        host.set_gpus(scenario, links=host.began.pairs, p2p=host.began.p2p, unknown_fields=unknown)
        yield


@contextlib.contextmanager
def link(host: GpuHost, word: str = "SYS") -> Iterator[None]:
    """All GPUs are as far apart as `nvidia-smi topo` calls it so."""
    count = len(host.began.scenario.gpus)
    pairs: Links = {(a, b): word for a in range(count) for b in range(a + 1, count)}
    with _healed(host):
        host.set_gpus(host.began.scenario, links=pairs, p2p=host.began.p2p)
        yield


@contextlib.contextmanager
def lost_gpu(host: GpuHost) -> Iterator[None]:
    """The last GPU fell off the bus, and nvidia-smi lists it no more."""
    with _healed(host):
        gpus = host.began.scenario.gpus[:-1]
        host.set_gpus(replace(host.began.scenario, gpus=gpus))
        yield


@contextlib.contextmanager
def broken_driver(host: GpuHost, failure: Failure = DRIVER_GONE) -> Iterator[None]:
    """nvidia-smi fails; with `Failure(1, seconds=…)` it hangs."""
    with _healed(host):
        host.break_driver(failure)
        yield


@contextlib.contextmanager
def foreign_process(host: GpuHost, index: int = 0, memory: int = 3 * GIB) -> Iterator[int]:
    """A process that runs outside of all containers computes on a GPU; its process id in the host."""
    with _started(host, "sleep 3600") as pid, _healed(host):
        scenario = host.began.scenario.with_gpu(index, processes=[Process(pid, memory)])
        host.set_gpus(scenario, links=host.began.pairs, p2p=host.began.p2p)
        yield pid


@contextlib.contextmanager
def xid(host: GpuHost, number: int = 79, index: int = 0, *, seconds_ago: float = 100.0) -> Iterator[None]:
    """The kernel's log, which the login may then read, tells of an error of a GPU."""
    up = float(host.run("cut -d ' ' -f 1 /proc/uptime").stdout)
    bus = host.began.scenario.gpus[index].pci_bus_id.lower()
    line = f"[{up - seconds_ago:12.6f}] NVRM: Xid (PCI:{bus[4:].rpartition('.')[0]}): {number}, pid=4711, name=python3"
    with replaced_program(host, "dmesg", f"printf '%s\\n' '[    0.000000] Linux version 6.1' {shlex.quote(line)}"):
        yield


@contextlib.contextmanager
def no_numa_node(host: GpuHost) -> Iterator[None]:
    """The machine has two nodes and does not say to which of them its first GPU belongs."""
    addresses = [gpu.pci_bus_id[4:].lower() for gpu in host.began.scenario.gpus]
    nodes = [-1, *([0] * (len(addresses) - 1))]
    devices = "".join(
        f"mkdir -p {at}; echo {node} > {at}/numa_node; " for at, node in zip(addresses, nodes, strict=True)
    )
    with (
        _mounted(host, "/sys/bus/pci/devices", devices),
        _mounted(host, "/sys/devices/system/node", "mkdir node0 node1; echo 0 | tee node0/cpulist >node1/cpulist"),
    ):
        yield


# -- the machine and its engine ------------------------------------------------------------------------------


@contextlib.contextmanager
def low_disk(host: GpuHost, free: int = 300 * MIB) -> Iterator[None]:
    """The file system under Docker's root has so many bytes free. Raises BedError without HostSpec.docker_disk."""
    if host.began.docker_disk is None:
        raise BedError(f"{host.name} has its machine's disk under Docker's root: start it with docker_disk=\"2g\"")
    used = int(host.run("df --output=used --block-size=1 /var/lib/docker | tail -n 1").stdout)
    resize = "mount -o remount,size={} /var/lib/docker"
    host.run(resize.format(used + free))
    try:
        yield
    finally:
        host.run(resize.format(host.began.docker_disk))


@contextlib.contextmanager
def taken_port(host: GpuHost, port: int) -> Iterator[None]:
    """A program of somebody else listens there."""
    program = _LISTEN.format("0.0.0.0", port)  # noqa: S104 - inside the host
    with _started(host, f"python3 -c {shlex.quote(program)}"):
        listening = f"grep -q ':{port:04X} 00000000:0000 0A' /proc/net/tcp"
        wait_until(lambda: host.run(listening, check=False).returncode == 0, f"nothing listens on port {port}")
        yield


@contextlib.contextmanager
def no_toolkit(host: GpuHost) -> Iterator[None]:
    """The hook that gives GPUs to containers is not installed; the engine that runs knows it no more."""
    host.run("mv /usr/bin/nvidia-container-runtime-hook /usr/bin/hook-away")
    try:
        yield
    finally:
        host.run("mv /usr/bin/hook-away /usr/bin/nvidia-container-runtime-hook")


@contextlib.contextmanager
def cdi_alone(host: GpuHost) -> Iterator[None]:
    """A CDI specification without the hook that this engine needs, and an exporter's image to try it with."""
    specification = "mkdir -p /etc/cdi && echo 'kind: nvidia.com/gpu' > /etc/cdi/nvidia.yaml"
    host.run(f"{specification} && tar -cf - -T /dev/null | docker import - voxyard-exporter:bed")
    try:
        with no_toolkit(host):
            yield
    finally:
        host.run("rm -r /etc/cdi; docker rmi voxyard-exporter:bed")


@contextlib.contextmanager
def stopped_engine(host: GpuHost) -> Iterator[None]:
    """Docker does not run."""
    host.stop_engine()
    try:
        yield
    finally:
        host.start_engine()


@contextlib.contextmanager
def not_in_the_group(host: GpuHost) -> Iterator[None]:
    """New logins may not use Docker."""
    host.run(f"gpasswd --delete {host.user} docker")
    try:
        yield
    finally:
        host.run(f"gpasswd --add {host.user} docker")


def old_compose(host: GpuHost, version: str = "2.20.3") -> contextlib.AbstractContextManager[None]:
    """Compose says that it is of an older version."""
    return replaced_program(host, "docker", f'[ "$1" = compose ] && {{ echo {version}; exit; }}; exec "$REAL" "$@"')


def old_engine(host: GpuHost, version: str = "19.03.15") -> contextlib.AbstractContextManager[None]:
    """The engine says that it is of an older version."""
    change = f's/"Version":"[0-9][^"]*"/"Version":"{version}"/g'
    return _docker_that_says(host, "version", change)


def systemd_cgroups(host: GpuHost) -> contextlib.AbstractContextManager[None]:
    """The engine says that systemd manages its control groups."""
    return _docker_that_says(host, "info", 's/"CgroupDriver":"[a-z]*"/"CgroupDriver":"systemd"/')


def skewed_clock(host: GpuHost, seconds: float = 9.0) -> contextlib.AbstractContextManager[None]:
    """The host's `date` is ahead: the kernel's clock is the machine's, which nobody should turn."""
    words = f'[ "$1" = +%s.%N ] && exec "$REAL" -d "now + {seconds} seconds" "$@"; exec "$REAL" "$@"'
    return replaced_program(host, "date", words)


@contextlib.contextmanager
def missing_program(host: GpuHost, program: str = "rsync") -> Iterator[None]:
    """A program is not installed."""
    path = host.run(f"command -v {program}").stdout.strip()
    host.run(f"mv {path} {path}.away")
    try:
        yield
    finally:
        host.run(f"mv {path}.away {path}")


@contextlib.contextmanager
def hanging_sshd(host: GpuHost) -> Iterator[None]:
    """sshd takes connections, and says nothing."""
    pid = host.run("ps -o pid=,args= -e | awk '/sshd: .*\\[listener\\]/ {print $1}'").stdout.strip()
    host.run(f"kill -STOP {pid}")
    try:
        yield
    finally:
        host.run(f"kill -CONT {pid}")


def hanging_program(host: GpuHost, program: str, seconds: int = 3600) -> contextlib.AbstractContextManager[None]:
    """A program begins, and does not end for long."""
    return replaced_program(host, program, f"exec sleep {seconds}")


# -- what they are made of -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _healed(host: GpuHost) -> Iterator[None]:
    try:
        yield
    finally:
        host.heal_gpus()


def _docker_that_says(host: GpuHost, command: str, change: str) -> contextlib.AbstractContextManager[None]:
    words = f'[ "$1" = {command} ] && {{ "$REAL" "$@" | sed -E {shlex.quote(change)}; exit; }}; exec "$REAL" "$@"'
    return replaced_program(host, "docker", words)


@contextlib.contextmanager
def _started(host: GpuHost, command: str) -> Iterator[int]:
    """A program of another user's that runs in the host during the block; its process id there."""
    mark = f"/tmp/bed-started-{time.monotonic_ns()}"
    script = f"echo $$ > {mark}; exec setpriv --reuid 65534 --clear-groups {command}"
    host.engine.docker("exec", "--detach", host.container, "sh", "-c", script)
    wait_until(lambda: host.run(f"[ -s {mark} ]", check=False).returncode == 0, f"{command} does not start")
    pid = int(host.run(f"cat {mark}").stdout)
    try:
        yield pid
    finally:
        host.run(f"kill -KILL {pid}; rm -f {mark}", check=False)


@contextlib.contextmanager
def _mounted(host: GpuHost, place: str, fill: str) -> Iterator[None]:
    """Other files stand in a directory of the kernel's."""
    host.run(f"mount -t tmpfs tmpfs {place} && cd {place} && {fill}")
    try:
        yield
    finally:
        host.run(f"umount {place}")
