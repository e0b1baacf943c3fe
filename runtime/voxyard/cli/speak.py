"""Command `voxyard speak`: a document through the worker pool into an audio file."""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from pydantic import Field

from voxyard.bark.config import BarkConfig
from voxyard.cli.base import (
    CHECK_FAILED,
    CONTEXT,
    INTERRUPTED,
    JSON,
    PATH,
    answering,
    clock,
    config_option,
    log_notes,
    refuse,
    require_kept,
)
from voxyard.cli.documents import read_document
from voxyard.cli.engines import EngineChoice, choose_engine
from voxyard.settings import Section, SettingsCommand, load, options
from voxyard.speech.config import SpeakSection, SpeechSection
from voxyard.speech.reading.reader import READING_VERSION
from voxyard.trainer.reporting.figures import counted

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from voxyard.extraction.extract import ExtractedText
    from voxyard.speech.audio.sound_file import SoundFile
    from voxyard.speech.frontend import Frontend
    from voxyard.speech.pool.job import Progress
    from voxyard.speech.pool.pool import Pool
    from voxyard.speech.script import Script
    from voxyard.speech.synthesize import SynthesisResult

log = logging.getLogger("voxyard.cli")

PLAIN_LINE_SECONDS = 5.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class SpeakConfig(Section):
    """All settings of `voxyard speak`, in the sections of its YAML file."""

    speak: SpeakSection = Field(default_factory=SpeakSection)
    speech: SpeechSection = Field(default_factory=SpeechSection)
    bark: BarkConfig = Field(default_factory=BarkConfig)


@click.command("speak", cls=SettingsCommand, context_settings=CONTEXT)
@click.argument("file", type=PATH)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Audio file: .wav, .mp3, .opus, .ogg, .flac, .aac, .pcm, or .m4b: an audiobook. One of this name is replaced "
    "once the new one is whole.",
)
@click.option("--show-words", is_flag=True, help="Print the words of each chunk and their length, and speak nothing.")
@config_option("sections speak, speech, bark")
@JSON
@options(SpeakConfig)
def speak(
    flags: dict[str, object], file: Path, out: Path | None, show_words: bool, config: Path | None, as_json: bool
) -> int:
    """Speak a document on all GPUs, into an audio file.

    FILE is a text, Markdown, HTML, EPUB, PDF, Word, ODT, RTF or FB2 file; - reads text from standard input. The
    audio is written in text order; that of more than ten minutes grows while later chunks are still being spoken.
    book.m4b is an audiobook: chapters, author and cover of the document, and captions beside it, book.vtt, which
    name who speaks; a book.vtt is replaced only where book.m4b is there too. Ctrl-C stops cleanly and reports what
    was written. --show-words prints what would be spoken instead; it loads no model, but needs its directory, whose
    tokenizer counts.
    """
    if show_words == (out is not None):
        raise click.UsageError("expected either --out FILE or --show-words")
    with answering("speak"):
        loaded = load(SpeakConfig, flags=flags, file=config)
        log_notes(loaded.notes)
        engine = choose_engine(loaded.config.speech, loaded.config.bark, loaded.origins)
    if out is None:
        with answering("speak", extra=engine.extra):
            return _show_words(loaded.config, engine, file, as_json=as_json)
    with answering("speak", extra=engine.extra, needs=engine.package), _terminable():
        from voxyard.speech.audio.sound_file import BOOK, captions_beside

        captions = captions_beside(out) if out.suffix.lower() == BOOK else None
        require_kept({"--out": out, "the captions": captions}, loaded.config)
        return _speak(loaded.config, engine, file, out, as_json=as_json)


def _show_words(settings: SpeakConfig, engine: EngineChoice, file: Path, *, as_json: bool) -> int:
    from voxyard.cli.words import listing, to_json

    document, _, script = _script(settings, engine, file)
    print(json.dumps(to_json(script, document.chapters), indent=2) if as_json else listing(script, document.chapters))
    return 0


def _with_bare_titles(document: ExtractedText) -> ExtractedText:
    """A document whose titles are without the tags that direct the voice."""
    from voxyard.speech.reading.markup import is_ssml, untagged

    ssml = is_ssml(document.text)
    titles = [" ".join(untagged(each.title, ssml=ssml).split()) for each in document.chapters]
    chapters = tuple(replace(each, title=title) for each, title in zip(document.chapters, titles, strict=True) if title)
    return replace(document, title=" ".join(untagged(document.title, ssml=ssml).split()), chapters=chapters)


