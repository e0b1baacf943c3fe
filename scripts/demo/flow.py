"""The demo from its first command to its page: which part runs when, and what is left out on this machine."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from demo import monitoring, speech, training
from demo.page import Results, write
from demo.processes import INTERRUPTS, ChildCommand, Children, DemoError, answers, bypass_proxies, near
from demo.sound import read
from voxyard.corpus import CorpusError
from voxyard.corpus.coverage import MAX_DROPPED_TEXT, ONE_TEXT, coverage_of, refuse_dropped
from voxyard.corpus.demo import LANGUAGE
from voxyard.host.durable_files import locked
from voxyard.trainer.config import ModelConfig
from voxyard.trainer.text.front_end import choose, tokenizer_of

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "The baker sings about the heavy door before the storm."
LOOK_EVERY = 2.0  # seconds
LOSE_GPU_AFTER = 8.0  # seconds of the training
PAGE = ("index.html", "profile.html", "dashboards.html", "logs")  # the page and what it links to
STEPS_A_MINUTE = 200  # more than two idle cores make

_print = threading.Lock()


def say(line: str) -> None:
    """A line on the terminal, whole, also where several parts print at a time."""
    with _print:
        print(line, flush=True)


@dataclass(frozen=True)
class Asked:
    """Settings of the demo."""

    out: Path
    corpus: Path | None
    minutes: float
    steps: int
    metrics: int
    sentence: str
    clips: int | None
    profile_steps: int


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo: 0, 1 where a part fails, 2 where it cannot begin, 130 after Ctrl-C."""
    try:
        asked = _asked(arguments)
        os.chdir(ROOT)
        bypass_proxies()
        with only_one(asked.out):
            check(asked)
            return _run_all(asked)
    except DemoError as error:
        sys.stderr.write(f"the demo cannot begin: {error}\n")
        return 2


def _run_all(asked: Asked) -> int:
    """Runs the demo, whose input is checked, and writes its page, also where a part failed."""
    results, begun = Results(), time.monotonic()
    children = Children(asked.out / "logs", say)
    try:
        for number in INTERRUPTS:
            signal.signal(number, _interrupt)
        clear(asked.out)
        with children:
            demo = Demo(asked, children, results)
            with demo.part():
                run(demo)
        results.records, results.seconds, results.finished = children.records, time.monotonic() - begun, time.time()
        write(results, asked.out / "index.html")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: every program that the demo had started was ended\n")
        return 130
    except OSError as error:
        sys.stderr.write(f"the demo failed: {error.filename} cannot be written: {error.strerror}\n")
        return 1
    for failure in results.failures:
        sys.stderr.write(f"the demo failed: {failure}\n")
    ended = "ended with a failure" if results.failures else "done"
    say(f"→ {ended} in {results.seconds:.0f} s; open this page in a browser:")
    say(f"{asked.out}/index.html")
    return 1 if results.failures else 0


@dataclass
class Demo:
    """A demo that runs: its settings, its processes, and what it has made so far."""

    asked: Asked
    children: Children
    results: Results

    @property
    def places(self) -> training.Places:
        """Files of the trainer's part."""
        return training.Places(self.asked.out)

    @property
    def corpus(self) -> Path:
        """Recordings that the model is trained on."""
        return self.places.corpus if self.asked.corpus is None else self.asked.corpus

    def run(self, name: str, purpose: str, command: ChildCommand, *, quiet: bool = False) -> None:
        """Runs a command between a line that says what it is for and one that says how long it took."""
        say(f"→ {purpose}")
        seconds = self.children.run(name, purpose, command, quiet=quiet)
        say(f"  {seconds:.1f} s")

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part whose failure is noted once, for the terminal's end and the page; what comes after it still runs."""
        try:
            yield
        except (DemoError, OSError, RuntimeError, ValueError) as error:  # soundfile's own is a RuntimeError
            if str(error) not in self.results.failures:
                self.results.failures.append(str(error))
                say(f"→ failed: {str(error).partition(chr(10))[0]}")

    def leave_out(self, sentence: str) -> None:
        """A part is missing: said here and on the page."""
        self.results.left_out.append(sentence)
        say(f"→ {sentence}")


