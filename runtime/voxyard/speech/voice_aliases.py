"""OpenAI's voice names as aliases of an engine's voices."""

from __future__ import annotations

import itertools

from voxyard.speech.frontend import Frontend

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
