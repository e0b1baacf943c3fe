"""Text that was read in another encoding and saved so: mended in every format, or named; and what stays as it is."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from written_files import data_of

from voxyard.extraction.child import read_document
from voxyard.extraction.document import HeadingBlock, Paragraph, TableRow, parsed
from voxyard.extraction.errors import UnreadableFileError
from voxyard.extraction.extract import ExtractedText, extract
from voxyard.extraction.misread import damage_of, mend_of

WRITTEN = {
    "en": "It was a “dark” night — he didn’t sleep… at the café",
    "fr": "C’était l’été à Paris, où l’on mange des œufs — « déjà vu » — près de la forêt… Ça va ?",
    "de": "Früh am Morgen ging er über die Brücke. „Schön“, sagte sie – groß.",
    "es": "¿Señor? ¡Mañana, niño! Él comió 5 €.",
    "pl": "Zażółć gęślą jaźń. „Tak”, rzekł — źle.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "ru": "Было темно, и дождь шёл всю ночь над городом. Кто там? спросил он.",
    "el": "Καλημέρα κόσμε, αυτό είναι ένα κείμενο.",
    "ar": "كان الليل مظلما وكان المطر ينزل على الطريق.",
    "zh": "这是一个中文文本。那天晚上下着大雨，没有人在街上。他说我们走吧。",
    "ja": "これは日本語のテキストです。東京は大きな都市です。「誰だ」と彼は言った。",
    "ko": "이것은 한국어 텍스트입니다. 서울은 대한민국의 수도입니다.",
    "emoji": "A good 😀 night 🎉!",
}
READ_AS = ("latin-1", "cp1252", "cp1251", "cp1250", "mac_roman", "cp437", "cp850", "gb18030", "cp932", "big5", "cp949")
FEW = {("emoji", each) for each in ("mac_roman", "cp437", "cp850", "gb18030")}  # too few to be certain
OTHER_ALPHABETS = {"ru": "cp1251", "el": "cp1253", "ar": "cp1256", "zh": "gb18030", "ko": "cp949"}
_CONTROL = "\x81\x8d\x8f\x90\x9d"  # what browsers read where Windows-1252 has no sign


def misread(data: bytes, encoding: str) -> str | None:
    """What a program shows that reads the bytes in this encoding; None where it refuses them."""
    if encoding == "cp1252":
        return "".join(chr(byte) if chr(byte) in _CONTROL else bytes([byte]).decode(encoding) for byte in data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


SHOWN = {
    (name, encoding): shown
    for name, text in WRITTEN.items()
    for encoding in READ_AS
    if (name, encoding) not in FEW and (shown := misread(text.encode(), encoding)) is not None and shown != text
}


def mended(text: str) -> str:
    mend = mend_of(text)
    return text if mend is None else mend(text)


@pytest.mark.parametrize(("name", "encoding"), SHOWN)
def test_utf8_that_was_read_in_another_encoding_is_mended(name: str, encoding: str) -> None:
    shown = SHOWN[name, encoding]
    assert mended(shown) == WRITTEN[name]
    assert mended(f"{shown}\n" * 50) == f"{WRITTEN[name]}\n" * 50


@pytest.mark.parametrize("name", WRITTEN)
def test_what_was_misread_twice_is_mended_twice(name: str) -> None:
    once = misread(WRITTEN[name].encode(), "cp1252")
    assert once is not None
    assert mended(misread(once.encode(), "cp1252") or "") == WRITTEN[name]


@pytest.mark.parametrize(("name", "encoding"), OTHER_ALPHABETS.items())
def test_another_alphabet_that_was_read_as_western_is_mended(name: str, encoding: str) -> None:
    assert mended(misread(WRITTEN[name].encode(encoding), "cp1252") or "") == WRITTEN[name]


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("dÃ©jÃ  vu, lÃ  et Ã Paris", "déjà vu, là et à Paris"),
        ("â€œRain,â€ he said. It wasnâ€™t.", "“Rain,” he said. It wasn’t."),
        ("It wasnâ€™t là-bas, déjà, öfter.", "It wasn’t là-bas, déjà, öfter."),
        ("5Â°C costs Â£5", "5°C costs £5"),
    ],
)
def test_what_programs_make_of_the_signs_is_mended_too(shown: str, written: str) -> None:
    assert mended(shown) == written


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [each for one in value for each in texts_of(one)] if isinstance(value, list) else [str(value)]


RIGHT = Path(__file__).parents[1] / "speech/reading/heard_cases.yaml"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def test_texts_of_all_languages_stay_as_they_are() -> None:
    texts = texts_of(yaml.load(RIGHT.read_text("utf-8"), LOADER))  # noqa: S506  (a safe loader)
    assert len(texts) > 1000
    for text in [*texts, *WRITTEN.values(), "\n".join(texts)]:
        assert mended(text) == text
        assert damage_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("IRMÃ…", "AMANHÃ”, disse “IRMÃ”.", "IRMÃ… e MANHÃ…, já", "„Å“ är en bokstav.", "MAÇÃ E Â", "360 В° — это"),
        *("We met in SÃO PAULO…", "Ã", "ÄÖÜ", "ÀÉÎÕÜ ÀÉÎÕÜ ÀÉÎÕÜ ÀÉÎÕÜ ÀÉÎÕÜ", "联通", "naïve café"),
    ],
)
def test_letters_that_may_be_meant_stay(text: str) -> None:
    assert mended(text) == text


SHOWN_TEXT, WRITTEN_TEXT = SHOWN["fr", "latin-1"], WRITTEN["fr"]
FILES = {
    "txt": "{}\n\nEnd.",
    "markdown": "{}\n\nEnd.\n",
    "html": "<p>{}</p><p>End.</p>",
    "epub": "<p>{}</p><p>End.</p>",
    "fb2": "<section><p>{}</p><p>End.</p></section>",
    "docx": "<w:p><w:r><w:t>{}</w:t></w:r></w:p><w:p><w:r><w:t>End.</w:t></w:r></w:p>",
    "odt": "<text:p>{}</text:p><text:p>End.</text:p>",
    "rtf": "{{\\rtf1\\ansi {}\\par End.\\par}}",
}


def extracted(kind: str, shown: str) -> Any:
    """What is read of a file of this kind with a paragraph that a program shows so."""
    signs = "".join(f"\\u{ord(each)}?" if each > "~" else each for each in shown) if kind == "rtf" else shown
    escaped = html.escape(signs, quote=False) if kind not in ("txt", "rtf", "markdown") else signs
    body = FILES[kind].format(escaped)
    case = {"kind": kind, "file": body, "body": body, "pages": {"a.xhtml": body}}
    if kind in ("html", "rtf", "txt", "markdown"):
        case.pop("body")
    if kind == "txt":
        return extract(data_of(case), "a.txt", None, max_characters=10_000)
    return read_document(kind, io.BytesIO(data_of(case)), "skip", 10_000)


@pytest.mark.parametrize("kind", FILES)
def test_the_text_of_every_format_is_mended(kind: str) -> None:
    shown = misread(WRITTEN_TEXT.encode(), "cp1252") or ""
    found = extracted(kind, shown)
    assert found.text.replace("\u00a0", " ") == f"{WRITTEN_TEXT}\n\nEnd."
    assert found.damage is None


def test_all_parts_of_a_document_are_mended() -> None:
    row, chapter = TableRow(("cafÃ©",), ("CafÃ©",)), HeadingBlock("Ã‰tÃ©", 1)
    found = parsed("L’Ã©tÃ©", [Paragraph("Ã‰tÃ©.", chapter), row], "skip", author="RenÃ© X")
    assert (found.text, found.author) == ("Été.\n\nCafé: café.", "René X")
    assert [each.title for each in found.chapters] == ["Été"]


@pytest.mark.parametrize(
    "lost",
    [
        WRITTEN["fr"].encode().decode("ascii", "replace"),
        "Il �tait l� o� les b�ufs d�nent.",
        "Pr?s de la for?t, d?j? vu, on d?ne ? l'h?tel de la cr?te.",
        "锟斤拷这是锟斤拷一锟斤拷个中锟斤拷文锟斤拷文本",
        "Night: ????? ??, ???? ??? ???? ????? ????",
        3 * (misread(WRITTEN["ru"].encode(), "cp1252") or "").translate(dict.fromkeys(map(ord, _CONTROL))),
    ],
)
@pytest.mark.parametrize("kind", FILES)
def test_lost_characters_are_named_with_their_place_and_cure(lost: str, kind: str) -> None:
    with pytest.raises(
        UnreadableFileError, match=r"characters are lost at \d+ places, the first after “.*”.*make it again"
    ):
        extracted(kind, f"{lost} " * 20)
    prose = "The rain fell on the road all night. " * 40
    found: ExtractedText = extracted(kind, prose + lost)
    assert found.damage is not None
    assert "all night." in found.damage


def test_a_few_signs_are_no_damage() -> None:
    prose = "The rain fell on the road all night. " * 20
    for text in ("The sign � stands for it. What?you say", "What? Who?? ... ???", "see example.org/?a=b&c?d=e"):
        assert damage_of(prose + text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Quoi ?? Comment ??? Non !? « Pourquoi ?? »",
        "Beyoncéの新曲はCaféで、RaphaëlとÉcoleの話だ。",
        "Pokémon을 보고 Café에서 Élise와",
        "в Café Élysée, Beyoncéй и Citroën'у",
        "στο Caféς της Élodie",
        "在Café里看Pokémon的Ángel",
    ],
)
def test_words_of_another_alphabet_are_no_damage(text: str) -> None:
    assert damage_of(f"{text} " * 30) is None


def test_a_few_damaged_lines_are_read_with_a_note() -> None:
    assert damage_of("Il �tait l� o� les b�ufs d�nent.") is not None
