"""File types, file names, and text files in every encoding."""

from __future__ import annotations

import random
from pathlib import Path

import pdfs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from voxyard.extraction.errors import ExtractionError, TextTooLongError, UnreadableFileError, UnsupportedFileError
from voxyard.extraction.extract import ExtractedText, extract, extract_file
from voxyard.extraction.lines import lines_going_on
from voxyard.extraction.misread import LOST, mend_of
from voxyard.extraction.plaintext import LIGATURES, clean

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read(data: bytes, name: str | None = "story.txt", media: str | None = None, most: int = 100_000) -> ExtractedText:
    return extract(data, name, media, max_characters=most)


def test_a_text_file_comes_back_with_its_name_as_title() -> None:
    assert read(b"One.\n\nTwo.\n") == ExtractedText("story", "One.\n\nTwo.", kind="txt")


@pytest.mark.parametrize("data", [b"", b" \n\n", b"<!-- nothing -->", b"---\ntitle: Nothing\n---\n"])
@pytest.mark.parametrize("name", ["empty.md", "empty.html"])
def test_a_file_without_a_word_is_said_to_have_none(data: bytes, name: str) -> None:
    if name == "empty.html" and data.startswith(b"---"):
        data = b"<html></html>"
    with pytest.raises(UnreadableFileError, match=f"{name}: no text found: expected a document with at least one word"):
        read(data, name)


ENCODED = {
    "utf-8": "Früh am Morgen — “ja”, 東京, Привет.",
    "utf-8-sig": "Früh am Morgen.",
    "utf-16": "Früh am Morgen, 東京.",
    "utf-32": "Früh am Morgen, 東京.",
    "utf-16-le": "Привет, мир. Это текст.",
    "utf-16-be": "Früh am Morgen.",
    "cp1252": "Das Café “Löwe” öffnet — früh. Señor Müller wartet.",
    "latin-1": "Élan à l'été, où ça?",
    "cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń.",
    "cp1251": "Привет, мир. Это короткий текст на русском языке.",
    "koi8-r": "Привет, мир. Это короткий текст на русском языке.",
    "cp1253": "Καλημέρα κόσμε, αυτό είναι ένα κείμενο.",
    "cp1255": "יום אחד יצא הדייג הזקן מביתו כדי לדוג דג. הים היה שקט.",
    "shift-jis": "これは日本語のテキストです。東京は大きな都市です。",
    "euc-jp": "これは日本語のテキストです。",
    "iso2022-jp": "これは日本語のテキストです。",
    "gb18030": "这是一个中文文本。北京是中国的首都。",
    "big5": "這是一個中文文本。台北是台灣的首都。",
    "euc-kr": "이것은 한국어 텍스트입니다. 서울은 수도입니다.",
}


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize(("encoding", "text"), ENCODED.items())
def test_the_encoding_of_a_text_is_found(encoding: str, text: str, times: int) -> None:
    whole = "\n\n".join([text] * times)
    assert read(whole.encode(encoding)).text == whole


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ('The Storm\nRain fell all night\n"Who is there?" he asked\n"Me" she said\nThey left', 5),
        (
            "第一章\u3000风雨\r\n\u3000\u3000那天晚上下着大雨。\r\n\u3000\u3000他说：“我们走吧。”\r\n\u3000\u3000她没有回答。",
            4,
        ),
        (
            "Two roads diverged in a wood,\nAnd sorry I could not travel both\nAnd be one traveler, long I stood",
            1,
        ),
        (
            "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both\n"
            "And be one traveler, long I stood\nAnd looked down one as far as I could",
            4,
        ),
        (
            "It was a dark night, and the rain fell in torrents, except when it was\n"
            "checked by a violent gust of wind which swept up the streets, rattling\n"
            "along the housetops, and fiercely agitating the scanty flame of the\n"
            "Lamps that struggled against the darkness.",
            1,
        ),
        (
            "我们走吧他说外面下着大雨\n很大没有人在街上只有狗\n来跑去不知道要到哪里去\n有出来",
            1,
        ),
        ("ALL IN CAPITALS AND\nWRAPPED AT A WIDTH\nTHAT IS SHORT AS ON\nA TELEGRAM", 1),
    ],
)
def test_lines_of_a_text_are_paragraphs_by_evidence(text: str, paragraphs: int) -> None:
    assert len(read(text.encode()).text.split("\n\n")) == paragraphs


