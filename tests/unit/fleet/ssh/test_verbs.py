"""What is done over a session again and again: what it raises, and that waits end."""

from __future__ import annotations

import base64
import io
import socket
import tarfile
import threading

import pytest
from fleet_doubles import RecordingSession
from leaping_clock import LeapingCancellation
from local_session import LocalSession

from fleet.errors import HostFailedError
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.verbs import files_of, http, must, reply, tar_of, wait_until


def test_a_command_that_must_work_is_an_answer_or_an_error_with_its_words() -> None:
    session = RecordingSession({"a": Answer("out"), "b": Answer("", "no space left", 1), "held": Answer("", "", 75)})
    assert must(session, "gpu-01", "look", Command("a", "")).out == "out"
    assert must(session, "gpu-01", "write", Command("a", ""), [b"x", b"y"]).ok
    assert session.received == {"a": b"xy"}
    assert must(session, "gpu-01", "be locked", Command("held", ""), other=75).code == 75
    for data in (None, [b""]):
        with pytest.raises(HostFailedError, match=r"^gpu-01 could not write it: no space left$"):
            must(session, "gpu-01", "write it", Command("b", ""), data)


@pytest.mark.parametrize(("until", "said", "waited"), [(0, None, 0.0), (3, None, 6.0), (99, "problem 6", 10.0)])
def test_a_wait_ends_without_a_problem_or_with_the_last_one(until: int, said: str | None, waited: float) -> None:
    clock, asked = LeapingCancellation(), []

    def problem() -> str | None:
        asked.append(clock.now())
        return None if len(asked) > until else f"problem {len(asked)}"

    begin = clock.now()
    assert wait_until(problem, 10.0, clock, 2.0) == said
    assert clock.now() - begin == waited


def test_files_come_out_of_an_archive_as_they_went_in_with_their_modes() -> None:
    files = {"a": b"", "b/c": b"\0" * 5000, "d": "é".encode()}
    packed = tar_of(files.items(), {"d": 0o644})
    assert files_of(base64.b64encode(packed).decode()) == files
    assert files_of(" \n") == {}
    with pytest.raises(ValueError, match=r"truncated|invalid|empty|read"):
        files_of(base64.b64encode(b"no archive" * 100).decode())


@pytest.mark.parametrize(("name", "kind"), [("../a", tarfile.REGTYPE), ("/a", tarfile.REGTYPE), ("a", tarfile.SYMTYPE)])
def test_an_archive_with_a_link_or_a_place_outside_is_refused(name: str, kind: bytes) -> None:
    packed, member = io.BytesIO(), tarfile.TarInfo(name)
    member.type, member.linkname = kind, "b"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(member)
    with pytest.raises(ValueError, match=f"'{name}' is in it, expected files and folders only"):
        files_of(base64.b64encode(packed.getvalue()).decode())


def test_a_request_sends_its_document_whole_and_needs_no_curl() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                data = b""
                while not data.endswith(b"}"):
                    data += connection.recv(4096)
                heard.append(data)
                connection.sendall(b'HTTP/1.0 201 Created\r\n\r\n{"silenceID": "1"}')

        thread = threading.Thread(target=serve)
        thread.start()
        document = {"comment": 'it\'s $HOME; `id` "é" 100 %s \\n'}
        command = http("silence", "127.0.0.1", server.getsockname()[1], "/api", "POST", document=document)
        found = reply(LocalSession().run([command])["silence"])
        thread.join()
    assert (found.status, found.good, found.document()) == (201, True, {"silenceID": "1"})
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /api HTTP/1.0"
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == b'{"comment": "it\'s $HOME; `id` \\"\\u00e9\\" 100 %s \\\\n"}'


@pytest.mark.parametrize("text", ["", "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.0 OK\r\n\r\n", "HTTP/1.0 200 OK"])
def test_what_is_no_http_is_no_reply(text: str) -> None:
    with pytest.raises(ValueError, match="expected an HTTP response, found"):
        reply(Answer(text))
