"""espeak-ng through its C library, as the package espeakng-loader brings it: phonemes, and a voice for the demo."""

from __future__ import annotations

import ctypes
import difflib
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError

# From espeak-ng's speak_lib.h.
_SYNCHRONOUS, _UTF8, _IPA, _CHARACTERS = 2, 1, 2, 1
_RATE, _PITCH = 1, 3
_DONT_EXIT = 0x8000

_LANGUAGE_SWITCH = re.compile(r"\([a-z][a-z0-9-]*\)")  # a German text holds "(en)kˈuːl(de)" for "cool"
_IPA_SIGNS = str.maketrans({"ε": "ɛ", "^": None, "#": None})  # Danish's vowel; marks of espeak-ng's own, no IPA
_CLAUSE_END, _LAST_END = (re.compile(rf"([.,;:!?…—–])\W*{letter}$") for letter in (r"\w?", ""))
_LONGEST_PATH = 140  # espeak-ng keeps 160 bytes for the path of its data and the names in it

# Scripts of which a voice reads either words or, at best, the names of letters ("Cyrillic em", "Chinese letter").
_WORDS = {
    "CYRILLIC": "мир", "ARABIC": "سلام", "HEBREW": "שלום", "THAI": "ไทย", "LAO": "ລາວ", "KHMER": "ខ្មែរ",
    "MYANMAR": "ငြိမ်း", "TIBETAN": "བོད", "ETHIOPIC": "ሰላም", "TELUGU": "శాంతి", "THAANA": "ދިވެހި", "SYRIAC": "ܫܠܡܐ",
}  # fmt: skip
_SYLLABLES = {"CJK": "一人", "HIRAGANA": "あか", "KATAKANA": "アカ"}

_OTHER_CODES = {"zh": "cmn", "no": "nb"}  # language → its voice

_lock = threading.Lock()  # the library keeps one global state
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True)
class _Espeak:
    """The library, ready."""

    library: ctypes.CDLL
    sample_rate: int


_espeak: _Espeak | None = None


def phonemes(text: str, language: str) -> str:
    """The text in IPA with stress marks, each clause with its punctuation. Raises CorpusError for unknown languages."""
    with _lock:
        library = _started().library
        _choose(library, language)
        clauses = [
            phonetic + (found.group(1) if (found := end.search(clause)) else "")
            for phonetic, clause, end in _clauses(library, text.encode())
            if phonetic
        ]
    return _LANGUAGE_SWITCH.sub("", " ".join(clauses)).translate(_IPA_SIGNS)


def voice_for(language: str) -> str:
    """Voice for a language code as corpora write them: zh-CN is spoken by cmn, sv-SE by sv.

    Raises CorpusError where the library is missing, or has none.
    """
    primary = language.lower().replace("_", "-").partition("-")[0]
    for name in dict.fromkeys((language, primary, _OTHER_CODES.get(primary, primary))):
        try:
            phonemes("a", name)
        except CorpusError:
            if name == _OTHER_CODES.get(primary, primary):
                phonemes("a", language)  # the reason, in the words for what was asked
        else:
            return name
    return language


@cache
def reads(character: str, language: str) -> bool:
    """True where the voice has a sound for a letter, digit or symbol, and not only a letter's name as for foreign ones.

    Punctuation may be silent. Raises CorpusError for unknown languages.
    """
    if character.isascii() or unicodedata.category(character)[0] not in "LNSC":
        return True
    script = unicodedata.name(character, "").partition(" ")[0]
    return _reads_script(script, language) and phonemes(character, language) != ""


@cache
def _reads_script(script: str, language: str) -> bool:
    """True where a word is more than the names of its letters, and two syllables are not called the same."""
    word = _WORDS.get(script) or _SYLLABLES.get(script)
    if word is None:
        return True
    names = [phonemes(letter, language) for letter in word]
    if script in _SYLLABLES:
        return names[0] != names[1]
    spoken, spelled = (re.sub("[ ˈˌ]", "", text) for text in (phonemes(word, language), "".join(names)))
    return spoken != spelled


