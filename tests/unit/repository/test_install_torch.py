"""torch comes as a CPU build where there is one, else with its size said first; declined, it stays away."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import subprocess
import threading
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import install_torch

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/install_torch.py in an environment without torch, with a pip that is recent."""
    monkeypatch.setattr(install_torch, "installed_torch", lambda: None)
    monkeypatch.setattr(install_torch, "recent_pip", lambda: True)
    return install_torch


def wheel(folder: Path, name: str, version: str, *requires: str, files: dict[str, str] | None = None) -> Path:
    """A wheel that pip installs."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    written = {
        **(files or {}),
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in written.items():
            archive.writestr(file, text)
        record = "".join(f"{file},,\n" for file in [*written, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path


class FakePip:
    """Knows some versions by the user's own configuration and some of PyTorch's index; remembers what it installs."""

    def __init__(
        self, versions: str = "", of_pytorch: str = "", packages: list[Path] | None = None, cache: Path | None = None
    ) -> None:
        self.cache = cache
        self.versions = versions
        self.of_pytorch = of_pytorch
        self.packages = packages or []
        self.installed: list[str] = []
        self.asked_pytorch = False

    def __call__(
        self, *arguments: str, quiet: bool = False, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        code, said = 0, ""
        if arguments[:2] == ("index", "versions"):
            self.asked_pytorch |= "--extra-index-url" in arguments
            both = [self.versions, self.of_pytorch if "--extra-index-url" in arguments else ""]
            said = f"torch (9)\nAvailable versions: {', '.join(filter(None, both))}\n"
        elif "--report" in arguments:
            named = [path.name.split("-")[:2] for path in self.packages]
            urls = [path.as_uri() for path in self.packages]
            report = [
                {"metadata": {"name": name.replace("_", "-"), "version": version}, "download_info": {"url": url}}
                for (name, version), url in zip(named, urls, strict=True)
            ]
            code = 0 if report else 1
            Path(arguments[arguments.index("--report") + 1]).write_text(json.dumps({"install": report}))
        elif arguments[:2] == ("cache", "dir"):
            code, said = (0, f"{self.cache}\n") if self.cache else (1, "")
        return subprocess.CompletedProcess(arguments, code, said, "")

    def into(self, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> FakePip:
        """In the place of the real one."""

        def install(offer: object, *_: object, **__: object) -> None:
            self.installed.append(" ".join((offer.requirement, *offer.options)))  # type: ignore[attr-defined]

        monkeypatch.setattr(script, "_pip", self)
        monkeypatch.setattr(script, "install", install)
        return self


@pytest.fixture
def version(script: ModuleType) -> str:
    """The pinned version of torch."""
    import tomllib

    return str(script.pinned_torch(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))))


@pytest.fixture
def plain(tmp_path: Path, version: str) -> list[Path]:
    """Packages of an index for a machine whose one build is for the CPU."""
    return [wheel(tmp_path, name, number) for name, number in (("torch", version), ("sympy", "1.14"))]


@pytest.fixture
def cuda(tmp_path: Path, plain: list[Path]) -> list[Path]:
    """Packages of an index whose one build is for CUDA."""
    names = ("nvidia-cublas", "nvidia-cudnn-cu13", "cuda-bindings", "triton")
    return [*plain, *(wheel(tmp_path, name, "13") for name in names)]


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    return ["--constraints", str(ROOT / "constraints.txt"), "--remember", str(tmp_path / "stamps/torch")]


def test_the_users_own_cpu_build_comes_first(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str], version: str, cuda: list[Path]
) -> None:
    pip = FakePip(f"{version}+cpu, {version}", packages=cuda).into(script, monkeypatch)
    assert script.main(arguments) == 0
    assert pip.installed == [f"torch=={version}+cpu"]


def test_a_choice_that_cannot_be_written_is_named(
    script: ModuleType, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stamps").touch()  # where the folder should be
    assert script.main([*arguments, "--build", "none"]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/stamps/torch, the choice of torch, cannot be written: ")


def test_a_build_that_brings_no_cuda_is_taken_as_it_is(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str], version: str, plain: list[Path]
) -> None:
    pip = FakePip(version, packages=plain).into(script, monkeypatch)
    assert script.main(arguments) == 0
    assert pip.installed == [f"torch=={version}"]
    assert not pip.asked_pytorch


@pytest.mark.parametrize("build", ["auto", "cpu"])
def test_pytorchs_index_comes_before_the_build_with_cuda(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    version: str,
    cuda: list[Path],
    build: str,
) -> None:
    pip = FakePip(version, of_pytorch=f"{version}+cpu", packages=cuda).into(script, monkeypatch)
    assert script.main([*arguments, "--build", build, "--cpu-index", "https://cpu.invalid"]) == 0
    assert pip.installed == [f"torch=={version}+cpu --extra-index-url https://cpu.invalid"]


def test_the_build_with_cuda_comes_last_and_its_size_is_said_before(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
    cuda: list[Path],
) -> None:
    pip = FakePip(version, packages=cuda).into(script, monkeypatch)
    monkeypatch.setattr(script, "size_of", lambda _: 500_000_000)
    monkeypatch.setattr(script, "require_room", lambda size: print("room for", size))
    assert script.main(arguments) == 0
    assert pip.installed == [f"torch=={version}"]
    said = capsys.readouterr().out
    assert f"installing torch=={version}: 3.00 GB to fetch in 6 packages, 4 of them for CUDA" in said
    assert "room for 3000000000" in said


@pytest.mark.parametrize("found", [True, False])
def test_where_no_build_is_welcome_it_says_what_to_do(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
    cuda: list[Path],
    found: bool,
) -> None:
    pip = FakePip(version, packages=cuda if found else []).into(script, monkeypatch)
    assert script.main([*arguments, "--build", "cpu"]) == 1
    said = capsys.readouterr().err
    assert f"there is no torch {version} for this machine" in said
    assert "PIP_FIND_LINKS=" in said
    assert "make setup TORCH=none" in said
    assert ("TORCH=auto" in said) == found
    assert pip.installed == []


def test_cuda_is_taken_where_it_was_asked_for_whatever_cpu_build_there_is(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str], version: str, cuda: list[Path]
) -> None:
    pip = FakePip(f"{version}+cpu, {version}", packages=cuda).into(script, monkeypatch)
    assert script.main([*arguments, "--build", "cuda"]) == 0
    assert pip.installed == [f"torch=={version},!={version}+cpu"]


def test_what_was_declined_stays_away_until_it_is_asked_for(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
) -> None:
    pip = FakePip(f"{version}+cpu").into(script, monkeypatch)
    for again in (["--build", "none"], []):
        assert script.main([*arguments, *again]) == 0
        said = capsys.readouterr().out
        assert "torch was declined (TORCH=none)" in said
        assert "make setup TORCH=auto" in said
    assert pip.installed == []
    assert script.main([*arguments, "--build", "auto"]) == 0
    assert script.main(arguments) == 0
    assert len(pip.installed) == 2


@pytest.mark.parametrize(
    ("installed", "build", "fits"),
    [
        ("{}+cpu", "auto", True),
        ("{}", "auto", True),
        ("{}+cpu", "cpu", True),
        ("{}+cpu", "cuda", False),
        ("{}", "cuda", True),
        ("{}", "cpu", False),
        ("1.0+cpu", "auto", False),
    ],
)
def test_a_torch_that_is_there_is_left_alone_where_it_is_the_one_asked_for(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    version: str,
    cuda: list[Path],
    installed: str,
    build: str,
    fits: bool,
) -> None:
    pip = FakePip(f"{version}+cpu, {version}", packages=cuda).into(script, monkeypatch)
    monkeypatch.setattr(script, "installed_torch", lambda: installed.format(version))
    monkeypatch.setattr(script, "has_cuda", lambda: not installed.endswith("+cpu"))
    assert script.main([*arguments, "--build", build]) == 0
    assert (pip.installed == []) == fits


def test_a_disk_with_too_little_room_is_named_before_anything_is_fetched(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
    cuda: list[Path],
    tmp_path: Path,
) -> None:
    pip = FakePip(version, packages=cuda, cache=tmp_path / "cache").into(script, monkeypatch)
    monkeypatch.setattr(script, "size_of", lambda _: 10**15)
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _: SimpleNamespace(free=4.5e9))
    assert script.main(arguments) == 1
    said = capsys.readouterr().err
    assert str(tmp_path) in said, "pip's cache is a place that is counted"
    assert "found 4.5 GB free" in said
    needed = re.search(r"torch needs about (\d+)\.\d GB of disk", said)
    assert needed is not None
    whole = len(cuda) * 10**15 / script.GB
    assert whole < int(needed[1]) < 4 * whole, "fetched, cached and unpacked"
    assert "GB free: make room, or leave torch out (make setup TORCH=none)" in said
    assert pip.installed == []


def test_an_old_pip_is_not_asked_what_it_would_fetch_for_it_would_fetch_it(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    version: str,
    cuda: list[Path],
) -> None:
    pip = FakePip(version, packages=cuda).into(script, monkeypatch)
    monkeypatch.setattr(script, "recent_pip", lambda: False)
    assert script.main(arguments) == 1
    assert "python -m pip install --upgrade pip" in capsys.readouterr().err
    pip.versions = f"{version}+cpu"
    assert script.main(arguments) == 0


def test_progress_is_told_every_few_seconds_over_all_files(script: ModuleType) -> None:
    lines = ["Collecting torch"]
    for name in ("torch", "triton"):
        lines += [
            f"  Downloading {name}.whl (1.0 GB)",
            *(f"Progress {part}00000000 of 1000000000" for part in range(11)),
        ]
    lines += ["Installing collected packages: triton, torch"]
    # A second a line of progress.
    told = list(script.progress(lines, 2_000_000_000, partial(next, itertools.count())))
    assert told == [
        "  0.40 of 2.00 GB",
        "  0.90 of 2.00 GB",
        "  1.30 of 2.00 GB",
        "  1.80 of 2.00 GB",
        "  fetched 2.00 GB; unpacking takes a while",
    ]


@pytest.mark.parametrize(
    ("fetched", "told"),
    [(0, "  nothing to fetch; unpacking takes a while"), (3_210_000, "  fetched 3.2 MB; unpacking takes a while")],
)
def test_a_small_amount_is_not_told_as_no_gigabytes(script: ModuleType, fetched: int, told: str) -> None:
    lines = ["  Downloading six.whl", f"Progress {fetched} of {fetched}", "Installing collected packages: six"]
    assert list(script.progress(lines, None, lambda: 0.0)) == [told]


def test_one_package_is_singular(script: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "torch.whl").write_bytes(bytes(200_000))
    script.announce(script.Offer("torch==2", packages=(script.Package("torch", "2", f"file://{tmp_path}/torch.whl"),)))
    assert capsys.readouterr().out == "→ installing torch==2: 0.2 MB to fetch in 1 package\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of the files in the test's folder."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path))) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_the_size_is_asked_of_the_server_and_not_fetched(script: ModuleType, server: str, tmp_path: Path) -> None:
    (tmp_path / "torch.whl").write_bytes(bytes(1234))
    assert script.size_of(f"{server}/torch.whl") == 1234
    assert script.size_of((tmp_path / "torch.whl").as_uri()) == 1234
    assert script.size_of(f"{server}/nothing.whl") is None


@pytest.mark.slow
def test_a_real_pip_takes_the_cpu_build_of_a_folder_and_nothing_else(
    script: ModuleType, version: str, tmp_path: Path
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    says_cpu = {"torch/__init__.py": "", "torch/version.py": "cuda = None\n"}
    wheel(folder, "torch", f"{version}+cpu", files=says_cpu)
    wheel(folder, "torch", version, "nvidia-cublas", files={"torch/__init__.py": "", "torch/version.py": "cuda = '13'"})
    wheel(folder, "nvidia-cublas", "13")
    pip = importlib.util.find_spec("pip")
    assert pip is not None
    assert pip.submodule_search_locations is not None
    (tmp_path / "site").mkdir()
    here = Path(pip.submodule_search_locations[0])
    (tmp_path / "site/pip").symlink_to(here)
    (info,) = here.parent.glob("pip-*.dist-info")
    (tmp_path / "site" / info.name).symlink_to(info)
    venv.create(tmp_path / "venv")  # without a pip of its own: that would take seconds
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path / "site"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
    }
    command = [str(tmp_path / "venv/bin/python"), str(ROOT / "scripts/install_torch.py"), "--remember", "torch-build"]

    def run(*more: str) -> str:
        done = subprocess.run(
            [*command, "--constraints", str(ROOT / "constraints.txt"), *more],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    assert "declined" in run("--build", "none")
    assert not list((tmp_path / "venv").rglob("torch"))
    assert f"installing torch=={version}+cpu" in run("--build", "cpu")
    (installed,) = (tmp_path / "venv").rglob("torch-*.dist-info")
    assert installed.name == f"torch-{version}+cpu.dist-info"
    assert run() == ""
    assert not list((tmp_path / "venv").rglob("nvidia*"))


def test_a_real_pip_says_what_the_build_with_cuda_brings(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel(tmp_path, "no-such-torch", "9.9", "nvidia-no-such-library")
    wheel(tmp_path, "nvidia-no-such-library", "13")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "constraints.txt").write_text("")
    packages = script.ask_pip("no-such-torch==9.9", tmp_path / "constraints.txt")
    assert {each.name: each.is_cuda for each in packages} == {"no-such-torch": False, "nvidia-no-such-library": True}
    assert all(script.size_of(each.url) > 0 for each in packages)


def test_the_pin_is_the_one_of_the_package(script: ModuleType) -> None:
    pinned = script.pinned_torch({"project": {"optional-dependencies": {"bark": ["numpy", "torch==9.9"]}}})
    assert pinned == "9.9"
