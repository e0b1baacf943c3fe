"""What the guides print for people without fab and Docker is run: createdb, the gateway, the units."""

from __future__ import annotations

import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml
from eventually import PATIENCE, eventually
from free_ports import free_port
from gateway_certificate import new_authority
from postgres_server import PostgresServer
from programs import program
from tones_process import TonesProcess
from tracked_files import ROOT

from fleet.gateway.configuration import configuration
from fleet.inventory.gateway_settings import Gateway
from fleet.inventory.hosts import Bark, Host, with_upstreams
from voxyard.cli.serve import ServeConfig
from voxyard.service.config import ServiceSection
from voxyard.service.documents.postgres import PostgresDatabase
from voxyard.settings import load

BY_HAND = ROOT / "deploy/by-hand"
UNITS = sorted(BY_HAND.glob("*.service"))
OF_THE_FLEET = (
    "fd-hard-limit", "ssl-load-extra-files", "lua-load ", "bind ", "acl documents", "acl with_",
    "use_backend ", "default_backend ", "server ssl verify none backup",
)  # fmt: skip
BY_HAND_ALONE = ("lua-load ", "bind ", "default_backend ")
GUIDES = ("runtime/voxyard/service/README.md", "deploy/CLUSTER.md")


def printed(guide: str, command: str) -> str:
    """The only line of a guide that begins with this command."""
    text = (ROOT / guide).read_text(encoding="utf-8")
    (line,) = re.findall(rf"^{command} [^#\n]*", text, re.MULTILINE)
    return str(line)


@contextmanager
def server_of_a_latin_system() -> Iterator[PostgresServer]:
    """A server whose own databases are not UTF8, without a user or a database of ours."""
    program("initdb")
    server = PostgresServer()
    try:
        server.create(encoding="LATIN1")
        server.execute("DROP DATABASE voxyard", database="postgres")
        server.execute("CREATE ROLE admin SUPERUSER LOGIN", database="postgres")
        yield server
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.needs("initdb", "createdb", "createuser")
@pytest.mark.parametrize("guide", GUIDES)
def test_user_and_database_are_made_as_printed(guide: str) -> None:
    with server_of_a_latin_system() as server:
        with psycopg.connect(host=str(server.folder), port=server.port, user="admin", dbname="postgres") as connection:
            connection.execute("ALTER ROLE voxyard RENAME TO before")
        environment = {**os.environ, "PGHOST": str(server.folder), "PGPORT": str(server.port), "PGUSER": "admin"}
        for command in ("createuser", "createdb"):
            words = [word for word in shlex.split(printed(guide, command)) if word != "--pwprompt"]  # of a terminal
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        PostgresDatabase(server.url("public")).close()


