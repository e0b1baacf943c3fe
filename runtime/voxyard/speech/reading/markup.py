"""Tags and SSML: what of a text directs the voice, and what is left to speak.

`[pause 0.5s]` and `[pause 300ms]` are a pause in any text, and so is a line of signs alone (`* * *`), a scene break;
`[voice:NAME]` gives what follows to another voice, until `[/voice]` or the next; other brackets are text. A text that
begins with `<speak>` is SSML: `<break>` is a pause, `<voice name="…">` has its text spoken by that voice,
`<sub alias="…">` is spoken as its alias, `<p>` and `<s>` end what they hold, and of all others the text stays.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import NoReturn
from xml.parsers import expat

from voxyard.speech.errors import SpeechError

Span = tuple[int, int]


@dataclass(frozen=True)
class Edit:
    """Characters [start, end) of a text, and what stands in their place."""

    start: int
    end: int
    text: str


class EditedText:
    """A text after edits, and the way back from its spans to those of the old text."""

    def __init__(self, original: str, edits: Iterable[Edit]) -> None:
        self.original = original
        self.edits = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        self._old_starts = [edit.start for edit in self.edits]
        pieces, at, length = [], 0, 0
        self._starts: list[int] = []  # of each replacement in the new text
        self._ends: list[int] = []
        for edit in self.edits:
            if edit.start < at:
                raise ValueError(f"edits overlap at {edit.start}")
            pieces += [original[at : edit.start], edit.text]
            length += edit.start - at
            self._starts.append(length)
            length += len(edit.text)
            self._ends.append(length)
            at = edit.end
        self.text = "".join([*pieces, original[at:]])

    def span(self, start: int, end: int) -> Span:
        """The span of the old text from which a span of the new one came.

        One that ends within a replacement ends after what was replaced, and the next begins there: it is not parted.
        """
        first = self._first(start)
        return first, max(first, self._last(end))

    def position(self, at: int) -> int:
        """The position in the new text of one in the old: the beginning of a replacement, where it was replaced."""
        index = bisect_right(self._old_starts, at) - 1
        if index < 0:
            return at
        edit = self.edits[index]
        return self._starts[index] if at < edit.end or at == edit.start else self._ends[index] + at - edit.end

    def replaced(self) -> list[Span]:
        """Spans of the replacements in the new text."""
        return list(zip(self._starts, self._ends, strict=True))

    def within(self, start: int, end: int) -> Iterator[tuple[Edit, int, int]]:
        """Edits whose replacements begin in [start, end) of the new text, or are empty at its end, and their spans."""
        for index in range(bisect_left(self._starts, start), len(self.edits)):
            first, last = self._starts[index], self._ends[index]
            if first > end or (first == end and first < last):
                return
            yield self.edits[index], first, last

    def _first(self, position: int) -> int:
        """Position in the old text of a span's beginning: after what was deleted there."""
        at = bisect_right(self._starts, position) - 1
        while at >= 0 and self._starts[at] == position < self._ends[at]:
            at -= 1  # it stands before this replacement
        return self._after(at, position)

    def _last(self, position: int) -> int:
        """Position in the old text of a span's end: before what was deleted there."""
        return self._after(bisect_left(self._starts, position) - 1, position)

    def _after(self, at: int, position: int) -> int:
        if at < 0:
            return position
        return self.edits[at].end + max(0, position - self._ends[at])


LONGEST_PAUSE = 10.0  # seconds of one tag
MOST_PAUSES = 3600.0  # seconds of a text's tags together
STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2}  # seconds