def test_broken_words_of_a_wrapped_text_are_joined() -> None:
    text = "It is in Lon-\ndon that our scene lies, the well-\nknown town. A well-known man lived there."
    assert read(text.encode()).text == text.replace("Lon-\ndon", "London").replace("well-\nknown", "well-known")


def test_letters_that_are_drawn_as_one_are_parted() -> None:
    assert read("Find the ﬁsh in the ﬂood.".encode()).text == "Find the fish in the flood."


@pytest.mark.parametrize(
    ("text", "encoding"), [("café", "cp1252"), ("Привет, мир", "cp1251"), ("東京タワー", "shift-jis")]
)
def test_a_few_words_are_enough_to_find_a_common_encoding(text: str, encoding: str) -> None:
    assert read(text.encode(encoding)).text == text


def test_control_characters_go_and_line_ends_become_one_kind() -> None:
    text = "\ufeffA\tb\x07c\r\nd\re\u2028f  \n\n\n\ng\x0ch\u2029i co\u00adop \x85\x1a"
    assert read(text.encode()).text == "A bc\nd\ne\nf\n\ng\n\nh\n\ni coop"


@pytest.mark.timeout(60)  # seconds; a search that starts again at each blank takes an hour
def test_blanks_without_end_take_no_longer_than_a_text() -> None:
    assert clean(f"a{' ' * 400_000}b \n") == f"a{' ' * 400_000}b"


@pytest.mark.parametrize("size", [40, 1000, 100_000])
def test_binary_junk_is_no_text(size: int) -> None:
    with pytest.raises(UnreadableFileError, match="TXT, Markdown, HTML, EPUB, PDF, DOCX, ODT, RTF or FB2"):
        read(random.Random(7).randbytes(size))


@pytest.mark.parametrize("text", [b"Hello\0world. This has one.", b"Hello\0world. " * 200, "Schön\0e Nacht.".encode()])
def test_a_stray_nul_makes_no_chinese_of_a_text(text: bytes) -> None:
    with pytest.raises(UnreadableFileError, match="binary data"):
        read(text)
    assert read("Hello 世界".encode("utf-16-le")).text == "Hello 世界"


@pytest.mark.parametrize(
    "data",
    [
        "Lang ist die schöne Nacht. ".encode() * 20 + b"\xc3",
        "日本語のテキスト".encode() + b"\xff" + "です".encode(),
    ],
)
def test_utf8_with_a_damaged_place_is_refused_rather_than_misread(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"UTF-8.* line 1.*damaged"):
        read(data)


EASTERN = {
    "gb18030": (
        "GBK",
        "这是一个中文文本。那天晚上下着大雨，没有人在街上。他说：“我们走吧。”她没有回答，只是看着窗外的雨。",
    ),
    "big5": (
        "Big5",
        "這是一個中文文本。那天晚上下著大雨，沒有人在街上。他說：「我們走吧。」她沒有回答，只是看著窗外的雨。",
    ),
    "cp932": (
        "Shift-JIS",
        "これは日本語のテキストです。東京は大きな都市です。彼は家を出て、雨の中を歩いていった。「誰だ」と彼は言った。",
    ),
    "euc_jp": ("EUC-JP", "これは日本語のテキストです。彼は家を出て、雨の中を歩いていった。「誰だ」と彼は言った。"),
    "cp949": (
        "EUC-KR",
        "이것은 한국어 텍스트입니다. 서울은 대한민국의 수도입니다. 그날 밤에는 비가 많이 내렸다. 그가 물었다 누구",
    ),
}


