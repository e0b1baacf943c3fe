"""Beginning and end of the demo: input is checked first, one demo has a folder, a failed part leaves a page."""

from __future__ import annotations

import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from html import escape
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from demo import flow, monitoring, speech, training
from demo.processes import INTERRUPTS, ChildCommand, answers, command
from demo.sound import Sound


@pytest.fixture(autouse=True)
def as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The working directory and the handlers of signals, which the demo sets."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Folder of a demo that has a page."""
    folder = tmp_path / "demo"
    (folder / "logs").mkdir(parents=True)
    (folder / "index.html").write_text("the last good page")
    return folder


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--minutes", "nan", "expected a number of minutes above 0"),
        ("--minutes", "inf", "expected a number of minutes above 0"),
        ("--minutes", "0", "expected a number of minutes above 0"),
        ("--minutes", "", "'' is no time: expected a number of minutes above 0"),
        ("--minutes", "nonsense", "'nonsense' is no time: expected a number of minutes above 0"),
        ("--clips", "nonsense", "'nonsense' is no count: expected 1 or more"),
        ("--metrics", "nonsense", "'nonsense' is no port: expected 1 to 65535"),
        ("--metrics", "70000", "'70000' is no port"),
        ("--steps", "0", "expected 1 or more"),
        ("--sentence", "", "the sentence is empty"),
        ("--sentence", " ", "the sentence is empty"),
        ("--corpus", "", "the name is empty"),
        ("--sentence", "?!", "has no letter or digit"),
        ("--sentence", "Добрый день and a good morning", "is lost"),
        ("--corpus", "/no/such/folder", "expected metadata.csv and wavs/"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_last_page_is_touched(
    out: Path, capsys: pytest.CaptureFixture[str], flag: str, value: str, said: str
) -> None:
    try:
        code: object = flow.main(["--out", str(out), flag, value])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert said in capsys.readouterr().err
    assert (out / "index.html").read_text() == "the last good page"
    assert (out / "logs").is_dir()


def test_a_port_that_is_taken_is_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert flow.main(["--out", str(out), "--metrics", str(port)]) == 2
    assert f"port {port} cannot be used for the trainer's metrics: Address already in use" in capsys.readouterr().err
    assert (out / "index.html").exists()


def test_a_proxy_of_the_machine_is_not_asked_for_the_demos_own_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        answering = answers(f"http://127.0.0.1:{server.server_address[1]}/")
        monkeypatch.setattr(flow, "_run_all", lambda _: 0 if answering() else 1)
        assert flow.main(["--out", str(tmp_path / "demo")]) == 0


def test_one_demo_at_a_time_has_a_folder(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with flow.only_one(out):
        assert flow.main(["--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"the demo cannot begin: another demo runs in {out}: wait for its end")
    assert (out / "index.html").exists()
    with flow.only_one(out):
        pass


@pytest.mark.parametrize("name", ["file", "file/demo"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "file").touch()
    assert flow.main(["--out", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"the demo cannot begin: {tmp_path / name} cannot be written: ")
    assert said.count("\n") == 1


def test_a_late_part_that_fails_leaves_a_page_with_the_others(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def python(code: str) -> ChildCommand:
        return command(sys.executable, "-c", code)

    def run(demo: flow.Demo) -> None:
        demo.run("train", "training", python("pass"))
        demo.results.report = {"last_step": 40}
        for _ in range(2):
            with demo.part():
                demo.run("dashboards", "drawing", python("print('no module'); raise SystemExit(3)"))
        demo.run("speak", "speaking", python("pass"))

    monkeypatch.setattr(flow, "run", run)
    assert flow.main(["--out", str(out)]) == 1
    written = (out / "index.html").read_text(encoding="utf-8")
    assert "0 → 40" in written
    assert "dashboards ended with exit code 3; its last lines were:\n  no module" in written
    assert written.count('<b class="firing">failed</b>') == 2
    assert "logs/04-speak.log" in written
    said = capsys.readouterr()
    assert said.err.startswith("the demo failed: dashboards ended with exit code 3")
    assert said.out.splitlines()[-1] == f"{out}/index.html"
    assert (out / "before/index.html").read_text() == "the last good page"


def test_the_sentence_is_read_as_the_model_of_its_corpus_will_read_it(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo's own model speaks phonemes and reads amounts; one of a corpus without a language knows letters."""
    monkeypatch.setattr(flow, "run", lambda _: None)
    amounts = ["--out", str(out), "--sentence", "7 €, 8 €, 9 €"]
    assert flow.main(amounts) == 0
    corpus = one_clip(tmp_path / "corpus")
    assert flow.main([*amounts, "--corpus", str(corpus)]) == 2
    assert "give another sentence (SENTENCE=TEXT), of the letters a to z" in capsys.readouterr().err
    assert flow.main(["--out", str(out), "--sentence", "Добрый день"]) == 2
    assert "give another sentence (SENTENCE=TEXT), in the language en-us" in capsys.readouterr().err


def one_clip(corpus: Path) -> Path:
    """A corpus in LJSpeech's layout."""
    (corpus / "wavs").mkdir(parents=True)
    (corpus / "metadata.csv").write_text("one|A text.|A text.\n")
    (corpus / "wavs/one.wav").write_bytes(Sound(np.sin(np.arange(9000) / 9), 22050).wav())
    return corpus


def shell(script: str) -> ChildCommand:
    """A command that runs a script of the shell."""
    return command("sh", "-c", script)


def test_on_a_bare_machine_the_trainers_parts_run_and_the_others_are_named(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = one_clip(tmp_path / "corpus")
    report = '{"last_step": 40, "losses": {"total": 4.5}, "validation": {"refined_mel": 0.5}}'
    programs = {
        "prepare": "true",
        "profile": f"echo '{{}}' > {out}/profile.json; echo '<p>the profile' > {out}/profile.html",
        "train": f"mkdir {out}/run; echo '{report}' > {out}/run/report.json; echo 'step 20/40: 1 steps/s, loss 5.0'",
        "synthesize": f"cp {corpus}/wavs/one.wav {out}/spoken.wav",
    }
    for part, script in programs.items():
        monkeypatch.setattr(training, part, lambda *_, script=script: shell(script))
    missing = ["Bark was left out.", monitoring.NO_COMPILER, monitoring.NO_PROMETHEUS]
    monkeypatch.setattr(speech, "left_out", lambda: missing[0])
    monkeypatch.setattr("shutil.which", lambda _: None)

    assert flow.main(["--out", str(out), "--corpus", str(corpus)]) == 0
    written = (out / "index.html").read_text(encoding="utf-8")
    said = capsys.readouterr().out
    for sentence in missing:
        assert f"→ {sentence}" in said
        assert escape(sentence) in written
    assert [path.name for path in sorted((out / "logs").iterdir())] == [
        "01-prepare.log", "02-profile.log", "03-train.log", "04-speak.log",
    ]  # fmt: skip
    assert "0 → 40" in written
    assert re.search(r"<h3>A recording <span[^>]*>real<", written), "it is no voice of the demo's own"
    assert Path.cwd() == flow.ROOT, "the commands are as they are typed at the top of the repository"


def test_the_page_has_the_time_of_its_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "run", lambda _: monkeypatch.setattr("time.time", lambda: 1_800_000_000.0))
    assert flow.main(["--out", str(out)]) == 0
    assert "finished 2027-01-15 08:00 UTC" in (out / "index.html").read_text(encoding="utf-8")