@pytest.mark.slow
@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_valid_and_its_command_is_ours(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=/opt/voxyard/bin/voxyard (.+)$", text, re.MULTILINE)
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/opt/voxyard/bin/voxyard", str(Path(sys.executable).with_name("voxyard"))))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])
    words = command.split()
    told = subprocess.run(
        [sys.executable, "-m", "voxyard", words[0], "--help"], capture_output=True, text=True, check=True
    )
    assert all(word in told.stdout for word in words[1:] if word.startswith("--"))


def test_the_unit_of_the_service_waits_for_its_end_in_order(tmp_path: Path) -> None:
    text = (BY_HAND / "voxyard-bark.service").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    shipped = ServiceSection()
    assert int(seconds) > settings(tmp_path / "bark.yaml").service.lame_duck_seconds + max(
        shipped.stop_seconds, shipped.drain_seconds
    )
    assert printed("deploy/README.md", "sudo install").split()[-2:] == [f"deploy/by-hand/{each.name}" for each in UNITS]


def settings(file: Path) -> ServeConfig:
    """The settings of the guide, read as the service does."""
    text = (ROOT / "deploy/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(service: .*?)```", text, re.DOTALL)
    file.write_text(yaml.safe_dump(yaml.safe_load(block)), encoding="utf-8")
    return load(ServeConfig, flags={}, file=file).config


def sections(text: str) -> dict[str, set[str]]:
    """Lines of a configuration of HAProxy by section, without comments and blanks."""
    found: dict[str, set[str]] = {}
    name = ""
    for line in text.splitlines():
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if words and not line[0].isspace():
            name = " ".join(words)
        elif words:
            found.setdefault(name, set()).add(re.sub(r"^server \S+ \S+( id \d+)?", "server", " ".join(words)))
    return found


def test_the_gateway_by_hand_is_that_of_the_fleet() -> None:
    """But for what the latter has of its own: a place for what waits, a session by host."""
    barks = [
        Host(f"gpu-0{n}", f"10.0.0.1{n}", "v", roles=("bark",), bark=Bark(store="postgresql://db/v", shelf="/mnt/x"))
        for n in (1, 2)
    ]
    gateway = Gateway(wait_seconds=30)
    host = with_upstreams([Host("gw", "10.0.0.1", "v", roles=("gateway",), gateway=gateway), *barks])[0]
    own, fleets = sections((BY_HAND / "haproxy.cfg").read_text()), sections(configuration(host).decode())
    pairs = {"global": "global", "defaults": "defaults", "frontend https": "frontend https"}
    for section, theirs in {**pairs, "backend services": "backend ready"}.items():
        missing, more = fleets[theirs] - own[section], own[section] - fleets[theirs]
        assert {line for line in missing if not line.startswith(OF_THE_FLEET)} == set()
        assert {line for line in more if not line.startswith(BY_HAND_ALONE)} == set()


@pytest.mark.slow
@pytest.mark.needs("haproxy")
def test_the_gateway_goes_on_with_the_services_that_are_ready(tmp_path: Path) -> None:
    services = [TonesProcess(tmp_path / name, name, free_port(), {"rate_limit": 0}) for name in ("gpu-01", "gpu-02")]
    authority, port, text = new_authority(tmp_path, "localhost"), free_port(), (BY_HAND / "haproxy.cfg").read_text()
    (tmp_path / "gateway.pem").write_text(authority.certificate + authority.key)
    places = {":443 ": f":{port} ", "/etc/haproxy/gateway.pem": str(tmp_path / "gateway.pem")}
    places |= {"/etc/haproxy/frozen.lua": str(ROOT / "deploy/compose/frozen.lua"), "SECONDS 30": "SECONDS 2"}
    places |= {f"10.0.0.{11 + number}:8080": f"127.0.0.1:{each.port}" for number, each in enumerate(services)}
    for place, here in places.items():
        assert place in text.replace("# /etc", "")
        text = text.replace(place, here)
    (tmp_path / "haproxy.cfg").write_text(text)
    gateway = subprocess.Popen([program("haproxy"), "-db", "-f", str(tmp_path / "haproxy.cfg")])
    trust = ssl.create_default_context(cafile=str(authority.root))
    try:
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trust, timeout=PATIENCE) as client:

            def answers() -> bool:
                try:
                    return client.get("/readyz").status_code == 200
                except httpx.TransportError:
                    return False

            for each in services:
                each.start()
            eventually(lambda: all(each.ready for each in services) and answers(), "all are ready")
            services[0].end()
            assert [client.get("/v1/models").status_code for _ in range(20)] == [200] * 20
            page = client.get("/")
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            assert all("Secure" in each for each in page.headers.get_list("set-cookie"))
            services[0].start()
            eventually(lambda: services[0].ready, "it is back")
            services[1].stop()
            assert [client.get("/v1/models").status_code for _ in range(20)] == [200] * 20
            asked = {"model": "tts-1", "voice": "alloy", "input": "A bell rang. " * 200, "response_format": "pcm"}
            with client.stream("POST", "/v1/audio/speech", json=asked) as answer:
                blocks = answer.iter_raw()
                assert next(blocks)
                services[0].signal(signal.SIGSTOP)
                with pytest.raises(httpx.RemoteProtocolError):  # what was heard is not taken for the whole
                    list(blocks)
            refused = client.post("/v1/audio/speech", json=asked)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
    finally:
        gateway.terminate()
        gateway.wait(PATIENCE)
        for each in services:
            each.end()
