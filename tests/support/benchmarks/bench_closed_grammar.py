"""Judge of the speech benchmark: pocketsphinx with a closed grammar tells which of some sentences a sound is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pocketsphinx import Decoder

from voxyard.speech.verification.pocketsphinx import RATE, to_pcm

PAUSE = 0.25  # seconds of silence around a sound, which the recogniser needs to tell that a sentence has ended


class ClosedGrammar:
    """Recogniser of a fixed list of sentences; results do not depend on earlier sounds."""

    def __init__(self) -> None:
        self._decoder: Any = Decoder(samprate=RATE, cmn="batch", loglevel="FATAL")

    def known(self, words: Iterable[str]) -> set[str]:
        """Words that are in the recogniser's dictionary."""
        return {word for word in words if self._decoder.lookup_word(word) is not None}

    def listen_for(self, sentences: Collection[tuple[str, ...]]) -> None:
        """Take the sentences, of known words, as all that may be said."""
        self._decoder.add_jsgf_string("sentences", grammar(sentences))
        self._decoder.activate_search("sentences")

    def identify(self, samples: NDArray[np.float32], rate: int) -> tuple[str, ...]:
        """Words of the likeliest sentence, or its first words where none was heard to its end."""
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(to_pcm(np.pad(samples, round(PAUSE * rate)), rate), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return () if found is None else tuple(found.hypstr.split())


def grammar(sentences: Collection[tuple[str, ...]]) -> str:
    """A JSGF grammar of these sentences, all as likely."""
    choices = " | ".join(sorted(" ".join(words) for words in sentences))
    return f"#JSGF V1.0;\ngrammar sentences;\npublic <sentence> = {choices};\n"
