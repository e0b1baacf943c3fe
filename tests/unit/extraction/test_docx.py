"""DOCX reader: content, order, and malicious archives."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import docx
import docx.enum.style
import pytest
from docx.document import Document
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from docx.shared import Inches
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from voxyard.extraction import docx_archive
from voxyard.extraction.document import TextChapter
from voxyard.extraction.docx import read_docx
from voxyard.extraction.errors import TextTooLongError, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.lines import lines_going_on
from voxyard.extraction.misread import LOST, mend_of
from voxyard.extraction.plaintext import LIGATURES

W = nsdecls("w")
MAIN = "word/document.xml"


def saved(document: Document) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def of(*paragraphs: str) -> Document:
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    return document


def with_xml(xml: str) -> Document:
    """A document with further elements at the end of its body."""
    document = of("Before.")
    for element in parse_xml(f"<w:body {W}>{xml}</w:body>"):
        document.element.body.append(element)
    return document


def repacked(data: bytes, change: Callable[[str, bytes], bytes | None], **more: bytes) -> bytes:
    """The archive with its files changed, or left out, and with more of them."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            if (content := change(name, source.read(name))) is not None:
                target.writestr(name, content)
        for name, content in more.items():
            target.writestr(name, content)
    return packed.getvalue()


def main_replaced(content: bytes) -> bytes:
    return repacked(saved(of("Hello.")), lambda name, old: content if name == MAIN else old)


def read(data: bytes, name: str | None = "story.docx", most: int = 1_000_000) -> ExtractedText:
    return extract(data, name, None, max_characters=most)


def text_of(document: Document) -> list[str]:
    """The paragraphs, read in this process."""
    return read_docx(io.BytesIO(saved(document)), max_characters=1_000_000).text.split("\n\n")


def test_headings_paragraphs_lists_and_tables_come_in_their_order() -> None:
    document = docx.Document()
    document.add_heading("Night", level=1)
    document.add_paragraph("It was dark.")
    document.add_paragraph("a lamp", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip([*table.rows[0].cells, *table.rows[1].cells], ["Who", "Where?", "Ann", "home"], strict=True):
        cell.text = text
    document.add_paragraph("")
    document.add_paragraph("The end.")
    found = read(saved(document))
    assert found.text.split("\n\n") == [
        "Night", "It was dark.", "a lamp.", "Who, Where?", "Ann, home.", "The end.",
    ]  # fmt: skip
    assert (found.kind, found.title, found.chapters) == ("docx", "story", (TextChapter("Night", 0, 1),))


def test_a_marked_header_row_names_the_cells_below_it() -> None:
    document = docx.Document()
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip([*table.rows[0].cells, *table.rows[1].cells], ["Who", "Age", "Ann", "5"], strict=True):
        cell.text = text
    table.rows[0]._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {W}/>"))
    assert text_of(document) == ["Who: Ann, Age: 5."]


def test_merged_cells_are_read_once_and_cells_with_paragraphs_like_text() -> None:
    document = docx.Document()
    table = document.add_table(rows=3, cols=2)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 0).merge(table.cell(2, 0)).text = "high"
    table._tbl.tr_lst[2].tc_lst[0].add_p().add_r().text = "under it, unseen"
    table.cell(1, 1).text = "one"
    table.cell(2, 1).text = "two"
    table.cell(2, 1).add_paragraph("three")
    inner = table.cell(2, 1).add_table(rows=1, cols=1)
    inner.cell(0, 0).text = "inner"
    assert text_of(document) == ["wide.", "high, one.", "two", "three", "inner."]