def _script(settings: SpeakConfig, engine: EngineChoice, file: Path) -> tuple[ExtractedText, Frontend, Script]:
    """The document of a file, the front end of the engine, and what it is to speak."""
    from voxyard.speech.cast import cast_of, engine_name, read_cast
    from voxyard.speech.frontend import open_frontend
    from voxyard.speech.script import document_language, prepare_script, script_note, unknown_language_note

    section, reading = settings.speak, settings.speech.reading()
    unknown = unknown_language_note(section.language)
    if unknown is not None:
        log.warning("%s", unknown)
    frontend = open_frontend(engine.frontend, engine.settings)
    document = _with_bare_titles(read_document(file, settings.speech.code_blocks))
    if document.damage is not None:
        log.warning("%s", document.damage)
    voice = None if section.voice is None else engine_name(section.voice, frontend)
    members = {} if section.cast is None else read_cast(section.cast)
    cast = cast_of(frontend, {name: engine_name(each, frontend) for name, each in members.items()})
    voice = cast.narrator or voice
    script = prepare_script(
        document.text,
        frontend,
        voice=voice,
        seed=section.seed,
        language=document_language(section.language, voice, document.language, frontend),
        languages=document.languages,
        chapters=[chapter.start for chapter in document.chapters],
        reading=reading,
        cast=cast,
    )
    note = script_note(script, section.language or document.language, frontend)
    if unknown is None and note is not None:
        log.warning("%s", note)
    return document, frontend, script


def _speak(settings: SpeakConfig, engine: EngineChoice, file: Path, out: Path, *, as_json: bool) -> int:
    from voxyard.cli.book import book_of
    from voxyard.speech.audio.encoder import Tags
    from voxyard.speech.audio.sound_file import BOOK, check_target, open_sound
    from voxyard.speech.open_pool import open_pool
    from voxyard.speech.script import check_speakable
    from voxyard.speech.synthesize import SynthesisResult, synthesize

    is_book = out.suffix.lower() == BOOK
    check_target(out)  # fails before anything expensive
    document, frontend, script = _script(settings, engine, file)
    if is_book and document.note is not None:
        log.warning("%s", document.note)
    section, pauses = settings.speak, settings.speech.pauses()
    check_speakable(script, frontend, section.on_failure)
    for note in frontend.notes:
        log.warning("%s", note)
    result = SynthesisResult(len(script.chunks))
    with ExitStack() as stack:
        registry = _metrics(stack, section)
        pool = stack.enter_context(
            open_pool(frontend.engine, settings.speech, engine.device, workload="bark", registry=registry)
        )
        workers = len(pool.workers())
        log.info(
            "%s, about %s of audio, %s",
            counted(result.total, "chunk"),
            clock(script.estimated_seconds),
            counted(workers, "worker"),
        )
        sound = open_sound(
            out,
            tags=Tags(document.title, document.author, language=script.requests[0].language or document.language),
            book=lambda: book_of(document, script, result.samples, pauses),
        )
        try:
            with _progress_display(result, pool) as progress:
                synthesize(script, pool, sound.write, pauses, result, progress)
            if result.failures and (section.on_failure == "fail" or len(result.failures) == result.total):
                first = result.failures[0]
                more = f"; {len(result.failures) - 1} more failed" if len(result.failures) > 1 else ""
                _refuse_partial(result, sound, f"{first}{more}", CHECK_FAILED)
            spoken = time.monotonic()
            with _display("encoding", 1.0, "the audiobook begins") if is_book else nullcontext(_silent) as encoded:
                sound.commit(lambda share: encoded(share, _encoding(share, time.monotonic() - spoken)))
            result.seconds += time.monotonic() - spoken
        except KeyboardInterrupt:
            for number in _INTERRUPTS:
                signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C: the file is being closed, the workers end
            _refuse_partial(result, sound, "interrupted", INTERRUPTED)
        except click.exceptions.Exit:
            raise
        except BaseException:
            if sound.open:  # else the message has said where its audio is
                log.error("voxyard speak: %s", _partial(result, sound))
            raise
    print(
        json.dumps({"out": str(out), "reading": READING_VERSION, **result.to_json()}, indent=2)
        if as_json
        else _summary(out, result)
    )
    return 0


def _refuse_partial(result: SynthesisResult, file: SoundFile, reason: str, code: int) -> NoReturn:
    refuse("speak", f"{reason}\n{_partial(result, file)}", code)


