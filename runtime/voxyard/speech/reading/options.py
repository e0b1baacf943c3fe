"""How a text is to be read: the kinds of figures and short forms that become words, and lexicons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from voxyard.speech.errors import SpeechError

if TYPE_CHECKING:
    from voxyard.speech.reading.lexicon import Lexicon

Kind = Literal["numbers", "ordinals", "currency", "dates", "times", "units", "abbreviations", "symbols", "emoji"]
KINDS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "emoji")
"""Every kind but emoji, which are silent where nobody asks for their names."""


@dataclass(frozen=True)
class ReadingOptions:
    """Reading of a text: the kinds of figures and short forms that become words, and lexicons, the first first."""

    kinds: tuple[Kind, ...] = KINDS
    lexicons: tuple[Lexicon, ...] = ()
    gutenberg_licence: bool = True  # whether what Project Gutenberg adds to a book is spoken too

    def changed(self, read: str | None = None, lexicon: Lexicon | None = None) -> ReadingOptions:
        """With the kinds that `read` names, and with a lexicon that goes before those here. Raises SpeechError."""
        kinds = self.kinds if read is None else read_kinds(read)
        return replace(self, kinds=kinds, lexicons=self.lexicons if lexicon is None else (lexicon, *self.lexicons))


READING = ReadingOptions()
"""Every kind, no lexicon: how a text is read where nothing else is said."""


def read_kinds(names: str) -> tuple[Kind, ...]:
    """The kinds of a list with commas, of `all` or `none`; emoji are named in a list only. Raises SpeechError."""
    if names == "none":
        return ()
    asked = [name.strip() for name in names.split(",")]
    if "all" in asked:
        asked = [*KINDS, *(name for name in asked if name != "all")]
    if unknown := [name for name in asked if name not in get_args(Kind)]:
        raise SpeechError(
            f"cannot read {unknown[0]!r}: expected all, none, or a list with commas of {', '.join(get_args(Kind))}"
        )
    return tuple(kind for kind in get_args(Kind) if kind in asked)
