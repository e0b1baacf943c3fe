"""Document model: blocks of a document, and the text and chapters that are spoken of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from voxyard.extraction.errors import TextTooLongError
from voxyard.extraction.plaintext import clean
from voxyard.extraction.silent import contents_lines, without_pictures

CodeBlocks = Literal["skip", "announce"]

_URL = re.compile(
    r"\b(?:https?|ftp)://(?:[^\s/@]*@)?([^\s/?#:\"'<>()\[\]{}|\\^`]+)[^\s\"'<>()\[\]{}|\\^`]*", re.IGNORECASE
)
_URL_END = re.compile(r"[.,;:!?…]+$")
_ENDS = re.compile(r"""[.!?…:;。！？；：]["'”’»)\]]*$""")
_LINES_OF_CODE = "Code, {} lines."
_LINE_OF_CODE = "Code, 1 line."
_LONGEST_CHAPTER_TITLE = 200
_LONGEST_PROPERTY = 2000  # what is longer is no title, and no author


@dataclass(frozen=True)
class HeadingBlock:
    """HeadingBlock of a level; 1 is the highest."""

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """Paragraph, quotation, caption or note; `chapter` is one that begins with it and has no heading of its own."""

    text: str
    chapter: HeadingBlock | None = None


@dataclass(frozen=True)
class ListItem:
    """Item of a list, without its bullet; with its number, where it has one."""

    text: str


@dataclass(frozen=True)
class TableRow:
    """Cells of one row; `header` holds the titles of its columns, empty where the table has none.

    A row of `titles` is said with each row below it, and alone where the next block is none that has it as its header.
    """

    cells: tuple[str, ...]
    header: tuple[str, ...] = ()
    titles: bool = False


@dataclass(frozen=True)
class Code:
    """Block of source code or of a program's output."""

    text: str


Block = HeadingBlock | Paragraph | ListItem | TableRow | Code


@dataclass(frozen=True)
class TextChapter:
    """TextChapter of a text: its heading, the offset in characters where that begins, and the heading's level."""

    title: str
    start: int
    level: int


@dataclass(frozen=True)
class ParsedDocument:
    """Contents of a file: title and author it names, text, chapters, language (BCP 47), cover (JPEG, PNG)."""

    title: str | None
    text: str
    chapters: tuple[TextChapter, ...] = ()
    language: str | None = None
    cover: bytes | None = None
    author: str | None = None
    note: str | None = None  # on what is left out


def within(blocks: Iterable[Block], max_characters: float) -> Iterator[Block]:
    """The blocks, while they have no more than twice so many characters: the exact length is known after rendering.

    Raises:
        TextTooLongError: they have more.
    """
    length = 0
    for block in blocks:
        length += sum(map(len, block.cells)) if isinstance(block, TableRow) else len(block.text)
        if length > 2 * max_characters + 1000:
            raise TextTooLongError(f"the text has more than {max_characters} characters: split the document")
        yield block


def parsed(
    title: str | None, blocks: Iterable[Block], code: CodeBlocks, *, language: str | None = None,
    cover: bytes | None = None, author: str | None = None, note: str | None = None,
) -> ParsedDocument:  # fmt: skip
    """Document of these blocks, rendered as it is spoken. Of a longer title or author the rest is left out."""
    kept = without_contents_blocks(spoken(blocks, code))
    text = rendered(kept)
    title, author = title and title[:_LONGEST_PROPERTY], author and author[:_LONGEST_PROPERTY]
    return ParsedDocument(title, text, chapters(kept, text), language, cover, author, note)


def spoken(blocks: Iterable[Block], code: CodeBlocks) -> tuple[Block, ...]:
    """Blocks that are spoken: code is left out, or announced with its number of lines."""
    kept = [block for block in blocks if _is_spoken(block, code)]
    return tuple(
        _announced(block) if isinstance(block, Code) else block
        for block, after in zip_longest(kept, kept[1:])
        if not (isinstance(block, TableRow) and block.titles and getattr(after, "header", None) == block.cells)
    )


def without_contents_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks without those of tables of contents."""
    lines = [" ".join(block.cells if isinstance(block, TableRow) else block.text.split()) for block in blocks]
    left_out = contents_lines(lines)
    return tuple(block for at, block in enumerate(blocks) if at not in left_out)


def rendered(blocks: Sequence[Block]) -> str:
    """Text of the blocks with an empty line between them; items and rows are sentences, URLs are their hosts."""
    return clean("\n\n".join(text for block in blocks if (text := _text(block))))


def chapters(blocks: Sequence[Block], text: str) -> tuple[TextChapter, ...]:
    """Chapters of a rendered text: the headings of the highest level that occurs twice, and those above it."""
    levels = Counter(heading.level for block in blocks if (heading := _heading(block)) and _text(block))
    if not levels:
        return ()
    level = min((level for level, count in levels.items() if count > 1), default=min(levels))
    found: list[TextChapter] = []
    at = 0
    for block in blocks:
        part = _text(block)
        if not part or (start := text.find(part, at)) < 0:
            continue
        at = start + len(part)
        heading = _heading(block)
        if heading is not None and heading.level <= level:
            title = part if heading is block else heading.text
            found.append(TextChapter(" ".join(title.split())[:_LONGEST_CHAPTER_TITLE], start, heading.level))
    return tuple(found)


def _heading(block: Block) -> HeadingBlock | None:
    """The heading that a block is, or that its chapter has elsewhere."""
    return block if isinstance(block, HeadingBlock) else block.chapter if isinstance(block, Paragraph) else None


def short_urls(text: str) -> str:
    """Text in which the host stands for each URL: `https://www.example.org/a?b=c` is read as `example.org`."""
    return _URL.sub(_host, text)


def _host(found: re.Match[str]) -> str:
    end = _URL_END.search(found.group())
    host = _URL_END.sub("", found.group(1))
    return (host[4:] if host.lower().startswith("www.") else host) + (end.group() if end else "")


def _is_spoken(block: Block, code: CodeBlocks) -> bool:
    return not isinstance(block, Code) or (code == "announce" and bool(block.text.strip()))


def _announced(block: Code) -> Block:
    lines = len(block.text.strip("\n").splitlines())
    return Paragraph(_LINE_OF_CODE if lines == 1 else _LINES_OF_CODE.format(lines))


def _text(block: Block) -> str:
    if isinstance(block, TableRow):
        return clean(_sentence(_row(block)))
    text = short_urls(clean(without_pictures(block.text)))
    return _sentence(text) if isinstance(block, ListItem) else text


def _row(row: TableRow) -> str:
    cells = [" ".join(short_urls(cell).split()) for cell in row.cells]
    if not row.header:
        return _joined([cell for cell in cells if cell])
    titles = [*row.header, *[""] * len(cells)]
    return _joined([f"{title}: {cell}" if title else cell for title, cell in zip(titles, cells, strict=False) if cell])


def _joined(cells: Sequence[str]) -> str:
    return "".join(f"{cell}{' ' if _ENDS.search(cell) else ', '}" for cell in cells[:-1]) + "".join(cells[-1:])


def _sentence(text: str) -> str:
    if not text or _ENDS.search(text) or not (text[-1].isalnum() or text[-1] in ")]\"'”’»%"):
        return text
    return f"{text}."
