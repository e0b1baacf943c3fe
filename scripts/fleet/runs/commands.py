"""Shell commands of training runs; this module builds them and runs none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from fleet.rollout.commands import HOME, hand_over, sums
from fleet.runs.files import ENVIRONMENT, MANIFEST
from fleet.ssh.command_batch import Command

RUNS = f"{HOME}/runs"
RELEASE_FILES = ("voxyard.env", "plan.yaml", "trainer.yaml")
EXISTS = 73  # EX_CANTCREAT: a run of this name exists
TAIL_LINES = 60
_RUN_LABEL = "voxyard.run"


def project(run: str) -> str:
    """Compose project of a run."""
    return f"voxyard-run-{run}"


def release_there(release: str | None = None) -> Command:
    """Prints the id of the current or named release, then the files that runs need, one base64 line each."""
    place = "current" if release is None else f"releases/{shlex.quote(release)}"
    text = (
        f'cd {HOME}/{place}/ 2>/dev/null || {{ echo "no such release" >&2; exit 1; }}; pwd -P; '
        f"for name in {' '.join(RELEASE_FILES)}; do "
        'if [ -e "$name" ]; then base64 -w 0 "$name" || exit 1; fi; echo; done'
    )
    return Command("release", text)


def has_image(image: str) -> Command:
    """Exits with 0 where the host has the image."""
    return Command("has-image", f"docker image inspect --format '{{{{.Id}}}}' {shlex.quote(image)}")


def listing() -> Command:
    """Prints a line per run: name, manifest and report (base64), newest checkpoint, start state, drained, start time.

    A report older than the manifest belongs to an earlier part of the run. The start state is `begun` while Compose
    works, then its exit code; `-` where it was interrupted.
    """
    lines = [
        f"cd {RUNS} 2>/dev/null || exit 0",
        f"for file in */{MANIFEST}; do",
        '  [ -e "$file" ] || continue',
        f"  run=${{file%/{MANIFEST}}}",
        '  report=-; last="$run/checkpoints/report.json"',
        '  if [ "$last" -nt "$file" ]; then report=$(base64 -w 0 "$last"); fi',
        '  newest=$(ls -1d "$run"/checkpoints/step-* 2>/dev/null | tail -n 1)',
        '  start=$(cat "$run/start.code" 2>/dev/null)',
        '  if [ -z "$start" ] && ' + _starting('"$run"') + "; then start=begun; fi",
        '  drained=no; [ ! -e "$run/drained" ] || drained=yes',
        '  printf "%s %s %s %s %s %s %s\\n" "$run" "$(base64 -w 0 "$file")" "$report" "${newest##*/}-" '
        '"${start:--}" "$drained" "$(stat -c %Y "$file")"',
        "done",
    ]
    return Command("runs", "\n".join(lines), 30)


def containers() -> Command:
    """Prints `docker inspect` of the containers of runs."""
    lines = [
        "for _ in 1 2 3 4 5; do",  # a container may be replaced in between
        f"  found=$(docker ps -aq --no-trunc --filter label={_RUN_LABEL}) || exit 1",
        "  if [ -z \"$found\" ]; then echo '[]'; exit 0; fi",
        "  if said=$(docker inspect $found 2>/dev/null); then printf '%s\\n' \"$said\"; exit 0; fi",
        "  sleep 0.5",
        "done",
        "docker inspect $found",
    ]
    return Command("run-containers", "\n".join(lines), 30)


def tails() -> Command:
    """Prints id and last log lines (base64) of each training container, one line each."""
    text = (
        f"for id in $(docker ps -aq --no-trunc --filter label={_RUN_LABEL} --filter label=voxyard.role=trainer); do "
        f'printf "%s %s\\n" "$id" "$(docker logs --tail {TAIL_LINES} "$id" 2>&1 | base64 -w 0)"; done'
    )
    return Command("run-logs", text, 30)


def write_run(run: str, checksums: Mapping[str, str], *, again: bool) -> Command:
    """Unpacks a run's files, a tar archive on standard input: a new directory atomically, or `again` file by file.

    Exits with EXISTS where a new run has the name of an existing one.
    """
    there, partial = shlex.quote(run), shlex.quote(f".{run}.partial")
    lines = ["set -eu", "umask 077", f"mkdir -p {RUNS}", f"cd {RUNS}"]
    if not again:
        lines.append(f"if [ -e {there} ]; then exit {EXISTS}; fi")
    lines += [
        f"rm -rf {partial}",
        f"mkdir {partial}",
        f"tar -xpmf - -C {partial}",  # with the current time: compared with the time of reports
        f"printf %s {shlex.quote(sums(checksums))} | (cd {partial} && sha256sum --check --quiet --strict -)",
    ]
    if again:
        lines += [f"mv -f {partial}/* {there}/", f"rmdir {partial}"]
    else:
        lines += [f"mkdir {partial}/checkpoints {partial}/logs", f"mv -T {partial} {there}"]
    return Command("write-run", "\n".join(lines), 60)


def run_files(run: str) -> Command:
    """Prints the files of a run as a base64 tar archive."""
    names = "find . -maxdepth 1 -type f -size -256k ! -name 'start.*' ! -name drained -printf '%P\\n'"
    text = f"cd {RUNS}/{shlex.quote(run)} && {names} | tar -cf - -T - | base64 -w 0"
    return Command("run-files", text)


def has_shards(place: str, shards: str) -> Command:
    """Exits with 0 where these shards exist."""
    return Command("has-shards", f'test -d "$HOME/.voxyard/corpora"/{shlex.quote(f"{place}/{shards}")}')


def start(run: str, compose_files: Sequence[str], corpora: Sequence[str], *, prepare: bool) -> Command:
    """Starts a run and keeps earlier logs; Compose writes start.log and its exit code to start.code.

    Before that the containers' user can read the corpora, write shards beside the first, and owns the checkpoints.

    Compose waits until the corpus is prepared, in the background: it continues without the connection.
    """
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    deps = "" if prepare else " --no-deps"
    compose = f"docker compose --project-name {project(run)} --env-file {ENVIRONMENT} {files}"
    up = f"{compose} up --detach --force-recreate --no-build{deps} --quiet-pull train"
    behind = f"echo $$ >.start.pid; mv .start.pid start.pid; {up} >start.log 2>&1; echo $? >.code; mv .code start.code"
    lines = [
        "set -eu",
        "umask 077",
        f"cd {RUNS}/{shlex.quote(run)}",
        "mkdir -p checkpoints logs",
        "[ ! -O checkpoints ] || chmod 0755 checkpoints",  # the login reads them afterwards
        f"for corpus in {' '.join(map(shlex.quote, corpora))}; do",
        '  find "../../corpora/$corpus" -user "$(id -u)" ! -perm -o=r -exec chmod go+rX {} +',
        "done",
        f"[ ! -O ../../corpora/{shlex.quote(corpora[0])} ] || chmod 0777 ../../corpora/{shlex.quote(corpora[0])}",
        *hand_over(["checkpoints"], ENVIRONMENT, "VOXYARD_TRAINER_IMAGE"),
        "rm -f start.code start.pid",
        _keep_logs(run),
        f"setsid nohup sh -c {shlex.quote(behind)} </dev/null >/dev/null 2>&1 &",
        "for _ in 1 2 3 4 5 6 7 8 9 10; do [ ! -e start.pid ] || exit 0; sleep 0.2; done",
        "echo 'the start did not begin' >&2; exit 1",
    ]
    return Command("start-run", "\n".join(lines), 60)


def make_readable(run: str, image: str) -> Command:
    """Makes the checkpoints of a run readable for the login: a throw-away container does it as their owner."""
    confined = "docker run --rm --pull never --network none --read-only --cap-drop ALL"
    lines = [
        f"cd {RUNS}/{shlex.quote(run)}/checkpoints || exit 1",
        '[ -n "$(find . ! -readable -print -quit)" ] || exit 0',
        f'{confined} --security-opt no-new-privileges:true --user "$(stat -c %u:%g .)" --volume "$PWD:/checkpoints" '
        f"--entrypoint chmod {shlex.quote(image)} -R go+rX /checkpoints",
    ]
    return Command("make-readable", "\n".join(lines), 120)


def keep_logs(run: str) -> Command:
    """Saves the container logs of a run in its logs/, one file per start."""
    text = f"umask 077; cd {RUNS}/{shlex.quote(run)} && mkdir -p logs && {_keep_logs(run)}"
    return Command("keep-logs", text, 120)


def start_log(run: str) -> Command:
    """Prints the output of Compose at the start of the run."""
    return Command("start-log", f"tail -n 15 {RUNS}/{shlex.quote(run)}/start.log 2>/dev/null || true")


def stop(run: str, seconds: int) -> Command:
    """Stops the containers of a run, with a grace period for the checkpoint.

    A Compose that still waits for the corpus is stopped first, so that it starts nothing afterwards.
    """
    name = shlex.quote(run)
    lines = [
        f"cd {RUNS} || exit 1",
        f'if {_starting(name)}; then kill -s TERM -- "-$(cat {name}/start.pid)"; fi',
        f"for _ in 1 2 3 4 5 6 7 8 9 10; do if {_starting(name)}; then sleep 0.5; else break; fi; done",
        f"ids=$(docker ps -q --filter label=com.docker.compose.project={project(run)}) || exit 1",
        f'if [ -n "$ids" ]; then docker stop -t {seconds} $ids >/dev/null; fi',
    ]
    return Command("stop-run", "\n".join(lines), seconds + 60)


def mark_drained(run: str) -> Command:
    """Marks the run as drained: to be resumed after the deployment."""
    return Command("mark-drained", f"umask 077; : > {RUNS}/{shlex.quote(run)}/drained")


def unmark_drained(run: str) -> Command:
    """Removes the drained mark."""
    return Command("unmark-drained", f"rm -f {RUNS}/{shlex.quote(run)}/drained")


def logs(filters: Mapping[str, str], *, lines: int, since: str = "") -> Command:
    """Prints the last `lines` of each container with these labels, with timestamps.

    With `since` (a timestamp), prints lines from then on.
    """
    labels = " ".join(f"--filter {shlex.quote(f'label={name}={value}')}" for name, value in filters.items())
    after = f" --since {shlex.quote(since)}" if since else f" --tail {lines}"
    text = f'for id in $(docker ps -aq {labels}); do docker logs --timestamps{after} "$id" 2>&1 || exit 1; done'
    return Command("logs", text, 60)


def running_containers(filters: Mapping[str, str]) -> Command:
    """Prints the ids of running containers with these labels."""
    labels = " ".join(f"--filter {shlex.quote(f'label={name}={value}')}" for name, value in filters.items())
    return Command("still-there", f"docker ps -q {labels}")


def _starting(run: str) -> str:
    """Shell condition: Compose is starting this run. The process id alone may be reused."""
    return f'grep -qs voxyard-run- "/proc/$(cat {run}/start.pid 2>/dev/null || echo none)/cmdline"'


def _keep_logs(run: str) -> str:
    name = '$(docker inspect --format \'{{index .Config.Labels "voxyard.role"}}-{{.State.StartedAt}}\' "$id")'
    return (
        f"for id in $(docker ps -aq --filter label={_RUN_LABEL}={shlex.quote(run)}); do "
        f'name=$(printf %s "{name}" | tr -c A-Za-z0-9- _); '
        'docker logs "$id" > "logs/.$name.part" 2>&1 && mv "logs/.$name.part" "logs/$name.log"; done'
    )
