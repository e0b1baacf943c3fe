"""uvicorn's next minor version: the server's tests run on it, as parts are used that uvicorn does not document."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from voxyard.service.http.protocol import PRIVATE_PARTS, Forwarded, HttpProtocol, SocketProtocol

ROOT = Path(__file__).parents[3]


def parts(of: type) -> set[str]:
    """Names of a class, and those that it and its bases give to themselves at the start."""
    starts = [vars(each)["__init__"] for each in of.__mro__[:-1] if "__init__" in vars(each)]
    return {*dir(of), *(name for start in starts for name in start.__code__.co_names)}


def used(by: type, of: type, names: tuple[str, ...]) -> set[str]:
    """Parts of a class that another one reads, sets or replaces, but for those that asyncio documents."""
    (tree,) = ast.parse(inspect.getsource(by)).body
    read = {
        each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and ast.unparse(each.value) in names
    }
    replaced = set(vars(by)) if issubclass(by, of) else set()
    own = set(dir(asyncio.Protocol)) | {name for name in replaced if name.startswith("_")}
    return ((read | replaced) & parts(of)) - own


@pytest.mark.parametrize("of", PRIVATE_PARTS, ids=lambda of: of.__name__)
def test_the_parts_that_are_used_are_there(of: type) -> None:
    assert set(PRIVATE_PARTS[of]) <= parts(of)


@pytest.mark.parametrize(
    ("by", "of", "names"),
    [
        (HttpProtocol, H11Protocol, ("self",)),
        (HttpProtocol, RequestResponseCycle, ("self.cycle", "cycle")),
        (SocketProtocol, WebSocketsSansIOProtocol, ("self",)),
        (Forwarded, ProxyHeadersMiddleware, ("self",)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_parts_that_are_used_are_listed(by: type, of: type, names: tuple[str, ...]) -> None:
    assert used(by, of, names) == set(PRIVATE_PARTS[of])


@pytest.mark.slow
def test_the_server_works_on_the_next_uvicorn(tmp_path: Path) -> None:
    major, minor = (int(part) for part in version("uvicorn").split(".")[:2])
    wanted = f"uvicorn>={major}.{minor + 1},<{major + 1}"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(tmp_path / "next"), wanted]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    if installed.returncode and "No matching distribution" in installed.stderr:
        return  # there is none yet
    assert installed.returncode == 0, installed.stderr[-1000:]
    path = os.pathsep.join(filter(None, (str(tmp_path / "next"), str(ROOT / "runtime"), os.environ.get("PYTHONPATH"))))
    tests = [str(ROOT / "tests/unit/service" / name) for name in ("test_server.py", "http")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, f"on {wanted}: {done.stdout[-3000:]}"
