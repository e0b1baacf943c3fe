"""Real files of several makers and languages: the words in order, and no running heads between them."""

from __future__ import annotations

import gzip
import posixpath
import re
import shutil
import subprocess
import unicodedata
import zipfile
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest
import yaml

from voxyard.extraction.extract import ExtractedText, extract_file

FILES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("real_files.yaml").read_text("utf-8"))
FOLDER = Path(__file__).parents[3] / "build/documents"  # unpacked by .ci/run
IN_ORDER = 0.99
_WORD = re.compile(r"[^\W_]+")
_LETTERS_ALONE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_URL = re.compile(r"(?:https?|ftp)://\S*")
_NUMBER = re.compile(r"[\W\d]*|[ivxlc]+")
_VOID = frozenset(["br", "hr", "img", "meta", "link", "input", "col", "area", "base", "wbr", "source"])
_IN_A_LINE = frozenset(["a", "em", "b", "i", "strong", "span", "code", "tt", "sub", "sup", "cite", "u", "small"])
_SILENT = frozenset(["script", "style", "nav", "pre", "head", "title", "sup", "footer"])
_SILENT_CLASSES = frozenset(["headerlink", "toc", "toctree-wrapper", "related", "navheader", "navfooter"])


class _Words(HTMLParser):
    """Text of a page by Python's own parser, without what is silent in it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._between(tag)
        if tag not in _VOID:
            named = dict(attrs)
            silent = not _SILENT_CLASSES.isdisjoint((named.get("class") or "").split())
            silent = silent or tag in _SILENT or named.get("role") == "navigation"
            self._open.append((tag, silent))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._between(tag)

    def handle_endtag(self, tag: str) -> None:
        self._between(tag)
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(silent for _, silent in self._open):
            self.found.append(data)

    def _between(self, tag: str) -> None:
        if tag not in _IN_A_LINE:
            self.found.append(" ")


def words(text: str) -> list[str]:
    """Words in lower case; each Chinese or Japanese letter is one, since lines may break between any two."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", _URL.sub(" ", text)).replace("\u00ad", "").casefold()):
        found += list(word) if _LETTERS_ALONE.search(word) else [word]
    return found


def page_text(page: str) -> str:
    """Text of a page of HTML."""
    parser = _Words()
    parser.feed(page)
    return "".join(parser.found)


def epub_text(path: Path) -> str:
    """Text of the pages in a book's spine."""
    with zipfile.ZipFile(path) as archive:
        container = ET.fromstring(archive.read("META-INF/container.xml"))  # noqa: S314 - Debian's own file
        rootfile = container.find(".//{*}rootfile")
        assert rootfile is not None
        name = rootfile.attrib["full-path"]
        package = ET.fromstring(archive.read(name))  # noqa: S314 - Debian's own file
        items = {item.attrib["id"]: item for item in package.iterfind(".//{*}item")}
        pages: dict[str, None] = {}  # a page may be named once for each of its sections
        for reference in package.iterfind(".//{*}itemref"):
            item = items[reference.attrib["idref"]]
            if "nav" not in item.get("properties", "").split() and reference.get("linear") != "no":
                href = unquote(urlsplit(item.attrib["href"]).path)
                pages[posixpath.normpath(posixpath.join(posixpath.dirname(name), href))] = None
        return "\n".join(page_text(archive.read(page).decode()) for page in pages)


def pdf_text(path: Path, first: int, heads_too: str) -> str:
    """Text by pdftotext from a page on, without edge lines that are numbers, occur on three pages or match."""
    command = ["pdftotext", "-enc", "UTF-8", "-f", str(first), str(path), "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pages = [[line for line in page.splitlines() if line.strip()] for page in done.stdout.split("\f")]
    heads = Counter(head for page in pages for head in {_head(line) for line in page[:3] + page[-3:]})
    kept: list[str] = []
    for page in pages:
        for place, line in enumerate(page):
            at_edge = place < 3 or place >= len(page) - 3
            repeated = heads[_head(line)] > 2 or _NUMBER.fullmatch(line.strip()) or re.search(heads_too, line)
            if not at_edge or not repeated:
                kept.append(line)
    return "\n".join(kept)


def _head(line: str) -> str:
    return re.sub(r"[\W\d]+", "", line).casefold()


@cache
def spoken(name: str) -> ExtractedText:
    """What is spoken of a file, read once in a process."""
    return extract_file(unpacked(name), max_characters=20_000_000)


@cache
def unpacked(name: str) -> Path:
    """The file, out of its gzip where Debian packs it."""
    path = FOLDER / "usr/share" / name
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and packed.exists():
        whole = path.with_name(f".{path.name}.part")
        with gzip.open(packed) as source, whole.open("wb") as target:
            shutil.copyfileobj(source, target)
        whole.replace(path)
    if not FOLDER.exists():
        pytest.skip("no real files: .ci/run unpacks them into build/documents")
    return path


def share_in_order(reference: list[str], found: list[str], folder: Path) -> tuple[float, list[str]]:
    """Share of the reference's words that are found in the same order, by GNU diff, and the missing ones."""
    for name, content in (("reference", reference), ("found", found)):
        (folder / name).write_text("\n".join([*content, ""]), encoding="utf-8")
    command = ["diff", "--minimal", "--text", str(folder / "reference"), str(folder / "found")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    missing = [line[2:] for line in done.stdout.splitlines() if line.startswith("< ")]
    return 1 - len(missing) / len(reference), missing


def test_there_are_at_least_twenty_files_of_several_languages() -> None:
    assert len(FILES) >= 20
    assert len({file["language"] for file in FILES.values()}) >= 5
    assert {Path(name).suffix for name in FILES} == {".epub", ".html", ".pdf"}


@pytest.mark.needs("pdftotext")
@pytest.mark.parametrize("name", FILES)
def test_the_words_of_a_real_file_are_spoken_in_their_order(name: str, tmp_path: Path) -> None:
    path = unpacked(name)
    if path.suffix == ".epub":
        reference = epub_text(path)
    elif path.suffix == ".html":
        reference = page_text(path.read_text("utf-8"))
    else:
        reference = pdf_text(path, FILES[name]["first"], FILES[name].get("heads", "^$"))
    expected = words(reference)
    assert len(expected) > 200
    share, missing = share_in_order(expected, words(spoken(name).text), tmp_path)
    assert share >= IN_ORDER, missing[:200]


@pytest.mark.parametrize("name", FILES)
def test_of_a_real_file_is_heard_what_must_be_and_nothing_that_must_not(name: str) -> None:
    found = spoken(name)
    for phrase in FILES[name].get("spoken", ()):
        assert phrase in " ".join(found.text.split())
    for line in FILES[name].get("silent", ()):
        heard = [part for part in found.text.split("\n\n") if re.search(line, part)]
        assert heard == []
    assert len(found.chapters) >= FILES[name].get("chapters", 1)
