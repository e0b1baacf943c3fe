"""Names of espeak-ng's voices: a language such as `en-us`, with a variant of the speaker such as `en-us+f4`."""

from __future__ import annotations

from functools import cache

from voxyard.corpus import CorpusError, espeak
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import VoiceDescription
from voxyard.speech.nearest import nearest
from voxyard.speech.text.sentences import language_code

DEFAULT = "en-us"
FEMALE = "f4"  # variant that is listed beside each language's own voice, which is a man's
_LANGUAGES = {"cmn": "zh", "nb": "no"}  # a voice's language, where reading and sentences know it by another code


@cache
def names() -> tuple[str, ...]:
    """Every language, with its own voice and a woman's, sorted; further variants are not listed.

    Raises:
        SpeechError: espeak-ng is not installed.
    """
    return tuple(sorted(each for name in _titles() for each in (name, f"{name}+{FEMALE}")))


def exists(name: str) -> bool:
    """True where there is such a language, and such a variant where one is named."""
    language, plus, variant = name.partition("+")
    return language in _titles() and (not plus or variant in espeak.variants())


def check(name: str) -> None:
    """Check that there is such a voice.

    Raises:
        SpeechError: there is none; the message names the nearest.
    """
    if exists(name):
        return
    near = nearest(name, names())
    hint = f"did you mean {', '.join(near)}?" if near else "expected a language such as en-us, de or fr-fr"
    hint += "; all of them: voxyard voices --engine espeak"
    raise SpeechError(f"espeak-ng has no voice {name!r}; {hint}")


def default(language: str | None) -> str:
    """The voice of a language; American English where none is known for it."""
    if language is None or language.lower() in ("en", DEFAULT):
        return DEFAULT
    try:
        found = espeak.voice_for(language).lower()
    except CorpusError:
        return DEFAULT
    own = [each for each in _titles() if each.startswith(f"{found}-")]  # French is fr-fr, fr-be, fr-ch
    return next((each for each in (found, f"{found}-{found}", *own) if each in _titles()), DEFAULT)


def language(name: str) -> str | None:
    """Language of a voice as the reading of texts has it, such as `en`; None where it is no code."""
    try:
        code = language_code(name.partition("+")[0])
    except SpeechError:
        return None
    return None if code is None else _LANGUAGES.get(code, code)


def describe(name: str) -> VoiceDescription:
    """The language in words, and the gender of the variant."""
    language, _, variant = name.partition("+")
    title = _titles().get(language, language)
    if not variant:
        return VoiceDescription(title, "male")
    gender = {"f": "female", "m": "male"}.get(variant[0]) if variant[1:].isdigit() else None
    return VoiceDescription(f"{title}, {variant}", gender)  # type: ignore[arg-type]


@cache
def _titles() -> dict[str, str]:
    try:
        return espeak.languages()
    except CorpusError as error:
        raise SpeechError(f"{error}; it is in the extra: pip install 'voxyard[espeak]'") from error
