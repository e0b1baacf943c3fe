"""The commands that tell what a host has: gpus, topology, limits, and `train --auto` on them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cards import card, nvidia_smi
from command_line import Command
from fake_driver import FakeDriver

import voxyard.host.nvml
import voxyard.trainer.devices.auto_settings
from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu

TESTS = Path(__file__).parents[2]
CAPTURES = TESTS / "captures/topo"

sys.path.insert(0, str(TESTS / "nvml"))

LEAVES_ROOM = "it leaves room for larger models and longer clips; --profile source takes the other"
MATRIX = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tSYS\tPIX\nGPU1\tSYS\tX\tSYS\nGPU2\tPIX\tSYS\tX\n"
P2P = MATRIX.replace("SYS", "OK").replace("PIX", "OK")


@pytest.fixture
def voxyard_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """`voxyard …` in this process, on a host without NVIDIA's programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(voxyard.host.nvml, "every_gpu", lambda: ())
    monkeypatch.setattr(voxyard.trainer.devices.auto_settings, "every_gpu", lambda: ())
    return Command(capsys, monkeypatch)


def host_of(monkeypatch: pytest.MonkeyPatch, *cards: Gpu) -> None:
    instances = [each for each in cards if each.mig_instance is not None]
    with_instances = {each.index for each in instances}
    gpus = [each for each in cards if each.mig_instance is None]
    devices = [each for each in cards if each.mig_instance is not None or each.index not in with_instances]
    monkeypatch.setattr(voxyard.host.nvml, "every_gpu", lambda: tuple(gpus))
    monkeypatch.setattr(voxyard.host.nvml, "every_device", lambda: tuple(devices))


# -- gpus ----------------------------------------------------------------------------------------------------


