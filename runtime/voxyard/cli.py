"""The command line: parse, call, print. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from voxyard import __version__

if TYPE_CHECKING:
    from voxyard.settings import Loaded
    from voxyard.trainer.config import TrainConfig

CHECK_FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130

log = logging.getLogger("voxyard.cli")

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_PATH = click.Path(path_type=Path)
_CONFIG = click.option(
    "--config",
    type=_PATH,
    envvar="VOXYARD_CONFIG",
    metavar="FILE",
    help="Settings as a YAML file with the sections model, data, training, telemetry.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


Entries = Mapping[str, tuple[str, Callable[[], click.Command]]]  # name → its sentence, and how it is built


class LazyGroup(click.Group):
    """A group that builds a command when it is asked for: --help imports no settings and no libraries."""

    def __init__(self, *args: Any, entries: Entries, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order they are written down."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, built now."""
        return self.entries[cmd_name][1]() if cmd_name in self.entries else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their sentences, none of them built."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (sentence, _) in self.entries.items()])


def _train() -> click.Command:
    from voxyard.settings import SettingsCommand, options
    from voxyard.trainer.config import TrainConfig

    @click.command("train", cls=SettingsCommand, context_settings=_CONTEXT)
    @_CONFIG
    @click.option("--describe", is_flag=True, help="Print the table of model sizes, and train nothing.")
    @_JSON
    @options(TrainConfig)
    def train(flags: dict[str, object], config: Path | None, describe: bool, as_json: bool) -> int:
        """Train a text-to-speech model from recordings.

        A setting comes from its flag, else from its environment variable (VOXYARD_ and the flag's name), else
        from --config FILE, else from the host's plan (VOXYARD_HOST_PLAN), else it has its default.
        """
        with _answering("train"):
            loaded = _load(flags, config)
            if describe:
                from voxyard.trainer import describe as describe_sizes

                print(describe_sizes())
                return 0
            from voxyard.trainer import train as run

            report = run(loaded.config)
            print(json.dumps(report.to_json(), indent=2) if as_json else report.render())
            return report.exit_code

    return train


@click.command(context_settings=_CONTEXT)
@click.option("--checkpoint", type=_PATH, required=True, metavar="DIR", help="A run's checkpoints.")
@click.option("--text", required=True, help="What to say.")
@click.option("--out", type=_PATH, required=True, metavar="FILE", help="WAV file to write.")
@click.option("--mel", type=_PATH, metavar="FILE", help="Also write the mel spectrogram (.npy).")
@_JSON
def synthesize(checkpoint: Path, text: str, out: Path, mel: Path | None, as_json: bool) -> None:
    """Let a trained model speak: text in, a WAV file out."""
    with _answering("synthesize"):
        import dataclasses

        from voxyard.trainer import synthesize as speak

        spoken = speak(checkpoint, text, out, mel)
        if as_json:
            print(json.dumps(dataclasses.asdict(spoken), default=str))
        else:
            print(f"{spoken.path}: {spoken.seconds:.2f} s at {spoken.sample_rate} Hz, step {spoken.step}")


@click.command(context_settings=_CONTEXT)
@click.argument("directory", type=_PATH)
@click.option("--clips", type=click.IntRange(min=1), metavar="N", help="How many.  [default: all sentences]")
@click.option("--seed", type=int, default=0, metavar="N", help="Where the list begins, and the voice's pitch.")
def demo(directory: Path, clips: int | None, seed: int) -> None:
    """Make a small corpus with espeak-ng's voices; nothing is downloaded."""
    with _answering("corpus demo"), _progress("speaking") as progress:
        from voxyard.corpus import make_demo

        made = make_demo(directory, clips=clips, seed=seed, progress=progress)
    print(made)


