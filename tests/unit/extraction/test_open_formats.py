"""ODT, RTF and FB2 readers: content, order, and what is refused."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.extraction.errors import ExtractionError, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.rtf import read_rtf

SPACES = (
    " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{place}:1.0"'
        for name, place in (
            ("office", "office"),
            ("text", "text"),
            ("table", "table"),
            ("style", "style"),
            ("draw", "drawing"),
            ("meta", "meta"),
            ("manifest", "manifest"),
        )
    )
    + ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
STYLES = """<style:style style:name="P1" style:parent-style-name="Title"/>
<style:style style:name="T1"><style:text-properties style:text-position="super 58%"/></style:style>
<style:style style:name="T2"><style:text-properties text:display="none"/></style:style>
<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1"/>
</text:list-style>"""
META = "<dc:title>A Walk</dc:title><meta:initial-creator>Ann Bell</meta:initial-creator><dc:language>de</dc:language>"


def odt(body: str, *, mime: str = "application/vnd.oasis.opendocument.text", manifest: str = "") -> bytes:
    """An ODT with this body."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", mime, zipfile.ZIP_STORED)
        packed.writestr(
            "content.xml",
            f"<office:document-content {SPACES}><office:automatic-styles>{STYLES}</office:automatic-styles>"
            f"<office:body><office:text>{body}</office:text></office:body></office:document-content>",
        )
        packed.writestr(
            "meta.xml", f"<office:document-meta {SPACES}><office:meta>{META}</office:meta></office:document-meta>"
        )
        packed.writestr("META-INF/manifest.xml", f"<manifest:manifest {SPACES}>{manifest}</manifest:manifest>")
    return content.getvalue()


def book(body: str, *, notes: str = "", encoding: str = "utf-8") -> bytes:
    """An FB2 with this body."""
    return (
        f'<?xml version="1.0" encoding="{encoding}"?>\n<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"'
        ' xmlns:l="http://www.w3.org/1999/xlink"><description><title-info><author><first-name>Анна</first-name>'
        "<last-name>Белл</last-name></author><book-title>Прогулка</book-title><lang>ru</lang></title-info></description>"
        f"<body>{body}</body>{notes}</FictionBook>"
    ).encode(encoding)


def read(data: bytes, name: str | None) -> ExtractedText:
    return extract(data, name, None, max_characters=100_000)


def test_an_odt_is_read_in_its_order() -> None:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    row = f"<table:table-row>{cell}{cell}</table:table-row>"
    found = read(
        odt(
            "<text:table-of-content><text:p>One 3</text:p></text:table-of-content>"
            '<text:p text:style-name="P1">A Walk</text:p><text:h text:outline-level="1">One</text:h>'
            '<text:p>It is<text:s/>10<text:span text:style-name="T1">13</text:span> km\n  wide'
            '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>'
            "<text:p>A note.</text:p></text:note-body></text:note>."
            '<text:span text:style-name="T2">hidden</text:span></text:p>'
            '<text:note text:note-class="endnote"/>'
            '<text:list text:style-name="L1"><text:list-item><text:p>first</text:p></text:list-item>'
            "<text:list-item><text:p>second</text:p></text:list-item></text:list>"
            "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
            f"<table:table><table:table-header-rows>{row.format('Name', 'Age')}</table:table-header-rows>"
            f"{row.format('Ann', '5')}</table:table>"
            '<text:h text:outline-level="1">Two</text:h>'
            "<text:p>Before<draw:frame><draw:text-box><text:p>A box.</text:p></draw:text-box></draw:frame> it.</text:p>"
        ),
        "walk.odt",
    )
    assert found.text.split("\n\n") == [
        *("A Walk", "One", "It is 10¹³ km wide.", "A note.", "1. first.", "2. second.", "Name: Ann, Age: 5."),
        *("Two", "Before it.", "A box."),
    ]
    assert (found.kind, found.title, found.author, found.language) == ("odt", "A Walk", "Ann Bell", "de")
    assert [each.title for each in found.chapters] == ["A Walk", "One", "Two"]


