"""One text as a file of each format that the service reads."""

from __future__ import annotations

import io
import zipfile
from html import escape

import docx
from epubs import epub
from pdfs import document, page_content

_OFFICE = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
_TEXT = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'


def files(title: str, sentences: list[str]) -> dict[str, bytes]:
    """Files by their names; each holds the title and the sentences, a paragraph each."""
    paragraphs = "".join(f"<p>{escape(each)}</p>" for each in sentences)
    return {
        "story.txt": "\n\n".join([title, *sentences]).encode(),
        "story.md": "\n\n".join([f"# {title}", *sentences]).encode(),
        "story.html": f"<html><body><h1>{escape(title)}</h1>{paragraphs}</body></html>".encode(),
        "story.epub": epub({title: " ".join(sentences)}, title=title),
        "story.pdf": document([page_content([title, "", *sentences])]),
        "story.docx": _docx(title, sentences),
        "story.odt": _odt(title, sentences),
        "story.rtf": ("{\\rtf1\\ansi " + "".join(f"{each}\\par\n" for each in [title, *sentences]) + "}").encode(),
        "story.fb2": (
            '<?xml version="1.0"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"><body><section>'
            f"<title><p>{escape(title)}</p></title>{paragraphs}</section></body></FictionBook>"
        ).encode(),
    }


def _docx(title: str, sentences: list[str]) -> bytes:
    made, out = docx.Document(), io.BytesIO()
    made.add_heading(title, 1)
    for each in sentences:
        made.add_paragraph(each)
    made.save(out)
    return out.getvalue()


def _odt(title: str, sentences: list[str]) -> bytes:
    body = "".join(f"<text:p>{escape(each)}</text:p>" for each in sentences)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr(
            "content.xml",
            f"<office:document-content {_OFFICE} {_TEXT}><office:body><office:text>"
            f'<text:h text:outline-level="1">{escape(title)}</text:h>{body}'
            "</office:text></office:body></office:document-content>",
        )
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
    return out.getvalue()
