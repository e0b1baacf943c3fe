"""Script of a document: its chunks, and the requests to the pool."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from voxyard.speech.cast import NARRATOR, Cast, cast_of
from voxyard.speech.errors import SpeechError, check_wanted
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.markup import Edit, EditedText, MarkedText, PauseTag, Span, VoiceTag, read_markup
from voxyard.speech.reading.options import READING, ReadingOptions
from voxyard.speech.reading.reader import readings
from voxyard.speech.requests import Boundary, Request
from voxyard.speech.text.boundaries import ends_paragraph, with_full_stops
from voxyard.speech.text.chunks import TextChunk, check_text, split
from voxyard.speech.text.sentences import language_code, language_spans, most_spoken, script_language

_MOST_TIMES, _MOST_MORE = 20, 1000  # the spoken text may be so many times as long, and so many characters


@dataclass(frozen=True)
class Part:
    """Paragraphs of a text in one language, from the character `at` of the text without tags.

    `voice` speaks them by the rules of `language`, where no tag gives them to another. `foreign` is their language
    where it is another than the text's, and `default` tells that their voice is the engine's for that.
    """

    at: int
    voice: str | None
    language: str | None
    foreign: str | None = None
    default: bool = False


@dataclass(frozen=True)
class Passage:
    """A piece of a document up to a pause tag, a change of the voice or the end; `pause` seconds are silent after it.

    `text` is spoken by the voice that the document names `speaker`, that of its `part` where no tag names one. `turn`
    tells that the voice or the language changes after it, and `paragraph` that it does so between two paragraphs.
    `units` are its spans that stand in place of others or whose words the author has chosen, in text order.
    """

    text: str
    pause: float | None
    speaker: str | None
    part: Part
    turn: bool
    paragraph: bool
    units: tuple[Span, ...]
    _marked: EditedText
    _begin: int  # of this passage in the text without tags
    _edited: EditedText
    _end: int
    _written: str  # without tags, before it was read

    def readings(self, start: int, end: int) -> Iterator[tuple[str, str]]:
        """What was read of these characters: how it is written, and its words; those of signs that are silent too."""
        for edit, first, last in self._edited.within(start, end):
            yield self._written[edit.start : edit.end], self.text[first:last]

    def source(self, start: int, end: int) -> Span:
        """Characters of the document from which these of the passage came."""
        first, last = self._edited.span(start, end)
        return self._marked.span(self._begin + first, self._begin + last)

    def positions(self, places: Sequence[int]) -> Iterator[int]:
        """Positions in the passage of those of the document, in its order, that are after its beginning."""
        first = bisect_left(places, self._begin, key=self._marked.position)
        for at in places[first : bisect_left(places, self._end, first, key=self._marked.position)]:
            if position := self._edited.position(self._marked.position(at) - self._begin):
                yield position


_MARK = r"\*\*\*\s?{} OF TH(?:E|IS) PROJECT GUTENBERG EBOOK\b"
_BOOK_BEGINS = re.compile(_MARK.format("START") + r"[^*]{0,500}\*\*\*\s*", re.IGNORECASE)
_BOOK_ENDS = re.compile(_MARK.format("END"), re.IGNORECASE)
_END_OF_BOOK = re.compile(r"^[^\S\n]*End of (?:the )?Project Gutenberg[^\n]*\n\s*\Z", re.IGNORECASE | re.MULTILINE)
_NEAR_END = 400  # characters


def _around_the_book(text: str) -> list[Span]:
    """What stands before and after the text of a book from Project Gutenberg; nothing of another text."""
    begins = _BOOK_BEGINS.search(text)
    ends = _BOOK_ENDS.search(text, begins.end() if begins else 0)
    found = [] if begins is None else [(0, begins.end())]
    if ends is None:
        return found
    above = max(begins.end() if begins else 0, ends.start() - _NEAR_END)
    line = _END_OF_BOOK.search(text[above : ends.start()])
    return [*found, (ends.start() if line is None else above + line.start(), len(text))]


def passages(
    marked: MarkedText, parts: Sequence[Part], reading: ReadingOptions, languages: Mapping[str, str | None]
) -> Iterator[Passage]:
    """The passages of a document, in text order, blank ones too; `languages` are those of what speakers say.

    The first of the `parts` begins with the text.

    Raises:
        SpeechError: its spoken form is too long.
    """
    left, length = marked.edited.text, len(marked.edited.original)
    changes: list[PauseTag | VoiceTag | Part] = [*marked.pauses, *parts[1:], *marked.voices]
    changes.sort(key=lambda mark: mark.at)
    silent = [] if reading.gutenberg_licence else _around_the_book(left)
    most, spoken, begin, speaker = _MOST_TIMES * length + _MOST_MORE, 0, 0, None
    part = parts[0]
    for mark in [*changes, None]:
        end = len(left) if mark is None else mark.at
        pause = mark.seconds if isinstance(mark, PauseTag) else None
        turn = isinstance(mark, (VoiceTag, Part))
        piece = left[begin:end]
        spoken_in = part.language if speaker is None else languages[speaker]
        chosen = [(start - begin, last - begin) for start, last in marked.chosen if begin <= start < end]
        edits = [
            Edit(max(first, begin) - begin, min(last, end) - begin, "")
            for first, last in silent
            if max(first, begin) < min(last, end)
        ]
        chosen = [span for span in chosen if not any(edit.start < span[1] and span[0] < edit.end for edit in edits)]
        for lexicon in reading.lexicons:
            edits += lexicon.edits(piece, spoken_in, [*chosen, *((edit.start, edit.end) for edit in edits)])
        taken = [*chosen, *((edit.start, edit.end) for edit in edits)]
        edited = EditedText(piece, [*edits, *readings(piece, spoken_in, reading.kinds, taken)])
        spoken += len(edited.text)
        if spoken > most:
            raise SpeechError(
                f"the spoken text has more than {most:,} characters, {_MOST_TIMES} times those of the document: use "
                "shorter words in the lexicon"
            )
        own = [(edited.position(start), edited.position(last)) for start, last in chosen]
        units = tuple(sorted({*own, *(span for span in edited.replaced() if span[0] < span[1])}))
        ends = (turn, turn and ends_paragraph(left, end))
        yield Passage(edited.text, pause, speaker, part, *ends, units, marked.edited, begin, edited, end, piece)
        begin = end
        if isinstance(mark, Part):
            part = mark
        elif isinstance(mark, VoiceTag):
            speaker = mark.name


_SENTENCE_ENDS = ".!?…。！？؟۔"
_QUOTES = "\"'”’»“›)]」』"  # which may close a sentence
_DECLARED = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*$")
_REGION = re.compile(r"[A-Za-z]+(?:[-_][A-Za-z]{4})?[-_](?P<region>[A-Za-z]{2}|[0-9]{3})(?![A-Za-z0-9])")
_SHOWN = 10  # names of the cast, in a note
_NO_LANGUAGE = {"und", "mul", "mis", "zxx"}  # ISO 639-2: undetermined, multiple, uncoded, no linguistic content


@dataclass(frozen=True)
class Script:
    """The chunks of a document with their requests, in text order."""

    chunks: tuple[TextChunk, ...]
    requests: tuple[Request, ...]
    readings: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Of each chunk what was read how: as it is written, and its words."""
    voice: str | None = None
    """Of what no tag and no language gives to another."""
    language: str | None = None
    """Of what the voice speaks."""
    foreign: tuple[str | None, ...] = ()
    """Of each chunk its language, where that is another than the text's."""
    unnamed: tuple[str, ...] = ()
    """Members of the cast that no tag of the text names, but the narrator."""

    @property
    def estimated_seconds(self) -> float:
        """Estimated duration of the audio."""
        return sum(chunk.estimated_seconds for chunk in self.chunks)

    def at_speed(self, speed: float) -> Script:
        """The script for an engine that speaks so many times as fast, within the `speeds` of its front end."""
        chunks = (
            replace(
                each,
                pause=None if each.pause is None else each.pause / speed,
                estimated_seconds=each.estimated_seconds / speed,
            )
            for each in self.chunks
        )
        requests = (replace(each, speed=speed, seconds=each.seconds / speed) for each in self.requests)
        return self if speed == 1 else replace(self, chunks=tuple(chunks), requests=tuple(requests))


