"""espeak-ng's speech with the true times at which its words begin."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus import espeak


class _Event(ctypes.Structure):  # of espeak-ng's speak_lib.h
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_RATE, _CHARACTERS, _UTF8, _WORD = 1, 1, 1, 1
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


def speak(text: str, words_per_minute: int = 150) -> tuple[NDArray[np.float32], int, dict[int, float]]:
    """The text in English: samples, their rate, and the seconds at which words begin, by their character in the text.

    Words that espeak-ng joins to the one before, as "in the", are not among them.
    """
    parts, begins = list[NDArray[np.int16]](), dict[int, float]()

    def collect(samples: Any, count: int, events: Any) -> int:
        if count > 0:
            parts.append(np.ctypeslib.as_array(samples, (count,)).astype(np.int16))
        number = 0
        while events[number].type:
            if events[number].type == _WORD:
                begins[events[number].text_position - 1] = events[number].audio_position / 1000
            number += 1
        return 0

    callback = _Callback(collect)
    started = espeak._started()
    espeak._choose(started.library, "en-us")
    started.library.espeak_SetParameter(_RATE, words_per_minute, 0)
    started.library.espeak_SetSynthCallback(ctypes.cast(callback, ctypes.c_void_p))
    raw = text.encode() + b"\0"
    assert started.library.espeak_Synth(raw, len(raw), 0, _CHARACTERS, 0, _UTF8, None, None) == 0
    started.library.espeak_Synchronize()
    started.library.espeak_SetSynthCallback(espeak._Callback())
    return (np.concatenate(parts) / 32768).astype(np.float32), started.sample_rate, begins
