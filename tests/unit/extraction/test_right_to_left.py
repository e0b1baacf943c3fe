"""Lines from right to left: PDF's letters by their places, presentation forms, Persian in EPUB, DOCX and PDF."""

from __future__ import annotations

import io
import unicodedata

import docx
import pdfs
import pytest
from epubs import epub

from voxyard.extraction.extract import extract
from voxyard.extraction.pdf_right_to_left import Letter, logical
from voxyard.speech.reading.reader import read_words

SIZE = 10.0
WIDTHS = {" ": 3.0}


def drawn(visual: str) -> list[Letter]:
    """Letters as they stand on a page from left to right; a blank takes room and is no letter."""
    found, x = list[Letter](), 0.0
    for each in visual:
        width = WIDTHS.get(each, 5.0)
        if each != " ":
            found.append(Letter(each, (x + 0.2, x + width - 0.2), (x, x + width)))
        x += width
    return found


@pytest.mark.parametrize(
    ("visual", "text"),
    [
        ("مالس", "سلام"),
        ("۱۴۰۳ لاس رد", "در سال ۱۴۰۳"),
        ("تسا ۱۴۰۳/۰۵/۱۲ خیرات", "تاریخ ۱۴۰۳/۰۵/۱۲ است"),
        ("دوب (رالد 2.5 ینعی) نآ", "آن (یعنی 2.5 دلار) بود"),
        ("تسا ناگیار Python 3.12 اما", "اما Python 3.12 رایگان است"),
        ("«ورب» :تفگ وا", "او گفت: «برو»"),
        (".تفر ،دمآ", "آمد، رفت."),
        ("۱۴۰۳-۱۴۰۲ لاس", "سال ۱۴۰۲-۱۴۰۳"),
        ("۲۰ و ۱۰", "۱۰ و ۲۰"),
        ("The word باتک means book.", "The word کتاب means book."),
        ("The words گرزب باتک mean a big book.", "The words کتاب بزرگ mean a big book."),
        ("םולש ,םלוע", "עולם, שלום"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_letters_are_read_by_their_places_whatever_their_order_in_the_file(visual: str, text: str, order: int) -> None:
    letters = drawn(visual)
    assert logical(letters[::order], SIZE) == text


def test_brackets_that_a_font_names_by_their_meaning_stay() -> None:
    assert logical(drawn("دوب )رالد ینعی( نآ"), SIZE) == "آن (یعنی دلار) بود"


WIDE = 11 * 0.6  # a letter of Courier
PERSIAN = "در سال ۱۴۰۳ پنج نفر آمدند؛ حال شما چطور است؟"


def font_of(letters: str) -> tuple[bytes, bytes]:
    """A font whose codes from ! on are these letters, and the object 11 that says so."""
    pairs = "\n".join(f"<{0x21 + at:02x}> <{ord(each):04x}>" for at, each in enumerate(letters))
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /P def /CMapType 2 def\n"
        "1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(letters)} beginbfchar\n{pairs}\nendbfchar endcmap end end"
    )
    widths = b" ".join([b"600"] * len(letters))
    entries = b"/ToUnicode 11 0 R /FirstChar 33 /LastChar %d /Widths [%s]" % (32 + len(letters), widths)
    return b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier %s >>" % entries, pdfs.stream(cmap.encode())


def pieces_of(words: list[str], drawn_by: str) -> list[tuple[float, str]]:
    """Pieces of a line and their places: whole words, or letters one by one."""
    pieces, x = list[tuple[float, str]](), 500.0
    for word in words:
        visual = word if word[0].isdigit() else word[::-1]
        x -= WIDE * len(word)
        letters = [(x + WIDE * at, each) for at, each in enumerate(visual)]
        pieces += {"words": [(x, visual)], "letters": letters, "letters as read": letters[::-1]}[drawn_by]
        x -= WIDE
    return pieces


@pytest.mark.parametrize("forms", [False, True], ids=["letters", "presentation forms"])
@pytest.mark.parametrize("drawn_by", ["words", "letters", "letters as read"])
def test_a_persian_pdf_is_read_from_right_to_left(forms: bool, drawn_by: str) -> None:
    shown = PERSIAN.translate({ord("ل"): "ﻞ", ord("پ"): "ﭘ", ord("ف"): "ﻔ"}) if forms else PERSIAN
    assert unicodedata.normalize("NFKC", shown) == PERSIAN
    words = shown.split(" ")
    letters = "".join(sorted({*"".join(words)}))
    font, characters = font_of(letters)
    content = [b"BT /F1 11 Tf"]
    for x, piece in pieces_of(words, drawn_by):
        codes = bytes(0x21 + letters.index(each) for each in piece)
        content.append(b"1 0 0 1 %g 700 Tm <%s> Tj" % (x, codes.hex().encode()))
    data = pdfs.document([b"\n".join([*content, b"ET"])], further={3: font, 11: characters})
    found = extract(data, "f.pdf", None, max_characters=10_000)
    assert found.text == PERSIAN


def test_forms_of_arabic_letters_are_letters_in_any_file() -> None:
    text = "\ufeb3\ufefc\ufee1 \ufdfc"
    assert extract(text.encode(), "f.txt", None, max_characters=100).text == "سلام \ufdfc"


def docx_of(text: str) -> bytes:
    document = docx.Document()
    document.core_properties.language = "fa-IR"
    document.add_paragraph(text)
    saved = io.BytesIO()
    document.save(saved)
    return saved.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [("f.epub", epub({"فصل اول": PERSIAN}, title="کتاب", language="fa")), ("f.docx", docx_of(PERSIAN))],
    ids=["epub", "docx"],
)
def test_a_persian_book_keeps_its_text_and_language(name: str, data: bytes) -> None:
    found = extract(data, name, None, max_characters=10_000)
    assert PERSIAN in found.text
    assert (found.language or "").startswith("fa")
    assert "سال هزار و چهارصد و سه پنج نفر" in read_words(found.text, found.language)
