"""`voxyard serve` with the real engine on a tiny model: stopped and killed in mid-document."""

from __future__ import annotations

import signal
from collections.abc import Callable

from eventually import eventually
from served_bark import STORY, ServedBark, finished


def test_a_stop_in_mid_document_changes_no_byte_of_it(start: Callable[[], ServedBark]) -> None:
    service = start()
    body = {"text": STORY, "seed": 7}
    expected = finished(service.client, service.client.post("/v1/documents", json=body).json()["id"])
    stopped = service.client.post("/v1/documents", json=body).json()["id"]
    eventually(lambda: service.client.get(f"/v1/documents/{stopped}").json()["progress"]["done"] >= 2)

    assert service.end(signal.SIGTERM) == 0

    eventually(lambda: any("stopped" in line for line in service.noted))
    assert any("all chunks in progress finished" in line for line in service.noted)
    assert finished(start().client, stopped) == expected


def test_a_kill_in_mid_document_changes_no_byte_of_it(start: Callable[[], ServedBark]) -> None:
    service = start()
    body = {"text": STORY, "seed": 7}
    expected = finished(service.client, service.client.post("/v1/documents", json=body).json()["id"])
    killed = service.client.post("/v1/documents", json=body).json()["id"]

    eventually(lambda: service.client.get(f"/v1/documents/{killed}").json()["progress"]["done"] >= 2)
    service.end(signal.SIGKILL)
    again = start()
    left = again.client.get(f"/v1/documents/{killed}").json()["progress"]["done"]

    assert left >= 2
    assert finished(again.client, killed) == expected
    assert again.end(signal.SIGTERM) == 0
