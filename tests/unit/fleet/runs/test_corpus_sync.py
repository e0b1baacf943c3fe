"""Corpus sync: named by content, atomic, never changed under an active run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import fake_ssh_host
import pytest
from fake_ssh_host import FakeHost
from fleet_doubles import host

from fleet.errors import FleetError, HostFailedError
from fleet.runs.corpus_sync import RunInput, kind_of, read_input, send
from fleet.ssh import rsync


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = fake_ssh_host.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two recordings."""
    folder = tmp_path / "My Corpus"
    (folder / "wavs").mkdir(parents=True)
    (folder / "metadata.csv").write_text("a|one|one\nb|two|two\n")
    for name in "ab":
        (folder / "wavs" / f"{name}.wav").write_bytes(os.urandom(1000))
    return folder


def sent(there: FakeHost, folder: Path, *, busy: str | None = None) -> bool:
    return send(there.session(), host(), folder, read_input(folder), lambda: busy)


def place(there: FakeHost, content: RunInput) -> Path:
    return there.place / "corpora" / content.place / "source"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_content_has_the_same_id_wherever_and_whenever_it_lies(corpus: Path, tmp_path: Path) -> None:
    first = read_input(corpus)
    assert (first.name, first.kind, first.files) == ("My-Corpus", "recordings", 3)
    copy = tmp_path / "elsewhere" / "My Corpus"
    shutil.copytree(corpus, copy)
    os.utime(copy / "metadata.csv", (1, 1))
    assert read_input(copy) == first


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_another_content_has_another_id(corpus: Path, change: str) -> None:
    before = read_input(corpus).id
    if change == "content":
        (corpus / "wavs/a.wav").write_bytes(bytes(1000))
    elif change == "name":
        (corpus / "wavs/a.wav").rename(corpus / "wavs/c.wav")
    else:
        (corpus / "wavs/c.wav").touch()
    assert read_input(corpus).id != before


@pytest.mark.needs("rsync", "ssh")
def test_a_corpus_is_sent_once_and_is_there_whole(there: FakeHost, corpus: Path) -> None:
    content = read_input(corpus)
    assert sent(there, corpus) is True
    assert files(place(there, content)) == files(corpus)
    assert sent(there, corpus) is False
    left = {path.name for path in (there.place / "corpora/My-Corpus").iterdir()}
    assert left == {content.id, f".{content.id}.lock"}


@pytest.mark.needs("rsync", "ssh")
def test_links_are_sent_as_what_they_name(there: FakeHost, corpus: Path, tmp_path: Path) -> None:
    (corpus / "wavs").rename(tmp_path / "big disk")
    (corpus / "wavs").symlink_to(tmp_path / "big disk")
    sent(there, corpus)
    assert not (place(there, read_input(corpus)) / "wavs").is_symlink()
    assert (place(there, read_input(corpus)) / "wavs/a.wav").is_file()


@pytest.mark.needs("rsync", "ssh")
def test_a_cut_leaves_nothing_half_and_the_next_try_ends_right(
    there: FakeHost, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = read_input(corpus)
    real = rsync.run

    def cut(host_: object, command: list[str], **more: object) -> rsync.RsyncResult:
        if "--delay-updates" in command:
            there.refuse("Connection reset by peer")
        return real(host_, command, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(rsync, "run", cut)
        with pytest.raises(HostFailedError, match="it continues where it stopped"):
            sent(there, corpus)
    assert not place(there, content).exists()
    (there.folder / "refuse").unlink()
    # What a cut in mid-transfer leaves: some files, one of them half.
    partial = there.place / "corpora/My-Corpus" / f".{content.id}.partial"
    (partial / "wavs/.rsync-partial").mkdir(parents=True)
    (partial / "wavs/.rsync-partial/a.wav").write_bytes(b"half")
    (partial / "wavs/b.wav").write_bytes(b"wrong")
    assert sent(there, corpus) is True
    assert files(place(there, content)) == files(corpus)


@pytest.mark.needs("rsync", "ssh")
def test_a_corpus_that_was_changed_on_the_host_is_put_right_but_not_under_a_run(there: FakeHost, corpus: Path) -> None:
    sent(there, corpus)
    content = read_input(corpus)
    damaged = place(there, content) / "wavs/a.wav"
    damaged.write_bytes(bytes(1000))
    shards = place(there, content).parent / "shards-01234567"
    shards.mkdir()
    with pytest.raises(HostFailedError, match=r"wavs/a\.wav.*the run demo-1 reads it"):
        sent(there, corpus, busy="demo-1")
    assert damaged.read_bytes() == bytes(1000)
    assert sent(there, corpus) is True
    assert files(place(there, content)) == files(corpus)
    assert not shards.exists()  # they were made of what was changed


@pytest.mark.needs("rsync", "ssh")
def test_shards_that_a_container_wrote_are_removed_by_a_container(there: FakeHost, corpus: Path) -> None:
    sent(there, corpus)
    folder = place(there, read_input(corpus)).parent
    (folder / "source/wavs/a.wav").write_bytes(bytes(1000))
    (there.folder / "bin/rm").write_text('#!/bin/sh\ncase "$*" in *shards*) exit 1;; esac\nexec /bin/rm "$@"\n')
    (there.folder / "bin/rm").chmod(0o755)
    there.answers("image", "echo other 1; echo registry.example/speech/voxyard-trainer 2")
    assert sent(there, corpus) is True
    (ran,) = [line for line in there.asked("docker") if line.startswith("run ")]
    assert "--user 0:0 --cap-drop ALL" in ran
    assert ran.endswith(f"--volume {folder}:/corpus --entrypoint sh 2 -c rm -rf /corpus/shards-*")


@pytest.mark.needs("rsync", "ssh")
def test_a_new_version_lies_beside_the_old_one_and_shares_its_files(there: FakeHost, corpus: Path) -> None:
    old = read_input(corpus)
    sent(there, corpus, busy="demo-1")
    (corpus / "metadata.csv").write_text("a|one|one\n")
    assert sent(there, corpus, busy="demo-1") is True  # nobody reads this one yet
    new = read_input(corpus)
    assert (place(there, old) / "metadata.csv").read_text() == "a|one|one\nb|two|two\n"
    shared = [(place(there, each) / "wavs/a.wav").stat().st_ino for each in (old, new)]
    assert shared[0] == shared[1]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["metadata.csv"], "recordings"),
        (["metadata_train.csv"], "recordings"),
        (["index.json", "pcm-00000.bin"], "shards"),
        (["step-00000004/meta.json"], "checkpoint"),
        (["meta.json", "state.safetensors"], "checkpoint"),
    ],
)
def test_what_lies_in_a_directory_is_known(tmp_path: Path, names: list[str], kind: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert kind_of(tmp_path) == kind


def test_what_no_run_can_read_is_refused(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(FleetError, match="does not exist"):
        read_input(tmp_path / "nowhere")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/readme.txt").touch()
    with pytest.raises(FleetError, match=r"metadata\.csv.*it holds readme\.txt"):
        read_input(tmp_path / "notes")
    (corpus / "wavs/c.wav").symlink_to("/nowhere/at/all")
    with pytest.raises(FleetError, match=r"c\.wav is not a file or a dangling link"):
        read_input(corpus)


def test_a_pipe_in_a_corpus_is_refused_instead_of_waited_for(corpus: Path) -> None:
    subprocess.run(["mkfifo", str(corpus / "wavs/c.wav")], check=True)
    with pytest.raises(FleetError, match="is not a file"):
        read_input(corpus)
