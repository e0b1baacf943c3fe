"""Sources of a model's files: the hub, or a directory. Both list their files and read them from any byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import checksums

PUBLISHED = {"bark": "suno/bark", "bark-small": "suno/bark-small"}
PATIENCE = 30.0  # seconds without a byte after which a connection counts as broken

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SETTINGS = frozenset(
    {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
        "special_tokens_map.json", "voxyard.json",
    }
)  # fmt: skip
_SAFE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
_PICKLED = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin|pytorch_model\.bin\.index\.json")
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class BrokenError(Exception):
    """The connection broke; it is worth another try."""


@dataclass(frozen=True)
class File:
    """One file of a model, with what its source says of its content."""

    name: str
    size: int  # bytes
    sha256: str | None = None
    git_blob: str | None = None  # what the hub says of small files instead

    @property
    def identity(self) -> str:
        """Differs where the content does: what was begun of one is never continued with another."""
        return (self.sha256 or self.git_blob or "unknown")[:16]


Blocks = tuple[int, Iterator[bytes]]  # the byte that the first block begins at


class ModelSource(Protocol):
    """A model's files, as they are somewhere else."""

    @property
    def title(self) -> str:
        """Name of the source, for people."""

    @property
    def revision(self) -> str | None:
        """The commit, where there is one."""

    @property
    def files(self) -> tuple[File, ...]:
        """Files of a model; others are left out."""

    def open(self, file: File, offset: int) -> AbstractContextManager[Blocks]:
        """Read a file from a byte on, or from its beginning where that cannot be.

        Raises:
            BrokenError: the connection broke; while it is read, too.
            BarkError: the file cannot be had.
        """


def belongs(name: str) -> bool:
    """True where a file of this name is read as part of a model."""
    return name in _SETTINGS or any(pattern.fullmatch(name) for pattern in (_SAFE, _PICKLED))


def parts(directory: Path) -> frozenset[str]:
    """The names of a model's files in a directory."""
    return frozenset(each.name for each in directory.iterdir() if each.is_file() and belongs(each.name))


def chosen(names: frozenset[str]) -> frozenset[str]:
    """Files to take of a model's: settings, tokenizer and weights; pickles only where nothing else is there."""
    safe = {name for name in names if _SAFE.fullmatch(name)}
    return frozenset(names & _SETTINGS) | (safe or {name for name in names if _PICKLED.fullmatch(name)})


class Directory:
    """A model on a disk."""

    revision: str | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self.title = str(path)
        names = chosen(parts(path))
        listed = checksums.read(path / checksums.SUMS) if (path / checksums.SUMS).is_file() else {}
        self.files = tuple(
            File(name, (path / name).stat().st_size, listed.get(name) or checksums.sha256(path / name))
            for name in sorted(names)
        )

    @contextmanager
    def open(self, file: File, offset: int) -> Iterator[Blocks]:
        """Read one of the files."""
        with (self._path / file.name).open("rb") as content:
            content.seek(offset)
            yield offset, iter(lambda: content.read(checksums.BLOCK), b"")