def run(demo: Demo) -> None:
    """All parts; what needs the running training runs beside it. Raises DemoError where a needed one fails."""
    asked, results, places = demo.asked, demo.results, demo.places
    voxyard = near(Path(sys.executable).parent / "voxyard")
    python = near(Path(sys.executable))
    if asked.corpus is None:
        purpose = "making a small corpus: espeak-ng speaks a list of sentences"
        demo.run("corpus", purpose, training.make_corpus(voxyard, places, asked.clips))
    demo.run("prepare", "preparing shards from the recordings", training.prepare(voxyard, places, demo.corpus))
    results.corpus, results.own_corpus = str(demo.corpus), asked.corpus is not None
    results.recording = training.first_recording(demo.corpus)
    purpose = f"profiling the training: {asked.profile_steps} batches of each stage"
    with demo.part():
        demo.run("profile", purpose, training.profile(voxyard, places, asked.profile_steps))
        results.profile, results.profile_page = training.profiled(places), places.profile.read_text(encoding="utf-8")

    no_bark = speech.left_out()
    ports = {"exporter": free_port(), "trainer": asked.metrics or free_port(), "bark": free_port()}
    driver, prometheus = None, None
    with demo.part():
        driver = _exporter(demo, voxyard, ports["exporter"])
    if no_bark is not None:
        demo.leave_out(no_bark)
    missing = [job for job, there in (("exporter", driver is not None), ("bark", no_bark is None)) if not there]
    with demo.part():
        prometheus = _prometheus(demo, {job: port for job, port in ports.items() if job not in missing})

    purpose = f"training for at most {asked.minutes:g} minutes: one CPU device prepares batches while the other learns"
    say(f"→ {purpose}")
    started = time.time()
    settings = training.Settings(asked.minutes, asked.steps, ports["trainer"])
    trainer = demo.children.start(
        "train", purpose, training.train(voxyard, places, settings, asked.sentence)
    )  # fmt: skip
    watch = monitoring.Watch(prometheus, None if driver is None else ports["exporter"])
    beside = Beside(watch, driver)
    if no_bark is None:
        with demo.part():
            _speak(demo, voxyard, python, ports["bark"], beside)
    while not trainer.ended():
        with demo.part():
            demo.children.until(lambda: beside.look() or trainer.ended())
    say(f"  the training took {demo.children.finish(trainer):.1f} s")
    results.seen = watch.seen
    results.report = training.report(places)
    results.curves = training.curves(trainer.record.log.read_text(encoding="utf-8"), results.report)

    if prometheus is not None and watch.seen.at:
        minutes = max(1.0, (watch.seen.at - started) / 60)
        out = asked.out / "dashboards.html"
        command = monitoring.preview(python, prometheus, watch.seen.at, minutes, out)
        with demo.part():
            demo.run("dashboards", "drawing the dashboards from this Prometheus", command)
            results.dashboards = out.name
    demo.children.stop_all()
    demo.run(
        "speak", "speaking with the model that was just trained", training.synthesize(voxyard, places, asked.sentence)
    )
    results.reading = training.reading(places, demo.corpus, asked.sentence, own_voice=asked.corpus is None)
    if no_bark is None:
        with demo.part():
            _serve_voice(demo, voxyard, python)


class Beside:
    """Activity beside the training: regular queries to Prometheus, and a GPU that is lost."""

    def __init__(self, watch: monitoring.Watch, driver: monitoring.ScriptedDriver | None) -> None:
        self._watch, self._driver = watch, driver
        self._lose_at = time.monotonic() + LOSE_GPU_AFTER
        self._next = 0.0

    def look(self) -> bool:
        """Looks where it is time to; False, for a wait that something else ends."""
        if self._driver is not None and time.monotonic() > self._lose_at:
            self._driver.lose_a_gpu()
            self._driver = None
            say("  exporter  scripted: GPU 3 falls off the bus (Xid 79)")
        if time.monotonic() > self._next:
            try:
                for name in self._watch.look():
                    say(f"  alert     {name} fires")
            except DemoError as error:  # one that is busy answers later; one that has ended is noticed as a process
                say(f"  {error}")
            self._next = time.monotonic() + LOOK_EVERY
        return False


