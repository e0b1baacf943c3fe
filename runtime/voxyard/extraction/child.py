"""Child process that reads one document from standard input and writes JSON to standard output."""

from __future__ import annotations

import base64
import io
import json
import os
import resource
import sys
from dataclasses import asdict

from voxyard.extraction.document import CodeBlocks, ParsedDocument, parsed
from voxyard.extraction.errors import ExtractionError, ReaderUnavailableError, UnreadableFileError
from voxyard.extraction.plaintext import decode

_NICENESS = 5  # speech and requests come first


def main(arguments: list[str]) -> None:
    """Reads one document; `arguments`: file type, code blocks, maximum characters, seconds of CPU, MiB of memory."""
    kind, code = arguments[:2]
    max_characters, seconds, memory_mib = map(int, arguments[2:])
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * 2**20, memory_mib * 2**20))
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answer:
        os.dup2(2, 1)  # keep what libraries print out of the JSON
        json.dump(_answer(kind, code, max_characters, memory_mib), answer)


def _answer(kind: str, code: str, max_characters: int, memory_mib: int) -> dict[str, object]:
    try:
        document = read_document(kind, io.BytesIO(sys.stdin.buffer.read()), code, max_characters)
    except MemoryError:
        return _error(
            UnreadableFileError(
                f"reading takes more than the limit of {memory_mib} MiB of memory:"
                " split it, or save its text as TXT and send that"
            )
        )
    except RecursionError:
        return _error(UnreadableFileError("its parts are nested too deeply: save its text as TXT and send that"))
    except ImportError as error:
        return _error(
            ReaderUnavailableError(f"{kind.upper()} files cannot be read here: {error}; install voxyard[service]")
        )
    except ExtractionError as error:
        return _error(error)
    cover = None if document.cover is None else base64.b64encode(document.cover).decode("ascii")
    return {**asdict(document), "cover": cover}


def read_document(kind: str, content: io.BytesIO, code: str, max_characters: int) -> ParsedDocument:
    """Contents of a document of this type, as it is spoken.

    Raises:
        ExtractionError: as the reader of this type says.
    """
    chosen: CodeBlocks = "announce" if code == "announce" else "skip"
    if kind == "pdf":
        from voxyard.extraction.pdf import read_pdf

        return read_pdf(content, max_characters=max_characters)
    if kind == "docx":
        from voxyard.extraction.docx import read_docx

        return read_docx(content, max_characters=max_characters)
    if kind == "odt":
        from voxyard.extraction.odt import read_odt

        return read_odt(content, max_characters=max_characters)
    if kind == "rtf":
        from voxyard.extraction.rtf import read_rtf

        return read_rtf(content.getvalue(), max_characters=max_characters)
    if kind == "fb2":
        from voxyard.extraction.fb2 import read_fb2

        return read_fb2(content.getvalue(), max_characters=max_characters)
    if kind == "epub":
        from voxyard.extraction.epub import read_epub

        return read_epub(content, max_characters=max_characters, code=chosen)
    if kind == "markdown":
        from voxyard.extraction.markdown import markdown_blocks, named_in_front

        text = decode(content.getvalue())
        title, author = named_in_front(text, "title"), named_in_front(text, "author")
        return parsed(title, markdown_blocks(text, max_characters=max_characters), chosen, author=author)
    from voxyard.extraction.markup import html_page

    page = html_page(content.getvalue(), max_characters=max_characters)
    return parsed(page.title, page.blocks, chosen, language=page.language, author=page.author)


def _error(error: ExtractionError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    main(sys.argv[1:])
