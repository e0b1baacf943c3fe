"""Slurm cluster of this machine: munged, slurmctld and two slurmd as processes, with GPUs that are only counted."""

from __future__ import annotations

import os
import pwd
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventually import eventually
from free_ports import free_port

NODES = ("n1", "n2")
GPUS = 2  # per node
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=120
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
PartitionName=low Nodes={nodes} Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=high Nodes={nodes} PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """Running cluster; its commands need `environment`."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: object) -> str:
        """Output of a command of Slurm. Raises CalledProcessError."""
        words = [str(word) for word in command]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, *arguments: object) -> str:
        """Job id of a submitted script."""
        return self.run("sbatch", "--parsable", *arguments)

    def state(self, job: str) -> str:
        """State of a job, such as RUNNING."""
        shown = self.run("scontrol", "show", "job", job)
        return shown.partition("JobState=")[2].split()[0]

    def logs(self) -> str:
        """Output of the daemons."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))


@contextmanager
def started(folder: Path) -> Iterator[SlurmCluster]:
    """Cluster with its files in `folder`, a short path: sockets lie there. Its daemons end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    controller, *ports = (free_port() for _ in range(1 + len(NODES)))
    text = _CONFIGURATION.format(
        host=host, controller=controller, user=pwd.getpwuid(os.getuid()).pw_name, folder=folder, nodes=",".join(NODES)
    )
    for node, port in zip(NODES, ports, strict=True):
        text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 Gres=gpu:{GPUS}\n"
    (folder / "slurm.conf").write_text(text)
    devices = ("/dev/zero", "/dev/full")  # a GPU of Slurm is a device file; these are on every machine
    (folder / "gres.conf").write_text("".join(f"NodeName={','.join(NODES)} Name=gpu File={each}\n" for each in devices))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    cluster = SlurmCluster(folder, os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path})
    munge = [f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("key-file", "pid-file", "seed-file")]
    with ExitStack() as stack:
        stack.enter_context(
            _process(cluster, "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
        )
        eventually((folder / "munge.socket").exists, cluster.logs)
        stack.enter_context(_process(cluster, "slurmctld", "-D", "-i"))
        for node in NODES:
            stack.enter_context(_process(cluster, "slurmd", "-D", "-N", node, name=node))
        eventually(lambda: _idle(cluster) == len(NODES), cluster.logs)
        yield cluster


@contextmanager
def _process(cluster: SlurmCluster, *command: str, name: str = "") -> Iterator[None]:
    with (cluster.folder / f"{command[0]}{name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=cluster.environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _idle(cluster: SlurmCluster) -> int:
    done = subprocess.run(
        ["sinfo", "-h", "-p", "low", "-N", "-o", "%T"], env=cluster.environment, capture_output=True, text=True
    )
    return done.stdout.split().count("idle")
