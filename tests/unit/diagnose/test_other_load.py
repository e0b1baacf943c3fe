"""Load of other programs during a measurement: how much, by whom, and when it counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from voxyard.diagnose import other_load
from voxyard.diagnose.other_load import OtherLoad, OtherLoadWatch, Program, busy_gpus

TICKS = os.sysconf("SC_CLK_TCK")
STAT = "{pid} (a ) name) S 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 77 0 0\n"  # proc_pid_stat(5)


class Kernel:
    """A /proc whose counters a test moves: one core, and programs by number."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.busy, self.idle, self.steal = folder, 0.0, 0.0, 0.0
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
        self.move(busy=0, idle=0)

    def move(self, *, busy: float, idle: float, steal: float = 0.0, **programs: float) -> None:
        """So many seconds later; `programs` are the seconds that each has worked since it began, as `name_pid`."""
        self.busy, self.idle, self.steal = self.busy + busy, self.idle + idle, self.steal + steal
        ticks = [round(each * TICKS) for each in (self.busy, 0, 0, self.idle, 0, 0, 0, self.steal, 0, 0)]
        lines = ("cpu 1 2 3", f"cpu0 {' '.join(map(str, ticks))}", f"cpu1{' 9' * 10}", "ctxt 5")
        (self.folder / "stat").write_text("\n".join(lines))
        for key, seconds in programs.items():
            name, _, pid = key.rpartition("_")
            flags = 0x00200000 if name.startswith("kworker") else 0
            (self.folder / pid).mkdir(exist_ok=True)
            (self.folder / pid / "stat").write_text(STAT.format(pid=pid, flags=flags, ticks=round(seconds * TICKS)))
            (self.folder / pid / "comm").write_text(f"{name}\n")

    def watched(self) -> OtherLoadWatch:
        """A watch over 100 seconds."""
        times = iter((0.0, 100.0))
        return OtherLoadWatch(self.folder, clock=lambda: next(times))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """At rest; a watch looks at it at its begin and its end."""
    monkeypatch.setattr(other_load, "SAMPLE_SECONDS", 60.0)
    return Kernel(tmp_path, monkeypatch)


def test_others_are_named_with_the_cores_that_they_took(kernel: Kernel) -> None:
    kernel.move(busy=10, idle=0, make_41=5, kworker_3=1, idler_43=1)
    with kernel.watched() as watch:
        kernel.move(busy=80, idle=0, make_41=5 + 20, cc1plus_42=60, kworker_3=9.0, idler_43=1.0)
    load = watch.load
    assert load.disturbs
    assert load.taken == pytest.approx(0.8, abs=0.02)  # but for what the watch itself has worked
    assert [(each.name, each.pid) for each in load.programs] == [("cc1plus", 42), ("make", 41)]
    assert load.sentence().startswith(
        "other programs took 0.8 of 1 cores while none was free (cc1plus, process 42: 0.6"
    )


def test_work_on_cores_that_are_free_disturbs_nobody(kernel: Kernel) -> None:
    with kernel.watched() as watch:
        kernel.move(busy=60, idle=40, make_41=60)
    assert watch.load.taken > 0
    assert watch.load.contended == 0
    assert not watch.load.disturbs
    assert watch.load.sentence() == ""


def test_time_that_the_hypervisor_takes_disturbs_and_has_no_name(kernel: Kernel) -> None:
    with kernel.watched() as watch:
        kernel.move(busy=0, idle=0, steal=100)
    assert "by programs that cannot be seen from here, or have ended" in watch.load.sentence()


def test_the_programs_own_work_is_nobody_elses(kernel: Kernel) -> None:
    with OtherLoadWatch(kernel.folder) as watch:
        before = time.process_time()
        while time.process_time() - before < 0.3:
            pass
        kernel.move(busy=0.3, idle=0)
    assert watch.load.contended < 0.1


@pytest.mark.slow
def test_a_program_that_takes_the_cores_is_seen_on_a_real_machine() -> None:
    """As many as there are cores, so that none is free."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(len(os.sched_getaffinity(0)) + 1)
    ]
    try:
        with OtherLoadWatch() as watch:
            time.sleep(5.0)
    finally:
        for each in loops:
            each.kill()
            each.wait()
    assert watch.load.disturbs
    assert watch.load.programs


def test_a_gpu_that_others_use_is_said_first_come_first() -> None:
    load = OtherLoad(
        cores=2, taken=1.2, contended=0.6, programs=(Program("make", 41, 0.9),), gpus=("GPU 0 was 63% busy before",)
    )
    assert load.sentence() == (
        "other programs took 1.2 of 2 cores while none was free (make, process 41: 0.9; "
        "and 0.3 cores in other or short-lived programs); GPU 0 was 63% busy before"
    )
    assert load.document()["unnamed"] == pytest.approx(0.3)
    assert OtherLoad(gpus=("GPU 0 was 63% busy before",)).disturbs


def test_a_run_on_cpus_has_no_gpus_to_look_at() -> None:
    assert busy_gpus(()) == ()
