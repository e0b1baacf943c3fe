"""Corpus sync: inputs of runs (corpora, initial checkpoints), named by content hash, sent once, immutable."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh import rsync
from fleet.ssh.command_batch import Command, host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

Kind = Literal["recordings", "shards", "checkpoint"]

SOURCE = "source"  # the transferred files; prepared shards lie beside it
_METADATA = ("metadata.csv", "metadata_train.csv")
_SHARDS = ("index.json", "index.npz")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class RunInput:
    """Input directory of a run, identified by its content hash."""

    name: str
    id: str  # hash of all file names and contents, 12 hex digits
    kind: Kind
    files: int = 0
    size_bytes: int = 0

    @property
    def place(self) -> str:
        """Path on a host, below corpora/."""
        return f"{self.name}/{self.id}"

    def to_json(self) -> dict[str, Any]:
        """Entry of the run's manifest."""
        return {"name": self.name, "id": self.id, "kind": self.kind}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RunInput:
        """Parses the output of `to_json`."""
        return cls(str(found["name"]), str(found["id"]), found["kind"])


def kind_of(folder: Path) -> Kind:
    """Kind of data in `folder`. Raises FleetError for other directories."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise FleetError(f"{folder} {what}: expected a corpus in LJSpeech layout (metadata.csv, wavs/), or shards")
    if any((folder / name).is_file() for name in _SHARDS):
        return "shards"
    if any((folder / name).is_file() for name in _METADATA):
        return "recordings"
    if any(folder.glob("step-*/meta.json")) or (folder / "meta.json").is_file():
        return "checkpoint"
    found = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise FleetError(
        f"{folder} holds no {' or '.join(_METADATA)} and no shards (made by `voxyard corpus prepare`); it holds {found}"
    )


def read_input(folder: Path) -> RunInput:
    """Read and hash all files of `folder`. Raises FleetError for unreadable files."""
    kind = kind_of(folder)
    digest, files, size = hashlib.sha256(), 0, 0
    for name, path in _files(folder):
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
                size += os.fstat(file.fileno()).st_size
        except OSError as error:
            raise FleetError(
                f"{path} cannot be read ({error.strerror}): correct its permissions, an incomplete corpus is not sent"
            ) from None
        digest.update(f"{content}  {name}\n".encode(errors="surrogateescape"))
        files += 1
    return RunInput(_slug(folder.resolve().name), digest.hexdigest()[:12], kind, files, size)


def send(session: Session, host: Host, folder: Path, content: RunInput, busy: Callable[[], str | None]) -> bool:
    """Sync the local `folder` with `content` to the host; True where files were sent.

    The transfer goes to a partial directory and is renamed when complete; an interrupted one is continued. Existing
    content is compared by checksums and replaced where it differs, unless a run reads it (`busy` returns its id).
    Raises HostFailedError.
    """
    there = f"{host.files}/corpora/{content.place}/{SOURCE}"
    state = _answer(host, session, host_verb("corpus_inspect", content.name, content.id)).split()
    if "whole" in state:
        differs = rsync.run(host, rsync.compare_command(host, folder, there)).out.strip()
        if not differs:
            return False
        if user := busy():
            raise HostFailedError(
                f"{host.name}: the corpus {content.name} ({content.id}) was changed on the host ({_first(differs)}), "
                f"and the run {user} reads it: stop the run first ({fab()} stop --host {host.name} --run {user})"
            )
        log.info(
            "%s: the corpus %s was changed on the host (%s): sending it again", host.name, content.name, _first(differs)
        )
    size = f"{content.files} files, {content.size_bytes / 1e6:.0f} MB"
    log.info("%s: sending corpus %s, version %s (%s)", host.name, content.name, content.id, size)
    beside = f"{host.files}/corpora/{content.name}/.{content.id}"
    newest = next((word.removeprefix("beside:") for word in state if word.startswith("beside:")), None)
    link = None if newest is None else f"../{newest}/{SOURCE}"
    rsync.run(host, rsync.push_command(host, folder, f"{beside}.partial", link_to=link, lock=f"{beside}.lock"))
    _answer(host, session, host_verb("corpus_install", content.name, content.id, seconds=300))
    return True


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """All files below `folder` with relative names, links followed, sorted."""
    found: list[tuple[str, Path]] = []
    for place, folders, names in os.walk(folder, followlinks=True, onerror=_refuse_unreadable):
        folders.sort()
        found += [(str((Path(place) / name).relative_to(folder)), Path(place) / name) for name in names]
    for name, path in sorted(found):
        if not path.is_file():
            raise FleetError(f"{path} is not a file or a dangling link: remove it from the corpus")
        yield name, path


def _refuse_unreadable(error: OSError) -> None:
    raise FleetError(
        f"{error.filename} cannot be read ({error.strerror}): correct its permissions, an incomplete corpus is not sent"
    )


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40] or "corpus"


def _first(differs: str) -> str:
    lines = differs.splitlines()
    return f"{lines[0].split()[-1]}" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")


def _answer(host: Host, session: Session, command: Command) -> str:
    return must(session, host.name, command.name.replace("-", " "), command).out
