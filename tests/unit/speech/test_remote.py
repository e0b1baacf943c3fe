"""Servers of OpenAI's speech API as workers: voices, rates, errors, keys, and servers that go away and come back."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import sound
from eventually import PATIENCE, eventually
from service_app import serving
from speech_server import Planned, SpeechServerPlan, speech_server, tone

from voxyard.bark.config import BarkConfig
from voxyard.cli.engines import choose_engine
from voxyard.service.auth.api_keys import add_key
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.open_pool import SERVERS, open_pool
from voxyard.speech.pool.job import Outcome
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.remote import worker
from voxyard.speech.remote.client import Answer, SpeechServer, decoded, read_key, read_urls
from voxyard.speech.remote.frontend import frontend
from voxyard.speech.remote.worker import RemoteWorker, devices, retry_after
from voxyard.speech.requests import SAMPLE_RATE, Request

KEY = "sk-secret-1234"


def settings(*urls: str, **further: object) -> dict[str, Any]:
    return {"base_urls": list(urls), "timeout": PATIENCE, "requests": 2, **further}


def spoken(_: dict[str, Any]) -> Planned:
    return Planned(body=tone(0.5, 24_000))


@contextmanager
def pool(*urls: str, **further: object) -> Iterator[Pool]:
    engine = frontend(settings(*urls, **further)).engine
    limits = PoolLimits(warm_workers=len(urls), backoff=0.02, max_backoff=0.05)
    launch = partial(RemoteWorker, doubts={})
    with Pool(engine, devices(engine), limits=limits, launch=launch, heartbeat_seconds=0.1) as opened:
        yield opened


def outcomes(opened: Pool, count: int = 1, **options: Any) -> list[Outcome]:
    job = opened.submit([Request(number, f"Text {number}.", **options) for number in range(count)])
    assert job.wait(PATIENCE)
    return list(job.outcomes())


@pytest.mark.parametrize(
    ("voices", "listed", "language"),
    [
        (b'{"voices": ["af_heart", "bm_lewis"]}', ("af_heart", "bm_lewis"), None),
        (b'{"voices": [{"id": "af_heart", "name": "Heart"}, {"name": "bm"}]}', ("af_heart", "bm"), None),
        (b'{"voices": [{"id": "af_heart", "language": "en-US"}, {"id": "x"}]}', ("af_heart", "x"), "en"),
        (b'{"voices": ["af_heart"], "uploaded_voices": []}', ("af_heart",), None),
    ],
)
def test_the_voices_are_those_that_the_server_lists(
    voices: bytes, listed: tuple[str, ...], language: str | None
) -> None:
    with speech_server(SpeechServerPlan(spoken, voices=Planned(body=voices))) as url:
        found = frontend(settings(url))
    assert (found.voices(), found.language("af_heart"), found.default_voice(None)) == (listed, language, "af_heart")
    assert (found.engine.name, found.has_voice("af_heart"), found.has_voice("alloy")) == ("kokoro", True, False)
    with pytest.raises(SpeechError, match="the servers have no voice 'af_hart'; did you mean af_heart"):
        found.check_voice("af_hart")
    assert found.notes == ("kokoro speaks on another server: one seed gives one sound only where these keep it",)


def test_where_none_are_listed_any_name_goes_to_the_server() -> None:
    with speech_server(SpeechServerPlan(spoken, models=Planned(404))) as url:
        found = frontend(settings(url))
    assert (found.engine.name, found.default_voice("de"), found.has_voice("someone")) == ("tts-1", "alloy", True)


def test_several_servers_have_the_voices_in_common() -> None:
    plans = [
        SpeechServerPlan(spoken, voices=Planned(body=json.dumps({"voices": voices}).encode()))
        for voices in (["a", "b"], ["b", "c"], ["c"])
    ]
    with speech_server(plans[0]) as one, speech_server(plans[1]) as two, speech_server(plans[2]) as three:
        assert frontend(settings(one, two)).voices() == ("b",)
        with pytest.raises(SpeechError, match="no voice in common"):
            frontend(settings(one, three))


def test_a_server_that_is_away_at_the_start_is_named_and_another_will_do() -> None:
    plan = SpeechServerPlan(spoken)
    with speech_server(plan) as gone:
        pass
    with pytest.raises(SpeechError, match=rf"no server can be used: {gone} does not answer"):
        frontend(settings(gone))
    with speech_server(plan) as there:
        assert frontend(settings(gone, there)).engine.name == "kokoro"


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (44_100, 1), (16_000, 2), (48_000, 1)])
def test_sound_of_any_rate_is_brought_to_ours(rate: int, channels: int) -> None:
    answer = Planned(body=tone(0.5, rate, channels=channels))
    with speech_server(SpeechServerPlan(lambda _: answer)) as url, pool(url) as opened:
        (outcome,) = outcomes(opened)
    assert outcome.result is not None
    audio = outcome.result.audio
    assert outcome.result.sample_rate == SAMPLE_RATE
    assert len(audio) == pytest.approx(0.5 * SAMPLE_RATE, abs=40)
    spectrum = np.abs(np.fft.rfft(audio))
    assert np.argmax(spectrum) * SAMPLE_RATE / len(audio) == pytest.approx(440, abs=3)
    assert np.abs(audio).max() == pytest.approx(0.5, abs=0.05)


def test_sound_of_our_rate_keeps_every_sample() -> None:
    file = tone(0.25, SAMPLE_RATE)
    assert np.array_equal(np.frombuffer(file[44:], "<i2").astype(np.float32) / 2**15, decoded(file))


def test_a_request_says_what_every_server_knows_and_a_seed_where_there_is_one() -> None:
    plan = SpeechServerPlan(spoken)
    with speech_server(plan) as url, pool(url) as opened:
        outcomes(opened, voice="af_heart")
        outcomes(opened, voice="af_heart", seed=7)
    assert plan.asked[0] == {"model": "kokoro", "input": "Text 0.", "voice": "af_heart", "response_format": "wav"}
    assert plan.asked[1]["seed"] == 7


def test_chunks_go_to_every_server_some_at_a_time() -> None:
    both = threading.Barrier(4)  # two requests at each of two servers, at the same time
    waiting = Planned(body=tone(0.1, 24_000), wait=lambda: both.wait(PATIENCE))
    plans = [SpeechServerPlan(lambda _: waiting), SpeechServerPlan(lambda _: waiting)]
    with speech_server(plans[0]) as one, speech_server(plans[1]) as two, pool(one, two) as opened:
        eventually(lambda: all(each.state == "ready" for each in opened.workers()), "both are ready")
        assert all(each.failure is None for each in outcomes(opened, 12))
    assert min(len(plan.asked) for plan in plans) > 0


@pytest.mark.parametrize(
    ("answers", "tries", "reason"),
    [
        ([Planned(429, headers={"Retry-After": "0"}), Planned(503, headers={"Retry-After": "0"})], 3, None),
        ([Planned(400, b'{"error": {"message": "no such voice"}}')] * 9, 1, "status 400: no such voice"),
        ([Planned(422, b'{"detail": [{"msg": "too long"}]}')] * 9, 1, "status 422"),
        ([Planned(200, b"no sound")] * 9, 2, "is no audio file that can be read"),
    ],
)
def test_errors_are_tried_again_or_told(answers: list[Planned], tries: int, reason: str | None) -> None:
    left = list(answers)
    plan = SpeechServerPlan(lambda _: left.pop(0) if left else spoken({}))
    with speech_server(plan) as url, pool(url) as opened:
        (outcome,) = outcomes(opened)
    assert len(plan.asked) == tries
    assert (outcome.failure is None) == (reason is None)
    if reason is not None and outcome.failure is not None:
        assert reason in outcome.failure.reason
        assert outcome.failure.refused == (answers[0].status in (400, 422))


BAD = {
    "an error of its own": Planned(500, b'{"detail": "CUDA error"}'),
    "a gateway": Planned(502),
    "a cut": Planned(200, tone(0.5, 24_000), broken=True),
    "a revoked key": Planned(401),
    "too much to do": Planned(429, headers={"Retry-After": "2"}),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_server_that_speaks_nothing_is_away_until_it_speaks_again(
    bad: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.01)
    monkeypatch.setattr(worker, "BUSY_SECONDS", 0.0)
    plan, seen = SpeechServerPlan(lambda _: bad), set[str]()
    with speech_server(plan) as url, pool(url) as opened:
        job = opened.submit([Request(number, f"Text {number}.") for number in range(30)])
        eventually(lambda: opened.waiting, "it counts as away")
        before = opened.workers()[0].processes

        def tried_often() -> bool:
            (state,) = opened.workers()
            seen.add(state.state)
            return state.processes > before + 4

        eventually(tried_often, "it is tried again, its /models being fine")
        assert seen <= {"waiting", "starting"}
        assert job.progress.done == 0
        assert f"status {bad.status}" in (said := eventually(lambda: opened.waiting)) or "broke off" in said
        plan.speak = spoken
        assert job.wait(PATIENCE)
        assert [outcome.failure for outcome in job.outcomes()] == [None] * 30


@pytest.mark.parametrize("bad", [BAD["an error of its own"], BAD["a cut"]], ids=["error", "cut"])
def test_a_chunk_that_fails_where_others_are_spoken_is_at_fault_itself(
    bad: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.01)
    plan = SpeechServerPlan(lambda body: bad if body["input"] == "Text 1." else spoken(body))
    with speech_server(plan) as url, pool(url) as opened:
        first, second, third = outcomes(opened, 3)
        assert opened.workers()[0].processes == 1
    assert (first.failure, third.failure) == (None, None)
    assert second.failure is not None
    assert "status 500: CUDA error" in second.failure.reason or "broke off: IncompleteRead" in second.failure.reason
    assert sum(body["input"] == "Text 1." for body in plan.asked) == 2 * worker.FAULTS


def test_a_chunk_that_takes_its_server_away_each_time_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.01)
    down = [0]

    def speak(body: dict[str, Any]) -> Planned:
        if body["input"] == "Text 1.":
            down[0] = 2  # answers, until it has started again
            return BAD["a cut"]
        down[0] -= 1
        return BAD["a gateway"] if down[0] >= 0 else spoken(body)

    with speech_server(SpeechServerPlan(speak)) as url, pool(url) as opened:
        job = opened.submit([Request(number, f"Text {number}.") for number in range(8)])
        assert job.wait(PATIENCE)
        assert [each.index for each in job.outcomes() if each.failure is not None] == [1]


def test_a_server_that_dies_while_there_is_nothing_to_speak_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.05)
    plan = SpeechServerPlan(spoken)
    with speech_server(plan) as url:
        plan.port = int(url.rpartition(":")[2].partition("/")[0])
        opened = pool(url)
        running = opened.__enter__()
        eventually(lambda: running.workers()[0].state == "ready", "it is ready")
    try:
        assert "does not answer" in eventually(lambda: running.waiting, "it counts as away")
        with speech_server(plan):
            eventually(lambda: running.workers()[0].state == "ready", "it is found again")
    finally:
        opened.__exit__(None, None, None)


def test_a_server_that_does_not_answer_in_time_fails_the_chunk_and_no_more() -> None:
    until, plan = threading.Event(), SpeechServerPlan(spoken)
    plan.speak = lambda body: Planned(wait=lambda: until.wait(PATIENCE)) if body["input"] == "Text 0." else spoken({})
    with speech_server(plan) as url, pool(url, timeout=2.0) as opened:
        first, second = outcomes(opened, 2)
        until.set()
    assert first.failure is not None
    assert "did not answer within 2 s" in first.failure.reason
    assert second.failure is None


def test_a_server_goes_away_and_comes_back_and_no_chunk_is_lost() -> None:
    plan = SpeechServerPlan(spoken)
    with speech_server(plan) as url:
        plan.port = int(url.rpartition(":")[2].partition("/")[0])
        opened = pool(url)
        running = opened.__enter__()
        assert all(each.failure is None for each in outcomes(running, 2))
    try:
        job = running.submit([Request(number, "Text.") for number in range(3)])
        eventually(lambda: running.workers()[0].state == "waiting", "it is waited for")
        assert "does not answer" in (running.waiting or "")
        with speech_server(plan):
            assert job.wait(PATIENCE)
        assert [outcome.failure for outcome in job.outcomes()] == [None] * 3
    finally:
        opened.__exit__(None, None, None)


def test_a_chunk_for_which_a_server_never_has_time_fails_while_it_speaks_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in (("LONGEST_WAIT", 0.01), ("BUSY_SECONDS", 0.0), ("BUSY_PATIENCE", 0.3)):
        monkeypatch.setattr(worker, name, seconds)
    never = Planned(429, b'{"error": {"message": "over your tokens"}}', headers={"Retry-After": "1"})
    plan = SpeechServerPlan(lambda body: never if body["input"] == "Text 0." else spoken(body))
    with speech_server(plan) as url, pool(url) as opened:
        first, *others = outcomes(opened, 3)
    assert first.failure is not None
    assert "has had no time for it for 0.3 s, while it spoke others" in first.failure.reason
    assert not first.failure.refused
    assert all(each.failure is None for each in others)


def test_a_server_without_work_is_looked_at_whenever_workers_are_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--idle-release`: its worker holds no memory that another program could use."""
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.05)
    plan = SpeechServerPlan(spoken)
    with speech_server(plan) as url:
        engine = frontend(settings(url)).engine
        with open_pool(engine, SpeechSection(), SERVERS, workload="bark", warm="all", idle_release=0.01) as opened:
            assert outcomes(opened)[0].failure is None
            plan.models = Planned(503)
            eventually(lambda: opened.waiting, "it counts as away")


