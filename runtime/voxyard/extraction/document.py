"""Document model: blocks of a document, and the text and chapters that are spoken of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Literal

from voxyard.extraction.errors import TextTooLongError
from voxyard.extraction.lines import joined_words, lines_going_on
from voxyard.extraction.misread import Mend, damage_of, mend_of
from voxyard.extraction.plaintext import clean
from voxyard.extraction.silent import contents_lines, is_title_of_contents, without_pictures, without_readings
from voxyard.extraction.titles import (
    DIRECTS,
    chapter_title,
    in_capitals,
    is_of_chapter,
    is_part,
    numbered_names,
    numbers_alone,
)

CodeBlocks = Literal["skip", "announce"]

_URL = re.compile(
    r"\b(?:https?|ftp)://(?:[^\s/@]*@)?([^\s/?#:\"'<>()\[\]{}|\\^`]+)[^\s\"'<>()\[\]{}|\\^`]*", re.IGNORECASE
)
_URL_END = re.compile(r"[.,;:!?…]+$")
_ENDS = re.compile(r"""[.!?…:;。！？；：]["'”’»)\]]*$""")
_OWN: tuple[int, str | None] = (0, None)
_PRIMARY = re.compile("[-_]")
_LINES_OF_CODE = "Code, {} lines."
_LINE_OF_CODE = "Code, 1 line."
_LONGEST_CHAPTER_TITLE = 200
_MOST_WEAK_BREAKS = 0.5  # of the paragraphs
_FEWEST_PARTS = 2
_CHAPTERS = 1.5  # a part, at least
_FEWEST_TITLES = 2  # of chapters without headings
_LONGEST_PROPERTY = 2000  # what is longer is no title, and no author


@dataclass(frozen=True, kw_only=True)
class InLanguage:
    """Block that declares its language (BCP 47); None is that of the document."""

    language: str | None = None


@dataclass(frozen=True)
class HeadingBlock(InLanguage):
    """Heading of a level, 1 is the highest; `entry` is its level in a book's table of contents."""

    text: str
    level: int
    entry: int | None = None


@dataclass(frozen=True)
class Paragraph(InLanguage):
    """Paragraph, quotation, caption or note; `chapter` is one that begins with it and has no heading of its own."""

    text: str
    chapter: HeadingBlock | None = None


@dataclass(frozen=True)
class ListItem(InLanguage):
    """Item of a list, without its bullet; with its number, where it has one."""

    text: str


@dataclass(frozen=True)
class TableRow(InLanguage):
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


@dataclass(frozen=True)
class SceneBreak:
    """Rule or empty line between two scenes, which is heard as a pause.

    A `weak` one, of a line that is only empty, is one where there are few of them.
    """

    text: str = "* * *"
    weak: bool = False


Block = HeadingBlock | Paragraph | ListItem | TableRow | Code | SceneBreak


@dataclass(frozen=True)
class TextChapter:
    """Chapter of a text: its heading, the offset in characters where that begins, and the heading's level."""

    title: str
    start: int
    level: int = 1


@dataclass(frozen=True)
class ParsedDocument:
    """Contents of a file: title and author it names, text, chapters, language (BCP 47), cover (JPEG, PNG).

    `languages` are the positions in the text from which on another one is declared; None is that of the document.
    """

    title: str | None
    text: str
    chapters: tuple[TextChapter, ...] = ()
    language: str | None = None
    cover: bytes | None = None
    author: str | None = None
    note: str | None = None  # on what is left out
    languages: tuple[tuple[int, str | None], ...] = ()
    damage: str | None = None  # what is said of characters that are lost