def test_runs_tabs_breaks_and_hyphens_make_one_paragraph() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Hel")
    paragraph.add_run("lo").bold = True
    paragraph.add_run(" ")
    paragraph.add_run("well").italic = True
    paragraph.runs[-1]._r.append(parse_xml(f"<w:noBreakHyphen {W}/>"))
    paragraph.add_run("known\tday\nnext line")
    assert text_of(document) == ["Hello well-known day\nnext line"]


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>", ["link"]),
        ("<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>",
         ["new"]),
        ("<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>", ["control"]),
        ("<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:t>seen</w:t></w:r></w:p>", ["seen"]),
        ("<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>shown</w:t></w:r></w:p>", ["shown"]),
        (
            "<w:p><w:r><w:t>Outside.</w:t><w:pict><w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p>"
            "</w:txbxContent></w:pict></w:r><w:r><w:t> Still outside.</w:t></w:r></w:p>",
            ["Outside. Still outside.", "In a box."],
        ),
    ],
)  # fmt: skip
def test_visible_text_is_read_and_hidden_text_is_not(xml: str, expected: list[str]) -> None:
    assert text_of(with_xml(xml.replace("<w:t> ", '<w:t xml:space="preserve"> '))) == ["Before.", *expected]


def test_a_footnote_follows_its_paragraph_and_endnotes_come_last() -> None:
    document = of("First.", "Second.")
    for kind, relationship in (("footnote", RELATIONSHIP_TYPE.FOOTNOTES), ("endnote", RELATIONSHIP_TYPE.ENDNOTES)):
        notes = (
            f'<w:{kind}s {W}><w:{kind} w:id="0" w:type="separator"><w:p><w:r><w:t>no</w:t></w:r></w:p></w:{kind}>'
            f'<w:{kind} w:id="2"><w:p><w:r><w:t>A {kind}.</w:t></w:r></w:p></w:{kind}></w:{kind}s>'
        )
        content_type = CONTENT_TYPE.WML_FOOTNOTES if kind == "footnote" else CONTENT_TYPE.WML_ENDNOTES
        part = Part(PackURI(f"/word/{kind}s.xml"), content_type, notes.encode(), document.part.package)
        document.part.relate_to(part, relationship)
        document.paragraphs[0].add_run()._r.append(parse_xml(f'<w:{kind}Reference {W} w:id="2"/>'))
    assert text_of(document) == ["First.", "A footnote.", "Second.", "A endnote."]


@pytest.mark.parametrize(
    ("own", "title"),
    [
        ("  The Long\nNight ", "The Long Night"),
        ("", "story"),
        ("Microsoft Word - draft.doc", "story"),
        ("Document1", "story"),
        ("untitled", "story"),
        ("story-final.docx", "story"),
        ("2024", "story"),
    ],
)
def test_the_title_property_counts_if_it_is_one(own: str, title: str) -> None:
    document = of("Hello.")
    document.core_properties.title = own
    assert read(saved(document)).title == title


def test_pictures_are_not_unpacked() -> None:
    document = of("Seen.")
    pixels = b"\0" * (400 * 400 * 3)
    header = b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, 400, 400, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    document.add_picture(io.BytesIO(header + pixels), width=Inches(1))
    kept = docx_archive.sanitized(io.BytesIO(saved(document)))
    with zipfile.ZipFile(io.BytesIO(kept)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    assert [size for name, size in sizes.items() if name.startswith("word/media/")] == [0]
    assert text_of(document) == ["Seen."]


@pytest.mark.parametrize("name", [MAIN, "word/media/image1.bin"])
def test_an_archive_that_declares_too_much_is_refused_unopened(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_archive, "_unpacked", lambda *_: pytest.fail("it was unpacked"))
    size = docx_archive.MAX_DECLARED_BYTES + 1
    data = repacked(saved(of("Hello.")), lambda old, content: None if old == name else content, **{name: b"\0" * 1000})
    bomb = bytearray(data)
    entry = data.rindex(name.encode()) - 46  # in the list at the archive's end
    bomb[entry + 24 : entry + 28] = struct.pack("<I", size)
    with pytest.raises(UnreadableFileError, match="would unpack to 1025 MiB"):
        docx_archive.sanitized(io.BytesIO(bomb))


def test_an_archive_that_is_packed_too_well_is_refused_unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_archive, "_unpacked", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(UnreadableFileError, match="packed to less than 1/200"):
        docx_archive.sanitized(io.BytesIO(main_replaced(b"<w>" + b" " * (docx_archive.RATIO_FROM_BYTES + 1) + b"</w>")))


def test_an_archive_that_declares_less_than_it_unpacks_to_is_refused() -> None:
    data = bytearray(main_replaced(b"<w>" + b" " * 20_000_000 + b"</w>"))
    for offset, magic in ((24, b"PK\x01\x02"), (22, b"PK\x03\x04")):
        entry = data.rindex(
            magic, 0, data.rindex(MAIN.encode()) if magic == b"PK\x01\x02" else data.index(MAIN.encode())
        )
        data[entry + offset : entry + offset + 4] = struct.pack("<I", 1000)
    with pytest.raises(UnreadableFileError, match="broken"):
        read(bytes(data))


def test_unpacking_stops_at_the_limit_of_all_files_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_archive, "_check_declared", lambda _: None)
    monkeypatch.setattr(docx_archive, "MAX_XML_BYTES", 200_000)
    with pytest.raises(UnreadableFileError, match="unpacks to more than"):
        docx_archive.sanitized(io.BytesIO(main_replaced(b"<w>" + b" x" * 200_000 + b"</w>")))
    monkeypatch.setattr(docx_archive, "MAX_XML_BYTES", 2**30)
    monkeypatch.setattr(docx_archive, "RATIO_FROM_BYTES", 100_000)
    with pytest.raises(UnreadableFileError, match="packed to less than"):
        docx_archive.sanitized(io.BytesIO(main_replaced(b"<w>" + b" " * 200_000 + b"</w>")))


