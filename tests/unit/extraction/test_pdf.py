"""PDF reader: paragraphs from lines, page numbers, hyphens, and malicious files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pdfs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from voxyard.extraction.document import Paragraph, rendered
from voxyard.extraction.errors import ExtractionError, TextTooLongError, UnreadableFileError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.pdf import read_pdf
from voxyard.extraction.pdf_notes import TextLine
from voxyard.extraction.pdf_paragraphs import blocks

FILLING = "and so the night went on until the first light came over the hills beyond"
FULL = f"It was late {FILLING}"


def read(data: bytes, name: str = "story.pdf", most: int = 1_000_000) -> ExtractedText:
    return extract(data, name, "application/pdf", max_characters=most)


def paragraphs_of(*pages: Sequence[str]) -> list[str]:
    """Paragraphs of a file with these pages, read in this process."""
    return read_pdf(io.BytesIO(pdfs.written(pages)), max_characters=1_000_000).text.split("\n\n")


def body(page: int) -> list[str]:
    """Lines of a page, unlike those of other pages, in the middle of a sentence."""
    return [f"{'abcdefghijklmnopqrst'[line]}{'abcdefghijklmnopqrst'[page]} {FILLING}" for line in range(8)]


def encrypted(user: str, algorithm: str) -> bytes:
    writer = PdfWriter(PdfReader(io.BytesIO(pdfs.written([["A secret."]]))))
    writer.encrypt(user, "the owner's", algorithm=algorithm)
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


def test_the_pages_are_read_in_order_with_their_paragraphs() -> None:
    found = read(pdfs.written([["Night", "", FULL, "and ended."], ["Day", "", "It came (at last) \\o/ – früh."]]))
    assert found.text == f"Night\n\n{FULL} and ended.\n\nDay\n\nIt came (at last) \\o/ – früh."
    assert (found.kind, found.title) == ("pdf", "story")


@pytest.mark.parametrize("packed", [True, False])
def test_a_files_own_title_counts(packed: bool) -> None:
    page = pdfs.page_content(["Hello."])
    assert read(pdfs.document([page], title="The Long Night", packed=packed)).title == "The Long Night"
    assert read(pdfs.document([page], title="untitled.doc", packed=packed)).title == "story"


@pytest.mark.parametrize(
    ("written", "author"),
    [
        (b"(Ann Ode)", "Ann Ode"),
        (b"<FEFF0041006E006E00070020004F0064000A0065>", "Ann Od e"),
        (b"<FEFF0041006E006E0000004F>", "AnnO"),
        (b"<FEFF0041D800006E>", "A\ufffdn"),  # half a character
        (b"(python-docx)", None),
        (b"()", None),
        (b"(" + b"Ode " * 100_000 + b")", "Ode " * 49 + "Ode…"),
    ],
)
def test_a_files_own_author_is_one_line_whatever_it_says(written: bytes, author: str | None) -> None:
    page = pdfs.page_content(["Hello."])
    assert read(pdfs.document([page], information=b"/Author " + written)).author == author


def test_a_paragraph_ends_at_a_larger_distance_an_indent_or_a_short_last_line() -> None:
    assert paragraphs_of([FULL, FULL, "", FULL, FULL]) == [f"{FULL} {FULL}", f"{FULL} {FULL}"]
    assert paragraphs_of([f"{FULL}.", f"    {FULL}", FULL]) == [f"{FULL}.", f"{FULL} {FULL}"]
    assert paragraphs_of([f"{FULL}.", f" {FULL}", FULL]) == [f"{FULL}. {FULL} {FULL}"]
    assert paragraphs_of([FULL, "ended.", FULL, FULL]) == [f"{FULL} ended.", f"{FULL} {FULL}"]
    assert paragraphs_of([f"{FULL}:", "• one thing.", "• another."]) == [f"{FULL}:", "• one thing.", "• another."]


def test_a_paragraph_goes_on_over_a_page_where_its_sentence_does() -> None:
    assert paragraphs_of([FULL], ["which ended."]) == [f"{FULL} which ended."]
    assert paragraphs_of([f"{FULL}."], ["Which ended."]) == [f"{FULL}.", "Which ended."]
    assert paragraphs_of([FULL], ["Chapter Two"]) == [FULL, "Chapter Two"]


def test_a_heading_in_another_size_is_a_paragraph() -> None:
    content = pdfs.page_content(["Night"], size=20) + pdfs.page_content([FULL, "ended"], top=742)
    found = read_pdf(io.BytesIO(pdfs.document([content])), max_characters=1000).text
    assert found == f"Night\n\n{FULL} ended"


def test_a_word_that_is_broken_at_a_lines_end_is_joined() -> None:
    assert paragraphs_of([f"{FILLING} exam-", "ple of it"]) == [f"{FILLING} example of it"]
    assert paragraphs_of([f"{FILLING} exam-"], ["ple of it"]) == [f"{FILLING} example of it"]
    assert paragraphs_of([f"{FILLING} exam\u00ad", "ple of it"]) == [f"{FILLING} example of it"]


def test_a_hyphen_that_belongs_to_a_word_stays() -> None:
    known = f"a well-known {FILLING}"
    assert paragraphs_of([known, f"{FILLING} well-", "known it was"]) == [f"{known} {FILLING} well-known it was"]
    assert paragraphs_of([f"{FILLING} Jean-", "Paul"]) == [f"{FILLING} Jean-Paul"]
    assert paragraphs_of([f"{FILLING} 1990-", "1995"]) == [f"{FILLING} 1990-1995"]
    assert paragraphs_of([f"{FILLING} and -", "so on"]) == [f"{FILLING} and - so on"]


@pytest.mark.parametrize("form", ["{}", "- {} -", "Page {} of 4", "Seite {}", "{}/4"])
@pytest.mark.parametrize("first", [1, 17])
def test_running_page_numbers_go_from_the_top_and_the_bottom(form: str, first: int) -> None:
    bottom = [["Word.", form.format(first + index)] for index in range(4)]
    top = [[form.format(first + index), "Word."] for index in range(4)]
    assert paragraphs_of(*bottom) == ["Word."] * 4
    assert paragraphs_of(*top) == ["Word."] * 4


@pytest.mark.parametrize("numbers", [["12", "99", "7", "3"], ["1", "2"], ["1918", "1918", "1918", "1918"]])
def test_numbers_that_do_not_count_the_pages_stay(numbers: list[str]) -> None:
    found = " ".join(paragraphs_of(*[["The number was", number] for number in numbers]))
    assert [number for number in numbers if number not in found] == []


def test_a_page_number_leaves_the_sentence_around_it_whole() -> None:
    pages = [[FULL, str(number)] for number in (1, 2, 3)]
    assert paragraphs_of(*pages, ["which ended.", "4"])[-1].endswith(f"{FILLING} which ended.")


@pytest.mark.parametrize(
    "numbered", ["The Long Night {}", "{}   The Long Night", "xi The Long Night", "The Long Night"]
)
def test_a_running_head_is_dropped_and_the_sentence_around_it_is_whole(numbered: str) -> None:
    pages = [[numbered.format(page), "", *body(page)] for page in range(11, 16)]
    found = paragraphs_of(*pages)
    assert not any("Long Night" in paragraph for paragraph in found)
    assert len(found) == 1


def test_heads_that_alternate_from_page_to_page_are_dropped() -> None:
    heads = ["The Long Night", "Ann Author"] * 3
    found = " ".join(paragraphs_of(*[[head, "", *body(page)] for page, head in enumerate(heads)]))
    assert "Night" not in found
    assert "Author" not in found


def test_a_line_that_repeats_within_pages_or_on_two_of_them_stays() -> None:
    refrain = [["It began.", FULL, "Sing, oh sing.", FULL, "It ended."] for _ in range(2)]
    assert " ".join(paragraphs_of(*refrain)).count("Sing, oh sing.") == 2


def test_the_head_of_other_pages_is_dropped_from_a_page_of_two_lines() -> None:
    pages = [["The Long Night 1", "", *body(page)] for page in range(4)]
    assert "Long Night" not in " ".join(paragraphs_of(*pages, ["The Long Night 5", "", "The last line."]))


def apart(page: int, title: str, size: float = 11) -> bytes:
    """A page with a line of its own, two lines above the text."""
    return pdfs.page_content([title], size=size) + pdfs.page_content(body(page), top=770 - 2 * 14)


def test_heads_that_change_from_page_to_page_are_told_by_their_place() -> None:
    titles = ["7.3. Why", "Chapter 7", "7.4. How", "Chapter 8", "8.1. When", "8.2. Where"]
    found = read(pdfs.document([apart(page, title) for page, title in enumerate(titles)]))
    assert not any(title in found.text for title in titles)
    assert found.text.count("\n\n") == 0


def test_titles_of_slides_and_first_lines_of_pages_stay() -> None:
    titles = [f"Slide {word}" for word in ("one", "two", "three", "four", "five", "six")]
    slides = read(pdfs.document([apart(page, title, size=18) for page, title in enumerate(titles)]))
    assert [chapter.title for chapter in slides.chapters] == titles
    pages = [[f"{title} it began.", *body(page)] for page, title in enumerate(titles)]
    assert all(title in " ".join(paragraphs_of(*pages)) for title in titles)


def test_copies_of_one_letter_are_not_running_heads() -> None:
    letter = ["Dear reader,", FULL, "ended.", "Yours, Ann"]
    assert " ".join(paragraphs_of(letter, letter, letter, letter)).count("Yours, Ann") == 4


def test_the_salutation_of_several_letters_stays() -> None:
    letters = [["Dear Members of the Council,", "", *body(page)] for page in range(5)]
    assert " ".join(paragraphs_of(*letters)).count("Council,") == 5


def test_a_first_line_that_repeats_under_a_running_head_belongs_to_the_text() -> None:
    found = " ".join(paragraphs_of(*[["The Long Night", "", "It was so that", *body(page)] for page in range(5)]))
    assert (found.count("Long Night"), found.count("It was so that")) == (0, 5)


def test_headings_by_size_are_chapters() -> None:
    def page(title: str) -> bytes:
        return pdfs.page_content([title], size=20) + pdfs.page_content([FULL, FULL, "ended."], top=742)

    found = read(pdfs.document([page("Night"), page("Day")]))
    assert [(chapter.title, chapter.level) for chapter in found.chapters] == [("Night", 1), ("Day", 1)]
    assert found.text[found.chapters[1].start :].startswith("Day\n\nIt was late")


def test_pieces_of_a_line_and_turned_and_mirrored_pages_make_lines() -> None:
    pieces = b"BT /F1 11 Tf 72 700 Td [(Hel) -20 (lo) -400 (there)] TJ ET BT /F1 11 Tf 130 700 Td (friend) Tj ET"
    turned = b"q 0 1 -1 0 600 0 cm " + pdfs.page_content([FULL, "ended.", "", "Next."]) + b" Q"
    mirrored = b"q 1 0 0 -1 0 842 cm BT /F1 11 Tf 1 0 0 -1 72 100 Tm (First) Tj 1 0 0 -1 72 114 Tm (second) Tj ET Q"
    found = read_pdf(io.BytesIO(pdfs.document([pieces, turned, mirrored])), max_characters=1000).text
    assert found == f"Hello there friend\n\n{FULL} ended.\n\nNext.\n\nFirst second"


def test_ligatures_become_letters_and_chinese_lines_join_without_a_blank() -> None:
    content = io.BytesIO(pdfs.document([pdfs.page_content(["x"])]))
    assert read_pdf(content, max_characters=10).text == "x"
    lines = [TextLine("这是一个中文文本", 72, 100, 11), TextLine("北京是中国的首都。", 72, 114, 11)]
    assert rendered(blocks([lines])) == "这是一个中文文本北京是中国的首都。"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_an_encrypted_file_is_read_without_a_password_or_refused(algorithm: str) -> None:
    assert read(encrypted("", algorithm)).text == "A secret."
    with pytest.raises(UnreadableFileError, match=r"story\.pdf: encrypted with a password.*save it"):
        read(encrypted("the user's", algorithm))


def test_a_scanned_file_is_refused_with_the_word_ocr() -> None:
    picture = pdfs.stream(b"\0" * 100, b"/Type /XObject /Subtype /Image /Width 10 /Height 10 /BitsPerComponent 8"
                          b" /ColorSpace /DeviceGray")  # fmt: skip
    resources = b"/XObject << /Im1 10 0 R >>"
    data = pdfs.document([b"q 100 0 0 100 0 0 cm /Im1 Do Q"] * 2, resources=resources, further={10: picture})
    with pytest.raises(UnreadableFileError, match=r"no text on its 2 pages.*OCR"):
        read(data)


def test_a_font_that_does_not_say_its_letters_is_refused() -> None:
    nameless = b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [11 0 R] >>"
    cid = b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity)"
    further = {3: nameless, 11: cid + b" /Supplement 0 >> >>"}
    content = b"BT /F1 11 Tf 72 700 Td <E001E002E003E004> Tj ET"
    with pytest.raises(UnreadableFileError, match="fonts have no character mapping"):
        read(pdfs.document([content], further=further))


def loop_of_pages() -> bytes:
    return pdfs.objects({
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        3: b"<< /Type /Pages /Count 1 /Parent 2 0 R /Kids [2 0 R] >>",
    })  # fmt: skip


def loop_of_references() -> bytes:
    return pdfs.objects({1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"3 0 R", 3: b"2 0 R"})


def deep_arrays() -> bytes:
    return pdfs.objects({1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"[" * 50_000 + b"]" * 50_000})


def forms_in_forms() -> bytes:
    """Each form shows the next one ten times: ten million texts."""
    form = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /Font << /F1 3 0 R >>"
    further = {
        number: pdfs.stream(b"/X Do " * 10, form + b" /XObject << /X %d 0 R >> >>" % (number + 1))
        for number in range(10, 17)
    }
    further[17] = pdfs.stream(b"BT /F1 9 Tf (ha) Tj ET", form + b" >>")
    return pdfs.document([b"/X Do"], resources=b"/XObject << /X 10 0 R >>", further=further)


def packed_a_thousand_times() -> bytes:
    return pdfs.document([b" " * 200_000_000 + b"BT /F1 9 Tf (ha) Tj ET"], packed=True)


@pytest.mark.slow
@pytest.mark.parametrize("make", [loop_of_pages, loop_of_references, deep_arrays, forms_in_forms])
def test_a_file_that_is_made_to_cost_without_end_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(UnreadableFileError, match=r"story\.pdf: .*(send that)$"):
        read(make())


@pytest.mark.slow
def test_a_page_that_is_packed_to_a_thousandth_is_read_within_the_limits() -> None:
    assert read(packed_a_thousand_times()).text == "ha"


def test_a_text_that_is_far_too_long_is_refused_before_the_last_page_is_read() -> None:
    with pytest.raises(TextTooLongError, match="more than 30 characters: split the document"):
        read_pdf(io.BytesIO(pdfs.written([[FULL]])), max_characters=30)


WHOLE = pdfs.written([["It was dark."], ["It was light."]])
BROKEN = {
    "only its beginning": b"%PDF-1.7\n",
    "no pages": pdfs.document([]),
    "no catalog": pdfs.objects({1: b"<< /Type /Font >>"}),
    "no dictionary as catalog": pdfs.objects({1: b"17"}),
    "pages that are none": pdfs.objects({1: b"<< /Type /Catalog /Pages 7 0 R >>"}),
    "junk": b"%PDF-1.7\n" + bytes(range(256)) * 40,
    "an unknown encryption": WHOLE.replace(b"/Root 1 0 R", b"/Root 1 0 R /Encrypt << /Filter /Unknown /V 9 >>"),
}


@pytest.mark.parametrize(("how", "data"), BROKEN.items())
def test_a_broken_file_is_refused_with_what_to_do(how: str, data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"story\.pdf: .*(send that)$"):
        read(data)


def test_a_file_whose_table_is_broken_or_gone_is_read_all_the_same() -> None:
    table = WHOLE.rindex(b"xref\n0 1")
    for data in (b"junk before\n" + WHOLE, WHOLE[:table] + WHOLE[WHOLE.index(b"trailer") :]):
        assert read(data).text == "It was dark.\n\nIt was light."


def test_a_text_that_is_too_long_is_refused() -> None:
    for lines in ([FULL] * 2, [FULL] * 50):
        with pytest.raises(TextTooLongError, match="more than 100 characters"):
            read(pdfs.written([lines] * 2), most=100)


@settings(deadline=None, max_examples=60)
@given(at=st.integers(0, len(WHOLE) - 1), junk=st.binary(min_size=1, max_size=30))
def test_damage_anywhere_causes_a_text_or_an_error_and_never_an_endless_run(at: int, junk: bytes) -> None:
    data = WHOLE[:at] + junk + WHOLE[at + len(junk) :]
    try:
        assert isinstance(read_pdf(io.BytesIO(data), max_characters=1000).text, str)
    except ExtractionError as error:
        assert "send" in str(error)


WORD = st.text("abcdefghijklmnopqrstuvwxyzäöüéñ", min_size=1, max_size=12)


@settings(deadline=None)
@given(words=st.lists(WORD, min_size=1, max_size=200), width=st.integers(20, 90))
def test_no_word_of_a_file_is_lost_or_doubled(words: list[str], width: int) -> None:
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > width:
            lines.append(line.strip())
            line = ""
        line += f" {word}"
    lines.append(line.strip())
    pages = [lines[start : start + 5] for start in range(0, len(lines), 5)]
    found = read_pdf(io.BytesIO(pdfs.written(pages)), max_characters=100_000).text
    assert found.split() == words


def test_a_note_does_not_part_a_broken_word_and_its_mark_is_silent() -> None:
    first = [
        TextLine("The first page tells of an island where nobody had been.1 He was a", 72, 100, 12),
        TextLine("man who loved the sea, and at last they saw the moun-", 72, 114, 12),
        TextLine("1 See the appendix on captains", 72, 700, 9),
        TextLine("and islands.", 72, 711, 9),
    ]
    second = [
        TextLine("tains rising from the mist, and the crew was silent in 1999 there.", 72, 100, 12),
        TextLine("Then came the night, with rain and wind, and nobody slept on it.", 72, 114, 12),
    ]
    assert blocks([first, second]) == [
        Paragraph(
            "The first page tells of an island where nobody had been. He was a man who loved the sea, and at last they "
            "saw the mountains rising from the mist, and the crew was silent in 1999 there. Then came the night, with "
            "rain and wind, and nobody slept on it."
        ),
        Paragraph("See the appendix on captains and islands."),
    ]


def test_a_letter_as_tall_as_several_lines_joins_its_word() -> None:
    page = [
        TextLine("O", 72, 130, 40),
        TextLine("nce upon a time there was a king who had three", 105, 104, 12),
        TextLine("sons, and the youngest of them was a fool.", 105, 118, 12),
        TextLine("He went into the world and found his luck.", 72, 132, 12),
    ]
    (block,) = blocks([page])
    assert isinstance(block, Paragraph)
    assert block.text.startswith("Once upon a time there was a king who had three sons")


def shown(*pieces: tuple[str, float, float], down: float = 770) -> bytes:
    """A line of pieces: text, how far it is raised, and the size of its font."""
    content = [b"BT 1 0 0 1 72 %g Tm" % down]
    content += [b"/F1 %g Tf %g Ts %s Tj" % (size, up, pdfs.string(text)) for text, up, size in pieces]
    return b"\n".join([*content, b"ET"])


@pytest.mark.parametrize(("up", "size"), [(4, 7.5), (3.6, 9), (5, 7)])  # of TeX, of Chrome, of Word
def test_small_figures_above_the_line_are_exponents_or_silent_marks(up: float, size: float) -> None:
    lines = [
        shown(("The star is 10", 0, 11), ("13", up, size), (" km away, a field has 50 m", 0, 11), ("2", up, size)),
        shown(("He slept.", 0, 11), ("1", up, size), (" In 1999 came 2013 men, x", 0, 11), ("-6", up, size), down=756),
        shown(("so that H", 0, 11), ("2", -2, 7), ("O and it was late", 0, 11), ("[12]", up, size), down=742),
    ]
    assert read(pdfs.document([b"\n".join(lines)])).text == (
        "The star is 10¹³ km away, a field has 50 m² He slept. In 1999 came 2013 men, x⁻⁶ so that H2O and it was late"
    )


def test_a_raised_mark_leads_to_its_note() -> None:
    page = [
        TextLine("The first page tells of an island where nobody had been.¹ He was a", 72, 100, 12),
        TextLine("man who loved the sea, 10¹³ times or more, and nobody knew it.² He left", 72, 114, 12),
        TextLine("1 See the appendix.", 72, 700, 9),
    ]
    assert blocks([page]) == [
        Paragraph(
            "The first page tells of an island where nobody had been. He was a man who loved the sea, 10¹³ times or "
            "more, and nobody knew it. He left"
        ),
        Paragraph("See the appendix."),
    ]


ROAD = ["It was a dark night, and the rain fell on the road", "that led down to the sea, which was grey and cold."]
SUN = ["In the morning the sun came out, and the birds sang", "again over the town by the sea, which was blue."]


@pytest.mark.parametrize(
    "stamp",
    ["0.7 0.7 -0.7 0.7 150 300 Tm (DRAFT COPY)", "0 1 -1 0 30 300 Tm (arXiv:2201.00200v1 [astro-ph] 1 Jan 2022)"],
    ids=["across the page", "up its edge"],
)
def test_what_is_stamped_on_a_page_is_silent(stamp: str) -> None:
    page = pdfs.page_content(ROAD) + f"\nBT /F1 20 Tf {stamp} Tj ET\n".encode() + pdfs.page_content(SUN, top=700)
    found = read_pdf(io.BytesIO(pdfs.document([page])), max_characters=1000)
    assert found.text.split("\n\n") == [" ".join(ROAD), " ".join(SUN)]


def outlined(pages: Sequence[Sequence[str]], entries: Sequence[tuple[str, int]]) -> bytes:
    """A file with an outline of these titles, each with the index of its page."""
    items = {10: b"<< /Type /Outlines /First 11 0 R /Last %d 0 R >>" % (10 + len(entries))}
    for at, (title, page) in enumerate(entries, 11):
        following = b" /Next %d 0 R" % (at + 1) if at - 10 < len(entries) else b""
        place = b"/Dest [%d 0 R /XYZ 0 800 0]" % (20 + 2 * page)
        items[at] = b"<< /Title %s /Parent 10 0 R %s%s >>" % (pdfs.string(title), place, following)
    data = pdfs.document([pdfs.page_content(page) for page in pages], further=items)
    return data.replace(b"/Type /Catalog", b"/Type /Catalog /Outlines 10 0 R", 1)


def test_the_outline_names_chapters_that_no_larger_letters_tell() -> None:
    pages = [["One: The", "Storm", *ROAD], ["2. The Calm", *SUN], SUN]
    found = read_pdf(
        io.BytesIO(outlined(pages, [("One: The Storm", 0), ("The Calm", 1), ("Three", 2)])), max_characters=1000
    )
    assert [chapter.title for chapter in found.chapters] == ["One: The Storm", "2. The Calm", "Three"]
    assert found.text.split("\n\n") == [
        "One: The Storm", " ".join(ROAD), "2. The Calm", " ".join(SUN), " ".join(SUN),
    ]  # fmt: skip


def test_an_outline_that_turns_in_a_circle_is_read_once() -> None:
    data = outlined([ROAD], [("One", 0), ("Two", 0)]).replace(b"/Next 12 0 R", b"/Next 11 0 R")
    assert " ".join(ROAD) in read_pdf(io.BytesIO(data), max_characters=1000).text


def test_a_compound_keeps_its_hyphen_at_the_end_of_a_line() -> None:
    (found,) = paragraphs_of(["He was a captain, and in all the towns a well-", "known man; he sat for din-", "ner."])
    assert found == "He was a captain, and in all the towns a well-known man; he sat for dinner."