def test_with_two_servers_one_that_goes_away_loses_nothing() -> None:
    plans = [SpeechServerPlan(spoken), SpeechServerPlan(spoken)]
    with speech_server(plans[0]) as one, speech_server(plans[1]) as two:
        with pool(one, two) as opened:
            eventually(lambda: all(each.state == "ready" for each in opened.workers()), "both are ready")
            plans[1].speak = lambda _: Planned(503, headers={"Retry-After": "0"})  # has too much to do, again and again
            plans[1].models = Planned(503)
            assert all(each.failure is None for each in outcomes(opened, 12))
        assert len(plans[0].asked) >= 12


def test_a_chunk_that_nobody_wants_any_more_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LONGEST_WAIT", PATIENCE)
    until, both = threading.Event(), threading.Barrier(2)  # busy alone, the server would count as away
    later = Planned(429, headers={"Retry-After": str(PATIENCE)}, wait=lambda: both.wait(PATIENCE))

    def speak_another() -> None:
        both.wait(PATIENCE)
        until.wait(PATIENCE)

    def pause(self: worker.RemoteWorker, lease: int, seconds: float) -> None:
        waits.set()
        really_pause(self, lease, seconds)

    waits, really_pause = threading.Event(), worker.RemoteWorker._pause
    monkeypatch.setattr(worker.RemoteWorker, "_pause", pause)
    slow = Planned(body=tone(0.1, 24_000), wait=speak_another)
    plan = SpeechServerPlan(lambda body: later if body["input"] == "Text 0." else slow)
    with speech_server(plan) as url, pool(url) as opened:
        job = opened.submit([Request(number, f"Text {number}.") for number in range(2)])
        assert waits.wait(PATIENCE)  # the answer of the first is known while the other one is spoken
        job.cancel()
        until.set()
        eventually(lambda: opened.workers()[0].state == "ready", "its place is free")
        assert len(plan.asked) == 2


