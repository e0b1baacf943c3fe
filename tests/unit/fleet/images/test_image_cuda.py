"""CUDA requirements of images: framework, base, NVIDIA_REQUIRE_CUDA; drivers that they accept and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import python_program

from fleet.images import cuda
from fleet.images.cuda import DEFAULTS, CudaNeed, cuda_need, cuda_needs, need, require_holds, supported
from fleet.images.image import LocalImage
from voxyard.trainer.devices.cuda_kernels import CudaKernels

GEFORCE, H200 = "NVIDIA GeForce RTX 4090", "NVIDIA H200"
BRANDS = ("unknown", "grid", "tesla", "nvidia", "quadro", "quadrortx", "nvidiartx", "geforce", "geforcertx", "titan")
# As nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04 has it, in its form.
NVIDIAS = " ".join(
    ["cuda>=12.8", *(f"brand={each},driver>={b},driver<{b + 1}" for b in (470, 535, 550) for each in BRANDS)]
)
PLAIN = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.8", "CUDA_VERSION": "12.8.1"}


def refused(role: str, environment: dict[str, str], frameworks: dict[str, str | None], driver: int) -> str | None:
    found = need(role, environment, frameworks)
    assert found is not None
    return found.refusal(driver, GEFORCE)


@pytest.mark.parametrize(
    ("require", "driver", "card", "holds"),
    [
        ("", 1, GEFORCE, True),
        ("cuda>=12.8", 570, GEFORCE, True),
        ("cuda>=12.8", 565, GEFORCE, False),
        ("cuda>=9.0", 470, GEFORCE, True),
        ("cuda>=12.8,driver<580", 580, GEFORCE, False),
        (NVIDIAS, 550, GEFORCE, True),
        (NVIDIAS, 550, H200, True),
        (NVIDIAS, 560, GEFORCE, False),
        (NVIDIAS, 999, GEFORCE, True),
        ("brand=tesla,driver>=470,driver<471", 470, H200, True),
        ("brand=tesla,driver>=470,driver<471", 470, GEFORCE, False),
        ("brand!=tesla", 470, GEFORCE, True),
        ("arch>=5.2", 470, GEFORCE, True),
        ("nonsense", 570, GEFORCE, False),
    ],
)
def test_the_toolkits_condition_holds_or_not(require: str, driver: int, card: str, holds: bool) -> None:
    assert require_holds(require, driver, card) is holds


def test_a_driver_supports_the_cuda_of_its_branch_and_a_newer_one_at_least_that_of_the_last_known() -> None:
    assert [supported(each) for each in (440, 550, 571, 580, 700)] == [(0, 0), (12, 4), (12, 8), (13, 0), (13, 1)]
    assert list(cuda.DRIVER_CUDA.values()) == sorted(cuda.DRIVER_CUDA.values())


def test_builds_for_cpus_and_for_cuda_12_8_are_not_refused_on_driver_570() -> None:
    for torch in (None, "12.8"):
        assert refused("bark", PLAIN, {"torch": torch}, 570) is None
    assert refused("bark", PLAIN, {"torch": "13.0"}, 570) == "its torch, built for CUDA 13.0, needs CUDA 13.0"


def test_what_needs_cuda_12_8_is_refused_on_driver_550() -> None:
    for torch in (None, "12.8", "12.4"):  # the toolkit refuses the start, whatever torch is
        assert refused("bark", PLAIN, {"torch": torch}, 550) == "its NVIDIA_REQUIRE_CUDA does not hold (cuda>=12.8)"
    assert refused("bark", {}, {"torch": "12.8"}, 550) == "its torch, built for CUDA 12.8, needs CUDA 12.8"
    assert refused("trainer", {"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}, {}, 550) == (
        "its base needs CUDA 12.8"
    )


def test_a_base_that_names_older_branches_brings_libraries_for_them_for_its_own_cuda_only() -> None:
    environment = {"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": NVIDIAS}
    assert refused("trainer", environment, {"tensorflow": "12.8"}, 550) is None
    assert refused("bark", environment, {"torch": "13.0"}, 550) is not None
    assert refused("trainer", environment, {}, 560) is not None


def test_a_condition_that_is_switched_off_in_the_image_does_not_count() -> None:
    assert need("bark", PLAIN | {"NVIDIA_DISABLE_REQUIRE": "1"}, {"torch": None}) == CudaNeed(
        None, "its torch, built for CPUs,", "", (12, 8)
    )


def test_the_oldest_driver_is_named() -> None:
    assert CudaNeed((12, 8), "x").least_driver == 570
    assert CudaNeed((13, 0), "x", "cuda>=12.8").least_driver == 580
    assert CudaNeed(None, "x", "cuda>=12.8").least_driver == 570


def test_an_image_that_records_nothing_counts_as_built_by_default(tmp_path: Path) -> None:
    assert need("bark", {"PATH": "/bin"}, {}) is None
    assert cuda_needs({}) == DEFAULTS


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named docker: the environment of an image, and its Python, which imports from the folder `site`."""
    program = tmp_path / "docker"
    first = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})"
    program.write_text(
        python_program(
            "import subprocess, sys\n"
            f"code = {first!r} + sys.argv[-1]\n"
            "sys.exit(subprocess.run([sys.executable, '-S', '-I', '-c', code]).returncode)\n"
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    cuda_need.cache_clear()
    return tmp_path / "site"


def image(name: str) -> LocalImage:
    return LocalImage(f"sha256:{name}", (), 1, "voxyard-bark", environment=("CUDA_VERSION=12.8.1",))


@pytest.mark.parametrize(
    ("role", "file", "content", "version"),
    [
        ("bark", "torch/version.py", "cuda: Optional[str] = '12.6'\n", (12, 6)),
        ("bark", "torch/version.py", "debug = False\ncuda = '13.0'\n", (13, 0)),
        ("bark", "torch/version.py", "cuda: Optional[str] = None\n", None),
        (
            "trainer",
            "tensorflow/python/platform/build_info.py",
            "build_info = OrderedDict([('is_cuda_build', True), ('cuda_version', '12.5.1')])",
            (12, 5),
        ),
        ("trainer", "tensorflow/python/platform/build_info.py", "OrderedDict([('is_cuda_build', False)])", None),
    ],
)
def test_the_framework_of_an_image_is_read_without_importing_it(
    docker: Path, role: str, file: str, content: str, version: tuple[int, int] | None
) -> None:
    (docker / file).parent.mkdir(parents=True)
    (docker / file.partition("/")[0] / "__init__.py").write_text("raise SystemExit('imported')")
    (docker / file).write_text(content)
    found = cuda_need(image(f"{role}{version}"), role)
    assert found is not None
    assert (found.version, found.base) == (version, (12, 8))
    assert cuda_need(image("exporter"), "exporter") is None


def test_an_image_with_a_record_of_its_framework_is_not_started() -> None:
    """The one of a registry is not on this machine."""
    record = json.dumps({"tensorflow": "12.5", "kernels": {"version": "2.19.1", "for": ["sm_89", "compute_90"]}})
    there = LocalImage("sha256:there", (), 1, labels=((cuda.FRAMEWORKS_LABEL, record),))
    found = cuda_need(there, "trainer")
    assert found is not None
    assert (found.version, found.base) == ((12, 5), None)
    assert found.kernels == CudaKernels("2.19.1", ((8, 9), (9, 0)), ((9, 0),))


def test_the_kernels_of_tensorflow_are_read_with_its_version(docker: Path) -> None:
    """The list as TensorFlow's wheels have it, and the package's metadata beside it."""
    build = docker / "tensorflow/python/platform/build_info.py"
    build.parent.mkdir(parents=True)
    (docker / "tensorflow/__init__.py").write_text("raise SystemExit('imported')")
    build.write_text(
        "build_info = collections.OrderedDict([('cpu_compiler', 'x'), ('cuda_compute_capabilities', ['sm_60', "
        "'sm_89', 'compute_90']), ('cuda_version', '12.5.1'), ('is_cuda_build', True)])"
    )
    about = docker / "tensorflow-2.19.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.19.1\n")
    (about / "top_level.txt").write_text("tensorflow\n")
    found = cuda_need(image("kernels"), "trainer")
    assert found is not None
    assert found.version == (12, 5)
    assert found.kernels == CudaKernels("2.19.1", ((6, 0), (8, 9), (9, 0)), ((9, 0),))
    assert found.kernels.fault((12, 0)) is not None


def test_an_image_without_a_readable_framework_has_the_cuda_of_its_base(
    docker: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert cuda_needs({"bark": image("bare")})["bark"] == CudaNeed((12, 8), "its base", "", (12, 8))
    program = docker.with_name("docker")
    program.write_text(program.read_text().replace("code =", "sys.exit('no python')\ncode ="))
    assert cuda_needs({"bark": image("broken")})["bark"].source == "its base"
    assert "only its base counts" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="reads the installed torch")
def test_the_installed_torch_is_read_as_it_says_itself() -> None:
    command = [sys.executable, "-c", cuda._PROGRAM]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    import torch

    assert found["torch"] == torch.version.cuda
