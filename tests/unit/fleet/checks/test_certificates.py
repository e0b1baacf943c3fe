"""Preflight of certificates: expired, soon, of another key, without the host's names, of another authority, none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from fleet_doubles import facts, host

from fleet.certificates import Authority, issue, make, open_authority, write_secrets
from fleet.checks.certificates import check_all
from fleet.checks.finding import ALL_SERVICES
from fleet.facts.machine import TLS_TOOL, TOOLS
from fleet.inventory.hosts import Bark, Host
from fleet.inventory.secrets import read

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
ON = host(roles=("bark", "gateway"))
WITH_OPENSSL = facts(programs=frozenset({*TOOLS, TLS_TOOL}))
Values = Mapping[str, bytes]


def found(on: Host, days: int = 1, programs: frozenset[str] = frozenset({*TOOLS, TLS_TOOL})) -> list[tuple[str, str]]:
    findings = check_all(facts(programs=programs), on, NOW + dt.timedelta(days=days))
    return [(each.level, each.found) for each in findings]


@pytest.fixture
def secured(tmp_path: Path) -> Host:
    """Host whose secrets are those that `fab certificates` writes for it."""
    return host(roles=ON.roles, secrets=(make(tmp_path, [ON], ["speech.lab.example"], NOW).path,))


def test_good_certificates_give_no_finding(secured: Host) -> None:
    assert found(secured) == []


def test_the_end_is_announced_and_then_a_failure(secured: Host) -> None:
    assert found(secured, 366) == []
    assert found(secured, 368) == [
        ("WARN", f"{name} ends on 2027-04-02, in 29 days") for name in ("host-certificate", "gateway-certificate")
    ]
    assert found(secured, 398) == [
        ("FAIL", f"{name} ended on 2027-04-02") for name in ("host-certificate", "gateway-certificate")
    ]
    assert [each for each, _ in found(secured, -2)] == ["FAIL", "FAIL"]


def elsewhere(folder: Path) -> tuple[Values, Authority]:
    (folder / "more").mkdir()
    made = make(folder / "more", [ON], ["speech.lab.example"], NOW)
    return read(made.path).values, open_authority(folder / "more", NOW)


def with_other_keys(values: Values, folder: Path) -> Values:
    other, _ = elsewhere(folder)
    return {**values, "host-key": other["host-key"], "gateway-key": other["gateway-key"]}


def with_another_authority(values: Values, folder: Path) -> Values:
    return {**values, "host-ca": elsewhere(folder)[0]["host-ca"]}


def for_another_host(values: Values, folder: Path) -> Values:
    certificate, key = issue(open_authority(folder, NOW), ["gpu-02", "192.0.2.12"], NOW)
    return {**values, "host-certificate": certificate, "host-key": key}


def for_more_hosts(values: Values, folder: Path) -> Values:
    certificate, key = issue(open_authority(folder, NOW), ["GPU-01", "x", "192.0.2.11"], NOW)
    return {**values, "host-certificate": certificate, "host-key": key}


def root_first(values: Values, _: Path) -> Values:
    return {**values, "host-certificate": values["host-ca"] + values["host-certificate"]}


def with_text(values: Values, _: Path) -> Values:
    """As openssl writes it, with what the file is before it, and the curve of a key."""
    curve = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    names = ("host-certificate", "gateway-certificate", "host-ca")
    with_words = {name: b"Bag Attributes\n    localKeyID: 01\nsubject=CN = x\n" + values[name] for name in names}
    keys = {name: curve + as_traditional(values[name]) for name in ("host-key", "gateway-key")}
    return {**values, **with_words, **keys}


def as_traditional(key: bytes) -> bytes:
    """The key in the form EC PRIVATE KEY."""
    form, text = serialization.PrivateFormat.TraditionalOpenSSL, serialization.Encoding.PEM
    return serialization.load_pem_private_key(key, None).private_bytes(text, form, serialization.NoEncryption())


def not_pem(values: Values, _: Path) -> Values:
    pem = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    return {**values, "host-certificate": pem}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            with_other_keys,
            [f"{name} does not belong to its key" for name in ("host-certificate", "gateway-certificate")],
        ),
        (
            with_another_authority,
            ["host-certificate is not signed by an authority of host-ca, with the chain that it has"],
        ),
        (
            for_another_host,
            ["host-certificate does not name gpu-01, 192.0.2.11, by which gateway and Prometheus verify it"],
        ),
        (  # kubernetes/ingress-nginx#7799
            root_first,
            ["host-certificate has the certificate of its key in place 2, where servers expect it first"],
        ),
        (with_text, []),
        (not_pem, ["host-certificate or its key is not readable as PEM, or the key has a password"]),
        (lambda values, _: {name: value for name, value in values.items() if name != "host-ca"}, None),
        (for_more_hosts, []),
    ],
)
def test_what_would_fail_at_the_first_request_fails_before(
    tmp_path: Path, secured: Host, change: Callable[[Values, Path], Values], said: list[str] | None
) -> None:
    (path,) = secured.secrets
    write_secrets(path, change(read(path).values, tmp_path))
    incomplete = "gpu-01: TLS of a host needs host-certificate, host-key, host-ca, all three or none: add host-ca to "
    expected = said if said is not None else [f"{incomplete}{path}; fab certificates makes them"]
    assert found(secured) == [("FAIL", each) for each in expected]


def test_secrets_that_cannot_be_read_are_a_failure_and_not_silence(secured: Host, tmp_path: Path) -> None:
    (path,) = secured.secrets
    ((status, said),) = found(host(roles=ON.roles, secrets=(tmp_path / "none.yaml",)))
    assert (status, said) == ("FAIL", f"{tmp_path}/none.yaml: no such file, named as secrets in the inventory")
    path.chmod(0o644)
    ((status, said),) = found(secured)
    assert status == "FAIL"
    assert "other users can read or write it" in said


def test_a_gateway_without_its_certificate_is_a_failure(tmp_path: Path) -> None:
    bare = host(roles=ON.roles, secrets=(make(tmp_path, [ON], [], NOW).path,))
    assert found(bare) == [
        ("FAIL", f"the gateway has no gateway-certificate and no gateway-key in {tmp_path}/certificates.yaml")
    ]


def test_a_certificate_with_its_chain_is_good(tmp_path: Path, secured: Host) -> None:
    (path,) = secured.secrets
    values = read(path).values
    write_secrets(path, {**values, "host-certificate": values["host-certificate"] + values["host-ca"]})
    assert found(secured) == []


def test_openssl_is_needed_on_the_host_with_tls_only(secured: Host) -> None:
    said = [("FAIL", "openssl is not installed, which verifies the certificates of services there")]
    assert found(secured, programs=frozenset(TOOLS)) == said
    assert found(host(), programs=frozenset(TOOLS)) == []


def test_api_keys_in_plain_http_are_a_warning_that_blocks_nothing_else() -> None:
    (finding,) = check_all(WITH_OPENSSL, host(roles=("bark",)), NOW)
    assert (finding.level, finding.check) == ("WARN", "tls")
    assert finding.found == "the speech service listens on 192.0.2.11 in plain HTTP, with API keys in it"
    assert "fab certificates" in finding.remedy
    assert not list(check_all(WITH_OPENSSL, host(roles=("bark",), bark=Bark(address="127.0.0.1")), NOW))


def test_a_failure_keeps_all_services_from_the_release_and_the_gateways_own_keeps_the_gateway(secured: Host) -> None:
    findings = list(check_all(WITH_OPENSSL, secured, NOW + dt.timedelta(days=400)))
    assert [each.services for each in findings] == [ALL_SERVICES, ("gateway",)]
