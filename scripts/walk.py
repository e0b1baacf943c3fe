"""Trace a request, a document and a training step as shipped: files, functions, threads, thread switches of each."""

from __future__ import annotations

import argparse
import http.client
import io
import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "runtime/voxyard"
OUT = ROOT / "build/walk.json"
REPEATS = 5
"""Walks of one kind, of which the one with the median of thread switches counts."""
BACKGROUND = "DocumentDispatcher._run"
"""First call of the thread that looks for documents ten times a second, asked or not: no part of a request."""
STEPS, WARM_STEPS = 24, 8
SENTENCE = "The baker sings about the heavy door before the storm."
_SECONDS = 300.0  # for the start of the service, and for each answer
_CONTAINER = (
    "<container version='1.0' xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles><rootfile "
    "full-path='book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>"
)
_PACKAGE = (
    "<package xmlns='http://www.idpf.org/2007/opf' version='3.0' unique-identifier='i'>"
    "<metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:title>A book</dc:title>"
    "<dc:identifier id='i'>x</dc:identifier><dc:language>en</dc:language></metadata><manifest>"
    "<item id='c1' href='c1.xhtml' media-type='application/xhtml+xml'/>"
    "<item id='c2' href='c2.xhtml' media-type='application/xhtml+xml'/></manifest>"
    "<spine><itemref idref='c1'/><itemref idref='c2'/></spine></package>"
)
_PAGE = (
    "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title></head><body><h1>{}</h1><p>{}</p></body></html>"
)

Event = tuple[int, CodeType]
"""Call of a function of the package: the thread's identifier, the function's code."""


