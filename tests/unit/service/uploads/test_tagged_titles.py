"""Tags in the titles of files of each kind: they direct the voice, and are no part of the chapter's name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import docx
import epubs
import httpx
import pdfs
import pytest
from click.testing import CliRunner
from eventually import eventually
from service_app import Served, serving
from written_files import FB2, ODT, packed

from voxyard.cli.speak import speak

TITLES = {  # as they are written: the chapter's name, and who speaks it
    "[voice:announcer]One[/voice]": ("One", "announcer"),
    "[pause 1s]Two": ("Two", None),
    "Three [pause: 300ms]": ("Three", None),
    "The [voice: alloy]fourth[/voice]": ("The fourth", "alloy"),
    "Fi[pause 1s]ve": ("Fi ve", None),
}
TEXT = "The harbour lay still, and nobody was awake."


def of_word() -> bytes:
    """Each letter is a run of its own, as Word writes what was corrected."""
    content, document = io.BytesIO(), docx.Document()
    for title in TITLES:
        heading = document.add_heading("", 1)
        for letter in title:
            heading.add_run(letter)
        document.add_paragraph(TEXT)
    document.save(content)
    return content.getvalue()


def of_office() -> bytes:
    body = "".join(f'<text:h text:outline-level="1">{escape(each)}</text:h><text:p>{TEXT}</text:p>' for each in TITLES)
    content = f"<office:document-content {ODT}><office:body><office:text>{body}</office:text></office:body>"
    mime = "application/vnd.oasis.opendocument.text"
    return packed(
        {"mimetype": mime, "content.xml": f"{content}</office:document-content>", "META-INF/manifest.xml": "<m/>"}
    )


def of_pdf() -> bytes:
    pages = [
        pdfs.page_content([each], size=20) + b"\n" + pdfs.page_content([TEXT, TEXT, TEXT], top=700) for each in TITLES
    ]
    return pdfs.document(pages)


def each_title(form: str) -> bytes:
    return "".join(form.format(escape(each), TEXT) for each in TITLES).encode()


FILES: dict[str, Callable[[], bytes]] = {
    "docx": of_word,
    "odt": of_office,
    "pdf": of_pdf,
    "rtf": lambda: rb"{\rtf1\ansi " + each_title(r"\pard\outlinelevel0 {}\par\pard {}\par ") + b"}",
    "fb2": lambda: FB2.format(
        "<body>" + each_title("<section><title><p>{}</p></title><p>{}</p></section>").decode() + "</body>"
    ).encode(),
    "epub": lambda: epubs.epub(dict.fromkeys(TITLES, TEXT), title="x"),
    "html": lambda: b"<html><body>" + each_title("<h1>{}</h1><p>{}</p>") + b"</body></html>",
    "md": lambda: each_title("# {}\n\n{}\n\n"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("titles"), engine={"samples": 240}) as served:
        yield served


@pytest.mark.parametrize("kind", FILES)
def test_a_title_is_named_without_its_tags_and_spoken_by_them(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    content = FILES[kind]()
    files = {"file": (f"book.{kind}", content, "application/octet-stream")}
    id = httpx.post(f"{served.url}/v1/documents", files=files, timeout=60).json()["id"]
    url = f"{served.url}/v1/documents/{id}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    found = httpx.get(f"{url}?chunks=true").json()
    assert [each["title"] for each in found["chapters"]] == [name for name, _ in TITLES.values()]
    firsts = [found["chunks"][each["first_chunk"]] for each in found["chapters"]]
    assert [firsts[0]["speaker"], firsts[0]["voice"]] == ["announcer", "announcer"]
    assert {each["speaker"] for each in found["chunks"]} == {"announcer", "alloy", None}
    said = httpx.get(f"{url}/subtitles?format=vtt").text
    assert "[" not in said
    assert "<v alloy>fourth" in said

    (tmp_path / f"book.{kind}").write_bytes(content)
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    command = [str(tmp_path / f"book.{kind}"), "--engine", "bark", "--device", "cpu", "--show-words", "--json"]
    shown = json.loads(CliRunner().invoke(speak, command).stdout)
    assert [each["title"] for each in shown["chapters"]] == [name for name, _ in TITLES.values()]
    assert "[" not in " ".join(each["words"] for each in shown["chunks"])


@pytest.mark.parametrize("form", ["[voice:announcer]{}[/voice]", "[pause 1s]{}", "[voice:announcer]\n{}", "{} [pause]"])
def test_tags_hide_no_chapter_of_a_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    path = tmp_path / "book.txt"
    path.write_text("\n\n".join(f"{form.format(f'CHAPTER {each}')}\n\n{TEXT}" for each in ("I", "II", "III")))
    monkeypatch.setattr("voxyard.cli.engines.FRONTEND", "frontends:frontend")
    command = [str(path), "--engine", "bark", "--device", "cpu", "--show-words", "--json"]
    shown = json.loads(CliRunner().invoke(speak, command).stdout)
    assert [each["title"] for each in shown["chapters"]] == ["CHAPTER I", "CHAPTER II", "CHAPTER III"]
