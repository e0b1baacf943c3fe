"""Debian's docker-registry on the network of the test bed: pushed images get real digests."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fleet.bed import images
from tests.fleet.bed.engine import NETWORK, Engine
from tests.fleet.bed.programs import wait_until

PORT = 5000
_CONTAINER = "voxyard-bed-registry"
_FOLDER = "/var/lib/docker-registry"
_SETTINGS = {
    "version": 0.1,
    "storage": {"filesystem": {"rootdirectory": _FOLDER}, "delete": {"enabled": True}},
    "http": {"addr": f":{PORT}"},
    "log": {"level": "warn"},
}


@dataclass(frozen=True)
class Registry:
    """A registry that this machine, the bed's engine and all its hosts reach at `address` (host:port)."""

    engine: Engine
    address: str

    def push(self, image: str, repository: str) -> str:
        """Put an image of the bed's engine there, as `repository` (without a tag). Its digest, `sha256:…`.

        Raises BedError.
        """
        name = f"{self.address}/{repository}"
        self.engine.docker("tag", image, f"{name}:pushed")
        self.engine.docker("push", "--quiet", f"{name}:pushed")
        digests: list[str] = json.loads(
            self.engine.docker("image", "inspect", "--format", "{{json .RepoDigests}}", image).stdout
        )
        return next(each.partition("@")[2] for each in digests if each.startswith(f"{name}@"))

    def repositories(self) -> list[str]:
        """The names that somebody has pushed to."""
        with urllib.request.urlopen(f"http://{self.address}/v2/_catalog", timeout=20) as answer:
            found: list[str] = json.load(answer)["repositories"]
        return found


@contextlib.contextmanager
def running(engine: Engine) -> Iterator[Registry]:
    """A registry for the time of the block, empty at first. Raises BedError when it does not start."""
    settings = engine.folder / "registry.json"
    settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")  # JSON is YAML
    words = ["run", "--detach", "--rm", "--name", _CONTAINER, "--network", NETWORK, "--volume", _FOLDER]
    words += ["--volume", f"{settings}:/etc/registry.yml:ro"]
    engine.docker(*words, images.HOST, "docker-registry", "serve", "/etc/registry.yml")
    place = f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}'
    registry = Registry(engine, f"{engine.docker('inspect', '--format', place, _CONTAINER).stdout.strip()}:{PORT}")
    try:
        wait_until(lambda: _answers(registry), f"no registry on {registry.address}", seconds=60)
        yield registry
    finally:
        engine.docker("rm", "--force", "--volumes", _CONTAINER)


def _answers(registry: Registry) -> bool:
    try:
        registry.repositories()
    except OSError:
        return False
    return True
