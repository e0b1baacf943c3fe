"""What clients of other services send and read: HEAD, lists, paths, numeric strings, nulls, names, methods, bodies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_app import Served, serving

from voxyard.service.auth.api_keys import add_key

ASKED: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "The harbour lay still."}
ORIGIN = "https://chat.example"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("compatibility"), engine={"samples": 2400}) as served:
        yield served


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    folder = tmp_path_factory.mktemp("keyed")
    key, options = add_key(folder / "keys.yaml", "azure"), {"keys": folder / "keys.yaml", "allowed_origins": ORIGIN}
    with serving(folder / "data", engine={"samples": 2400}, **options) as served:
        yield served, key


def speak(served: Served, **options: Any) -> httpx.Response:
    return httpx.post(f"{served.url}/v1/audio/speech", json={**ASKED, **options})


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/session", "/page/page.js", "/v1/models",
     "/v1/models/tts-1", "/v1/audio/models", "/v1/audio/voices", "/v1/workers", "/v1/documents"],
)  # fmt: skip
def test_head_has_the_headers_of_get_and_no_body(served: Served, path: str) -> None:
    if path == "/readyz":
        speak(served)  # which has a worker load its model
    got, head = httpx.get(served.url + path), httpx.head(served.url + path)
    assert (head.status_code, head.content) == (got.status_code, b"") == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":  # counts the requests
        assert head.headers.get("content-length") == got.headers.get("content-length")


@pytest.mark.parametrize("path", ["/v1/documents/" + "0" * 32, "/v1/models/none", "/v1/nothing"])
def test_head_of_what_is_not_there_is_404(served: Served, path: str) -> None:
    assert httpx.head(served.url + path).status_code == 404


def test_head_of_streams_answers_at_once_and_begins_nothing(served: Served) -> None:
    id = httpx.post(f"{served.url}/v1/documents", json={"text": ASKED["input"]}).json()["id"]
    events = httpx.head(f"{served.url}/v1/documents/{id}/events")
    assert (events.status_code, events.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    audio = httpx.head(f"{served.url}/v1/documents/{id}/audio?format=mp3")
    assert (audio.status_code, audio.headers["content-type"]) == (200, "audio/mpeg")


def test_the_api_is_described_without_head(served: Served) -> None:
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    assert "get" in paths["/v1/models"]
    assert not any("head" in operations for operations in paths.values())


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/documents", "GET, HEAD, POST"),
        ("PATCH", "/v1/documents/" + "0" * 32, "DELETE, GET, HEAD"),
        ("GET", "/v1/audio/speech", "POST"),
        ("PUT", "/v1/audio/voices", "GET, HEAD, POST"),
        ("PUT", "/session", "DELETE, GET, HEAD, POST"),
        ("POST", "/docs", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("POST", "/page/page.js", "GET, HEAD"),
    ],
)
def test_405_names_all_methods_of_the_path(served: Served, method: str, path: str, allowed: str) -> None:
    answer = httpx.request(method, served.url + path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(("given", "same"), [("1", 1.0), ("1.0", 1), ("2", 2.0), ("0.5", 0.5), (None, 1.0)])
def test_speed_may_be_a_numeric_string(served: Served, given: str | None, same: float) -> None:
    answer = speak(served, speed=given, response_format="pcm")
    assert answer.status_code == 200
    assert answer.content == speak(served, speed=same, response_format="pcm").content


def test_null_is_as_if_it_were_missing(served: Served) -> None:
    nulls = dict.fromkeys(("response_format", "speed", "stream_format", "instructions", "seed", "user"))
    answer = speak(served, **nulls)
    assert (answer.status_code, answer.content) == (200, speak(served).content)
    missing = speak(served, input=None)
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "input")
    options = dict.fromkeys(("title", "voice", "seed", "language", "on_failure", "webhook"))
    document = httpx.post(f"{served.url}/v1/documents", json={"text": "The harbour.", **options})
    assert (document.status_code, document.json()["on_failure"]) == (202, "fail")


def test_a_misspelt_field_is_an_error_but_for_openais_own_request(served: Served) -> None:
    assert speak(served, sed=5).status_code == 200
    path = f"{served.url}/v1/documents"
    id = httpx.post(path, json={"text": ASKED["input"]}).json()["id"]
    answers = [
        httpx.post(path, json={"text": "One.", "sed": 5}),
        httpx.post(path, data={"text": "One.", "sed": "5"}, files={"file": ("a.txt", b"")}),
        httpx.post(f"{path}/{id}/chunks/0/redo", json={"sed": 5}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "sed")
        assert "sed: there is no such field" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/audio/speech",  # open-webui/open-webui#126
        "/v1/v1/audio/speech",  # speaches-ai/speaches#613
        "//v1/audio/speech/",
        "/v1//audio/speech",
        "/audio/speech/",  # BassGaming/customtts#6
    ],
)
def test_a_base_url_with_a_slash_too_many_or_another_version_part_is_answered(served: Served, path: str) -> None:
    answer = httpx.post(served.url + path, json=ASKED)
    assert (answer.status_code, answer.content) == (200, speak(served).content)
    listed = path.replace("speech", "voices")
    assert httpx.get(served.url + listed).json() == httpx.get(f"{served.url}/v1/audio/voices").json()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"response_format": "WAV"}, {"response_format": "wav"}),  # remsky/Kokoro-FastAPI#94
        ({"response_format": " Opus"}, {"response_format": "opus"}),
        ({"stream_format": "SSE"}, {"stream_format": "sse"}),
        ({"voice": "Shimmer"}, {"voice": "shimmer"}),  # sfortis/openai_tts#1
        ({"voice": {"id": "ALLOY "}}, {"voice": "alloy"}),
        ({"voice": "V2/EN_speaker_3"}, {"voice": "v2/en_speaker_3"}),  # mbailey/voicemode#340
        ({"language": "English"}, {"language": "en"}),  # vllm-project/recipes#554
        ({"language": "Auto"}, {}),
    ],
)
def test_names_may_be_written_as_other_services_have_them(
    served: Served, written: dict[str, Any], meant: dict[str, Any]
) -> None:
    answer, same = speak(served, **written), speak(served, **meant)
    assert (answer.status_code, answer.headers["content-type"]) == (200, same.headers["content-type"])
    assert len(answer.content) == len(same.content)  # the pages of Ogg have a number of their own


@pytest.mark.parametrize(
    ("format", "stream", "whole"),
    [
        ("wav", False, True),  # pollinations/pollinations#12061
        ("WAV", "False", True),
        ("flac", False, True),
        ("wav", True, False),
        ("wav", "yes", False),
        ("wav", None, False),
        ("flac", None, False),
    ],
)
def test_without_streaming_the_header_has_the_length(served: Served, format: str, stream: Any, whole: bool) -> None:
    asked = {"speed": 1.5, "input": "One. Two. " * 20}
    answer = speak(served, stream=stream, response_format=format, **asked)
    pcm, content = speak(served, response_format="pcm", **asked).content, answer.content
    if format == "flac":
        assert int.from_bytes(content[21:26]) & (1 << 36) - 1 == (len(pcm) // 2 if whole else 0)
    else:
        assert content[44:] == pcm
        told = [int.from_bytes(content[at : at + 4], "little") for at in (4, 40)]
        assert told == ([36 + len(pcm), len(pcm)] if whole else [0xFFFFFFFF] * 2)
    assert answer.headers["content-type"] == f"audio/{format.lower()}"


def test_events_are_a_stream_all_the_same(served: Served) -> None:
    answer = speak(served, stream=False, stream_format="sse", response_format="wav")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert b"speech.audio.done" in answer.content


def test_documents_take_the_same_spellings(served: Served) -> None:
    path, asked = f"{served.url}/v1/documents", {"voice": "Nova", "language": "English"}
    answers = [
        httpx.post(path, json={"text": ASKED["input"], **asked}),
        httpx.post(path, data=asked, files={"file": ("a.txt", b"The harbour lay still.")}),
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    script = httpx.post(f"{served.url}/v1/audio/script", json={"text": ASKED["input"], **asked})
    assert script.status_code == 200
    of = f"{path}/{answers[0].json()['id']}"
    assert httpx.get(f"{of}/audio?format=MP3").headers["content-type"] == "audio/mpeg"
    told = httpx.get(f"{of}/subtitles?format=VTT&estimated=true")
    assert (told.status_code, told.text[:6]) == (200, "WEBVTT")


@pytest.mark.parametrize(
    ("content", "headers", "status", "told"),
    [
        (b'{"a": 1}', {"Content-Type": "text/plain"}, 400, "unsupported Content-Type text/plain: send JSON"),
        (b"input=Hi", {"Content-Type": "application/x-www-form-urlencoded"}, 400, "application/json"),  # curl's default
        (b'{"a": 1}', {}, 400, "unsupported Content-Type (none)"),
        (b"[]", {"Content-Type": "application/json"}, 400, "expected a JSON object"),
        (b'{"input": "caf\xe9"}', {"Content-Type": "application/json"}, 400, "byte 14 is no UTF-8"),
        (b'{"seed": %s}' % (b"9" * 5000), {"Content-Type": "application/json"}, 400, "invalid JSON body: Exceeds"),
        (b'{"input": "a\\ud83d", "text": "a\\ud83d"}', {"Content-Type": "application/json"}, 400, "half a character"),
        (b'{"voice": "\\ud83d"}', {"Content-Type": "application/json"}, 400, "expected the name of a voice"),
        (b"\x1f\x8b", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415, "compressed (gzip)"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_what_to_send(
    served: Served, content: bytes, headers: dict[str, str], status: int, told: str
) -> None:
    for path in ("/v1/audio/speech", "/v1/audio/script"):
        if "voice" not in told or path.endswith("speech"):
            answer = httpx.post(served.url + path, content=content, headers=headers)
            assert answer.status_code == status
            assert told in answer.json()["error"]["message"]
            assert "constrained" not in answer.text


def test_a_charset_in_content_encoding_is_no_compression(served: Served) -> None:
    answer = httpx.post(f"{served.url}/v1/audio/speech", json=ASKED, headers={"Content-Encoding": "utf-8"})
    assert answer.status_code == 200


def test_ogg_is_another_name_of_opus(served: Served) -> None:
    answer = speak(served, response_format="ogg")
    assert answer.headers["content-type"] == speak(served, response_format="opus").headers["content-type"]
    assert answer.content[:4] == b"OggS"


def test_the_list_of_voices_is_the_one_that_open_webui_reads(served: Served) -> None:
    voices = {voice["id"]: voice for voice in httpx.get(f"{served.url}/v1/audio/voices").json()["voices"]}
    own = {"uploaded": False, "description": None, "mixed": None}
    assert voices["v2/en_speaker_3"] == {
        "id": "v2/en_speaker_3", "name": "Tone 3 (male)", "language": "en", "gender": "male", "alias_of": None, **own,
    }  # fmt: skip
    assert voices["fable"] == {
        "id": "fable", "name": "Fable: Tone 3 (male)", "language": "en", "gender": "male",
        "alias_of": "v2/en_speaker_3", **own,
    }  # fmt: skip
    assert (voices["announcer"]["language"], voices["announcer"]["gender"]) == (None, None)


def test_the_list_of_audio_models_is_the_one_that_open_webui_reads(served: Served) -> None:
    models = httpx.get(f"{served.url}/v1/audio/models").json()["models"]
    assert [model["id"] for model in models] == ["tones", "gpt-4o-mini-tts", "tts-1", "tts-1-hd"]
    assert all(model["name"] == model["id"] for model in models)
    assert speak(served, model="gpt-4o-mini-tts-2025-12-15").status_code == 200
    assert httpx.get(f"{served.url}/v1/models/tts-1-1106").json()["id"] == "tts-1-1106"


def test_open_webuis_requests_are_answered(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.yaml", "webui")
    with serving(tmp_path / "data", engine={"samples": 2400}, keys=tmp_path / "keys.yaml") as served:
        spoken = httpx.post(
            f"{served.url}/v1/audio/speech",
            json={"input": ASKED["input"], "voice": "shimmer", "model": "tts-1-hd", "stream": None},
            headers={
                "Authorization": f"Bearer {key}", "X-OpenWebUI-User-Name": "ann", "X-OpenWebUI-User-Id": "7",
                "X-OpenWebUI-User-Email": "ann@example.org", "X-OpenWebUI-User-Role": "user",
            },
        )  # fmt: skip
        assert (spoken.status_code, spoken.headers["content-type"]) == (200, "audio/mpeg")
        for path in ("models", "voices"):  # it sends no key here, and then offers OpenAI's names
            assert httpx.get(f"{served.url}/v1/audio/{path}").status_code == 401
        for voice in ("alloy", "echo", "fable", "onyx", "nova", "shimmer"):
            asked = {"input": "Hi.", "voice": voice, "model": "tts-1"}
            answer = httpx.post(f"{served.url}/v1/audio/speech", json=asked, headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"api-key": "KEY"}, 200),  # microsoft-foundry/foundry-samples#248
        ({"X-API-Key": "KEY"}, 200),
        ({"xi-api-key": "KEY"}, 200),  # OpenVoiceOS/ovos-tts-server#87
        ({"Authorization": "Bearer", "api-key": "KEY"}, 200),
        ({"Authorization": "Basic YTpi", "api-key": "KEY"}, 200),  # of a gateway
        ({"Authorization": "Bearer KEY", "api-key": "none"}, 200),
        ({"Authorization": "Bearer none", "api-key": "KEY"}, 401),
        ({"api-key": "none"}, 401),
        ({"api-key": ""}, 401),
        ({"Authorization": "Basic YTpi"}, 401),
    ],
)
def test_a_key_may_come_in_the_headers_of_other_services(
    keyed: tuple[Served, str], headers: dict[str, str], status: int
) -> None:
    served, key = keyed
    path = f"{served.url}/openai/deployments/tts-1/audio/speech?api-version=2025-03-01-preview"
    sent = {name: value.replace("KEY", key) for name, value in headers.items()}
    answer = httpx.post(path, json=ASKED, headers=sent)
    assert (answer.status_code, "www-authenticate" in answer.headers) == (status, status == 401)
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ",".join(headers).lower()}
    assert httpx.options(path, headers={"Origin": ORIGIN, **asked}).status_code == 200