_TAG = re.compile(  # [pause 0.5s], and as other programs write it: [PAUSE: 2], [pause=1.5], <break time="1s"/>
    r"\[(?:pause|break|silence)(?:[ \t]*[:= \t][ \t]*(?P<number>\d{1,6}(?:\.\d{1,6})?)[ \t]*"
    r"(?P<unit>ms|s|secs?|seconds?)?)?\]"
    r"|<break[ \t]+time=[\"'](?P<number_of_break>\d{1,6}(?:\.\d{1,6})?)(?P<unit_of_break>ms|s)[\"'][ \t]*/?>",
    re.IGNORECASE,
)
_VOICE = re.compile(
    r"\[(?:voice[ \t]*[:= \t][ \t]*(?P<name>[^\]\[\r\n]{1,200}?)[ \t]*|(?P<end>/[ \t]*voice))\]", re.IGNORECASE
)
_NAMELESS = re.compile(r"\[voice[ \t]*[:=]?[ \t]*\]", re.IGNORECASE)
_ORNAMENTS = "⁂❦☙❧◆◇■□●○★☆✦✧✶✻✽❖♦♢∗＊※†‡§"
_SCENE_BREAK = re.compile(  # a line of signs alone: * * *, ⁂, -----
    rf"^[^\S\n]*(?:[{_ORNAMENTS}*#](?:[^\S\n]?[{_ORNAMENTS}*#])*|"
    rf"[{_ORNAMENTS}*•·~#_=–—-](?:[^\S\n]*[{_ORNAMENTS}*•·~#_=–—-]){{2,}})[^\S\n]*$",
    re.MULTILINE,
)
SCENE_PAUSE = 1.0  # seconds
_TIME = re.compile(r"\+?(?P<number>\d{0,6}(?:\.\d{1,6})?)(?P<unit>ms|s)", re.IGNORECASE)
# Before <speak> may stand an XML declaration, comments, and a DOCTYPE, which is refused by name.
_SSML = re.compile(
    r"\s*(?:<\?xml\b[^>]*\?>\s*|<!--(?:[^-]|-(?!->))*-->\s*|<!DOCTYPE\b[^\[>]*(?:\[[^\]]*\]\s*)?>\s*)*<speak[\s/>]"
)
_PARTING = re.compile(r"</?(?:break|p|s)\b[^<>]*>")  # elements that end what stands before them
_ELEMENT = re.compile(r"<[^<>]*(?:>|$)")


@dataclass(frozen=True)
class PauseTag:
    """A pause at a position of the text that is left."""

    at: int
    seconds: float


@dataclass(frozen=True)
class VoiceTag:
    """Change of the voice at a position of the text that is left; None is the voice of what has no tag."""

    at: int
    name: str | None


@dataclass(frozen=True)
class MarkedText:
    """Text that is left to speak, with its pauses in text order, and the spans whose words the author has chosen.

    Its changes of the voice are in text order, too; between two of them there is something to say.
    """

    edited: EditedText
    pauses: tuple[PauseTag, ...] = ()
    chosen: tuple[Span, ...] = ()
    voices: tuple[VoiceTag, ...] = ()


def read_markup(text: str) -> MarkedText:
    """The text without its tags.

    Raises:
        SpeechError: a pause is longer than LONGEST_PAUSE, all of them than MOST_PAUSES, SSML is no XML, or a tag ends
            the voice of none.
    """
    tags = _tags(text)
    total = sum(tags.breaks.values()) - SCENE_PAUSE * tags.scenes
    if total > MOST_PAUSES:
        raise SpeechError(f"the pauses of the text last {total:.0f} s together, expected at most {MOST_PAUSES:.0f} s")
    edited = EditedText(text, tags.edits)
    pauses = tuple(PauseTag(edited.position(at), seconds) for at, seconds in sorted(tags.breaks.items()))
    spans = zip(edited.edits, edited.replaced(), strict=True)
    chosen = tuple(span for edit, span in spans if edit.start in tags.aliases and edit.text)
    return MarkedText(edited, pauses, chosen, _voices(text, edited, tags.turns))


def is_ssml(text: str) -> bool:
    """True for a text that begins with `<speak>`, which is read as SSML as a whole, or refused."""
    return _SSML.match(text) is not None


def untagged(text: str, *, ssml: bool = False) -> str:
    """A title without what directs the voice in it; `ssml` where it is part of SSML, which may be cut or broken."""
    text = _VOICE.sub(_gap, _TAG.sub(_gap, text))
    return unescape(_ELEMENT.sub("", _PARTING.sub(" ", text))) if ssml else text


def open_voices(text: str) -> tuple[str, ...]:
    """Names of the voices that the text's tags begin and do not end, the innermost last.

    Raises:
        SpeechError: a tag ends the voice of none.
    """
    stacks = [names for _, names in _stacks(text, _tags(text).turns)]
    return stacks[-1] if stacks else ()


def _gap(tag: re.Match[str]) -> str:
    """What is left of a tag in a title: a blank where it parts two words."""
    before, after = tag.string[max(0, tag.start() - 1) : tag.start()], tag.string[tag.end() : tag.end() + 1]
    return " " if before.isalnum() and after.isalnum() else ""


MASK = "\ue000"
"""Stands for each character of a tag in `masked`: of a private area of Unicode, no letter and no blank."""


def masked(text: str) -> str:
    """A text of the same length for people who read along: MASK in place of its tags, blanks where these part words."""
    pieces, at = list[str](), 0
    for edit in sorted(_tags(text).edits, key=lambda edit: edit.start):
        if not edit.text.strip():
            pieces += [text[at : edit.start], (" " if edit.text else MASK) * (edit.end - edit.start)]
            at = edit.end
    return "".join([*pieces, text[at:]])


