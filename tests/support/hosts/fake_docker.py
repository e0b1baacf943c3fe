"""Fake Docker engine: images and containers in memory, the commands of a rollout."""

from __future__ import annotations

import copy
import itertools
import json
import os
import socketserver
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

# Program `docker` of a host: sends its arguments to the engine, which answers with exit code and output.
CLIENT = """#!/bin/bash
if [ "$1" = load ]; then cat > "$HOME/loading.tar"; fi
exec 3<>/dev/tcp/127.0.0.1/PORT
printf '%s\\0' "$HOME" "$PWD" "$@" $'\\1' >&3
IFS= read -r code <&3
if [ "$code" = 0 ]; then cat <&3; else cat <&3 >&2; fi
exit "$code"
"""


class RefusedError(Exception):
    """Refusal by the engine, with exit code 1."""


@dataclass
class FakeDocker:
    """Fake engine; tests inspect it and set the behaviour of images."""

    images: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id: tags, digests, layers
    containers: list[dict[str, Any]] = field(default_factory=list)  # as `docker inspect` has them
    modes: dict[str, str] = field(default_factory=dict)  # of images: unhealthy, starting, ends, refused, unchecked
    registry: dict[str, dict[str, Any]] = field(default_factory=dict)  # by reference: id, layers
    knows_layers: bool = True  # accepts archives without layers that it has
    log: str = "last words"  # log of every container
    refusal: str = ""  # of the program that checks configuration files
    made: int = 0
    stopped: list[tuple[str, int]] = field(default_factory=list)  # service, seconds
    loaded_bytes: list[int] = field(default_factory=list)
    ran: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)  # mounts and words of `docker run`

    def answer(self, words: Sequence[str], home: Path, folder: Path) -> str:
        """Output of the command line `docker WORDS`. Raises RefusedError."""
        handlers: dict[str, Callable[[Sequence[str]], str]] = {
            "images": lambda _: "\n".join(self.images),
            "image": self._inspect_images,
            "load": lambda _: self._load(home / "loading.tar"),
            "pull": self._pull,
            "tag": self._tag,
            "ps": lambda rest: "\n".join(each["Id"] for each in self._chosen(rest)),
            "inspect": self._inspect,
            "stop": self._stop,
            "rm": self._remove,
            "rmi": self._remove_images,
            "top": lambda _: "PID\n4711\n4712",
            "logs": lambda _: self.log,
            "events": lambda _: "",
            "run": self._run,
            "exec": lambda rest: _exec(rest[1:], home),
            "compose": lambda rest: self._up(rest, folder),
        }
        return handlers[words[0]](words[1:])

    def services(self) -> dict[str, str]:
        """Configuration hash of each running service."""
        running = [each for each in self.containers if each["State"]["Status"] == "running"]
        return {
            each["Config"]["Labels"]["voxyard.role"]: each["Config"]["Labels"]["voxyard.config"] for each in running
        }

    def copy(self) -> FakeDocker:
        """Copy of the engine with its images and containers."""
        return copy.deepcopy(self)

    def _find(self, name: str) -> tuple[str, dict[str, Any]]:
        for key, image in self.images.items():
            if name in (key, *image["tags"], *image["digests"]):
                return key, image
        raise RefusedError(f"Error: No such image: {name}")

    def _inspect_images(self, words: Sequence[str]) -> str:
        return "\n".join(json.dumps({"id": key, **image}) for key, image in map(self._find, words[3:]))

    def _load(self, path: Path) -> str:
        """Load an archive, which may lack layers that the engine has."""
        self.loaded_bytes.append(path.stat().st_size)
        try:
            with tarfile.open(path) as archive:
                names = archive.getnames()
                manifest = json.loads(_read(archive, "manifest.json"))[0]
                layers = json.loads(_read(archive, manifest["Config"]))["rootfs"]["diff_ids"]
        except (tarfile.TarError, KeyError, OSError) as error:
            raise RefusedError(f"open manifest.json: {error}") from error
        for number, name in enumerate(manifest["Layers"], 1):
            known = any(image["layers"][:number] == layers[:number] for image in self.images.values())
            if name not in names and not (known and self.knows_layers):
                raise RefusedError(f"open {name}: no such file or directory")
        key = "sha256:" + manifest["Config"].removesuffix(".json")
        tags = self.images.get(key, {}).get("tags", [])
        self.images[key] = {"tags": sorted({*tags, *manifest["RepoTags"]}), "digests": [], "layers": layers}
        return ""

    def _pull(self, words: Sequence[str]) -> str:
        found = self.registry.get(words[-1])
        if found is None:
            raise RefusedError(f"Error response from daemon: manifest for {words[-1]} not found")
        self.images[found["id"]] = {"tags": [], "digests": [words[-1]], "layers": found["layers"]}
        return words[-1]

    def _run(self, words: Sequence[str]) -> str:
        """Throw-away container; nothing changes, its mounts and words are kept."""
        mounts = [word.rpartition(":")[0] for before, word in itertools.pairwise(words) if before == "--volume"]
        self.ran.append((tuple(mounts), tuple(words)))
        if self.refusal and "promtool" in words:
            raise RefusedError(self.refusal)
        return ""

    def _tag(self, words: Sequence[str]) -> str:
        self._find(words[0])[1]["tags"].append(words[1])
        return ""

    def _chosen(self, words: Sequence[str]) -> list[dict[str, Any]]:
        filters = [word.removeprefix("label=") for before, word in itertools.pairwise(words) if before == "--filter"]

        def fits(labels: dict[str, str]) -> bool:
            parts = [each.partition("=") for each in filters]
            return all(labels.get(name) == value if equals else name in labels for name, equals, value in parts)

        return [each for each in self.containers if fits(each["Config"]["Labels"])]

    def _inspect(self, words: Sequence[str]) -> str:
        found = [each for each in self.containers if each["Id"] in words]
        if words[0] != "--format":
            return json.dumps(found)
        rows = [
            {
                "image": each["Image"],
                "name": each["Config"]["Image"],
                "labels": each["Config"]["Labels"],
                "mounts": each["Mounts"],
            }
            for each in found
        ]
        return "\n".join(map(json.dumps, rows))

    def _stop(self, words: Sequence[str]) -> str:
        for each in self.containers:
            if each["Id"] in words:
                each["State"] |= {"Status": "exited", "ExitCode": 0}
                self.stopped.append((each["Config"]["Labels"]["voxyard.role"], int(words[1])))
        return ""

    def _remove(self, words: Sequence[str]) -> str:
        self.containers = [each for each in self.containers if each["Id"] not in words]
        return ""

    def _remove_images(self, words: Sequence[str]) -> str:
        for name in words:
            key, image = self._find(name)
            if any(each["Image"] == key for each in self.containers):
                raise RefusedError(f"conflict: {name} is being used")
            image["tags"] = [tag for tag in image["tags"] if tag != name]
            if not image["tags"]:
                del self.images[key]
        return ""

    def _up(self, words: Sequence[str], folder: Path) -> str:
        """New container of a service, from the environment of the release."""
        service = words[-1]
        lines = (folder / words[words.index("--env-file") + 1]).read_text().splitlines()
        variables = dict(line.split("=", 1) for line in lines)
        name = variables[f"VOXYARD_{service.upper()}_IMAGE"]
        key, _ = self._find(name)
        mode = self.modes.get(name, "healthy")
        if mode == "refused":
            raise RefusedError("Error response from daemon: port is already allocated")
        self.containers = [each for each in self.containers if each["Config"]["Labels"]["voxyard.role"] != service]
        self.made += 1
        labels = {
            "com.docker.compose.project": "voxyard",
            "voxyard.role": service,
            "voxyard.release": variables["VOXYARD_RELEASE"],
            "voxyard.config": variables[f"VOXYARD_{service.upper()}_CONFIG"],
        }
        state = {
            "Status": "exited" if mode == "ends" else "running",
            "StartedAt": str(self.made),
            "ExitCode": 3 if mode == "ends" else 0,
            "Health": {"Status": mode if mode in ("unhealthy", "starting") else "healthy"},
        }
        if mode == "unchecked":
            del state["Health"]
        container = {
            "Id": f"{self.made:064x}",
            "Name": f"/voxyard-{service}-1",
            "Image": key,
            "Config": {"Image": name, "Labels": labels},
            "State": state,
            "HostConfig": {},
            "Mounts": [],
        }
        self.containers.append(container)
        return ""


class DockerServer:
    """Server for the `docker` programs of one host; `engine` can be replaced."""

    def __init__(self, engine: FakeDocker) -> None:
        self.engine = engine
        outer, lock = self, Lock()

        class Calls(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                data = b""
                while not data.endswith(b"\0\1\0"):
                    data += self.request.recv(65536)
                home, folder, *words = data.removesuffix(b"\0\1\0").decode().split("\0")
                try:
                    with lock:
                        code, text = 0, outer.engine.answer(words, Path(home), Path(folder))
                except RefusedError as error:
                    code, text = 1, str(error)
                self.wfile.write(f"{code}\n{text}\n".encode() if text else f"{code}\n".encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Calls)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    body = archive.extractfile(name)
    assert body is not None
    return body.read()


def _exec(words: Sequence[str], home: Path) -> str:
    """A command of the package in the exporter's container: it runs here, on the host's file of sick GPUs."""
    file = home / ".voxyard/data/exporter/out_of_work.json"
    command = [str(Path(sys.executable).parent / words[0]), *words[1:]]
    environment = {**os.environ, "VOXYARD_OUT_OF_WORK": str(file)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RefusedError(done.stderr)
    return done.stdout
