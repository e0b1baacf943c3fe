"""`bark.store` and `bark.shelf`: what an inventory may say, and the secrets that belong to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import FleetError
from fleet.inventory.bark_settings import DEPLOYED
from fleet.inventory.clusters import Cluster
from fleet.inventory.hosts import Host, Inventory, load
from fleet.inventory.secrets import read
from fleet.inventory.shared_documents import sharing, store_address, variables
from fleet.inventory.validation import keys_of

STORE, PASSWORD = "postgresql://voxyard@db.lab/voxyard", "h:er\\on"
FLEET = f"""
defaults: {{user: voxyard, bark: {{store: {STORE}, shelf: /mnt/voxyard}}}}
hosts:
  gpu-01: {{address: 192.0.2.11, roles: [bark]}}
  gpu-02: {{address: 192.0.2.12, roles: [bark], bark: {{shelf: /srv/voxyard}}}}
  train: {{address: 192.0.2.13, roles: [trainer]}}
"""
Read = Callable[[str], Inventory]


@pytest.fixture
def inventory(tmp_path: Path) -> Read:
    def load_text(text: str) -> Inventory:
        (tmp_path / "hosts.yaml").write_text(text)
        return load(tmp_path / "hosts.yaml")

    return load_text


def test_hosts_that_name_one_store_share_their_documents(inventory: Read) -> None:
    more = "  other: {address: 192.0.2.14, roles: [bark], bark: {store: 'postgresql://v@db.lab:5433/voxyard'}}\n"
    hosts = inventory(FLEET + more).hosts
    assert [(each.bark.store, each.bark.shelf) for each in hosts[:2]] == [
        (STORE, "/mnt/voxyard"), (STORE, "/srv/voxyard"),
    ]  # fmt: skip
    assert [[host.name for host in each] for each in sharing(hosts)] == [["gpu-01", "gpu-02"], ["other"]]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (STORE, "postgres://other@DB.lab:5432/voxyard?sslmode=require", True),
        ("postgresql://v@a,b:5433/x", "postgresql://v@b:5433,a/x", True),
        ("postgresql://v@[2001:db8::1]/x", "postgresql://v@[2001:db8::1]:5432/x", True),
        (STORE, "postgresql://voxyard@db.lab/other", False),
        (STORE, "postgresql://voxyard@db.lab:6432/voxyard", False),
    ],
)
def test_a_store_is_known_by_its_hosts_and_its_name(one: str, other: str, same: bool) -> None:
    assert (store_address(one) == store_address(other)) == same


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://voxyard:{PASSWORD}@db.lab/voxyard",
        f"postgresql://voxyard:pa/{PASSWORD}@db.lab/voxyard",
        f"postgresql://voxyard@db.lab/voxyard?password={PASSWORD}",
        f"mysql://voxyard:{PASSWORD}@db.lab/voxyard",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(inventory: Read, url: str) -> None:
    with pytest.raises(FleetError, match=r":2: defaults\.bark\.store: .*bark-store-password") as caught:
        inventory(FLEET.replace(STORE, f"'{url}'"))
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["documents.sqlite", "postgresql://db.lab/voxyard", "postgresql://v@/x", "postgresql://v@db.lab", "postgresql://v@h:x/d",
     "postgresql:///x?host=/run", "sqlite://v@db.lab/x"],
)  # fmt: skip
def test_what_is_no_database_of_another_host_is_refused(inventory: Read, url: str) -> None:
    with pytest.raises(FleetError, match=r"defaults\.bark\.store: expected postgresql://USER@HOST/DATABASE"):
        inventory(FLEET.replace(STORE, f"'{url}'"))


@pytest.mark.parametrize(
    "shelf", ["audio", "/", "/mnt/../x", "/mnt/a b", "/mnt/a,b", "s3://", "s3://UPPER/x", "nfs://a/b"]
)
def test_what_is_neither_a_directory_nor_a_bucket_is_refused(inventory: Read, shelf: str) -> None:
    with pytest.raises(FleetError, match=r"bark\.shelf: expected the whole path of a directory .* or s3://BUCKET/PREF"):
        inventory(FLEET.replace("/mnt/voxyard", f"'{shelf}'"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", shelf: /mnt/voxyard", "", r":4: hosts\.gpu-01\.bark\.store: there is no bark\.shelf"),
        (f"store: {STORE}, ", "", r":4: hosts\.gpu-01\.bark\.shelf: there is no bark\.store"),
        ("shelf: /srv/voxyard", "shelf: 's3://voices/a'", r":5: hosts\.gpu-02\.bark\.shelf: s3://voices/a, and gpu-01"),
        ("db.lab", "localhost", r"hosts\.gpu-01\.bark\.store: localhost is the container of the service itself"),
        (
            "bark: {shelf: /srv/voxyard}",
            "bark: {settings: {service: {store: x}}}",
            r"set by the deployment: use bark\.",
        ),
        (
            "bark: {shelf: /srv/voxyard}",
            "bark: {settings: {speech: {pool: ray}}}",
            r"hosts\.gpu-02\.bark\.settings\.speech\.pool: set by the deployment: .* deploy/CLUSTER\.md",
        ),
    ],
)
def test_what_cannot_be_shared_is_named_by_file_line_and_key(inventory: Read, old: str, new: str, said: str) -> None:
    assert old in FLEET
    with pytest.raises(FleetError, match=said):
        inventory(FLEET.replace(old, new))


def test_a_database_on_the_hosts_own_loopback_is_reached_by_a_service_that_listens_there(inventory: Read) -> None:
    alone = FLEET.replace("db.lab", "127.0.0.1").replace("{shelf: /srv/voxyard}", "{address: 127.0.0.1}")
    alone = alone.replace("address: 192.0.2.11, roles: [bark]", "address: 192.0.2.11, roles: [trainer]")
    assert inventory(alone).hosts[1].bark.store == "postgresql://voxyard@127.0.0.1/voxyard"


def secrets(folder: Path, **values: str) -> dict[str, bytes]:
    path = folder / "secrets.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump({name.replace("_", "-"): value for name, value in values.items()}))
    return dict(read(path).values)


def test_the_password_becomes_a_file_as_libpq_reads_it(tmp_path: Path) -> None:
    (value,) = secrets(tmp_path, bark_store_password=PASSWORD).values()
    assert value == b"*:*:*:*:h\\:er\\\\on\n"
    psycopg = pytest.importorskip("psycopg")
    place = tmp_path / "pgpass"
    place.touch(mode=0o600)
    place.write_bytes(value)
    with pytest.raises(psycopg.OperationalError):  # nobody listens; libpq has read the file by then
        psycopg.connect(f"postgresql://v@127.0.0.1:1/x?passfile={place}", connect_timeout=2)
    info = psycopg.pq.PGconn.connect(f"postgresql://v@127.0.0.1:1/x?passfile={place}".encode())
    assert info.password == PASSWORD.encode()


KEYS = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = hush\nregion = eu\nendpoint_url = http://s3.lab:9000\n"


def test_the_keys_of_a_bucket_are_a_file_of_aws(tmp_path: Path) -> None:
    assert secrets(tmp_path, bark_shelf_keys=KEYS) == {"bark-shelf-keys": KEYS.encode()}


@pytest.mark.parametrize(
    "text", ["hush", KEYS.replace("[default]\n", ""), KEYS.replace("[default]", "[prod]"), KEYS.replace("_secret", "_")]
)
def test_keys_in_another_form_are_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        FleetError, match=r"secrets\.yaml:1: bark-shelf-keys: no aws_.*: expected lines as of AWS"
    ) as caught:
        secrets(tmp_path, bark_shelf_keys=text)
    assert "hush" not in str(caught.value)


def test_variables_name_the_files_that_are_there() -> None:
    assert variables(["bark-api-keys"]) == {}
    assert variables(["bark-store-password", "bark-store-ca", "bark-shelf-keys"]) == {
        "PGPASSFILE": "/run/secrets/bark-store-password",
        "PGSSLROOTCERT": "/run/secrets/bark-store-ca",
        "PGSSLMODE": "verify-full",
        "AWS_CONFIG_FILE": "/run/secrets/bark-shelf-keys",
        "AWS_SHARED_CREDENTIALS_FILE": "/run/secrets/bark-shelf-keys",
    }


@pytest.mark.parametrize("kind", [Host, Cluster])
def test_a_key_that_advice_names_is_known_where_it_is_given(kind: type[Any]) -> None:
    for setting, advice in DEPLOYED.items():
        for name in re.findall(r"\buse ([a-z_.]+[a-z])", advice):
            keys: Any = keys_of(kind)
            for part in name.split("."):
                assert part in keys, f"{setting}: {advice}"
                keys = keys[part]