@pytest.mark.parametrize("encoding", EASTERN)
@pytest.mark.parametrize(("lines", "line"), [(1, 1), (3, 2), (80, 41)])
def test_east_asian_text_with_a_cut_character_is_refused_with_its_encoding_and_place(
    encoding: str, lines: int, line: int
) -> None:
    name, text = EASTERN[encoding]
    data = [text.encode(encoding)] * lines
    damaged = f"{name} text with 1 damaged place, the first in line {{}} near .*damaged.*save it as UTF-8"
    cut = [*data[:-1], data[-1][:-1] if encoding != "cp932" else data[-1][:-3]]
    assert read(b"\n".join(data)).text.startswith(text[:20])
    with pytest.raises(UnreadableFileError, match=damaged.format(lines)):
        read(b"\n".join(cut))
    at = len(text[:30].encode(encoding))
    for middle in (data[0][: at - 1] + b"\n" + data[0][at:], data[0][:at] + b"\xff" + data[0][at:]):
        with pytest.raises(UnreadableFileError, match=damaged.format(line)):
            read(b"\n".join([*data[: line - 1], middle, *data[line:]]))


def test_text_of_two_encodings_is_refused() -> None:
    data = ENCODED["gb18030"].encode("gb18030") + b"\n" + ENCODED["utf-8"].encode()
    with pytest.raises(
        UnreadableFileError, match=r"(unknown encoding, or several|not all of it has this encoding).*save it as UTF-8"
    ):
        read(data)


def test_half_a_utf16_character_is_refused() -> None:
    with pytest.raises(UnreadableFileError, match=r"UTF-16-LE.*damaged"):
        read("Guten Tag".encode("utf-16") + b"x")


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"--- ... ---"])
def test_a_file_without_a_word_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"story\.txt: no text found"):
        read(data)


def test_a_text_that_is_too_long_is_refused_and_one_of_that_length_is_not() -> None:
    assert read("ä".encode() * 50, most=50).text == "ä" * 50
    for text in ("ä" * 51, "ä" * 5000):
        with pytest.raises(TextTooLongError, match="more than 50 characters"):
            read(text.encode(), most=50)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n1234", "PNG image"),
        ("a.txt", b"\x89PNG\r\n\x1a\n1234", "PNG image"),
        ("a.doc", OLE + "WordDocument".encode("utf-16-le"), r"\.doc.*save it as \.docx"),
        ("a.docx", OLE + "WordDocument".encode("utf-16-le"), r"\.doc.*save it as \.docx"),
        ("a.msg", OLE, "old Office file"),
        ("a.ods", b"<p>Hello", r"unsupported file type \.ods: .*rename it to \.txt"),
        ("a.xlsx", b"words", r"unsupported file type \.xlsx"),
        ("a.fodt", b"words", r"unsupported file type \.fodt: save it as \.odt"),
        ("a.MHT", b"words", r"unsupported file type \.mht: save it as \.html"),
        ("a.azw3", b"words", r"unsupported file type \.azw3: save it as \.epub"),
        ("a.mp3", b"ID3\x04", "MP3"),
    ],
)
def test_another_kind_of_file_is_refused_with_what_it_is(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedFileError, match=reason):
        read(data, name)


