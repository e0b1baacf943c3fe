"""The border of the fake NVML: its structures, codes and functions are laid out as NVIDIA's header and pynvml say."""

from __future__ import annotations

import ctypes
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pynvml
import pytest
from fake_driver import HERE, NVML_SOURCES, FakeDriver

Members = dict[str, str]
STRUCTURES: dict[str, tuple[str, Any, Members]] = {  # ours → nvml.h's, pynvml's, our members → theirs
    "PciInfo": (
        "nvmlPciInfo_t",
        pynvml.nvmlPciInfo_t,
        {
            "legacy_bus_id": "busIdLegacy",
            "domain": "domain",
            "bus": "bus",
            "device": "device",
            "device_id": "pciDeviceId",
            "subsystem_id": "pciSubSystemId",
            "bus_id": "busId",
        },
    ),
    "Utilization": ("nvmlUtilization_t", pynvml.c_nvmlUtilization_t, {"gpu": "gpu", "memory": "memory"}),
    "Memory": ("nvmlMemory_t", pynvml.c_nvmlMemory_t, {"total": "total", "free": "free", "used": "used"}),
    "MemoryV2": (
        "nvmlMemory_v2_t",
        pynvml.c_nvmlMemory_v2_t,
        {"version": "version", "total": "total", "reserved": "reserved", "free": "free", "used": "used"},
    ),
    "Sample": ("nvmlSample_t", pynvml.c_nvmlSample_t, {"time_us": "timeStamp", "value": "sampleValue"}),
    "Number": (
        "nvmlValue_t",
        pynvml.c_nvmlValue_t,
        {
            "real": "dVal",
            "natural": "uiVal",
            "natural_long": "ulVal",
            "natural_long_long": "ullVal",
            "whole_long_long": "sllVal",
            "whole": "siVal",
            "natural_short": "usVal",
        },
    ),
    "FieldValue": (
        "nvmlFieldValue_t",
        pynvml.c_nvmlFieldValue_t,
        {
            "field": "fieldId",
            "scope": "scopeId",
            "time_us": "timestamp",
            "latency_us": "latencyUsec",
            "kind": "valueType",
            "code": "nvmlReturn",
            "value": "value",
        },
    ),
    "Temperature": (
        "nvmlTemperature_v1_t",
        pynvml.c_nvmlTemperature_v1_t,
        {"version": "version", "sensor": "sensorType", "celsius": "temperature"},
    ),
    "FabricInfo": (
        "nvmlGpuFabricInfo_v2_t",
        pynvml.c_nvmlGpuFabricInfo_v2_t,
        {
            "version": "version",
            "cluster": "clusterUuid",
            "status": "status",
            "clique": "cliqueId",
            "state": "state",
            "health": "healthMask",
        },
    ),
    "GpmSupport": (
        "nvmlGpmSupport_t",
        pynvml.c_nvmlGpmSupport_t,
        {"version": "version", "supported": "isSupportedDevice"},
    ),
    "GpmMetric": (
        "nvmlGpmMetric_t",
        pynvml.c_nvmlGpmMetric_t,
        {"id": "metricId", "code": "nvmlReturn", "value": "value", "info": "metricInfo"},
    ),
    "GpmMetricsGet": (
        "nvmlGpmMetricsGet_t",
        pynvml.c_nvmlGpmMetricsGet_t,
        {
            "version": "version",
            "count": "numMetrics",
            "first": "sample1",
            "second": "sample2",
            "metrics": "metrics",
        },
    ),
    "ProcessInfo": (
        "nvmlProcessInfo_t",
        pynvml.c_nvmlProcessInfo_v3_t,
        {
            "pid": "pid",
            "memory": "usedGpuMemory",
            "gpu_instance": "gpuInstanceId",
            "compute_instance": "computeInstanceId",
        },
    ),
    "Event": (
        "nvmlEventData_t",
        pynvml.c_nvmlEventData_t,
        {
            "device": "device",
            "kind": "eventType",
            "data": "eventData",
            "gpu_instance": "gpuInstanceId",
            "compute_instance": "computeInstanceId",
        },
    ),
}
CONSTANTS = {
    "SUCCESS": "NVML_SUCCESS",
    "UNINITIALIZED": "NVML_ERROR_UNINITIALIZED",
    "INVALID_ARGUMENT": "NVML_ERROR_INVALID_ARGUMENT",
    "NOT_SUPPORTED": "NVML_ERROR_NOT_SUPPORTED",
    "NOT_FOUND": "NVML_ERROR_NOT_FOUND",
    "INSUFFICIENT_SIZE": "NVML_ERROR_INSUFFICIENT_SIZE",
    "DRIVER_NOT_LOADED": "NVML_ERROR_DRIVER_NOT_LOADED",
    "TIMED_OUT": "NVML_ERROR_TIMEOUT",
    "GPU_IS_LOST": "NVML_ERROR_GPU_IS_LOST",
    "VERSION_MISMATCH": "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    "INSUFFICIENT_RESOURCES": "NVML_ERROR_INSUFFICIENT_RESOURCES",
    "ARGUMENT_VERSION_MISMATCH": "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    "UNKNOWN": "NVML_ERROR_UNKNOWN",
    "KIND_DOUBLE": "NVML_VALUE_TYPE_DOUBLE",
    "KIND_UNSIGNED": "NVML_VALUE_TYPE_UNSIGNED_INT",
    "KIND_UNSIGNED_LONG": "NVML_VALUE_TYPE_UNSIGNED_LONG",
    "KIND_UNSIGNED_LONG_LONG": "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG",
    "XID_EVENT": "nvmlEventTypeXidCriticalError",
}
HEADER_ONLY = {
    "1 << 24 | sizeof(Temperature)": "nvmlTemperature_v1",
    "2 << 24 | sizeof(MemoryV2)": "nvmlMemory_v2",
    "2 << 24 | sizeof(FabricInfo)": "nvmlGpuFabricInfo_v2",
}
POINTERS = ("nvmlDevice_t", "nvmlEventSet_t", "nvmlGpmSample_t")


