"""Walks are counted: the distinct files, functions and threads of a package, and how often the thread changes."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import walk


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def untraced() -> Iterator[None]:
    """What traced before the test traces again after it."""
    before, of_threads = sys.getprofile(), threading.getprofile()
    yield
    sys.setprofile(before)
    threading.setprofile(of_threads)


@pytest.mark.usefixtures("untraced")
def test_only_the_package_is_counted_with_its_threads(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("def first(items):\n    return [item for item in items]\ndef second():\n    pass\n")
    (package / "two.py").write_text("def third():\n    pass\n")
    (tmp_path / "other.py").write_text("def fourth():\n    pass\n")
    one, two = load("walked_one", package / "one.py"), load("walked_two", package / "two.py")
    other = load("not_walked", tmp_path / "other.py")

    trace = walk.Trace(package)
    trace.install()
    one.first([1, 2])
    thread = threading.Thread(target=two.third)
    thread.start()
    thread.join()
    other.fourth()
    one.first([])
    one.second()

    assert walk.counts(trace.take()) == {"files": 2, "functions": 3, "threads": 2, "switches": 2}
    assert walk.counts(trace.take()) == {"files": 0, "functions": 0, "threads": 0, "switches": 0}


def test_steps_begin_with_their_first_call() -> None:
    def launch() -> None: ...

    def work() -> None: ...

    begin, other = (1, launch.__code__), (2, work.__code__)
    events = [other, begin, other, other, begin]
    assert walk.split(events, launch.__qualname__) == [[begin, other, other], [begin]]


def test_the_walk_with_the_median_of_switches_counts() -> None:
    walks = [{"files": 5 - switches, "functions": 1, "threads": 1, "switches": switches} for switches in (4, 1, 3)]
    assert walk.median(walks)["switches"] == 3
