"""Text that is written for machines: JSON, tables (CSV), source code and settings."""

from __future__ import annotations

import csv
import re

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_JSON = re.compile(rf"\{{\s*{_STRING}\s*:|\[\s*(?:\{{\s*{_STRING}\s*:|{_STRING}\s*,\s*\"|(?:-?[\d.]+\s*,\s*){{2}}-?\d)")
_BEGINS_CODE = re.compile(
    r"#!\s*/|<\?php\b|#include\s*[<\"]|diff --git |package [\w.]+;|using [\w.]+;|"
    r"\[[^\]\n]{1,80}\][ \t\r]*\n(?:[ \t]*(?:[#;][^\n]*)?\r?\n)*+[\w.-]+[ \t]*="  # a section of settings
)
_VALUE = r"(?:[\"'({\[]|-?\d[\w.]*[;,)]?$|[\w.]+[(\[]|True\b|False\b|None\b)"
_CODE = re.compile(  # a line that is a statement, or a part of one
    rf"[\w.$\[\]'\"*&>-]+(?:\s*:\s*[\w.\[\], |]+)?\s*[-+*/|&:]?=\s*{_VALUE}.*"
    r"|.*(?:\w\(|[={}\[\]<>]).*;"
    r"|.*[\w)>=\]\"'-]\s*[{(\[]"
    r"|[\]})][\])};,]*(?:\s*(?:else|catch|finally|while)\b.*)?"
    r"|(?:async\s+)?def\s+\w+\(.*|class\s+\w+.*[:{]"
    r"|(?:if|elif|for|while|with|switch)\b.*\b\w.*[:{]|(?:else|try|finally)\s*:|except\b.*:"
    r"|from\s+[\w.]+\s+import\s.*|import\s+[\w.]+(?:\s+as\s+\w+)?;?|use\s+[\w:]+.*;"
    r"|\#\s?(?:include|define|if|ifdef|ifndef|endif|pragma|undef)\b.*"
    r"|[\w.$]+\(.*\)[;,]?"
    r"|return\s+[\w.]+[(\[.;]?.*[;)\]]|return;?|pass|break;?|continue;?|fi|done|esac|end"
    r"|[a-z-]+\s*:\s*[^;]+;"
    r"|(?:SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|CREATE\s+\w+|DROP\s+TABLE|ALTER\s+TABLE)\b.*[(;,]?",
    re.ASCII,
)
_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)|(?P<quotes>\"\"\"|''').*?(?:(?P=quotes)|\Z)", re.DOTALL)
_COMMENT = re.compile(r"\#(?!\s?(?:include|define|if|endif|pragma|undef))|//|--|;|%|\*")
_NOT_SUPPORTED = "which is not supported: save what is to be spoken as a text of its own"
_FEWEST_LINES = 3
_LONGEST_LINE = 300  # characters of it that tell
_MOSTLY_CODE = 0.4  # of the lines; of texts about code it is 0.3 at most
_MOSTLY_NUMBERS = 0.5  # of the rows
_NUMBER = re.compile(r"[-+]?[\d.,]+%?")


def machine_text(text: str, *, whole: bool) -> str | None:
    """What a text is that is none for people, by its beginning, and what to do; None of another text.

    The last line counts where the text is the `whole`.
    """
    if _JSON.match(text):
        return f"JSON, {_NOT_SUPPORTED}"
    if _BEGINS_CODE.match(text) or _is_code(_lines(_COMMENTS.sub("", text), whole)):
        return f"source code or settings, {_NOT_SUPPORTED}"
    if any(_is_table(_lines(text, whole), separator) for separator in ",;\t|"):
        return "a table (CSV), which is not supported: save it as .html in a program that opens it"
    return None


def _lines(text: str, whole: bool) -> list[str]:
    return [line for line in text.splitlines()[: None if whole else -1] if line.strip()]


def _is_table(lines: list[str], separator: str) -> bool:
    """True for rows of as many cells each, with no blank between a separator and a cell, as there is in a sentence.

    The first one has titles in ASCII of more than two columns, or most below it have a number: verse has neither.
    """
    if len(lines) < _FEWEST_LINES or separator not in lines[0]:
        return False
    try:
        titles, *rows = csv.reader(lines, delimiter=separator, strict=True)
    except csv.Error:
        return False
    if any(len(row) != len(titles) or any(cell.startswith(" ") for cell in row[1:]) for row in [titles, *rows]):
        return False
    if any(_NUMBER.fullmatch(cell) for cell in titles):
        return False
    numbers = sum(any(_NUMBER.fullmatch(cell) for cell in row) for row in rows)
    return numbers >= _MOSTLY_NUMBERS * len(rows) or (len(titles) > 2 and all(map(str.isascii, titles)))


def _is_code(lines: list[str]) -> bool:
    counted = [line.strip() for line in lines if not _COMMENT.match(line.strip())]
    code = sum(_CODE.fullmatch(line[:_LONGEST_LINE]) is not None for line in counted)
    return code >= _FEWEST_LINES and code >= _MOSTLY_CODE * len(counted)
