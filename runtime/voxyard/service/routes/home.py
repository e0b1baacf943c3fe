"""The page in the language of its reader: English, or another one that has a file of strings."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import Header, Query
from starlette.responses import HTMLResponse

from voxyard.service.http.observability import SECURITY_HEADERS
from voxyard.service.routes.inputs import PrefixDep

PAGE = Path(__file__).parents[1] / "page"
_BASED = SECURITY_HEADERS["Content-Security-Policy"].replace("base-uri 'none'", "base-uri 'self'")
_PLACE = re.compile(r"\{\{([\w.]+)\}\}")
_RANGE = re.compile(r"\s*([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")


def home(
    prefix: PrefixDep, lang: Annotated[str, Query()] = "", accept_language: Annotated[str, Header()] = ""
) -> HTMLResponse:
    """The page in the language that `lang` names, else in the one that the browser likes best.

    Its links lie below the prefix that a gateway strips, also where a browser asks for that without a slash at its end.
    """
    code = lang if lang in languages() else chosen(accept_language)
    headers = {"Cache-Control": "no-cache", "Content-Language": code, "Vary": "Accept-Language"}
    if not prefix:
        return HTMLResponse(page(code), headers=headers)
    headers["Content-Security-Policy"] = _BASED
    return HTMLResponse(page(code).replace("<head>", f'<head><base href="{html.escape(prefix)}/">', 1), headers=headers)


def chosen(accept_language: str) -> str:
    """The language of the page for this header, English where it names none that there is."""
    found = list[tuple[float, int, str]]()
    for place, each in enumerate(accept_language.split(",")):
        if (one := _RANGE.fullmatch(each)) is not None and one[1].lower() in languages():
            found.append((-float(one[2] or 1), place, one[1].lower()))
    wanted = [(quality, code) for quality, _, code in sorted(found) if quality]
    return wanted[0][1] if wanted else "en"


@cache
def languages() -> Mapping[str, Mapping[str, str]]:
    """The strings of the page by language, English first."""
    files = sorted((PAGE / "strings").glob("*.json"), key=lambda file: (file.stem != "en", file.stem))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


@cache
def page(code: str) -> str:
    """HTML of the page with the strings of a language in their places, and all of them for its scripts."""
    strings = languages()[code]
    others = "".join(
        f'<a href="?lang={other}" lang="{other}" hreflang="{other}" dir="{words["direction"]}">'
        f"{html.escape(words['language.name'])}</a>"
        for other, words in languages().items()
        if other != code
    )
    data = json.dumps(strings, ensure_ascii=False).replace("<", r"\u003c")
    special = {"other_languages": others, "strings": data}
    template = (PAGE / "index.html").read_text(encoding="utf-8")
    return _PLACE.sub(lambda found: special.get(found[1]) or html.escape(strings[found[1]]), template)
