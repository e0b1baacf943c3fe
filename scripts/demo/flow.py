"""The demo from its first command to its page: which part runs when, and what is left out on this machine."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from demo import monitoring, speech, training
from demo.page import Results, write
from demo.processes import INTERRUPTS, ChildCommand, Children, DemoError
from demo.sound import read

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "The baker sings about the heavy door before the storm."
LOOK_EVERY = 2.0  # seconds
LOSE_GPU_AFTER = 8.0  # seconds of the training
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
    """Runs the demo: 0, 1 where a part fails, 130 after Ctrl-C."""
    asked = _asked(arguments)
    os.chdir(ROOT)
    for number in INTERRUPTS:
        signal.signal(number, _interrupt)
    results, begun = Results(), time.monotonic()
    children = Children(asked.out / "logs", say)
    try:
        clear(asked.out)
        with children:
            run(Demo(asked, children, results))
    except DemoError as error:
        sys.stderr.write(f"the demo failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: every program that the demo had started was ended\n")
        return 130
    results.records, results.seconds = children.records, time.monotonic() - begun
    write(results, asked.out / "index.html")
    say(f"→ done in {results.seconds:.0f} s; open this page in a browser:")
    say(f"{asked.out}/index.html")
    return 0


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

    def leave_out(self, sentence: str) -> None:
        """A part is missing: said here and on the page."""
        self.results.left_out.append(sentence)
        say(f"→ {sentence}")


def run(demo: Demo) -> None:
    """All parts. What needs the running training runs beside it. Raises DemoError where one fails."""
    asked, results, places = demo.asked, demo.results, demo.places
    voxyard = _near(Path(sys.executable).parent / "voxyard")
    python = _near(Path(sys.executable))
    if asked.corpus is None:
        purpose = "making a small corpus: espeak-ng speaks a list of sentences"
        demo.run("corpus", purpose, training.make_corpus(voxyard, places, asked.clips))
    demo.run("prepare", "preparing shards from the recordings", training.prepare(voxyard, places, demo.corpus))
    results.corpus, results.own_corpus = str(demo.corpus), asked.corpus is not None
    results.recording = training.first_recording(demo.corpus)
    purpose = f"profiling the training: {asked.profile_steps} batches of each stage"
    demo.run("profile", purpose, training.profile(voxyard, places, asked.profile_steps))
    results.profile, results.profile_page = training.profiled(places), places.profile.read_text(encoding="utf-8")

    no_bark = speech.left_out()
    ports = {"exporter": free_port(), "trainer": asked.metrics or free_port(), "bark": free_port()}
    driver = _exporter(demo, voxyard, ports["exporter"])
    if no_bark is not None:
        demo.leave_out(no_bark)
    missing = [job for job, there in (("exporter", driver is not None), ("bark", no_bark is None)) if not there]
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
        _speak(demo, voxyard, python, ports["bark"], beside)
    demo.children.until(lambda: beside.look() or trainer.ended())
    say(f"  the training took {demo.children.finish(trainer):.1f} s")
    results.seen = watch.seen
    results.report = training.report(places)
    results.curves = training.curves(trainer.record.log.read_text(encoding="utf-8"), results.report)

    if prometheus is not None and watch.seen.at:
        minutes = max(1.0, (watch.seen.at - started) / 60)
        out = asked.out / "dashboards.html"
        command = monitoring.preview(python, prometheus, watch.seen.at, minutes, out)
        demo.run("dashboards", "drawing the dashboards from this Prometheus", command)
        results.dashboards = out.name
    demo.children.stop_all()
    demo.run(
        "speak", "speaking with the model that was just trained", training.synthesize(voxyard, places, asked.sentence)
    )
    results.reading = training.reading(places, demo.corpus, asked.sentence, own_voice=asked.corpus is None)


class Beside:
    """What happens while the training runs: a look at Prometheus now and then, and a GPU that is lost."""

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
            for name in self._watch.look():
                say(f"  alert     {name} fires")
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
    ready = monitoring.answers(f"http://127.0.0.1:{port}/readyz")
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
    ready = monitoring.answers(f"http://127.0.0.1:{port}/-/ready")
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
    ready = speech.ready(port)
    children.until(lambda: beside.look() or ready(), seconds=180, pause=0.5, say="the service has its model")
    purpose = "speaking through the service with OpenAI's client"
    demo.run("client", purpose, speech.speak(python, port, out / "bark.wav"))
    demo.results.bark = speech.TEXT, read(out / "bark.wav")


def clear(out: Path) -> None:
    """Removes what an earlier demo left in its folder, and nothing else. Raises DemoError where that fails."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        for name in ("shards", "run", "driver", "prometheus", "bark", "service", "logs"):
            shutil.rmtree(out / name, ignore_errors=False) if (out / name).exists() else None
        for name in ("index.html", "profile.html", "profile.json", "dashboards.html", "spoken.wav", "bark.wav"):
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise DemoError(f"{error.filename} cannot be removed: {error.strerror}") from error


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _asked(arguments: list[str] | None) -> Asked:
    parser = argparse.ArgumentParser(prog="python scripts/demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder of all that it makes")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="recordings of your own, in LJSpeech's layout")
    parser.add_argument("--minutes", type=float, default=2.0, help="longest time of the training (2)")
    parser.add_argument("--steps", type=int, help=f"most steps of the training ({STEPS_A_MINUTE} a minute)")
    parser.add_argument("--metrics", type=int, default=0, metavar="PORT", help="of the trainer's metrics (a free one)")
    parser.add_argument("--sentence", default=SENTENCE, help="what the trained model says")
    parser.add_argument("--clips", type=int, help="sentences of the demo corpus (all)")
    parser.add_argument("--profile-steps", type=int, default=15, metavar="N", help="batches of each measurement (15)")
    found = parser.parse_args(arguments)
    corpus = None if found.corpus is None else found.corpus.resolve()
    out = found.out.resolve() if found.out.is_absolute() else found.out
    steps = round(STEPS_A_MINUTE * found.minutes) if found.steps is None else found.steps
    return Asked(
        out, corpus, found.minutes, steps, found.metrics, found.sentence, found.clips, found.profile_steps
    )  # fmt: skip


def _near(path: Path) -> str:
    """A path as a person types it who stands at the top of the repository."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