def prepare_script(
    text: str,
    frontend: Frontend,
    *,
    voice: str | None,
    seed: int,
    language: str | None = None,
    languages: Sequence[tuple[int, str | None]] = (),
    chapters: Sequence[int] = (),
    reading: ReadingOptions = READING,
    cast: Cast | None = None,
) -> Script:
    """The script of a text: in the voices that its tags name, and for the rest in one, or one for each language.

    That is the cast's narrator, else `voice`, else the engine's default for the language of most of the text. Where
    neither of these two is named, paragraphs in another language are in the engine's default voice of that, if it has
    one; a voice that stays speaks their own words for figures. `languages` are the positions from which on the document
    declares one, None: its own, `language`; letters of another script go before these. The language is the voice's
    where none is given. No chunk crosses one of the positions where `chapters` begin, a pause tag, or a change of the
    voice or the language. A chunk's text and positions are those of the document; its request has what is spoken for
    it, by `reading`. Where a replacement is longer than a chunk, its document's part is that of the first.

    Raises:
        SpeechError: the text is empty or invalid, its SSML too, or it names voices that there are not.
        Exception: with `exit_code`, where the engine has no such voice.
    """
    asked, cast = language, cast_of(frontend) if cast is None else cast
    voice = cast.narrator or voice
    for name in dict.fromkeys([voice, *cast.members.values()]):
        if name is not None:
            frontend.check_voice(name)
    check_text(text)
    marked = read_markup(text)
    whole, parts = _parts(marked, languages, voice, asked, frontend)
    asked = asked if asked == whole.language else None
    speakers = cast.voices(tag.name for tag in marked.voices if tag.name is not None)
    spoken_in = {name: asked or frontend.language(own) or whole.language for name, (_, own) in speakers.items()}
    narrator, begins = NARRATOR if cast.narrator else None, sorted(chapters)
    chunks, requests, readings = list[TextChunk](), list[Request](), list[tuple[tuple[str, str], ...]]()
    foreign = list[str | None]()
    turns = dict[int, Boundary]()  # what ends with the chunks after which the voice changes
    for passage in passages(marked, parts, reading, spoken_in):
        part = passage.part
        speaker, own = (narrator, part.voice) if passage.speaker is None else speakers[passage.speaker]
        named = part.language if part.default and not passage.speaker else asked
        found = split(
            passage.text,
            frontend.count_tokens,
            max_tokens=frontend.max_tokens,
            max_seconds=frontend.max_seconds,
            language=part.language if passage.speaker is None else spoken_in[passage.speaker],
            chapters=list(passage.positions(begins)),
            opening=not chunks,
            units=passage.units,
        )
        # characters without a token, as a lone zero-width space, are silent
        for chunk in (chunk for chunk in found if chunk.tokens):
            check_wanted()
            start, end = passage.source(chunk.start, chunk.end)
            words, index, seconds = with_full_stops(chunk.text), len(chunks), chunk.estimated_seconds
            requests.append(Request(index, words, own, seed, seconds=seconds, language=named, characters=end - start))
            foreign.append(part.foreign)
            readings.append(tuple(passage.readings(chunk.start, chunk.end)))
            chunks.append(replace(chunk, index=index, text=text[start:end], start=start, end=end, speaker=speaker))
        if chunks and passage.pause is not None:
            chunks[-1] = _paused(chunks[-1], requests[-1].text, passage.pause)
        elif chunks and passage.turn:
            turns[len(chunks) - 1] = "paragraph" if passage.paragraph else _ending(requests[-1].text)
    if not any(letter.isalnum() for request in requests for letter in request.text):
        raise SpeechError("there is nothing to say: the text has no letter and no digit")
    _end_turns(chunks, turns, begins)
    named_members = {NARRATOR, *(member for member, _ in speakers.values())}
    return Script(
        tuple(chunks),
        tuple(requests),
        tuple(readings),
        whole.voice,
        whole.language,
        tuple(foreign),
        tuple(member for member in cast.members if member not in named_members),
    )


