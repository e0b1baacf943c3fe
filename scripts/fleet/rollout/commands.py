"""The command lines with which a host is changed or asked about a release; built here, run elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from fleet.ssh.command_batch import Command

PROJECT = "voxyard"
EXPORTER = "exporter"  # the service that runs on every host, and keeps nothing
HOME = '"$HOME/.voxyard"'
LOAD_SECONDS = 1800
PULL_SECONDS = 3600
UP_SECONDS = 180
ARTEFACT_SECONDS = 3600
_COMPOSE_LABEL = f"--filter label=com.docker.compose.project={PROJECT}"


def load_image() -> Command:
    """Takes an image as `docker save` writes it from standard input."""
    return Command("load-image", "docker load --quiet", LOAD_SECONDS)


def pull_image(reference: str, tag: str) -> Command:
    """Fetches an image from its registry by digest, and gives it a tag, so that it is no image without a name."""
    source, name = shlex.quote(reference), shlex.quote(tag)
    return Command("pull-image", f"docker pull --quiet {source} && docker tag {source} {name}", PULL_SECONDS)


def write_release(release: str, checksums: Mapping[str, str]) -> Command:
    """Takes a release's files as a tar archive from standard input; they are there as a whole, or not at all.

    tar is content with an archive that was cut off between two files: the checksums are not. They stay beside the
    files, so that a file that is changed later is found.
    """
    partial, there = shlex.quote(f".{release}.partial"), shlex.quote(release)
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {HOME}/releases",
        f"cd {HOME}/releases",
        f"rm -rf {partial}",
        f"mkdir {partial}",
        f"tar -xpf - -C {partial}",
        f"printf %s {shlex.quote(sums(checksums))} > {partial}/.sha256",
        f"(cd {partial} && sha256sum --check --quiet --strict .sha256 >&2)",
        f"rm -rf {there}",  # of the same name, but with other content: somebody changed it there
        f"mv -T {partial} {there}",
    ]
    return Command("write-release", "\n".join(lines), 60)


def write_secrets() -> Command:
    """Takes secrets and their checksums (.sha256) as a tar archive from standard input; each file is replaced at once.

    Those that were there stay in secrets/.before until the release is found good.
    """
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {HOME}/secrets",
        f"cd {HOME}/secrets",
        "chmod 0700 .",
        "rm -rf .partial",
        "mkdir .partial",
        "tar -xf - -C .partial --no-same-permissions",
        "(cd .partial && sha256sum --check --quiet --strict .sha256 >&2 && rm .sha256)",
        "chmod 0600 .partial/*",
        "mkdir -p .before",
        # What a cut deploy put aside is older, and is what the current release ran with.
        'for name in .partial/*; do name=${name#.partial/}; if [ -e "$name" ] && ! [ -e ".before/$name" ]; '
        'then cp -p "$name" ".before/.$name.part"; mv ".before/.$name.part" ".before/$name"; fi; done',
        'for name in .partial/*; do mv -f "$name" "${name#.partial/}"; done',
        "rmdir .partial",
    ]
    return Command("write-secrets", "\n".join(lines), 60)


def restore_secrets(names: Iterable[str]) -> Command:
    """Puts back the secrets of these names with which the current release ran."""
    moves = [
        f"if [ -e {before} ]; then mv -f {before} {shlex.quote(name)} || exit 1; fi"
        for name, before in ((name, shlex.quote(f".before/{name}")) for name in names)
    ]
    lines = [f"cd {HOME}/secrets 2>/dev/null || exit 0", *moves, "rmdir .before 2>/dev/null || true"]
    return Command("restore-secrets", "\n".join(lines))


def stop(service: str, seconds: int, *, remove: bool = False) -> Command:
    """Ends the containers of a service, in order where they do so within `seconds`."""
    then = " && docker rm $ids >/dev/null" if remove else ""
    text = (
        f"ids=$(docker ps -aq {_COMPOSE_LABEL} --filter {_role(service)}) && "
        f'if [ -n "$ids" ]; then docker stop -t {seconds} $ids >/dev/null{then}; fi'
    )
    return Command("stop", text, seconds + 60)


def start(release: str, compose_files: Sequence[str], environment_file: str, service: str) -> Command:
    """Makes a service run as its release says, in a new container.

    Compose itself sees neither a changed file under the same name nor a container that is not well.
    """
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p -m 0755 {HOME}/state",  # what is mounted must be there, and belong to the login
        *([] if service == EXPORTER else [f"mkdir -p {HOME}/data/{shlex.quote(service)}"]),
        f"{_compose(release, compose_files, environment_file)} "
        f"up --detach --force-recreate --no-build --no-deps --quiet-pull {shlex.quote(service)}",
    ]
    return Command("start", "\n".join(lines), UP_SECONDS)


def config_hashes(release: str, compose_files: Sequence[str], environment_file: str) -> Command:
    """Prints what Compose makes of a release: a service and its hash a line, as in com.docker.compose.config-hash."""
    text = f"{_compose(release, compose_files, environment_file)} config --hash '*'"
    return Command(f"hashes-{release}", text, 30)


def set_current(release: str, *, before: str | None, expected: bytes) -> Command:
    """Names the release as the one that is good, each name in one step; then clears what is not needed any more."""
    lines = ["set -eu", "umask 077", f"cd {HOME}"]
    if before is not None and before != release:
        lines += [f"ln -sfn {shlex.quote(f'releases/{before}')} .previous.next", "mv -T .previous.next previous"]
    lines += [
        "mkdir -p -m 0755 state",
        "rm -f state/.expected.next",
        f"printf %s {shlex.quote(expected.decode())} > state/.expected.next",
        "chmod 0644 state/.expected.next",
        "mv -T state/.expected.next state/expected.json",
        f"ln -sfn {shlex.quote(f'releases/{release}')} .current.next",
        "mv -T .current.next current",
        "rm -rf secrets/.before releases/.*.partial artefacts/.*.partial",  # of deploys that were cut off
    ]
    return Command("set-current", "\n".join(lines))


def link(name: str) -> Command:
    """Prints the release that `current` or `previous` names, nothing where there is none."""
    return Command(name, f"readlink {HOME}/{name} || true")


def checksums(release: str) -> Command:
    """Prints name and SHA-256 of each file of a release, nothing where it is not there."""
    text = f"cd {HOME}/releases/{shlex.quote(release)} 2>/dev/null && sha256sum -- * || true"
    return Command("checksums", text)


def changed_files() -> Command:
    """Prints the files that are not as their release was written, of all releases: release/file, a line each."""
    text = (
        f"cd {HOME}/releases 2>/dev/null || exit 0; "
        'for name in *; do if [ -e "$name/.sha256" ]; then '
        '(cd "$name" && sha256sum --check --quiet .sha256 2>/dev/null) '
        "| sed -n 's/: FAILED.*//p' | sed \"s|^|$name/|\"; fi; done"
    )
    return Command("changed-files", text)


def current_files() -> Command:
    """Prints the files of the current release, a tar archive in base64; nothing where there is none."""
    return Command("current-files", f"cd {HOME}/current/ 2>/dev/null && tar -cf - -- * | base64 -w 0 || true")


def release_file(release: str, name: str) -> Command:
    """Prints one file of a release."""
    return Command("release-file", f"cat {HOME}/releases/{shlex.quote(release)}/{shlex.quote(name)}")


def whole(release: str) -> Command:
    """Answers 0 where a release is on the host as it was written."""
    text = f"cd {HOME}/releases/{shlex.quote(release)} && sha256sum --check --quiet --strict .sha256"
    return Command("whole", text)


def artefacts_there() -> Command:
    """Prints the names of the artefacts that are there as a whole."""
    return Command("artefacts", f"ls -1 {HOME}/artefacts 2>/dev/null || true")


def artefact_files(name: str) -> Command:
    """Prints name and SHA-256 of what a cut transfer left of an artefact."""
    partial = shlex.quote(f".{name}.partial")
    text = (
        f"cd {HOME}/artefacts/{partial} 2>/dev/null && find . -type f -printf '%P\\0' | xargs -0r sha256sum -- || true"
    )
    return Command("artefact-files", text, ARTEFACT_SECONDS)


def receive_artefact(name: str) -> Command:
    """Takes files of an artefact, and the checksums of all (.sha256), as a tar archive; then they are read-only."""
    partial, there = shlex.quote(f".{name}.partial"), shlex.quote(name)
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {HOME}/artefacts/{partial}",
        f"cd {HOME}/artefacts",
        f"rm -f {partial}/.sha256",
        f"tar -xf - -C {partial}",
        f"(cd {partial} && sha256sum --check --quiet --strict .sha256 >&2)",
        f"chmod -R a+rX,a-w {partial}",
        f"chmod u+w {partial}",  # a directory is renamed by who may write in it
        f"mv -T {partial} {there}",
        f"chmod u-w {there}",
    ]
    return Command("receive-artefact", "\n".join(lines), ARTEFACT_SECONDS)


def secrets_there() -> Command:
    """Prints mode, SHA-256 and name of each secret; the answer is for no log."""
    text = (
        f"cd {HOME}/secrets 2>/dev/null || exit 0; "
        'for name in *; do if [ -f "$name" ]; then stat -c %a -- "$name" && sha256sum -- "$name"; fi; done'
    )
    return Command("secrets", text)


def expected_state() -> Command:
    """Prints state/expected.json, nothing where there is none."""
    return Command("expected", f"cat {HOME}/state/expected.json 2>/dev/null || true")


def images() -> Command:
    """Prints every image of the host: a line of JSON with its id, its names and its layers."""
    shape = '{"id": {{json .Id}}, "tags": {{json .RepoTags}}, "digests": {{json .RepoDigests}}, '
    shape += '"layers": {{json .RootFS.Layers}}}'
    text = (
        "ids=$(docker images --quiet --no-trunc) && "
        f"printf '%s\\n' $ids | sort -u | xargs -r docker image inspect --format {shlex.quote(shape)}"
    )
    return Command("images", text, 60)


def http(name: str, address: str, port: int, path: str) -> Command:
    """Prints what answers there, its head and body. bash is on every host, curl is not."""
    target = "127.0.0.1" if address == "0.0.0.0" else "::1" if address == "::" else address  # noqa: S104
    request = f"GET {path} HTTP/1.0\\r\\nHost: {target}\\r\\n\\r\\n"
    refused = f"{{ echo 'nothing listens on {target}:{port}' >&2; exit 1; }}"
    text = f"{{ exec 3<>/dev/tcp/{target}/{port}; }} 2>/dev/null || {refused}; printf '{request}' >&3 && cat <&3"
    return Command(name, f"bash -c {shlex.quote(text)}", 10)


def services() -> Command:
    """Prints the containers of our services as `docker inspect` has them; those of runs have projects of their own."""
    text = (
        f"ids=$(docker ps --all --quiet --no-trunc {_COMPOSE_LABEL} --filter label=voxyard.role) && "
        "if [ -n \"$ids\" ]; then docker inspect $ids; else echo '[]'; fi"
    )
    return Command("services", text)


def compute_apps() -> Command:
    """Prints a line for each process that holds memory of a GPU: UUID, process id, MiB."""
    fields = "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"
    return Command("compute-apps", f"nvidia-smi {fields}", 30)


def processes(container: str) -> Command:
    """Prints the process ids of a container, as the host counts them."""
    return Command("processes", f"docker top {shlex.quote(container)} -eo pid")


def logs(container: str, *, until: str = "") -> Command:
    """Prints the last lines that a container wrote, before the moment `until` where one is given."""
    end = f"--until {shlex.quote(until)} " if until else ""
    return Command("logs", f"docker logs --tail 400 {end}{shlex.quote(container)} 2>&1")


def deaths(container: str) -> Command:
    """Prints how a container ended in the last minutes: a line with `die` and the exit code, one with `oom` before."""
    text = (
        f'docker events --since 5m --until "$(date +%s.%N)" --filter container={shlex.quote(container)} '
        "--filter event=oom --filter event=die "
        "--format '{{.Action}} {{index .Actor.Attributes \"exitCode\"}}'"
    )
    return Command("deaths", text)


def releases_there() -> Command:
    """Prints the releases of the host, newest first: a line with the name, then its release.json in base64."""
    text = (
        f"cd {HOME}/releases 2>/dev/null || exit 0; "
        'for name in $(ls -1t); do printf "%s " "$name"; base64 -w 0 "$name/release.json" 2>/dev/null; echo; done'
    )
    return Command("releases", text)


def list_releases() -> Command:
    """Prints the names of the releases of the host, newest first."""
    return Command("release-names", f"ls -1t {HOME}/releases 2>/dev/null || true")


def in_use() -> Command:
    """Prints image, release label and mounted directories of each container, a line of JSON each."""
    shape = '{"image": {{json .Image}}, "name": {{json .Config.Image}}, "labels": {{json .Config.Labels}}, '
    shape += '"mounts": {{json .Mounts}}}'
    text = (
        "ids=$(docker ps --all --quiet --no-trunc) && "
        f'if [ -n "$ids" ]; then docker inspect --format {shlex.quote(shape)} $ids; fi'
    )
    return Command("in-use", text, 60)


def named_by_runs() -> Command:
    """Prints the names of our images and releases that the files of runs hold."""
    text = (
        f"cd {HOME}/runs 2>/dev/null || exit 0; "
        "find . -maxdepth 2 -type f -size -256k -print0 | "
        "xargs -0r grep -ohE 'voxyard-trainer[:@][a-z0-9:]+|releases/[0-9a-f]{12}|(weights|voices)-[0-9a-f]{12}' "
        "| sort -u || true"
    )
    return Command("named-by-runs", text)


def remove(releases: Iterable[str], artefacts: Iterable[str], image_names: Iterable[str]) -> Command:
    """Removes what is not needed any more; an image that a container uses is refused by the engine."""
    lines = [f"cd {HOME} || exit 1", "failed=0"]
    lines += [f"rm -rf releases/{shlex.quote(name)} || failed=1" for name in releases]
    for name in artefacts:
        place = f"artefacts/{shlex.quote(name)}"
        lines.append(f"{{ chmod -R u+w {place} && rm -rf {place}; }} || failed=1")
    lines += [f"docker rmi {shlex.quote(name)} >/dev/null || failed=1" for name in image_names]
    return Command("prune", "\n".join([*lines, "exit $failed"]), 300)


def sums(checksums: Mapping[str, str]) -> str:
    """Checksums as `sha256sum --check` reads them."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())


def _compose(release: str, compose_files: Sequence[str], environment_file: str) -> str:
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    return (
        f"cd {HOME}/releases/{shlex.quote(release)} && "
        f"docker compose --project-name {PROJECT} --env-file {shlex.quote(environment_file)} {files}"
    )


def _role(service: str) -> str:
    return shlex.quote(f"label=voxyard.role={service}")
