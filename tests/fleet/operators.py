"""Operators of fleet tests: an inventory, an environment, and small fake images."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from forks import Forks
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost
from tests.fleet.bed.programs import SEARCH
from tiny_model import write_model

ROOT = Path(__file__).resolve().parents[2]
KEY = "a-key-for-tests-0123456789"
SERVER = """
import http.server, os, ssl, sys, threading
role, mode = os.environ["ROLE"], os.environ["MODE"]
if mode == "ends":
    sys.exit("no such option: --fly")
def die():
    print("torch sees no GPU", flush=True)
    os._exit(7)
if mode == "dies":
    threading.Timer(20, die).start()  # a slow host has found it well by then
port = int(os.environ["VOXYARD_EXPORTER_PORT" if role == "exporter" else "VOXYARD_SERVICE_PORT"])
metrics = f"voxyard_{role}_stand_in 1.0\\nvoxyard_exporter_collect_success 1.0\\n"
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = mode in ("works", "dies") or (mode == "unready" and self.path != "/readyz")
        self.send_response(200 if good else 503)
        self.end_headers()
        self.wfile.write((metrics if self.path == "/metrics" else "no model").encode())
print(role, "stands in", flush=True)
server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Answers)
if os.path.exists("/run/secrets/host-key"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/run/secrets/host-certificate", "/run/secrets/host-key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
PROBE = """
import os, socket, sys
port = os.environ["VOXYARD_EXPORTER_PORT" if os.environ["ROLE"] == "exporter" else "VOXYARD_SERVICE_PORT"]
try:
    with socket.create_connection(("127.0.0.1", int(port)), 3) as connection:
        if os.path.exists("/run/secrets/host-key"):
            import ssl
            connection = ssl._create_unverified_context().wrap_socket(connection)
        connection.sendall(b"GET /healthz HTTP/1.0\\r\\n\\r\\n")
        first = connection.recv(4096).partition(b"\\r\\n")[0].decode()
except OSError as error:
    sys.exit(str(error))
sys.exit(0 if " 200 " in first else first)
"""
"""Health check of a stand-in. It runs in each container every five seconds, so it imports little."""


SERVICES = {
    **{name: (name,) for name in ("bark", "gateway", "head", "worker")},
    "monitoring": ("prometheus", "alertmanager"),
}
"""Services of roles, beside the exporter; Grafana is in no Debian package."""


_FABRIC = """
import sys
sys.path.insert(0, {root!r})
import fabfile
from fabric.main import program
main = program.run
"""


@cache
def _forks(root: Path, images_cache: str) -> Forks:
    """`fab` of a clone of the repository, its tasks imported: that takes two seconds of a processor each time."""
    return Forks(_FABRIC.format(root=str(root)), os.environ | {"VOXYARD_IMAGES_CACHE": images_cache})


def run_fab(root: Path, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A command line of `fab`, its tasks those of this clone, run to its end."""
    return _forks(root, environment["VOXYARD_IMAGES_CACHE"]).run(words, environment, root)


@dataclass(frozen=True)
class Operator:
    """Operator: a fleet's file, and the environment in which docker is the outer engine."""

    inventory: Path
    environment: Mapping[str, str]
    images: Mapping[str, str] = field(default_factory=dict)  # of plan and deploy, by role
    root: Path = ROOT  # clone of the repository

    def words(self, task: str, *arguments: str) -> list[str]:
        """The command line of a task."""
        program = str(Path(sys.executable).with_name("fab"))
        named = [f"{role}={name}" for role, name in self.images.items()] if task in ("plan", "deploy") else []
        options = ["--inventory", str(self.inventory), *(word for each in named for word in ("--image", each))]
        return [program, "--search-root", str(self.root / "scripts"), task, *options, *arguments]

    def fab(self, task: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a task to its end, whatever that is."""
        done = run_fab(self.root, self.words(task, *arguments), self.environment)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def begin(self, task: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a task."""
        pipe = subprocess.PIPE
        words = self.words(task, *arguments)
        return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, cwd=self.root, env=self.environment)

    def good(self, task: str, *arguments: str) -> str:
        """Run a task that succeeds; what it wrote to standard output."""
        done = self.fab(task, *arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, task: str, *arguments: str) -> Any:
        """The document of a task."""
        done = self.fab(task, "--json", *arguments)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"no JSON: {done.stdout}\n{done.stderr}") from None

    def results(self, task: str, *arguments: str) -> dict[str, str]:
        """Outcome of each host in a rollout."""
        return {each["name"]: each["result"] for each in self.json(task, *arguments)["hosts"]}

    def change(self, **keys: Any) -> None:
        """Set keys under `defaults` of the inventory."""
        document = yaml.safe_load(self.inventory.read_text())
        document.setdefault("defaults", {}).update(keys)
        self.inventory.write_text(yaml.safe_dump(document, sort_keys=False))


def images_cache(engine: Engine) -> Path:
    """Folder in which operators keep the archives of images."""
    return engine.folder / "images-cache"


def environment(engine: Engine) -> dict[str, str]:
    """An operator whose docker is the bed's engine."""
    cache = {"VOXYARD_IMAGES_CACHE": str(images_cache(engine))}
    return os.environ | dict(engine.environment) | {"PATH": SEARCH} | cache


def entry(host: GpuHost, **more: Any) -> dict[str, Any]:
    """A host of the inventory; as in the example, the key is the agent's."""
    return {
        "address": host.address,
        "port": host.port,
        "user": host.user,
        "known_hosts": str(host.known_hosts),
        **more,
    }


def write_fleet(folder: Path, entries: Mapping[str, Mapping[str, Any]], **top: Any) -> Path:
    """An inventory with weights, secrets, and a compose file that makes its services fit for the bed."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "weights")
    secrets = folder / "secrets.yaml"
    secrets.touch(mode=0o600)
    keys = f"tester: {hashlib.sha256(KEY.encode()).hexdigest()}\n"
    secrets.write_text(yaml.safe_dump({"bark-api-keys": keys, "bark-webhook-secret": KEY}))
    for each in entries.values():
        assert isinstance(each, dict)
        each.setdefault("node_exporter", False)  # its own test deploys it
        each.setdefault("compose_overrides", [write_override(folder, each)])
        if "bark" in each.get("roles", []):
            each.setdefault("bark", {"weights": "weights", "stop_seconds": 5})
            each.setdefault("secrets", "secrets.yaml")
    path = folder / "hosts.yaml"
    top = {"rollout": {"min_healthy_seconds": 1}, **top}  # of stand-ins: a test of the gate itself takes the default
    path.write_text(yaml.safe_dump({"hosts": dict(entries), **top}, sort_keys=False))
    return path


def write_override(folder: Path, entry: Mapping[str, Any]) -> str:
    """A compose file with which the services of a host are soon found to be well; its name.

    A check costs a tenth of a second of a processor: five containers that are asked every other second take a quarter.
    """
    roles = [role for role in SERVICES if role in entry.get("roles", [])]
    names = ["exporter", *(name for role in roles for name in SERVICES[role])]
    names += ["node-exporter"] * bool(entry["node_exporter"])
    quick = {"interval": "5s", "timeout": "30s", "retries": 12, "start_period": "20s"}
    services = {name: {"healthcheck": dict(quick)} for name in names}
    for name in {"head", "worker"} & set(names):  # their check imports Ray, which takes a second of a processor
        services[name] = {"healthcheck": {"interval": "10s"}}
    text = yaml.safe_dump({"services": services}, sort_keys=False)
    for name in {"bark", "worker"} & set(roles):  # which the bed may not raise
        text = text.replace(f"  {name}:\n", f"  {name}:\n    ulimits: !reset null\n")
    path = folder / "-".join(["quick", *roles, *(["node"] * bool(entry["node_exporter"]))])
    path.with_suffix(".yaml").write_text(text)
    return f"{path.name}.yaml"


def fake_image(engine: Engine, base: str, role: str, mode: str = "works", *, extra: str = "", cuda: str = "") -> str:
    """An image that answers as a service of this role does; its tag. Modes: works, unready, unhealthy, ends, dies."""
    folder = engine.folder / "stand-ins" / role
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "serve.py").write_text(textwrap.dedent(SERVER))
    (folder / "probe.py").write_text(textwrap.dedent(PROBE))
    place = "/usr/lib/python3/dist-packages/voxyard"
    lines = [
        f"FROM {base}",
        "RUN ln -sf python3 /usr/bin/python",
        f"COPY probe.py {place}/telemetry/healthcheck.py",
        f"COPY probe.py {place}/service/healthcheck.py",
        f"RUN touch {place}/__init__.py {place}/telemetry/__init__.py {place}/service/__init__.py",
        "COPY serve.py /serve.py",
        f"ENV ROLE={role}",
        *([f"ENV CUDA_VERSION={cuda}"] if cuda else []),
        *([f"RUN echo {shlex.quote(extra)} > /extra"] if extra else []),
        f"ENV MODE={mode}",
        'ENTRYPOINT ["python3", "/serve.py"]',
    ]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    tag = f"voxyard-{role}:{'built' if (mode, extra) == ('works', '') else f'{mode}{len(extra) or str()}'}"
    engine.docker("build", "--quiet", "--network", "none", "--tag", tag, str(folder))
    return tag


def tiny_weights(engine: Engine, image: str, folder: Path) -> str:
    """Weights that Bark's image itself made below `folder`, a tiny model of random numbers; their name there."""
    (folder / "tiny").mkdir(mode=0o777)
    (folder / "tiny").chmod(0o777)
    made = ("--network", "none", "--volume", f"{folder / 'tiny'}:/tiny", image)
    engine.docker("run", "--rm", *made, "weights", "tiny", "/tiny/bark")
    return "tiny/bark"


def audit(host: GpuHost) -> list[dict[str, str]]:
    """The lines of the host's audit log."""
    text = host.run("cat ~voxyard/.voxyard/audit.jsonl 2>/dev/null || true").stdout
    return [json.loads(line) for line in text.splitlines()]


def current(host: GpuHost) -> str:
    """The host's current release."""
    return str(host.run("basename $(readlink ~voxyard/.voxyard/current)").stdout).strip()


def containers(host: GpuHost) -> dict[str, str]:
    """The id of each service's container."""
    shape = "'{{.Label \"voxyard.role\"}} {{.ID}}'"
    lines = host.run(f"docker ps --format {shape}").stdout.splitlines()
    return dict(line.split() for line in lines if line.strip())