def _clauses(library: ctypes.CDLL, raw: bytes) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Phonemes of each clause, its text, and the pattern of its end: the library reads a letter too far."""
    buffer = ctypes.create_string_buffer(raw)
    begin = ctypes.addressof(buffer)
    position, at = ctypes.c_void_p(begin), 0
    while position.value:
        phonetic = (library.espeak_TextToPhonemes(ctypes.byref(position), _UTF8, _IPA) or b"").decode()
        end = (position.value or begin + len(raw)) - begin
        yield phonetic.strip(), raw[at:end].decode(errors="replace"), _LAST_END if end == len(raw) else _CLAUSE_END
        at = end


def speak(
    text: str, language: str = "en-us", *, words_per_minute: int = 160, pitch: int = 50
) -> tuple[NDArray[np.int16], int]:
    """The text spoken: samples (n,) int16 and their rate.

    The voice trembles a little, and where in the tremble a call begins depends on what was spoken before: the same
    calls in the same order after `restart` give the same samples.
    """
    parts: list[NDArray[np.int16]] = []

    def collect(samples: Any, count: int, _events: Any) -> int:
        if count > 0:
            parts.append(np.ctypeslib.as_array(samples, (count,)).astype(np.int16))
        return 0

    callback = _Callback(collect)
    with _lock:
        espeak = _started()
        _choose(espeak.library, language)
        espeak.library.espeak_SetParameter(_RATE, words_per_minute, 0)
        espeak.library.espeak_SetParameter(_PITCH, pitch, 0)
        espeak.library.espeak_SetSynthCallback(callback)
        raw = text.encode() + b"\0"
        code = _beside(lambda: espeak.library.espeak_Synth(raw, len(raw), 0, _CHARACTERS, 0, _UTF8, None, None))
        espeak.library.espeak_Synchronize()
        espeak.library.espeak_SetSynthCallback(_Callback())
    if code != 0 or not parts:
        raise CorpusError(f"espeak-ng could not speak {text!r} (code {code})")
    return np.concatenate(parts), espeak.sample_rate


def _beside(call: Callable[[], int]) -> int:
    """What a call returns, made in a thread: Ctrl-C in a callback of the main thread would be lost."""
    codes: SimpleQueue[int] = SimpleQueue()
    thread = threading.Thread(target=lambda: codes.put(call()), name="espeak-ng")
    thread.start()
    try:
        return codes.get()  # Thread.join takes a thread for ended that a signal interrupts it for (Python 3.11, 3.12)
    finally:
        thread.join()  # the callback is there until the sentence ends, some milliseconds


def languages() -> dict[str, str]:
    """Every language that can be spoken, as `en-us`, with its name in words. Raises CorpusError.

    Those whose dictionary the package lacks, as Faroese, are left out: they make no sound.
    """
    with _lock:
        library = _started().library
        return {name: voice.name.decode(errors="replace") for name, voice in _listed(library) if _has_words(voice)}


def _has_words(voice: Any) -> bool:
    import espeakng_loader

    data = Path(espeakng_loader.get_data_path())
    text = (data / "lang" / voice.identifier.decode()).read_text(encoding="utf-8", errors="replace")
    settings = dict(line.split(maxsplit=1) for line in reversed(text.splitlines()) if len(line.split()) > 1)
    name = settings.get("dictionary") or settings["language"].partition("-")[0]
    return (data / f"{name.split()[0]}_dict").exists()


@cache
def variants() -> frozenset[str]:
    """Names of the speakers that each language can have: `f4` in `en-us+f4`. Raises CorpusError.

    Those with breath are left out: its noise differs from call to call.
    """
    with _lock:
        _started()
    import espeakng_loader

    files = Path(espeakng_loader.get_data_path(), "voices", "!v").iterdir()
    return frozenset(each.name for each in files if b"breath" not in each.read_bytes())


def restart() -> None:
    """Loads the library anew, so that what it speaks next depends on nothing that it spoke before."""
    import _ctypes

    global _espeak
    with _lock:
        if _espeak is not None:
            _espeak.library.espeak_Terminate()
            _ctypes.dlclose(_espeak.library._handle)  # noqa: SLF001 (there is no other way)
            _espeak = None


def _started() -> _Espeak:
    global _espeak
    if _espeak is None:
        _espeak = _start()
    return _espeak


def _start() -> _Espeak:
    try:
        import espeakng_loader

        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except ModuleNotFoundError as error:
        raise CorpusError("espeak-ng is needed for phonemes and for the demo: pip install espeakng-loader") from error
    except OSError as error:
        raise CorpusError(f"espeak-ng cannot be loaded ({error}): reinstall espeakng-loader") from error
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
    library.espeak_SetSynthCallback.restype = None
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    data = espeakng_loader.get_data_path()
    rate = int(library.espeak_Initialize(_SYNCHRONOUS, 0, _short(data).encode(), _DONT_EXIT))
    if rate <= 0:
        raise CorpusError(f"espeak-ng does not start with its data in {data}: reinstall espeakng-loader")
    return _Espeak(library, rate)


@cache
def _short(directory: str) -> str:
    """Another path of the same directory where its own is too long for espeak-ng."""
    if len(directory.encode()) <= _LONGEST_PATH:
        return directory
    return f"/proc/self/fd/{os.open(directory, os.O_PATH)}"  # open as long as the process runs


def _choose(library: ctypes.CDLL, language: str) -> None:
    """Takes the voice of that name, else the one for that language: French is named `fr`, its language is fr-fr."""
    if language.strip() and library.espeak_SetVoiceByName(language.encode()) == 0:
        return
    voices = _voices(library)
    name, plus, variant = language.lower().partition("+")
    voice = voices.get(name)
    if voice is None or library.espeak_SetVoiceByName(f"{voice}{plus}{variant}".encode()) != 0:
        near = difflib.get_close_matches(language.lower(), list(voices), n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "for example en-us, en-gb, de, fr-fr, es"
        raise CorpusError(f"espeak-ng has no voice for the language {language!r}; {hint}")


class _Voice(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("xx1", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


def _voices(library: ctypes.CDLL) -> dict[str, str]:
    """Language to voice."""
    return {name: voice.identifier.decode(errors="replace") for name, voice in _listed(library)}


def _listed(library: ctypes.CDLL) -> list[tuple[str, Any]]:
    """The first voice of each language, by its name in lower case."""
    found: dict[str, Any] = {}
    listed, i = library.espeak_ListVoices(None), 0
    while listed[i]:
        voice = listed[i].contents
        language = (voice.languages or b"\0")[1:].decode(errors="replace")  # a byte of priority goes first
        found.setdefault(language.lower(), voice)
        i += 1
    return list(found.items())
