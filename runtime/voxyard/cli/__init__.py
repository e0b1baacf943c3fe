"""The command line: parse, call, print. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import sys
from typing import NoReturn

import click

from voxyard import __version__
from voxyard.cli.base import CONTEXT, INTERRUPTED, LazyGroup

log = logging.getLogger("voxyard.cli")

_LIMITS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS}
"""Errors of the system that say what is wrong without a file's name."""


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
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name of bytes, or an encoding of few letters
    try:
        code = int(voxyard.main(standalone_mode=False) or 0)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("voxyard: interrupted")
        code = INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        code = 1
    except MemoryError:
        _say("voxyard: out of memory: free some, or raise the limit (ulimit -v)")
        code = 1
    except OSError as error:
        if error.filename is None and error.errno not in _LIMITS:
            raise
        log.debug("", exc_info=error)
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        _say(f"voxyard: {where}{error.strerror}")
        code = 1
    _drop_what_cannot_be_written()
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Standard streams that are closed lead nowhere: else files that are opened later would be these streams."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: that of the stream
            os.set_inheritable(opened, True)
            if name != "stdin":  # who reads from it is told that it is closed
                setattr(sys, name, os.fdopen(opened, "w"))


def _say(line: str) -> None:
    """Prints a line on standard error; where its terminal was closed or its disk is full, the command goes on."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _drop_what_cannot_be_written() -> None:
    """Makes Python's own flush at the exit quiet, where a stream's reader has left or its disk is full."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Stderr(logging.Handler):
    """Writes to whatever standard error is now: a progress bar puts its own in the way while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, one line."""
        prefix = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        _say(prefix + self.format(record))


def _configure_logging(verbose: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[_Stderr()], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's own notes on start-up
