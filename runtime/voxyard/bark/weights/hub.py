"""Sources of a model's files: the hub or a directory; both list files and read them from any offset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import checksums
from voxyard.bark.weights.checkpoint import elsewhere

PUBLISHED = {"bark": "suno/bark", "bark-small": "suno/bark-small"}
TIMEOUT = 30.0  # seconds without a byte after which a connection counts as broken

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SETTINGS = frozenset(
    {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
        "special_tokens_map.json", "voxyard.json",
    }
)  # fmt: skip
_SAFE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json")
_PICKLED = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin|pytorch_model\.bin\.index\.json")
_NOT_ALLOWED = frozenset({401, 403})
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class BrokenError(Exception):
    """The connection broke; to be retried."""


@dataclass(frozen=True)
class File:
    """One file of a model, with its source's size and checksums."""

    name: str
    size: int  # bytes
    sha256: str | None = None
    git_blob: str | None = None  # the hub's checksum of small files

    @property
    def identity(self) -> str:
        """Identity of the content, so that a download is resumed with the same content only."""
        return (self.sha256 or self.git_blob or "unknown")[:16]


Blocks = tuple[int, Iterator[bytes]]  # offset of the first block, blocks


class ModelSource(Protocol):
    """Source of a model's files."""

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
        """Read a file from an offset, or from its beginning where ranges are not supported.

        Raises:
            BrokenError: the connection broke, also while blocks are read.
            BarkError: the file cannot be downloaded.
        """


def belongs(name: str) -> bool:
    """True where a file of this name is part of a model."""
    return name in _SETTINGS or any(pattern.fullmatch(name) for pattern in (_SAFE, _PICKLED))


def parts(directory: Path) -> frozenset[str]:
    """The names of a model's files in a directory."""
    return frozenset(each.name for each in directory.iterdir() if each.is_file() and belongs(each.name))


def chosen(names: frozenset[str]) -> frozenset[str]:
    """Files to download: settings, tokenizer and weights; pickles only where there are no safetensors."""
    safe = {name for name in names if _SAFE.fullmatch(name)}
    return frozenset(names & _SETTINGS) | (safe or {name for name in names if _PICKLED.fullmatch(name)})


class Directory:
    """A model in a local directory."""

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
    """A model on the Hugging Face hub, at one commit."""

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
        """Read one of the files; a server without range support starts at offset 0."""
        from huggingface_hub import get_session, hf_hub_url, utils

        hub: Any = utils
        url = hf_hub_url(self._name, file.name, revision=self._commit, endpoint=self._api.endpoint)
        headers = {
            **hub.build_hf_headers(),
            "Accept-Encoding": "identity",
        }  # ranges of compressed bytes cannot be appended
        if offset:
            headers["Range"] = f"bytes={offset}-"
        try:
            with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT, follow_redirects=True) as answer:
                self._accept(answer.status_code, file.name)
                yield _start(answer, offset), answer.iter_bytes(checksums.BLOCK)
        except _http_error() as problem:
            raise BrokenError(_first_line(problem)) from problem

    def _accept(self, status: int, name: str) -> None:
        if status in _TRANSIENT:
            raise BrokenError(f"the server answers {status}")
        if status not in (200, 206):
            raise BarkError(f"{name} of {self.title} cannot be downloaded: the server answers {status}, expected 200")

    def _ask(self, revision: str | None) -> Any:
        """The listing of a commit."""
        from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

        try:
            return self._api.model_info(self._name, revision=revision, files_metadata=True, timeout=TIMEOUT)
        except RevisionNotFoundError as problem:
            raise BarkError(f"{self.title} has no revision {revision!r}: leave it out for the newest") from problem
        except RepositoryNotFoundError as problem:
            raise BarkError(
                f"there is no {self.title}, or it is not public; the published models are "
                f"{' and '.join(PUBLISHED.values())}"
            ) from problem
        except HfHubHTTPError as problem:
            status = getattr(problem.response, "status_code", "nothing")
            advice = "set HF_TOKEN to a token that it takes" if status in _NOT_ALLOWED else "try again later"
            raise BarkError(f"{self.title} cannot be listed: the server answers {status}; {advice}") from problem
        except ImportError as problem:  # a SOCKS proxy is set
            raise BarkError(f"{self.title} cannot be reached: {_first_line(problem)} Or set another proxy") from problem
        except (_http_error(), OSError) as problem:
            raise BarkError(
                f"{self.title} cannot be reached: {_first_line(problem)}. Check the network and HTTPS_PROXY, or "
                "download on another machine and copy the directory here: voxyard weights fetch DIR --out DIR"
            ) from problem
        except (ValueError, TypeError, KeyError) as problem:
            raise BarkError(f"the answer of {self.title} is not a model hub's: {_first_line(problem)}") from problem

    def _file(self, sibling: Any) -> File:
        if sibling.size is None:
            raise BarkError(f"{self.title} gives no size of {sibling.rfilename}: expected a Hugging Face hub")
        large = sibling.lfs
        return File(sibling.rfilename, sibling.size, large.sha256 if large else None, sibling.blob_id)


def _http_error() -> type[Exception]:
    """Network exception of the hub's client: httpx's, or that of its replacement."""
    from huggingface_hub.errors import HfHubHTTPError

    kind: type[Exception] = HfHubHTTPError.__bases__[0]
    return kind


def _start(answer: Any, offset: int) -> int:
    """Offset at which a response begins."""
    if answer.status_code != 206:
        return 0
    served = str(answer.headers.get("Content-Range", ""))
    if not served.startswith(f"bytes {offset}-"):
        raise BrokenError(f"asked for bytes from {offset}, the server sends {served or 'some range'}")
    return offset


def _first_line(problem: BaseException) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def source(name: str, revision: str | None = None, endpoint: str | None = None) -> ModelSource:
    """Source of a model by name: a published one, owner/name on the hub, or a directory.

    `endpoint` is the address of another hub; HF_ENDPOINT has the same effect.

    Raises:
        BarkError: there is none, or the hub cannot be reached.
    """
    published = PUBLISHED.get(name, name)
    path = Path(name).expanduser()
    if published not in PUBLISHED.values() and path.is_dir():
        if revision is not None:
            raise BarkError(f"{name} is a directory, which has no revision {revision!r}: leave it out")
        if fault := elsewhere(path):
            raise BarkError(fault)
        try:
            return Directory(path)
        except OSError as problem:
            raise BarkError(f"the directory {name} cannot be read: {problem}") from problem
    return Hub(published, revision, endpoint)