class Trace:
    """Calls of the functions of a package in all threads that start after `install`, in their order."""

    def __init__(self, package: Path) -> None:
        self._package = str(package.resolve()) + os.sep
        self._traced: dict[CodeType, bool] = {}
        self.background: set[int] = set()
        self.events: list[Event] = []

    def install(self) -> None:
        """Traces this thread and all later ones."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def take(self, *, background: bool = True) -> list[Event]:
        """Calls since the last take, with those of the thread in the background or without them."""
        taken, self.events = self.events, []
        return [event for event in taken if background or event[0] not in self.background]

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        traced = self._traced.get(code)
        if traced is None:
            named = code.co_name == "<lambda>" or not code.co_name.startswith("<")  # no module, no comprehension
            traced = self._traced[code] = named and code.co_filename.startswith(self._package)
        if traced:
            thread = threading.get_ident()
            if code.co_qualname == BACKGROUND:
                self.background.add(thread)
            self.events.append((thread, code))


def counts(events: Iterable[Event]) -> dict[str, int]:
    """Distinct files, functions and threads of a walk, and how often the thread changed between two calls."""
    events = list(events)
    threads = [thread for thread, _ in events]
    return {
        "files": len({code.co_filename for _, code in events}),
        "functions": len({code for _, code in events}),
        "threads": len(set(threads)),
        "switches": sum(before != after for before, after in itertools.pairwise(threads)),
    }


def median(walks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The walk with the median of switches."""
    ordered = sorted(walks, key=lambda walk: (walk["switches"], walk["files"], walk["functions"]))
    return dict(ordered[len(ordered) // 2])


def split(events: Iterable[Event], at: str) -> list[list[Event]]:
    """Walks that begin with a call of the function of this qualified name; what comes before the first is left out."""
    walks: list[list[Event]] = []
    for event in events:
        if event[1].co_qualname == at:
            walks.append([])
        if walks:
            walks[-1].append(event)
    return walks


def trace_service(folder: Path) -> dict[str, dict[str, int]]:
    """Walks of `POST /v1/audio/speech`, and of an EPUB from its upload to its M4B, in the process of the service."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, trace = folder / "service", Trace(PACKAGE)
    found: dict[str, dict[str, int]] = {}
    failures: list[Exception] = []

    def drive() -> None:
        kinds: dict[str, Callable[[], None]] = {
            "request": lambda: speak(port),
            "document": lambda: make_book(port, data),
        }
        try:
            until(lambda: is_ready(port), "the service is ready")
            for name, walk in kinds.items():
                walk()  # imports what is imported on first use
                walks = []
                for _ in range(REPEATS):
                    trace.take()
                    walk()
                    walks.append(counts(trace.take(background=name == "document")))
                found[name] = median(walks)
        except Exception as error:  # noqa: BLE001 — raised below, when the service has ended
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    driver = threading.Thread(target=drive)
    trace.install()
    driver.start()
    places = ("--model", str(folder / "bark"), "--data-dir", str(data), "--port", str(port))
    voxyard("serve", *places, "--workers", "1", "--rate-limit", "0")  # heartbeats of others would be in the walk
    driver.join()
    if failures:
        raise failures[0]
    return found


def trace_training(folder: Path) -> dict[str, dict[str, int]]:
    """Walk of one training step on the CPU, from its launch to that of the next."""
    trace = Trace(PACKAGE)
    trace.install()
    voxyard(
        *("train", "--train-data", str(folder / "corpus"), "--checkpoint-dir", str(folder / "run")),
        *("--max-steps", str(STEPS), "--metrics-port", "0"),
    )
    steps = split(trace.take(), "Run.launch")[WARM_STEPS:-1]
    return {"step": median(map(counts, steps))}


def voxyard(*arguments: str) -> None:
    """Runs a command of voxyard in this process. Raises RuntimeError where it fails."""
    from voxyard.cli import voxyard as command

    code = command.main(arguments, standalone_mode=False)
    if code:
        raise RuntimeError(f"voxyard {arguments[0]} ended with exit code {code}")


def is_ready(port: int) -> bool:
    """True where the service has its model loaded."""
    try:
        return ask(port, "GET", "/readyz")[0] == http.client.OK
    except OSError:
        return False


def speak(port: int) -> None:
    """Asks for the speech of one sentence, and reads it."""
    body = json.dumps({"model": "bark", "voice": "alloy", "input": SENTENCE, "response_format": "mp3"}).encode()
    expect(ask(port, "POST", "/v1/audio/speech", body, "application/json"), http.client.OK)


def make_book(port: int, data: Path) -> None:
    """Uploads an EPUB, waits until it is spoken, and reads its M4B.

    It waits on the database itself: a request would be a walk of its own.
    """
    boundary = "walk"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="book.epub"\r\n'
        "Content-Type: application/epub+zip\r\n\r\n"
    )
    body = head.encode() + book() + f"\r\n--{boundary}--\r\n".encode()
    accepted = ask(port, "POST", "/v1/documents", body, f"multipart/form-data; boundary={boundary}")
    id = json.loads(expect(accepted, http.client.ACCEPTED))["id"]
    with sqlite3.connect(f"file:{data / 'documents.sqlite'}?mode=ro", uri=True) as database:
        state = "SELECT state FROM documents WHERE id = ?"
        until(lambda: database.execute(state, (id,)).fetchone()[0] == "completed", f"document {id} is spoken")
    expect(ask(port, "GET", f"/v1/documents/{id}/audio?format=m4b"), http.client.OK)


def book() -> bytes:
    """An EPUB of two chapters."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", _CONTAINER)
        archive.writestr("book.opf", _PACKAGE)
        for chapter in (1, 2):
            archive.writestr(f"c{chapter}.xhtml", _PAGE.format(f"Chapter {chapter}", SENTENCE))
    return out.getvalue()


def ask(port: int, method: str, path: str, body: bytes | None = None, kind: str = "") -> tuple[int, bytes]:
    """Status and body of an answer of the service."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": kind} if kind else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def expect(answer: tuple[int, bytes], status: int) -> bytes:
    """Body of an answer. Raises RuntimeError where its status is another."""
    if answer[0] != status:
        raise RuntimeError(f"the service answered {answer[0]}, expected {status}: {answer[1][:500]!r}")
    return answer[1]


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_SECONDS:.0f} s: {what}")
        time.sleep(0.2)


def main(arguments: list[str] | None = None) -> int:
    """Writes the counts of all walks, and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="JSON file to write")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part is not None:
        given.out.write_text(json.dumps(PARTS[given.part](given.folder)))
        return 0
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        folder = Path(name)
        program = [sys.executable, "-m", "voxyard"]
        subprocess.run([*program, "weights", "tiny", str(folder / "bark")], check=True, stdout=subprocess.DEVNULL)
        corpus = [*program, "corpus", "demo", str(folder / "corpus"), "--clips", "48"]
        subprocess.run(corpus, check=True, stdout=subprocess.DEVNULL)
        for part in PARTS:
            out, log = folder / f"{part}.json", folder / f"{part}.log"
            command = [sys.executable, __file__, "--part", part, "--folder", name, "--out", str(out)]
            with log.open("wb") as file:
                code = subprocess.run(command, check=False, stdout=file, stderr=file).returncode
            if code:
                print(f"the trace of the {part} failed:\n{log.read_text(errors='replace')[-4000:]}", file=sys.stderr)
                return 1
            found |= json.loads(out.read_text())
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    for walk, figures in found.items():
        print(f"{walk:9}", ", ".join(f"{count} {what}" for what, count in figures.items()))
    return 0


PARTS: dict[str, Callable[[Path], dict[str, dict[str, int]]]] = {"service": trace_service, "training": trace_training}

if __name__ == "__main__":
    sys.exit(main())