def _exporter(demo: Demo, voxyard: str, port: int) -> monitoring.ScriptedDriver | None:
    """Starts the exporter on the scripted driver, where it can be built."""
    say("→ compiling the scripted driver library (tests/nvml): it plays GPUs that are not there")
    try:
        driver = monitoring.ScriptedDriver(demo.asked.out / "driver")
    except DemoError as error:
        demo.leave_out(str(error))
        return None
    purpose = "exporting the metrics of four scripted GPUs"
    say(f"→ {purpose}")
    demo.children.serve("exporter", purpose, driver.exporter(voxyard, port))
    ready = answers(f"http://127.0.0.1:{port}/readyz")
    demo.children.until(ready, seconds=60, say="the exporter reads the driver")
    demo.results.scripted = True
    return driver


def _prometheus(demo: Demo, ports: dict[str, int]) -> int | None:
    """Starts a Prometheus that scrapes these ports, where one is installed: its port."""
    program = monitoring.prometheus_program()
    if program is None:
        demo.leave_out(monitoring.NO_PROMETHEUS)
        return None
    purpose = f"starting Prometheus: it will scrape {' and '.join(ports)}"
    say(f"→ {purpose}")
    port = free_port()
    config = monitoring.configure(demo.asked.out / "prometheus", ports, port)
    demo.children.serve("prometheus", purpose, monitoring.prometheus(program, config, port))
    ready = answers(f"http://127.0.0.1:{port}/-/ready")
    demo.children.until(ready, seconds=60, say="Prometheus is ready")
    demo.results.monitored = True
    return port


def _speak(demo: Demo, voxyard: str, python: str, port: int, beside: Beside) -> None:
    """Bark speaks over HTTP, while the training runs."""
    out, children = demo.asked.out, demo.children
    demo.run(
        "weights", "writing a tiny Bark model of random weights", speech.tiny_weights(voxyard, out / "bark"), quiet=True
    )
    purpose = "starting the speech service with it, beside the training"
    say(f"→ {purpose}")
    children.serve("service", purpose, speech.serve(voxyard, out / "bark", out / "service", port))
    ready = answers(f"http://127.0.0.1:{port}/readyz")  # once a worker has its model
    children.until(lambda: beside.look() or ready(), seconds=180, pause=0.5, say="the service has its model")
    purpose = "speaking through the service with OpenAI's client"
    demo.run("client", purpose, speech.speak(python, port, out / "bark.wav"))
    demo.results.bark = speech.TEXT, read(out / "bark.wav")


def _serve_voice(demo: Demo, voxyard: str, python: str) -> None:
    """The trained voice is exported and speaks over HTTP."""
    out, children, voice = demo.asked.out, demo.children, demo.asked.out / "voice"
    purpose = "exporting the trained voice as one directory"
    demo.run("export", purpose, speech.export(voxyard, demo.places.run, voice, demo.corpus))
    purpose = "starting the speech service with the exported voice"
    say(f"→ {purpose}")
    port = free_port()
    children.serve("voice-service", purpose, speech.serve_voice(voxyard, voice, out / "voice-service", port))
    children.until(answers(f"http://127.0.0.1:{port}/readyz"), seconds=180, pause=0.5, say="the service has the voice")
    purpose = "speaking with the trained voice through OpenAI's client"
    spoken = out / "served.wav"
    demo.run("voice-client", purpose, speech.speak(python, port, spoken, demo.asked.sentence, speech.speaker(voice)))
    demo.results.served = demo.asked.sentence, read(spoken)
    children.stop_all()


@contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Holds the demo's folder, which it makes. Raises DemoError where another demo has it, or it cannot be made."""
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(out / ".lock"))
        except BlockingIOError as error:
            raise DemoError(f"another demo runs in {out}: wait for its end or give another folder (--out)") from error
        except OSError as error:
            raise DemoError(
                f"{out} cannot be written: {error.strerror}; make it a folder of yours or give --out"
            ) from error
        yield


