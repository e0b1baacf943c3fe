"""Preformatted text of a page: code, or prose and verse whose lines are kept as their author broke them."""

from __future__ import annotations

import re

from lxml import html

from voxyard.extraction.lines import with_paragraphs
from voxyard.extraction.plaintext import clean

OF_CODE = ("code", "samp", "kbd", "var", "tt")
"""Elements of code."""
_CODE_CLASS = re.compile(
    r"code|highlight|program|screen|source|literal|console|shell|listing|language|lang-|pretty|brush|synopsis|terminal|"
    r"output|doctest|console",
    re.IGNORECASE,
)
_CODE_SIGN = re.compile(r"[{}<>\\|_$@`~^=+]|//|::|\(\)|^\s*(?:#|%|[-+*/]{2})|;$", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE = re.compile(r"\s*[^\W\d_a-zß-ÿ]\w*(?: \w+)+[.!?]\s*")  # a short one: It sleeps.
_FEWEST_WORDS = 3  # a line, in most lines
_MOSTLY = 0.6
_LETTERS = 0.9  # of the signs, with blanks and what ends sentences
_OF_PROSE = re.compile(r"[^\W\d_]|[\s.,;:!?'\"’“”‘«»()—–-]")


def is_code(element: html.HtmlElement) -> bool:
    """True for preformatted text that is no prose or verse, or says that it is code."""
    around = [element, element.getparent()]
    named = " ".join(each.get("class") or "" for each in around if each is not None)
    if _CODE_CLASS.search(named) or next(element.iter(*OF_CODE), None) is not None:
        return True
    text = element.text_content()
    lines = [line for line in text.split("\n") if line.strip()]
    full = sum(len(_WORD.findall(line)) >= _FEWEST_WORDS or _SENTENCE.fullmatch(line) is not None for line in lines)
    signs = len(_OF_PROSE.findall(text))
    return _CODE_SIGN.search(text) is not None or full < _MOSTLY * len(lines) or signs < _LETTERS * len(text)


def prose(text: str) -> str:
    """Preformatted text with an empty line between its paragraphs."""
    return with_paragraphs(clean(text))