def _parts(
    marked: MarkedText,
    declared: Sequence[tuple[int, str | None]],
    voice: str | None,
    asked: str | None,
    frontend: Frontend,
) -> tuple[Part, list[Part]]:
    """How the text is spoken, and its parts, the first from its beginning.

    Raises:
        Exception: with `exit_code`, where the engine's default voice is not there.
    """
    left, named = marked.edited.text, voice is not None
    own = asked or (frontend.language(voice) if named else most_spoken(language_spans(left)))
    places = [(marked.edited.position(at), None if _code(code) == _code(own) else _code(code)) for at, code in declared]
    spans = language_spans(left, places, own)
    if not named:
        most = most_spoken(spans) or own
        voice, own, asked = frontend.default_voice(most), most, asked if most == own else None
        if voice is not None:
            frontend.check_voice(voice)
    whole = Part(0, voice, asked or frontend.language(voice))
    parts, defaults = list[Part](), dict[str | None, str | None]()
    for span in spans:
        part = replace(whole, at=span.start if parts else 0)
        if span.language != own:
            part = replace(part, foreign=span.language)
            if not named and span.language not in defaults:
                defaults[span.language] = frontend.default_voice(span.language)
            default = defaults.get(span.language)
            if default is not None and _code(span.language) in (None, _code(frontend.language(default))):
                language = span.language or frontend.language(default)
                part = replace(part, voice=default, language=language, default=language != whole.language)
            elif _code(span.language) in LANGUAGES:  # a voice of another language reads at least its figures right
                part = replace(part, language=_code(span.language))
        parts.append(part)
    return whole, parts or [whole]


