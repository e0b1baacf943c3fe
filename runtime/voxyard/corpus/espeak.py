"""espeak-ng through its C library, as the package espeakng-loader brings it: phonemes, and a voice for the demo."""

from __future__ import annotations

import ctypes
import difflib
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError

# From espeak-ng's speak_lib.h.
_SYNCHRONOUS, _UTF8, _IPA, _CHARACTERS = 2, 1, 2, 1
_RATE, _PITCH = 1, 3
_DONT_EXIT = 0x8000

_lock = threading.Lock()  # the library keeps one global state
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def phonemes(text: str, language: str) -> str:
    """The text in IPA with stress marks; clauses are joined by a blank. Raises CorpusError for an unknown language."""
    with _lock:
        library = _library()
        _choose(library, language)
        buffer = ctypes.create_string_buffer(text.encode())
        position = ctypes.c_void_p(ctypes.addressof(buffer))
        clauses = []
        while position.value:
            clauses.append((library.espeak_TextToPhonemes(ctypes.byref(position), _UTF8, _IPA) or b"").decode())
    return " ".join(clause.strip() for clause in clauses if clause.strip())


def speak(
    text: str, language: str = "en-us", *, words_per_minute: int = 160, pitch: int = 50
) -> tuple[NDArray[np.int16], int]:
    """The text spoken: samples (n,) int16 and their rate. The same call gives the same samples."""
    parts: list[NDArray[np.int16]] = []

    def collect(samples: Any, count: int, _events: Any) -> int:
        if count > 0:
            parts.append(np.ctypeslib.as_array(samples, (count,)).astype(np.int16))
        return 0

    callback = _Callback(collect)
    with _lock:
        library = _library()
        _choose(library, language)
        library.espeak_SetParameter(_RATE, words_per_minute, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        library.espeak_SetSynthCallback(callback)
        raw = text.encode() + b"\0"
        code = library.espeak_Synth(raw, len(raw), 0, _CHARACTERS, 0, _UTF8, None, None)
        library.espeak_Synchronize()
        library.espeak_SetSynthCallback(_Callback())
    if code != 0 or not parts:
        raise CorpusError(f"espeak-ng could not speak {text!r} (code {code})")
    return np.concatenate(parts), _sample_rate()


@cache
def _library() -> ctypes.CDLL:
    return _initialised()[0]


def _sample_rate() -> int:
    return _initialised()[1]


@cache
def _initialised() -> tuple[ctypes.CDLL, int]:
    try:
        import espeakng_loader
    except ModuleNotFoundError as error:
        raise CorpusError("espeak-ng is needed for phonemes and for the demo: pip install espeakng-loader") from error
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
    library.espeak_SetSynthCallback.restype = None
    library.espeak_Initialize.restype = ctypes.c_int
    data = Path(espeakng_loader.get_data_path())
    rate = int(library.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), _DONT_EXIT))
    if rate <= 0:
        raise CorpusError(f"espeak-ng does not start with its data in {data}: reinstall espeakng-loader")
    return library, rate


def _choose(library: ctypes.CDLL, language: str) -> None:
    if library.espeak_SetVoiceByName(language.encode()) != 0:
        near = difflib.get_close_matches(language, _languages(library), n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "for example en-us, en-gb, de, fr, es"
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


def _languages(library: ctypes.CDLL) -> list[str]:
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    voices, found, i = library.espeak_ListVoices(None), [], 0
    while voices[i]:
        found.append((voices[i].contents.languages or b"\0")[1:].split(b"\0")[0].decode(errors="replace"))
        i += 1
    return found
