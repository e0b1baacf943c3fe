"""Small files of all kinds, written from the parts that a case of a table has."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
NCX = '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>{}</navMap></ncx>'
ODT = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table", "style")
)
FB2 = (
    '<?xml version="1.0" encoding="utf-8"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"'
    ' xmlns:l="http://www.w3.org/1999/xlink">{}</FictionBook>'
)


def xhtml(body: str) -> str:
    """A page with this body."""
    return (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"'
        f' xmlns:epub="http://www.idpf.org/2007/ops"><head><title>x</title></head><body>{body}</body></html>'
    )


def epub(case: dict[str, Any]) -> bytes:
    """A book of pages in the order of its spine, with the navigation, and the changes of its files, that a case has."""
    items, spine = [], []
    files = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    for name, given in case["pages"].items():
        page = given if isinstance(given, dict) else {"body": given}
        href, media_type = page.get("href", name), page.get("type", "application/xhtml+xml")
        items.append(f'<item id="{name}" href="{href}" media-type="{media_type}"/>')
        linear = "no" if page.get("extra") else "yes"
        spine.append(f'<itemref idref="{name}" linear="{linear}"/>')
        files[f"OEBPS/{name}"] = page["page"] if "page" in page else xhtml(page["body"])
    if "nav" in case:
        items.append('<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>')
        files["OEBPS/nav.xhtml"] = xhtml(f'<nav epub:type="toc"><ol>{case["nav"]}</ol></nav>')
    if "ncx" in case:
        items.append('<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>')
        files["OEBPS/toc.ncx"] = NCX.format(case["ncx"])
    files["OEBPS/book.opf"] = (
        f'<package xmlns="{case.get("namespace", "http://www.idpf.org/2007/opf")}" version="3.0"><metadata'
        f' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{case.get("title", "Night")}</dc:title></metadata>'
        f"<manifest>{''.join(items)}</manifest><spine>{''.join(spine)}</spine>{case.get('guide', '')}</package>"
    )
    return packed(files | case.get("files", {}), unflagged=case.get("unflagged", False))


def odt(case: dict[str, Any]) -> bytes:
    """A text of OpenDocument with the automatic styles of a case."""
    styles = f"<office:automatic-styles>{case.get('styles', '')}</office:automatic-styles>"
    body = f"<office:body><office:text>{case['body']}</office:text></office:body>"
    content = f"<office:document-content {ODT}>{styles}{body}</office:document-content>"
    return packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def word(case: dict[str, Any]) -> bytes:
    """A document of Word's with further styles, and numbering, of a case."""
    document = docx.Document()
    spaces = (
        nsdecls("w", "r", "m", "wp", "a") + ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    )
    spaces += ' xmlns:v="urn:schemas-microsoft-com:vml"'
    for element in parse_xml(f"<w:body {spaces}>{case['body']}</w:body>"):
        document.element.body.insert(len(document.element.body) - 1, element)
    for style in parse_xml(f"<w:styles {spaces}>{case.get('styles', '')}</w:styles>"):
        document.styles.element.append(style)
    if "numbering" in case:
        root = document.part.numbering_part.element
        for child in list(root):
            root.remove(child)
        for child in parse_xml(f"<w:numbering {spaces}>{case['numbering']}</w:numbering>"):
            root.append(child)
    content = io.BytesIO()
    document.save(content)
    return strict(content.getvalue()) if case.get("strict") else content.getvalue()


def strict(document: bytes) -> bytes:
    """A document of Word's as it is saved as strict, whose names of elements are others."""
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    usual = re.compile(rb"http://schemas\.openxmlformats\.org/(wordprocessingml|officeDocument|drawingml)/2006/")
    return packed({name: usual.sub(rb"http://purl.oclc.org/ooxml/\1/", part) for name, part in parts.items()})


def packed(files: dict[str, str] | dict[str, bytes], *, unflagged: bool = False) -> bytes:
    """An archive of these files; `unflagged` as programs write it that do not say that its names are UTF-8."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    data = bytearray(content.getvalue())
    for header, flags in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):  # the high byte of an entry's flags
        for found in re.finditer(re.escape(header), bytes(data)) if unflagged else ():
            data[found.start() + flags] &= ~0x08
    return bytes(data)


def data_of(case: dict[str, Any]) -> bytes:
    """Bytes of the file of a case."""
    if case["kind"] in ("epub", "odt", "docx"):
        return {"epub": epub, "odt": odt, "docx": word}[case["kind"]](case)
    if case["kind"] == "fb2" and "body" in case:
        return FB2.format(f"<body>{case['body']}</body>{case.get('notes', '')}").encode()
    return str(case["file"]).encode(case.get("encoding", "utf-8"))
