"""Usage of keys: counted as the pool speaks, stored by day, and told to whom it concerns."""

from __future__ import annotations

import json
import time
from datetime import date, timedelta
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from documents import OwningStore, new_document
from eventually import eventually
from free_ports import free_port
from live_service import live
from service_app import running

from voxyard.cli.keys import keys as keys_command
from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key, read_keys
from voxyard.service.documents.store import Store
from voxyard.service.errors import NoRoomError, NotFoundError, ServiceError
from voxyard.service.state import AppState
from voxyard.service.usage import KEPT_DAYS, Amounts, UsageMeter, UsageTable

TEXT = "It was late, and a bell rang."
DAY = date(2026, 11, 28)
NOON = 1_795_867_200.0  # of that day


def spoken(address: str, key: str | None, text: str = TEXT) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    body = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
    assert httpx.post(f"{address}/v1/audio/speech", json=body, headers=headers).status_code == 200


def usage(state: AppState, address: str, key: str | None = None, query: str = "") -> dict[str, dict[str, float]]:
    """Usage by key, of what is stored now."""
    state.store.meter.store()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    answer = httpx.get(f"{address}/v1/usage{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return {each["key"]: each for each in answer.json()["usage"]}


def test_each_key_sees_its_own_and_an_admin_sees_all(tmp_path: Path) -> None:
    file, data = tmp_path / "keys.yaml", tmp_path / "data"
    anna, ben, boss = add_key(file, "anna"), add_key(file, "ben"), add_key(file, "boss", admin=True)
    assert read_keys(file)["boss"].admin
    before: dict[str, dict[str, float]] = {}
    for start in range(2):  # the second one finds what the first has stored
        with (
            running(data, engine={"samples": 240, "seconds": 0.05}, keys=file) as state,
            live(create_app(state), state.section) as address,
        ):
            spoken(address, anna)
            spoken(address, anna)
            spoken(address, ben)
            eventually(lambda: usage(state, address, boss)["ben"]["gpu_seconds"] > 0, "the time is counted")
            assert set(usage(state, address, anna)) == {"anna"}
            found = usage(state, address, boss)
            assert set(found) == {"anna", "ben"}
            assert found["anna"]["characters"] == 2 * found["ben"]["characters"] == 2 * (start + 1) * len(TEXT)
            assert found["ben"]["audio_seconds"] == pytest.approx((start + 1) * len(TEXT) * 240 / 24_000, rel=0.01)
            assert found["anna"]["gpu_seconds"] > 0
            for name, earlier in before.items():
                assert found[name]["gpu_seconds"] > earlier["gpu_seconds"]
            before = found


def test_chunks_that_share_a_worker_share_its_time(tmp_path: Path) -> None:
    with running(tmp_path, engine={"samples": 240, "seconds": 0.02}) as state:
        charged, began = list[tuple[str, float]](), time.monotonic()
        state.pool.meter(lambda key, _characters, _audio, gpu: charged.append((key, gpu)))
        with live(create_app(state), state.section) as address:
            spoken(address, None, " ".join(f"This is sentence {number} of a text." for number in range(20)))
        assert {key for key, _ in charged} == {""}
        assert 0.02 <= sum(gpu for _, gpu in charged) <= time.monotonic() - began


def test_documents_and_services_without_keys_are_counted(tmp_path: Path) -> None:
    with running(tmp_path, engine={"samples": 240}) as state, live(create_app(state), state.section) as address:
        httpx.post(f"{address}/v1/documents", json={"text": TEXT})
        eventually(lambda: usage(state, address).get("", {}).get("characters") == len(TEXT), "it is counted")
        assert usage(state, address, query="?days=1")[""]["characters"] == len(TEXT)
        for wrong in ("0", "401", "x", "1.5", "-1"):
            assert httpx.get(f"{address}/v1/usage", params={"days": wrong}).status_code == 400
        told = CliRunner().invoke(keys_command, ["usage", "--base-url", f"{address}/v1", "--json"])
        assert told.exit_code == 0, told.output
        assert json.loads(told.stdout)["usage"][0]["characters"] == len(TEXT)
        shown = CliRunner().invoke(keys_command, ["usage", "--base-url", address])
        assert f"(no key): {len(TEXT)} characters, 0." in shown.output
        assert " s of audio, " in shown.output
        assert " s of workers" in shown.output


def test_the_characters_are_those_of_the_text_that_was_sent(tmp_path: Path) -> None:
    """A payer counts what was sent: `25` is two characters, whatever words it is read as."""
    text = "It cost $25 in 1999."
    with running(tmp_path, engine={"samples": 240}) as state, live(create_app(state), state.section) as address:
        spoken(address, None, text)
        assert usage(state, address)[""]["characters"] == len(text)
        httpx.post(f"{address}/v1/documents", json={"text": text})
        eventually(lambda: usage(state, address)[""]["characters"] == 2 * len(text), "the document counts as much")


def test_a_chunk_that_is_stored_is_counted_whatever_happens_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UsageMeter, "store", lambda _: None)  # a service that is killed before it gets there
    with running(tmp_path, engine={"samples": 240, "seconds": 0.01}) as state:
        with live(create_app(state), state.section) as address:
            id = httpx.post(f"{address}/v1/documents", json={"text": TEXT}).json()["id"]
            eventually(lambda: state.store.document(id).state == "completed", "it is spoken")
        (found,) = state.store.usage.since(state.store.meter.today() - timedelta(1))
        assert found.amounts.characters == len(TEXT)
        assert found.amounts.audio_seconds > 0
        assert found.amounts.gpu_seconds >= 0.01


