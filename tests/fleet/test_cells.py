"""Two hosts that share their documents in PostgreSQL and a bucket: one is killed, and the other goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
import yaml
from eventually import eventually
from tests.fleet import operators
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.cell_servers import S3_PORT, build_service, run_database, run_s3
from tests.fleet.operators import KEY, Operator, fake_image

NAMES = ("cpu-01", "cpu-02")
PASSWORD, S3_KEY = "a-password-for-tests", "a-secret-key-for-tests"
CLAIM_SECONDS, PATIENCE = 4, 180.0
TEXT = " ".join(f"This is sentence number {number} of a document that outlives its host." for number in range(60))


@dataclass
class Fleet:
    """Operator, hosts by name, and the shared servers' secrets."""

    operator: Operator
    hosts: dict[str, GpuHost]

    def client(self, name: str) -> httpx.Client:
        """Client of a host's speech service."""
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(base_url=f"http://{self.hosts[name].address}:8080", headers=headers, timeout=30)


@pytest.fixture(scope="module")
def fleet(
    engine: Engine, base_image: str, gpu_host: HostFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    fake_image(engine, base_image, "exporter")
    image = build_service(engine, base_image)
    with run_database(engine, base_image, PASSWORD) as database, run_s3(engine, image) as s3:
        endpoint = f"http://{s3}:{S3_PORT}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="eu", aws_access_key_id="tests", aws_secret_access_key=S3_KEY
        )
        client.create_bucket(Bucket="voices", CreateBucketConfiguration={"LocationConstraint": "eu"})
        hosts = gpu_host.several(*(HostSpec(name, gpus=[], toolkit=False) for name in NAMES))
        bark = {
            "weights": "weights", "stop_seconds": 20, "store": f"postgresql://voxyard@{database}/voxyard",
            "shelf": "s3://voices/lab",
            "settings": {"service": {"claim_seconds": CLAIM_SECONDS}, "speech": {"max_parallel_tts_workers": 1}},
        }  # fmt: skip
        entries = {
            name: operators.entry(each, roles=["bark"], gpus=0, bark=dict(bark))
            for name, each in zip(NAMES, hosts, strict=True)
        }
        inventory = operators.write_fleet(tmp_path_factory.mktemp("operator"), entries)
        keys = f"[default]\naws_access_key_id = tests\naws_secret_access_key = {S3_KEY}\nregion = eu\n"
        keys += f"endpoint_url = {endpoint}\n"
        more = {"bark-session-secret": "s" * 32, "bark-store-password": PASSWORD, "bark-shelf-keys": keys}
        change_secrets(inventory, **more)
        operator = Operator(inventory, operators.environment(engine))
        operator.good("deploy")
        yield Fleet(operator, dict(zip(NAMES, hosts, strict=True)))


def change_secrets(inventory: Path, **values: str) -> None:
    path = inventory.parent / "secrets.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


def found(fleet: Fleet, name: str) -> dict[str, str]:
    """What `fab check` says of a host's store and shelf, by level and check."""
    (host,) = (each for each in fleet.operator.json("check", "--host", name)["hosts"] if each["name"] == name)
    return {f"{each['level']} {each['check']}": each["found"] for each in host["findings"]}


def test_a_check_logs_in_and_writes_from_a_host_and_names_a_wrong_password_without_showing_it(fleet: Fleet) -> None:
    good = found(fleet, "cpu-01")
    assert "logged in to voxyard" in good["INFO store"]
    assert good["INFO shelf"] == "a file in s3://voices/lab was written, read and deleted"
    change_secrets(fleet.operator.inventory, **{"bark-store-password": f"{PASSWORD}-not"})
    try:
        wrong = found(fleet, "cpu-01")
    finally:
        change_secrets(fleet.operator.inventory, **{"bark-store-password": PASSWORD})
    assert "password authentication failed" in wrong["FAIL store"]
    assert PASSWORD not in str(wrong)


def test_a_document_survives_the_host_that_speaks_it(fleet: Fleet, engine: Engine) -> None:
    with fleet.client("cpu-01") as one, fleet.client("cpu-02") as two:
        eventually(lambda: two.get("/readyz").status_code == 200, "cpu-02 is ready")
        document = {"text": TEXT, "seed": 7}
        id = submit_to_owner(one, two, document)
        eventually(lambda: two.get(f"/v1/documents/{id}").json()["progress"]["done"] > 3, "chunks are spoken")
        engine.docker("kill", fleet.hosts["cpu-01"].container)
        end = eventually(lambda: ended(two, id), "the document ends")
        assert end["state"] == "completed"
        audio = two.get(f"/v1/documents/{id}/audio?format=wav").content
        other = two.post("/v1/documents", json=document).json()["id"]
        eventually(lambda: ended(two, other), "an undisturbed document ends")
        assert two.get(f"/v1/documents/{other}/audio?format=wav").content == audio
        metrics = two.get("/metrics").text
        assert 'voxyard_service_claims_ran_out_total{owner="cpu-01"} 1.0' in metrics
        assert "voxyard_service_store_up 1.0" in metrics


def submit_to_owner(one: httpx.Client, two: httpx.Client, document: dict[str, Any]) -> str:
    """A document that `one` has claimed: whichever service looks first takes it."""
    for _ in range(20):
        id = one.post("/v1/documents", json=document).json()["id"]
        eventually(lambda: has_a_claim(one) or has_a_claim(two), "it is claimed")
        if has_a_claim(one):
            return str(id)
        two.delete(f"/v1/documents/{id}")
        eventually(lambda: not has_a_claim(two), "it is given up")
    raise AssertionError("cpu-01 took no document")


def has_a_claim(client: httpx.Client) -> bool:
    return "voxyard_service_claims 1.0" in client.get("/metrics").text


def ended(client: httpx.Client, id: str) -> dict[str, Any] | None:
    found: dict[str, Any] = client.get(f"/v1/documents/{id}").json()
    return found if found["state"] in ("completed", "failed") else None
