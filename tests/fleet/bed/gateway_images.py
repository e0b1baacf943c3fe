"""Small images for a gateway's proof: HAProxy as Debian packs it, and the speech service without torch, with tones."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import tones_service
from packaging.requirements import Requirement
from tests.fleet.bed.engine import Engine

from fleet.images import pins

ROOT = Path(__file__).resolve().parents[3]
_OF_THE_BASE = ("libc.so", "libm.so", "ld-linux", "linux-vdso", "libpthread", "libdl", "librt")
_HAPROXY = """\
FROM {base}
COPY program /usr/local/bin/haproxy
COPY libraries /usr/local/lib/haproxy
COPY --chmod=0755 wget.py /usr/bin/wget
ENV LD_LIBRARY_PATH=/usr/local/lib/haproxy
USER nobody
"""
_SERVICE = """\
FROM {base}
RUN ln -sf python3 /usr/bin/python
COPY site /opt/site
ENV PYTHONPATH=/opt/site PYTHONDONTWRITEBYTECODE=1
USER nobody
ENTRYPOINT ["python3", "/opt/site/tones_service.py"]
"""


def build_haproxy(engine: Engine, base: str, program: str) -> str:
    """Image of this machine's HAProxy, under the name of the lock."""
    folder = _empty(engine, "haproxy")
    (folder / "libraries").mkdir()
    shutil.copy(program, folder / "program")
    shutil.copy(Path(__file__).with_name("inside") / "wget.py", folder)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE):
        if not name.startswith(_OF_THE_BASE):
            shutil.copy(path, folder / "libraries" / name)
    return _build(engine, folder, _HAPROXY.format(base=base), pins.sources(ROOT)["gateway"])


def build_service(engine: Engine, base: str) -> str:
    """Image of the speech service with what this Python has installed for it; the base has the same Python."""
    folder = _empty(engine, "tones")
    site = folder / "site"
    for name in sorted(_needed("voxyard", {"service"})):
        _copy_distribution(name, site)
    shutil.copytree(ROOT / "runtime/voxyard", site / "voxyard", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for source in Path(tones_service.__file__).parents[1].glob("s*/*.py"):  # of the service and of speech
        shutil.copy(source, site)
    return _build(engine, folder, _SERVICE.format(base=base), "voxyard-bark:built")


def _needed(name: str, extras: set[str]) -> set[str]:
    """Names of all distributions that one needs, without itself."""
    found: set[str] = set()
    waiting = [(name, frozenset(extras))]
    seen = set(waiting)
    while waiting:
        one, wanted = waiting.pop()
        for text in importlib.metadata.requires(one) or ():
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                entry = (need.name, frozenset(need.extras))
                found |= {need.name} - {name}
                if entry not in seen:
                    seen.add(entry)
                    waiting.append(entry)
    return found


def _copy_distribution(name: str, site: Path) -> None:
    for file in _files(name):
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.locate(), target)


def _files(name: str) -> Iterator[importlib.metadata.PackagePath]:
    for file in importlib.metadata.files(name) or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and "tests" not in file.parts:
            yield file


def _empty(engine: Engine, name: str) -> Path:
    folder = engine.folder / "gateway" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _build(engine: Engine, folder: Path, dockerfile: str, tag: str) -> str:
    (folder / "Dockerfile").write_text(dockerfile)
    engine.docker("build", "--quiet", "--network", "none", "--tag", tag, str(folder))
    shutil.rmtree(folder)
    return tag
