"""Configuration hash of a service: changes with everything that affects the service, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, host
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Bark, Host, Trainer
from fleet.inventory.secrets import Secrets
from fleet.release.artefact import Artefact
from fleet.release.config_hash import config_hash
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.inputs import ReleaseInputs
from fleet.release.release import Release, render

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
NAMES = ("exporter.yaml", "bark.yaml")
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)
WEIGHTS = Artefact("weights", "0123456789ab", Path("/w"), {}, 1)
KEYS = {"bark-api-keys": b"alice: " + b"a" * 64}
HOST = host(roles=("trainer", "bark"))
SUPPLIES = ReleaseInputs(
    images={
        "exporter": IMAGE,
        "bark": LocalImage("sha256:" + "ba" * 32, (), 1, "voxyard-bark"),
        "trainer": LocalImage("sha256:" + "7a" * 32, (), 1, "voxyard-trainer"),
    },
    compose={name: (COMPOSE / name).read_bytes() for name in NAMES},
    trainer={"trainer.yaml": b"services: {trainer: {image: x}}\n"},
    artefacts={"weights": WEIGHTS},
    secrets=Secrets(KEYS),
)


def rendered(on: Host = HOST, login_info: LoginInfo = LOGIN, inputs: ReleaseInputs = SUPPLIES) -> Release:
    return render(on, assign(facts(), on), login_info, inputs)


def hashes(made: Release) -> dict[str, str]:
    return {each.name: each.config for each in made.services}


def touched(after: Release, before: Release | None = None) -> set[str]:
    """The services whose containers would be made anew."""
    old, new = hashes(before or rendered()), hashes(after)
    assert old.keys() == new.keys()
    return {name for name in old if old[name] != new[name]}


def supplied(**changes: Any) -> Release:
    return rendered(inputs=replace(SUPPLIES, **changes))


def with_image(role: str, **changes: Any) -> Release:
    other = replace(SUPPLIES.images[role], **(changes or {"id": "sha256:00"}))
    return supplied(images={**SUPPLIES.images, role: other})


def with_secret(name: str, value: bytes) -> Release:
    return supplied(secrets=Secrets({**KEYS, name: value}))


def with_override(text: str) -> Release:
    return supplied(compose={**SUPPLIES.compose, "site-1-own.yaml": text.encode()})


def with_changed(name: str, old: str, new: str) -> Release:
    body = SUPPLIES.compose[name].decode()
    assert old in body
    return supplied(compose={**SUPPLIES.compose, name: body.replace(old, new).encode()})


SETTINGS: list[tuple[str, Host, set[str]]] = [
    ("exporter_port", replace(HOST, exporter_port=9500), {"exporter"}),
    ("exporter_address", replace(HOST, exporter_address="192.0.2.99"), {"exporter"}),
    ("bark.port", replace(HOST, bark=Bark(port=8081)), {"bark"}),
    ("bark.address", replace(HOST, bark=Bark(address="192.0.2.99")), {"bark"}),
    ("bark.stop_seconds", replace(HOST, bark=Bark(stop_seconds=90)), {"bark"}),
    ("bark.settings", replace(HOST, bark=Bark(settings={"service": {"max_characters": 1000}})), {"bark"}),
    ("trainer.metrics_port", replace(HOST, trainer=Trainer(metrics_port=9500)), set()),
    ("bark.memory_gib", replace(HOST, bark=Bark(memory_gib=20)), {"bark"}),
    ("trainer.memory_gib", replace(HOST, trainer=Trainer(memory_gib=20)), set()),
    ("trainer.stop_seconds", replace(HOST, trainer=Trainer(stop_seconds=500)), set()),
    ("acknowledged", replace(HOST, acknowledged=frozenset({"clock"})), set()),
    ("canary", replace(HOST, canary=True), set()),
    ("port of the login", replace(HOST, port=2222), set()),
]


@pytest.mark.parametrize(("on", "expected"), [each[1:] for each in SETTINGS], ids=[each[0] for each in SETTINGS])
def test_one_setting_touches_only_its_service(on: Host, expected: set[str]) -> None:
    assert touched(rendered(on)) == expected


OTHERS: list[tuple[str, Any, set[str]]] = [
    ("the exporter's image", lambda: with_image("exporter"), {"exporter"}),
    ("Bark's image", lambda: with_image("bark"), {"bark"}),
    ("the trainer's image", lambda: with_image("trainer"), set()),
    ("the trainer's file", lambda: supplied(trainer={"trainer.yaml": b"a: b\n"}), set()),
    ("weights", lambda: supplied(artefacts={"weights": replace(WEIGHTS, id="1" * 12)}), {"bark"}),
    ("a key", lambda: supplied(secrets=Secrets({"bark-api-keys": b"bob: 1"})), {"bark"}),
    ("a new secret", lambda: with_secret("bark-webhook-secret", b"x" * 16), {"bark"}),
    ("Grafana's password", lambda: with_secret("grafana-admin-password", b"x" * 8), set()),
    ("the host's memory", lambda: rendered(login_info=replace(LOGIN, memory_mib=32 << 10)), {"bark"}),
    ("bark.yaml", lambda: with_changed("bark.yaml", "shm_size: 1g", "shm_size: 2g"), {"bark"}),
    ("exporter.yaml", lambda: with_changed("exporter.yaml", "mem_limit: 512m", "mem_limit: 600m"), {"exporter"}),
    ("a comment", lambda: with_changed("exporter.yaml", "name: voxyard\n", "# said anew\nname: voxyard\n"), set()),
    ("an override of one service", lambda: with_override("services: {bark: {mem_limit: 64g}}"), {"bark"}),
    ("a reset in an override", lambda: with_override("services: {exporter: {deploy: !reset null}}"), {"exporter"}),
    ("an override of nothing", lambda: with_override("services: {}\n"), set()),
    ("a network that nobody names", lambda: with_override("networks: {other: {}}"), set()),
    ("a network that one names", lambda: with_override("networks: {n: }\nservices: {bark: {networks: [n]}}"), {"bark"}),
    ("everybody's network", lambda: with_override("networks: {default: {driver_opts: {a: b}}}"), {"bark", "exporter"}),
    ("a file that is brought in", lambda: with_override("include: [other.yaml]"), {"bark", "exporter"}),
]


@pytest.mark.parametrize(("made", "expected"), [each[1:] for each in OTHERS], ids=[each[0] for each in OTHERS])
def test_what_concerns_one_service_touches_only_that(made: Any, expected: set[str]) -> None:
    assert touched(made()) == expected


def test_the_bark_hash_follows_the_limits_and_the_exporters_follows_the_plan() -> None:
    assert touched(rendered(replace(HOST, memory_policy="full"))) <= {"bark", "exporter"}
    alone = host(roles=("bark",))
    no_trainer = replace(SUPPLIES, trainer={}, images={k: v for k, v in SUPPLIES.images.items() if k != "trainer"})
    before, after = (
        rendered(replace(alone, memory_policy=policy), inputs=no_trainer) for policy in ("recommended", "full")
    )
    assert touched(after, before) == {"bark"}


def test_an_image_by_digest_is_the_same_image() -> None:
    assert touched(with_image("bark", digest="registry.example/voxyard-bark@sha256:12")) == set()


WORDS = st.text("abcdefgh", min_size=1, max_size=6)


@given(
    own=st.dictionaries(WORDS, st.one_of(WORDS, st.lists(WORDS, max_size=3), st.integers(0, 9)), max_size=4),
    other=st.dictionaries(WORDS, st.one_of(WORDS, st.lists(WORDS, max_size=3), st.integers(0, 9)), max_size=4),
    changed=st.dictionaries(WORDS, WORDS, max_size=4),
)
def test_another_services_entry_never_counts(
    own: dict[str, Any], other: dict[str, Any], changed: dict[str, str]
) -> None:
    def hashed(neighbour: dict[str, Any]) -> str:
        body = yaml.safe_dump({"services": {"own": own, "neighbour": neighbour}}).encode()
        return config_hash("own", "sha256:aa", compose=[("a.yaml", body)], environment={}, files={})

    assert hashed(other) == hashed(changed)


@given(
    before=st.text(min_size=1, max_size=8),
    after=st.text(min_size=1, max_size=8),
    name=st.sampled_from(["USED", "UNUSED"]),
)
def test_a_variable_counts_where_it_is_used(before: str, after: str, name: str) -> None:
    body = b'services: {own: {command: ["$${UNUSED}", "${USED:-x}"]}, other: {command: "$UNUSED"}}'

    def hashed(value: str) -> str:
        return config_hash("own", "i", compose=[("a.yaml", body)], environment={name: value}, files={})

    assert (hashed(before) == hashed(after)) == (before == after or name == "UNUSED")


def test_a_file_counts_where_it_is_mounted() -> None:
    body = b'services: {own: {volumes: ["./used.yaml:/x:ro"]}, other: {volumes: [{source: ./unused.yaml}]}}'

    def hashed(**files: bytes) -> str:
        named = {f"{name}.yaml": content for name, content in files.items()}
        return config_hash("own", "i", compose=[("a.yaml", body)], environment={}, files=named)

    assert hashed(used=b"a", unused=b"a") == hashed(used=b"a", unused=b"b")
    assert hashed(used=b"a", unused=b"a") != hashed(used=b"b", unused=b"a")


def test_the_order_of_compose_files_counts() -> None:
    one, two = (f"services: {{own: {{command: {word}}}}}".encode() for word in "ab")
    orders = [[("a", one), ("b", two)], [("b", two), ("a", one)]]
    assert len({config_hash("own", "i", compose=order, environment={}, files={}) for order in orders}) == 2


def test_a_tag_of_composes_counts() -> None:
    bodies = [
        b"services: {own: {ports: []}}",
        b"services: {own: {ports: !reset []}}",
        b"services: {own: {ports: !override []}}",
    ]
    assert len({config_hash("own", "i", compose=[("a", body)], environment={}, files={}) for body in bodies}) == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"services: [", "a.yaml:1: not YAML"),
        (b"- a", "a.yaml: expected a compose file"),
        (b"services: []", "a.yaml: expected a compose file"),
        (b"\xff", "a.yaml: not readable as YAML"),
    ],
)
def test_a_compose_file_that_is_none_is_named(body: bytes, said: str) -> None:
    with pytest.raises(FleetError, match=said):
        config_hash("own", "i", compose=[("a.yaml", body)], environment={}, files={})
