"""EPUB: reading order, chapters, cover, protection, and malicious archives."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping

import av
import pytest

from voxyard.extraction import archive, epub
from voxyard.extraction.document import TextChapter
from voxyard.extraction.errors import TextTooLongError, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.extract import ExtractedText, extract

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata
 xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Long Night</dc:title>
<dc:language>en-GB</dc:language></metadata>
<manifest><item id="c" href="cover.png" media-type="image/png" properties="cover-image"/>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="extra" href="extra.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="n"/><itemref idref="one"/><itemref idref="two"/>
<itemref idref="extra" linear="no"/></spine></package>"""


def png(width: int, height: int, *, rows: int | None = None) -> bytes:
    """A grey picture; with fewer rows than its header says, one that is broken."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x40" * width) * (height if rows is None else rows))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", pixels) + part(b"IEND", b"")


PNG = png(60, 90)


def size_of(picture: bytes | None) -> tuple[int, int]:
    """Width and height of a JPEG."""
    assert picture is not None
    assert picture.startswith(b"\xff\xd8\xff")
    with av.open(io.BytesIO(picture), format="jpeg_pipe") as found:
        return found.streams.video[0].width, found.streams.video[0].height


def xhtml(body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"'
        f' xmlns:epub="http://www.idpf.org/2007/ops"><head><title>x</title></head><body>{body}</body></html>'
    )


FILES: dict[str, str | bytes] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/cover.png": PNG,
    "OEBPS/nav.xhtml": xhtml('<nav epub:type="toc"><ol><li>Contents</li></ol></nav>'),
    "OEBPS/text/one.xhtml": xhtml(
        '<h1>One</h1><p>It was d\u00e4rk.<a epub:type="noteref" href="#n1">1</a></p>'
        '<span epub:type="pagebreak" title="3">3</span><p>Late.</p>'
    ),
    "OEBPS/text/two b.xhtml": xhtml("<h1>Two</h1><p>It was light.</p>"),
    "OEBPS/extra.xhtml": xhtml("<p>An extra.</p>"),
}


def packed(changed: Mapping[str, str | bytes | None] = {}) -> bytes:
    """A book of these files, of which some are changed, or None and missing."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**FILES, **changed}.items():
            if data is not None:
                archive.writestr(name, data)
    return content.getvalue()


def read(data: bytes, name: str | None = "book.epub", most: int = 100_000) -> ExtractedText:
    return extract(data, name, None, max_characters=most)


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    found = read(packed())
    assert found.text == "One\n\nIt was därk.\n\nLate.\n\nTwo\n\nIt was light."
    assert (found.kind, found.title, found.language) == ("epub", "The Long Night", "en-GB")
    assert size_of(found.cover) == (60, 90)
    assert found.chapters == (TextChapter("One", 0, 1), TextChapter("Two", found.text.index("Two"), 1))


@pytest.mark.parametrize(
    ("creators", "author"),
    [
        ("", None),
        ("<dc:creator>Ann\n Ode</dc:creator>", "Ann Ode"),
        ("<dc:creator>Ann Ode</dc:creator><dc:creator> </dc:creator><dc:creator>Bo Ek</dc:creator>", "Ann Ode, Bo Ek"),
        (
            '<dc:creator xmlns:opf="http://www.idpf.org/2007/opf" opf:role="ill">Bo Ek</dc:creator>'
            '<dc:creator xmlns:opf="http://www.idpf.org/2007/opf" opf:role="aut">Ann Ode</dc:creator>',
            "Ann Ode",
        ),
        (
            '<dc:creator id="b">Bo Ek</dc:creator><meta refines="#b" property="role">trl</meta>'
            "<dc:creator>Ann Ode</dc:creator>",
            "Ann Ode",
        ),
        ('<dc:creator id="b">Bo Ek</dc:creator><meta refines="#b" property="role">edt</meta>', "Bo Ek"),
        ("<dc:creator>Unknown</dc:creator>", None),
        (f"<dc:creator>{'Ann Ode ' * 100_000}</dc:creator>", "Ann Ode " * 24 + "Ann Ode…"),
    ],
)
def test_the_author_is_the_creator_that_wrote_the_book(creators: str, author: str | None) -> None:
    package = PACKAGE.replace("</dc:title>", f"</dc:title>{creators}")
    assert read(packed({"OEBPS/book.opf": package})).author == author


def test_a_book_is_told_from_a_word_document_by_its_content() -> None:
    assert read(packed(), None).kind == "epub"
    with pytest.raises(UnreadableFileError, match=r"ends in \.docx, but its content is an EPUB: rename it to \.epub"):
        read(packed(), "book.docx")


