"""Fixtures of the test bed: a separate Docker engine, its images, and hosts with GPUs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from ssh_server import ssh_agent
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

HERE = Path(__file__).resolve().parent
if str(HERE.parents[1]) not in sys.path:  # as `python -m pytest` has it
    sys.path.insert(0, str(HERE.parents[1]))

from tests.fleet.bed import engine as engines
from tests.fleet.bed import gpus, images, leftovers, programs, voxyard_images
from tests.fleet.bed import registry as registries
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import HostFactory
from tests.fleet.bed.registry import Registry
from tests.fleet.operators import images_cache

FIRST_RUN_SECONDS = 2700  # packages are fetched and images made, beside all other tests
LONG = ("gateway", "deploy_sick_hosts", "deploy_fleet", "deploy_cuts", "monitoring", "check")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "bark": ("test_deploy", "test_images", "test_ray_cluster"),
    "trainer": ("test_runs", "test_runs_over_hosts"),
    **{name: (f"test_{name}",) for name in LONG},
}
"""Files by group, the longest first; every other file is a group of its own. One process runs a group.

Each process has its own engine, so that the tests with one image are a group.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups come first, and the test that waits for images has the time that a slow machine needs."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(FIRST_RUN_SECONDS))
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(HERE)]
    for place, item in zip(places, sorted(ours, key=lambda item: _place(item.nodeid)), strict=True):
        items[place] = item


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Under `--dist loadfile` a group is what a file is to xdist."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """Scheduling in which one process runs all tests of a group."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


def _group(nodeid: str) -> str:
    """Group of a test: that of its file, but for the tests of the trainer's image."""
    file, _, test = nodeid.partition("::")
    name = Path(file).stem
    if name == "test_images" and "trainer" in test:
        return "trainer"
    return next((group for group, files in GROUPS.items() if name in files), file)


def _place(nodeid: str) -> tuple[int, str]:
    """Place of a test's group, and of its file in the group."""
    group, groups = _group(nodeid), list(GROUPS)
    return groups.index(group) if group in groups else len(groups), nodeid.partition("::")[0]


def pytest_unconfigure() -> None:
    """End the beds of workers that were killed: at Ctrl-C xdist does not wait until all is removed."""
    if os.geteuid() == 0:
        leftovers.sweep()


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Tells the person who waits what is being done, though pytest captures the rest."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")

    def write(text: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(f"→ {text}")

    return write


@pytest.fixture(scope="session")
def engine(say: Callable[[str], None]) -> Iterator[Engine]:
    """A running Docker engine that is nobody else's: `engine.docker("ps")`, `engine.build(…)`."""
    if missing := programs.missing():
        message = "; ".join(missing)
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with engines.running(say) as started:
        yield started


@pytest.fixture(scope="session")
def base_image(engine: Engine, say: Callable[[str], None]) -> str:
    """A Debian with Python, certificates and nothing else: the BASE of images in tests. The engine holds it."""
    images.load(engine, say)
    return images.BASE


@pytest.fixture(scope="session")
def host_image(base_image: str) -> str:
    """A host of the fleet: the base with sshd, Docker, Compose, and a user of the docker group."""
    return images.HOST


@pytest.fixture(scope="session")
def registry(engine: Engine, host_image: str) -> Iterator[Registry]:
    """Debian's docker-registry, which engine and hosts reach at `registry.address`; `push` gives real digests."""
    with registries.running(engine) as started:
        yield started


@pytest.fixture(scope="session", name="images")
def voxyards_images(engine: Engine, base_image: str, say: Callable[[str], None]) -> voxyard_images.Images:
    """voxyard's own images by role, for CPUs, each built when a test first asks for it."""
    return voxyard_images.Images(engine, base_image, say)


@pytest.fixture(scope="session")
def nvml_library(engine: Engine) -> Path:
    """The libnvidia-ml.so.1 of the hosts, compiled."""
    path = engine.folder / "library" / "libnvidia-ml.so.1"
    gpus.build_library(path)
    return path


@pytest.fixture(scope="module")
def gpu_host(
    engine: Engine,
    host_image: str,
    nvml_library: Path,
    say: Callable[[str], None],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[HostFactory]:
    """Starts hosts, which end with the module: `gpu_host("gpu-01", gpus=…)`, `gpu_host.several(*three())`.

    The key to them is in an agent, as an operator's is.
    """
    factory = HostFactory(engine, nvml_library, engine.folder / "hosts" / request.path.stem, say)
    folder = tmp_path_factory.mktemp("agent")
    with ssh_agent(folder, factory.key_path) as agent, pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSH_AUTH_SOCK", str(agent))
        yield factory
        factory.stop_all()
        shutil.rmtree(images_cache(engine), ignore_errors=True)  # of operators: an archive for each image of the module
