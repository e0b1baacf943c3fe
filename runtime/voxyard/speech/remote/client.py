"""Client of a server that speaks OpenAI's speech API: its models, its voices, and the sound of a text."""

from __future__ import annotations

import http.client
import io
import json
import math
import os
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

KEY_VARIABLE = "OPENAI_API_KEY"
CONNECT_SECONDS = 10.0
LARGEST_ANSWER = 64 * 2**20  # bytes: a chunk's sound has under 5 MiB
_MESSAGE = 200  # characters of a server's own words
_BLOCK = 1 << 16


class ServerError(SpeechError):
    """The server cannot be used now: it is away, or refuses the key; `wait` are the seconds that it asks for."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(frozen=True)
class Answer:
    """Answer of a server, whatever it says."""

    status: int
    headers: Mapping[str, str]  # by their names in lower case
    body: bytes

    def message(self) -> str:
        """What the server says of an error: OpenAI's envelope, FastAPI's, or the beginning of the text."""
        text = self.body.decode(errors="replace")
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = text
        while isinstance(found, dict) and found:
            found = next((found[name] for name in ("error", "detail", "message") if name in found), str(found))
        return " ".join(str(found).split())[:_MESSAGE] or http.client.responses.get(self.status, "")


def told_wait(said: str, now: float) -> float | None:
    """Seconds to wait that the header `Retry-After` tells, as a number or a date; None where it tells none."""
    try:
        seconds = float(said)
    except ValueError:
        try:
            date = parsedate_to_datetime(said)
        except (TypeError, ValueError):
            return None
        seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now  # one of its forms names no zone
    return max(seconds, 0.0) if math.isfinite(seconds) else None


@dataclass(frozen=True)
class ServerVoice:
    """Voice that a server lists."""

    name: str
    language: str | None = None


@dataclass(frozen=True)
class SpeechServer:
    """One server; each call has a connection of its own, so that threads may share it. No key is in its texts."""

    url: str  # with its path, such as http://gpu-1:8880/v1
    timeout: float = 120.0  # seconds for one answer
    key: str | None = field(default=None, repr=False)

    def models(self) -> list[str]:
        """Names of its models; none where it lists none.

        Raises:
            ServerError: it is away, refuses the key, or has none of the API's paths.
        """
        answer = self._listing("/models")
        if answer is None and self._lacks("GET", "/audio/voices") and self._lacks("POST", "/audio/speech"):
            raise ServerError(
                f"{self.url} has no /models, /audio/voices and /audio/speech (status 404): is the URL's path right?"
            )
        data = answer.get("data") if isinstance(answer, dict) else None
        return [str(each["id"]) for each in data or () if isinstance(each, dict) and each.get("id")]

    def voices(self) -> list[ServerVoice] | None:
        """Voices that it lists, as voxyard, Kokoro-FastAPI and vLLM-Omni do; None where it lists none.

        Raises:
            ServerError: it is away, or refuses the key.
        """
        answer = self._listing("/audio/voices")
        listed = answer.get("voices") if isinstance(answer, dict) else answer
        if not isinstance(listed, list):
            return None
        found = [
            ServerVoice(str(each.get("id") or each.get("name") or ""), each.get("language"))
            if isinstance(each, dict)
            else ServerVoice(str(each))
            for each in listed
        ]
        return [voice for voice in found if voice.name]

    def usage(self, days: int) -> list[dict[str, Any]]:
        """What keys of a voxyard service had spoken in the last days. Raises ServerError."""
        answer = self._listing(f"/usage?days={days}")
        found = answer.get("usage") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise ServerError(f"{self.url} tells no usage: expected a voxyard service of this version")
        return found

    def speech(self, body: Mapping[str, object]) -> Answer:
        """Answer to a speech request.

        Raises:
            ServerError: there is no connection to it.
            TimeoutError: it has not answered in time.
            OSError, http.client.HTTPException: it broke off.
        """
        return self._ask("POST", "/audio/speech", json.dumps(body).encode())

    def _listing(self, path: str) -> Any:
        try:
            answer = self._ask("GET", path)
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self.url} does not answer: {type(error).__name__} {error}") from error
        if answer.status in (401, 403):
            raise ServerError(f"{self.url} refuses the key (status {answer.status}): see --api-key-file")
        if answer.status in (404, 405):
            return None
        if answer.status != 200:
            raise ServerError(f"{self.url}{path} answers with status {answer.status}: {self.safe(answer.message())}")
        try:
            return json.loads(answer.body)
        except ValueError as error:
            raise ServerError(
                f"{self.url}{path} answers with no JSON: is it a server of OpenAI's speech API?"
            ) from error

    def _lacks(self, method: str, path: str) -> bool:
        """True where there is nothing at a path, which refuses an empty request otherwise."""
        try:
            return self._ask(method, path, b"{}" if method == "POST" else None).status == 404
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self.url} does not answer: {type(error).__name__} {error}") from error

    def safe(self, text: str) -> str:
        """A server's words without the key, which it may repeat."""
        return text.replace(self.key, "…") if self.key else text

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        until, place = time.monotonic() + self.timeout, urlsplit(self.url)
        host, port = place.hostname or "", place.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context())
            if place.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        )
        try:
            try:
                connection.connect()
            except OSError as error:
                raise ServerError(f"{self.url} does not answer: {error}") from error
            connection.sock.settimeout(self.timeout)
            headers = {"Accept": "*/*", **({"Content-Type": "application/json"} if body else {})}
            if self.key:
                headers["Authorization"] = f"Bearer {self.key}"
            connection.request(method, place.path + path, body, headers)
            answer = connection.getresponse()
            parts, size = list[bytes](), 0
            while part := answer.read1(_BLOCK):
                parts.append(part)
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise http.client.HTTPException(f"the answer has more than {LARGEST_ANSWER >> 20} MiB")
                if time.monotonic() > until:
                    raise TimeoutError(f"the answer did not end within {self.timeout:.0f} s")
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, b"".join(parts))
        finally:
            connection.close()