@pytest.fixture(scope="module")
def header() -> Path:
    """The nvml.h that NVIDIA publishes for developers."""
    for package in ("nvidia-nvml-dev", "nvidia-nvml-dev-cu12"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == "nvml.h":
                return Path(str(file.locate()))
    pytest.skip("nvml.h is missing: pip install nvidia-nvml-dev (it is one of the extra `dev`)")


def gcc(*arguments: str, source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["gcc", "-std=gnu11", "-x", "c", *arguments, "-"], input=source, capture_output=True, text=True
    )


@pytest.mark.needs("gcc")
def test_structures_and_codes_are_those_of_the_header(header: Path) -> None:
    claims = [f"{ours} == {theirs}" for ours, theirs in (CONSTANTS | HEADER_ONLY).items()]
    for ours, (theirs, _, members) in STRUCTURES.items():
        claims.append(f"sizeof({ours}) == sizeof({theirs})")
        for one, other in members.items():
            claims.append(f"offsetof({ours}, {one}) == offsetof({theirs}, {other})")
            claims.append(f"sizeof((({ours} *)0)->{one}) == sizeof((({theirs} *)0)->{other})")
    lines = ["#include <stddef.h>", f'#include "{header}"', f'#include "{HERE / "answers.h"}"']
    lines += [f'_Static_assert({claim}, "{claim}");' for claim in claims]
    compiled = gcc("-fsyntax-only", source="\n".join(lines) + "\n")
    assert compiled.returncode == 0, compiled.stderr


@pytest.mark.needs("gcc")
def test_structures_and_codes_are_those_of_pynvml(tmp_path: Path) -> None:
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{HERE / "answers.h"}"', "int main(void) {"]
    expected: dict[str, int] = {}
    for ours, (_, theirs, members) in STRUCTURES.items():
        expected[f"sizeof({ours})"] = ctypes.sizeof(theirs)
        expected |= {f"offsetof({ours}, {one})": getattr(theirs, other).offset for one, other in members.items()}
    expected |= {ours: getattr(pynvml, theirs) for ours, theirs in CONSTANTS.items()}
    lines += [f'printf("%s\\t%lld\\n", "{claim}", (long long)({claim}));' for claim in expected]
    compiled = gcc("-o", str(tmp_path / "told"), source="\n".join([*lines, "}"]))
    assert compiled.returncode == 0, compiled.stderr
    told = subprocess.run([tmp_path / "told"], capture_output=True, text=True, check=True).stdout
    found = dict(line.split("\t") for line in told.splitlines())
    assert {claim: int(value) for claim, value in found.items()} == expected


def parameters(preprocessed: str, pattern: str) -> dict[str, list[str]]:
    """For each function the widths of its parameters: pointer, 8 or 4 bytes."""
    found = {}
    for name, inside in re.findall(pattern, preprocessed):
        each = [part.strip() for part in inside.split(",") if part.strip() not in ("", "void")]
        found[name] = [width(part) for part in each]
    return found


def width(parameter: str) -> str:
    if "*" in parameter or any(parameter.startswith(name) for name in POINTERS):
        return "pointer"
    return "8" if "long long" in parameter else "4"


@pytest.mark.needs("gcc")
def test_functions_take_what_the_header_says(header: Path) -> None:
    apart = [gcc("-E", "-P", source=f'#include "{HERE / source}"').stdout for source in NVML_SOURCES]
    ours = parameters("\n".join(apart), r"\b(nvml[A-Z]\w+)\(([^()]*)\)\s*\{")
    theirs = parameters(gcc("-E", "-P", source=f'#include "{header}"').stdout, r"\b(nvml[A-Z]\w+)\s*\(([^()]*)\);")
    assert len(ours) > 50
    assert ours == {name: theirs.get(name) for name in ours}


def test_nothing_but_the_functions_of_nvml_is_exported(driver: FakeDriver) -> None:
    library = driver.directory / "libnvidia-ml.so.1"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in listed.splitlines()}
    named = set(re.findall(r"X\((nvml\w+)\)", (HERE / "symbols.h").read_text()))
    assert exported == named | {"nvmlErrorString"}


def test_the_library_is_found_by_its_name(driver: FakeDriver) -> None:
    library = driver.directory / "libnvidia-ml.so.1"
    told = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    assert re.search(r"SONAME\s+libnvidia-ml\.so\.1$", told, re.MULTILINE)
