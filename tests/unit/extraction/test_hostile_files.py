"""Hostile files, within the limits as they are shipped: each is read, or refused with a reason, in a bounded time."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence

import docx
import pdfs
import pytest
from lxml import html

from voxyard.extraction import archive, pdf, style_sheets
from voxyard.extraction.errors import ExtractionError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.sandbox import DEFAULT_LIMITS

LINE = "It was late and so the night went on until the first light came over the hills."
MOST = 2_000_000  # characters, as the service ships
BELOW = "ab " * (archive.RATIO_FROM_BYTES // 4)  # a file of this size may be packed as well as it can be
PARTS, PARTS_END = "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"


def read(data: bytes, name: str) -> ExtractedText:
    return extract(data, name, None, max_characters=MOST)


def page(body: str) -> str:
    return f"<html><head><title>x</title></head><body>{body}</body></html>"


def book(pages: Sequence[str]) -> bytes:
    """An EPUB of these pages."""
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    numbers = range(len(pages))
    items = "".join(f'<item id="i{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in numbers)
    spine = "".join(f'<itemref idref="i{n}"/>' for n in numbers)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr(
            "META-INF/container.xml", f'{container}<rootfile full-path="book.opf"/></rootfiles></container>'
        )
        archive.writestr(
            "book.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest>{items}</manifest>'
            f"<spine>{spine}</spine></package>",
        )
        for number, each in enumerate(pages):
            archive.writestr(f"{number}.xhtml", each)
    return content.getvalue()


def word_file(body: str) -> bytes:
    """A DOCX with this body."""
    empty, content = io.BytesIO(), io.BytesIO()
    docx.Document().save(empty)
    with zipfile.ZipFile(empty) as parts, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parts.namelist():
            data = parts.read(name)
            if name == "word/document.xml":
                data = data.partition(b"<w:body>")[0] + f"<w:body>{body}</w:body></w:document>".encode()
            archive.writestr(name, data)
    return content.getvalue()


def odt_file(body: str) -> bytes:
    """An ODT whose text is this paragraph."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.text", zipfile.ZIP_STORED)
        packed.writestr(
            "content.xml",
            '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
            ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><o:body><o:text>'
            f"<text:p>{body}</text:p></o:text></o:body></o:document-content>",
        )
    return content.getvalue()


def table(rows: int, columns: int) -> str:
    cell = "<w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc>"
    return f"<w:tbl>{f'<w:tr>{cell * columns}</w:tr>' * rows}</w:tbl>"