class Hub:
    """A model on the hub that huggingface_hub knows, at one commit."""

    def __init__(self, name: str, revision: str | None = None, endpoint: str | None = None) -> None:
        from huggingface_hub import HfApi

        if _NAME.fullmatch(name) is None:
            known = ", ".join(PUBLISHED)
            raise BarkError(f"there is no directory {name!r} and no such model: expected {known}, owner/name or a path")
        self._name, self._api = name, HfApi(endpoint=endpoint)
        self.title = f"{name} on {self._api.endpoint}"
        listing = self._ask(revision)
        commit = str(listing.sha)
        self.revision: str | None = commit
        self._commit = commit
        every = {each.rfilename: each for each in listing.siblings or ()}
        self.files = tuple(self._file(every[name]) for name in sorted(chosen(frozenset(every))))

    @contextmanager
    def open(self, file: File, offset: int) -> Iterator[Blocks]:
        """Read one of the files; a server that knows no ranges begins at its beginning."""
        from huggingface_hub import get_session, hf_hub_url, utils

        hub: Any = utils
        url = hf_hub_url(self._name, file.name, revision=self._commit, endpoint=self._api.endpoint)
        headers = {**hub.build_hf_headers(), "Accept-Encoding": "identity"}  # a range of packed bytes is of no use
        if offset:
            headers["Range"] = f"bytes={offset}-"
        try:
            with get_session().stream("GET", url, headers=headers, timeout=PATIENCE, follow_redirects=True) as answer:
                self._accept(answer.status_code, file.name)
                yield _start(answer, offset), answer.iter_bytes(checksums.BLOCK)
        except _http_error() as problem:
            raise BrokenError(_first_line(problem)) from problem

    def _accept(self, status: int, name: str) -> None:
        if status in _TRANSIENT:
            raise BrokenError(f"the server answers {status}")
        if status not in (200, 206):
            raise BarkError(f"{name} of {self.title} cannot be had: the server answers {status}, expected 200")

    def _ask(self, revision: str | None) -> Any:
        """The listing of a commit."""
        from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

        try:
            return self._api.model_info(self._name, revision=revision, files_metadata=True, timeout=PATIENCE)
        except RevisionNotFoundError as problem:
            raise BarkError(f"{self.title} has no revision {revision!r}: leave it out for the newest") from problem
        except RepositoryNotFoundError as problem:
            raise BarkError(
                f"there is no {self.title}, or it is not public; the published models are "
                f"{' and '.join(PUBLISHED.values())}"
            ) from problem
        except HfHubHTTPError as problem:
            status = getattr(problem.response, "status_code", "nothing")
            raise BarkError(f"{self.title} cannot be listed: the server answers {status}; try again later") from problem
        except (_http_error(), OSError) as problem:
            raise BarkError(
                f"{self.title} cannot be reached: {_first_line(problem)}. Check the network, or fetch on another "
                "machine and give the directory here: voxyard weights fetch DIR --out DIR"
            ) from problem
        except (ValueError, TypeError, KeyError) as problem:
            raise BarkError(f"what answers as {self.title} is no model hub: {_first_line(problem)}") from problem

    def _file(self, sibling: Any) -> File:
        if sibling.size is None:
            raise BarkError(f"{self.title} does not say how large {sibling.rfilename} is: this is no hub we know")
        large = sibling.lfs
        return File(sibling.rfilename, sibling.size, large.sha256 if large else None, sibling.blob_id)


def _http_error() -> type[Exception]:
    """Exception of the hub's client where the network fails: httpx's own, or that of its replacement."""
    from huggingface_hub.errors import HfHubHTTPError

    kind: type[Exception] = HfHubHTTPError.__bases__[0]
    return kind


def _start(answer: Any, offset: int) -> int:
    """The byte that an answer begins at."""
    if answer.status_code != 206:
        return 0
    said = str(answer.headers.get("Content-Range", ""))
    if not said.startswith(f"bytes {offset}-"):
        raise BrokenError(f"asked for bytes from {offset}, the server sends {said or 'some range'}")
    return offset


def _first_line(problem: BaseException) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def source(name: str, revision: str | None = None, endpoint: str | None = None) -> ModelSource:
    """The model of a name: a published one, one of the hub as owner/name, or a directory.

    `endpoint` is another address of the hub; HF_ENDPOINT has the same effect.

    Raises:
        BarkError: there is none, or the hub cannot be reached.
    """
    published = PUBLISHED.get(name, name)
    path = Path(name).expanduser()
    if published not in PUBLISHED.values() and path.is_dir():
        if revision is not None:
            raise BarkError(f"{name} is a directory, which has no revision {revision!r}: leave it out")
        try:
            return Directory(path)
        except OSError as problem:
            raise BarkError(f"the directory {name} cannot be read: {problem}") from problem
    return Hub(published, revision, endpoint)