def in_language(block: Block, language: str | None) -> Block:
    """A block in the language that is declared around it, unless it declares one itself."""
    if language and isinstance(block, InLanguage) and block.language is None:
        return replace(block, language=language)
    return block


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
    """Document of these blocks, rendered as it is spoken. Of a longer title or author the rest is left out.

    Raises:
        UnreadableFileError: too many characters are lost.
    """
    blocks = tuple(blocks)
    mend = mend_of("\n".join(each for block in blocks for each in _texts(block)))
    if mend is not None:
        blocks, title, author = (
            [_mended(block, mend) for block in blocks],
            title and mend(title),
            author and mend(author),
        )
    kept = with_titles(_with_whole_paragraphs(_without_idle_breaks(without_contents_blocks(spoken(blocks, code)))))
    text = rendered(kept)
    title, author = title and title[:_LONGEST_PROPERTY], author and author[:_LONGEST_PROPERTY]
    places = [(start, getattr(block, "language", None)) for block, _, start in _places(kept, text)]
    language, languages = _languages(language, places, len(text))
    found = chapters(kept, text)
    return ParsedDocument(title, text, found, language, cover, author, note, languages, damage_of(text))


def _texts(block: Block) -> tuple[str, ...]:
    return block.cells if isinstance(block, TableRow) else (block.text,)


def _mended(block: Block, mend: Mend) -> Block:
    if isinstance(block, TableRow):
        return replace(block, cells=tuple(map(mend, block.cells)), header=tuple(map(mend, block.header)))
    if isinstance(block, Paragraph) and block.chapter is not None:
        return replace(block, text=mend(block.text), chapter=replace(block.chapter, text=mend(block.chapter.text)))
    return replace(block, text=mend(block.text))


def _languages(
    language: str | None, declared: Sequence[tuple[int, str | None]], length: int
) -> tuple[str | None, tuple[tuple[int, str | None], ...]]:
    """The language of a document, and the positions in its text from which on another one is declared.

    Where the document declares none, that of most of its text is its own. One that all of the text declares, as the
    templates of some programs do, says nothing against that of the document.
    """
    lengths = Counter[str | None]()
    for (start, code), end in zip(declared, [*(start for start, _ in declared[1:]), length], strict=False):
        lengths[code] += end - start
    if language is None and 2 * max(lengths.values(), default=0) > length:
        language = max(lengths, key=lambda code: lengths[code])
    if len(lengths) < 2:
        return language, ()
    own = [(start, None if _same(code, language) else code) for start, code in declared]
    return language, tuple(each for before, each in pairwise([_OWN, *own]) if before[1] != each[1])


def _same(one: str | None, other: str | None) -> bool:
    """True for a language as it is spoken anywhere: en-GB, en."""
    return one is not None and other is not None and _PRIMARY.split(one.lower())[0] == _PRIMARY.split(other.lower())[0]


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
    kept = [block for at, block in enumerate(blocks) if at not in left_out]
    return tuple(block for block, after in zip_longest(kept, kept[1:]) if not _is_title_alone(block, after))


def _is_title_alone(block: Block, after: Block | None) -> bool:
    """True for the title of a table of contents with nothing but a title below: its lines are left out."""
    if not isinstance(block, (Paragraph, HeadingBlock)) or not is_title_of_contents(block.text):
        return False
    is_head = isinstance(after, HeadingBlock) and (isinstance(block, Paragraph) or after.level <= block.level)
    return is_head or (isinstance(after, Paragraph) and chapter_title(after.text) is not None)