def test_the_key_is_sent_and_stands_in_no_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    plan = SpeechServerPlan(lambda _: Planned(500, f'{{"detail": "bad key {KEY}"}}'.encode()))
    with speech_server(plan) as url:
        with pool(url, key_file=str(file)) as opened:
            opened.submit([Request(0, "Text.")])
            assert "status 500: bad key …" in eventually(lambda: opened.waiting, "it counts as away")
            assert set(plan.keys) == {f"Bearer {KEY}"}
            assert KEY not in repr(SpeechServer(url, key=KEY))
        plan.models = Planned(401, f"Incorrect key {KEY}".encode())
        with pytest.raises(SpeechError, match="refuses the key \\(status 401\\): see --api-key-file") as refused:
            frontend(settings(url, key_file=str(file)))
        assert KEY not in str(refused.value)
    assert KEY not in caplog.text
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-variable")
    assert (read_key(None), read_key(str(file))) == ("from-the-variable", KEY)
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(SpeechError, match="cannot be read"):
            read_key(str(wrong))
    file.write_text("two\nlines")
    with pytest.raises(SpeechError, match="expected one line"):
        read_key(str(file))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("3", 3.0), ("0", 0.0), ("-5", 0.0), ("9999", 60.0), ("", 4.0), ("soon", 4.0), ("nan", 4.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 7.0), ("Thursday, 01-Jan-70 00:00:10 GMT", 7.0),
        ("Thu Jan  1 00:00:10 1970", 7.0), ("Thu, 99 Foo 2026 25:61:00 GMT", 4.0), ("9" * 400, 4.0),
    ],
)  # fmt: skip
def test_what_the_server_says_to_wait_is_waited(said: str, seconds: float) -> None:
    assert retry_after(Answer(429, {"retry-after": said}, b""), 2, lambda: 3.0) == seconds


