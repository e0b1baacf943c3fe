"""Child process that reads one PDF or DOCX from standard input and writes JSON to standard output."""

from __future__ import annotations

import io
import json
import os
import resource
import sys

from voxyard.extraction.errors import ExtractionError, ReaderUnavailableError, UnreadableFileError


def main(arguments: list[str]) -> None:
    """Reads one document; `arguments`: file type, maximum characters, seconds, MiB of memory."""
    kind, max_characters, seconds, memory_mib = arguments[0], *map(int, arguments[1:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * 2**20, memory_mib * 2**20))
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answer:
        os.dup2(2, 1)  # keep what libraries print out of the JSON
        json.dump(_read(kind, max_characters, memory_mib), answer)


def _read(kind: str, max_characters: int, memory_mib: int) -> dict[str, str | None]:
    try:
        content = io.BytesIO(sys.stdin.buffer.read())
        if kind == "pdf":
            from voxyard.extraction.pdf import read_pdf as read
        else:
            from voxyard.extraction.docx import read_docx as read
        title, text = read(content, max_characters=max_characters)
    except MemoryError:
        return _error(
            UnreadableFileError(
                f"reading takes more than the limit of {memory_mib} MiB of memory:"
                " split it, or save its text as TXT and send that"
            )
        )
    except ImportError as error:
        return _error(
            ReaderUnavailableError(f"{kind.upper()} files cannot be read here: {error}; install voxyard[service]")
        )
    except ExtractionError as error:
        return _error(error)
    return {"title": title, "text": text}


def _error(error: ExtractionError) -> dict[str, str | None]:
    return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    main(sys.argv[1:])