def _end_turns(chunks: list[TextChunk], turns: Mapping[int, Boundary], chapters: Sequence[int]) -> None:
    """Gives the chunks after which the voice changes the boundaries that they have in the document."""
    for index, ending in turns.items():
        if index + 1 < len(chunks) and chunks[index].pause is None:
            here, after = chunks[index].end, chunks[index + 1].start
            chapter = bisect_left(chapters, here) < bisect_right(chapters, after)
            chunks[index] = replace(chunks[index], ending="chapter" if chapter else ending)


def check_speakable(script: Script, frontend: Frontend, on_failure: OnFailure = "fail") -> None:
    """Checks that the engine can speak the chunks, as far as that is known before a worker tries.

    With `silence` in place of a chunk that cannot be spoken, a script passes that has one that can.

    Raises:
        SpeechError: the engine's reason for the first chunk that it refuses, and how many more there are.
    """
    reasons = [frontend.refusal(request.text, request.language) for request in script.requests]
    refused = [reason for reason in reasons if reason is not None]
    if not refused or (on_failure == "silence" and len(refused) < len(reasons)):
        return
    others = len(refused) - 1
    more = f" (so {'is' if others == 1 else 'are'} {others} more of {len(reasons)} chunks)" if others else ""
    raise SpeechError(f"{refused[0]}{more}")


def document_language(asked: str | None, voice: str | None, declared: str | None, frontend: Frontend) -> str | None:
    """Language for the script of a file: the one asked for, else the one that the file declares of itself.

    A named voice of a language speaks and reads that one. `declared` may be anything; `deu` is `de`, a region counts
    where the engine has a default voice of it, and what is no language (`und`) is None.
    """
    if asked is not None or (voice is not None and frontend.language(voice) is not None):
        return asked
    code = _code(declared)
    if declared is None or code is None or (found := _REGION.match(declared.strip())) is None:
        return code
    regional = f"{code}-{found['region'].upper()}"
    own = (frontend.default_voice(regional) or "").lower()
    return regional if regional.lower() in own and frontend.default_voice(code) != own else code


