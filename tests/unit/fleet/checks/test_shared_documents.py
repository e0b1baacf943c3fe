"""Speech services that share their documents: what a container is asked, and what its answer means."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import RecordingSession, blocked, facts, host

from fleet.checks.documents_probe import options
from fleet.checks.finding import Finding
from fleet.checks.shared_documents import across, check_all, with_shared_documents
from fleet.facts.fact import Unknown
from fleet.facts.host import HostFacts
from fleet.facts.shared_documents import SharedDocuments
from fleet.inventory.hosts import Bark, Host
from fleet.ssh.command_batch import Answer, Command
from voxyard.service.documents.schema import MIGRATIONS

STORE = {
    "problem": None, "ahead": 0.1, "version": len(MIGRATIONS), "shelf": "abcd1234", "standby": False,
    "encoding": "UTF8", "may_create": True,
}  # fmt: skip
SHELF = {"problem": None, "token": "abcd1234"}
URL = "postgresql://voxyard@db.lab/voxyard"
VALUES = {"bark-session-secret": "s" * 32, "bark-store-password": "hush-hush"}


def speaker(folder: Path, name: str = "gpu-01", shelf: str = "/mnt/voxyard", **values: str) -> Host:
    path = folder / f"{name}.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(VALUES | {each.replace("_", "-"): value for each, value in values.items()}))
    return host(name=name, roles=("bark",), bark=Bark(store=URL, shelf=shelf), secrets=(path,))


def seen(store: dict[str, Any] | None = None, shelf: dict[str, Any] | None = None, **more: Any) -> HostFacts:
    return facts(
        shared_documents=SharedDocuments("aa11", store=STORE | (store or {}), shelf=SHELF | (shelf or {}), **more)
    )


def findings(known: HostFacts, on: Host) -> list[Finding]:
    return list(check_all(known, on))


def test_a_login_and_a_file_that_was_written_are_reported(tmp_path: Path) -> None:
    on = speaker(tmp_path)
    assert [(each.level, each.check, each.found) for each in findings(seen(), on)] == [
        (
            "INFO",
            "store",
            f"a container of image aa11 logged in to voxyard on db.lab:5432: schema version {len(MIGRATIONS)}",
        ),
        ("INFO", "shelf", "a file in /mnt/voxyard was written, read and deleted"),
    ]
    first = findings(seen({"version": None, "shelf": None}), on)
    assert [each.level for each in first] == ["INFO", "INFO"]
    assert "no schema yet" in first[0].found


@pytest.mark.parametrize(
    ("store", "shelf", "check", "said", "remedy"),
    [
        ({"problem": "FATAL: password authentication failed"}, {}, "store", "no login to", "bark-store-password"),
        ({"problem": "connection timeout expired"}, {}, "store", "timeout", "listen_addresses"),
        ({"problem": 'FATAL: database "voxyard" does not exist'}, {}, "store", "does not exist", "createdb"),
        ({"problem": "FATAL: no pg_hba.conf entry for host"}, {}, "store", "no pg_hba.conf", "let this host in"),
        ({"version": 99}, {}, "store", f"version 99, this release knows up to {len(MIGRATIONS)}", "as new as"),
        ({"standby": True}, {}, "store", "read-only standby", "target_session_attrs"),
        ({"encoding": "LATIN1"}, {}, "store", "LATIN1, expected UTF8", "--encoding UTF8"),
        ({"version": None, "may_create": False}, {}, "store", "may create no tables", "OWNER TO"),
        ({}, {"problem": "Permission denied"}, "shelf", "/mnt/voxyard cannot be used: Permission", "chown 65532"),
        ({}, {"token": "ffff0000"}, "shelf", "is not the place with the audio", "mount the directory"),
        ({}, {"token": None}, "shelf", "is not the place with the audio", "mount the directory"),
    ],
)  # fmt: skip
def test_what_would_keep_the_service_from_its_documents_fails_with_what_helps(
    tmp_path: Path, store: dict[str, Any], shelf: dict[str, Any], check: str, said: str, remedy: str
) -> None:
    (failed,) = [each for each in findings(seen(store, shelf), speaker(tmp_path)) if each.level == "FAIL"]
    assert failed.check == check
    assert said in failed.found
    assert remedy in failed.remedy
    assert blocked([failed]) == {"bark"}


@pytest.mark.parametrize(("ahead", "said"), [(7.0, "7.0 s ahead of voxyard on db.lab:5432's"), (-3.0, "3.0 s behind")])
def test_a_clock_that_is_off_the_databases_is_a_warning(tmp_path: Path, ahead: float, said: str) -> None:
    (warned,) = [each for each in findings(seen({"ahead": ahead}), speaker(tmp_path)) if each.level == "WARN"]
    assert (warned.check, said in warned.found) == ("store", True)


@pytest.mark.parametrize(
    ("result", "level", "said"),
    [
        (SharedDocuments(), "INFO", "has no image of Bark yet"),
        (SharedDocuments("aa11", 1, "No module named voxyard.x"), "INFO", "is older than this check"),
        (SharedDocuments("aa11", 125, "invalid mount config: bind source path does not exist: /mnt/voxyard"), "FAIL",
         "there is no directory /mnt/voxyard"),
        (SharedDocuments("aa11", 137, "Killed"), "FAIL", "fails: Killed"),
        (Unknown("timed out"), "WARN", "timed out"),
    ],
)  # fmt: skip
def test_what_could_not_be_tried_is_said(tmp_path: Path, result: Any, level: str, said: str) -> None:
    (found,) = findings(facts(shared_documents=result), speaker(tmp_path))
    assert (found.level, said in found.found) == (level, True)


def test_hosts_that_share_documents_have_one_place_and_the_same_secrets(tmp_path: Path) -> None:
    one, two = speaker(tmp_path), speaker(tmp_path, "gpu-02", bark_session_secret="t" * 32)
    alone = host(name="alone", roles=("bark",))
    known = {"gpu-01": seen(), "gpu-02": seen(shelf={"token": "ffff0000"}), "alone": facts()}
    found = across([one, two, alone], known)
    assert {name: [(each.level, each.check) for each in those] for name, those in found.items()} == {
        "gpu-02": [("FAIL", "shelf"), ("FAIL", "secrets")]
    }
    assert "another place than /mnt/voxyard of gpu-01" in found["gpu-02"][0].found
    assert "bark-session-secret is another than that of gpu-01" in found["gpu-02"][1].found
    assert "tttt" not in str(found)
    same = speaker(tmp_path, "gpu-03", "/srv/voxyard")
    assert across([one, same], {"gpu-01": seen(), "gpu-03": seen()}) == {}


def test_the_container_gets_passwords_on_standard_input_alone(tmp_path: Path) -> None:
    answer = f"aa11\n0\n{json.dumps({'store': STORE, 'shelf': SHELF})}\n"
    session, on = RecordingSession({"shared-documents": Answer(answer)}), speaker(tmp_path)
    found = with_shared_documents(session, facts(), on).shared_documents
    assert found == SharedDocuments("aa11", store=STORE, shelf=SHELF)
    assert json.loads(session.received["shared-documents"]) == {
        "store": URL, "shelf": "/var/lib/voxyard/shelf", "variables": {},
        "files": {"PGPASSFILE": "*:*:*:*:hush-hush\n"},
    }  # fmt: skip
    command = session.texts["shared-documents"]
    assert "hush" not in command
    assert "type=bind,source=/mnt/voxyard,target=/var/lib/voxyard/shelf" in command
    for other in (host(roles=("bark",)), replace(on, roles=("trainer",))):
        quiet = RecordingSession()
        assert with_shared_documents(quiet, facts(), other).shared_documents is None
        assert quiet.asked == []


def test_a_bucket_is_mounted_nowhere_and_a_service_on_loopback_has_the_hosts_network(tmp_path: Path) -> None:
    bucket = options(speaker(tmp_path, shelf="s3://voices/lab"))
    assert "--mount" not in bucket
    assert "--network" not in bucket
    on = speaker(tmp_path)
    assert "--network host" in " ".join(options(replace(on, bark=replace(on.bark, address="127.0.0.1"))))


DOCKER = """#!/bin/sh
case "$1 $2" in
  "image ls") printf 'postgres 1111\\nr:5000/site/voxyard-bark 2222\\nvoxyard-bark 3333\\n';;
  run*) echo "$*" > {folder}/asked; cat;;
esac
"""


def test_the_hosts_script_runs_the_newest_image_with_what_it_reads(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER.format(folder=tmp_path))
    docker.chmod(0o755)
    session = RecordingSession()
    with_shared_documents(session, facts(), speaker(tmp_path))
    (text,) = session.texts.values()
    shell = Command("x", text).shell
    given = json.dumps({"store": STORE, "shelf": SHELF})
    done = subprocess.run(
        ["sh", "-c", shell], input=given, capture_output=True, text=True, check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == f"2222\n0\n{given}\n"
    asked = (tmp_path / "asked").read_text()
    assert asked.strip().endswith("--entrypoint python 2222 -m voxyard.service.probe")