def check(asked: Asked) -> None:
    """Reads what was given, before anything of an earlier demo is touched. Raises DemoError."""
    if asked.corpus is not None:
        training.first_recording(asked.corpus)
    _check_sentence(asked)
    if asked.metrics:
        try:
            socket.create_server(("", asked.metrics)).close()
        except OSError as error:
            raise DemoError(
                f"port {asked.metrics} cannot be used for the trainer's metrics: {error.strerror}; give another "
                "(METRICS=PORT) or none"
            ) from error


def _check_sentence(asked: Asked) -> None:
    """Reads the sentence as the model will. Raises DemoError where too little of it is left."""
    try:  # the limit of the trainer's own check
        model = choose(ModelConfig(language=LANGUAGE if asked.corpus is None else None), asked.corpus)
        encoded = tokenizer_of(model).read(asked.sentence)
        units = "of the letters a to z" if model.text_units == "characters" else f"in the language {model.language}"
        advice = f"give another sentence (SENTENCE=TEXT), {units}"
        refuse_dropped(coverage_of(encoded), ONE_TEXT * MAX_DROPPED_TEXT, f"the sentence {asked.sentence!r}", advice)
    except CorpusError as error:
        raise DemoError(str(error)) from error
    if not encoded.lettered:
        raise DemoError(f"the sentence {asked.sentence!r} has no letter or digit that the model knows")


def clear(out: Path) -> None:
    """Moves an earlier page with its files to `before` and removes what else an earlier demo left in its folder.

    Raises OSError where that fails.
    """
    if (out / "index.html").exists():
        shutil.rmtree(out / "before", ignore_errors=True)
        (out / "before").mkdir()
        for name in PAGE:
            if (out / name).exists():
                (out / name).rename(out / "before" / name)
    for name in ("shards", "run", "driver", "prometheus", "bark", "service", "voice", "voice-service", "logs"):
        if (out / name).exists():
            shutil.rmtree(out / name)
    for name in (
        "profile.html",
        "profile.json",
        "dashboards.html",
        "spoken.wav",
        "spoken.npy",
        "bark.wav",
        "served.wav",
    ):
        (out / name).unlink(missing_ok=True)


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _asked(arguments: list[str] | None) -> Asked:
    parser = argparse.ArgumentParser(prog="python scripts/demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder of all that it makes")
    parser.add_argument("--corpus", type=_folder, metavar="DIR", help="recordings of your own, in LJSpeech's layout")
    parser.add_argument("--minutes", type=_minutes, default=2.0, help="longest time of the training (2)")
    parser.add_argument("--steps", type=_count, help=f"most steps of the training ({STEPS_A_MINUTE} a minute)")
    parser.add_argument(
        "--metrics", type=_port, default=0, metavar="PORT", help="of the trainer's metrics (a free one)"
    )
    parser.add_argument("--sentence", type=_text, default=SENTENCE, help="what the trained model says")
    parser.add_argument("--clips", type=_count, help="sentences of the demo corpus (all)")
    parser.add_argument(
        "--profile-steps", type=_count, default=15, metavar="N", help="batches of each measurement (15)"
    )
    found = parser.parse_args(arguments)
    corpus = None if found.corpus is None else found.corpus.resolve()
    out = found.out.resolve() if found.out.is_absolute() else found.out
    steps = max(1, round(STEPS_A_MINUTE * found.minutes)) if found.steps is None else found.steps
    return Asked(
        out, corpus, found.minutes, steps, found.metrics, found.sentence, found.clips, found.profile_steps
    )  # fmt: skip


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: expected a number of minutes above 0")
    return value


def _count(text: str) -> int:
    if (value := _whole(text)) is None or value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: expected 1 or more")
    return value


def _port(text: str) -> int:
    if (value := _whole(text)) is None or not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected 1 to 65535, or 0 for a free one")
    return value


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the sentence is empty: expected what the model is to say")
    return text


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty: expected a folder of recordings")
    return Path(text)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