def test_a_large_cover_is_made_small_once() -> None:
    assert size_of(read(packed({"OEBPS/cover.png": png(2000, 3000)})).cover) == (933, 1400)


@pytest.mark.parametrize(
    "picture",
    [png(16_000, 16_000, rows=1), png(60, 90, rows=0), png(60, 90)[:60], b"\xff\xd8\xff" + b"\0" * 50],
    ids=["too large", "without rows", "cut off", "no JPEG"],
)
def test_a_cover_of_too_many_pixels_or_a_broken_one_is_none(picture: bytes) -> None:
    found = read(packed({"OEBPS/cover.png": picture}))
    assert (found.title, found.cover) == ("The Long Night", None)
    assert found.note is not None
    assert found.note.startswith("the cover is left out: expected a JPEG or PNG image")


def test_a_cover_of_too_many_bytes_is_left_out_with_a_note() -> None:
    found = read(packed({"OEBPS/cover.png": os.urandom(9 << 20)}))
    assert (found.cover, found.note) == (None, "the cover is left out: it has 9.0 MiB, expected at most 8 MiB")


def test_a_cover_that_is_no_picture_is_none() -> None:
    assert read(packed({"OEBPS/cover.png": b"<svg/>"})).cover is None
    found = read(packed({"OEBPS/cover.png": None}))
    assert (found.cover, found.note) == (None, None)


def test_a_book_whose_text_is_encrypted_is_refused_and_obfuscated_fonts_are_not() -> None:
    method = '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData \
xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
    drm = method.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    with pytest.raises(UnreadableFileError, match=r"DRM.*send one without protection"):
        read(packed({"META-INF/encryption.xml": drm}))
    fonts = method.format("http://www.idpf.org/2008/embedding")
    assert read(packed({"META-INF/encryption.xml": fonts})).title == "The Long Night"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"OEBPS/book.opf": None}, r"names a file that is not in it \(OEBPS/book\.opf\)"),
        ({"OEBPS/book.opf": "<package"}, "not well-formed XML"),
        ({"META-INF/container.xml": "<container/>"}, "names a file that is not in it"),
        ({"OEBPS/text/one.xhtml": None, "OEBPS/text/two b.xhtml": None}, "no text found"),
        ({"OEBPS/text/one.xhtml": xhtml("<p>ha</p>" * 3_000_000)}, "packed to less than 1/200"),
    ],
)
def test_a_broken_book_is_refused_with_what_to_do(changed: dict[str, str | bytes | None], said: str) -> None:
    with pytest.raises(UnreadableFileError, match=said):
        read(packed(changed))


def test_half_a_book_is_refused() -> None:
    with pytest.raises((UnreadableFileError, UnsupportedFileError)):
        read(packed()[:-400])


def test_a_book_of_too_many_files_or_too_much_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ENTRIES", 5)
    with pytest.raises(UnreadableFileError, match=r"8 files.*refused"):
        epub.read_epub(io.BytesIO(packed()), max_characters=1000)
    monkeypatch.setattr(archive, "MAX_ENTRIES", 50)
    monkeypatch.setattr(archive, "MAX_TEXT_BYTES", 1000)
    with pytest.raises(UnreadableFileError, match="unpacks to more than"):
        epub.read_epub(io.BytesIO(packed()), max_characters=1000)


def test_a_book_that_is_too_long_is_refused() -> None:
    with pytest.raises(TextTooLongError, match="more than 20 characters"):
        read(packed(), most=20)
    with pytest.raises(TextTooLongError, match="more than 30 characters"):
        read(packed({"OEBPS/text/one.xhtml": xhtml("<p>It was late.</p>" * 1000)}), most=30)


def test_entities_of_its_package_are_not_expanded(tmp_path: object) -> None:
    laughs = '<!DOCTYPE p [<!ENTITY a "hahahaha"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
    package = laughs + PACKAGE.replace("The Long Night", "The &a; &b;")
    assert "root:" not in read(packed({"OEBPS/book.opf": package})).title


GUIDE = PACKAGE.replace("</package>", '<guide><reference type="toc" href="text/one.xhtml"/></guide></package>')


def test_a_page_of_contents_is_left_out_and_its_prose_is_not() -> None:
    entries = '<h1>Contents</h1><ul><li><a href="b">Two</a></li></ul><p>Three</p>'
    assert read(packed({"OEBPS/book.opf": GUIDE, "OEBPS/text/one.xhtml": xhtml(entries)})).text.startswith("Two\n\n")
    prose = "<p>This book is about a night that went on until the first light came over the hills.</p>"
    found = read(packed({"OEBPS/book.opf": GUIDE, "OEBPS/text/one.xhtml": xhtml(prose + entries)}))
    assert found.text.startswith("This book is about a night")
    assert "Two.\n" not in found.text