@pytest.mark.slow
def test_an_archive_of_too_many_files_is_refused() -> None:
    more = {f"word/{index}.bin": b"" for index in range(docx_archive.MAX_ENTRIES)}
    with pytest.raises(UnreadableFileError, match="files in its ZIP archive"):
        read(repacked(saved(of("Hello.")), lambda _, content: content, **more))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "entity", ['<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">', '<!ENTITY b SYSTEM "file:///etc/passwd">']
)
def test_xml_with_entities_is_refused(entity: str, encoding: str) -> None:
    xml = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE w:document [{entity}]>'
        f"<w:document {W}><w:body><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:body></w:document>"
    )
    with pytest.raises(UnreadableFileError, match="declares a document type"):
        read(main_replaced(xml.encode(encoding)))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["holiday.jpg"], "a ZIP archive, but no DOCX"),
        (["[Content_Types].xml", "xl/workbook.xml"], "Excel"),
        (["[Content_Types].xml", "ppt/presentation.xml"], "PowerPoint"),
        (["mimetype", "content.xml"], "OpenDocument"),
        ([], "no DOCX"),
    ],
)
def test_another_archive_is_refused_with_what_it_is(names: list[str], reason: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "<x/>")
    with pytest.raises(UnsupportedFileError, match=reason):
        read(packed.getvalue(), "a.docx")


def test_a_document_with_macros_says_what_to_save_it_as() -> None:
    macros = b"application/vnd.ms-word.document.macroEnabled.main+xml"
    data = repacked(saved(of("Hello.")), lambda _, content: content.replace(docx_archive.MAIN_TYPE, macros))
    with pytest.raises(UnsupportedFileError, match=r"macros.*save it as \.docx"):
        read(data)