def with_titles(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks; where at most one is a heading, with the chapters that paragraphs such as CHAPTER IV begin.

    There are at least two of these. Where no words tell them, numbers from 1 on are chapters, alone or with names, or
    lines in capitals.
    """
    heads = [head for block in blocks if (head := _heading(block)) is not None]
    if len(heads) > 1:
        return tuple(blocks)
    level = 1 + sum(head.level for head in heads)
    texts = [DIRECTS.sub("", block.text).strip() if isinstance(block, Paragraph) else "" for block in blocks]
    titles = {at: title for at, text in enumerate(texts) if (title := chapter_title(text)) is not None}
    if len(titles) < _FEWEST_TITLES:
        titles = numbers_alone(texts) or numbered_names(texts) or in_capitals(texts)
    return tuple(
        replace(block, chapter=HeadingBlock(titles[at], level))
        if isinstance(block, Paragraph) and at in titles
        else block
        for at, block in enumerate(blocks)
    )


def _with_whole_paragraphs(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, with paragraphs that are lines of print, as of a page that is drawn line by line, in one."""
    lines = {at: block.text for at, block in enumerate(blocks) if isinstance(block, Paragraph)}
    going_on = {at for at, goes in zip(lines, lines_going_on([*lines.values()]), strict=True) if goes}
    kept: list[Block] = []
    whole: list[Paragraph] = []  # lines of the paragraph that is read

    def end() -> None:
        if whole:
            kept.append(replace(whole[0], text=joined_words("\n".join(line.text for line in whole))))
            whole.clear()

    for at, block in enumerate(blocks):
        if not (at in going_on and whole and isinstance(block, Paragraph) and block.chapter is None):
            end()
        if isinstance(block, Paragraph):
            whole.append(block)
        else:
            kept.append(block)
    end()
    return kept


def _without_idle_breaks(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, with breaks between scenes only: none at the ends, beside a heading, or after another."""
    kept: list[Block] = []
    for block in blocks:
        if isinstance(block, SceneBreak):
            if kept and not isinstance(kept[-1], (SceneBreak, HeadingBlock)):
                kept.append(block)
            continue
        if kept and isinstance(kept[-1], SceneBreak) and (_heading(block) is not None or not _has_word(block)):
            kept.pop()
        kept.append(block)
    if kept and isinstance(kept[-1], SceneBreak):
        kept.pop()
    weak = sum(isinstance(block, SceneBreak) and block.weak for block in kept)
    if weak > _MOST_WEAK_BREAKS * sum(isinstance(block, Paragraph) for block in kept):
        return [block for block in kept if not isinstance(block, SceneBreak) or not block.weak]
    return kept


def _has_word(block: Block) -> bool:
    """True for a block that is no line of signs, which is a break itself."""
    return isinstance(block, TableRow) or any(letter.isalnum() for letter in block.text)


def rendered(blocks: Sequence[Block]) -> str:
    """Text of the blocks with an empty line between them; items and rows are sentences, URLs are their hosts."""
    return clean("\n\n".join(text for block in blocks if (text := _text(block))))


def chapters(blocks: Sequence[Block], text: str) -> tuple[TextChapter, ...]:
    """Chapters of a rendered text: the headings of the highest level that occurs twice, and those above it.

    Where most of these are parts, with nothing between them and a heading below, that one's level counts, too.
    """
    levels = Counter(heading.level for block in blocks if (heading := _heading(block)) and _text(block))
    if not levels:
        return ()
    level = _below_parts(blocks, min((level for level, count in levels.items() if count > 1), default=min(levels)))
    found: list[TextChapter] = []
    for block, part, start in _places(blocks, text):
        heading = _heading(block)
        if heading is not None and heading.level <= level:
            title = part if heading is block else heading.text
            found.append(TextChapter(" ".join(title.split())[:_LONGEST_CHAPTER_TITLE], start, heading.level))
    return tuple(found)


def _places(blocks: Iterable[Block], text: str) -> Iterator[tuple[Block, str, int]]:
    """The blocks that have a text, and where it begins in that of all."""
    at = 0
    for block in blocks:
        part = _text(block)
        if part and (start := text.find(part, at)) >= 0:
            yield block, part, start
            at = start + len(part)


def _below_parts(blocks: Sequence[Block], level: int) -> int:
    """The level of the chapters below a level's headings, where most of these are parts; else the level itself."""
    every = [_heading(block) for block in blocks]
    heads = [(head, after) for head, after in zip_longest(every, every[1:]) if head is not None and head.level == level]
    parts = [after for _, after in heads if after is not None and after.level > level]
    if len(parts) < _FEWEST_PARTS or len(parts) <= len(heads) / 2:
        return level
    lower = min(part.level for part in parts)
    named = any(each is not None and each.entry is not None for each in every)
    below = [each for each in every if each is not None and each.level == lower]
    if len(below) < _CHAPTERS * len(parts) or (named and all(each.entry is None for each in below)):
        return level  # their second lines, or sections
    said = [is_part(head.text) for head, _ in heads]
    if sum(said) <= len(said) / 2 and sum(is_of_chapter(each.text) for each in below) <= len(below) / 2:
        return level
    return _below_parts(blocks, lower)


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
    text = short_urls(clean(without_readings(without_pictures(block.text))))
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
