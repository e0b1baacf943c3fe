"""The command that speaks a document through the pool: text in, a sound file out."""

from __future__ import annotations

import io
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from pydantic import Field

from voxyard.bark.config import BarkConfig
from voxyard.cli.base import CHECK_FAILED, CONTEXT, INTERRUPTED, JSON, PATH, answering, refuse
from voxyard.settings import Section, SettingsCommand, load, options
from voxyard.speech.config import SpeakSection, SpeechSection

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from voxyard.speech.audio.sound_file import SoundFile
    from voxyard.speech.pool.job import Progress
    from voxyard.speech.pool.pool import Pool
    from voxyard.speech.synthesize import Narration

log = logging.getLogger("voxyard.cli")

EXTRA = "bark"
FRONTEND = "voxyard.bark.frontend:frontend"
PLAIN_LINE_SECONDS = 5.0
MAX_CHARACTERS = 20_000_000  # of a document: some three weeks of speech


class SpeakConfig(Section):
    """All settings of `voxyard speak`, in the sections of its YAML file."""

    speak: SpeakSection = Field(default_factory=SpeakSection)
    speech: SpeechSection = Field(default_factory=SpeechSection)
    bark: BarkConfig = Field(default_factory=BarkConfig)


@click.command("speak", cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("file", type=PATH)
@click.option(
    "--out", type=PATH, required=True, metavar="FILE", help="Sound file: .wav, .mp3, .opus, .ogg, .flac, .aac or .pcm."
)
@click.option(
    "--config",
    type=PATH,
    envvar="VOXYARD_CONFIG",
    metavar="FILE",
    help="Settings as a YAML file, sections speak, speech, bark.",
)
@JSON
@options(SpeakConfig)
def speak(flags: dict[str, object], file: Path, out: Path, config: Path | None, as_json: bool) -> int:
    """Speak a document on all GPUs: text in, a sound file out.

    FILE is a text, PDF or Word file; - reads text from standard input. The sound is written in text order while later
    chunks are still being spoken. Ctrl-C ends it in order and says what was written.
    """
    with answering("speak", extra=EXTRA, needs="torch"):
        settings = load(SpeakConfig, flags=flags, file=config).config
        with _terminable():
            return _speak(settings, file, out, as_json=as_json)


def _speak(settings: SpeakConfig, file: Path, out: Path, *, as_json: bool) -> int:
    from voxyard.speech.audio.codecs import EncodeError
    from voxyard.speech.audio.sound_file import format_of, open_sound
    from voxyard.speech.frontend import open_frontend
    from voxyard.speech.open_pool import open_pool
    from voxyard.speech.script import prepare
    from voxyard.speech.synthesize import Narration, narrate

    format_of(out)  # before anything expensive
    frontend = open_frontend(FRONTEND, settings.bark.model_dump(mode="json"))
    text = _read(file)
    asked = settings.speak
    script = prepare(text, frontend, voice=asked.voice, seed=asked.seed, language=asked.language)
    for note in frontend.notes:
        log.warning("%s", note)
    narration = Narration(len(script.chunks))
    with ExitStack() as stack:
        registry = _metrics(stack, asked)
        pool = stack.enter_context(
            open_pool(frontend.engine, settings.speech, settings.bark.device, workload="bark", registry=registry)
        )
        workers = len(pool.workers())
        log.info(
            "%d chunks, about %s of sound, %d %s",
            narration.total,
            _clock(script.estimated_seconds),
            workers,
            "worker" if workers == 1 else "workers",
        )
        sound = open_sound(out)
        try:
            with _shown(narration, pool) as progress:
                narrate(script, pool, sound.write, settings.speech.pauses(), narration, progress)
            if narration.failures and asked.on_failure == "fail":
                first = narration.failures[0]
                more = f"; {len(narration.failures) - 1} more failed" if len(narration.failures) > 1 else ""
                _left(narration, sound, f"{first}{more}; silence stands in its place", CHECK_FAILED)
            sound.commit()
        except KeyboardInterrupt:
            _left(narration, sound, "interrupted", INTERRUPTED)
        except (EncodeError, click.exceptions.Exit):
            raise  # what is left has been said
        except BaseException:
            log.error("voxyard speak: %s", _partial(narration, sound))
            raise
    print(json.dumps({"out": str(out), **narration.to_json()}, indent=2) if as_json else _summary(out, narration))
    return 0


def _read(file: Path) -> str:
    from voxyard.extraction.extract import extract, extract_file

    if str(file) == "-":
        return extract(io.BytesIO(sys.stdin.buffer.read()), None, None, max_characters=MAX_CHARACTERS).text
    return extract_file(file, max_characters=MAX_CHARACTERS).text


def _left(narration: Narration, sound: SoundFile, why: str, code: int) -> NoReturn:
    refuse("speak", f"{why}\n{_partial(narration, sound)}", code)


def _partial(narration: Narration, sound: SoundFile) -> str:
    """Close the unfinished file, and say what is in it."""
    kept = sound.abandon()
    if not sound.samples:  # of the sound itself: an interrupt may come between a chunk and its count
        kept.unlink(missing_ok=True)
        return "nothing was written"
    chunks = max(1, narration.chunks)
    return (
        f"{kept} holds the first {chunks} of {narration.total} chunks, {_clock(sound.seconds)}; "
        "the same command with the same --seed speaks all of it again"
    )


def _metrics(stack: ExitStack, asked: SpeakSection) -> CollectorRegistry | None:
    if not asked.metrics_port:
        return None
    from voxyard.telemetry.server import serve
    from voxyard.telemetry.workloads import Registry

    registry = Registry()
    server = serve(registry, asked.metrics_host, asked.metrics_port)
    stack.callback(server.close)
    log.info("Metrics on http://%s:%d/metrics", asked.metrics_host, server.port)
    return registry


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shown(narration: Narration, pool: Pool) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal, else a line every few seconds."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    began = told = time.monotonic()
    with Bar(
        TextColumn("speaking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rest]}"),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("speaking", total=narration.total, rest="the workers load their model")

        def show(progress: Progress) -> None:
            nonlocal told
            waiting = pool.waiting
            rest = f"waiting for {waiting}" if waiting else _rest(progress, time.monotonic() - began)
            bar.update(task, completed=progress.done, rest=rest)
            if not console.is_terminal and time.monotonic() - told >= PLAIN_LINE_SECONDS:
                told = time.monotonic()
                log.info("%d of %d chunks, %s", progress.done, progress.total, rest)

        yield show


def _rest(progress: Progress, seconds: float) -> str:
    if not progress.done:
        return "the workers load their model"
    factor = f"real-time factor {seconds / progress.audio_seconds:.2f}, " if progress.audio_seconds else ""
    left = seconds * (1 - progress.share) / progress.share if progress.share else 0.0
    return f"{_clock(progress.audio_seconds)} of sound, {factor}{_clock(left)} left"


def _summary(out: Path, narration: Narration) -> str:
    factor = narration.real_time_factor
    lines = [
        f"{out}: {narration.chunks} chunks, {_clock(narration.audio_seconds)} of sound in {_clock(narration.seconds)}"
        + (f", real-time factor {factor:.2f}" if factor is not None else "")
    ]
    lines += [f"silence instead: {failure}" for failure in narration.failures]
    if narration.reduced:
        lines.append(
            f"{narration.reduced} chunks were spoken in smaller batches, as memory ran out: another run may differ "
            "in its last digits; a smaller --batch-size avoids that"
        )
    if narration.objections:
        found = ", ".join(f"{fault}: {count}" for fault, count in sorted(narration.objections.items()))
        lines.append(f"chunks that sound wrong ({found})")
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    """As a person says it: 9.4 s, 3:07 min, 1:02:09 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
