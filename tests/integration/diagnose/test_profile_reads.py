"""A profile reads from the disk, as often as it is made, and advises nothing from what lies in memory."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from disks import on_disk
from runs import command, environment, write_tones

PAGE = resource.getpagesize()
READ_BLOCK = 512  # of ru_inblock


def profile(corpus: Path, *flags: Any, **variables: str) -> tuple[dict[str, Any], int]:
    """The document of a profile, and the bytes that its process read from a device."""
    own = ["--model-module", "slow_stages:make", "--batch-size", 4, "--buckets", 1, "--num-steps", 5, "--device", "cpu"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    done = subprocess.run(
        command("profile", "--json", "--train-data", corpus, *own, *flags), capture_output=True, text=True,
        timeout=280, check=False, env=environment(TF_CPP_MIN_LOG_LEVEL="2", **variables),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    read = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before
    return json.loads(done.stdout), read * READ_BLOCK


def test_a_profile_reads_from_the_disk_what_was_read_just_before(tmp_path: Path) -> None:
    """By the page cache before each look, and by what the process really read from the device."""
    with on_disk(tmp_path) as folder:
        corpus = write_tones(folder / "tones", 40)
        assert sum(len(path.read_bytes()) for path in corpus.glob("wavs/*")) > 0
        found, read = profile(corpus, "--num-workers", 2)
    assert {look["state"] for look in found["reads"]["looks"].values()} == {"cold"}, found["reads"]
    assert set(found["reads"]["looks"]) >= {"load alone", "overlapped"}
    assert read >= found["reads"]["looks"]["load alone"]["pages"] * PAGE


def test_a_corpus_in_memory_is_called_warm_and_gets_no_advice_for_its_disk() -> None:
    """Reading is the bottleneck, more threads would help, and still: nothing is known of a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        corpus = write_tones(Path(folder) / "tones", 40)
        found, _ = profile(corpus, "--num-workers", 1, SLOW_READ="0.02")
    assert found["verdict"]["bottleneck"] == "load"
    assert found["reads"]["state"] == "warm"
    assert "reads" in {each["rule"] for each in found["verdict"]["annotations"]}
    words = " ".join(line for each in found["recommendations"] for line in each["command"])
    assert not [flag for flag in ("--num-workers", "--cache", "corpus-shards", "tones-shards") if flag in words]
