"""Recogniser for the word check: pocketsphinx with its small American English model.

English only, fast and inaccurate: it gets a third of the words of clear speech wrong, so it only detects audio of
another text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voxyard.speech.errors import SpeechError

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

RATE = 16_000  # Hz, that of the model
PEAK = 0.5  # of full scale, to which the audio is normalized
NOISE = 0.005  # of the peak: the model was trained on recordings, and fails on words after digital silence


class Pocketsphinx:
    """Recognises English; results do not depend on earlier audio."""

    def __init__(self) -> None:
        try:
            from pocketsphinx import Decoder
        except ModuleNotFoundError as error:
            raise SpeechError("the recogniser needs pocketsphinx: pip install pocketsphinx soxr") from error
        self._decoder: Any = Decoder(samprate=RATE, cmn="batch", loglevel="FATAL")

    def words(self, audio: Audio, sample_rate: int, language: str | None) -> str:
        """English words in audio; an unknown language (None) is taken for English.

        Raises:
            SpeechError: the language is another one.
        """
        if language is not None and language.lower().replace("_", "-").split("-")[0] != "en":
            raise SpeechError(f"pocketsphinx supports English only, found {language!r}: name another recogniser")
        decoder = self._decoder
        decoder.reinit_feat()  # else means and noise of earlier audio change its scores
        decoder.start_utt()
        decoder.process_raw(to_pcm(audio, sample_rate), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return "" if found is None else str(found.hypstr)


def to_pcm(audio: Audio, sample_rate: int) -> bytes:
    """16-bit samples at the model's rate, normalized, with a faint constant noise."""
    import numpy as np
    import soxr

    sound = soxr.resample(audio, sample_rate, RATE) if sample_rate != RATE else audio
    peak = float(np.abs(sound).max(initial=0.0))
    level = np.zeros_like(sound) if peak == 0 else sound * (PEAK / peak)
    noise = np.random.default_rng(0).normal(0.0, NOISE * PEAK, len(sound))
    samples = np.rint(np.clip(level + noise, -1.0, 1.0) * 32767).astype("<i2")
    return bytes(samples.tobytes())


def recogniser() -> Pocketsphinx:
    """Recogniser factory `voxyard.speech.verification.pocketsphinx:recogniser`."""
    return Pocketsphinx()
