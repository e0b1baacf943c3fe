"""Shell commands of a rollout; this module builds them and runs none."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from fleet.release.config_hash import variable
from fleet.ssh.command_batch import Command

PROJECT = "voxyard"
EXPORTER = "exporter"  # runs on every host
STATELESS = ("exporter", "node-exporter")  # they use no GPU and keep no data
HOME = '"$HOME/.voxyard"'
LOAD_SECONDS = 1800
PULL_SECONDS = 3600
UP_SECONDS = 180
ARTEFACT_SECONDS = 3600
AS_ROOT = (
    "docker run --rm --pull never --network none --read-only --user 0:0 --cap-drop ALL --cap-add CHOWN "
    "--cap-add DAC_OVERRIDE --security-opt no-new-privileges:true"
)
"""Throw-away container that may change owners and remove what containers wrote, and nothing else."""
_COMPOSE_LABEL = f"--filter label=com.docker.compose.project={PROJECT}"


def load_image() -> Command:
    """Loads an image archive (docker save) from standard input."""
    return Command("load-image", "docker load --quiet", LOAD_SECONDS)


def pull_image(reference: str, tag: str) -> Command:
    """Pulls an image by digest and tags it."""
    source, name = shlex.quote(reference), shlex.quote(tag)
    return Command("pull-image", f"docker pull --quiet {source} && docker tag {source} {name}", PULL_SECONDS)


def write_release(release: str, checksums: Mapping[str, str]) -> Command:
    """Unpacks a release's files, a tar archive on standard input, atomically.

    tar accepts an archive that was cut off between two files: the checksums detect it. They stay beside the files to
    detect later changes.
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
        f"rm -rf {there}",  # same id with changed content
        f"mv -T {partial} {there}",
    ]
    return Command("write-release", "\n".join(lines), 60)


def write_secrets() -> Command:
    """Unpacks secrets and their checksums (.sha256), a tar archive on standard input; writes each file atomically."""
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
        "mv -f .partial/* .",
        "rmdir .partial",
    ]
    return Command("write-secrets", "\n".join(lines), 60)


def stop(service: str, seconds: int, *, remove: bool = False) -> Command:
    """Stops the containers of a service, with a grace period in seconds."""
    then = " && docker rm $ids >/dev/null" if remove else ""
    text = (
        f"ids=$(docker ps -aq {_COMPOSE_LABEL} --filter {_role(service)}) && "
        f'if [ -n "$ids" ]; then docker stop -t {seconds} $ids >/dev/null{then}; fi'
    )
    return Command("stop", text, seconds + 60)


def start(
    release: str, compose_files: Sequence[str], environment_file: str, service: str, *, secrets: Iterable[str] = ()
) -> Command:
    """Starts a service of a release in a new container, after its data and `secrets` belong to its user.

    Compose detects neither changed files under the same name nor unhealthy containers.
    """
    owned = [] if service in STATELESS else [f"../../data/{service}", *(f"../../secrets/{name}" for name in secrets)]
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p -m 0755 {HOME}/state",  # mounts must exist
        *(f"mkdir -p {HOME}/data/{shlex.quote(service)}" for _ in owned[:1]),
        f"cd {HOME}/releases/{shlex.quote(release)}",
        *(hand_over(owned, environment_file, variable(service, "IMAGE")) if owned else []),
        f"{_compose(release, compose_files, environment_file)} "
        f"up --detach --force-recreate --no-build --no-deps --quiet-pull {shlex.quote(service)}",
    ]
    return Command("start", "\n".join(lines), UP_SECONDS)


def hand_over(paths: Iterable[str], environment_file: str, image: str) -> list[str]:
    """Lines that give the paths, which exist, to the user of the containers, in the folder of the environment file.

    The login may not: a throw-away container does it, of the image that the variable `image` names. A release of an
    earlier version names the login as that user. chown changes a directory after all that it holds.
    """
    value = f"sed -n 's/^%s=//p' {shlex.quote(environment_file)}"
    return [
        f"owner=$({value % 'VOXYARD_UID'}):$({value % 'VOXYARD_GID'})",
        "set --",
        "handed=",
        f"for path in {' '.join(map(shlex.quote, paths))}; do",
        '  [ "$(stat -c %u:%g "$path")" != "$owner" ] || continue',
        '  handed="$handed /handed/$#"',
        '  set -- "$@" --volume "$(realpath "$path"):/handed/$#"',
        "done",
        f'[ -z "$handed" ] || {AS_ROOT} "$@" --entrypoint chown "$({value % image})" -hR "$owner" $handed',
    ]


def config_hashes(release: str, compose_files: Sequence[str], environment_file: str) -> Command:
    """Prints service and Compose configuration hash per line, as in com.docker.compose.config-hash."""
    text = f"{_compose(release, compose_files, environment_file)} config --hash '*'"
    return Command(f"hashes-{release}", text, 30)


