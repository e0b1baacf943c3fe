"""Shell commands on a real shell: results, also of interrupted ones."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_port
from gateway_certificate import new_authority
from release_doubles import packed, release
from tls_server import running_server

from fleet.rollout import host_state
from fleet.rollout.commands import sums
from fleet.rollout.host_state import http_problem
from fleet.rollout.restart import start
from fleet.rollout.transfer import secrets_archive
from fleet.ssh.command_batch import Answer, Command, host_verb
from fleet.ssh.verbs import Tls, http

RELEASE = release(9410)


def run(command: Command, home: Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(["sh", "-c", command.shell], env=environment, input=data, capture_output=True)


def good(command: Command, home: Path, data: bytes = b"") -> str:
    done = run(command, home, data)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def write(home: Path, name: str = RELEASE.id) -> Path:
    good(host_verb("release_write", name, sums(RELEASE.checksums)), home, RELEASE.archive())
    return home / ".voxyard/releases" / name


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}


def test_a_release_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    written = write(tmp_path)
    assert {path.name: path.read_bytes() for path in written.iterdir() if path.name != ".sha256"} == dict(RELEASE.files)
    assert set(modes(written).values()) == {"0o600"}
    assert modes(tmp_path) == {".voxyard": "0o700"}
    assert modes(written.parent) == {RELEASE.id: "0o700"}


def test_a_release_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    archive = RELEASE.archive()
    cut = run(host_verb("release_write", RELEASE.id, sums(RELEASE.checksums)), tmp_path, archive[:1100])
    assert cut.returncode != 0
    assert not (tmp_path / ".voxyard/releases" / RELEASE.id).exists()
    assert good(host_verb("release_sums", RELEASE.id), tmp_path) == ""
    write(tmp_path)
    assert [path.name for path in (tmp_path / ".voxyard/releases").iterdir()] == [RELEASE.id]


def test_a_release_that_was_tampered_with_is_found_and_written_anew(tmp_path: Path) -> None:
    written = write(tmp_path)
    assert good(host_state.CHANGED_FILES.command, tmp_path) == ""
    (written / "services.yaml").write_text("services: {x: {}}\n")
    (written / "voxyard.env").unlink()
    changed = good(host_state.CHANGED_FILES.command, tmp_path).split()
    assert sorted(changed) == [f"{RELEASE.id}/services.yaml", f"{RELEASE.id}/voxyard.env"]
    assert run(host_verb("release_whole", RELEASE.id), tmp_path).returncode == 1
    write(tmp_path)
    sums = good(host_verb("release_sums", RELEASE.id), tmp_path).split()
    assert dict(zip(sums[1::2], sums[::2], strict=True)) == RELEASE.checksums
    assert run(host_verb("release_whole", RELEASE.id), tmp_path).returncode == 0


def test_the_current_release_and_the_one_before_it_are_links_that_are_replaced_as_a_whole(tmp_path: Path) -> None:
    assert good(host_state.CURRENT.command, tmp_path) == ""
    before: str | None = None
    for name in ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "bbbbbbbbbbbb"):
        write(tmp_path, name)
        replaced = [before] if before is not None and before != name else []
        good(host_verb("release_publish", name, f'{{"release": "{name}"}}\n', *replaced), tmp_path)
        assert good(host_state.CURRENT.command, tmp_path) == f"releases/{name}\n"
        assert good(host_state.EXPECTED.command, tmp_path) == f'{{"release": "{name}"}}\n'
        before = name
    assert good(host_state.PREVIOUS.command, tmp_path) == "releases/aaaaaaaaaaaa\n"
    names = sorted(path.name for path in (tmp_path / ".voxyard").iterdir())
    assert names == ["current", "previous", "releases", "state"]
    assert modes(tmp_path / ".voxyard/state") == {"expected.json": "0o644"}


def test_a_secret_of_another_value_is_another_file_and_is_removed_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / ".voxyard/secrets"
    for name in ("key.1", "key.2", "it's"):
        good(host_verb("secrets_write"), tmp_path, secrets_archive({name: name.encode()}))
    assert {path.name: path.read_bytes().decode() for path in folder.iterdir()} == {
        name: name for name in ("key.1", "key.2", "it's")
    }
    assert set(modes(folder).values()) == {"0o600"}
    assert good(host_state.SECRETS.command, tmp_path).splitlines()[::2] == ["600"] * 3
    good(host_verb("prune_remove", *(f"secrets/{name}" for name in ("key.1", "it's", "none"))), tmp_path)
    assert [path.name for path in folder.iterdir()] == ["key.2"]


def test_secrets_that_were_cut_off_replace_nothing(tmp_path: Path) -> None:
    good(host_verb("secrets_write"), tmp_path, secrets_archive({"key": b"one", "other": b"one"}))
    archive = secrets_archive({"key": b"two", "other": b"two"})
    for end in (0, 700, 1100, 1600):
        assert run(host_verb("secrets_write"), tmp_path, archive[:end]).returncode != 0
        assert (tmp_path / ".voxyard/secrets/key").read_bytes() == b"one"


def test_an_artefact_is_there_as_a_whole_and_read_only_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / ".voxyard/artefacts"
    sums = b"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  model.bin\n"
    archive = packed({"model.bin": b"foo", ".sha256": sums})
    damaged = packed({"model.bin": b"fop", ".sha256": sums})
    for broken in (archive[:600], damaged, packed({"model.bin": b"foo"})):
        assert run(host_verb("artefact_write", "weights-1"), tmp_path, broken).returncode != 0
        assert good(host_state.ARTEFACTS.command, tmp_path) == ""
    good(host_verb("artefact_write", "weights-1"), tmp_path, archive)
    assert good(host_state.ARTEFACTS.command, tmp_path) == "weights-1\n"
    assert modes(folder) == {"weights-1": "0o555"}
    assert modes(folder / "weights-1")["model.bin"] == "0o444"
    good(host_verb("prune_remove", "artefacts/weights-1"), tmp_path)
    assert list(folder.iterdir()) == []


def test_what_a_cut_transfer_left_of_an_artefact_is_told(tmp_path: Path) -> None:
    run(host_verb("artefact_write", "weights-1"), tmp_path, packed({"one.bin": b"foo", "two.bin": b"x" * 2000})[:1600])
    lines = good(host_verb("artefact_partial", "weights-1"), tmp_path).splitlines()
    assert "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  one.bin" in lines
    assert good(host_verb("artefact_partial", "weights-2"), tmp_path) == ""


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of a server that answers one request after the other with a page."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    request = b""
                    while not request.endswith(b"\r\n\r\n"):
                        request += connection.recv(1000)
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nasked: " + request.split(b"\r\n")[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_service_is_asked_without_curl(tmp_path: Path, web_server: int) -> None:
    for address in ("127.0.0.1", "0.0.0.0"):  # noqa: S104
        done = run(http("ready", address, web_server, "/readyz"), tmp_path)
        assert done.stdout == b"HTTP/1.0 200 OK\r\n\r\nasked: GET /readyz HTTP/1.0"


def test_nobody_listening_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = run(http("metrics", "127.0.0.1", port, "/metrics"), tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode() == f"nothing listens on 127.0.0.1:{port}\n"


def test_the_service_is_started_by_exactly_this_command(tmp_path: Path) -> None:
    good(host_verb("secrets_write"), tmp_path, secrets_archive({"key.1": b"one"}))
    assert started(tmp_path, os.getuid(), "key.1") == [
        "compose --project-name voxyard --env-file voxyard.env --file exporter.yaml --file bark.yaml "
        "up --detach --force-recreate --no-build --no-deps --quiet-pull bark"
    ]


def started(home: Path, owner: int, *secrets: str) -> list[str]:
    """Words of each docker command of a start, on a host whose release names the user `owner`."""
    programs, said = home / "bin", home / "said"
    programs.mkdir(exist_ok=True)
    said.unlink(missing_ok=True)
    (programs / "docker").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (programs / "docker").chmod(0o755)
    folder = home / ".voxyard/releases/r1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "voxyard.env").write_text(f"VOXYARD_UID={owner}\nVOXYARD_GID={os.getgid()}\nVOXYARD_BARK_IMAGE=bark:1\n")
    command = start("r1", ["exporter.yaml", "bark.yaml"], "voxyard.env", "bark", secrets=secrets)
    environment = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", command.shell], env=environment, check=True, capture_output=True)
    return said.read_text().splitlines()


def test_what_a_service_owns_is_handed_over_by_a_container_of_its_image_before_it_starts(tmp_path: Path) -> None:
    good(host_verb("secrets_write"), tmp_path, secrets_archive({"key.1": b"one", "key.2": b"two"}))
    home = tmp_path / ".voxyard"
    first, second = started(tmp_path, os.getuid() + 1, "key.1")
    assert first.startswith("run --rm --pull never --network none --read-only --user 0:0 --cap-drop ALL ")
    assert first.endswith(
        f"--volume {home}/data/bark:/handed/1 --volume {home}/secrets/key.1:/handed/2 --entrypoint chown bark:1 "
        f"-hR {os.getuid() + 1}:{os.getgid()} /handed/1 /handed/2"
    )
    assert second.startswith("compose ")


def test_what_belongs_to_the_user_of_a_release_already_is_left_alone(tmp_path: Path) -> None:
    assert [line.split()[0] for line in started(tmp_path, os.getuid())] == ["compose"]


def test_the_exporters_own_the_hosts_certificate_and_node_exporter_copies_of_its_own() -> None:
    secrets = ["bark-api-keys.1", "host-key.1", "host-key.node-exporter.1"]
    found = {}
    for service in ("exporter", "node-exporter", "bark"):
        text = start("r1", ["exporter.yaml"], "voxyard.env", service, secrets=secrets).text
        found[service] = [word.rpartition("/")[2] for word in text.split() if "../../" in word]
    assert found == {
        "exporter": ["exporter", "host-key.1"],
        "node-exporter": ["host-key.node-exporter.1"],
        "bark": ["bark", "bark-api-keys.1", "host-key.1"],
    }


def test_a_service_with_a_user_of_its_own_gets_its_files_for_that(tmp_path: Path) -> None:
    good(host_verb("secrets_write"), tmp_path, secrets_archive({"host-key.node-exporter.1": b"one"}))
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    (programs / "docker").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (programs / "docker").chmod(0o755)
    folder = tmp_path / ".voxyard/releases/r1"
    folder.mkdir(parents=True)
    names = {"UID": "65532", "GID": "65532"} | {f"NODE_EXPORTER_{each}": "65531" for each in ("UID", "GID")}
    lines = [f"VOXYARD_{name}={value}" for name, value in names.items()]
    (folder / "voxyard.env").write_text("\n".join([*lines, "VOXYARD_NODE_EXPORTER_IMAGE=node:1", ""]))
    command = start("r1", [], "voxyard.env", "node-exporter", secrets=["host-key.node-exporter.1"])
    environment = {"HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", command.shell], env=environment, check=True, capture_output=True)
    assert said.read_text().splitlines()[0].endswith("--entrypoint chown node:1 -hR 65531:65531 /handed/0")
    assert not (tmp_path / ".voxyard/data").exists()


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ("gpu-01", ""),
        ("gpu-02", "the certificate on 127.0.0.1:PORT is not accepted for gpu-01: hostname mismatch"),
        ("of another authority", "the certificate on 127.0.0.1:PORT is not accepted for gpu-01: "),
        ("plain", "no service answers over TLS on 127.0.0.1:PORT: "),
        ("nobody", "no service answers over TLS on 127.0.0.1:PORT: "),
    ],
)
def test_a_service_is_asked_over_tls_by_its_name_alone(tmp_path: Path, served: str, said: str) -> None:
    ours, theirs = (new_authority(tmp_path / name, "localhost") for name in ("ours", "theirs"))
    (tmp_path / ".voxyard").mkdir()
    (tmp_path / ".voxyard/ca.pem").write_bytes(ours.root.read_bytes())
    of = theirs if served == "of another authority" else ours
    name = served if served.startswith("gpu") else "gpu-01"
    certificate = None if served == "plain" else of.write_of_host(tmp_path / "host.pem", name)
    with running_server(certificate) as server:
        port = free_port() if served == "nobody" else server.port
        command = http("ready", "127.0.0.1", port, "/readyz", tls=Tls("gpu-01", "ca.pem"))
        done = run(command, tmp_path)
    answer = Answer(done.stdout.decode(), done.stderr.decode(), done.returncode)
    if said:
        assert answer.message.startswith(said.replace("PORT", str(port)))
        assert not any(path for path in server.asked if served != "plain")
        assert not answer.ok
    else:
        assert http_problem(answer) is None
        assert "voxyard_up 1.0" in answer.out.splitlines()
        assert server.asked == ["/readyz"]


def test_without_openssl_it_says_so(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    command = http("ready", "::1", 1, "/", tls=Tls("gpu-01", "ca.pem"))
    environment = {"HOME": str(tmp_path), "PATH": str(tools)}
    done = subprocess.run(["/bin/sh", "-c", command.shell], env=environment, capture_output=True, text=True)
    assert (done.returncode, "openssl is not installed" in done.stderr) == (1, True)


def test_a_secret_that_only_its_container_can_read_is_there(tmp_path: Path) -> None:
    good(host_verb("secrets_write"), tmp_path, secrets_archive({"key.1": b"one"}))
    unreadable = host_state.SECRETS.command.shell.replace('[ -r "$name" ]', "false")
    assert good(Command("secrets", unreadable), tmp_path) == "600\n-  key.1\n"


def test_names_cannot_break_out_of_a_command() -> None:
    text = start("x; rm -rf ~", ["a b.yaml"], "$(id)", "`id`").text
    assert text.startswith("voxyard-host service_start ")
    assert "'x; rm -rf ~'" in text
    assert "'a b.yaml'" in text
    assert "'$(id)'" in text
    assert "'`id`'" in text
