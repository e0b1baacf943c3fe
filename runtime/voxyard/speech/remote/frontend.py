"""Front end of servers that speak OpenAI's speech API: their voices, and the model that they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from voxyard.speech.cast import OPENAI_VOICES
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import BaseFrontend, Frontend
from voxyard.speech.nearest import nearest
from voxyard.speech.remote.client import ServerError, ServerVoice, SpeechServer, read_key
from voxyard.speech.text.sentences import language_code

ENGINE = "voxyard.speech.remote.worker:RemoteWorker"
DEFAULT_MODEL = "tts-1"
CHUNK_SECONDS, CHUNK_CHARACTERS = 13.0, 400  # of a text; servers cut longer ones in ways of their own


class RemoteFrontend(BaseFrontend):
    """Front end of one or several servers with the same model. Thread-safe: it only reads what they have listed."""

    max_tokens = CHUNK_CHARACTERS
    max_seconds = CHUNK_SECONDS

    def __init__(self, servers: Sequence[SpeechServer], model: str | None, settings: Mapping[str, object]) -> None:
        models, listed = _ask(servers)
        self._voices = {voice.name: voice for voice in listed or ()}
        self._any = listed is None
        model = model or next(iter(models), DEFAULT_MODEL)
        self.engine = EngineSpec(ENGINE, {**settings, "model": model}, name=model)
        self.notes = (
            f"{model} speaks on {'another server' if len(servers) == 1 else f'{len(servers)} other servers'}: one seed "
            "gives one sound only where these keep it",
        )

    def voices(self) -> tuple[str, ...]:
        """Those that every server lists, sorted; OpenAI's names where they list none."""
        return tuple(sorted(OPENAI_VOICES if self._any else self._voices))

    def has_voice(self, name: str) -> bool:
        """True for those that are listed; for any name where none are: the server decides."""
        return bool(name) if self._any else name in self._voices

    def default_voice(self, language: str | None) -> str:
        """The first voice of the language; `alloy` where the servers have it or list none, else the first of all."""
        names = self.voices()
        if language is not None:
            own = [name for name in names if self.language(name) == language_code(language)]
            if own:
                return own[0]
        return "alloy" if "alloy" in names else names[0]

    def check_voice(self, name: str) -> None:
        """Check that there is such a voice.

        Raises:
            SpeechError: there is none; the message names the nearest.
        """
        if not self.has_voice(name):
            near = nearest(name, self.voices())
            hint = f"did you mean {', '.join(near)}?" if near else f"they have {', '.join(self.voices()[:20])}"
            raise SpeechError(f"the servers have no voice {name!r}; {hint}")

    def language(self, voice: str | None) -> str | None:
        """Language of a voice, where the server tells one."""
        found = self._voices.get(voice or "")
        if found is None or not isinstance(found.language, str):
            return None
        try:
            return language_code(found.language)
        except SpeechError:
            return None


def _ask(servers: Sequence[SpeechServer]) -> tuple[list[str], list[ServerVoice] | None]:
    """Models of the first server that answers, and the voices that all that list some have; None where none does.

    Raises:
        SpeechError: no server answers, or they have no voice in common.
    """
    models, listings, problems = list[list[str]](), list[dict[str, ServerVoice]](), list[str]()
    for server in servers:
        try:
            models.append(server.models())
            voices = server.voices()
        except ServerError as error:
            problems.append(str(error))
            continue
        if voices:
            listings.append({voice.name: voice for voice in voices})
    if not models:
        raise SpeechError(f"no server can be used: {'; '.join(problems)}")
    if not listings:
        return models[0], None
    common = set(listings[0]).intersection(*listings[1:])
    if not common:
        raise SpeechError("the servers have no voice in common: expected servers of one model")
    return models[0], [voice for name, voice in listings[0].items() if name in common]


def servers_of(settings: Mapping[str, object]) -> tuple[SpeechServer, ...]:
    """The servers of an engine's settings. Raises SpeechError where the key cannot be read."""
    key = read_key(cast("str | None", settings.get("key_file")))
    timeout = cast("float", settings.get("timeout", 120.0))
    return tuple(SpeechServer(url, timeout, key) for url in cast("Sequence[str]", settings["base_urls"]))


def frontend(settings: Mapping[str, object]) -> Frontend:
    """Front end factory `voxyard.speech.remote.frontend:frontend`: base_urls, key_file, model, timeout, requests.

    Raises:
        SpeechError: no server answers, or the key cannot be read.
    """
    return RemoteFrontend(servers_of(settings), cast("str | None", settings.get("model")), settings)
