"""Shell commands of a rollout; this module builds them and runs none.

Files that a service reads anew lie in config/SERVICE on the host, with a directory a version: `current` leads to the
one that the service reads, and `loaded` names the one that it was seen to work with.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from fleet.images.third_party import NODE_EXPORTER
from fleet.inventory.secrets import CLUSTER_TOKEN, service_of
from fleet.release.config_hash import variable
from fleet.release.manifest import ServiceEntry
from fleet.release.service import ConfigFiles
from fleet.release.tls import OF_NODE_EXPORTER
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.verbs import http

EXPORTER = "exporter"  # runs on every host
EXPORTERS = ("exporter", "node-exporter")  # they use no GPU, and a drain leaves them
LOAD_SECONDS = 1800
PULL_SECONDS = 3600
UP_SECONDS = 180
ARTEFACT_SECONDS = 3600


def load_image() -> Command:
    """Loads an image archive (docker save) from standard input."""
    return Command("load-image", "docker load --quiet", LOAD_SECONDS)


def pull_image(reference: str, tag: str) -> Command:
    """Pulls an image by digest and tags it."""
    return Command("pull-image", verb("image_pull", reference, tag), PULL_SECONDS)


def write_release(release: str, checksums: Mapping[str, str]) -> Command:
    """Unpacks a release's files, a tar archive on standard input, atomically.

    tar accepts an archive that was cut off between two files: the checksums detect it. They stay beside the files to
    detect later changes.
    """
    return Command("write-release", verb("release_write", release, sums(checksums)), 60)


def write_secrets() -> Command:
    """Unpacks secrets and their checksums (.sha256), a tar archive on standard input; writes each file atomically."""
    return Command("write-secrets", verb("secrets_write"), 60)


def stop(service: str, seconds: int, *, remove: bool = False) -> Command:
    """Stops the containers of a service, with a grace period in seconds."""
    return Command("stop", verb("service_stop", service, str(seconds), *(["remove"] if remove else [])), seconds + 60)


def start(
    release: str,
    compose_files: Sequence[str],
    environment_file: str,
    service: str,
    *,
    secrets: Iterable[str] = (),
    foreign: bool = False,
) -> Command:
    """Starts a service of a release in a new container, after its data and `secrets` belong to its user.

    A `foreign` one has none.
    Compose detects neither changed files under the same name nor unhealthy containers.
    """
    owned = [] if service == NODE_EXPORTER else [f"../../data/{service}"]
    owned += [f"../../secrets/{name}" for name in secrets if _reads(service, name)]
    owned = [] if foreign else owned
    image = variable(service, "IMAGE") if owned else ""  # of the container that hands over
    words = (release, environment_file, service, image, *compose_options(compose_files), "--", *owned)
    return Command("start", verb("service_start", *words), UP_SECONDS)


def _reads(service: str, secret: str) -> bool:
    """True for a secret that is to belong to the user of the service, by file name."""
    if service_of(secret) == "custom":
        return False  # it stays the login's: root in a container reads it
    if service == NODE_EXPORTER or OF_NODE_EXPORTER in secret:
        return service == NODE_EXPORTER and OF_NODE_EXPORTER in secret
    return service not in EXPORTERS or service_of(secret) == "host"


def config_hashes(release: str, compose_files: Sequence[str], environment_file: str) -> Command:
    """Prints service and Compose configuration hash per line, as in com.docker.compose.config-hash."""
    return Command(
        f"hashes-{release}", verb("service_hashes", release, environment_file, *compose_options(compose_files)), 30
    )


def set_current(release: str, *, before: str | None, expected: bytes) -> Command:
    """Publishes the release as current, with atomic renames; then removes leftovers."""
    replaced = [before] if before is not None and before != release else []
    return Command("set-current", verb("release_publish", release, expected.decode(), *replaced))


def begin_maintenance(seconds: float) -> Command:
    """Notes for how long the host is being worked on: its exporter tells the end, and its alerts are nobody's call."""
    return Command("begin-maintenance", verb("maintenance_begin", str(round(seconds))))


def end_maintenance() -> Command:
    """Removes the note, where there is one."""
    return Command("end-maintenance", verb("maintenance_end"))


def checksums(release: str) -> Command:
    """Prints SHA-256 and name of each file of a release; no output where it does not exist."""
    return Command("checksums", verb("release_sums", release))