def test_gpus_are_listed_with_name_memory_and_state(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Gpu(2, "", "unknown", "", None, None, None, problem="GPU is lost")
    host_of(monkeypatch, card(0), card(1, mig=True), lost)
    ended = voxyard_command("gpus")
    assert (ended.code, ended.err) == (0, "")
    heading, *rows = ended.out.splitlines()
    assert heading.split() == ["index", "name", "memory", "free", "state", "UUID"]
    assert rows[0].split("  ")[0] == "0"
    assert [word in rows[0] for word in ("NVIDIA A10", "24564 MiB", "24000 MiB", "ok", "GPU-0")] == [True] * 5
    assert "MIG" in rows[1]
    assert "GPU is lost" in rows[2]


def test_mig_instances_are_listed_below_their_gpu(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `--gpus` takes."""
    small = [
        card(1, total, mig_instance=number, mig_gpu="GPU-1", problem=problem)
        for number, total, problem in ((0, 10240, None), (2, 20480, "does not say its UUID"))
    ]
    named = [replace(each, uuid=f"MIG-{each.mig_instance}", name="NVIDIA H100 MIG 1g.10gb") for each in small]
    host_of(monkeypatch, card(0), card(1, mig=True), *named, card(2, mig=True))

    _, *rows = voxyard_command("gpus").out.splitlines()
    gpus = voxyard_command("gpus", "--json").json["gpus"]

    assert [row.split()[0] for row in rows] == ["0", "1", "1:0", "1:2", "2"]
    assert " ".join(rows[2].split()) == "1:0 NVIDIA H100 MIG 1g.10gb 10240 MiB 9676 MiB ok MIG-0"
    assert "does not say its UUID" in rows[3]
    assert "mig_instances" not in gpus[0]
    assert gpus[1]["mig_instances"][0] == {
        "number": "1:0",
        "uuid": "MIG-0",
        "name": "NVIDIA H100 MIG 1g.10gb",
        "memory_total_mib": 10240,
        "memory_free_mib": 9676,
        "state": "ok",
    }
    assert gpus[1]["mig_instances"][1]["state"] == "does not say its UUID"
    assert (gpus[2]["state"], gpus[2]["mig_instances"]) == ("MIG", [])


def test_gpus_as_json_leave_out_what_is_not_reported(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    host_of(monkeypatch, card(0, display_active=True), card(1, None, None, problem="GPU is lost"))
    first, second = voxyard_command("gpus", "--json").json["gpus"]
    assert first == {
        "index": 0,
        "uuid": "GPU-0",
        "name": "NVIDIA A10",
        "pci_bus_id": "00000000:01:00.0",
        "memory_total_mib": 24564,
        "memory_free_mib": 24000,
        "compute_capability": "8.6",
        "display_active": True,
        "state": "ok",
    }
    assert "memory_total_mib" not in second
    assert second["state"] == "GPU is lost"


def test_a_gpu_is_taken_out_of_work_and_returned_by_hand(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host_of(monkeypatch, card(0), card(1))
    assert "name it with VOXYARD_OUT_OF_WORK" in voxyard_command("gpus", "--take-out", "1").err
    monkeypatch.setenv("VOXYARD_OUT_OF_WORK", str(tmp_path / "out_of_work.json"))

    assert voxyard_command("gpus", "--take-out", "1").out.startswith("GPU 1 (GPU-1) is out of work")
    states = [each["state"] for each in voxyard_command("gpus", "--json").json["gpus"]]
    assert states == ["ok", "out of work: its operator took it out"]
    assert "there is no GPU 7" in voxyard_command("gpus", "--take-out", "7").err
    assert "GPU 0 is not marked as sick: 1 (GPU-1)" in voxyard_command("gpus", "--return", "0").err

    assert voxyard_command("gpus", "--return", "GPU-1").out == "GPU 1 (GPU-1) may work again\n"
    assert [each["state"] for each in voxyard_command("gpus", "--json").json["gpus"]] == ["ok", "ok"]


def test_a_host_without_gpus_lists_none(voxyard_command: Command) -> None:
    ended = voxyard_command("gpus")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("voxyard gpus: no NVIDIA GPU was found")
    assert voxyard_command("gpus", "--json").json == {"gpus": []}


@pytest.mark.parametrize("command", ["gpus", "limits"])
def test_a_driver_that_fails_is_a_sentence(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def broken() -> tuple[Gpu, ...]:
        raise HostError("NVIDIA's library does not work")

    monkeypatch.setattr(voxyard.host.nvml, "every_gpu", broken)
    ended = voxyard_command(command)
    assert (ended.code, ended.out, ended.err) == (2, "", f"voxyard {command}: NVIDIA's library does not work\n")


# -- topology ------------------------------------------------------------------------------------------------


def test_topology_as_json_is_gpus_links_and_pair(voxyard_command: Command) -> None:
    ended = voxyard_command("topology", "--json", "--from", "-", stdin=MATRIX.encode())
    assert (ended.code, ended.err) == (0, "")
    reason = ended.json["pair"]["reason"]
    assert ended.json == {
        "gpus": ["GPU0", "GPU1", "GPU2"],
        "links": {
            "GPU0": {"GPU1": "SYS", "GPU2": "PIX"},
            "GPU1": {"GPU0": "SYS", "GPU2": "SYS"},
            "GPU2": {"GPU0": "PIX", "GPU1": "SYS"},
        },
        "pair": {"data_gpu": 0, "model_gpu": 2, "link": "PIX", "reason": reason},
    }
    assert "best link of 3 pairs, PIX" in reason


def test_topology_for_people_has_matrix_links_pair_and_reason(voxyard_command: Command, tmp_path: Path) -> None:
    """Read from the program."""
    nvidia_smi(tmp_path, matrix=MATRIX, p2p=P2P)
    ended = voxyard_command("topology")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["GPU0", "GPU1", "GPU2", "CPUs", "NUMA"]
    assert lines[1].split() == ["GPU0", "X", "SYS", "PIX", "-", "-"]
    ranked = [line.split() for line in lines if line.startswith("  ")][-3:]
    assert ranked == [["PIX", "GPU0", "GPU2"], ["SYS", "GPU0", "GPU1"], ["SYS", "GPU1", "GPU2"]]
    assert "Pair: data GPU 0, model GPU 2, PIX." in lines
    assert lines[-1] == "Why: GPU0 and GPU2 have the best link of 3 pairs, PIX (over one PCIe bridge)."


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_link_worse_than_phb_warns(voxyard_command: Command, options: list[str]) -> None:
    text = MATRIX.replace("PIX", "NODE").encode()
    ended = voxyard_command("topology", "--from", "-", *options, stdin=text)
    assert ended.code == 0
    assert ended.err == (
        "WARNING: the link between GPU0 and GPU2 is NODE (between host bridges of one NUMA node), worse than PHB: "
        "no better pair exists on this host\n"
    )


def test_one_gpu_has_no_pair_and_says_why(voxyard_command: Command) -> None:
    ended = voxyard_command("topology", "--from", str(CAPTURES / "single_l40s_linux_ansi.txt"))
    assert ended.out.endswith("\nNo pair: a pair needs two GPUs, and this host has one.\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "nothing to read"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "binary data"),
        (b"total 8\ndrwxr-xr-x 2 root root\n", "no header with GPU0"),
        (MATRIX[:-10].encode(), "the row of GPU2"),
        (MATRIX.replace("PIX", "NS").encode(), "another table of nvidia-smi's"),
        (b"\tGPU0\n" * 800_000, "are no output of"),
    ],
)
def test_what_is_no_topology_is_exit_1_and_one_sentence(voxyard_command: Command, text: bytes, says: str) -> None:
    ended = voxyard_command("topology", "--from", "-", "--json", stdin=text)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("voxyard topology: ")
    assert says in ended.err
    assert ended.err.count("\n") == 1


def test_a_missing_program_or_file_is_exit_2_and_a_failing_program_exit_1(
    voxyard_command: Command, tmp_path: Path
) -> None:
    missing = voxyard_command("topology")
    assert (missing.code, missing.out) == (2, "")
    assert "there is no such program here" in missing.err
    assert voxyard_command("topology", "--from", str(tmp_path / "nothing")).code == 2
    assert voxyard_command("topology", "--from", str(tmp_path)).code == 2
    nvidia_smi(tmp_path, matrix="", p2p=P2P)
    failing = voxyard_command("topology")
    assert (failing.code, failing.out) == (1, "")
    assert "`nvidia-smi topo -m` failed and said: No devices were found" in failing.err


# -- limits --------------------------------------------------------------------------------------------------


def test_limits_of_this_host_as_json(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All that a host's plan needs."""
    nvidia_smi(tmp_path, matrix=MATRIX, p2p=P2P)
    host_of(monkeypatch, card(0, 12288, 12000), card(1), card(2))
    ended = voxyard_command("limits", "--json")
    assert (ended.code, ended.err) == (0, "")
    reason = ended.json["reason"]
    assert ended.json == {
        "mode": "split",
        "policy": "recommended",
        "data": {
            "index": 0, "uuid": "GPU-0", "name": "NVIDIA A10", "memory_total_mib": 12288, "memory_free_mib": 12000,
            "limit_mib": 4096, "bark_mib": 0,
        },
        "model": {
            "index": 2, "uuid": "GPU-2", "name": "NVIDIA A10", "memory_total_mib": 24564, "memory_free_mib": 24000,
            "limit_mib": 16384, "bark_mib": 0,
        },
        "batch_size": 16,
        "ring_slots": 3,
        "buffer_size": 50,
        "link": "PIX",
        "reason": reason,
        "choices": [
            {"setting": setting, "taken": taken, "memory_matrix": taken, "quick_start": other, "why": LEAVES_ROOM}
            for setting, taken, other in (("batch", 16, 48), ("buffer", 50, 100))
        ],
        "notes": [],
    }  # fmt: skip
    assert "GPU2 trains because it has more memory" in reason


def test_policy_ids_and_bark_are_taken_from_the_flags(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvidia_smi(tmp_path, matrix=MATRIX, p2p=P2P)
    host_of(monkeypatch, card(0), card(1), card(2))
    full = voxyard_command("limits", "--policy", "full", "--data-gpu", "1", "--model-gpu", "GPU-0", "--json")
    assert (full.json["data"]["limit_mib"], full.json["model"]["index"]) == (22976, 0)
    assert full.json["notes"] == [full.err.removeprefix("WARNING: ").strip()]
    assert full.json["notes"][0].endswith("GPU0 and GPU2 are a better pair, with PIX")
    shared = voxyard_command("limits", "--share-with-bark", "large", "--data-gpu", "0", "--model-gpu", "2", "--json")
    assert shared.json["model"]["limit_mib"] == 24000 - 1024 - 7988
    assert shared.json["model"]["bark_mib"] == 7988


def test_the_profile_source_takes_the_larger_table_and_says_how_to_train_with_it(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_of(monkeypatch, card(0))
    ended = voxyard_command("limits", "--profile", "source")
    assert "batch       48 clips" in ended.out
    assert "choice      batch 48 (memory matrix 16, quick start 48): as asked" in ended.out
    assert "voxyard train --auto --batch-size 48 --buffer-size 100" in ended.out
    assert "changes nothing" not in ended.err


def test_a_profile_that_changes_nothing_says_so(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    host_of(monkeypatch, card(0, 8192, 8000))
    ended = voxyard_command("limits", "--profile", "source")
    assert "batch       8 clips" in ended.out
    assert (
        "choice      batch 8 (memory matrix 8, quick start 16): the memory matrix gives 8 to a card of 12 GB"
        in ended.out
    )
    assert "--profile source changes nothing here" in ended.err


def test_limits_for_people_say_what_and_why(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host_of(monkeypatch, card(0), card(1))
    ended = voxyard_command("limits", "--share-with-bark", "2000")
    assert ended.code == 0
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[1][:2] == ["data", "0"]
    assert lines[2][:2] == ["model", "1"]
    assert ["batch", "16", "clips"] in lines
    assert ["ring", "3", "slots"] in lines
    assert ["buffer", "50", "batches"] in lines
    assert ["for", "Bark", "2000", "MiB", "on", "each", "GPU"] in lines
    assert "WARNING: the links between the GPUs were not used: `nvidia-smi topo -m` could not be run" in ended.err


def test_one_gpu_is_limited_in_single_mode(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    host_of(monkeypatch, card(0))
    ended = voxyard_command("limits", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (ended.json["mode"], ended.json["data"], ended.json["link"]) == ("single", None, None)


@pytest.mark.parametrize(
    ("cards", "options", "says"),
    [
        ([], [], "no NVIDIA GPU was found"),
        ([card(0, mig=True)], [], "GPU0 (MIG is on"),
        ([card(0), card(1)], ["--model-gpu", "5"], "GPU 5 is not on this host"),
        ([card(0, free=900)], [], "has only 900 of 24564 MiB free"),
        ([card(0)], ["--share-with-bark", "huge"], "'huge' is no Bark model"),
        ([card(0)], ["--policy", "most"], "'most' is not one of"),
    ],
)
def test_limits_that_cannot_be_given_are_exit_2(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, cards: list[Gpu], options: list[str], says: str
) -> None:
    host_of(monkeypatch, *cards)
    ended = voxyard_command("limits", *options)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


# -- train --auto --------------------------------------------------------------------------------------------


def test_auto_without_a_gpu_is_refused_before_anything_is_read(voxyard_command: Command) -> None:
    ended = voxyard_command("train", "--auto", "--train-data", "/nowhere")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("voxyard train: --auto takes its settings from GPUs: no NVIDIA GPU was found")


# -- on NVIDIA's library -------------------------------------------------------------------------------------


def test_gpus_and_limits_come_from_nvidias_library(driver: FakeDriver, tmp_path: Path) -> None:
    """Through the real nvidia-ml-py."""
    nvidia_smi(tmp_path, matrix="\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n", p2p=P2P)
    environment = driver.environment(
        [driver.gpu("17:00.0", total="12288", free="12000"), driver.gpu("65:00.0")], PATH=str(tmp_path)
    )

    def answer(command: str) -> Any:
        line = [sys.executable, "-m", "voxyard", command, "--json"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert [gpu["memory_total_mib"] for gpu in answer("gpus")["gpus"]] == [12288, 24564]
    limits = answer("limits")
    assert (limits["data"]["index"], limits["data"]["limit_mib"]) == (0, 4096)
    assert (limits["model"]["index"], limits["model"]["limit_mib"], limits["link"]) == (1, 16384, "PHB")
