"""Certificates of a fleet: authority, what it signs, renewal, and files that cannot be used."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from fleet_doubles import host
from invoke.exceptions import Exit

from fleet.certificates import DAYS, make, names_of, write_secrets
from fleet.errors import FleetError
from fleet.inventory.hosts import Bark, Host
from fleet.inventory.secrets import read
from tasks.certificates import certificates

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
HOSTS = (
    host(address="192.0.2.11"),
    host(name="gpu_02", address="GPU-02.lab.example.", exporter_address="2001:db8::2", roles=("bark",)),
    host(name="gw", address="192.0.2.20", roles=("gateway",)),
)
INVENTORY = """
defaults: {user: voxyard, secrets: [secrets.yaml, certificates.yaml]}
hosts:
  gpu-01: {address: 192.0.2.11, roles: [bark], secrets: secrets.yaml}
  gw: {address: 192.0.2.20, roles: [gateway]}
"""


def names(pem: bytes) -> set[str]:
    found = x509.load_pem_x509_certificate(pem)
    given = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*given.get_values_for_type(x509.DNSName), *map(str, given.get_values_for_type(x509.IPAddress))}


def verified(folder: Path, pem: bytes, *asked: str) -> subprocess.CompletedProcess[str]:
    """Verdict of openssl on the certificate, under the authority of the folder."""
    path = folder / "leaf.pem"
    path.write_bytes(pem)
    moment = str(int((NOW + dt.timedelta(days=1)).timestamp()))
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-attime", moment, *asked]
    return subprocess.run([*command, "-CAfile", folder / "host-ca.pem", path], capture_output=True, text=True)


def test_all_files_are_the_owners_alone_and_the_certificates_are_good_for_every_name(tmp_path: Path) -> None:
    made = make(tmp_path, HOSTS, ["speech.lab.example", "*.speech.lab.example"], NOW)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == dict.fromkeys(
        ("host-ca.pem", "host-ca-key.pem", "certificates.yaml"), "0o600"
    )
    values = read(made.path).values
    assert names(values["host-certificate"]) == {
        "gpu-01", "192.0.2.11", "gpu_02", "GPU-02.lab.example", "2001:db8::2", "gw", "192.0.2.20",
    }  # fmt: skip
    assert names(values["gateway-certificate"]) == {"speech.lab.example", "*.speech.lab.example", "192.0.2.20"}
    for asked in (["-verify_hostname", "gpu-01"], ["-verify_ip", "2001:db8::2"]):
        assert verified(tmp_path, values["host-certificate"], *asked).returncode == 0
    assert "hostname mismatch" in verified(tmp_path, values["host-certificate"], "-verify_hostname", "other").stderr
    assert values["host-ca"] == (tmp_path / "host-ca.pem").read_bytes()
    assert made.until == NOW + dt.timedelta(days=DAYS)


def test_running_it_again_renews_and_keeps_the_authority_and_the_gateways_names(tmp_path: Path) -> None:
    first = make(tmp_path, HOSTS, ["speech.lab.example"], NOW)
    before, root = read(first.path).values, first.authority.read_bytes()
    later = NOW + dt.timedelta(days=300)
    second = make(tmp_path, HOSTS, [], later)
    after = read(second.path).values
    assert (first.new_authority, second.new_authority) == (True, False)
    assert second.authority.read_bytes() == root
    assert names(after["gateway-certificate"]) == names(before["gateway-certificate"])
    assert second.until == later + dt.timedelta(days=DAYS)
    assert {name for name in after if after[name] != before[name]} == set(after) - {"host-ca"}
    assert verified(tmp_path, after["host-certificate"]).returncode != 0  # it does not count backwards


def test_nothing_is_signed_for_longer_than_its_authority_lasts(tmp_path: Path) -> None:
    make(tmp_path, HOSTS, [], NOW)
    late = make(tmp_path, HOSTS, [], NOW + dt.timedelta(days=3600))
    (root,) = x509.load_pem_x509_certificates(late.authority.read_bytes())
    assert late.until == root.not_valid_after_utc
    with pytest.raises(FleetError, match=r"host-ca\.pem ended on 2036-02-27: make another authority with --new-"):
        make(tmp_path, HOSTS, [], NOW + dt.timedelta(days=3651))
    assert make(tmp_path, HOSTS, [], NOW + dt.timedelta(days=3651), new_authority=True).roots == 1


def test_loopback_is_in_no_certificate_nor_is_the_address_of_a_role_that_a_host_lacks() -> None:
    bark = Bark(address="192.0.2.99")
    assert names_of(host(exporter_address="127.0.0.1", bark=bark)) == ("gpu-01", "192.0.2.11")
    everywhere = host(exporter_address="::", bark=bark, roles=("bark",))
    assert names_of(everywhere) == ("gpu-01", "192.0.2.11", "192.0.2.99")


Change = Callable[[Path], object]


def other_key(folder: Path) -> None:
    (folder / "more").mkdir()
    make(folder / "more", HOSTS, [], NOW)
    (folder / "more/host-ca-key.pem").replace(folder / "host-ca-key.pem")


def no_authority(folder: Path) -> None:
    values = read(folder / "certificates.yaml").values
    (folder / "host-ca.pem").write_bytes(values["host-certificate"])
    (folder / "host-ca-key.pem").write_bytes(values["host-key"])


def no_authority_left(folder: Path) -> None:
    (folder / "host-ca.pem").unlink()
    (folder / "host-ca-key.pem").unlink()


def tracked(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "-f", "certificates.yaml"], check=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "host-ca.pem").unlink(), r"host-ca-key\.pem is there without host-ca\.pem: restore"),
        (lambda folder: (folder / "host-ca-key.pem").unlink(), r"host-ca\.pem is there without host-ca-key\.pem"),
        (lambda folder: (folder / "host-ca.pem").write_text("x"), "the authority cannot be read: expected a certif"),
        (lambda folder: (folder / "host-ca-key.pem").write_text("x"), "the authority cannot be read"),
        (other_key, r"host-ca-key\.pem is not the key of host-ca\.pem"),
        (lambda folder: (folder / "host-ca-key.pem").chmod(0o644), r"host-ca-key\.pem: other users can read"),
        (no_authority_left, r"are gone, and certificates\.yaml has certificates of that authority: restore both, or"),
        (no_authority, r"host-ca\.pem is not the certificate of an authority"),
        (tracked, r"certificates\.yaml: tracked by git"),
        (lambda folder: (folder / "certificates.yaml").chmod(0o644), "other users can read"),
        (
            lambda folder: (folder / "certificates.yaml").write_text("alert-chat: https://chat\n"),
            "holds alert-chat, too, and would be replaced: move them",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named_and_left_alone(tmp_path: Path, change: Change, said: str) -> None:
    make(tmp_path, HOSTS, [], NOW)
    change(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(FleetError, match=said):
        make(tmp_path, HOSTS, [], NOW)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("given", "hosts", "said"),
    [
        (["a b"], HOSTS, "--name a b: expected a DNS name such as speech.lab.example, or an IP address"),
        (["https://speech"], HOSTS, "--name https://speech: expected"),
        (["192.0.2.300"], HOSTS, "--name 192.0.2.300: expected"),
        (["speech.lab"], HOSTS[:2], "--name is for the gateway's certificate, and no host has the role gateway"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, given: list[str], hosts: tuple[Host, ...], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        make(tmp_path, hosts, given, NOW)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"host-ca-key\.pem: cannot be written: No such file or directory"):
        make(tmp_path / "none", HOSTS, [], NOW)


@pytest.mark.parametrize("file", ["host-ca-key.pem", "host-ca.pem"])
def test_a_full_disk_leaves_no_half_of_an_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    opened = os.fdopen

    def full(descriptor: int, mode: str) -> Any:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name != file:
            return opened(descriptor, mode)
        os.close(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        with pytest.raises(FleetError, match=f"{file}: cannot be written: No space left on device"):
            make(tmp_path, HOSTS, [], NOW)
    assert not list(tmp_path.iterdir())
    make(tmp_path, HOSTS, [], NOW)


def test_another_fleets_certificates_are_not_replaced(tmp_path: Path) -> None:
    make(tmp_path, HOSTS, ["speech.lab.example"], NOW)
    before = (tmp_path / "certificates.yaml").read_bytes()
    with pytest.raises(
        FleetError, match=r"has certificates for gpu-01, 192\.0\.2\.11, .*not in this inventory.*add --drop"
    ):
        make(tmp_path, HOSTS[1:], [], NOW)
    with pytest.raises(FleetError, match=r"has certificates for speech\.lab\.example, 192\.0\.2\.20, which"):
        make(tmp_path, (*HOSTS[:2], host(name="gw", address="192.0.2.20")), [], NOW)
    assert (tmp_path / "certificates.yaml").read_bytes() == before
    made = make(tmp_path, HOSTS[1:], [], NOW, drop=True)
    assert "gpu-01" not in names(read(made.path).values["host-certificate"])


def test_a_new_authority_joins_the_old_one_and_other_roots_stay(tmp_path: Path) -> None:
    path = make(tmp_path, HOSTS, [], NOW).path
    made = make(tmp_path, HOSTS, [], NOW, new_authority=True)
    assert (made.new_authority, made.roots) == (True, 2)
    values = read(path).values
    assert verified(tmp_path, values["host-certificate"]).returncode == 0
    new, old = (tmp_path / "host-ca.pem").read_bytes(), (tmp_path / "host-ca.1.pem").read_bytes()
    assert values["host-ca"] == new + old
    again = make(tmp_path, HOSTS, [], NOW)
    assert (again.new_authority, read(path).values["host-ca"]) == (False, new + old)
    third = make(tmp_path, HOSTS, [], NOW, new_authority=True)
    assert (third.roots, (tmp_path / "host-ca.2.pem").read_bytes()) == (3, new)
    assert [(tmp_path / f"host-ca-key.{n}.pem").stat().st_mode & 0o777 for n in (1, 2)] == [0o600, 0o600]
    (tmp_path / "host-ca-key.pem").unlink()  # a lost key
    assert make(tmp_path, HOSTS, [], NOW, new_authority=True).roots == 4


def test_a_host_with_a_certificate_of_its_own_is_not_in_the_shared_one(tmp_path: Path) -> None:
    values = read(make(tmp_path, HOSTS, [], NOW).path).values
    own = tmp_path / "own.yaml"
    write_secrets(own, {name: values[name] for name in ("host-certificate", "host-key", "host-ca")})
    hosts = (replace(HOSTS[0], secrets=(own,)), *HOSTS[1:])
    made = make(tmp_path, hosts, [], NOW, drop=True)
    assert made.own == ("gpu-01",)
    assert not names(read(made.path).values["host-certificate"]) & {"gpu-01", "192.0.2.11"}
    with pytest.raises(FleetError, match="every host has a host-certificate of its own"):
        make(tmp_path, hosts[:1], [], NOW, drop=True)


def test_a_link_to_the_secrets_file_stays(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "certificates.yaml").symlink_to(tmp_path / "vault/fleet.yaml")
    make(tmp_path, HOSTS, [], NOW)
    assert (tmp_path / "certificates.yaml").is_symlink()
    assert "host-key" in read(tmp_path / "vault/fleet.yaml").values


@pytest.mark.parametrize("name", ["192.0.2.55", "gpu.01.", "x" * 64])
def test_a_host_whose_name_no_client_verifies_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetError, match=f"^host {name}: gateway and deploy verify a host's certificate by this name"):
        make(tmp_path, (host(name=name, address="192.0.2.11"),), [], NOW)


def test_an_authority_with_an_ed25519_key_signs(tmp_path: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "30", "-subj", "/CN=Own", "-addext"]
    files = ["-keyout", f"{tmp_path}/host-ca-key.pem", "-out", f"{tmp_path}/host-ca.pem"]
    subprocess.run([*command, "keyUsage=critical,keyCertSign", *files], check=True, capture_output=True)
    (tmp_path / "host-ca-key.pem").chmod(0o600)
    made = make(tmp_path, HOSTS, [])
    assert made.until == made.authority_until
    pem = tmp_path / "leaf.pem"
    pem.write_bytes(read(made.path).values["host-certificate"])
    subprocess.run(["openssl", "verify", "-CAfile", tmp_path / "host-ca.pem", pem], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("usage", "now", "said"),
    [
        ("digitalSignature", None, r"is not the certificate of an authority \(CA:TRUE, keyCertSign\)"),
        ("keyCertSign", NOW - dt.timedelta(days=3650), "is not valid before .*: is the clock right"),
    ],
)
def test_an_authority_that_cannot_sign_now_is_refused(
    tmp_path: Path, usage: str, now: dt.datetime | None, said: str
) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=Own", "-addext"]
    files = ["-keyout", f"{tmp_path}/host-ca-key.pem", "-out", f"{tmp_path}/host-ca.pem"]
    subprocess.run([*command, f"keyUsage=critical,{usage}", *files], check=True, capture_output=True)
    (tmp_path / "host-ca-key.pem").chmod(0o600)
    with pytest.raises(FleetError, match=said):
        make(tmp_path, HOSTS, [], now)


def run(folder: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, str, str]:
    path = folder / "hosts.yaml"
    path.write_text(INVENTORY)
    code, message = 0, ""
    try:
        certificates.body(None, inventory=str(path), **options)
    except Exit as end:
        code, message = end.code, end.message or ""
    said = capsys.readouterr()
    return code, said.out, f"{said.err}{message}"


def test_the_task_says_what_it_made_and_where_to_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(tmp_path, capsys, name=["speech.lab.example,192.0.2.30"])
    assert code == 0
    assert f"add certificates.yaml to the list of secrets of gpu-01 in {tmp_path}" in said
    assert "of the gateway: for speech.lab.example, 192.0.2.30, 192.0.2.20" in said
    code, out, _ = run(tmp_path, capsys, json=True)
    document = json.loads(out)
    assert (document["new_authority"], document["host_names"]) == (False, ["gpu-01", "192.0.2.11", "gw", "192.0.2.20"])


def test_the_task_ends_with_an_error_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, name=["a b"])[0] == 2
