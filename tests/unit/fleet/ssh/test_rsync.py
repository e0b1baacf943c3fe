"""rsync command lines: same login as all connections, no partial files."""

from __future__ import annotations

import fcntl
from pathlib import Path

import fake_ssh_host
import pytest
from fake_ssh_host import FakeHost
from fleet_doubles import host

from fleet.errors import FleetError, HostFailedError
from fleet.ssh import rsync

pytestmark = pytest.mark.needs("rsync", "ssh")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host that rsync reaches through a stand-in for ssh."""
    made = fake_ssh_host.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


def test_rsync_logs_in_as_the_connections_do(there: FakeHost, tmp_path: Path) -> None:
    rsync.run(host(port=2222), rsync.compare_command(host(), tmp_path, ".voxyard/x"))
    said = there.asked("ssh")
    assert said[0] == "-F"
    assert said[2:8] == ["-p", "2222", "-l", "voxyard", "-l", "voxyard"]
    assert not Path(said[1]).exists(), "its files are there no longer than it runs"


def test_a_directory_is_pushed_whole_by_contents_and_replaces_what_was_there(there: FakeHost, tmp_path: Path) -> None:
    source = tmp_path / "a corpus; $(id)"
    (source / "wavs").mkdir(parents=True)
    (source / "wavs" / "it's 1.wav").write_bytes(b"sound")
    (source / "metadata.csv").write_text("1|one|one\n")
    (there.place / "x" / "old").mkdir(parents=True)
    (there.place / "x" / "old" / "gone.wav").write_bytes(b"")
    for _ in range(2):
        rsync.run(host(), rsync.push_command(host(), source, ".voxyard/x/old", link_to=None, lock=".voxyard/x/lock"))
    written = {str(path.relative_to(there.place / "x/old")) for path in (there.place / "x/old").rglob("*")}
    assert written == {"wavs", "wavs/it's 1.wav", "metadata.csv"}
    assert (there.place / "x/old/wavs").stat().st_mode & 0o777 == 0o755, "a container reads it, as another user"
    assert (there.place / "x/old/metadata.csv").stat().st_mode & 0o777 == 0o644


def test_contents_are_compared_though_size_and_time_are_the_same(there: FakeHost, tmp_path: Path) -> None:
    source, target = tmp_path / "here", there.place / "there"
    for folder, text in ((source, "good"), (target, "evil")):
        folder.mkdir(parents=True)
        (folder / "metadata.csv").write_text(text)
    differs = rsync.run(host(), rsync.compare_command(host(), source, ".voxyard/there"))
    assert "metadata.csv" in differs.out
    assert (target / "metadata.csv").read_text() == "evil"
    (target / "metadata.csv").write_text("good")
    assert rsync.run(host(), rsync.compare_command(host(), source, ".voxyard/there")).out == ""


def test_two_do_not_send_to_one_place_at_a_time(there: FakeHost, tmp_path: Path) -> None:
    there.place.mkdir()
    (tmp_path / "here").mkdir()
    with (there.place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = rsync.push_command(host(), tmp_path / "here", ".voxyard/x", link_to=None, lock=".voxyard/lock")
        with pytest.raises(HostFailedError, match="another transfer"):
            rsync.run(host(), command)


def test_a_pull_keeps_links_and_leaves_out_what_is_not_wanted(there: FakeHost, tmp_path: Path) -> None:
    run = there.place / "run"
    (run / "step-00000004").mkdir(parents=True)
    (run / "step-00000004" / "meta.json").write_text("{}")
    (run / ".lock").write_text("1")
    (run / "best").symlink_to("step-00000004")
    rsync.run(host(), rsync.pull_command(host(), ".voxyard/run", tmp_path / "out", exclude=[".lock"]))
    assert (tmp_path / "out/best").readlink() == Path("step-00000004")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["best", "step-00000004"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Host key verification failed.", "host key is unknown"),
        ("ssh: connect to host 192.0.2.11 port 22: Connection timed out", "it continues where it stopped"),
        (
            "protocol version mismatch -- is your shell clean?",
            "print nothing without a terminal",
        ),  # rust-lang/rustup#498
        ("sh: 1: rsync: not found", "apt-get install rsync"),
        ("flock: failed to execute rsync: No such file or directory", "apt-get install rsync"),
        ("sh: 1: flock: not found", "apt-get install util-linux"),
    ],
)
def test_why_it_failed_is_reported(there: FakeHost, tmp_path: Path, said: str, expected: str) -> None:
    there.refuse(said)
    with pytest.raises(HostFailedError, match=expected):
        rsync.run(host(), rsync.compare_command(host(), tmp_path, ".voxyard/x"))


def test_no_rsync_here_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match="not installed on this machine"):
        rsync.run(host(), rsync.compare_command(host(), tmp_path, ".voxyard/x"))