def test_a_page_that_the_spine_names_once_for_each_of_its_sections_is_read_once() -> None:
    more = '<item id="part" href="text/one.xhtml#n1" media-type="application/xhtml+xml"/></manifest>'
    package = PACKAGE.replace("</manifest>", more).replace("</spine>", '<itemref idref="part"/></spine>')
    assert read(packed({"OEBPS/book.opf": package})).text.count("It was därk.") == 1


NCX = """<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>
<navPoint id="a"><navLabel><text>1. The Storm</text></navLabel><content src="text/one.xhtml"/></navPoint>
<navPoint id="b"><navLabel><text>The Calm</text></navLabel><content src="text/two%20b.xhtml"/>
<navPoint id="c"><navLabel><text>The Road</text></navLabel><content src="text/two%20b.xhtml#r"/></navPoint></navPoint>
</navMap></ncx>"""
NAV = (
    '<nav epub:type="toc"><ol><li><a href="text/one.xhtml">1. The Storm</a></li><li><a href="text/two%20b.xhtml">The '
    'Calm</a><ol><li><a href="text/two%20b.xhtml#r">The Road</a></li></ol></li></ol></nav>'
)
WITHOUT_HEADINGS: dict[str, str | bytes | None] = {
    "OEBPS/text/one.xhtml": xhtml('<p class="ct">The Storm</p><p>Rain fell.</p>'),
    "OEBPS/text/two b.xhtml": xhtml('<p>In the morning the sun came out.</p><p id="r">The Road</p><p>They left.</p>'),
}


@pytest.mark.parametrize(
    "contents",
    [
        {"OEBPS/nav.xhtml": xhtml(NAV)},
        {
            "OEBPS/toc.ncx": NCX,
            "OEBPS/book.opf": PACKAGE.replace(
                "</manifest>", '<item id="x" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
            ),
        },
    ],
)
def test_chapters_without_headings_are_those_of_the_table_of_contents(contents: dict[str, str]) -> None:
    found = read(packed({**WITHOUT_HEADINGS, **contents}))
    assert found.text == ("The Storm\n\nRain fell.\n\nIn the morning the sun came out.\n\nThe Road\n\nThey left.")
    assert [(each.title, each.start) for each in found.chapters] == [
        ("The Storm", 0),
        ("The Calm", found.text.index("In the morning")),
    ]


def test_headings_of_a_page_go_before_the_table_of_contents() -> None:
    found = read(packed({"OEBPS/nav.xhtml": xhtml(NAV)}))
    assert [each.title for each in found.chapters] == ["One", "Two"]


PLACES = (
    '<nav epub:type="toc"><ol><li><a href="text/one.xhtml#a">I. The Storm</a></li><li><a href="text/one.xhtml#b">II. '
    'The Calm</a></li><li><a href="text/one.xhtml#c">III. The Road</a></li><li><a href="text/one.xhtml#gone">Gone</a>'
    "</li></ol></nav>"
)


@pytest.mark.parametrize(
    "body",
    [
        '<div id="a"><p>THE FIRST</p><p>Rain fell.</p></div><div id="b"><p>The sun.</p></div><p id="c">They left.</p>',
        '<p><a id="a"></a>THE FIRST</p><p>Rain fell.</p><p>The <a name="b"/>sun.</p><hr id="c"/><p>They left.</p>',
        '<p id="a">THE FIRST</p><p>Rain fell.</p><a id="b"/><p>The sun.</p><div><p id="c">They left.</p></div>',
    ],
)
def test_chapters_within_one_page_begin_at_their_places(body: str) -> None:
    pages: dict[str, str | bytes | None] = {"OEBPS/text/one.xhtml": xhtml(body), "OEBPS/nav.xhtml": xhtml(PLACES)}
    found = read(packed({**pages, "OEBPS/text/two b.xhtml": xhtml("<p>The end.</p>")}))
    assert [(each.title, found.text[each.start :].split("\n")[0]) for each in found.chapters] == [
        ("I. The Storm", "THE FIRST"),
        ("II. The Calm", "The sun."),
        ("III. The Road", "They left."),
    ]
    assert found.text.split("\n\n") == ["THE FIRST", "Rain fell.", "The sun.", "They left.", "The end."]
