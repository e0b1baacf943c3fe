"""Languages that parts of a file declare, format by format."""

from __future__ import annotations

import io
import zipfile
from itertools import pairwise

import pytest

from voxyard.extraction.extract import ExtractedText, extract

EN, PL, FR = "He came home.", "Wrócił do domu.", "Il est rentré."
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def read(content: bytes, name: str) -> ExtractedText:
    return extract(content, name, None, max_characters=10_000)


def parts(found: ExtractedText) -> list[tuple[str | None, str]]:
    """Declared languages, each with the text up to the next."""
    edges = [*found.languages, (len(found.text), None)]
    return [(one[1], found.text[one[0] : two[0]].strip()) for one, two in pairwise(edges)]


def html(body: str, attributes: str = 'lang="en"') -> bytes:
    return f"<!doctype html><html {attributes}><meta charset=utf-8><body>{body}</body></html>".encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f'<p>{EN}</p><p lang="pl">{PL}</p><p>{EN}</p>', [("pl", PL), (None, EN)]),
        (f'<p>{EN}</p><h2 xml:lang="pl">{PL}</h2>', [("pl", PL)]),
        (f'<p>{EN}</p><div lang="pl"><p>{PL}</p><p lang="fr">{FR}</p><p lang="en">{EN}</p></div>',
         [("pl", PL), ("fr", FR), (None, EN)]),
        (f'<p>{EN}</p><ul lang="pl"><li>{PL}</li></ul>', [("pl", PL)]),
        (f'<p>{EN}</p><p><i lang="fr">{FR}</i></p>', [("fr", FR)]),
        (f'<p>{EN} <i lang="fr">déjà vu</i> again.</p>', []),
        (f'<p>{EN}</p><p lang="en-GB">{EN}</p>', []),
        (f'<section lang="pl">{PL}</section><p>{EN}</p>', [("pl", PL), (None, EN)]),
    ],
)  # fmt: skip
def test_html_blocks_declare_a_language_and_words_in_a_line_do_not(
    body: str, expected: list[tuple[str | None, str]]
) -> None:
    found = read(html(body), "a.html")

    assert (found.language, parts(found)) == ("en", expected)


@pytest.mark.parametrize("attributes", ['xml:lang="pl"', 'lang="pl"'])
def test_the_root_or_most_of_the_text_tells_the_language_of_the_document(attributes: str) -> None:
    assert read(html(f"<p>{PL}</p>", attributes), "a.html").language == "pl"
    inside = read(html(f'<p lang="pl">{PL}</p><p lang="pl">{PL}</p><p lang="fr">{FR}</p>', ""), "a.html")
    assert (inside.language, parts(inside)) == ("pl", [("fr", FR)])


def epub(*pages: tuple[str, str | None]) -> bytes:
    names = [f"p{index}.xhtml" for index in range(len(pages))]
    manifest = "".join(f'<item id="{each}" href="{each}" media-type="application/xhtml+xml"/>' for each in names)
    spine = "".join(f'<itemref idref="{each}"/>' for each in names)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr(
            "c.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:language>en</dc:language></metadata><manifest>{manifest}</manifest><spine>{spine}</spine></package>",
        )
        for name, (body, language) in zip(names, pages, strict=True):
            own = f'xml:lang="{language}"' if language else ""
            page = f'<html xmlns="http://www.w3.org/1999/xhtml" {own}><body>{body}</body></html>'
            archive.writestr(name, page)
    return made.getvalue()


def test_pages_of_a_book_declare_their_languages() -> None:
    found = read(epub((f"<h1>One</h1><p>{EN}</p>", "en"), (f"<h1>Dwa</h1><p>{PL}</p>", "pl"), (EN, None)), "a.epub")

    assert (found.language, parts(found)) == ("en", [("pl", f"Dwa\n\n{PL}"), (None, EN)])


def test_one_language_that_every_page_has_from_a_template_says_nothing() -> None:
    found = read(epub((f"<p>{EN}</p>", "fr"), (f"<p>{EN}</p>", "fr")), "a.epub")

    assert (found.language, found.languages) == ("en", ())


def test_sections_and_paragraphs_of_fb2_declare_their_languages() -> None:
    book = (
        "<FictionBook><description><title-info><lang>en</lang></title-info></description><body>"
        f'<section><p>{EN}</p></section><section xml:lang="pl"><title><p>Dwa</p></title><p>{PL}</p>'
        f'<p xml:lang="fr">{FR}</p></section></body></FictionBook>'
    )
    found = read(book.encode(), "a.fb2")

    assert (found.language, parts(found)) == ("en", [("pl", f"Dwa\n\n{PL}"), ("fr", FR)])