def broken_files() -> dict[str, bytes]:
    whole = saved(of("Hello. " * 200))
    encrypted = bytearray(whole)
    encrypted[whole.index(b"PK\x03\x04") + 6] |= 1
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    damaged = bytearray(whole)
    at = whole.index(MAIN.encode()) + len(MAIN) + 40
    damaged[at : at + 20] = b"\xff" * 20
    return {
        "cut": whole[: len(whole) // 2],
        "only its beginning": whole[:4],
        "encrypted": bytes(encrypted),
        "damaged": bytes(damaged),
        "no XML": main_replaced(b"<w:document"),
        "another root": main_replaced(b"<html/>"),
        "no main part": repacked(whole, lambda name, content: None if name == MAIN else content),
        "no relationships": repacked(whole, lambda name, content: None if name == "_rels/.rels" else content),
        "a relation to nowhere": repacked(
            whole,
            lambda name, content: content.replace(b"word/document", b"word/none") if ".rels" in name else content,
        ),
    }  # fmt: skip


@pytest.mark.parametrize(("how", "data"), broken_files().items())
def test_a_broken_document_is_refused_with_what_to_do(how: str, data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"story\.docx: .*(broken|encrypted|not well-formed XML).*save it"):
        read(data)


def test_a_document_without_a_word_is_refused() -> None:
    with pytest.raises(UnreadableFileError, match="no text"):
        read(saved(docx.Document()))


def test_a_document_that_is_too_long_is_refused() -> None:
    with pytest.raises(TextTooLongError, match="more than 100 characters"):
        read(saved(of("Hello. " * 100)), most=100)


WORDS = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\u00ad\ufeff.…" + "".join(map(chr, LIGATURES))
    ),
    min_size=1,
)


@pytest.mark.slow
@settings(deadline=None)
@given(paragraphs=st.lists(st.lists(WORDS, min_size=1).map(" ".join), min_size=1, max_size=20))
def test_any_text_comes_back_from_a_document(paragraphs: list[str]) -> None:
    text = "\n".join(paragraphs)
    assume(mend_of(text) is None and len(LOST.findall(text)) < 5)  # test_misread.py has these
    assume(not any(lines_going_on(paragraphs)))  # test_lines.py has these
    assert text_of(of(*paragraphs)) == paragraphs


def test_the_author_is_the_creator_of_its_properties() -> None:
    document = of("Hello.")
    assert read(saved(document)).author is None  # the library's own name
    document.core_properties.author = "Ann\n Ode"
    assert read(saved(document)).author == "Ann Ode"


def test_raised_runs_are_exponents_marks_of_notes_or_endings_of_ordinals() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for text in ("It is 10", "^13", " km, she slept.", "^2", " On the 5", "^th", " of May, x", "^n", "."):
        run = paragraph.add_run(text.removeprefix("^"))
        run.font.superscript = text.startswith("^") or None
    assert text_of(document) == ["It is 10¹³ km, she slept. On the 5th of May, x^n."]


def test_a_table_of_contents_is_silent() -> None:
    document = of("Report")
    document.styles.add_style("toc 1", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("2 Methods\t5", style="toc 1")
    document.add_paragraph("3 Results .......... 7")
    document.add_paragraph("It begins here ...")
    assert text_of(document) == ["Report", "It begins here ..."]


def numbered(text: str, level: int = 0, of: int = 1) -> str:
    """A paragraph of a list."""
    properties = f'<w:pPr><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{of}"/></w:numPr></w:pPr>'
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_items_of_numbered_lists_begin_with_their_number() -> None:
    formats = [("decimal", 1), ("lowerLetter", 1), ("bullet", 1)]
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/></w:lvl>'
        for level, (form, start) in enumerate(formats)
    )
    again = '<w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
    lists = (
        f"<w:numbering {W}>"
        f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        f'<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>{again}</w:lvlOverride></w:num></w:numbering>'
    )
    items = [
        numbered("Boil it."), numbered("Salt", 1), numbered("Oil", 1), numbered("Olive", 2), numbered("Eat."),
        numbered("Plate", 1), numbered("New", 0, 2), numbered("More", 0, 2), numbered("None", 0, 0),
        numbered("Deep", 5),
    ]  # fmt: skip
    data = repacked(
        saved(with_xml("".join(items))), lambda name, old: lists.encode() if name == "word/numbering.xml" else old
    )
    assert read(data).text.split("\n\n") == [
        "Before.", "1. Boil it.", "a. Salt.", "b. Oil.", "Olive.", "2. Eat.", "a. Plate.", "1. New.", "2. More.",
        "None.", "Deep.",
    ]  # fmt: skip


def test_a_style_may_number_its_paragraphs() -> None:
    document = of()
    for text in ("Boil it.", "Eat."):
        document.add_paragraph(text, style="List Number")
    assert text_of(document) == ["1. Boil it.", "2. Eat."]
