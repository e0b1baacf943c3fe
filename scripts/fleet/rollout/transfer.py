"""Transfers a release to a host: images, artefacts, files, secrets."""

from __future__ import annotations

import hashlib
import logging
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import known
from fleet.facts.machine import IMAGES, HostImage
from fleet.images import archive as image_archive
from fleet.images.archive import ImageCache
from fleet.images.image import LocalImage
from fleet.release.artefact import Artefact
from fleet.release.release import Release
from fleet.rollout import commands
from fleet.rollout.change_plan import ImageTransfer, layers_present, megabytes
from fleet.ssh.command_batch import Answer, Command, host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must, tar_of

log = logging.getLogger("fleet")

SUMS = ".sha256"
_CHUNK = 1 << 20
_SECONDS = 3600  # of an image that is pulled, of an artefact
_LOAD = Command("load-image", "docker load --quiet", 1800)
_WRITE_SECRETS = host_verb("secrets_write", seconds=60)


def _nothing() -> None:
    """Default check between two chunks: never stops."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfers files and images to one host; `check` is called between chunks and may raise to stop."""

    host: str
    session: Session
    cache: ImageCache
    check: Callable[[], None] = _nothing

    def image(self, image_transfer: ImageTransfer) -> None:
        """Pull or send an image and verify its layers. Raises HostFailedError, FleetError."""
        image = image_transfer.image
        log.info("%s: %s", self.host, image_transfer)
        if image.digest is not None:
            command = host_verb("image_pull", image.digest, image.release_tag, seconds=_SECONDS)
            must(self.session, self.host, f"pull {image.digest}", command)
        else:
            self._send_image(image)
        there = self._image(image.reference)
        if there is None or not image.has_layers(there.layers):
            raise HostFailedError(
                f"{self.host}: the image {image.reference} differs from the local one after the transfer: "
                "compare docker image inspect on both machines"
            )

    def artefact(self, artefact: Artefact) -> None:
        """Send an artefact; resumes an interrupted transfer. Raises as `image` does."""
        command = host_verb("artefact_partial", artefact.name, seconds=_SECONDS)
        there = dict(_sums(self.session.run([command])[command.name]))
        missing = [name for name, checksum in artefact.checksums.items() if there.get(name) != checksum]
        kept = f", {len(artefact.checksums) - len(missing)} files present" if there else ""
        log.info("%s: sending %s (%s%s)", self.host, artefact.name, megabytes(artefact.size_bytes), kept)
        sent = self._checked(_artefact_archive(artefact, missing))
        receive = host_verb("artefact_write", artefact.name, seconds=_SECONDS)
        must(self.session, self.host, f"receive {artefact.name}", receive, sent)

    def files(self, release: Release) -> None:
        """Write the files of the release. Raises HostFailedError."""
        log.info("%s: writing release %s", self.host, release.id)
        command = host_verb("release_write", release.id, commands.sums(release.checksums), seconds=60)
        must(self.session, self.host, "write the release", command, [release.archive()])

    def secrets(self, secrets: Mapping[str, bytes]) -> None:
        """Write secrets, sent on standard input only. Raises HostFailedError."""
        log.info("%s: writing secrets: %s", self.host, ", ".join(secrets))
        must(self.session, self.host, "write the secrets", _WRITE_SECRETS, [secrets_archive(secrets)])

    def _send_image(self, image: LocalImage) -> None:
        path = self.cache.archive(image)
        command = _LOAD
        if count := layers_present(image, self._images()):  # read again: an earlier transfer may have added layers
            size = megabytes(image_archive.size_without_layers(path, count))
            log.info("%s: %d of %d layers present, sending %s", self.host, count, len(image.layers), size)
            answer = self.session.send(command, self._checked(image_archive.without_layers(path, count)))
            there = self._image(image.reference) if answer.ok else None
            if there is not None and there.layers == image.layers:
                return
            log.info("%s: loading only the upper layers failed (%s): sending all layers", self.host, answer.message)
        must(self.session, self.host, "load the image", command, self._checked(image_archive.read(path)))

    def _image(self, name: str) -> HostImage | None:
        return next((each for each in self._images() if name in each.names), None)

    def _images(self) -> tuple[HostImage, ...]:
        return known(IMAGES.among(self.session.run([IMAGES.command])), ())

    def _checked(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.check()
            yield part


def secrets_archive(secrets: Mapping[str, bytes]) -> bytes:
    """Tar archive of secrets and their checksums."""
    sums = {name: hashlib.sha256(value).hexdigest() for name, value in secrets.items()}
    return tar_of({**secrets, SUMS: commands.sums(sums).encode()}.items())


def _artefact_archive(artefact: Artefact, names: Iterable[str]) -> Iterator[bytes]:
    """Tar archive of artefact files, followed by the checksums of all files. Raises FleetError."""
    for name in names:
        yield from _file(artefact.source / name, name)
    sums = commands.sums(artefact.checksums).encode()
    yield _header(SUMS, len(sums)) + sums + bytes(-len(sums) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(path: Path, name: str) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            size = left = path.stat().st_size
            yield _header(name, size)
            while left:
                chunk = file.read(min(_CHUNK, left))
                if not chunk:
                    raise FleetError(f"{path} was truncated during the transfer: deploy again when it is complete")
                left -= len(chunk)
                yield chunk
            yield bytes(-size % tarfile.BLOCKSIZE)
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from error


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o444
    return member.tobuf(tarfile.GNU_FORMAT)


def _sums(answer: Answer) -> Iterator[tuple[str, str]]:
    for line in answer.out.splitlines():
        checksum, _, name = line.partition("  ")
        yield name, checksum