def set_current(release: str, *, before: str | None, expected: bytes) -> Command:
    """Publishes the release as current, with atomic renames; then removes leftovers."""
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
        # Of interrupted deploys; secrets/.before is an earlier version's.
        "rm -rf secrets/.before secrets/.partial releases/.*.partial artefacts/.*.partial",
    ]
    return Command("set-current", "\n".join(lines))


def link(name: str) -> Command:
    """Prints the target of the link `current` or `previous`; no output where there is none."""
    return Command(name, f"readlink {HOME}/{name} || true")


def checksums(release: str) -> Command:
    """Prints SHA-256 and name of each file of a release; no output where it does not exist."""
    text = f"cd {HOME}/releases/{shlex.quote(release)} 2>/dev/null || exit 0; "
    text += "find . -type f ! -name .sha256 -printf '%P\\0' | xargs -0r sha256sum --"
    return Command("checksums", text)


def changed_files() -> Command:
    """Prints changed files of all releases as release/file, one per line."""
    text = (
        f"cd {HOME}/releases 2>/dev/null || exit 0; "
        'for name in *; do if [ -e "$name/.sha256" ]; then '
        '(cd "$name" && sha256sum --check --quiet .sha256 2>/dev/null) '
        "| sed -n 's/: FAILED.*//p' | sed \"s|^|$name/|\"; fi; done"
    )
    return Command("changed-files", text)


def current_files() -> Command:
    """Prints the files of the current release as a base64 tar archive; no output where there is none."""
    return Command("current-files", f"cd {HOME}/current/ 2>/dev/null && tar -cf - -- * | base64 -w 0 || true")


def release_file(release: str, name: str) -> Command:
    """Prints one file of a release."""
    return Command("release-file", f"cat {HOME}/releases/{shlex.quote(release)}/{shlex.quote(name)}")


def whole(release: str) -> Command:
    """Exits with 0 where the files of a release are unchanged."""
    text = f"cd {HOME}/releases/{shlex.quote(release)} && sha256sum --check --quiet --strict .sha256"
    return Command("whole", text)


def artefacts_there() -> Command:
    """Prints the names of complete artefacts."""
    return Command("artefacts", f"ls -1 {HOME}/artefacts 2>/dev/null || true")


def artefact_files(name: str) -> Command:
    """Prints SHA-256 and name of the files of an interrupted artefact transfer."""
    partial = shlex.quote(f".{name}.partial")
    text = (
        f"cd {HOME}/artefacts/{partial} 2>/dev/null && find . -type f -printf '%P\\0' | xargs -0r sha256sum -- || true"
    )
    return Command("artefact-files", text, ARTEFACT_SECONDS)


def receive_artefact(name: str) -> Command:
    """Unpacks files of an artefact and the checksums of all (.sha256), a tar archive; makes them read-only."""
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
        f"chmod u+w {partial}",  # renaming needs write permission
        f"mv -T {partial} {there}",
        f"chmod u-w {there}",
    ]
    return Command("receive-artefact", "\n".join(lines), ARTEFACT_SECONDS)


def secrets_there() -> Command:
    """Prints mode, SHA-256 and name of each secret; `-` for one that belongs to a container; not to be logged."""
    text = (
        f"cd {HOME}/secrets 2>/dev/null || exit 0; "
        'for name in *; do if [ -f "$name" ]; then stat -c %a -- "$name"; '
        'if [ -r "$name" ]; then sha256sum -- "$name"; else echo "-  $name"; fi; fi; done'
    )
    return Command("secrets", text)


def expected_state() -> Command:
    """Prints state/expected.json; no output where there is none."""
    return Command("expected", f"cat {HOME}/state/expected.json 2>/dev/null || true")


def images() -> Command:
    """Prints id, names and layers of each image, one line of JSON each."""
    shape = '{"id": {{json .Id}}, "tags": {{json .RepoTags}}, "digests": {{json .RepoDigests}}, '
    shape += '"layers": {{json .RootFS.Layers}}}'
    text = (
        "ids=$(docker images --quiet --no-trunc) && "
        f"printf '%s\\n' $ids | sort -u | xargs -r docker image inspect --format {shlex.quote(shape)}"
    )
    return Command("images", text, 60)


def http(name: str, address: str, port: int, path: str, method: str = "GET") -> Command:
    """Prints the response of an HTTP request, head and body; needs bash only, not curl."""
    target = "127.0.0.1" if address == "0.0.0.0" else "::1" if address == "::" else address  # noqa: S104
    request = f"{method} {path} HTTP/1.0\\r\\nHost: {target}\\r\\nContent-Length: 0\\r\\n\\r\\n"
    refused = f"{{ echo 'nothing listens on {target}:{port}' >&2; exit 1; }}"
    text = f"{{ exec 3<>/dev/tcp/{target}/{port}; }} 2>/dev/null || {refused}; printf '{request}' >&3 && cat <&3"
    return Command(name, f"bash -c {shlex.quote(text)}", 10)