def release_file(release: str, name: str) -> Command:
    """Prints one file of a release."""
    return Command("release-file", verb("release_file", release, name))


def whole(release: str) -> Command:
    """Exits with 0 where the files of a release are unchanged."""
    return Command("whole", verb("release_whole", release))


def artefact_files(name: str) -> Command:
    """Prints SHA-256 and name of the files of an interrupted artefact transfer."""
    return Command("artefact-files", verb("artefact_partial", name), ARTEFACT_SECONDS)


def receive_artefact(name: str) -> Command:
    """Unpacks files of an artefact and the checksums of all (.sha256), a tar archive; makes them read-only."""
    return Command("receive-artefact", verb("artefact_write", name), ARTEFACT_SECONDS)


def cluster_status(container: str, head: str, workers: Sequence[str]) -> Command:
    """Prints the hosts of a Ray cluster as JSON, with those of `workers` that are missing; asked in a container."""
    words = ("docker", "exec", container, "voxyard", "cluster", "status", "--cluster", head, "--cluster-token")
    expected = ("--json", "--expect", ",".join(workers))
    return Command("cluster-status", shlex.join((*words, f"/run/secrets/{CLUSTER_TOKEN}", *expected)), 60)


def gpus(container: str, option: str, gpu: str) -> Command:
    """Takes a GPU out of work or returns it (`--take-out`, `--return`), by the container of the exporter."""
    return Command("gpus", shlex.join(("docker", "exec", container, "voxyard", "gpus", option, gpu)), 60)


def logs(container: str, *, until: str = "") -> Command:
    """Prints the last log lines of a container, optionally up to the time `until`."""
    end = f"--until {shlex.quote(until)} " if until else ""
    return Command("logs", f"docker logs --tail 400 {end}{shlex.quote(container)} 2>&1")


def deaths(container: str) -> Command:
    """Prints `die` and `oom` events of a container of the last minutes, with exit codes."""
    return Command("deaths", verb("container_deaths", container))


def list_releases() -> Command:
    """Prints the ids of all releases, newest first."""
    return Command("release-names", verb("release_names"))


def remove(
    releases: Iterable[str], artefacts: Iterable[str], image_names: Iterable[str], secrets: Iterable[str] = ()
) -> Command:
    """Removes releases, artefacts, images and secrets; the engine keeps images in use."""
    kinds = {"releases": releases, "artefacts": artefacts, "images": image_names, "secrets": secrets}
    words = [f"{kind}/{name}" for kind, names in kinds.items() for name in names]
    return Command("prune", verb("prune_remove", *words), 300)


def sums(checksums: Mapping[str, str]) -> str:
    """Checksums in the format of `sha256sum --check`."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())


def compose_options(compose_files: Sequence[str]) -> list[str]:
    """Options of Compose that name its files."""
    return [word for name in compose_files for word in ("--file", name)]


INSIDE = "/etc/voxyard/config"
"""Mount point of config/SERVICE in its container."""
CHECK_SECONDS = 120


def publish_config(release: str, service: str, files: ConfigFiles) -> Command:
    """Copies the files of a release for its service, readable by any user inside, and points `current` to them."""
    return Command("publish-config", verb("config_publish", release, service, files.digest), 60)


def confirm_config(service: str, files: ConfigFiles) -> Command:
    """Notes that the service works with these files."""
    return Command("confirm-config", verb("config_confirm", service, files.digest))


def reload_config(service: ServiceEntry) -> Command | None:
    """Makes the service read its files; None where it watches them itself."""
    if service.files is None or not service.files.reload:
        return None
    return http(f"reload-{service.name}", service.address, service.port, service.files.reload, "POST")


def check_config(release: str, service: ServiceEntry) -> Command | None:
    """Checks the files of a release with the program in the service's image; None where it has none."""
    if service.files is None or not service.files.check:
        return None
    inside = f"{INSIDE}/current"
    words = (release, service.name, service.image, inside, *service.files.check)
    return Command(f"check-{service.name}", verb("config_check", *words), CHECK_SECONDS)


def config_refusal(text: str) -> str:
    """Error lines of a check_config, without the paths inside."""
    lines = [line.strip() for line in text.replace(f"{INSIDE}/current/", "").splitlines() if line.strip()]
    bad = [line for line in lines if "FAILED" not in line and "SUCCESS" not in line and not line.startswith("Checking")]
    return " ".join(bad or lines)[-1500:]