def test_urls_are_read_and_wrong_ones_refused() -> None:
    assert read_urls("http://a:8880, https://b/api/v1/") == ("http://a:8880/v1", "https://b/api/v1")
    for wrong, said in (
        (None, "add --base-url URL"), ("a:8880", "expected URLs such as"), ("ftp://a", "expected URLs such as"),
        ("http://a:x", "expected URLs such as"), ("http://me:pw@a", "put the key into a file"),
        ("http://a,http://a/v1", "names http://a/v1 twice"),
    ):  # fmt: skip
        with pytest.raises(SpeechError, match=said) as refused:
            read_urls(wrong)
        assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("speech", "said"),
    [
        ({"engine": "openai"}, "add --base-url URL"),
        ({"engine": "openai", "base_url": "http://a", "gpus": "0"}, "the gpus has no effect with --engine openai"),
        ({"engine": "openai", "base_url": "http://a", "pool": "ray"}, "the pool has no effect with --engine openai"),
        ({"engine": "openai", "base_url": "http://a", "max_parallel_tts_workers": 2}, "workers has no effect"),
        ({"engine": "espeak", "base_url": "http://a"}, "the base_url is a setting of --engine openai, and espeak"),
        ({"engine": "bark", "server_requests": 2}, "the server_requests is a setting of --engine openai, and bark"),
    ],
)
def test_settings_that_do_not_fit_are_refused(speech: dict[str, Any], said: str) -> None:
    with pytest.raises(SpeechError, match=said):
        choose_engine(SpeechSection(**speech), BarkConfig(), {f"speech.{name}": f"the {name}" for name in speech})


