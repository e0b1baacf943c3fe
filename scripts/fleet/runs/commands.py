"""Shell commands of training runs; this module builds them and runs none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from fleet.release.tls import CA_FILE, WEB_FILE
from fleet.rollout.commands import compose_options, sums
from fleet.runs.files import ENVIRONMENT, MANIFEST
from fleet.ssh.command_batch import Command, verb

RELEASE_FILES = ("voxyard.env", "plan.yaml", "trainer.yaml", WEB_FILE, CA_FILE)
EXISTS = 73  # EX_CANTCREAT: a run of this name exists
TAIL_LINES = 60


def release_there(release: str | None = None) -> Command:
    """Prints the id of the current or named release, then the files that runs need, one base64 line each."""
    place = "current" if release is None else f"releases/{release}"
    return Command("release", verb("run_release", place, *RELEASE_FILES))


def has_image(image: str) -> Command:
    """Exits with 0 where the host has the image."""
    return Command("has-image", f"docker image inspect --format '{{{{.Id}}}}' {shlex.quote(image)}")


def listing() -> Command:
    """Prints a line per run: name, manifest and report (base64), newest checkpoint, start state, drained, start time.

    A report older than the manifest belongs to an earlier part of the run. The start state is `begun` while Compose
    works, then its exit code; `-` where it was interrupted.
    """
    return Command("runs", verb("run_list", MANIFEST), 30)


def containers() -> Command:
    """Prints `docker inspect` of the containers of runs."""
    return Command("run-containers", verb("run_containers"), 30)


def tails() -> Command:
    """Prints id and last log lines (base64) of each training container, one line each."""
    return Command("run-logs", verb("run_tails", str(TAIL_LINES)), 30)


def write_run(run: str, checksums: Mapping[str, str], *, again: bool) -> Command:
    """Unpacks a run's files, a tar archive on standard input: a new directory atomically, or `again` file by file.

    Exits with EXISTS where a new run has the name of an existing one.
    """
    return Command("write-run", verb("run_write", run, sums(checksums), *(["again"] if again else [])), 60)


def run_files(run: str) -> Command:
    """Prints the files of a run as a base64 tar archive."""
    return Command("run-files", verb("run_files", run))


def has_shards(place: str, shards: str) -> Command:
    """Exits with 0 where these shards exist."""
    return Command("has-shards", verb("corpus_has", f"{place}/{shards}"))


def start(run: str, compose_files: Sequence[str], corpora: Sequence[str], *, prepare: bool) -> Command:
    """Starts a run and keeps earlier logs; Compose writes start.log and its exit code to start.code.

    Before that the containers' user can read the corpora, write shards beside the first, and owns the checkpoints.

    Compose waits until the corpus is prepared, in the background: it continues without the connection.
    """
    options = [*compose_options(compose_files), *([] if prepare else ["--no-deps"])]
    return Command("start-run", verb("run_start", run, ENVIRONMENT, *options, "--", *corpora), 60)


def make_readable(run: str, image: str) -> Command:
    """Makes the checkpoints of a run readable for the login: a throw-away container does it as their owner."""
    return Command("make-readable", verb("run_make_readable", run, image), 120)


def keep_logs(run: str) -> Command:
    """Saves the container logs of a run in its logs/, one file per start."""
    return Command("keep-logs", verb("run_keep_logs", run), 120)


def start_log(run: str) -> Command:
    """Prints the output of Compose at the start of the run."""
    return Command("start-log", verb("run_start_log", run))


def stop(run: str, seconds: int) -> Command:
    """Stops the containers of a run, with a grace period for the checkpoint.

    A Compose that still waits for the corpus is stopped first, so that it starts nothing afterwards.
    """
    return Command("stop-run", verb("run_stop", run, str(seconds)), seconds + 60)


def mark_drained(run: str) -> Command:
    """Marks the run as drained: to be resumed after the deployment."""
    return Command("mark-drained", verb("run_mark_drained", run))


def unmark_drained(run: str) -> Command:
    """Removes the drained mark."""
    return Command("unmark-drained", verb("run_unmark_drained", run))


def logs(filters: Mapping[str, str], *, lines: int, since: str = "") -> Command:
    """Prints the last `lines` of each container with these labels, with timestamps.

    With `since` (a timestamp), prints lines from then on.
    """
    option = ("--since", since) if since else ("--tail", str(lines))
    return Command("logs", verb("container_logs", *option, *_label_filters(filters)), 60)


def running_containers(filters: Mapping[str, str]) -> Command:
    """Prints the ids of running containers with these labels."""
    return Command("still-there", shlex.join(["docker", "ps", "-q", *_label_filters(filters)]))


def _label_filters(labels: Mapping[str, str]) -> list[str]:
    return [word for name, value in labels.items() for word in ("--filter", f"label={name}={value}")]