def _prepare() -> click.Command:
    from voxyard.settings import SettingsCommand, options
    from voxyard.trainer.config import TrainConfig

    @click.command("prepare", cls=SettingsCommand, context_settings=_CONTEXT)
    @click.argument("source", type=_PATH)
    @click.argument("destination", type=_PATH)
    @click.option("--features", is_flag=True, help="Store mel, pitch and energy too, as the data device makes them.")
    @_CONFIG
    @options(TrainConfig, only=("model", "data.max_bad_share", "data.pre_emphasis"))
    def prepare(flags: dict[str, object], source: Path, destination: Path, features: bool, config: Path | None) -> None:
        """Write a corpus as shards, the fast way to train from."""
        with _answering("corpus prepare"):
            from voxyard.corpus import prepare as write_shards
            from voxyard.trainer import prepare_features
            from voxyard.trainer.corpora import feature_settings

            loaded = _load(flags, config).config
            with _progress("writing shards") as progress:
                made = write_shards(
                    source,
                    destination,
                    sample_rate=loaded.model.sample_rate,
                    text_units=loaded.model.text_units,
                    language=loaded.model.language,
                    max_bad_share=loaded.data.max_bad_share,
                    hop_length=loaded.model.hop_length,
                    features=prepare_features(loaded) if features else None,
                    feature_settings=feature_settings(loaded),
                    progress=progress,
                )
        for clip in made.bad[:20]:
            log.warning("skipped %s", clip)
        print(made)

    return prepare


@click.command(context_settings=_CONTEXT)
@click.argument("directory", type=_PATH)
@_JSON
def check(directory: Path, as_json: bool) -> None:
    """Read a whole corpus and say what is wrong with it; exit code 1 where clips are broken."""
    with _answering("corpus check"):
        from voxyard.corpus import check as survey

        found = survey(directory)
    print(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if found.bad:
        raise click.exceptions.Exit(CHECK_FAILED)


def _corpus() -> click.Command:
    return LazyGroup(
        "corpus",
        help="Make, prepare and check corpora of recorded speech.",
        context_settings=_CONTEXT,
        entries={
            "demo": ("Make a small corpus with espeak-ng's voices; nothing is downloaded.", lambda: demo),
            "prepare": ("Write a corpus as shards, the fast way to train from.", _prepare),
            "check": ("Read a whole corpus and say what is wrong with it.", lambda: check),
        },
    )


@click.group(
    cls=LazyGroup,
    context_settings=_CONTEXT,
    entries={
        "train": ("Train a text-to-speech model from recordings.", _train),
        "synthesize": ("Let a trained model speak: text in, a WAV file out.", lambda: synthesize),
        "corpus": ("Make, prepare and check corpora of recorded speech.", _corpus),
    },
)
@click.version_option(__version__, prog_name="voxyard", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")
def voxyard(verbose: bool) -> None:
    """Run speech models on a company's own GPU hosts."""
    _configure_logging(verbose)


def main() -> NoReturn:
    """Run the command line and leave with its exit code: 0 success, 1 a check failed, 2 wrong use."""
    code = 0
    try:
        code = int(voxyard.main(standalone_mode=False) or 0)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("voxyard: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough; the flush at exit must be quiet too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _load(flags: Mapping[str, object], config: Path | None) -> Loaded[TrainConfig]:
    from voxyard.settings import load
    from voxyard.trainer.aliases import ALIASES
    from voxyard.trainer.config import TrainConfig

    loaded = load(TrainConfig, flags=flags, file=config, aliases=ALIASES)
    for note in loaded.notes:
        log.info("%s", note)
    for key, origin in loaded.origins.items():
        if origin != "default":
            section, _, name = key.partition(".")
            log.debug("%s is %s (%s)", key, getattr(getattr(loaded.config, section), name), origin)
    return loaded


@contextmanager
def _answering(command: str) -> Iterator[None]:
    """What a user can cause ends as a sentence on standard error and an exit code."""
    try:
        from voxyard.corpus import CorpusError
        from voxyard.host import HostError
        from voxyard.settings import SettingsError
        from voxyard.telemetry import TelemetryError
        from voxyard.trainer.errors import TrainerError

        try:
            yield
        except (CorpusError, HostError, SettingsError, TelemetryError, TrainerError) as error:
            _refuse(command, str(error), getattr(error, "exit_code", WRONG_USE))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "voxyard"):
            raise
        _refuse(
            command,
            f"needs {package}, which is not installed: pip install 'voxyard[trainer,cpu]', or "
            "'voxyard[trainer,gpu]', which downloads several GB of CUDA packages",
            WRONG_USE,
        )


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's standard error, driven by (done, of how many)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _refuse(command: str, message: str, code: int) -> NoReturn:
    for line in message.splitlines():
        print(f"voxyard {command}: {line}", file=sys.stderr)
    raise click.exceptions.Exit(code)


class _Stderr(logging.Handler):
    """Writes to whatever standard error is now: a progress bar puts its own in the way while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, one line."""
        prefix = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        print(prefix + self.format(record), file=sys.stderr, flush=True)


def _configure_logging(verbose: bool) -> None:
    handler = _Stderr()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's own notes on start-up