@dataclass
class _Tags:
    """Tags of a text: edits, pauses and turns of the voice by their positions, beginnings of edits that are aliases."""

    edits: list[Edit] = field(default_factory=list)
    breaks: dict[int, float] = field(default_factory=dict)
    aliases: set[int] = field(default_factory=set)
    turns: list[tuple[int, str | None]] = field(default_factory=list)
    scenes: int = 0  # pauses that are scene breaks


def _tags(text: str) -> _Tags:
    tags = _Tags(*_ssml(text)) if is_ssml(text) else _Tags()
    taken = [(edit.start, edit.end) for edit in tags.edits if edit.start < edit.end]

    def free(pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for tag in pattern.finditer(text):
            if not any(start < tag.end() and tag.start() < end for start, end in _near(taken, tag.span())):
                tags.edits.append(Edit(*tag.span(), ""))
                yield tag

    for tag in free(_TAG):
        tags.breaks[tag.start()] = tags.breaks.get(tag.start(), 0.0) + _seconds(tag, text, tag.start())
    for tag in free(_VOICE):
        tags.turns.append((tag.start(), tag["name"]))
    last = 0
    for line in free(_SCENE_BREAK):
        if not last or text[last : line.start()].strip():  # several in a row are one
            tags.breaks[line.start()] = tags.breaks.get(line.start(), 0.0) + SCENE_PAUSE
            tags.scenes += 1
        last = line.end()
    return tags


def _stacks(text: str, turns: list[tuple[int, str | None]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each turn of the voice, in text order, with the names that are open after it. Raises SpeechError."""
    names = tuple[str, ...]()
    for at, name in sorted(turns, key=lambda turn: turn[0]):
        if name is None and not names:
            if (nameless := _NAMELESS.search(text, 0, at)) is not None:
                raise SpeechError(
                    f"the tag {nameless[0]} on line {text.count(chr(10), 0, nameless.start()) + 1} has no name: "
                    "expected [voice:NAME]"
                )
            raise SpeechError(
                f"the tag on line {text.count(chr(10), 0, at) + 1} ends a voice, and none has begun: expected "
                "[voice:NAME] before it"
            )
        names = names[:-1] if name is None else (*names, name)
        yield at, names


def _voices(text: str, edited: EditedText, turns: list[tuple[int, str | None]]) -> tuple[VoiceTag, ...]:
    """Changes of the voice in the text that is left, by the beginnings and ends in the whole text."""
    changes = {0: ""}
    for at, names in _stacks(text, turns):
        changes[edited.position(at)] = names[-1] if names else ""
    left = edited.text
    ends = [*changes, len(left)]
    begins = [_heard(left, before, begin, end) for before, begin, end in zip([0, *ends], ends, ends[1:], strict=False)]
    found, current, waiting = list[VoiceTag](), "", -1
    for name, begin, end in zip(changes.values(), begins, [*begins[1:], len(left)], strict=True):
        waiting = begin if waiting < 0 else waiting
        if any(map(str.isalnum, left[begin:end])):  # signs alone go to the voice that follows
            if name != current:
                found.append(VoiceTag(waiting, name or None))
            current, waiting = name, -1
    return tuple(found)


def _heard(text: str, before: int, begin: int, end: int) -> int:
    """Where a change at `begin` is heard: signs that end what stands before it, or begin what follows, go with that."""
    at = begin
    if begin and not text[begin - 1].isspace():
        while at < end and unicodedata.category(text[at]) in ("Po", "Pe", "Pf") and text[at] not in "¡¿":
            at += 1
    if at > begin:
        return at
    while at > before and (text[at - 1] in "\"'¡¿" or unicodedata.category(text[at - 1]) in ("Ps", "Pi")):
        at -= 1
    return at if not at or text[at - 1].isspace() else begin


def _near(spans: list[Span], span: Span) -> list[Span]:
    at = bisect_left(spans, span)
    return spans[max(0, at - 1) : at + 2]


def _seconds(found: re.Match[str], text: str, at: int) -> float:
    number, unit = _amount(found)
    seconds = STRENGTHS["strong"] if number is None else float(number or 0) / (1000 if unit.lower() == "ms" else 1)
    if seconds > LONGEST_PAUSE:
        raise SpeechError(
            f"the pause {found[0]} on line {text.count(chr(10), 0, at) + 1} is too long: expected at most "
            f"{LONGEST_PAUSE:g} s"
        )
    return seconds


def _amount(found: re.Match[str]) -> tuple[str | None, str]:
    """Figures and unit of a tag; no figures where it names no length."""
    groups = found.groupdict()
    if groups.get("number_of_break") is not None:
        return found["number_of_break"], found["unit_of_break"]
    return found["number"], found["unit"] or "s"


def _ssml(text: str) -> tuple[list[Edit], dict[int, float], set[int], list[tuple[int, str | None]]]:
    """Edits, pauses by their position, the beginnings of the edits that are aliases, and where voices begin and end."""
    edits: list[Edit] = []
    breaks: dict[int, float] = {}
    aliases: set[int] = set()
    sub: tuple[int, str] | None = None  # where a <sub> began, and its alias
    depth = 0  # of elements within it
    events = _events(text)
    for (at, event), (end, _) in zip(events, [*events[1:], (len(text), _Event("end", ""))], strict=True):
        if event.kind == "start":
            if sub is not None:
                depth += 1
            elif event.name == "break":
                breaks[at] = breaks.get(at, 0.0) + _break(event.attributes, text, at)
            elif event.name == "sub" and event.attributes.get("alias", "").strip():
                sub, depth = (at, event.attributes["alias"]), 0
        elif event.kind == "end" and sub is not None:
            depth -= 1
            if depth < 0:
                edits.append(Edit(sub[0], end, sub[1]))
                aliases.add(sub[0])
                sub = None
                continue
        if sub is None and at < end and text[at:end] != event.text:
            edits.append(Edit(at, end, event.text))
    return edits, breaks, aliases, list(_turns(events))


def _turns(events: list[tuple[int, _Event]]) -> Iterator[tuple[int, str | None]]:
    """Where voices begin, by their names, and end; a <voice> that names none changes nothing."""
    named = list[bool]()  # of each that is open
    for at, event in events:
        if event.name == "voice" and event.kind == "start":
            name = " ".join(event.attributes.get("name", "").split())
            named.append(bool(name))
            if name:
                yield at, name
        elif event.name == "voice" and named.pop():
            yield at, None


@dataclass(frozen=True)
class _Event:
    """Event of expat: the beginning or end of an element, or characters; `text` is what of it is spoken."""

    kind: str
    text: str
    name: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def _events(text: str) -> list[tuple[int, _Event]]:
    """Events of expat, each with its position in the text. Raises SpeechError where it is no XML."""
    start = len(text) - len(text.lstrip())
    content = text[start:].encode()
    found: list[tuple[int, _Event]] = []
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = False

    def add(event: _Event) -> None:
        found.append((parser.CurrentByteIndex, event))

    def begin(name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        add(_Event("start", "\n\n" if name == "p" else "", name, attributes))

    def end(name: str) -> None:
        name = name.rpartition(":")[2]
        add(_Event("end", {"p": "\n\n", "s": " "}.get(name, ""), name))

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = lambda data: add(_Event("characters", data))
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.XmlDeclHandler = lambda *_: add(_Event("other", ""))
    parser.CommentHandler = lambda _: add(_Event("other", ""))
    parser.ProcessingInstructionHandler = lambda *_: add(_Event("other", ""))
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add(_Event("other", ""))
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        line = error.lineno + text.count("\n", 0, start)
        raise SpeechError(
            f"the text begins with <speak> and is no SSML, line {line}: {expat.ErrorString(error.code)}; expected XML, "
            "with &amp; for & and &lt; for <"
        ) from None
    events, byte, at = [], 0, start
    for index, event in found:
        at += len(content[byte:index].decode())
        byte = index
        events.append((at, event))
    return events


def _refuse_doctype(*_: object) -> NoReturn:
    raise SpeechError("the SSML has a DOCTYPE, which is not taken: expected <speak> and its elements only")


def _break(attributes: dict[str, str], text: str, at: int) -> float:
    if (time := attributes.get("time")) is not None:
        found = _TIME.fullmatch(time.strip())
        if found is None or not found["number"]:
            raise SpeechError(
                f"{_break_on(text, at)} the time {time!r}, expected seconds or milliseconds such as 0.5s or 300ms"
            )
        return _seconds(found, text, at)
    strength = attributes.get("strength", "medium")
    if strength not in STRENGTHS:
        raise SpeechError(f"{_break_on(text, at)} the strength {strength!r}, expected one of {', '.join(STRENGTHS)}")
    return STRENGTHS[strength]


def _break_on(text: str, at: int) -> str:
    return f"the <break> on line {text.count(chr(10), 0, at) + 1} has"
