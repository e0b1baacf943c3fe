"""Names of voices in a text: the members of its cast, and OpenAI's names for those of an engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import Frontend
from voxyard.speech.nearest import nearest

OPENAI_VOICES = {
    "alloy": "v2/en_speaker_6",
    "ash": "v2/en_speaker_0",
    "ballad": "v2/en_speaker_1",
    "cedar": "v2/en_speaker_8",
    "coral": "v2/en_speaker_9",
    "echo": "v2/en_speaker_2",
    "fable": "v2/en_speaker_3",
    "marin": "v2/en_speaker_9",
    "nova": "v2/en_speaker_9",
    "onyx": "v2/en_speaker_5",
    "sage": "v2/en_speaker_4",
    "shimmer": "v2/en_speaker_9",
    "verse": "v2/en_speaker_7",
}
"""OpenAI's voice names → Bark's; only `v2/en_speaker_9` is a woman's voice among Bark's English presets."""


def openai_names(frontend: Frontend) -> dict[str, str]:
    """OpenAI's voice names → the engine's: Bark's by the table; of another engine those of the default's language.

    The default voice is first, then the others as they are sorted, and again: the same at every start. A voice of the
    engine goes before an alias of the same name.
    """
    own = frontend.voices()
    if not own or any(name in own for name in OPENAI_VOICES.values()):
        return {alias: name for alias, name in OPENAI_VOICES.items() if name in own and alias not in own}
    first = frontend.default_voice(None)
    language = frontend.language(first)
    order = sorted(
        (name for name in own if frontend.language(name) == language), key=lambda name: (name != first, name)
    )
    aliases = zip(sorted(OPENAI_VOICES), itertools.cycle(order), strict=False)
    return {alias: name for alias, name in aliases if alias not in own}


def engine_name(name: str, frontend: Frontend) -> str:
    """The engine's name of a voice: that of an alias, any other as it is."""
    return openai_names(frontend).get(name, name) if name in OPENAI_VOICES else name


NARRATOR = "narrator"
"""Name in a cast of the voice for what no tag gives to another."""
MOST_MEMBERS = 64
_COMPARED = 60  # characters of an unknown name, which may be long
_SHOWN = 10  # unknown names, and members, in a message


@dataclass(frozen=True)
class Cast:
    """Voices by the names that a text has for them; `find` gives those of the engine or the service, None: no such."""

    find: Callable[[str], str | None]
    members: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[], Sequence[str]] = tuple  # names that `find` has, for the message on one that it has not
    where: str = "voxyard voices lists all"

    @property
    def narrator(self) -> str | None:
        """Voice of the narrator, where the cast has one."""
        return self.members.get(NARRATOR)

    def voices(self, names: Iterable[str]) -> dict[str, tuple[str, str]]:
        """The speaker of each name, as the cast writes it, and the engine's voice.

        Raises:
            SpeechError: there are no such voices; the message has all of these names and those that there are.
        """
        spelled = {member.casefold(): member for member in self.members}
        found, unknown = dict[str, tuple[str, str]](), list[str]()
        for name in dict.fromkeys(names):
            member = name if name in self.members else spelled.get(name.casefold(), "")
            voice = self.members[member] if member else self.find(name)
            if voice is None:
                unknown.append(name)
            else:
                found[name] = (member or name, voice)
        if unknown:
            raise SpeechError(self._unknown(unknown))
        return found

    def _unknown(self, names: Sequence[str]) -> str:
        shown = ", ".join(repr(name[:_COMPARED]) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        members = sorted(self.members)
        had = f"the cast has {', '.join(members[:_SHOWN])}" if members else "no cast is given"
        if len(members) > _SHOWN:
            had += f" and {len(members) - _SHOWN} more"
        known = [each for each in self.known() if each not in self.members]
        near = nearest(names[0], [*members, *known])
        told = f"the nearest to {names[0][:_COMPARED]!r} are {', '.join(near)}; " if near else ""
        told = told or (f"other voices are {', '.join(known[:_SHOWN])}; " if known else "")
        return (
            f"the text names {'the voice' if len(names) == 1 else 'the voices'} {shown}{more}, and {had}; "
            f"{told}{self.where}"
        )


def cast_of(frontend: Frontend, members: Mapping[str, str] | None = None) -> Cast:
    """Cast over the voices of an engine, with OpenAI's names for them."""

    def find(name: str) -> str | None:
        voice = engine_name(name, frontend)
        return voice if frontend.has_voice(voice) else None

    return Cast(find, members or {}, lambda: (*frontend.voices(), *OPENAI_VOICES))


def read_cast(text: str) -> dict[str, str]:
    """Members of `narrator=en-us,mia=en-gb+f4`: a name in the text, and a voice. Raises SpeechError."""
    found = dict[str, str]()
    for part in text.split(","):
        name, equals, voice = (each.strip() for each in part.partition("="))
        if not (name and equals and voice) or name in found:
            what = "named twice" if name in found else "no NAME=VOICE"
            raise SpeechError(
                f"the cast has {part.strip()!r}, {what}: expected names and voices such as narrator=en-us,mia=en-gb+f4"
            )
        found[name] = voice
    if len(found) > MOST_MEMBERS:
        raise SpeechError(f"the cast has {len(found)} voices, expected at most {MOST_MEMBERS}")
    return found