RTF = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fcharset204 Times{\*\falt x};}}
{\stylesheet{\ql Normal;}{\s1\snext0 heading 1;}{\*\cs10 Default;}{\s2 toc 1;}}
{\info{\title A Walk}{\author Ann B\'e9ll}{\creatim\yr2020}{\*\company Acme}}{\header Head\par}
\pard\plain\s2 One\tab 3\par\pard\plain\s1 One\par\pard\plain It\rquote s \u8364\'80 5 \emdash  fine{\super 2}
{\footnote\pard\plain {\super\chftn} A note.}, 10{\super 13} km. {\v hidden}{\deleted gone}\par
{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}, \u26481?\u20140?, \u-10179?\u-8704?!\par
{\listtext\pard\plain 1.\tab}\pard first\par{\listtext\'b7\tab}second\par
\trowd\cellx100\cellx200\pard\intbl Ann\cell 5\cell\row\pard\plain
See {\field{\*\fldinst HYPERLINK "http://x.org"}{\fldrslt the page}}.\par{\pict\wmetafile8 0102}\bin3 {}}
{\shp{\*\shpinst{\sp{\sn a}{\sv 3}}{\shptxt A box.\par}}}\pard\s1 Two\par\pard\plain The end}"""


def test_an_rtf_is_read_in_its_order() -> None:
    found = read(RTF, "walk.rtf")
    assert found.text.split("\n\n") == [
        *("One", "It’s € 5 — fine, 10¹³ km.", "A note.", "Привет, 東京, 😀!", "1. first.", "second.", "Ann, 5."),
        *("See the page.", "A box.", "Two", "The end"),
    ]
    assert (found.kind, found.title, found.author) == ("rtf", "A Walk", "Ann Béll")
    assert [each.title for each in found.chapters] == ["One", "Two"]


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1251"])
def test_a_book_in_fb2_is_read_in_its_order(encoding: str) -> None:
    notes = '<body name="notes"><title><p>Примечания</p></title><section id="n1"><p>Сноска.</p></section></body>'
    found = read(
        book(
            "<title><p>Прогулка</p></title><section><title><p>Глава 1</p><p>Начало</p></title>"
            '<p>Текст<a l:href="#n1" type="note">[1]</a> и <strong>ещё <emphasis>раз</emphasis></strong>.</p>'
            "<subtitle>* * *</subtitle><poem><stanza><v>Раз</v><v>Два</v></stanza></poem></section>"
            "<section><title><p>Глава 2</p></title><p>Это 10<sup>13</sup> км.</p></section>",
            notes=notes,
            encoding=encoding,
        ),
        "walk.fb2",
    )
    assert found.text.split("\n\n") == [
        *("Прогулка", "Глава 1 Начало", "Текст и ещё раз.", "* * *", "Раз\nДва", "Глава 2", "Это 10¹³ км."),
        *("Примечания", "Сноска."),
    ]
    assert (found.kind, found.title, found.author, found.language) == ("fb2", "Прогулка", "Анна Белл", "ru")
    assert [each.title for each in found.chapters] == ["Прогулка", "Глава 1 Начало", "Глава 2", "Примечания"]


@pytest.mark.parametrize(
    ("data", "kind"), [(odt("<text:p>Hi</text:p>"), "odt"), (RTF, "rtf"), (book("<p>Да</p>"), "fb2")]
)
def test_the_content_tells_the_type(data: bytes, kind: str) -> None:
    assert read(data, None).kind == kind
    with pytest.raises(UnreadableFileError, match=rf"its content is an {kind.upper()}: rename it to \.{kind}"):
        read(data, "walk.docx")


ENCRYPTED = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"


@pytest.mark.parametrize(
    ("data", "name", "error", "reason"),
    [
        (odt("<text:p>Hi</text:p>", manifest=ENCRYPTED), "a.odt", UnreadableFileError, "encrypted with a password"),
        (odt("", mime="application/vnd.oasis.opendocument.spreadsheet"), "a.odt", UnsupportedFileError, "spreadsheet"),
        (odt("<text:p>"), "a.odt", UnreadableFileError, "not well-formed XML"),
        (odt("<text:p>Hi</text:p>")[:300], "a.odt", UnreadableFileError, "ZIP archive is broken"),
        (b"<FictionBook><body>", "a.fb2", UnreadableFileError, "not well-formed XML"),
        (b"Hello", "a.rtf", UnreadableFileError, "its content is not an RTF"),
        (b"{\\rtf1 {\\pict 00}}", "a.rtf", UnreadableFileError, "no text found"),
    ],
)
def test_what_is_no_text_is_refused_with_its_reason(
    data: bytes, name: str, error: type[ExtractionError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        read(data, name)


WORDS = [
    *(rb"\par ", rb"\u8364?", b"{", b"}", rb"\cell ", rb"\row ", rb"\intbl ", rb"{\footnote ", rb"\super ", b"x", b"5"),
    *(rb"\'e9", rb"{\*\shpinst", rb"{\shptxt ", rb"\bin9 ", rb"{\listtext 1.\tab}", rb"\pard ", rb"\s1 ", rb"\f1 "),
    *(rb"\u-10179", rb"\ansicpg932", rb"\ansicpg9325", rb"\'82", b"\\\n", rb"\*", b"\\", b"{\\fonttbl", b"\0"),
]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=4)), max_size=80).map(b"".join))
def test_every_rtf_is_read_or_refused(data: bytes) -> None:
    try:
        text = read_rtf(b"{\\rtf1 " + data + b"}", max_characters=10_000).text
    except UnreadableFileError as error:
        assert "truncated" in str(error)
    else:
        assert isinstance(text, str)


@pytest.mark.parametrize("length", [len(RTF) - 1, len(RTF) - 60, RTF.index(b"A note."), RTF.index(b"One\\tab")])
def test_a_truncated_rtf_is_refused_in_words(length: int) -> None:
    with pytest.raises(
        UnreadableFileError, match=r"walk\.rtf: it is truncated or damaged \(\d+ of its groups do not end"
    ):
        read(RTF[:length], "walk.rtf")


def packed(*names: str, data: bytes = b"") -> bytes:
    """A ZIP archive with a book under each name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, data or book("<section><p>Да</p></section>"))
    return content.getvalue()


