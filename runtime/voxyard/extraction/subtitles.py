"""Subtitles (SubRip, WebVTT): what is said in them, without times, numbers and marks of their style."""

from __future__ import annotations

import re
from html import unescape

_TIMES = re.compile(
    r"[ \t]*(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}[ \t]*-->[ \t]*(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}[^\n]*"
)
_BEGINS = re.compile(rf"\s*(?:WEBVTT\b|(?:\d+[ \t]*\n)?{_TIMES.pattern}\n)")
_STYLE = re.compile(
    r"</?(?:[bicuv]|font|ruby|rt|lang)(?:[.\s][^<>]{0,200})?>|<[\d:.]{5,15}>|\{\\[^{}]{1,100}\}", re.IGNORECASE
)
_ENDS = ".!?…。！？"
_SPEAKER = re.compile(r"^[-–—]\s+", re.MULTILINE)


def said_in_subtitles(text: str) -> str | None:
    """What is said in a text of subtitles, one paragraph each; None of another text.

    One that goes on with a small letter belongs to the one before.
    A line that the subtitle before it ends with, as in captions that roll up, is said once.
    """
    if _BEGINS.match(text) is None:
        return None
    lines, said, at = text.split("\n"), list[str](), 0
    while at < len(lines):
        if _TIMES.fullmatch(lines[at]) is None:
            at += 1
            continue
        at += 1
        shown = list[str]()
        while at < len(lines) and lines[at].strip() and _TIMES.fullmatch(lines[at]) is None:
            if not (lines[at].strip().isdigit() and at + 1 < len(lines) and _TIMES.fullmatch(lines[at + 1])):
                shown.append(" ".join(unescape(_STYLE.sub("", lines[at])).split()))
            at += 1
        while shown and said and said[-1].split("\n")[-1] == shown[0]:
            shown.pop(0)
        if any(shown):
            text = "\n".join(filter(None, shown))
            if said and text[0].islower() and said[-1][-1] not in _ENDS:
                said[-1] += f"\n{text}"
            else:
                said.append(_SPEAKER.sub("", text))
    return "\n\n".join(said)