FLAT = '<?xml version="1.0" encoding="{}"?>\n<office:document xmlns:office="urn:x">Rain.</office:document>'
MAIL = b"From: <Saved by Blink>\r\nContent-Type: multipart/related;\r\n\tboundary=x\r\nMIME-Version: 1.0\r\n\r\nRain."
MARKUP = {
    "flat": (FLAT.format("utf-8").encode(), r"flat OpenDocument.*save it as \.odt"),
    "flat, UTF-16": (FLAT.format("utf-16").encode("utf-16"), r"flat OpenDocument.*save it as \.odt"),
    "page in one file": (MAIL, r"\.mht.*save it as \.html"),
    "Word in XML": (b"<?xml version='1.0'?><?mso-application?><w:wordDocument>Rain", r"Word.*save it as \.docx"),
    "LaTeX": (b"% Rain\n\\documentclass{book}\nRain.", r"LaTeX.*save it as \.pdf"),
    "a chapter of LaTeX": (b"\\chapter{One}\nRain.", r"LaTeX.*save it as \.pdf"),
    "subtitles of Aegisub": (b"\xef\xbb\xbf[Script Info]\r\nTitle: Rain\r\n", r"Aegisub.*save it as \.srt"),
    "other XML": (
        b"\xef\xbb\xbf<?xml version='1.0'?><rss><title>Rain</title></rss>",
        "is XML, which is not supported: send",
    ),
    "picture": (
        b'<svg xmlns="http://www.w3.org/2000/svg"><text>Rain</text></svg>',
        "is XML, which is not supported: send",
    ),
    "RTF after a mark": (b"\xef\xbb\xbf\r\n{\\rtf1 Rain.}", r"is an RTF: rename it to \.rtf"),
    "FB2, UTF-16": ("<FictionBook><body><p>Rain.</p></body></FictionBook>".encode("utf-16"), r"rename it to \.fb2"),
}


@pytest.mark.parametrize("kind", MARKUP)
@pytest.mark.parametrize(("name", "media"), [("a.txt", None), ("a.text", "text/html"), (None, "text/plain")])
def test_markup_called_a_text_is_refused_with_what_it_is(kind: str, name: str | None, media: str | None) -> None:
    data, reason = MARKUP[kind]
    with pytest.raises((UnsupportedFileError, UnreadableFileError), match=reason):
        read(data, name, media)
    if "rename" not in reason:
        with pytest.raises(UnsupportedFileError, match=reason):
            read(data, None)


TABLE = r"its content is a table \(CSV\), which is not supported: save it as \.html"
JSON, CODE = (
    f"its content is {found}, which is not supported: save what is to be spoken as a text of its own"
    for found in ("JSON", "source code or settings")
)
FOR_MACHINES = [
    ('{"title": "Rain", "pages": [1, 2]}', JSON),
    ('[\n  {\n    "title" : "Rain"\n  },\n', JSON),
    ('{"id": 1}\n{"id": 2}\n', JSON),
    ('["Rain", "Sun"]', JSON),
    ("[0.5, 1, 2]", JSON),
    ("Name,Age\nAnn,5\nBob,7\n", TABLE),
    ("name;place;born\r\nAnn;home;\r\nBob;away;May\r\n", TABLE),
    ("Name\tOrt\tAlter\nJürgen\tKöln\t5\nBärbel\tUlm\t7\n", TABLE),
    ('id|text|said\n1|"Rain, it said."|Rain\n2|Sun|Sun\n', TABLE),
    ("姓名,年龄\n安,5\n白,7\n", TABLE),
    ("#!/bin/sh\necho Rain\n", CODE),
    ("import os\n\n\ndef rain(x):\n    # it falls\n    if x > 1:\n        return os.sep\n", CODE),
    ('"""Rain.\n\nIt falls.\n"""\nclass Rain:\n    drops = [1, 2]\n    fall(drops)\n', CODE),
    ('/* It rains.\n   All night. */\nint main(void) {\n  puts("Rain");\n  return 0;\n}\n', CODE),
    ("function rain(x) {\n  const y = f(x);\n  return y;\n}\n", CODE),
    (".rain {\n  color: blue;\n  top: 0;\n}\n", CODE),
    ("SELECT name FROM rain\nWHERE x = 1;\nDELETE FROM rain WHERE y = 2;\n", CODE),
    ("[Rain]\n# it falls\ndrops = many\n", CODE),
]
PROSE = [
    "床前明月光,疑是地上霜。\n举头望明月,低头思故乡。\n春眠不觉晓,处处闻啼鸟。",
    "Hund = dog\nKatze = cat\nMaus = mouse\nKuh = cow",
    "Rain, sun\nWind, snow\nHail, ice",
    "3,5\n4,5\n5,5 liters of rain",
    "ANN: Rain?\nBOB: Sun;\nANN: Well (said she);\nBOB: No.",
    '"Rain," she said, "is wet."\n[Sun] and {wind}.\n',
    "The ship came in;\nthe rain fell down;\nthe sun went out;\nthe moon came up.",
    "# Rain\n\nTo import wheat, call(us) here:\n\n    x = f(1)\n\nIt is dear. And so on.",
    "* Rain\n* Sun\n- 5 eggs: two\n- for Ann: milk",
    "Rain\twet\nSun\tdry\nSnow\tcold",
]