def crowded(objects: int) -> bytes:
    """A PDF of one page that shows so many single letters."""
    letters = b"".join(b"1 0 0 1 %d %d Tm (a) Tj\n" % (n % 600, n // 600 % 800) for n in range(objects))
    return pdfs.document([b"BT /F1 10 Tf\n" + letters + b"ET"], packed=True)


REFUSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "PDF of a million letters on a page": ("a.pdf", lambda: crowded(pdf._MAX_OBJECTS + 1000), "drawn objects"),
    "HTML nested without end": ("a.html", lambda: page("<div>" * 300_000).encode(), "nested deeper"),
    "Markdown of one line": ("a.md", lambda: b"word " * 2_500_000, "more than 2000000 characters"),
    "EPUB that unpacks to many times its size": ("a.epub", lambda: book([page("a" * 50_000_000)]), "less than 1/200"),
    "EPUB of many files, each packed less than that": ("a.epub", lambda: book([page(BELOW)] * 50), "characters: split"),
    "EPUB of many files without text": ("a.epub", lambda: book([page(f"<nav>{BELOW}</nav>")] * 50), "MiB of text"),
    "DOCX with one row that is packed too well": ("a.docx", lambda: word_file(table(1, 100_000)), "less than 1/200"),
    "ODT that unpacks to many times its size": ("a.odt", lambda: odt_file("a" * 50_000_000), "less than 1/200"),
    "ODT nested without end": ("a.odt", lambda: odt_file("<text:span>" * 5000), "Excessive depth"),
    "FB2 nested without end": ("a.fb2", lambda: b"<FictionBook>" + b"<section>" * 5000, "Excessive depth"),
    "FB2 of entities in entities": (
        "a.fb2",
        lambda: b'<?xml version="1.0"?><FictionBook><body><p>&lol;</p></body></FictionBook>',
        "not well-formed XML",
    ),
    "RTF nested without end": ("a.rtf", lambda: b"{\\rtf1 " + b"{" * 5000, "nested deeper"),
    "RTF of one line": ("a.rtf", lambda: b"{\\rtf1 " + b"word " * 2_500_000, "more than 2000000 characters"),
    "DOCX nested without end": ("a.docx", lambda: word_file(PARTS * 5000 + PARTS_END * 5000), "Excessive depth"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_beyond_the_shipped_limits_is_refused_with_its_reason(case: str) -> None:
    name, made, reason = REFUSED[case]
    with pytest.raises(ExtractionError, match=rf"^{re.escape(name)}: .*{reason}"):
        read(made(), name)


def test_a_pdf_of_ten_thousand_pages_is_read() -> None:
    found = read(pdfs.written([[f"Word {number}."] for number in range(10_000)]), "a.pdf")
    assert found.text.startswith("Word 0.")
    assert found.text.endswith("Word 9999.")


def test_a_book_of_ten_thousand_chapters_is_read() -> None:
    found = read(book([page(f"<h1>Chapter {n}</h1><p>{LINE}</p>") for n in range(10_000)]), "a.epub")
    assert [chapter.title for chapter in found.chapters] == [f"Chapter {n}" for n in range(10_000)]


def test_tables_in_heads_of_tables_take_no_longer_than_their_text() -> None:
    nested = "<table><tr><th>" * 60 + "<p>one</p><p>two</p>" + "</th></tr></table>" * 60
    assert read(page(nested).encode(), "a.html").text == "one\n\ntwo"


def test_a_large_image_or_style_in_a_page_takes_none_of_its_text() -> None:
    large = "A" * 12_000_000
    body = f"<p>before</p><img src='data:image/png;base64,{large}'><p>between</p><!--{large}--><p>after</p>"
    assert read(page(body).encode(), "a.html").text == "before\n\nbetween\n\nafter"


SHEETS = {
    "many rules": "".join(f".a.b{n}{{display:none}}" for n in range(20_000)),
    "rules of many steps": "".join(f"{'p ' * 40}.a.b{n}{{display:none}}" for n in range(5000)),
    "a rule of blanks": f"a{' ' * 400_000}{{display:none}}",
    "declarations": f"a{{display{' ' * 400_000}}}",
    "imports": "@import url(" * 40_000,
    "braces": "{" * 500_000,
}


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_style_sheet_without_end_takes_none_of_its_page(sheet: str) -> None:
    body = (
        f"<style>.a{{display:none}}</style><style>{SHEETS[sheet]}</style>"
        + "<p class='a'>no</p><p class='b'>yes</p>" * 10_000
    )
    assert read(page(body).encode(), "a.html").text.startswith("yes\n\nyes")


def test_rules_about_what_is_around_an_element_have_a_bound_of_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, looks = style_sheets._Step.fits, list[html.HtmlElement]()

    def counted(step: style_sheets._Step, element: html.HtmlElement) -> bool:
        looks.append(element)
        return fits(step, element)

    monkeypatch.setattr(style_sheets._Step, "fits", counted)
    monkeypatch.setattr(style_sheets, "_MOST_LOOKS", 1000)
    rules = "".join(f"q{n} div div p{{display:none}}" for n in range(20))
    root = html.document_fromstring(page(f"<style>{rules}</style>" + "<div>" * 100 + "<p>yes</p>" * 100))

    assert list(style_sheets.unseen(root)) == []
    assert len(looks) <= 1000


def test_a_file_that_costs_too_much_is_ended_by_the_time_that_it_computes() -> None:
    assert DEFAULT_LIMITS.cpu_seconds < DEFAULT_LIMITS.seconds, "a machine that is busy takes longer than it computes"
    assert DEFAULT_LIMITS.cpu_seconds <= 30, "two such files at a time are read for each key"
