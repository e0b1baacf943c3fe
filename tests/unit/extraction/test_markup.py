"""Markdown and HTML: blocks, chapters, and what is not to be spoken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.extraction.document import (
    Block,
    Code,
    CodeBlocks,
    HeadingBlock,
    Paragraph,
    TextChapter,
    chapters,
    rendered,
    short_urls,
    spoken,
)
from voxyard.extraction.errors import ExtractionError, UnreadableFileError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.markdown import markdown_blocks
from voxyard.extraction.markup import html_page

PAGE = """<!DOCTYPE html><html lang="de"><head><title>Die Nacht</title><style>p {}</style></head><body>
<nav><a href="/">Start</a></nav><main><h1>Die Nacht<a class="headerlink" href="#nacht">¶</a></h1>
<p>Es war <em>dunkel</em>.<sup><a href="#fn1">1</a></sup> Siehe <a href="x">https://www.example.org/a/b?c=d</a>.</p>
<script>alert("no")</script><p hidden>verborgen</p>
<ul><li>eine Lampe</li><li>ein <b>Stuhl</b>!</li></ul>
<table><tr><th>Wer</th><th>Alter</th></tr><tr><td>Ann</td><td>5</td></tr></table>
<pre>a = 1
b = 2</pre></main><footer>Impressum</footer></body></html>"""


def read(data: str, name: str, code: CodeBlocks = "skip") -> ExtractedText:
    return extract(data.encode(), name, None, max_characters=100_000, code=code)


def test_a_page_is_read_without_what_stands_around_it() -> None:
    found = read(PAGE, "nacht.html")
    assert found.text.split("\n\n") == [
        "Die Nacht", "Es war dunkel. Siehe example.org.", "eine Lampe.", "ein Stuhl!", "Wer: Ann, Alter: 5.",
    ]  # fmt: skip
    assert (found.kind, found.title, found.language) == ("html", "Die Nacht", "de")


def test_code_is_skipped_or_announced() -> None:
    assert "Code" not in read(PAGE, "nacht.html").text
    assert read(PAGE, "nacht.html", "announce").text.endswith("Code, 2 lines.")
    assert read("Text.\n\n    one()\n", "a.md", "announce").text == "Text.\n\nCode, 1 line."


def test_markdown_becomes_headings_sentences_and_notes_at_the_end() -> None:
    text = "---\nlang: en\n---\n# Night\n\n"
    text += "It was *dark*[^1], see <http://foo.bar/x>.\n\n1. one\n2. two;\n\n[^1]: Very dark.\n"
    assert read(text, "night.md").text.split("\n\n") == [
        "Night", "It was dark, see foo.bar.", "1. one.", "2. two;", "Very dark.",
    ]  # fmt: skip
    assert read("# Night\n\n|a|b|\n|-|-|\n|1||\n|2|3|\n", "x.markdown").text == "Night\n\na: 1.\n\na: 2, b: 3."
    assert read("# Night", "night.txt").text == "# Night"


def test_headings_are_chapters_at_their_offsets() -> None:
    found = read("# The Book\n\nIntro.\n\n## One\n\nText of One.\n\n### Part\n\n## Two\n\nEnd.\n", "book.md")
    assert [(chapter.title, chapter.level) for chapter in found.chapters] == [("The Book", 1), ("One", 2), ("Two", 2)]
    assert all(found.text[chapter.start :].startswith(chapter.title) for chapter in found.chapters)
    assert found.text[found.chapters[1].start :].startswith("One\n\nText of One.")


def test_a_document_without_headings_has_no_chapters() -> None:
    assert read("Just text.", "a.md").chapters == ()


def test_a_lone_heading_is_a_chapter() -> None:
    blocks: list[Block] = [Paragraph("Before."), HeadingBlock("Night", 2), Paragraph("It was dark.")]
    assert chapters(blocks, rendered(blocks)) == (TextChapter("Night", 9, 2),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://www.example.org/a/b.html?c=d#e, or", "see example.org, or"),
        ("(http://user:secret@example.org:8080/x)", "(example.org)"),
        ("ftp://ftp.debian.org.", "ftp.debian.org."),
        ("mail me@example.org", "mail me@example.org"),
        ("https://", "https://"),
    ],
)
def test_an_url_is_read_as_its_host(text: str, expected: str) -> None:
    assert short_urls(text) == expected


def test_entities_and_other_encodings_are_text() -> None:
    page = '<html><head><meta charset="iso-8859-1"></head><body>'
    page += "<p>Fr\xfch &amp; sp&auml;t&nbsp;&#8212; ja</p></body></html>"
    assert rendered(html_page(page.encode("latin-1")).blocks).replace("\u00a0", " ") == "Früh & spät — ja"


def test_an_encoding_that_is_not_the_pages_own_declares_none() -> None:
    formula = '<math><semantics><mi>x</mi><annotation encoding="application/x-tex">x</annotation></semantics></math>'
    page = f"<p>漢字 {formula}</p>"
    assert "漢字" in rendered(html_page(page.encode()).blocks)


def test_nested_lists_and_tables_for_layout_are_text() -> None:
    lists = "<ul><li>one<ol><li>inner</li></ol></li><li><p>two</p><p>more</p></li></ul>"
    assert rendered(html_page(lists).blocks).split("\n\n") == ["one.", "1. inner.", "two.", "more."]
    layout = "<table><tr><td><p>left</p><p>side</p></td><td>right</td></tr></table>"
    assert rendered(html_page(layout).blocks).split("\n\n") == ["left", "side", "right"]


@pytest.mark.parametrize(
    ("markup", "spoken"),
    [
        ('<aside epub:type="footnote"><p><sup>1</sup> The year of the gale.</p></aside>', ["The year of the gale."]),
        ('<div class="footnotes"><p id="fn2"><sup>[2]</sup> All night.</p></div>', ["All night."]),
        ('<aside role="doc-footnote"><p><span><sup>*</sup></span> In May.</p></aside>', ["In May."]),
        ('<aside epub:type="footnote"><p>It was 10<sup>2</sup> km.</p></aside>', ["It was 10² km."]),
        ("<p><sup>3</sup> Helium is rare.</p>", ["3 Helium is rare."]),
    ],
)
def test_the_number_before_a_note_is_silent(markup: str, spoken: list[str]) -> None:
    assert rendered(html_page(f"<h1>Rain</h1>{markup}").blocks).split("\n\n")[1:] == spoken


@pytest.mark.parametrize(
    ("items", "spoken"),
    [
        ("<ol><li>Boil it.</li><li><p>Eat.</p><p>Rest.</p></li></ol>", ["1. Boil it.", "2. Eat.", "Rest."]),
        ("<ol start=3><li>c</li><li value=9>d</li><li>e</li></ol>", ["3. c.", "9. d.", "10. e."]),
        ("<ol type=a><li>x</li><li>y</li></ol>", ["a. x.", "b. y."]),
        ("<ol start=x><li>x</li><li hidden>y</li><li>z</li></ol>", ["1. x.", "3. z."]),
        ("<section class=footnotes><ol><li>A note.</li></ol></section>", ["A note."]),
        ("<ul><li>x</li></ul>", ["x."]),
    ],
)
def test_items_of_an_ordered_list_keep_their_numbers(items: str, spoken: list[str]) -> None:
    assert rendered(html_page(items).blocks).split("\n\n") == spoken


def test_elements_nested_without_end_are_refused() -> None:
    with pytest.raises(UnreadableFileError, match=r"nested .*save its text as TXT"):
        read("<html><body>" + "<div>" * 100_000 + "x", "deep.html")
    with pytest.raises(UnreadableFileError, match=r"nested .*save its text as TXT"):
        read("<html><body>" + "<blockquote><b>" * 150 + "x", "deep.html")


def test_entities_that_grow_without_end_do_not() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    page = (
        f'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a0 "ha">{entities}]><html><body><p>&a11; end</p></body></html>'
    )
    assert len(read(page, "laughs.xhtml").text) < 2_000


def test_a_page_without_a_word_is_refused() -> None:
    with pytest.raises(UnreadableFileError, match=r"empty\.html: no text found"):
        read("<html><body><img src='a.png' alt='A lamp'></body></html>", "empty.html")


@given(st.text())
def test_any_text_is_markdown_and_html(text: str) -> None:
    for read_blocks in (markdown_blocks, lambda markup: html_page(markup).blocks):
        try:
            blocks = read_blocks(text)
        except ExtractionError:
            continue
        whole = rendered(blocks)
        assert all(whole[chapter.start :].startswith(chapter.title[:1]) for chapter in chapters(blocks, whole))


WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyzäöü", min_size=1, max_size=10), min_size=1).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=20), st.sampled_from(["p", "li", "h2", "div", "blockquote", "td"]))
def test_no_word_of_a_page_is_lost(paragraphs: list[str], tag: str) -> None:
    page = "".join(f"<{tag}>{paragraph}</{tag}>" for paragraph in paragraphs)
    page = f"<table><tr>{page}</tr></table>" if tag == "td" else page
    blocks = html_page(f"<html><body>{page}</body></html>").blocks
    assert not any(isinstance(block, Code) for block in blocks)
    assert rendered(blocks).replace(".", "").replace(",", "").split() == " ".join(paragraphs).split()


@pytest.mark.parametrize("tag", ["div", "table"])
@pytest.mark.parametrize("name", ["toc", "toctree-wrapper compound", "navheader", "navfooter", "related"])
def test_navigation_of_known_style_sheets_is_left_out(tag: str, name: str) -> None:
    page = (
        f'<html><body><{tag} class="{name}"><a href="x">Next</a></{tag}><p class="tocs">It was dark.</p></body></html>'
    )
    assert "Next" not in rendered(html_page(page).blocks)
    assert "It was dark." in rendered(html_page(page).blocks)


def read_page(body: str) -> list[str]:
    return rendered(spoken(html_page(f"<html><body>{body}</body></html>").blocks, "skip")).split("\n\n")


def test_cells_over_several_rows_or_columns_leave_the_others_their_titles() -> None:
    head = "<tr><th>Day</th><th>Hour</th><th>Room</th></tr>"
    rows = "<tr><td rowspan='2'>Monday</td><td>9</td><td>A</td></tr><tr><td>10</td><td>B</td></tr>"
    wide = "<tr><td colspan='2'>free</td><td>C</td></tr><tr><td colspan='99999' rowspan='x'>all</td></tr>"
    assert read_page(f"<table>{head}{rows}{wide}</table>") == [
        "Day: Monday, Hour: 9, Room: A.", "Hour: 10, Room: B.", "Day: free, Room: C.", "Day: all.",
    ]  # fmt: skip


def test_a_head_may_have_an_empty_corner_and_rows_may_have_titles() -> None:
    table = "<thead><tr><td></td><th>Hour</th></tr></thead><tbody><tr><th>Monday</th><td>9</td></tr></tbody>"
    assert read_page(f"<table>{table}</table>") == ["Monday, Hour: 9."]


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        ("<tr><th>Nom</th><th>Âge</th></tr>", ["Nom, Âge."]),
        (
            "<tr><th>Nom</th><th>Âge</th></tr><tr><td>Zoé</td><td>12</td><td>grande</td></tr>",
            ["Nom, Âge.", "Zoé, 12, grande."],
        ),
        ("<tr><th>Nom</th><th>Âge</th></tr><tr><td>Zoé</td><td>12</td></tr>", ["Nom: Zoé, Âge: 12."]),
    ],
)
def test_titles_of_columns_that_no_row_has_are_said_alone(rows: str, read: list[str]) -> None:
    assert read_page(f"<table>{rows}</table>") == read


@pytest.mark.parametrize(
    "around",
    [
        "<div id='cookie-banner'>We use cookies.</div>",
        "<div class='box cookieConsent'>We use cookies.</div>",
        "<section role='dialog'>Subscribe!</section>",
        "<p style='color: red; display: none'>unseen</p>",
    ],
)
def test_banners_dialogs_and_what_is_not_shown_are_not_spoken(around: str) -> None:
    assert read_page(f"{around}<p>Of cookies and <b>banners</b>.</p>") == ["Of cookies and banners."]


@pytest.mark.parametrize(
    ("sheet", "body", "spoken"),
    [
        ("* {display: none}", "<p>One.</p><p>Two.</p>", ["One.", "Two."]),
        ("[v-cloak] {display: none}", "<div v-cloak><p>One.</p></div><script>x</script>", ["One."]),
        (".a {display: none}", "<p class=a>One.</p><p>Two.</p>", ["Two."]),
        (".a {display: none}", "<p class=a>One.</p><p class=a hidden>Two.</p>", ["One."]),
    ],
)
def test_a_page_whose_sheet_hides_every_word_is_spoken_as_a_script_shows_it(
    sheet: str, body: str, spoken: list[str]
) -> None:
    assert read_page(f"<style>{sheet}</style>{body}") == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("- [ ] to do\n- [x] done\n", ["to do.", "done."]),
        ("> [!NOTE]\n> Mind the gap.\n", ["Note: Mind the gap."]),
        ("+++\ntitle = 'x'\n+++\n\n# Night\n", ["Night"]),
        ("We have $E = mc^2$ here.\n\n$$\n\\int_0^1 x\n$$\n\nNext.\n", ["We have E = mc^2 here.", "Next."]),
        ("Write `[voice:NAME]`, `[/voice]` or `[pause 1s]`.\n", ["Write [ voice:NAME], [ /voice] or [ pause 1s]."]),
        ("`<speak>` and `<break time='1s'/>` end.\n", ["< speak> and < break time='1s'/> end."]),
        ("Say [pause 1s] this.\n\n~~~\n[voice:NAME]\n~~~\n", ["Say [pause 1s] this."]),
        ("It costs $5 or $6; a $10 bill, where $x < y$.\n", ["It costs $5 or $6; a $10 bill, where x < y."]),
    ],
)
def test_what_writers_of_markdown_add_is_read_as_it_is_meant(text: str, spoken: list[str]) -> None:
    assert read(f"{text}\nEnd.", "a.md").text.split("\n\n") == [*spoken, "End."]


@pytest.mark.parametrize(
    ("meta", "author"),
    [
        ('<meta name="Author" content=" Ann  Ode ">', "Ann Ode"),
        ('<meta name="author" content="Ann Ode"><meta name="DC.creator" content="Ann Ode">', "Ann Ode"),
        ('<meta name="author" content="Ann Ode"><meta name="author" content="Bo Ek">', "Ann Ode, Bo Ek"),
        ('<meta name="author"><meta content="x"><meta name="description" content="A page.">', None),
    ],
)
def test_a_page_names_its_author(meta: str, author: str | None) -> None:
    page = f"<!doctype html><html><head>{meta}</head><body><p>It was dark.</p></body></html>"
    found = extract(page.encode(), "page.html", None, max_characters=1000)
    assert (found.author, found.text) == (author, "It was dark.")


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "10<sup>13</sup> km, 1.5 × 10<sup>8</sup>, 50 m<sup>2</sup>, E = mc<sup>2</sup>",
            "10¹³ km, 1.5 × 10⁸, 50 m², E = mc²",
        ),
        ("10<sup>-6</sup> and x<sup>n</sup>", "10⁻⁶ and x^n"),
        ("2<sup>n+1</sup>, e<sup>ix</sup> and x<sup>2n</sup>", "2^(n+1), e^(ix) and x^(2n)"),
        (
            "M<sup>me</sup> Roy, D<sup>r</sup> Paz, M<sup>lle</sup> X, n<sup>os</sup> 5",
            "Mme Roy, Dr Paz, Mlle X, nos 5",
        ),
        (
            "<math><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>"
            "<msub><mi>x</mi><mi>i</mi></msub></math>",
            "∑ i = 1 … n x i",
        ),
        ("<math><munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder></math>", "lim x → 0"),
        ("<math><mover><mi>x</mi><mo>¯</mo></mover><mo>+</mo><mroot><mi>y</mi><mn>3</mn></mroot></math>", "x + ³√y"),
        ("<math><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup></math>", "x1²"),
        ("<math><msup><mi>e</mi><mrow><mi>i</mi><mo>+</mo><mn>1</mn></mrow></msup></math>", "e^(i + 1)"),
        ("She slept.<sup>2</sup> The end<sup>*</sup> in 1999<sup>3</sup>", "She slept. The end in 1999"),
        ("the 5<sup>th</sup>, le XVIII<sup>e</sup>, 2<sup>o</sup>", "the 5th, le XVIIIe, 2o"),
        ('He came.<a href="#Footnote_1" class="fnanchor">[1]</a> We ate.<a href="#n3">3</a>', "He came. We ate."),
        ('See note <a href="#n3">3</a>.', "See note 3."),
        ('The man went<span class="pagenum"><a id="Page_12">[Pg 12]</a></span> home.', "The man went home."),
        ('If <math alttext="x squared"><msup><mi>x</mi><mn>2</mn></msup></math> is nine', "If x squared is nine"),
        (r'If <math alttext="x^{2}"><msup><mi>x</mi><mn>2</mn></msup></math> is nine', "If x² is nine"),
        ("<math><mfrac><mi>a</mi><mn>2</mn></mfrac><mo>=</mo><msqrt><mn>9</mn></msqrt></math>", "a/2 = √9"),
        ('<img src="o.png" alt="O">nce upon a time', "Once upon a time"),
        ('A picture <img src="m.png" alt="A map"> here', "A picture here"),
    ],
)
def test_raised_text_formulas_and_drop_caps_are_heard_as_they_are_meant(markup: str, text: str) -> None:
    (block,) = html_page(f"<p>{markup}</p>").blocks
    assert block == Paragraph(text)
