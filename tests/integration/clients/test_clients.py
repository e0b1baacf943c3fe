"""Clients that nobody here has changed: OpenAI's for npm, litellm, LiveKit's and Pipecat's plug-ins, curl, ffprobe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import eventually
from service_app import Served, serving

from voxyard.service.auth.api_keys import add_key

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "clients"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
TEXT = "The harbour lay still, and nobody was awake at all. It was late. A bell rang far out on the water, twice."
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
CODECS = {"mp3": "mp3", "opus": "opus", "aac": "aac", "flac": "flac", "wav": "pcm_s16le"}


@dataclass(frozen=True)
class Open:
    """A service, a key for it, and how long TEXT is."""

    served: Served
    key: str
    samples: int

    @property
    def arguments(self) -> tuple[str, str, str]:
        """Base URL, key and text, as the clients' programs take them."""
        return f"{self.served.url}/v1", self.key, TEXT


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    folder = tmp_path_factory.mktemp("clients")
    key = add_key(folder / "keys.yaml", "tester")
    with serving(folder / "data", engine={"samples": 2400}, keys=folder / "keys.yaml") as served:
        asked = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "pcm"}
        headers = {"Authorization": f"Bearer {key}"}
        pcm = httpx.post(f"{served.url}/v1/audio/speech", json=asked, headers=headers).raise_for_status().content
        yield Open(served, key, len(pcm) // 2)


def result(*command: str | Path, **environment: str) -> Any:
    """What a client's program says on its last line."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=120,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def of_python(name: str, service: Open) -> Any:
    if not PYTHON.exists():
        pytest.skip("litellm, LiveKit and Pipecat are not installed: make test-clients installs them")
    return result(PYTHON, HERE / f"{name}_client.py", *service.arguments)


@pytest.mark.needs("node", "npm")
def test_openais_client_for_npm(service: Open) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "openai_client.mjs"):
        shutil.copy(HERE / name, BUILD)
    subprocess.run(
        ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--cache", str(BUILD / "cache")],
        cwd=BUILD, check=True, timeout=200,
    )  # fmt: skip
    found = result("node", BUILD / "openai_client.mjs", *service.arguments)
    assert found["version"] == json.loads((HERE / "package.json").read_text())["dependencies"]["openai"]
    assert set(found["lengths"]) == set(FORMATS)
    assert found["lengths"]["pcm"] == found["streamed"] == 2 * service.samples
    assert found["lengths"]["wav"] == 2 * service.samples + 44
    assert min(found["lengths"].values()) > 1000
    assert (set(found["events"][:-1]), found["events"][-1]) == ({"speech.audio.delta"}, "speech.audio.done")
    assert {"tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= set(found["models"])
    assert found["model"] == "tts-1-1106"
    assert found["refusals"] == [
        ["NotFoundError", 404, "voice_not_found", "voice"],
        ["NotFoundError", 404, "model_not_found", "model"],
        ["BadRequestError", 400, "invalid_request", "speed"],
        ["AuthenticationError", 401, "invalid_api_key", None],
    ]


def test_litellm(service: Open) -> None:
    found = of_python("litellm", service)
    assert found["pcm"] == 2 * service.samples
    assert found["mp3"] > 1000
    assert found["refusals"] == [["NotFoundError", 404], ["BadRequestError", 400], ["AuthenticationError", 401]]


def test_livekits_plug_in(service: Open) -> None:
    found = of_python("livekit", service)
    assert found["pcm"] == pytest.approx(service.samples, abs=480)  # its frames are whole: 10 or 20 ms
    assert found["events"] == found["mp3"] == pytest.approx(service.samples, abs=1200)  # MP3 ends with a whole frame
    assert found["refusal"] == 401


def test_pipecats_service_in_a_pipeline(service: Open) -> None:
    found = of_python("pipecat", service)
    assert (found["pcm"], found["errors"]) == (2 * service.samples, [])
    assert found["refused"] == 0
    assert "401" in found["refusals"][0]


def curl(service: Open, *options: str | Path) -> bytes:
    command = ["curl", "--silent", "--show-error", "--no-buffer", "-H", f"Authorization: Bearer {service.key}"]
    return subprocess.run([*command, *map(str, options)], check=True, capture_output=True, timeout=60).stdout


def probed(*source: str | Path) -> dict[str, Any]:
    """The one stream of a sound, and the seconds to the end of its last packet."""
    done = subprocess.run(
        ["ffprobe", "-v", "error", "-show_packets", "-show_streams", "-of", "json", *map(str, source)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert not done.stderr
    found = json.loads(done.stdout)
    (stream,), last = found["streams"], found["packets"][-1]
    return {**stream, "end": float(last["pts_time"]) + float(last["duration_time"])}


@pytest.mark.needs("curl", "ffprobe")
@pytest.mark.parametrize("kind", CODECS)
def test_curl_saves_a_stream_that_ffprobe_reads(service: Open, kind: str, tmp_path: Path) -> None:
    sound = tmp_path / f"sound.{kind}"
    asked = json.dumps({"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": kind})
    curl(service, "--fail", "--json", asked, "-o", sound, f"{service.served.url}/v1/audio/speech")
    stream = probed(sound)
    assert (stream["codec_name"], stream["channels"]) == (CODECS[kind], 1)
    assert stream["end"] == pytest.approx(service.samples / 24_000, abs=0.2)


@pytest.mark.needs("curl", "ffprobe")
@pytest.mark.parametrize("kind", CODECS)
def test_ffprobe_reads_a_document_from_its_url(service: Open, kind: str) -> None:
    answer = curl(service, "--fail", "--json", json.dumps({"text": TEXT}), f"{service.served.url}/v1/documents")
    url = f"{service.served.url}/v1/documents/{json.loads(answer)['id']}"
    sound, header = f"{url}/audio?format={kind}", f"Authorization: Bearer {service.key}\r\n"
    growing = probed("-headers", header, sound)  # while it grows, or just after
    eventually(lambda: json.loads(curl(service, url))["state"] == "completed", "the document is completed")
    whole = probed("-headers", header, sound)
    assert growing["codec_name"] == whole["codec_name"] == CODECS[kind]
    assert whole["end"] == pytest.approx(growing["end"], abs=0.01)


@pytest.mark.needs("curl")
def test_curl_sees_errors_and_heads(service: Open, tmp_path: Path) -> None:
    url = service.served.url
    status = ("-o", os.devnull, "-w", "%{http_code}")
    assert curl(service, *status, "--json", "{}", f"{url}/v1/audio/speech") == b"400"
    assert curl(service, *status, "-X", "PUT", f"{url}/v1/documents") == b"405"
    book = tmp_path / "book.json"
    book.write_text(json.dumps({"model": "tts-1", "voice": "alloy", "input": "a" * 2_000_000}))
    assert curl(service, *status, "--json", f"@{book}", f"{url}/v1/audio/speech") == b"413"
    assert curl(service, "--head", f"{url}/v1/audio/voices").startswith(b"HTTP/1.1 200")