def _partial(result: SynthesisResult, file: SoundFile) -> str:
    """Close the unfinished file; a message on its content."""
    kept = file.abandon()
    if not file.samples or 0 < result.chunks <= len(result.failures):  # silence alone is worth no file
        kept.unlink(missing_ok=True)
        if not result.spoken:
            return "nothing was written"
        lost = f"{counted(result.spoken, 'chunk')} of {result.total} {'was' if result.spoken == 1 else 'were'}"
        return f"nothing was written: {lost} spoken before the first, and lost"
    chunks = max(1, result.chunks)  # an interrupt may come between a chunk and its count
    silent = f", {len(result.failures)} of them as silence" if result.failures else ""
    return (
        f"{kept} holds the first {chunks} of {counted(result.total, 'chunk')}{silent}, {clock(file.seconds)}; "
        "the same command with the same --seed speaks the whole document again"
    )


def _metrics(stack: ExitStack, section: SpeakSection) -> CollectorRegistry | None:
    if not section.metrics_port:
        return None
    from prometheus_client import CollectorRegistry

    from voxyard.telemetry.server import serve

    registry = CollectorRegistry()
    server = serve(registry, section.metrics_host, section.metrics_port)
    stack.callback(server.close)
    log.info("Metrics on http://%s:%d/metrics", section.metrics_host, server.port)
    return registry


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(phase: str, total: float, line: str) -> Iterator[Callable[[float, str], None]]:
    """Progress bar of a phase on a terminal, else its line every few seconds; driven by (done, line)."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    logged = time.monotonic()
    columns = TextColumn(phase), BarColumn(), TextColumn("{task.fields[line]}")
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(phase, total=total, line=line)

        def show(done: float, line: str) -> None:
            nonlocal logged
            bar.update(task, completed=done, line=line)
            if not console.is_terminal and time.monotonic() - logged >= PLAIN_LINE_SECONDS:
                logged = time.monotonic()
                log.info("%s", line)

        yield show


def _silent(_: float, __: str) -> None:
    """The display of a file that has nothing to encode at its end."""


@contextmanager
def _progress_display(result: SynthesisResult, pool: Pool) -> Iterator[Callable[[Progress], None]]:
    """The display of the chunks that are spoken."""
    began = time.monotonic()
    with _display("speaking", result.total, "the workers load their model") as display:

        def show(progress: Progress) -> None:
            waiting = pool.waiting
            loaded = any(worker.ready is not None for worker in pool.workers())
            status = f"waiting for {waiting}" if waiting else _status(progress, time.monotonic() - began, loaded=loaded)
            display(progress.done, f"{progress.done} of {counted(progress.total, 'chunk')}, {status}")

        yield show


def _encoding(share: float, seconds: float) -> str:
    return f"{share:.0%} of the audiobook encoded, {clock(seconds * (1 - share) / share)} left"


def _status(progress: Progress, seconds: float, *, loaded: bool) -> str:
    if not progress.done:
        return "the first ones are being spoken" if loaded else "the workers load their model"
    factor = f"real-time factor {seconds / progress.audio_seconds:.2f}, " if progress.audio_seconds else ""
    left = seconds * (1 - progress.share) / progress.share if progress.share else 0.0
    return f"{clock(progress.audio_seconds)} of audio, {factor}{clock(left)} left"


def _summary(out: Path, result: SynthesisResult) -> str:
    factor = result.real_time_factor
    lines = [
        f"{out}: {counted(result.chunks, 'chunk')}, {clock(result.audio_seconds)} of audio in {clock(result.seconds)}"
        + (f", real-time factor {factor:.2f}" if factor is not None else "")
    ]
    lines += [f"replaced by silence: {failure}" for failure in result.failures]
    if sizes := sorted(result.batch_sizes):
        chunks = ", ".join(f"{rows} ({counted(result.batch_sizes[rows], 'chunk')})" for rows in sizes)
        lines.append(
            f"batch size {sizes[0]}: --batch-size {sizes[0]} and the same --seed give the same audio on such a device"
            if len(sizes) == 1
            else f"batch sizes {chunks}: another run's audio may differ slightly; --batch-size {sizes[0]} avoids "
            "that on GPUs of one kind"
        )
    if result.reduced:
        were = "was" if result.reduced == 1 else "were"
        lines.append(
            f"{counted(result.reduced, 'chunk')} {were} spoken in smaller batches for lack of memory or after a crash"
        )
    if result.faults:
        found = ", ".join(f"{fault}: {count}" for fault, count in sorted(result.faults.items()))
        lines.append(f"chunks with quality faults ({found})")
    return "\n".join(lines)
