"""RTF reader: headings, paragraphs, lists, tables and notes of a Rich Text document, in their order."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from voxyard.extraction.document import (
    Block,
    HeadingBlock,
    ListItem,
    Paragraph,
    ParsedDocument,
    TableRow,
    parsed,
    within,
)
from voxyard.extraction.errors import TextTooLongError, UnreadableFileError
from voxyard.extraction.raised import raised
from voxyard.extraction.silent import LEADERS
from voxyard.extraction.symbol_fonts import as_drawn, is_symbol_font

MAX_DEPTH = 500
"""Deepest nesting of groups that is read."""

_TOKEN = re.compile(
    rb"(?P<hex>(?:\\'[0-9a-fA-F]{2})+)|\\(?:(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|(?P<sign>[^a-zA-Z]))|"
    rb"(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\"
)
_SIGNS = {
    "tab": " ", "line": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "zwj": "", "zwnj": "\u200c",
}  # fmt: skip
_ESCAPED = {
    b"~": "\N{NO-BREAK SPACE}",
    b"_": "-",
    b"-": "",
    b"{": "{",
    b"}": "}",
    b"\\": "\\",
    b"\n": "\n",
    b"\r": "\n",
}
_SILENT = frozenset((  # destinations that are no text of the document
    "fonttbl", "colortbl", "pict", "object", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr",
    "footerf", "fldinst", "listtable", "listoverridetable", "revtbl", "rsidtbl", "generator", "xmlnstbl", "themedata",
    "colorschememapping", "latentstyles", "datastore", "annotation", "atnid", "atnauthor", "bkmkstart", "bkmkend", "tc",
    "tcl", "xe", "rxe", "mmath", "nonshppict", "pntxta", "pntxtb", "sp", "filetbl", "private", "template", "ftnsep",
    "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn",
))  # fmt: skip
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_CODE_PAGES = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo|заголовок) ?([1-9])|title|titel", re.IGNORECASE)
_CONTENTS = re.compile(r"(?:toc|contents|index) ?\d?", re.IGNORECASE)
_TOC_FIELD = re.compile(r"\s*(?:TOC|INDEX|TOA)\b", re.IGNORECASE)
_BODY_LEVEL = 9


@dataclass
class _State:
    """What a group inherits, and its end gives back."""

    silent: bool = False
    destination: str = ""  # of a text that is not the body's: stylesheet, title, listtext
    font: int | None = None
    skip: int = 1  # characters that stand for a \\u in a program without Unicode
    hidden: bool = False
    superscript: bool = False
    starred: bool = False


@dataclass
class _Paragraph:
    """The paragraph that is being read."""

    pieces: list[str] = field(default_factory=list)
    style: int | None = None
    outline: int | None = None
    number: str | None = None  # of a list's item, "" for a bullet
    in_table: bool = False
    large: bool = False  # a letter that is drawn before the text of the next one


def read_rtf(data: bytes, *, max_characters: int) -> ParsedDocument:
    """Title, author and text of an RTF; footnotes follow their paragraph.

    Left out: hidden and deleted text, headers, footers, comments, pictures, tables of contents.

    Raises:
        UnreadableFileError: nested too deeply, or truncated.
        TextTooLongError: far more than `max_characters`.
    """
    reader = _Reader(data.removeprefix(codecs.BOM_UTF8), max_characters)
    blocks = list(within(reader.blocks(), max_characters))
    return parsed(reader.property("title"), blocks, "skip", author=reader.property("author"))


class _Reader:
    def __init__(self, data: bytes, max_characters: int) -> None:
        self._data, self._most = data, max_characters
        self._state, self._stack = _State(), list[_State]()
        self._paragraph = _Paragraph()
        self._outer: list[tuple[int, _Paragraph]] = []  # paragraphs that a footnote interrupts, by their depth
        self._notes: list[Block] = []
        self._cells: list[str] = []
        self._bytes = bytearray()
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font_names: dict[int, str] = {}
        self._styles: dict[int, str] = {}
        self._table_font = 0
        self._style_number = 0
        self._texts: dict[str, list[str]] = {}
        self._to_skip = 0
        self._instruction = ""  # of the last field
        self._length = 0
        self._surrogate = ""
        self._done: list[Block] = []

    def property(self, name: str) -> str | None:
        return " ".join("".join(self._texts.get(name, [])).split()) or None

    def blocks(self) -> Iterator[Block]:
        at = 0
        while (found := _TOKEN.match(self._data, at)) is not None:
            at = found.end()
            if found["word"] == b"bin":
                at += max(0, int(found["number"] or 0))
                continue
            self._token(found)
            yield from self._take()
        self._flush()
        if self._stack:
            raise UnreadableFileError(
                f"it is truncated or damaged ({len(self._stack)} of its groups do not end):"
                " open it in Word or LibreOffice, save it as RTF again and send that"
            )
        self._paragraph.in_table = False
        self._paragraph.pieces[:0] = [f"{cell}\n" for cell in self._cells]  # of a row that does not end
        self._end_paragraph()
        yield from self._take()

    def _take(self) -> list[Block]:
        done, self._done = self._done, []
        return done

    def _token(self, found: re.Match[bytes]) -> None:
        if found["hex"] is not None:
            self._byte(bytes.fromhex(found["hex"].decode("ascii").replace("\\'", "")))
            return
        if found["text"] is not None:
            self._byte(found["text"])
            return
        self._flush()
        if found["brace"] == b"{":
            if len(self._stack) >= MAX_DEPTH:
                raise UnreadableFileError(
                    f"its groups are nested deeper than {MAX_DEPTH}: save its text as TXT and send that"
                )
            self._stack.append(self._state)
            self._state = replace(self._state, starred=False)
            self._style_number = 0
        elif found["brace"] == b"}":
            self._close()
        elif found["word"] is not None:
            number = None if found["number"] is None else int(found["number"])
            self._word(found["word"].decode("ascii"), number)
        elif found["sign"] == b"*":
            self._state.starred = True
        elif found["sign"] is not None:
            self._put(_ESCAPED.get(found["sign"], ""))

    def _close(self) -> None:
        ended = self._state
        self._state = self._stack.pop() if self._stack else _State()
        if self._outer and self._outer[-1][0] > len(self._stack):
            self._end_paragraph()
            self._paragraph = self._outer.pop()[1]
            if not self._outer and not self._text() and not self._paragraph.in_table:  # of a box alone
                self._done += self._notes
                self._notes = []
        if ended.destination == "listtext" and self._state.destination != "listtext":
            label = "".join(self._texts.pop("listtext", [])).strip()
            self._paragraph.number = label if any(each.isalnum() for each in label) else ""

    def _byte(self, data: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._bytes += data

    def _flush(self) -> None:
        if self._bytes:
            code_page = self._fonts.get(self._state.font if self._state.font is not None else -1, self._code_page)
            code_page = "latin-1" if self._is_of_signs() else code_page
            text = self._bytes.decode(code_page, "replace")
            self._bytes.clear()
            self._put(text)

    def _put(self, text: str) -> None:
        state = self._state
        if state.destination == "fldinst":
            self._instruction += text
        elif state.destination == "fonttbl":
            self._font_names[self._table_font] = self._font_names.get(self._table_font, "") + text
        if state.silent or state.hidden or not text:
            return
        if state.destination:
            self._put_aside(text)
            return
        self._length += len(text)
        if self._length > 2 * self._most + 1000:
            raise TextTooLongError(f"the text has more than {self._most} characters: split the document")
        if self._is_of_signs():
            text = as_drawn(text, self._font_names.get(state.font or 0, ""))
        if state.superscript:
            text = raised("".join(self._paragraph.pieces[-5:])[-20:], text)
        self._paragraph.pieces.append(text)

    def _is_of_signs(self) -> bool:
        return self._state.font is not None and is_symbol_font(self._font_names.get(self._state.font, ""))

    def _put_aside(self, text: str) -> None:
        if self._state.destination == "stylesheet":
            self._styles[self._style_number] = self._styles.get(self._style_number, "") + text
        elif self._state.destination != "info":
            self._texts.setdefault(self._state.destination, []).append(text)

    def _word(self, word: str, number: int | None) -> None:
        state = self._state
        if word == "u" and number is not None:
            self._unicode(number)
            return
        self._to_skip = 0
        if word == "field":
            self._instruction = ""
        elif word == "fldrslt" and _TOC_FIELD.match(self._instruction):
            state.silent = True
        elif word in _SILENT:
            state.silent, state.destination = True, state.destination if state.silent else word
        elif word == "result" and state.destination == "object":  # what is shown of an object
            state.silent, state.destination = False, ""
        elif word == "upr" or (word == "ud" and state.starred):  # \\upr has the text without Unicode, and then \\ud
            state.silent = word == "upr"
        elif word in ("stylesheet", "info", "listtext", "pntext"):
            state.destination = {"pntext": "listtext"}.get(word, word)
        elif state.destination == "info" and word in ("title", "author"):
            state.destination = word
        elif word in ("footnote", "shptxt"):
            state.superscript = state.hidden = False
            self._outer.append((len(self._stack), self._paragraph))
            self._paragraph = _Paragraph()
        elif state.starred and word not in ("shppict", "shpinst"):
            state.silent = True
        elif not self._encoding(word, number) and not self._character(word, number):
            self._layout(word, number)

    def _encoding(self, word: str, number: int | None) -> bool:
        """True for a word that tells how bytes are letters."""
        if word in _CODE_PAGES:
            self._code_page = _CODE_PAGES[word]
        elif word == "ansicpg" and number:
            self._code_page = _known(f"cp{number}", self._code_page)
        elif word == "f" and number is not None:
            self._state.font = self._table_font = number
        elif word == "fcharset" and number in _CHARSETS and number:
            self._fonts[self._table_font] = _CHARSETS[number]
        elif word == "uc" and number is not None:
            self._state.skip = min(max(number, 0), 10)
        else:
            return False
        return True

    def _character(self, word: str, number: int | None) -> bool:
        """True for a word of the next characters, hidden or raised, and for all words of a silent group."""
        state = self._state
        if word in ("up", "dn"):
            state.superscript = word == "up" and number != 0
        elif word in ("v", "deleted"):
            state.hidden = number != 0
        elif word in ("super", "sub", "nosupersub", "plain"):
            state.superscript = word == "super" and number != 0
            state.hidden = state.hidden and word != "plain"
        elif word == "s" and number is not None and state.destination == "stylesheet":
            self._style_number = number
        else:
            return state.silent or bool(state.destination)
        return True

    def _layout(self, word: str, number: int | None) -> None:
        paragraph = self._paragraph
        if word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word == "pard":
            paragraph.style = paragraph.outline = None
            paragraph.in_table = paragraph.large = False
        elif word == "s":
            paragraph.style = number
        elif word == "outlinelevel":
            paragraph.outline = number
        elif word == "dropcapli":
            paragraph.large = True
        elif word == "intbl":
            paragraph.in_table = True
        elif word in ("cell", "nestcell"):
            self._cells.append(self._text())
            self._paragraph = replace(paragraph, pieces=[])
        elif word in ("row", "nestrow"):
            if any(self._cells):
                self._done.append(TableRow(tuple(self._cells)))
            self._cells = []
            paragraph.in_table = False
            self._done += self._notes
            self._notes = []
        elif word in _SIGNS:
            self._put(_SIGNS[word])

    def _unicode(self, number: int) -> None:
        code = number % 0x10000
        self._to_skip = self._state.skip
        if 0xD800 <= code < 0xDC00:
            self._surrogate = chr(code)
            return
        text = self._surrogate + chr(code)
        self._surrogate = ""
        self._put(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    def _text(self) -> str:
        return "".join(self._paragraph.pieces).strip()

    def _end_paragraph(self) -> None:
        text, paragraph = self._text(), self._paragraph
        if paragraph.in_table and not self._outer:
            self._paragraph.pieces.append("\n")  # several paragraphs of a cell
            return
        if paragraph.large and len(text) == 1:
            self._paragraph = replace(paragraph, pieces=[text], large=False)
            return
        self._paragraph = replace(paragraph, pieces=[], number=None)
        name = self._styles.get(-1 if paragraph.style is None else paragraph.style, "").strip(" ;")
        found: list[Block] = []
        if text and LEADERS.search(text) is None and _CONTENTS.fullmatch(name) is None:
            found.append(self._kind(text, paragraph, name))
        if self._outer:
            self._notes += found
            return
        self._done += [*found, *self._notes]
        self._notes = []

    def _kind(self, text: str, paragraph: _Paragraph, name: str) -> Block:
        heading = _HEADING.fullmatch(name)
        if paragraph.outline is not None and 0 <= paragraph.outline < _BODY_LEVEL:
            return HeadingBlock(text, paragraph.outline + 1)
        if heading:
            return HeadingBlock(text, int(heading[1] or 1))
        if paragraph.number is not None:
            return ListItem(f"{paragraph.number} {text}".strip())
        return Paragraph(text)


def _known(name: str, other: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        return other
    return name