@pytest.mark.parametrize(("text", "reason"), FOR_MACHINES)
@pytest.mark.parametrize("name", ["a.txt", "a.py", None])
@pytest.mark.parametrize("times", [1, 500])
def test_text_for_machines_is_refused_with_what_it_is(text: str, reason: str, name: str | None, times: int) -> None:
    whole = text if times == 1 else "\n".join([*text.splitlines(), *text.splitlines()[1:] * times])
    for encoding in ("utf-8-sig", "utf-16"):
        with pytest.raises(UnsupportedFileError, match=reason):
            read(whole.encode(encoding), name)


@pytest.mark.parametrize("text", PROSE)
@pytest.mark.parametrize("times", [1, 500])
def test_prose_with_signs_of_tables_and_code_is_a_text(text: str, times: int) -> None:
    assert read("\n".join([text] * times).encode()).kind == "txt"


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html><html><body><p>Rain</p></body></html>",
        b"\xef\xbb\xbf\n<?xml version='1.0'?><?xml-stylesheet href='a.css'?><!-- a --><html><p>Rain</p></html>",
        "<html><p>Rain</p></html>".encode("utf-16"),
        b"<p class='a'>Rain</p>",
    ],
)
@pytest.mark.parametrize(("name", "media"), [("a.txt", None), (None, "text/plain"), (None, None), ("a.html", None)])
def test_a_page_called_a_text_is_read_as_a_page(page: bytes, name: str | None, media: str | None) -> None:
    found = read(page, name, media)
    assert (found.kind, found.text) == ("html", "Rain")


@pytest.mark.parametrize(
    "text", ["<Rain> fell.", "< 5 > 3", "Content-Type: rain", "p <p> q", "<p>", "\\rain", "<!--" * 1500]
)
def test_a_text_with_signs_of_markup_is_a_text(text: str) -> None:
    assert read(f"{text} Rain.".encode()).kind == "txt"
    assert read(b"<!---->" * 1000 + b"Rain").kind == "txt"


def test_an_rtf_after_a_mark_is_read() -> None:
    assert read(b"\xef\xbb\xbf{\\rtf1 Rain.}", "a.rtf").text == "Rain."


def test_an_encrypted_office_document_says_to_take_the_password_off() -> None:
    with pytest.raises(UnreadableFileError, match=r"encrypted with a password.*remove the password"):
        read(OLE + "EncryptedPackage".encode("utf-16-le"), "a.docx")


@pytest.mark.parametrize(
    ("name", "media", "data", "reason"),
    [
        ("a.txt", None, pdfs.written([["Hello."]]), r"its name ends in \.txt.* is a PDF: rename it to \.pdf"),
        ("a.docx", None, pdfs.written([["Hello."]]), r"its name ends in \.docx.* is a PDF: rename it to \.pdf"),
        ("a.pdf", None, b"just text", r"its name ends in \.pdf, but its content is not a PDF: .*rename it to \.txt"),
        ("a.docx", None, b"just text", r"not a DOCX"),
        ("a.pdf", None, b"PK\x03\x04", r"is a DOCX: rename it to \.docx"),
        ("a.epub", None, b"PK\x03\x04", r"a\.epub: .*broken or truncated"),
        (None, "application/pdf", b"just text", "sent as application/pdf, but its content is not a PDF"),
    ],
)
def test_a_wrong_extension_is_an_error(name: str | None, media: str | None, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError, match=reason):
        read(data, name, media)