def test_a_chunk_is_counted_once_in_the_transaction_that_stores_it(tmp_path: Path) -> None:
    """A service that is killed after a chunk was spoken and before it is stored has not counted it."""
    store, new = OwningStore(tmp_path / "documents.sqlite"), new_document(1, owner="anna")

    def counted() -> tuple[int, float]:
        return sum(each.amounts.characters for each in store.usage.since(today)), sum(
            each.amounts.audio_seconds for each in store.usage.since(today)
        )

    today = store.meter.today() - timedelta(1)
    lengths = [chunk.end - chunk.start for chunk in new.chunks]
    store.accept(new)
    store.started(new.id, 1.0)
    assert counted() == (0, 0.0)
    for _ in range(2):  # the commit was not confirmed
        store.chunk_spoken(new.id, 0, 24_000)
    assert counted() == (lengths[0], 1.0)
    store.chunk_spoken(new.id, 1, 24_000, silenced=True, reason="why")
    store.chunk_failed(new.id, 2, "why")
    assert counted() == (lengths[0], 1.0)
    store.completed(new.id, 1.0)
    store.redo(new.id, 1, None, 5)
    store.claims.look_again()
    store.claims.take("redoing")
    redo = store.redos(new.id)[1]
    for _ in range(2):
        store.redo_ended(new.id, 1, redo, 12_000, None)
    assert counted() == (lengths[0] + lengths[1], 1.5)
    store.close()


def test_what_a_failed_transaction_was_to_count_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "documents.sqlite")
    store.meter.charge("anna", 7, 0.5, 0.25)
    with pytest.raises(NotFoundError):
        store.chunk_spoken("0" * 32, 0, 240)
    store.meter.store()
    (found,) = store.usage.since(store.meter.today() - timedelta(1))
    assert found.amounts == Amounts(7, 0.5, 0.25)
    store.close()


def test_what_is_no_service_is_told() -> None:
    for url, says in ((f"http://127.0.0.1:{free_port()}/v1", "does not answer"), ("ftp://x", "expected URLs")):
        told = CliRunner().invoke(keys_command, ["usage", "--base-url", url])
        assert told.exit_code != 0
        assert says in told.output
        assert "Traceback" not in told.output


@pytest.mark.parametrize("wrong", ["yes please", "1", "[]"])
def test_an_entry_says_true_or_false(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(f"anna:\n  sha256: {'0' * 64}\n  admin: {wrong}\n")
    with pytest.raises(ServiceError, match=r"anna: admin: found .*expected true or false"):
        read_keys(file)


def test_days_add_up_and_old_ones_go(tmp_path: Path) -> None:
    store = Store(tmp_path / "documents.sqlite")
    now = [NOON]
    meter = UsageMeter(store.usage, clock=lambda: now[0])
    assert meter.today() == DAY
    for _ in range(3):
        meter.charge("anna", 7, 0.5, 0.25)
        meter.store()
    (found,) = store.usage.since(DAY)
    assert (found.key, found.amounts) == ("anna", Amounts(21, 1.5, 0.75))
    now[0] += KEPT_DAYS * 86_400
    meter.charge("ben", 1, 0.0, 0.0)
    meter.store()
    assert {each.key for each in store.usage.since(DAY)} == {"anna", "ben"}
    now[0] += 86_400
    meter.charge("ben", 1, 0.0, 0.0)
    meter.store()
    assert [each.day - DAY for each in store.usage.since(DAY)] == [timedelta(KEPT_DAYS), timedelta(KEPT_DAYS + 1)]
    store.close()


def test_what_cannot_be_stored_now_is_stored_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "documents.sqlite")

    class Full(UsageTable):
        full = True

        def add(self, found: object) -> None:
            if self.full:
                raise NoRoomError("the disk is full")
            store.usage.add(found)  # type: ignore[arg-type]

    table = Full(store._database)
    meter = UsageMeter(table, clock=lambda: NOON)
    for _ in range(3):
        meter.charge("anna", 7, 0.5, 0.25)
        meter.store()
    assert [record.message for record in caplog.records if "usage" in record.message] == [
        "the usage of the keys cannot be stored now: the disk is full"
    ]
    table.full = False
    meter.start()
    meter.close()  # stores the rest
    assert store.usage.since(DAY)[0].amounts == Amounts(21, 1.5, 0.75)
    store.close()