def read_urls(text: str | None) -> tuple[str, ...]:
    """Base URLs of a list with commas; one without a path gets `/v1`.

    Raises:
        SpeechError: there is none, one is no URL, has a password, or stands there twice.
    """
    found = list[str]()
    for part in (text or "").split(","):
        url = part.strip().rstrip("/")
        if not url:
            continue
        try:
            place, port = urlsplit(url), urlsplit(url).port
        except ValueError:
            place, port = urlsplit(""), None
        if place.scheme not in ("http", "https") or not place.hostname or port == 0 or place.query or place.fragment:
            raise SpeechError(
                f"--base-url has {url!r}: expected URLs such as http://gpu-1:8880/v1, commas between them"
            )
        if "@" in place.netloc:
            raise SpeechError(
                f"--base-url has a password for {place.hostname}: put the key into a file, --api-key-file, or into "
                f"the variable {KEY_VARIABLE}"
            )
        url = url if place.path else f"{url}/v1"
        if url in found:
            raise SpeechError(f"--base-url names {url} twice")
        found.append(url)
    if not found:
        raise SpeechError(
            "--engine openai speaks by servers: add --base-url URL, such as http://gpu-1:8880/v1; several with commas"
        )
    return tuple(found)


def read_key(path: str | None) -> str | None:
    """The key of the servers: the first line of a file, else the variable; None where there is neither.

    Raises:
        SpeechError: the file cannot be read, or holds no key.
    """
    if path is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        key = Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpeechError(f"--api-key-file {path} cannot be read: {error}") from error
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise SpeechError(f"--api-key-file {path}: expected one line with the key, visible ASCII without blanks")
    return key


def decoded(content: bytes) -> Audio:
    """The sound of an audio file of any format and rate, mono float32 at SAMPLE_RATE, (samples,).

    Raises:
        SpeechError: it is no audio file, or empty.
    """
    import av
    import numpy as np

    try:
        with av.open(io.BytesIO(content), "r") as opened:
            resampler = av.AudioResampler(format="fltp", rate=SAMPLE_RATE)
            frames = [part for frame in opened.decode(audio=0) for part in resampler.resample(frame)]
            frames += resampler.resample(None)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise SpeechError(f"its answer is no audio file that can be read ({len(content)} bytes): {error}") from error
    if not frames:
        raise SpeechError("its answer has no sound")
    return np.concatenate([frame.to_ndarray().mean(axis=0) for frame in frames]).clip(-1, 1)
