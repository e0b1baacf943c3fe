"""The command line: parse, call, print. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import NoReturn

import click

from voxyard import __version__
from voxyard.cli.base import CONTEXT, INTERRUPTED, LazyGroup


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    entries={
        "train": ("Train a text-to-speech model from recordings.", "voxyard.cli.train:train"),
        "profile": (
            "Profile a training run and suggest changes.",
            "voxyard.cli.diagnose:profile",
        ),
        "validate": (
            "Check that this host can train as configured: five checks with figures.",
            "voxyard.cli.diagnose:validate",
        ),
        "stress": (
            "Load the devices with the trainer's real step, and judge how busy they are.",
            "voxyard.cli.diagnose:stress",
        ),
        "diagnose": (
            "Collect everything about a slow training into one archive, without secrets.",
            "voxyard.cli.diagnose:diagnose",
        ),
        "synthesize": ("Synthesize speech with a trained model, into a WAV file.", "voxyard.cli.train:synthesize"),
        "export": ("Export a trained voice as one directory, to speak and serve with.", "voxyard.cli.train:export"),
        "speak": ("Speak a document on all GPUs, into an audio file.", "voxyard.cli.speak:speak"),
        "serve": (
            "Run the speech service: OpenAI-compatible API, durable documents, web page.",
            "voxyard.cli.serve:serve",
        ),
        "cluster": (
            "Share the GPUs of several hosts: one service speaks on all of them.",
            "voxyard.cli.cluster:cluster",
        ),
        "weights": ("Download, make and check Bark's weights.", "voxyard.cli.weights:weights"),
        "voices": ("List the voices of an engine.", "voxyard.cli.voices:voices"),
        "keys": ("Create, list, limit and revoke API keys of `voxyard serve`.", "voxyard.cli.keys:keys"),
        "gpus": ("List this host's GPUs as NVIDIA's library numbers them.", "voxyard.cli.host:gpus"),
        "topology": ("Show the links between the GPUs, and the best pair.", "voxyard.cli.host:topology"),
        "limits": ("Recommend memory limits, batch and buffers for this host.", "voxyard.cli.host:limits"),
        "exporter": ("Export GPU metrics to Prometheus.", "voxyard.cli.telemetry:exporter"),
        "monitor": ("Watch the GPUs live in the terminal.", "voxyard.cli.telemetry:monitor"),
        "corpus": ("Make, prepare and check corpora of recorded speech.", "voxyard.cli.corpus:corpus"),
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
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name of bytes, or an encoding of few letters
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


class _Stderr(logging.Handler):
    """Writes to whatever standard error is now: a progress bar puts its own in the way while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, one line."""
        prefix = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        print(prefix + self.format(record), file=sys.stderr, flush=True)


def _configure_logging(verbose: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[_Stderr()], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's own notes on start-up