def test_our_own_service_is_such_a_server(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.yaml", "near")
    (tmp_path / "key").write_text(key)
    with serving(tmp_path / "data", engine={"samples": 240}, keys=tmp_path / "keys.yaml") as served:
        url = f"{served.url}/v1"
        with pytest.raises(SpeechError, match="refuses the key"):
            frontend(settings(url))
        near = frontend(settings(url, key_file=str(tmp_path / "key")))
        assert {"v2/en_speaker_6", "alloy"} <= set(near.voices())
        assert near.language("v2/de_speaker_1") == "de"
        with pool(url, key_file=str(tmp_path / "key")) as opened:
            (outcome,) = outcomes(opened, voice="alloy", seed=3)
            unknown = outcomes(opened, voice="nobody")[0].failure
        far = sound(Request(0, "Text zero.", seed=3), 240)
    assert outcome.result is not None
    assert len(outcome.result.audio) == len(far)
    assert np.abs(outcome.result.audio[200:-200] - far[200:-200]).max() < 1e-4  # but for the far end's fades
    assert unknown is not None
    assert unknown.refused
    assert "no voice 'nobody'" in unknown.reason


def test_the_settings_open_a_pool_of_the_servers() -> None:
    with speech_server(SpeechServerPlan(spoken)) as url:
        section = SpeechSection(engine="openai", base_url=url, server_requests=3)
        chosen = choose_engine(section, BarkConfig(), {})
        assert chosen.device == SERVERS
        with open_pool(frontend(chosen.settings).engine, section, chosen.device, workload="bark", warm="all") as opened:
            ready = eventually(lambda: opened.workers()[0].ready, "it is ready")
            assert (opened.workers()[0].device, ready.batch_limit, ready.facts["model"]) == (url, 3, "kokoro")
            assert [outcome.failure for outcome in outcomes(opened)] == [None]


def test_a_url_with_another_path_is_refused_at_the_start() -> None:
    plan = SpeechServerPlan(lambda _: Planned(404), models=Planned(404))
    with (
        speech_server(plan) as url,
        pytest.raises(SpeechError, match=r"has no /models, .* \(status 404\): is the URL's path right\?"),
    ):
        frontend(settings(url.replace("/v1", "/v2")))
