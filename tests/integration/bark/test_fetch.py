"""Fetching a model from a hub that misbehaves, and from a directory: whole and verified, or not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from eventually import PATIENCE
from model_hub import COMMIT, ModelHub, files_of, serving
from safetensors.torch import load_file
from syncs import watch_syncs

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import checksums
from voxyard.bark.weights.checkpoint import check
from voxyard.bark.weights.fetch import UNFINISHED, Fetched, fetch

ROOT = Path(__file__).resolve().parents[3]
BIG = "model.safetensors"
COMMAND = "from voxyard.cli.weights import weights; weights()"


@pytest.fixture
def hub(tiny_model: Path) -> Iterator[ModelHub]:
    """A hub with the tiny model."""
    with serving(ModelHub("someone/tiny-bark", files_of(tiny_model))) as running:
        yield running


def get(hub: ModelHub, out: Path, **more: Any) -> Fetched:
    return fetch("someone/tiny-bark", out, endpoint=hub.endpoint, pause=0.01, **more)


def same(directory: Path, model: Path) -> bool:
    """True where each file of the model is there, byte for byte."""
    return all((directory / each.name).read_bytes() == each.read_bytes() for each in model.iterdir())


def test_a_model_arrives_whole_with_its_checksums(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    fetched = get(hub, tmp_path / "out")

    assert same(tmp_path / "out", tiny_model)
    assert check(tmp_path / "out") == ()
    assert (fetched.revision, fetched.pickled) == (COMMIT, False)
    assert {each.name for each in (tmp_path / "out").iterdir()} == {each.name for each in tiny_model.iterdir()} | {
        "SHA256SUMS"
    }
    ended = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", check=False)
    assert ended.returncode == 0


def test_every_file_is_on_the_disk_before_it_has_its_name(
    hub: ModelHub, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = watch_syncs(monkeypatch)

    get(hub, tmp_path)

    unfinished = [path.name for path in synced if path.parent == tmp_path / UNFINISHED]
    for file in tiny_model.iterdir():
        assert [name for name in unfinished if name.startswith(f"{file.name}.")], file.name
    assert synced[-1] == tmp_path
    assert synced.count(tmp_path) == len(list(tiny_model.iterdir())) + 1  # SHA256SUMS is the last


def test_a_second_fetch_transfers_nothing(hub: ModelHub, tmp_path: Path) -> None:
    get(hub, tmp_path)
    hub.asked.clear()

    again = get(hub, tmp_path)

    assert again.transferred == 0
    assert [what for what, _ in hub.asked] == ["someone/tiny-bark"]


def test_a_connection_that_breaks_is_gone_on_with(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    hub.cuts = {BIG: [1_000_000, 0, 2_000_000]}

    fetched = get(hub, tmp_path)

    starts = [int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0 for asked in hub.ranges_of(BIG)]
    assert starts == sorted(starts)
    assert starts[0] == 0 < starts[-1]
    assert len(starts) == 4
    assert fetched.transferred < sum(file.size for file in fetched.files) + 3 * 2**20
    assert same(tmp_path, tiny_model)


def test_a_connection_that_is_refused_is_named_and_the_next_fetch_goes_on(
    hub: ModelHub, tiny_model: Path, tmp_path: Path
) -> None:
    endpoint, hub.endpoint = hub.endpoint, "http://127.0.0.1:9"  # where the hub sends for large files

    with pytest.raises(BarkError, match=rf"{BIG} of .*: .*refused; 0 of [\d,]+ bytes .*same command again to resume"):
        fetch(hub.name, tmp_path, endpoint=endpoint, pause=0.01)
    hub.endpoint = endpoint
    get(hub, tmp_path)

    assert same(tmp_path, tiny_model)


def test_a_server_without_ranges_is_read_from_the_beginning(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    hub.cuts, hub.ranges = {BIG: [3_000_000]}, False

    get(hub, tmp_path)

    assert same(tmp_path, tiny_model)


def test_a_server_that_is_busy_is_asked_again(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    hub.answers = {BIG: [503, 429], "config.json": [500]}

    get(hub, tmp_path)

    assert same(tmp_path, tiny_model)


def test_after_too_many_breaks_the_next_fetch_goes_on(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    hub.cuts = {BIG: [4_000_000, *[0] * 6]}

    with pytest.raises(BarkError, match=r"bytes are downloaded\. Run the same command again to resume"):
        get(hub, tmp_path)
    assert not (tmp_path / BIG).exists()
    assert not (tmp_path / "SHA256SUMS").exists()
    hub.asked.clear()
    fetched = get(hub, tmp_path)

    assert hub.ranges_of(BIG)[0] is not None
    assert fetched.transferred < len(hub.files[BIG])
    assert same(tmp_path, tiny_model)
    assert not (tmp_path / UNFINISHED).exists()


def test_what_was_begun_of_other_weights_is_not_continued(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    weights = hub.files[BIG]
    hub.files[BIG] = weights[::-1]
    hub.cuts = {BIG: [4_000_000, *[0] * 6]}
    with pytest.raises(BarkError, match="to resume"):
        get(hub, tmp_path)
    hub.files[BIG] = weights
    hub.asked.clear()

    get(hub, tmp_path)

    assert hub.ranges_of(BIG) == [None]
    assert same(tmp_path, tiny_model)


def test_a_killed_fetch_leaves_no_half_file_and_is_continued(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    halfway, go_on = threading.Event(), threading.Event()

    def stand_still(name: str) -> None:
        if name == BIG:
            halfway.set()
            go_on.wait(PATIENCE)

    hub.during, hub.cuts = stand_still, {BIG: [5_000_000]}
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "fetch", hub.name, "--out", str(tmp_path)],
        env={**os.environ, "HF_ENDPOINT": hub.endpoint},
        stderr=subprocess.DEVNULL,
    )
    assert halfway.wait(PATIENCE)
    while not any(each.stat().st_size for each in (tmp_path / UNFINISHED).glob(f"{BIG}.*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    go_on.set()
    names = {each.name for each in tmp_path.iterdir()}
    hub.during, hub.cuts = lambda _: None, {}
    hub.asked.clear()

    fetched = get(hub, tmp_path)

    assert hub.ranges_of(BIG) == ["bytes=1048576-"]
    assert "config.json" in names
    assert not names & {BIG, "SHA256SUMS"}
    assert fetched.transferred == len(hub.files[BIG]) - 2**20
    assert same(tmp_path, tiny_model)


@pytest.mark.parametrize(("name", "what"), [(BIG, "SHA-256"), ("vocab.txt", "git's checksum")])
def test_a_flipped_byte_is_thrown_away(hub: ModelHub, tiny_model: Path, tmp_path: Path, name: str, what: str) -> None:
    hub.flipped = {name}

    with pytest.raises(BarkError, match=rf"{name} of .* has the {what} \w+, expected \w+: it is deleted"):
        get(hub, tmp_path)
    assert not (tmp_path / name).exists()
    hub.flipped = set()
    get(hub, tmp_path)

    assert same(tmp_path, tiny_model)


def test_checksums_of_ones_own_are_compared_too(hub: ModelHub, tmp_path: Path) -> None:
    sums = tmp_path / "sums"
    sums.write_text(f"{hashlib.sha256(b'else').hexdigest()}  {BIG}\n")

    with pytest.raises(BarkError, match=rf"{BIG} of .* has the SHA-256 .*: nothing was downloaded"):
        get(hub, tmp_path / "out", expected=sums)

    sums.write_text(f"{hashlib.sha256(hub.files[BIG]).hexdigest()} *{BIG}\n{'0' * 64}  config.json\n")
    with pytest.raises(BarkError, match=r"config\.json of .* has the SHA-256 .*: it is deleted"):
        get(hub, tmp_path / "out", expected=sums)
    sums.write_text(f"{'0' * 64}  config.json\n")
    with pytest.raises(BarkError, match=f"do not list {BIG}"):
        get(hub, tmp_path / "out", expected=sums)
    assert not (tmp_path / "out" / BIG).exists()


def test_a_file_that_is_gone_is_named(hub: ModelHub, tmp_path: Path) -> None:
    hub.answers = {BIG: [404]}

    with pytest.raises(
        BarkError, match=f"{BIG} of someone/tiny-bark on .* cannot be downloaded: the server answers 404"
    ):
        get(hub, tmp_path)


def test_more_bytes_than_promised_are_refused(hub: ModelHub, tmp_path: Path) -> None:
    honest = hub.listing()
    hub.listing = lambda: honest  # type: ignore[method-assign]
    hub.files["vocab.txt"] += b"more"

    with pytest.raises(BarkError, match=r"vocab\.txt of .* is longer than"):
        get(hub, tmp_path)


def test_an_unknown_name_is_a_sentence(hub: ModelHub, tmp_path: Path) -> None:
    with pytest.raises(BarkError, match=r"there is no someone/else on .*; the published models are suno/bark and"):
        fetch("someone/else", tmp_path, endpoint=hub.endpoint)
    with pytest.raises(BarkError, match="there is no directory 'nowhere' and no such model: expected bark, bark-small"):
        fetch("nowhere", tmp_path, endpoint=hub.endpoint)


def test_an_unknown_revision_is_a_sentence(hub: ModelHub, tmp_path: Path) -> None:
    assert get(hub, tmp_path / "one", revision="main").revision == COMMIT

    with pytest.raises(BarkError, match="has no revision 'v9'"):
        get(hub, tmp_path / "two", revision="v9")


def test_published_names_are_short(hub: ModelHub, tmp_path: Path) -> None:
    hub.name = "suno/bark-small"

    assert fetch("bark-small", tmp_path, endpoint=hub.endpoint).source.startswith("suno/bark-small on ")


def test_a_hub_that_cannot_be_reached_is_a_sentence(hub: ModelHub, tmp_path: Path) -> None:
    with pytest.raises(BarkError, match=r"cannot be reached: .*Check the network"):
        fetch("suno/bark", tmp_path / "out", endpoint="http://127.0.0.1:9")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("status", "advice"),
    [(418, "try again later"), (401, "set HF_TOKEN"), (403, "set HF_TOKEN to a token that it takes")],
)
def test_a_hub_that_fails_is_a_sentence(hub: ModelHub, tmp_path: Path, status: int, advice: str) -> None:
    hub.answers = {"listing": [status]}

    with pytest.raises(BarkError, match=f"cannot be listed: the server answers {status}; {advice}"):
        get(hub, tmp_path)


def test_a_proxy_that_needs_a_package_is_a_sentence(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model_info(*_: object, **__: object) -> None:
        raise ImportError("Using SOCKS proxy, but the 'socksio' package is not installed.")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    with pytest.raises(BarkError, match=r"cannot be reached: Using SOCKS proxy, .* Or set another proxy"):
        get(hub, tmp_path)


def test_a_directory_around_the_model_is_told_where_it_is(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "snapshots/1f")

    with pytest.raises(BarkError, match=f"one in {tmp_path}/snapshots/1f: give that directory"):
        fetch(str(tmp_path), tmp_path / "out")


def test_pickles_are_left_where_there_is_something_else(hub: ModelHub, tmp_path: Path) -> None:
    hub.files["pytorch_model.bin"] = b"pickled"

    get(hub, tmp_path)

    assert not (tmp_path / "pytorch_model.bin").exists()


def test_pickles_are_taken_where_nothing_else_is(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    torch.save(load_file(tiny_model / BIG), tmp_path / "pytorch_model.bin")
    hub.files["pytorch_model.bin"] = (tmp_path / "pytorch_model.bin").read_bytes()
    del hub.files[BIG]

    fetched = get(hub, tmp_path / "out")

    assert fetched.pickled
    assert "pickles" in fetched.render()
    assert check(tmp_path / "out") == ()


def test_a_model_of_another_kind_is_refused_before_its_weights(hub: ModelHub, tmp_path: Path) -> None:
    hub.files["config.json"] = b'{"model_type": "gpt2"}'

    with pytest.raises(BarkError, match="is of the model type 'gpt2', expected 'bark'"):
        get(hub, tmp_path)

    assert hub.ranges_of(BIG) == []


def test_a_listing_without_a_model_is_refused(hub: ModelHub, tmp_path: Path) -> None:
    hub.files = {"README.md": b"# nothing", "config.json": b"{}"}

    with pytest.raises(BarkError, match=r"is no Bark model: it lacks generation_config\.json, a tokenizer .*, weights"):
        get(hub, tmp_path)


def test_another_model_in_the_directory_is_not_mixed_with_it(hub: ModelHub, tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"another")

    with pytest.raises(BarkError, match=r"pytorch_model\.bin belongs to another model, or was changed"):
        get(hub, tmp_path)

    assert [each.name for each in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_two_fetches_do_not_write_to_one_directory(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def another(name: str) -> None:
        if name == BIG:
            with pytest.raises(BarkError, match="another download is writing to") as refusal:
                get(hub, tmp_path)
            refused.append(str(refusal.value))

    hub.during = another
    get(hub, tmp_path)

    assert len(refused) == 1
    assert same(tmp_path, tiny_model)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for the model and little more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=28m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs a small file system, which only root may mount: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_too_small_is_noticed_before(hub: ModelHub, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(20 * 2**20))

    with pytest.raises(BarkError, match=r"has [\d.]+ MiB free, the model needs [\d.]+ MiB: free some"):
        get(hub, small_disk / "out")

    assert [what for what, _ in hub.asked] == ["someone/tiny-bark"]
    assert list((small_disk / "out").iterdir()) == []


def test_a_disk_that_fills_up_on_the_way_is_a_sentence_and_the_next_fetch_goes_on(
    hub: ModelHub, tiny_model: Path, small_disk: Path
) -> None:
    filler = small_disk / "other"

    def fill(name: str) -> None:
        if name == BIG:
            filler.write_bytes(bytes(20 * 2**20))

    hub.during = fill
    with pytest.raises(BarkError, match="no disk space left in"):
        get(hub, small_disk / "out")
    assert not (small_disk / "out" / BIG).exists()
    filler.unlink()
    hub.during = lambda _: None
    hub.asked.clear()
    get(hub, small_disk / "out")

    assert hub.ranges_of(BIG)[0] is not None
    assert same(small_disk / "out", tiny_model)


def test_a_directory_is_copied_and_verified(tiny_model: Path, tmp_path: Path) -> None:
    fetched = fetch(str(tiny_model), tmp_path / "out")

    assert same(tmp_path / "out", tiny_model)
    assert fetched.revision is None
    with pytest.raises(BarkError, match="has no revision 'main'"):
        fetch(str(tiny_model), tmp_path / "other", revision="main")


def test_a_directory_that_differs_from_its_own_checksums_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(tiny_model, tmp_path / "source"))
    checksums.write(source, {BIG: "0" * 64})

    with pytest.raises(BarkError, match=f"{BIG} of .* has the SHA-256"):
        fetch(str(source), tmp_path / "out")


def test_a_link_of_a_name_cannot_lead_out_of_the_directory(hub: ModelHub, tmp_path: Path) -> None:
    hub.files |= {"../model.safetensors": b"out", "sub/config.json": b"{}"}

    get(hub, tmp_path / "a" / "out")

    assert [each.name for each in (tmp_path / "a").iterdir()] == ["out"]
    assert not (tmp_path / "a" / "out" / "sub").exists()


def test_a_pod_fills_its_volume_from_the_hub_and_asks_it_once(hub: ModelHub, tiny_model: Path, tmp_path: Path) -> None:
    lists, volume = tmp_path / "lists", tmp_path / "volume"
    lists.mkdir()
    volume.mkdir()
    sums = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in tiny_model.iterdir()}
    (lists / "weights-0123").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    script = (ROOT / "deploy/kubernetes/artefacts.sh").read_text()
    script = script.replace("/var/lib/voxyard/artefacts", f"'{volume}'").replace(
        "/etc/voxyard/artefacts/", f"'{lists}'/"
    )
    settings = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HF_ENDPOINT": hub.endpoint,
        "WEIGHTS_FROM": hub.name, "NAMESPACE": "speech",
    }  # fmt: skip

    def run() -> str:
        return subprocess.run(
            ["bash", "-c", script], env=settings, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    assert "weights-0123 is complete" in run()
    assert same(volume / "weights-0123", tiny_model)
    asked = len(hub.asked)
    assert run() == ""
    assert len(hub.asked) == asked