def test_a_media_type_that_is_not_read_counts_where_the_name_says_nothing() -> None:
    with pytest.raises(UnsupportedFileError, match="sent as text/csv"):
        read(b"<p>Hello", None, "text/csv; charset=utf-8")
    assert read(b"Hello", "a.txt", "text/html").kind == "txt"
    assert read(b"Hello", "chapter.1", "application/octet-stream").title == "chapter.1"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("../../etc/My Story.TXT", "My Story"),
        ("C:\\texts\\story.md", "story"),
        ("st\x00or\ny.txt", "stor y"),
        (None, "Once upon a time."),
        ("???.txt", "Once upon a time."),
    ],
)
def test_the_title_is_the_files_name_without_folder_and_suffix(name: str | None, title: str) -> None:
    assert read(b"Once upon a time.\nThere was", name).title == title


def test_without_a_name_a_long_first_line_is_cut() -> None:
    title = read(b"word " * 100, None).title
    assert len(title) <= 80
    assert title.endswith("word…")


def test_an_error_keeps_its_kind_and_names_the_file_without_its_folders() -> None:
    with pytest.raises(TextTooLongError) as caught:
        read(b"too long", "/secret/x.txt", most=3)
    assert str(caught.value).startswith("x.txt: ")


def test_a_file_on_disk_is_read(tmp_path: Path) -> None:
    path = tmp_path / "A Night.txt"
    path.write_text("It was dark.", encoding="utf-8")
    assert extract_file(path, max_characters=100) == ExtractedText("A Night", "It was dark.", kind="txt")


def test_a_file_that_cannot_be_read_or_is_too_large_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.txt"):
        with pytest.raises(UnreadableFileError, match="directory"):
            extract_file(path, max_characters=100)
    with pytest.raises(TextTooLongError, match="MiB"):
        extract_file(Path("/dev/zero"), max_characters=100, max_bytes=2**20)


PLAIN = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\u00ad\ufeff" + "".join(map(chr, LIGATURES))
    ),
    min_size=1,
)
TEXTS = st.lists(st.lists(PLAIN, min_size=1).map(" ".join), min_size=1).map("\n\n".join)


@pytest.mark.slow
@given(text=TEXTS, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
@example(
    text="0\n\n0\n\nAA 0AAAA AAAAAAAAA 000AAAAAAAO\n\naAAAAAAAA AA 0AAAA AAAAAAAAAA\n\naAAAAAAAA 000AAAAA AAAAAAAAAA",
    encoding="utf-8",
)
def test_any_text_comes_back_from_a_text_file(text: str, encoding: str) -> None:
    assume(mend_of(text) is None and len(LOST.findall(text)) < 5)  # test_misread.py has these
    data = text.encode(encoding)
    if not any(c.isalnum() for c in text):
        with pytest.raises(UnreadableFileError):
            read(data)
        return
    found = read(data, None, "text/plain").text
    if any(lines_going_on(text.split("\n\n"))):  # as lines of print with empty ones between: joined, with broken words
        found, text = ("".join(filter(str.isalnum, each)) for each in (found, text))
    assert found == text


@given(data=st.binary(max_size=400))
def test_no_bytes_cause_anything_but_a_text_or_an_error_for_the_user(data: bytes) -> None:
    if data.startswith((b"%PDF-", b"PK")):  # these start a process; their own tests break them
        return
    try:
        found = read(data, None)
    except ExtractionError as error:
        assert len(str(error)) > 20
    else:
        assert found.text == clean(found.text)