def services() -> Command:
    """Prints `docker inspect` of the service containers; training runs have other projects."""
    text = (
        f"ids=$(docker ps --all --quiet --no-trunc {_COMPOSE_LABEL} --filter label=voxyard.role) && "
        "if [ -n \"$ids\" ]; then docker inspect $ids; else echo '[]'; fi"
    )
    return Command("services", text)


def compute_apps() -> Command:
    """Prints UUID, process id and MiB of each GPU process, one per line."""
    fields = "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"
    return Command("compute-apps", f"nvidia-smi {fields}", 30)


def processes(container: str) -> Command:
    """Prints the host process ids of a container."""
    return Command("processes", f"docker top {shlex.quote(container)} -eo pid")


def logs(container: str, *, until: str = "") -> Command:
    """Prints the last log lines of a container, optionally up to the time `until`."""
    end = f"--until {shlex.quote(until)} " if until else ""
    return Command("logs", f"docker logs --tail 400 {end}{shlex.quote(container)} 2>&1")


def deaths(container: str) -> Command:
    """Prints `die` and `oom` events of a container of the last minutes, with exit codes."""
    text = (
        f'docker events --since 5m --until "$(date +%s.%N)" --filter container={shlex.quote(container)} '
        "--filter event=oom --filter event=die "
        "--format '{{.Action}} {{index .Actor.Attributes \"exitCode\"}}'"
    )
    return Command("deaths", text)


def releases_there() -> Command:
    """Prints releases, newest first: name and base64 of release.json, one per line."""
    text = (
        f"cd {HOME}/releases 2>/dev/null || exit 0; "
        'for name in $(ls -1t); do printf "%s " "$name"; base64 -w 0 "$name/release.json" 2>/dev/null; echo; done'
    )
    return Command("releases", text)


def list_releases() -> Command:
    """Prints the ids of all releases, newest first."""
    return Command("release-names", f"ls -1t {HOME}/releases 2>/dev/null || true")


def in_use() -> Command:
    """Prints image, labels and mounts of each container, one line of JSON each."""
    shape = '{"image": {{json .Image}}, "name": {{json .Config.Image}}, "labels": {{json .Config.Labels}}, '
    shape += '"mounts": {{json .Mounts}}}'
    text = (
        "ids=$(docker ps --all --quiet --no-trunc) && "
        f'if [ -n "$ids" ]; then docker inspect --format {shlex.quote(shape)} $ids; fi'
    )
    return Command("in-use", text, 60)


def named_by_runs() -> Command:
    """Prints images, releases and artefacts named in the files of training runs."""
    text = (
        f"cd {HOME}/runs 2>/dev/null || exit 0; "
        "find . -maxdepth 2 -type f -size -256k -print0 | "
        "xargs -0r grep -ohE 'voxyard-trainer[:@][a-z0-9:]+|releases/[0-9a-f]{12}|(weights|voices)-[0-9a-f]{12}' "
        "| sort -u || true"
    )
    return Command("named-by-runs", text)


def remove(
    releases: Iterable[str], artefacts: Iterable[str], image_names: Iterable[str], secrets: Iterable[str] = ()
) -> Command:
    """Removes releases, artefacts, images and secrets; the engine keeps images in use."""
    lines = [f"cd {HOME} || exit 1", "failed=0"]
    lines += [f"rm -rf releases/{shlex.quote(name)} || failed=1" for name in releases]
    lines += [f"rm -f secrets/{shlex.quote(name)} || failed=1" for name in secrets]
    for name in artefacts:
        place = f"artefacts/{shlex.quote(name)}"
        lines.append(f"{{ chmod -R u+w {place} && rm -rf {place}; }} || failed=1")
    lines += [f"docker rmi {shlex.quote(name)} >/dev/null || failed=1" for name in image_names]
    return Command("prune", "\n".join([*lines, "exit $failed"]), 300)


def sums(checksums: Mapping[str, str]) -> str:
    """Checksums in the format of `sha256sum --check`."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())


def _compose(release: str, compose_files: Sequence[str], environment_file: str) -> str:
    files = " ".join(f"--file {shlex.quote(name)}" for name in compose_files)
    return (
        f"cd {HOME}/releases/{shlex.quote(release)} && "
        f"docker compose --project-name {PROJECT} --env-file {shlex.quote(environment_file)} {files}"
    )


def _role(service: str) -> str:
    return shlex.quote(f"label=voxyard.role={service}")
