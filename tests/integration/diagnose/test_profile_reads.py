"""A profile reads from the disk, as often as it is made, and advises nothing from what lies in memory."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from disks import on_disk, slow_reads
from runs import command, environment, write_tones

PAGE = resource.getpagesize()
READ_BLOCK = 512  # of ru_inblock


def profile(corpus: Path, *flags: Any, before: Sequence[str] = (), **variables: str) -> tuple[dict[str, Any], int]:
    """The document of a profile, and the bytes that its process read from a device."""
    own = ["--model-module", "slow_stages:make", "--batch-size", 4, "--buckets", 1, "--num-steps", 5, "--device", "cpu"]
    blocks = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    done = subprocess.run(
        [*before, *command("profile", "--json", "--train-data", corpus, *own, *flags)], capture_output=True, text=True,
        timeout=280, check=False, env=environment(TF_CPP_MIN_LOG_LEVEL="2", **variables),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    read = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - blocks
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


@pytest.mark.long
def test_a_second_profile_agrees_with_the_first_on_a_slow_disk(tmp_path: Path) -> None:
    """The second one once found the page cache: 24.8 ms a batch in place of 362."""
    with on_disk(tmp_path) as folder:
        corpus = write_tones(folder / "tones", 200)
        flags = ("--num-workers", 1, "--num-steps", 30)
        with slow_reads(folder, 2_000_000) as slowed:
            first, second = (profile(corpus, *flags, before=slowed)[0] for _ in range(2))
    times = [{each["stage"]: each["mean"] for each in found["stages"]}["load"] for found in (first, second)]
    assert times[1] == pytest.approx(times[0], rel=0.1), times
    assert second["verdict"]["bottleneck"] == first["verdict"]["bottleneck"] == "load"


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