def language_note(
    language: str | None,
    voice: str | None,
    frontend: Frontend,
    content: str,
    shown: str | None = None,
    *,
    part: bool = False,
) -> str | None:
    """Warning where a voice speaks another language than the text's; None where one of the two is not known.

    The letters of `content` tell its language where none is declared, or one that is written in Latin letters. `shown`
    is the voice's name for people, where that is another. Of a `part` in another language than the text's, it is
    said, too, where it is not known which the voice speaks.
    """
    text, spoken = _code(language), _code(frontend.language(voice))
    if text is None or (text in LANGUAGES and LANGUAGES[text].scripts == ("LATIN",)):
        text = script_language(content) or text
    if text is None or text == spoken or (spoken is None and not part):
        return None
    what, name = "a part of the text" if part else "the text", shown or voice
    if spoken is None:
        return f"{what} is in the language {text}, and it is not known which languages the voice {name} speaks"
    named = (frontend.default_voice(text), *frontend.voices())
    own = next((name for name in named if name and _code(frontend.language(name)) == text), None)
    cure = f"the engine lists no voice of {text}" if own is None else f"name a voice of {text}, such as {own}"
    return (
        f"{what} is in the language {text}, and the voice {name} speaks {spoken}: it may be hard to understand; {cure}"
    )


def script_note(
    script: Script,
    language: str | None,
    frontend: Frontend,
    shown: Callable[[str | None], str | None] = lambda name: name,
) -> str | None:
    """Warnings where voices speak other languages than what they are given, or no word; `language` is the text's.

    Of what a tag gives to a voice, what is declared for it or its letters alone tell the language.
    """
    if language is not None and _code(language) in map(_code, script.foreign):  # most of the text is in another
        language = None
    said: dict[tuple[str | None, str | None, str | None], list[str]] = {}
    for chunk, request, foreign in zip(script.chunks, script.requests, script.foreign, strict=True):
        tagged = chunk.speaker if request.voice != script.voice else None
        said.setdefault((tagged, request.voice, foreign or (None if tagged else language)), []).append(request.text)
    parts = set() if all(script.foreign) else set(script.foreign) - {None}
    found = [
        language_note(code, voice, frontend, " ".join(texts), speaker or shown(voice), part=code in parts)
        for (speaker, voice, code), texts in said.items()
    ]
    if script.unnamed:
        names = ", ".join(script.unnamed[:_SHOWN]) + (", …" if len(script.unnamed) > _SHOWN else "")
        found.append(f"no tag of the text names {names} of the cast: expected [voice:{script.unnamed[0]}]")
    return "; ".join(dict.fromkeys(note for note in found if note is not None)) or None


def unknown_language_note(language: str | None) -> str | None:
    """Warning where CLDR names no language of this code: the text is then cut and read by the rules of none.

    Raises:
        SpeechError: it is no language code.
    """
    if language_code(language) is None:
        return None
    from babel.core import Locale

    code = _code(language)
    if code is not None and code in Locale("en").languages:
        return None
    return (
        f"the language {language!r} is not known, so the text is cut and read without the rules of any language: "
        "expected a code of ISO 639 such as en or pt-BR"
    )


def _code(declared: str | None) -> str | None:
    """Code of a language as ISO 639 has it, by what a file may declare."""
    if declared is None or (code := _DECLARED.match(declared.strip())) is None:
        return None
    from babel.core import get_global

    aliases: Mapping[str, str] = get_global("language_aliases")
    found = aliases.get(code[1].lower(), code[1].lower())
    return None if found in _NO_LANGUAGE else found


def _paused(chunk: TextChunk, spoken: str, seconds: float) -> TextChunk:
    """A chunk with a pause tag after it: those in a row add up."""
    return replace(chunk, ending=_ending(spoken), pause=(chunk.pause or 0.0) + seconds)


def _ending(spoken: str) -> Boundary:
    """Boundary after these words, where a tag ends the chunk."""
    return "sentence" if spoken.rstrip(_QUOTES)[-1:] in tuple(_SENTENCE_ENDS) else "clause"