@pytest.mark.parametrize("name", ["walk.fb2.zip", "Walk.FB2.ZIP", "walk.fb2", None])
def test_a_packed_fb2_is_read(name: str | None) -> None:
    found = read(packed("walk.fb2"), name)
    assert (found.kind, found.title, found.text) == ("fb2", "Прогулка", "Да")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (packed("a.fb2", "b.fb2"), "its ZIP archive has 2 files, expected one book"),
        (packed("a.fb2", data=b"<FictionBook>"), "not well-formed XML"),
        (packed("a.fb2", data=b" " * 10 * 2**20), "packed to less than 1/200 of its size"),
        (packed("a.txt"), "its content is a DOCX"),
        (packed("a.fb2")[:300], "its ZIP archive is broken"),
    ],
)
def test_an_archive_that_is_no_packed_book_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError, match=reason):
        read(data, "walk.fb2.zip")


@pytest.mark.parametrize(
    "mark", ['<a l:href="#n1" type="note">[1]</a>', '<a l:href="#n1">1</a>', '<sup><a l:href="#n1">1</a></sup>']
)
def test_the_mark_of_a_note_in_fb2_is_silent_and_another_link_is_not(mark: str) -> None:
    notes = '<body name="notes"><section id="n1"><title><p>[1]</p></title><p>Сноска.</p></section></body>'
    text = f'<section id="s"><p>Текст{mark}, <a l:href="#s">выше</a>.</p></section>'
    assert read(book(text, notes=notes), "walk.fb2").text.split("\n\n") == ["Текст, выше.", "Сноска."]


def test_a_text_of_signs_alone_is_refused_with_them() -> None:
    with pytest.raises(UnreadableFileError, match=r"no text found; it has signs alone \(😀 🎉\), which are silent"):
        read("😀\n\n🎉".encode(), "a.txt")
